"""Unfitted estimators for the batteries: defaults, except where those take long."""

from sklearn.ensemble import GradientBoostingClassifier

from bagwise.compose import SimpleMIRegressor, WrapperMI

_SMALL_NET = {
    "hidden": 12,
    "attention": 6,
    "n_models": 2,
    "learning_rate": 0.03,
    "max_epochs": 8,
}

# Parameters that make a fit cheap without changing what is computed. A class that is
# not listed is tested with its defaults.
CHEAP = {
    # What is exact but for the tolerance of the solver is compared to seven digits.
    "BagSVC": {"tol": 1e-8},
    "AttentionBagClassifier": _SMALL_NET,
    "AttentionBagRegressor": _SMALL_NET,
    # Its ten members are tested in tests/ensemble; the battery tests the stack.
    "BagClassifier": {
        "members": [("wrapper", WrapperMI(threshold="zero"))],
        "cv": 2,
    },
    "BagRegressor": {"members": [("mean", SimpleMIRegressor())], "cv": 2},
    "BagStackingClassifier": {"cv": 2},
    # Folds follow the order of the bags: with the cut of the training scores the order
    # checks have something to say. `check_defaults_decide` takes the default.
    **dict.fromkeys(
        ("BoxKernelSVC", "MIODM", "SBMIL", "STMIL", "WrapperMI"),
        {"threshold": "train"},
    ),
    "DiverseDensity": {"n_starts": 1},
    "EMDD": {"n_starts": 1},
    "GMIL": {"n_sampled": 500, "max_boxes": 500},
    "MIBoosting": {"n_estimators": 5},
    "MILBoost": {"n_estimators": 10},
    "SAFECV": {"gammas": ("scale",), "rhos": (3.0, 30.0), "cv": 2},
    "TwoLevelClassifier": {
        "estimator": GradientBoostingClassifier(
            n_estimators=5, max_depth=1, learning_rate=0.5, random_state=0
        )
    },
}


def make_instance(cls):
    """Return an unfitted estimator of `cls` that is quick enough to test often."""
    return cls(**CHEAP.get(cls.__name__.removeprefix("RowsAsBags"), {}))
