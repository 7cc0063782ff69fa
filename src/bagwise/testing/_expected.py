"""Checks of scikit-learn that an estimator fails on purpose, each with its reason."""

_SCALE = (
    "the default learner is SVC(gamma='scale'), whose width is the variance of the "
    "rows without their weights"
)

_ROUNDING_PATH = (
    "weights and repeated bags round differently, and a hundred quasi-Newton steps on "
    "a non-convex objective end within the solver's tolerance (1e-6), not within 1e-7"
)

_LIBSVM = (
    "the width of gamma='scale' is the variance of the rows without their weights, and "
    "libsvm stops at its tolerance (1e-4), not at 1e-7; SVC fails this check as well"
)

_MARGIN = (
    "the width of gamma='scale' is the variance of the instances without weights, "
    "and the convex steps stop at tol=1e-4, not at 1e-7; SVC fails this check as well"
)

_BASIS = (
    "the width of gamma='scale' is the variance of the instances without weights, "
    "and the convex steps stop at tol=1e-3, not at 1e-7; SVC fails this check as well"
)

_EMPIRICAL_MAP = (
    "the training bags are the coordinates of the empirical map: a repeated bag is a "
    "repeated coordinate, a weight is not"
)

_PROTOTYPES = (
    "training instances are the candidates for prototypes: a repeated bag brings its "
    "instances once more, a weight does not"
)

_FULL_TREE = (
    "min_samples_leaf counts instances, and deep in a full tree splits are equally "
    "good up to rounding, which differs for weights and repeats; shallow trees agree"
)

_FOLDS = (
    "folds are drawn over bags: a repeated bag may stand on both sides of a split, a "
    "weighted one may not"
)

_STEPS = (
    "validation folds and steps are drawn over bags: a repeated bag takes part in two "
    "steps, a weighted one in one of twice the length; MLPClassifier fails it as well"
)

_NEIGHBOURS = (
    "a repeated bag takes the place of another among the nearest, a weighted one does "
    "not; scikit-learn's own neighbours take no weights at all"
)

_WIDTH = "the width of gamma='scale' is the variance of the instances without weights"

# Class name -> check name -> reason.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "AttentionBagClassifier": {
        "check_sample_weight_equivalence_on_dense_data": _STEPS,
        "check_exchanged_labels": "weights are drawn at the start and do not turn with"
        " the labels",
    },
    "AttentionBagRegressor": {"check_sample_weight_equivalence_on_dense_data": _STEPS},
    "BagClassifier": {"check_sample_weight_equivalence_on_dense_data": _FOLDS},
    "BagKNeighborsRegressor": {
        "check_sample_weight_equivalence_on_dense_data": _NEIGHBOURS,
        "check_sample_weight_equivalence_on_sparse_data": _NEIGHBOURS,
    },
    "BagKernelRidge": {
        "check_sample_weight_equivalence_on_dense_data": _WIDTH,
        "check_sample_weight_equivalence_on_sparse_data": _WIDTH,
    },
    "BagRegressor": {"check_sample_weight_equivalence_on_dense_data": _FOLDS},
    "BagSVR": {
        "check_sample_weight_equivalence_on_dense_data": _LIBSVM,
        "check_sample_weight_equivalence_on_sparse_data": _LIBSVM,
    },
    "BagStackingClassifier": {"check_sample_weight_equivalence_on_dense_data": _FOLDS},
    "BagSVC": {
        "check_sample_weight_equivalence_on_dense_data": _LIBSVM,
        "check_sample_weight_equivalence_on_sparse_data": _LIBSVM,
    },
    "BoxKernelSVC": {"check_sample_weight_equivalence_on_dense_data": _EMPIRICAL_MAP},
    "DiverseDensity": {
        "check_sample_weight_equivalence_on_dense_data": _ROUNDING_PATH,
        "check_sample_weight_equivalence_on_sparse_data": _ROUNDING_PATH,
    },
    "EMDD": {
        "check_class_weight_classifiers": (
            "the cut that is best on training bags lies where the heavy class ends, "
            "and a fifth of its unseen bags fall beyond it"
        ),
        "check_sample_weight_equivalence_on_dense_data": _ROUNDING_PATH,
        "check_sample_weight_equivalence_on_sparse_data": _ROUNDING_PATH,
    },
    "MILDE": {
        "check_sample_weight_equivalence_on_dense_data": _PROTOTYPES,
        "check_sample_weight_equivalence_on_sparse_data": _PROTOTYPES,
    },
    "MILES": {
        "check_class_weight_classifiers": (
            "with a ten-million-fold class weight the best machine selects nothing, "
            "and a constant answer is never given without a warning"
        ),
        "check_sample_weight_equivalence_on_dense_data": _PROTOTYPES,
        "check_sample_weight_equivalence_on_sparse_data": _PROTOTYPES,
    },
    "PCSVM": {
        "check_sample_weight_equivalence_on_dense_data": _BASIS,
        "check_sample_weight_equivalence_on_sparse_data": _BASIS,
    },
    "SimpleMI": {
        "check_sample_weight_equivalence_on_dense_data": _SCALE,
        "check_sample_weight_equivalence_on_sparse_data": (
            "the default learner for sparse data is LinearSVC, which draws at random"
        ),
    },
    "TwoLevelClassifier": {
        "check_sample_weight_equivalence_on_dense_data": _FULL_TREE,
        "check_sample_weight_equivalence_on_sparse_data": _FULL_TREE,
    },
    **{
        name: {
            "check_sample_weight_equivalence_on_dense_data": _MARGIN,
            "check_sample_weight_equivalence_on_sparse_data": _MARGIN,
        }
        for name in (
            "MICA",
            "MILEAGE",
            "MISVM",
            "MiSVM",
            "MissSVM",
            "RegSVM",
            "SBMIL",
            "SMIL",
            "STMIL",
        )
    },
}
