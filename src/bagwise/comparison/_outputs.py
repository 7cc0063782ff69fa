"""What a comparison leaves in its folder beside the runs: the table, the best model."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from bagwise.comparison.comparison import Comparison
from bagwise.io import save

__all__ = ["write_outputs"]


def write_outputs(result: Comparison, out: Path) -> None:
    """Write the table and the refitted best model into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    result.paths["results"] = result.write_csv(out / "results.csv")
    if result.ranking and result.ranking[0].n_folds:
        result.provenance |= _write_best(result, out / "model.bagwise")


def _write_best(result: Comparison, path: Path) -> dict[str, Any]:
    """Refit the best method and save it; return what is to be noted about it.

    Where that fails, the figures of all runs are not lost with it.
    """
    try:
        fitted = result.fit_best()
        found: dict[str, Any] = {"best_params": fitted.params}
        if result.problem.task == "survival":
            text = "not written: model files do not take what models of scikit-survival"
            text += " hold; Comparison.fit_best() gives it, pickle keeps it"
            return {"model": text, **found}
        save(fitted.model, path)
    except Exception as error:
        name = result.ranking[0].method
        text = f"{name} could not be refitted and saved: {error or type(error)}"
        warnings.warn(text, UserWarning, stacklevel=4)
        return {"model": f"not written: {text}"}
    result.paths["model"] = path
    return found
