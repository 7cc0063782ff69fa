"""The checks that every estimator of bags must pass, besides scikit-learn's own.

Each check is a function of an unfitted estimator. The tests run all checks on all
estimators that `all_estimators` finds, so a new estimator is covered without new test
code. A check that does not apply to an estimator is skipped with a reason.
"""

from unittest import SkipTest

from bagwise.testing import _check_data as data
from bagwise.testing import _check_models as models

BATTERY = (
    data.check_containers_agree,
    data.check_sparse_agrees,
    data.check_test_bag_order,
    data.check_training_bag_order,
    data.check_instance_order,
    data.check_training_instance_order,
    data.check_single_instance_bags,
    data.check_duplicated_instances,
    data.check_float32,
    data.check_offset,
    data.check_offset_of_sparse,
    data.check_scales,
    data.check_other_storage,
    data.check_read_only_memory_map,
    data.check_awkward_data,
    models.check_same_seed,
    models.check_n_jobs,
    models.check_pickle,
    models.check_model_file,
    models.check_refit_forgets,
    models.check_numpy_random_state,
    models.check_fit_in_threads,
    models.check_fit_in_process,
    models.check_fit_changes_nothing,
    models.check_parameters_after_fit,
    models.check_classifier_outputs,
    models.check_names_of_labels,
    models.check_ambiguous_labels,
    models.check_exchanged_labels,
    models.check_default_threshold,
    data.check_bad_bags,
    data.check_bad_labels,
    data.check_bad_weights,
    data.check_zero_weights,
    data.check_unusable_values,
    data.check_bad_prediction,
)


def check_bag_estimator(estimator):
    """Run all checks on one estimator of bags; the first failure raises an error.

    Parameters
    ----------
    estimator : estimator
        An unfitted estimator of bags.

    Returns
    -------
    dict of str to str
        The checks that were skipped, with the reasons.
    """
    skipped = {}
    for check in BATTERY:
        try:
            check(estimator)
        except SkipTest as reason:
            skipped[check.__name__] = str(reason)
    return skipped
