"""Studies with bagwise that are no part of the library.

`python -m studies reproduce TABLE` re-runs a published table and writes the measured
figures next to the published ones; `python -m studies leaderboard` ranks all methods of
a store.
`studies.scripts` holds scripts that were run once, `studies/results` their results.
"""
