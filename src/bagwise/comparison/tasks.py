"""What is predicted, and so what is stored and measured.

There is one class of tasks for classes, one for several yes-or-no labels per bag, one
for real values and one for times until an event. Models are fitted on
`Problem.targets`: whatever the classes are called, of two the positive one is 1. What
is stored follows scikit-learn's convention: scores are high for the second class of
`Problem.classes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import Ragged
from bagwise.bags.segments import segment_max
from bagwise.base.survival import concordance
from bagwise.comparison.evaluate import (
    METRICS,
    auroc,
    bag_metrics,
    group_metrics,
    predictions,
    value_metrics,
)
from bagwise.comparison.problem import Problem
from bagwise.metrics import key_instance_success

__all__ = ["Task", "task_of"]

Arrays = Mapping[str, NDArray[Any]]
Figures = dict[str, float | None]
NAN = float("nan")
ROWS = ("truth", "label", "score", "probability", "prediction")


class Task:
    """Base of the tasks.

    Parameters
    ----------
    problem : Problem
        The data.
    """

    name = ""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def metrics(self) -> list[str]:
        """Return the names of the figures that are defined."""
        return [m.name for m in METRICS.values() if self.name in m.tasks]

    def default_metric(self) -> tuple[str, str]:
        """Return the metric to rank by, and why."""
        raise NotImplementedError

    def predict(self, model: Any, X: Any) -> dict[str, NDArray[Any]]:
        """Return the predictions of a model for bags, to be stored."""
        raise NotImplementedError

    def figures(self, found: Arrays) -> Figures:
        """Return the metrics of bags; `found` is what `measured` gives."""
        raise NotImplementedError

    def more_figures(
        self, found: Arrays, test: NDArray[Any], instances: NDArray[Any] | None
    ) -> Figures:
        """Return the metrics of groups and of instances; by default none."""
        return {}

    def measured(self, found: Arrays, test: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return stored arrays with the truth of the test bags among them."""
        raise NotImplementedError

    def figure(self, name: str, found: Arrays) -> float:
        """Return one of the metrics, NaN where it is undefined."""
        value = self.figures(found).get(name)
        return NAN if value is None else value


class Classification(Task):
    """One of two or more classes."""

    name = "classification"

    def default_metric(self) -> tuple[str, str]:
        """Return accuracy; a ranking metric where classes are of very unlike size."""
        counts = np.bincount(self.problem.targets)
        share = counts.min() / counts.sum() * len(counts) / 2
        if share >= 0.3:
            return "accuracy", "as the classes are of similar size"
        percent = f"{100 * counts.min() / counts.sum():.0f}% of the bags"
        if len(counts) == 2 and counts[1] < counts[0]:
            return "average_precision", f"as only {percent} are positive"
        return "auroc", f"as the rarest class has only {percent}"

    def predict(self, model: Any, X: Any) -> dict[str, NDArray[Any]]:
        """Return labels, scores and probabilities towards the second class."""
        classes = np.arange(len(self.problem.classes))
        found = dict(predictions(model, X, classes))
        return self.problem.toward_positive(found)

    def measured(self, found: Arrays, test: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Turn stored arrays to the positive class and add the truth."""
        turned = self.problem.toward_positive(found)
        kept = {name: turned[name] for name in ROWS if name in turned}
        return {**kept, "truth": self.problem.targets[test]}

    def figures(self, found: Arrays) -> Figures:
        """Return the metrics of bags."""
        return bag_metrics(
            found["truth"],
            found["label"].astype(np.int64),
            found["score"],
            found.get("probability"),
            len(self.problem.classes),
        )

    def figure(self, name: str, found: Arrays) -> float:
        """Return one of the metrics; the frequent ones without the others."""
        if name == "accuracy":
            return float((found["truth"] == found["label"]).mean())
        if name == "auroc":
            return auroc(found["truth"], found["score"])
        return super().figure(name, found)

    def more_figures(
        self, found: Arrays, test: NDArray[Any], instances: NDArray[Any] | None
    ) -> Figures:
        """Return the metrics of groups and of key instances."""
        problem, truth = self.problem, found["truth"]
        figures: Figures = {}
        if problem.groups is not None:
            probability = found.get("probability")
            figures = group_metrics(
                truth, found["score"], probability, problem.groups[test]
            )
        known_labels = problem.instance_labels
        if instances is None or instances.ndim > 1:  # one column per class
            known_labels = None
        if known_labels is not None:
            X = problem.X
            rows = [np.arange(X.offsets[i], X.offsets[i + 1]) for i in test]
            offsets = np.append(0, np.cumsum(X.sizes[test]))
            known = Ragged(known_labels[np.concatenate(rows)], offsets)
            holding = (truth == 1) & (segment_max(known.values, offsets) > 0)
            if holding.any():
                figures["key_success"] = key_instance_success(
                    known, Ragged(np.asarray(instances), offsets), bags=holding
                )
        return figures


class MultiLabel(Task):
    """Several yes-or-no labels per bag: figures are means over the labels."""

    name = "multilabel"

    def default_metric(self) -> tuple[str, str]:
        """Return the area under the ROC curve, the same for rare and common labels."""
        n = self.problem.y.shape[1]
        return "auroc", f"the mean over {n} labels, regardless of how rare they are"

    def predict(self, model: Any, X: Any) -> dict[str, NDArray[Any]]:
        """Return labels, scores and probabilities with a column for each label."""
        parts = [predictions(one, X, np.arange(2)) for one in model.estimators_]
        names = [name for name in parts[0] if all(name in part for part in parts)]
        return {n: np.column_stack([part[n] for part in parts]) for n in names}

    def measured(self, found: Arrays, test: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Add the truth."""
        kept = {name: found[name] for name in ROWS if name in found}
        return {**kept, "truth": self.problem.targets[test]}

    def figures(self, found: Arrays) -> Figures:
        """Return the means over labels; a label of one kind only has no area."""
        probability = found.get("probability")
        columns = [
            bag_metrics(
                found["truth"][:, k],
                found["label"][:, k].astype(np.int64),
                found["score"][:, k],
                None if probability is None else probability[:, k],
                2,
            )
            for k in range(found["truth"].shape[1])
        ]
        means: Figures = {}
        for name in columns[0]:
            values = [v for v in (column[name] for column in columns) if v is not None]
            means[name] = float(np.mean(values)) if values else None
        return means


class Regression(Task):
    """Real values."""

    name = "regression"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.variance = float(np.var(problem.targets))

    def default_metric(self) -> tuple[str, str]:
        """Return R2."""
        return "r2", "the share of the variance that is explained"

    def predict(self, model: Any, X: Any) -> dict[str, NDArray[Any]]:
        """Return one value per bag."""
        return {"prediction": np.asarray(model.predict(X), dtype=np.float64)}

    def measured(self, found: Arrays, test: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Add the truth."""
        truth = self.problem.targets[test]
        return {"prediction": found["prediction"], "truth": truth}

    def figures(self, found: Arrays) -> Figures:
        """Return the metrics of bags."""
        return value_metrics(found["truth"], found["prediction"], self.variance)

    def figure(self, name: str, found: Arrays) -> float:
        """Return one of the metrics; those of errors without ranks of all bags."""
        error = found["prediction"] - found["truth"]
        if name == "mae":
            return float(np.mean(np.abs(error)))
        if name in ("r2", "rmse"):
            square = float(np.mean(error**2))
            return 1.0 - square / self.variance if name == "r2" else square**0.5
        return super().figure(name, found)


class Survival(Task):
    """Times until an event, some of them censored."""

    name = "survival"

    def default_metric(self) -> tuple[str, str]:
        """Return the concordance index."""
        return (
            "concordance",
            "the share of pairs whose events come in the order of risk",
        )

    def predict(self, model: Any, X: Any) -> dict[str, NDArray[Any]]:
        """Return one risk per bag."""
        return {"score": np.asarray(model.predict(X), dtype=np.float64)}

    def measured(self, found: Arrays, test: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Add events and times."""
        return {"score": found["score"], "truth": self.problem.targets[test]}

    def figures(self, found: Arrays) -> Figures:
        """Return the concordance index, None where no pair can be compared."""
        truth = found["truth"]
        value = concordance(truth["event"], truth["time"], found["score"])
        return {"concordance": None if np.isnan(value) else value}


_TASKS: dict[str, type[Task]] = {
    task.name: task for task in (Classification, MultiLabel, Regression, Survival)
}


def task_of(problem: Problem) -> Task:
    """Return the task of a problem."""
    return _TASKS[problem.task](problem)
