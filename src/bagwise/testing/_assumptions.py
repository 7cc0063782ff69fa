"""Measure on simulated bags what a method assumes.

Under the standard assumption a bag is positive if and only if it holds a positive
instance. A method may do well on every benchmark and still learn something else, such
as "positive unless a negative instance is present"; these tests reveal it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.utils import check_random_state

from bagwise.bags import Bags

__all__ = [
    "TESTS",
    "AssumptionTest",
    "MILAssumptions",
    "check_standard_assumption",
    "mil_assumptions",
]

N_FEATURES = 16
DISTANCE = 4.0  # distance of a concept from the mean of the background
SPREAD = 0.3  # standard deviation of the instances of a concept
LEARNED = 0.9  # AUROC from which a concept counts as learned
CHANCE = 0.1  # AUROC within 0.5 +- this is chance: 2.4 standard errors at 200 bags
ROUNDING = 1e-9  # relative; a smaller decrease of a score does not count

Counts = dict[str, int]
Recipe = Callable[[Any, bool, bool], Counts]


def _some(rng: Any) -> int:
    return int(rng.randint(1, 3))


def _presence(rng: Any, positive: bool, test: bool) -> Counts:
    return {"c": _some(rng)} if positive else {}


def _distractors(rng: Any, positive: bool, test: bool) -> Counts:
    if test:
        return {"c": _some(rng), "p": _some(rng)} if positive else {}
    return {"c": _some(rng)} if positive else {"p": _some(rng)}


def _frequency(rng: Any, positive: bool, test: bool) -> Counts:
    many = positive if test else not positive
    q = int(rng.randint(4, 7)) if many else int(rng.randint(0, 2))
    return {"c": int(positive), "q": q}


def _two_concepts(rng: Any, positive: bool, test: bool) -> Counts:
    if positive:
        return {"c": _some(rng), "d": _some(rng)}
    kind = rng.randint(3)
    return [{"c": _some(rng)}, {"d": _some(rng)}, {}][kind]


def _threshold(rng: Any, positive: bool, test: bool) -> Counts:
    distractors = positive if test else not positive
    count = int(rng.randint(4, 7)) if positive else _some(rng)
    return {"c": count, "p": _some(rng) if distractors else 0}


# Name of a test -> number of instances of each concept in a bag.
TESTS: Mapping[str, Recipe] = {
    "presence": _presence,
    "distractors": _distractors,
    "frequency": _frequency,
    "two concepts": _two_concepts,
    "threshold": _threshold,
}
_STANDARD = ("distractors", "frequency")
_GENERALIZED = ("two concepts", "threshold")
MONOTONE = "monotone"


@dataclass(frozen=True)
class AssumptionTest:
    """Result of one test.

    Attributes
    ----------
    name : str
        Which test.
    auroc : float
        Mean AUROC on the test bags; NaN for "monotone".
    low, high : float
        Smallest and largest AUROC over the repeats.
    falls : float
        For "monotone": share of positive bags whose score decreases when a background
        instance is added. NaN for the other tests.
    fall : float
        Mean decrease of those scores, in units of the difference between the mean
        scores of positive and negative bags.
    verdict : str
        "passes", "fails", "unreliable" (fails on some data sets), "chance" or
        "inverted"; for "monotone", "never decreases" or "decreases".
    """

    name: str
    auroc: float
    low: float
    high: float
    falls: float
    fall: float
    verdict: str

    def __str__(self) -> str:
        if self.name == MONOTONE:
            share = f"in {self.falls:.0%} of bags"
            how = f"{share}, by {self.fall:.2g} of the gap" if self.falls else share
            return f"{self.name:<20} {self.verdict} ({how})"
        spread = f"[{self.low:.2f}, {self.high:.2f}]"
        return f"{self.name:<20} {self.auroc:.2f} {spread}  {self.verdict}"


@dataclass(frozen=True)
class MILAssumptions:
    """Measured assumptions of a method.

    Attributes
    ----------
    name : str
        The estimator.
    tests : tuple of AssumptionTest
        One entry per test.
    n_repeats, n_bags : int
        Number of simulated data sets, and of training (and of test) bags in each.
    """

    name: str
    tests: tuple[AssumptionTest, ...]
    n_repeats: int
    n_bags: int

    def __getitem__(self, name: str) -> AssumptionTest:
        """Return the test of a name."""
        for test in self.tests:
            if test.name == name:
                return test
        known = ", ".join(test.name for test in self.tests)
        raise KeyError(f"no test {name!r}; there are: {known}")

    @property
    def label(self) -> str:
        """Assumption that the results are consistent with.

        "cannot learn it" if presence is not learned; "neither" if a shift of
        irrelevant instances misleads the method on any data set; else "generalized" if
        it also learns that two concepts must occur together and that instances must be
        counted, and "standard" if it does not.
        """
        return label_of(self._means(), self._worst())

    @property
    def respects_standard_assumption(self) -> bool | None:
        """Whether the standard assumption holds; None if the tests do not show it.

        None if presence was not learned and no test has an inverted ranking.
        """
        return respects(self._means(), self._worst())

    def _means(self) -> dict[str, float]:
        return {test.name: test.auroc for test in self.tests}

    def _worst(self) -> dict[str, float]:
        return {test.name: test.low for test in self.tests}

    def to_frame(self) -> Any:
        """Return one row per test as a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            One row per test.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "to_frame needs pandas (pip install pandas); .tests has the same"
            ) from None
        return pandas.DataFrame([vars(test) for test in self.tests])

    def __repr__(self) -> str:
        """Return one line per test, and the label."""
        lines = [f"{self.name}: {self.label}", *(f"  {test}" for test in self.tests)]
        lines.append(
            f"  ({self.n_repeats} data sets of {self.n_bags} + {self.n_bags} bags)"
        )
        return "\n".join(lines)


def label_of(auroc: Mapping[str, float], worst: Mapping[str, float]) -> str:
    """Return the label for mean AUROCs and those of the worst data set."""
    if not auroc["presence"] >= LEARNED:
        return "cannot learn it"
    if any(worst[name] < 0.5 + CHANCE for name in _STANDARD):
        return "neither"
    if all(auroc[name] >= LEARNED for name in _GENERALIZED):
        return "generalized"
    return "standard"


def respects(auroc: Mapping[str, float], worst: Mapping[str, float]) -> bool | None:
    """Return whether the AUROCs are consistent with the standard assumption."""
    if any(auroc[name] <= 0.5 - CHANCE for name in _STANDARD):
        return False  # even if presence is too hard: the ranking is inverted
    label = label_of(auroc, worst)
    return None if label == "cannot learn it" else label != "neither"


def check_standard_assumption(estimator: Any, n_bags: int = 80) -> None:
    """Assert that a method respects the standard assumption, as its tag states.

    Three tests on one simulated data set each.

    Parameters
    ----------
    estimator : estimator
        An unfitted classifier whose tag `respects_standard_assumption` is True.
    n_bags : int, default=80
        Training bags, and as many test bags.
    """
    for name in ("presence", *_STANDARD):
        train, test = draw(name, n_bags, 0)
        model = _fit(estimator, *train, 0)
        area = roc_auc_score(test[1], bag_scores(model, test[0]))
        least = LEARNED if name == "presence" else 0.5 + CHANCE
        assert area >= least, (
            f"{_describe(estimator)} has the tag respects_standard_assumption, but the "
            f"test {name!r} gives an AUROC of {area:.2f}, below {least}."
        )


def mil_assumptions(
    estimator: Any,
    random_state: Any = 0,
    *,
    n_repeats: int = 5,
    n_bags: int = 200,
) -> MILAssumptions:
    r"""Measure what a method assumes about bags.

    Background instances are simulated from the standard normal distribution in 16
    dimensions, instances of a concept around a point at distance 4 (standard deviation
    0.3); concepts lie in orthogonal directions. Bags hold 8 to 20 instances, and half
    of the bags are positive. The tests follow the idea of [1]_:

    - **presence**: positive bags hold 1 or 2 instances of concept c. An AUROC below 0.9
      means that the method cannot learn this; the other tests are then not informative.
    - **distractors**: in training, negative bags hold 1 or 2 instances of p; in
      the test, positive bags do, in addition to c. An AUROC below 0.5 means that p was
      learned as evidence against a positive label.
    - **frequency**: positive bags hold one instance of c. In training negative bags
      hold 4 to 6 of q and positive ones 0 or 1; in the test it is reversed.
    - **two concepts** (generalized): c and d together make a bag positive; one of them
      does not.
    - **threshold** (generalized): 4 to 6 of c make a bag positive, 1 or 2 do not; p is
      in the negative bags in training and in the positive ones in the test.
    - **monotone**: one background instance is added to each positive test bag of the
      first test. Under the standard assumption no score may decrease.

    Parameters
    ----------
    estimator : estimator
        An unfitted classifier of bags (or a pipeline of one), or a regressor, which is
        fitted to the labels 0 and 1. It is cloned, and every `random_state` is set.
    random_state : int, RandomState instance or None, default=0
        Random seed of data and fits.
    n_repeats : int, default=5
        Simulated data sets; five fits each.
    n_bags : int, default=200
        Training bags, and as many test bags.

    Returns
    -------
    MILAssumptions
        One result per test, and a label: standard, generalized, neither, or cannot
        learn it.

    Notes
    -----
    The label is measured with these parameters and these data; it is not a proof. The
    tests of distractors and of frequency are passed if no data set gives an AUROC below
    0.6, the others at a mean of 0.9. With 200 test bags, a random score has an AUROC of
    0.5 with a standard error of 0.04.

    References
    ----------
    .. [1] Raff, E. and Holt, J., "Reproducibility in multiple instance learning: a case
       for algorithmic unit tests", NeurIPS, 2023.

    Examples
    --------
    >>> from bagwise.svm import MISVM
    >>> from bagwise.testing import mil_assumptions
    >>> mil_assumptions(MISVM(), n_repeats=1, n_bags=60).label
    'standard'
    """
    if n_repeats < 1:
        raise ValueError(f"n_repeats must be at least 1, got {n_repeats}.")
    if n_bags < 10:
        raise ValueError(f"n_bags must be at least 10, got {n_bags}.")
    rng = check_random_state(random_state)
    areas: dict[str, list[float]] = {name: [] for name in TESTS}
    falls, amounts = [], []
    for _ in range(n_repeats):
        seed = int(rng.randint(2**31 - 1))
        for name in TESTS:
            train, test = draw(name, n_bags, seed)
            model = _fit(estimator, *train, seed)
            scores = bag_scores(model, test[0])
            areas[name].append(float(roc_auc_score(test[1], scores)))
            if name == "presence":
                share, amount = _monotone(model, *test, scores, seed)
                falls.append(share)
                amounts.append(amount)
    lines = [_test_result(name, values) for name, values in areas.items()]
    lines.append(monotone_line(falls, amounts))
    return MILAssumptions(_describe(estimator), tuple(lines), n_repeats, n_bags)


def draw(
    name: str, n_bags: int, random_state: Any
) -> tuple[tuple[Bags, NDArray[Any]], tuple[Bags, NDArray[Any]]]:
    """Simulate the training and the test bags, with labels 0 and 1, of one test.

    Parameters
    ----------
    name : str
        A key of `TESTS`.
    n_bags : int
        Bags of each half.
    random_state : int or RandomState instance
        Fixes the data.
    """
    rng = check_random_state(random_state)
    directions, _ = np.linalg.qr(rng.standard_normal((N_FEATURES, 4)))
    concepts = dict(zip("cdpq", DISTANCE * directions.T, strict=True))
    halves = []
    for test in (False, True):
        y = np.arange(n_bags) % 2
        bags = []
        for label in y:
            counts = TESTS[name](rng, bool(label), test)
            rows = rng.standard_normal((rng.randint(8, 21), N_FEATURES))
            place = 0
            for concept, count in counts.items():
                noise = SPREAD * rng.standard_normal((count, N_FEATURES))
                rows[place : place + count] = concepts[concept] + noise
                place += count
            bags.append(rows[rng.permutation(len(rows))])
        halves.append((Bags.from_list(bags), y))
    return halves[0], halves[1]


def bag_scores(model: Any, X: Any) -> NDArray[np.float64]:
    """Return one score per bag, higher for label 1."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X), dtype=np.float64)
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X), dtype=np.float64)[:, 1]
    return np.asarray(model.predict(X), dtype=np.float64)


def _fit(estimator: Any, X: Bags, y: NDArray[Any], seed: int) -> Any:
    model = clone(estimator)
    names = [
        name for name in model.get_params() if name.split("__")[-1] == "random_state"
    ]
    return model.set_params(**dict.fromkeys(names, seed % 2**31)).fit(X, y)


def _monotone(
    model: Any, X: Bags, y: NDArray[Any], scores: NDArray[Any], seed: int
) -> tuple[float, float]:
    """Return the share of positive bags whose score decreases, and by how much."""
    rng = check_random_state(seed)
    positive = np.flatnonzero(y == 1)
    new = rng.standard_normal((len(positive), N_FEATURES))
    grown = [np.vstack([X[int(i)], new[k]]) for k, i in enumerate(positive)]
    change = bag_scores(model, Bags.from_list(grown)) - scores[positive]
    gap = float(scores[y == 1].mean() - scores[y == 0].mean())
    fell = change < -ROUNDING * max(1.0, float(np.abs(scores).max()))
    if not fell.any():
        return 0.0, 0.0
    return float(fell.mean()), float(-change[fell].mean() / max(abs(gap), 1e-300))


def _test_result(name: str, values: list[float]) -> AssumptionTest:
    mean = float(np.mean(values))
    low, high, nan = min(values), max(values), float("nan")
    return AssumptionTest(name, mean, low, high, nan, nan, verdict_of(name, mean, low))


def verdict_of(name: str, auroc: float, worst: float) -> str:
    """Return the verdict for the mean AUROC and that of the worst data set."""
    if name not in _STANDARD:
        return "passes" if auroc >= LEARNED else "fails"
    if worst >= 0.5 + CHANCE:
        return "passes"
    if auroc >= 0.5 + CHANCE:
        return "unreliable"
    return "inverted" if auroc <= 0.5 - CHANCE else "chance"


def monotone_line(falls: list[float], amounts: list[float]) -> AssumptionTest:
    """Return the result of the last test from the shares and decreases of all data."""
    share = float(np.mean(falls))
    fell = [a for f, a in zip(falls, amounts, strict=True) if f > 0]
    fall = float(np.mean(fell)) if fell else 0.0
    verdict = "decreases" if share > 0 else "never decreases"
    nan = float("nan")
    return AssumptionTest(MONOTONE, nan, nan, nan, share, fall, verdict)


def _describe(estimator: Any) -> str:
    steps = getattr(estimator, "steps", None)
    return type(steps[-1][1] if steps else estimator).__name__
