"""Checks of scikit-learn that an estimator fails on purpose, each with its reason."""

_SCALE = (
    "the default learner is SVC(gamma='scale'), whose width is the variance of the "
    "rows without their weights"
)

# Class name -> check name -> reason.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "SimpleMI": {
        "check_sample_weight_equivalence_on_dense_data": _SCALE,
        "check_sample_weight_equivalence_on_sparse_data": (
            "the default learner for sparse data is LinearSVC, which draws at random"
        ),
    },
}
