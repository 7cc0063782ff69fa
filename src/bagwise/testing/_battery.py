"""The checks that every estimator of bags must pass, besides scikit-learn's own.

Each check is a function of an unfitted estimator. They run over everything that
`all_estimators` finds; a new estimator needs no test code to be covered by them. What
does not concern an estimator is skipped with a reason, never passed over in silence.
"""

from unittest import SkipTest

from bagwise.testing import _check_data as data
from bagwise.testing import _check_defaults as defaults
from bagwise.testing import _check_fit as fits
from bagwise.testing import _check_input as inputs
from bagwise.testing import _check_labels as labels

BATTERY = (
    data.check_containers_agree,
    data.check_test_bag_order,
    data.check_training_bag_order,
    data.check_instance_order,
    data.check_training_instance_order,
    data.check_bags_of_one,
    data.check_duplicated_instances,
    data.check_float32,
    data.check_offset,
    data.check_offset_of_sparse,
    data.check_units,
    data.check_other_storage,
    data.check_read_only_memory_map,
    data.check_awkward_data,
    fits.check_same_seed,
    fits.check_n_jobs,
    fits.check_round_trip,
    fits.check_refit_forgets,
    fits.check_kind_of_seed,
    fits.check_fit_in_threads,
    fits.check_fit_in_process,
    fits.check_fit_changes_nothing,
    labels.check_classifier_outputs,
    labels.check_names_of_labels,
    labels.check_doubtful_labels,
    labels.check_exchanged_labels,
    defaults.check_defaults_decide,
    inputs.check_bad_bags,
    inputs.check_bad_labels,
    inputs.check_bad_weights,
    inputs.check_bags_without_weight,
    inputs.check_other_values,
    inputs.check_bad_prediction,
)


def check_bag_estimator(estimator):
    """Run the whole battery on one estimator.

    Parameters
    ----------
    estimator : estimator
        An unfitted estimator of bags.

    Returns
    -------
    dict of str to str
        The checks that were left out, and why.
    """
    skipped = {}
    for check in BATTERY:
        try:
            check(estimator)
        except SkipTest as reason:
            skipped[check.__name__] = str(reason)
    return skipped
