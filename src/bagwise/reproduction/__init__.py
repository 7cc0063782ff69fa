"""Published tables, measured again under their protocols."""

from bagwise.reproduction._leaderboard import Leaderboard, leaderboard
from bagwise.reproduction._pages import write_results_page
from bagwise.reproduction._reproduce import Reproduction, reproduce
from bagwise.reproduction._tables import list_tables, load_table
from bagwise.reproduction._verdicts import RULE

__all__ = [
    "RULE",
    "Leaderboard",
    "Reproduction",
    "leaderboard",
    "list_tables",
    "load_table",
    "reproduce",
    "write_results_page",
]
