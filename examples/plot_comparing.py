"""
Comparing methods by nested cross-validation
============================================

`compare` evaluates all methods on the same folds, tunes them inside the training folds,
and computes confidence intervals and corrected tests. The result can be plotted,
written as a report, and refitted.
"""

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import bagwise
from bagwise.datasets import load_digit_bags
from bagwise.report import plot_ranking, plot_roc, write_report

X, y = load_digit_bags(100, random_state=0, return_X_y=True)
result = bagwise.compare(
    X,
    y,
    methods=["SimpleMI", "MI-SVM (linear)", "miFV", "Citation-kNN"],
    n_jobs=1,
    progress=False,
)
table = result.ranking_frame
print(table[["method", "mean", "low", "high", "verdict", "fit_time"]].round(3))

# %%
# With 100 bags the intervals are wide. The verdicts come from paired tests.
fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
plot_ranking(result, ax=axes[0])
plot_roc(result, ax=axes[1])
plt.show()

# %%
# The parameters chosen in each fold. A warning names parameters at the end of a grid.
print(result.frame[["method", "fold", "params"]].head(8).to_string(index=False))
for method in result.methods:
    for told in result.grid_ends(method.name):
        print(f"{method.name}: {told}")

# %%
# The report, and the best method fitted on all bags.
page = write_report(result, Path(tempfile.mkdtemp()) / "report.html")
print(f"report of {page.stat().st_size / 1e6:.1f} MB")
model = result.fit_best().model
print(model.predict(X[:5]), y[:5])
