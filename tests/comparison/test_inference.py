"""Intervals and tests against independent computations and simulated coverage."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    log_loss,
    r2_score,
    roc_auc_score,
)

from bagwise.comparison.contributions import FIGURES, contributions
from bagwise.comparison.inference import (
    bags_needed,
    detectable,
    difference,
    holm,
    interval,
    repeats_for,
    selected,
    standard_error,
    unreliable,
)
from bagwise.metrics import concordance_index


def example(n=60, seed=0, n_classes=2):
    """Return rows of one test set with every column that some figure needs."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n)
    score = truth + rng.normal(0.0, 1.2, n)
    return {
        "truth": truth,
        "label": np.clip(np.round(score), 0, n_classes - 1).astype(int),
        "score": np.round(score, 1),  # with ties
        "probability": 1.0 / (1.0 + np.exp(0.5 - score)),
    }


def values_example(n=60, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    return {"truth": truth, "prediction": truth + rng.normal(0.0, 0.7, n)}


def survival_example(n=40, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.empty(n, dtype=[("event", bool), ("time", float)])
    truth["event"] = rng.random(n) < 0.6
    truth["time"] = np.round(rng.exponential(5.0, n), 1)
    return {"truth": truth, "score": -truth["time"] + rng.normal(0.0, 4.0, n)}


def of(metric, rows, **kwargs):
    n = len(next(iter(rows.values())))
    return contributions(metric, rows, np.arange(n), **kwargs)


def take(rows, index):
    return {name: column[index] for name, column in rows.items()}


CASES = {
    "accuracy": (example(), lambda r: np.mean(r["truth"] == r["label"])),
    "balanced_accuracy": (
        example(),
        lambda r: balanced_accuracy_score(r["truth"], r["label"]),
    ),
    "log_loss": (example(), lambda r: log_loss(r["truth"], r["probability"])),
    "auroc": (example(), lambda r: roc_auc_score(r["truth"], r["score"])),
    "average_precision": (
        example(),
        lambda r: average_precision_score(r["truth"], r["score"]),
    ),
    "r2": (values_example(), lambda r: r2_score(r["truth"], r["prediction"])),
    "rmse": (
        values_example(),
        lambda r: np.mean((r["truth"] - r["prediction"]) ** 2),
    ),
    "mae": (
        values_example(),
        lambda r: np.mean(np.abs(r["truth"] - r["prediction"])),
    ),
    "spearman": (
        values_example(),
        lambda r: stats.spearmanr(r["truth"], r["prediction"])[0],
    ),
    "concordance": (
        survival_example(),
        lambda r: concordance_index(r["truth"], r["score"]),
    ),
}


# What bags contribute -----------------------------------------------------------------


def test_every_figure_but_one_has_a_case():
    assert set(CASES) == set(FIGURES) - {"key_success"}


@pytest.mark.parametrize("metric", CASES)
def test_value_is_that_of_the_metric(metric):
    rows, figure = CASES[metric]
    assert of(metric, rows).value == pytest.approx(figure(rows), abs=1e-12)


@pytest.mark.parametrize("metric", CASES)
def test_contributions_are_those_of_the_jackknife(metric):
    """Leaving a bag out changes the figure by what the bag contributes."""
    rows, figure = CASES[metric]
    n = len(rows["truth"])
    found = of(metric, rows)
    left_out = np.array([figure(take(rows, np.arange(n) != i)) for i in range(n)])
    jackknife = (left_out.mean() - left_out) * (n - 1) / n
    assert found.totals.sum() == pytest.approx(0.0, abs=1e-10)
    assert np.corrcoef(found.totals, jackknife)[0, 1] > 0.99
    assert found.totals.std() == pytest.approx(jackknife.std(), rel=0.08)


@pytest.mark.parametrize("metric", CASES)
def test_variance_is_that_of_the_bootstrap(metric):
    rows, figure = CASES[metric]
    n = len(rows["truth"])
    rng = np.random.default_rng(0)
    draws = [figure(take(rows, rng.integers(0, n, n))) for _ in range(400)]
    found = of(metric, rows, fixed=True)
    error = np.sqrt(np.sum(found.totals**2))
    assert error == pytest.approx(np.std(draws), rel=0.2)


def test_auroc_variance_is_unbiased_by_the_definition():
    """Against all pairs of pairs: DeLong's variance, less its surplus."""
    rows = example(24)
    positive = rows["score"][rows["truth"] == 1]
    negative = rows["score"][rows["truth"] == 0]
    m, n = len(positive), len(negative)
    phi = np.sign(positive[:, None] - negative) / 2 + 0.5
    same_positive = [
        phi[i, j] * phi[i, k]
        for i in range(m)
        for j in range(n)
        for k in range(n)
        if j != k
    ]
    same_negative = [
        phi[i, j] * phi[k, j]
        for i in range(m)
        for k in range(m)
        for j in range(n)
        if i != k
    ]
    apart = [
        phi[i, j] * phi[k, h]
        for i, k in product(range(m), repeat=2)
        if i != k
        for j, h in product(range(n), repeat=2)
        if j != h
    ]
    square = np.mean(apart)  # unbiased for the square of the area
    expected = (
        (n - 1) * (np.mean(same_positive) - square)
        + (m - 1) * (np.mean(same_negative) - square)
        + np.mean(phi**2)
        - square
    ) / (m * n)
    found = of("auroc", rows)
    n_units = m + n
    variance = np.sum(found.totals**2) * n_units / (n_units - 1)
    assert variance == pytest.approx(expected, rel=1e-10)


def test_runs_are_averaged_for_areas_and_joined_for_average_precision():
    rows = example(60)
    run = np.arange(60) % 3
    areas = [
        roc_auc_score(*(rows[c][run == k] for c in ("truth", "score")))
        for k in range(3)
    ]
    assert of("auroc", rows, run=run).value == pytest.approx(np.mean(areas))
    joined = average_precision_score(rows["truth"], rows["score"])
    assert of("average_precision", rows, run=run).value == pytest.approx(joined)


def test_leave_one_out_ranks_all_bags_together():
    rows = example(30)
    alone = of("auroc", rows, run=np.arange(30))
    assert alone.value == pytest.approx(roc_auc_score(rows["truth"], rows["score"]))
    positive = rows["truth"].mean()  # size: two classes of the harmonic mean of both
    assert alone.size == pytest.approx(4 * 30 * positive * (1 - positive))


def test_columns_are_averaged():
    rng = np.random.default_rng(1)
    truth, score = rng.integers(0, 3, 50), rng.normal(size=(50, 3))
    each = [roc_auc_score(truth == k, score[:, k]) for k in range(3)]
    assert of("auroc", {"truth": truth, "score": score}).value == pytest.approx(
        np.mean(each)
    )
    truth = rng.integers(0, 2, (50, 2))
    found = of("accuracy", {"truth": truth, "label": np.zeros((50, 2), int)})
    assert found.value == pytest.approx(np.mean(truth == 0))


def test_groups_of_one_bag_are_bags():
    for metric, (rows, _) in CASES.items():
        n = len(rows["truth"])
        names = np.random.default_rng(0).permutation(n)
        bags, groups = of(metric, rows), of(metric, rows, groups=names)
        first, second = interval(bags), interval(groups)
        assert (first.low, first.high) == pytest.approx((second.low, second.high))


def test_copies_of_a_bag_in_its_group_add_nothing():
    """Three copies of all bags, grouped, are worth what the bags are worth."""
    for metric in ("accuracy", "balanced_accuracy", "log_loss", "average_precision"):
        rows, _ = CASES[metric]
        n = len(rows["truth"])
        copies = take(rows, np.repeat(np.arange(n), 3))
        once = of(metric, rows)
        thrice = of(metric, copies, groups=np.repeat(np.arange(n), 3))
        assert thrice.totals == pytest.approx(once.totals, abs=1e-12)


def test_order_of_rows_and_names_of_runs_do_not_matter():
    rows = example(50)
    run, order = np.arange(50) % 5, np.random.default_rng(0).permutation(50)
    plain = contributions("auroc", rows, np.arange(50), run=run)
    mixed = contributions(
        "auroc", take(rows, order), np.arange(50)[order], run=(7 - run)[order]
    )
    assert mixed.value == pytest.approx(plain.value)
    assert mixed.totals == pytest.approx(plain.totals, abs=1e-12)


def test_variance_between_repeats():
    """Two repeats of five folds: half the squared difference of losses, by hand."""
    one, two = example(40, 1), example(40, 2)
    two["truth"] = one["truth"]
    rows = {name: np.concatenate([one[name], two[name]]) for name in one}
    run = np.concatenate([np.arange(40) % 5, 5 + np.arange(40) % 5])
    bag = np.tile(np.arange(40), 2)
    found = contributions("accuracy", rows, bag, run=run)
    loss = [r["truth"] != r["label"] for r in (one, two)]
    expected = np.sum((loss[0].astype(float) - loss[1]) ** 2 / 2) / 40**2
    assert found.run_variance == pytest.approx(expected)
    assert np.isnan(of("accuracy", one).run_variance)
    # The mean variance of a repeat alone, with the mean of both repeats as center.
    each = [np.var(own) * 40 / 40**2 for own in loss]
    assert np.sum(found.totals**2) + found.removed == pytest.approx(
        np.mean(each) + np.diff([own.mean() for own in loss])[0] ** 2 / 160
    )
    assert of("accuracy", one).removed == 0.0


def test_bags_without_key_instance_are_left_out():
    hit = np.array([1.0, np.nan, 0.0, 1.0, np.nan])
    found = of("key_success", {"hit": hit})
    assert (found.value, found.n_bags) == (pytest.approx(2 / 3), 3)


def test_missing_columns_and_classes_give_nan():
    rows = example(20)
    del rows["probability"]
    assert np.isnan(of("log_loss", rows).value)
    rows["truth"] = np.ones(20, int)
    assert np.isnan(of("auroc", rows).value)
    assert np.isnan(interval(of("auroc", rows)).low)


# Intervals ----------------------------------------------------------------------------


def test_wilson_by_root_finding():
    n, hits = 37, 31
    label = np.arange(n) < hits
    found = of("accuracy", {"truth": np.ones(n), "label": label}, fixed=True)
    got = interval(found)
    share, t = hits / n, stats.t.ppf(0.975, n - 1)
    # The variance is unbiased, and counts one more error.
    alone = share * (1 - share)
    size = n * (alone + 1 / n) / (alone * n / (n - 1) + 1 / n)

    def distance(p):
        return (share - p) ** 2 - t**2 * p * (1 - p) / size

    assert got.low == pytest.approx(optimize.brentq(distance, 1e-9, share), abs=1e-9)
    assert got.high == pytest.approx(optimize.brentq(distance, share, 1), abs=1e-9)


@pytest.mark.parametrize("metric", ["accuracy", "auroc", "average_precision"])
def test_bound_of_perfect_results_depends_on_the_number_of_bags(metric):
    lows = []
    for n in (10, 20, 40, 400):
        truth = np.arange(n) % 2
        rows = {"truth": truth, "label": truth, "score": truth - 0.5}
        found = interval(of(metric, rows, run=np.arange(n) // 2 % 5))
        assert found.mean == found.high == 1.0
        lows.append(found.low)
    assert all(a < b for a, b in pairwise(lows))
    assert lows[0] > 0.4
    assert 0.65 < lows[1] < 0.87  # 20 of 20: the exact bound of Clopper-Pearson is .83
    assert 0.97 < lows[3] < 1.0


@pytest.mark.parametrize("right", [True, False])
def test_five_comparisons_show_no_signal(right):
    """Five folds of one pair each agree by chance with a probability of 1 in 16."""
    truth = np.arange(10) % 2
    rows = {"truth": truth, "score": (truth if right else 1 - truth) - 0.5}
    found = interval(of("auroc", rows, run=np.arange(10) // 2))
    assert found.mean == float(right)
    assert found.low < 0.5 < found.high
    pooled = interval(of("auroc", rows))
    assert pooled.low > 0.5 if right else pooled.high < 0.5


def test_twenty_patients_with_two_slides_count_as_twenty():
    truth = np.arange(40) // 2 % 2
    rows = {"truth": truth, "label": truth}
    grouped = interval(of("accuracy", rows, groups=np.arange(40) // 2))
    patients = interval(of("accuracy", take(rows, slice(0, 40, 2))))
    assert grouped.low == pytest.approx(patients.low)


def test_intervals_of_errors():
    rows = values_example(200)
    error = interval(of("rmse", rows, fixed=True), high=np.inf)
    assert 0 < error.low < error.mean < error.high
    assert error.low * error.high == pytest.approx(error.mean**2)
    explained = interval(of("r2", rows, fixed=True), low=-np.inf)
    assert explained.low < explained.mean < explained.high < 1.0
    loss = {"truth": np.ones(50, int), "probability": np.full(50, 0.5)}
    constant = interval(of("log_loss", loss), high=np.inf)
    assert constant.low < np.log(2) < constant.high
    perfect = {"truth": rows["truth"], "prediction": rows["truth"]}
    assert np.isnan(interval(of("r2", perfect), low=-np.inf).low)


def test_more_units_make_a_narrower_interval():
    found = of("auroc", example(60), run=np.arange(60) % 5)
    widths = [
        np.diff([(i := interval(found, times=k)).low, i.high])[0] for k in (1, 2, 4)
    ]
    assert widths[1] / widths[0] == pytest.approx(np.sqrt(1 / 2), rel=0.1)
    assert widths[2] / widths[1] == pytest.approx(np.sqrt(1 / 2), rel=0.1)


def test_few_units():
    assert np.isnan(interval(of("accuracy", example(1))).low)
    assert unreliable(9)
    assert not unreliable(10)
    assert unreliable(100, 2)
    assert not unreliable(100, 3)
    few = difference(of("accuracy", example(9)), of("accuracy", example(9, 1)))
    assert np.isnan(few.p)
    assert np.isnan(few.p_equivalent)
    rows = example(40)
    two = of("accuracy", rows, groups=np.arange(40) % 2)
    assert np.isnan(difference(two, two).p)
    assert not np.isnan(interval(two).low)


# Tests --------------------------------------------------------------------------------


def two_methods(n, seed, metric="accuracy", **kwargs):
    one, two = example(n, seed), example(n, seed + 1)
    two["truth"] = one["truth"]
    return of(metric, one, **kwargs), of(metric, two, **kwargs)


@pytest.mark.parametrize("metric", ["accuracy", "auroc", "log_loss"])
def test_exchange_of_methods_exchanges_the_ends(metric):
    first, second = two_methods(50, 3, metric)
    there, back = difference(first, second), difference(second, first)
    assert (there.effect, there.low, there.high) == pytest.approx(
        (-back.effect, -back.high, -back.low)
    )
    assert (there.p, there.p_equivalent) == pytest.approx((back.p, back.p_equivalent))
    lower = difference(first, second, higher=False)
    assert lower.effect == pytest.approx(back.effect)


def test_one_model_on_a_test_set_is_the_paired_t_test_with_two_more_bags():
    first, second = two_methods(80, 5, fixed=True)
    d = first.totals - second.totals
    variance = np.sum(d**2) * 80 / 79 + 2 / 80**2
    found = difference(first, second)
    assert found.error == pytest.approx(np.sqrt(variance))
    t = abs(found.effect) / np.sqrt(variance)
    assert found.p == pytest.approx(2 * stats.t.sf(t, 79))


def test_test_and_interval_and_equivalence_agree():
    for seed in range(20):
        found = difference(*two_methods(60, 10 * seed))
        assert (found.p < 0.05) == (not found.low <= 0 <= found.high)
        ninety = difference(*two_methods(60, 10 * seed), level=0.9, margin=0.15)
        inside = -0.15 < ninety.low and ninety.high < 0.15
        assert (ninety.p_equivalent < 0.05) == inside


def test_methods_that_agree_are_equivalent_in_many_bags_only():
    for n, equivalent in ((30, False), (1000, True)):
        same = of("accuracy", example(n))
        found = difference(same, same)
        assert found.p == 1.0
        assert found.low < 0 < found.high
        assert (found.p_equivalent < 0.05) == equivalent


def test_different_bags_are_refused():
    with pytest.raises(ValueError, match="different bags"):
        difference(of("accuracy", example(20)), of("accuracy", example(21)))


def test_holm_rejects_what_the_step_down_procedure_rejects():
    rng = np.random.default_rng(4)
    for _ in range(50):
        p = {str(i): float(v) for i, v in enumerate(rng.random(6) ** 3)}
        adjusted = holm(p)
        for level in (0.01, 0.05, 0.2):
            rejected = set()
            for i, name in enumerate(sorted(p, key=lambda key: p[key])):
                if p[name] > level / (6 - i):
                    break
                rejected.add(name)
            assert {name for name in p if adjusted[name] <= level} == rejected


def test_bags_needed_are_those_at_which_the_test_has_its_power():
    first, second = two_methods(100, 2, fixed=True)
    found = difference(first, second)
    n = bags_needed(found, 100)
    error = found.error * np.sqrt(100 / n)
    power = stats.norm.sf(1.96 - abs(found.effect) / error)
    assert power == pytest.approx(0.8, abs=0.03)
    assert detectable(found) == pytest.approx(2.8 * found.error, rel=0.03)
    assert bags_needed(replace(found, effect=0.0), 100) == np.inf


def test_repeats_at_most_double_the_time():
    assert (repeats_for(199), repeats_for(200)) == (2, 1)


# Further independent computations -----------------------------------------------------


@pytest.mark.parametrize("n", [10, 20, 50, 200])
def test_perfect_results_agree_with_clopper_and_pearson(n):
    """At 0 and 1 the other end is within a third of the exact interval's width."""
    exact = stats.binomtest(n, n).proportion_ci(method="exact")
    rows = {"truth": np.ones(n, int), "label": np.ones(n, int)}
    right = interval(of("accuracy", rows, fixed=True))
    wrong = interval(of("accuracy", {**rows, "label": np.zeros(n, int)}, fixed=True))
    assert right.high == 1.0
    assert wrong.low == 0.0
    assert wrong.high == pytest.approx(1.0 - right.low)
    assert abs(right.low - exact.low) < (1.0 - exact.low) / 3


@pytest.mark.parametrize("hits", [3, 20, 37])
def test_one_model_has_nearly_the_interval_of_wilson(hits):
    n = 40
    label = np.arange(n) < hits
    found = interval(of("accuracy", {"truth": np.ones(n), "label": label}, fixed=True))
    wilson = stats.binomtest(hits, n).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((wilson.low, wilson.high), abs=0.02)


def test_delong_by_brute_force():
    """The variance of DeLong, DeLong and Clarke-Pearson (1988), less the pair's own."""
    rows = example(80, seed=4)
    high = rows["score"][rows["truth"] == 1]
    low = rows["score"][rows["truth"] == 0]
    phi = np.array([[(a > b) + 0.5 * (a == b) for b in low] for a in high])
    m, n = phi.shape
    delong = np.var(phi.mean(1), ddof=1) / m + np.var(phi.mean(0), ddof=1) / n
    found = of("auroc", rows, fixed=True)
    variance = np.sum(found.totals**2) * 80 / 79
    rest = phi - phi.mean(1, keepdims=True) - phi.mean(0) + phi.mean()
    surplus = np.sum(rest**2) / ((m - 1) * (n - 1)) / (m * n)
    assert variance == pytest.approx(delong - surplus, rel=1e-10)
    assert variance == pytest.approx(delong, rel=0.05)


def test_small_classes_have_few_degrees_of_freedom():
    rows = example(60)
    rows["truth"] = (np.arange(60) < 6).astype(int)
    rows["score"] = rows["truth"] + np.random.default_rng(0).normal(size=60)
    found = of("auroc", rows, fixed=True)
    high, low = rows["score"][:6], rows["score"][6:]
    a = np.array([np.mean(x > low) for x in high])
    b = np.array([np.mean(high > x) for x in low])
    v, w = np.var(a, ddof=1) / 6, np.var(b, ddof=1) / 54
    welch = (v + w) ** 2 / (v**2 / 5 + w**2 / 53)
    assert found.df == pytest.approx(welch, rel=1e-6)
    assert of("accuracy", example(60)).df == 59


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "auroc"])
def test_variance_of_groups_is_that_of_a_bootstrap_over_groups(metric):
    """Forty patients with three bags each, whose results are correlated."""
    rng = np.random.default_rng(11)
    patient = np.repeat(np.arange(40), 3)
    truth = np.repeat(np.arange(40) % 2, 3)
    score = truth - 0.5 + np.repeat(rng.normal(0, 0.8, 40), 3)
    score += rng.normal(0, 0.4, 120)
    rows = {"truth": truth, "score": score, "label": (score > 0).astype(int)}
    figure = CASES[metric][1]
    draws = []
    for _ in range(1500):
        picked = rng.integers(0, 40, 40)
        sample = take(rows, (3 * picked[:, None] + np.arange(3)).ravel())
        if 0 < sample["truth"].mean() < 1:
            draws.append(figure(sample))
    found = of(metric, rows, groups=patient, fixed=True)
    assert standard_error(found) == pytest.approx(np.std(draws), rel=0.12)
    alone = of(metric, rows, fixed=True)
    assert standard_error(found) > 1.3 * standard_error(alone)


def test_dispersion_is_that_of_the_figures_of_folds():
    """Between folds over what the bags of a fold explain; large if models differ."""
    rng = np.random.default_rng(3)
    n, run = 200, np.arange(200) % 5
    alike, apart = [], []
    for _ in range(200):
        for found, shares in ((alike, [0.7] * 5), (apart, [0.5, 0.9] * 2 + [0.7])):
            label = rng.random(n) < np.array(shares)[run]
            rows = {"truth": np.ones(n), "label": label}
            found.append(of("accuracy", rows, run=run).dispersion)
            folds = [label[run == k].mean() for k in range(5)]
            by_hand = np.var(folds, ddof=1) / np.var(label) * 40
            assert found[-1] == pytest.approx(by_hand)
    assert np.mean(alike) == pytest.approx(1.0, abs=0.1)
    assert np.mean(apart) > 5
    scores = example(100)
    ranked = of("auroc", scores, run=np.arange(100) % 5)
    areas = [
        roc_auc_score(*(scores[c][np.arange(100) % 5 == k] for c in ("truth", "score")))
        for k in range(5)
    ]
    by_hand = np.var(areas, ddof=1) / 5 / np.sum(ranked.totals**2)
    assert ranked.dispersion == pytest.approx(by_hand, rel=0.15)
    assert of("accuracy", example(30)).dispersion == 0.0
    one_each = of("accuracy", example(30), run=np.arange(30))
    assert one_each.dispersion == pytest.approx(30 / 29)


def test_folds_that_disagree_make_the_test_careful():
    """Ten successes more, two in each fold or all in one."""
    run, base = np.arange(100) // 20, np.arange(100) % 2
    wrong = np.flatnonzero(base == 0).reshape(5, 10)
    found = []
    for better in (wrong[:, :2], wrong[0]):
        label = base.copy()
        label[better.ravel()] = 1
        rows = [{"truth": np.ones(100), "label": own} for own in (label, base)]
        found.append(difference(*(of("accuracy", own, run=run) for own in rows)))
    assert found[0].effect == found[1].effect == pytest.approx(0.1)
    assert found[1].error > 1.5 * found[0].error
    assert found[0].p < 0.05 < found[1].p


def test_equivalence_is_two_one_sided_tests():
    """The larger p value of the tests of -margin and of +margin."""
    for seed, margin in ((0, 0.05), (1, 0.1), (2, 0.3)):
        found = difference(*two_methods(90, seed, fixed=True), margin=margin)
        below = stats.t.sf((found.effect + margin) / found.error, 89)
        above = stats.t.cdf((found.effect - margin) / found.error, 89)
        assert found.p_equivalent == pytest.approx(max(below, above))


@pytest.mark.parametrize("metric", CASES)
def test_order_of_bags_does_not_matter(metric):
    rows, _ = CASES[metric]
    n = len(next(iter(rows.values())))
    order = np.random.default_rng(5).permutation(n)
    run = np.arange(n) % 3
    plain = contributions(metric, rows, np.arange(n), run=run)
    mixed = contributions(metric, take(rows, order), order, run=run[order])
    ends = interval(plain, low=-np.inf if metric == "r2" else 0.0)
    others = interval(mixed, low=-np.inf if metric == "r2" else 0.0)
    assert (ends.low, ends.high) == pytest.approx((others.low, others.high))


def test_variance_grows_towards_chance():
    """From 1.1 times that of given models to 1 + 2 / pi or 2, without signal."""
    rng = np.random.default_rng(0)
    truth = np.arange(400) % 2
    ratios = {}
    for signal in (0.0, 0.5, 3.0):
        score = signal * (truth - 0.5) + rng.normal(size=400)
        rows = {"truth": truth, "score": score, "label": (score > 0).astype(int)}
        for metric in ("accuracy", "auroc"):
            folds = of(metric, rows, run=np.arange(400) // 80)
            given = replace(folds, fixed=True)
            ratio = (standard_error(folds) / standard_error(given)) ** 2
            ratios.setdefault(metric, []).append(ratio)
    for metric, top in (("accuracy", 1 + 2 / np.pi), ("auroc", 2.0)):
        none, some, much = ratios[metric]
        assert none == pytest.approx(top, rel=0.12)
        assert none > some > much
        assert much == pytest.approx(1.1, abs=0.03)


def test_models_of_leave_one_out_are_almost_one():
    """Their training sets are not averaged, with bags and with groups as units."""
    truth = np.arange(400) % 2
    rows = {"truth": truth, "label": np.where(np.arange(400) < 40, 1 - truth, truth)}
    runs = {"folds": np.arange(400) // 80, "alone": np.arange(400)}
    for groups in (None, np.arange(400) // 4):
        found = {k: of("accuracy", rows, run=v, groups=groups) for k, v in runs.items()}
        more = standard_error(found["alone"]) ** 2 / standard_error(found["folds"]) ** 2
        assert more == pytest.approx(1.35 / 1.1, rel=0.01)


def test_concordance_is_the_area_without_censoring_of_two_times():
    """Two event times: pairs of unlike times are those of two classes."""
    rows = example(50)
    truth = np.empty(50, dtype=[("event", bool), ("time", float)])
    truth["event"], truth["time"] = True, 2.0 - rows["truth"]
    survival = of("concordance", {"truth": truth, "score": rows["score"]})
    area = of("auroc", rows)
    assert survival.value == pytest.approx(area.value)
    assert standard_error(survival) == pytest.approx(standard_error(area), rel=0.05)


# Selection ----------------------------------------------------------------------------


def hits_of(shares, n, rng):
    """Return independent results of models with given probabilities of success."""
    labels = {str(k): rng.random(n) < share for k, share in enumerate(shares)}
    return {
        name: of("accuracy", {"truth": np.ones(n), "label": label}, fixed=True)
        for name, label in labels.items()
    }


def test_correction_is_that_of_the_bootstrap_by_hand():
    rng = np.random.default_rng(0)
    n, names = 40, ["a", "b", "c"]
    label = {name: rng.random(n) < 0.7 for name in names}
    found = {
        k: of("accuracy", {"truth": np.ones(n), "label": v}, fixed=True)
        for k, v in label.items()
    }
    got = selected(found, n_resamples=300, seed=5)
    counts = np.random.default_rng(5).multinomial(n, np.full(n, 1 / n), size=300)
    figures = []
    for count in counts:
        inside = [np.average(label[name], weights=count) for name in names]
        pick = names[int(np.argmax(np.round(inside, 12)))]
        figures.append(label[pick][count == 0].mean())
    assert got.corrected.mean == pytest.approx(np.mean(figures), abs=0.01)
    assert got.uncorrected.mean == max(np.mean(v) for v in label.values())
    assert sum(got.shares.values()) == pytest.approx(1.0)


def test_equal_methods_are_corrected_to_their_common_figure():
    rng = np.random.default_rng(1)
    corrected, flattering = [], []
    for _ in range(60):
        got = selected(hits_of([0.7] * 16, 80, rng), n_resamples=200)
        corrected.append(got.corrected.mean)
        flattering.append(got.uncorrected.mean)
    assert np.mean(flattering) > 0.77
    assert np.mean(corrected) == pytest.approx(0.7, abs=0.015)


def test_another_figure_is_corrected_for_the_same_selection():
    """Selected by bags, reported of groups: the bootstrap by hand."""
    rng = np.random.default_rng(8)
    n, group = 90, np.repeat(np.arange(30), 3)
    hits = {name: rng.random(n) < 0.7 for name in "abc"}
    kept = np.arange(30) % 5 > 0  # some groups have no figure
    bags, groups = {}, {}
    for name, hit in hits.items():
        rows = {"truth": np.ones(n), "label": hit}
        own = {"truth": np.ones(30), "label": hit.reshape(30, 3).sum(1) > 1}
        bags[name] = of("accuracy", rows, groups=group, fixed=True)
        groups[name] = contributions(
            "accuracy", take(own, kept), np.flatnonzero(kept), fixed=True
        )
    got = selected(bags, reported=groups, n_resamples=400, seed=3)
    counts = np.random.default_rng(3).multinomial(30, np.full(30, 1 / 30), size=400)
    figures = []
    for count in counts:
        weight = np.repeat(count, 3)
        inside = {name: np.average(hit, weights=weight) for name, hit in hits.items()}
        label = hits[max(inside, key=inside.get)].reshape(30, 3).sum(1) > 1
        figures.append(label[kept & (count == 0)].mean())
    assert got.method == max(bags, key=lambda name: bags[name].value)
    assert got.uncorrected.mean == groups[got.method].value
    assert got.corrected.mean == pytest.approx(np.mean(figures), abs=0.01)


def test_training_sets_increase_the_bias_as_they_increase_the_error():
    fixed = hits_of([0.7] * 8, 60, np.random.default_rng(3))
    folds = {name: replace(one, fixed=False) for name, one in fixed.items()}
    plain, more = selected(fixed), selected(folds)
    ratio = standard_error(folds[more.method]) / standard_error(fixed[plain.method])
    assert ratio > 1.1
    bias = [one.uncorrected.mean - one.corrected.mean for one in (plain, more)]
    assert bias[1] == pytest.approx(ratio * bias[0])


def test_a_clear_winner_keeps_its_figure():
    rng = np.random.default_rng(2)
    got = selected(hits_of([0.6, 0.95, 0.5], 200, rng))
    assert got.method == "1"
    assert got.shares["1"] == 1.0
    assert got.corrected.mean == pytest.approx(got.uncorrected.mean, abs=0.005)
    lower = selected(hits_of([0.6, 0.95, 0.5], 200, rng), higher=False)
    assert lower.method == "2"


@pytest.mark.parametrize("higher", [True, False])
def test_a_selection_improves_no_figure(higher):
    """The bootstrap alone finds a bias below zero in some small samples."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        found = hits_of([0.5, 0.9], 12, rng)
        got = selected(found, higher=higher, n_resamples=60)
        gain = got.corrected.mean - got.uncorrected.mean
        assert gain <= 0 if higher else gain >= 0


# Coverage -----------------------------------------------------------------------------


def nearest_mean(n, d, rng, n_splits=5):
    """Return the rows of a cross-validated classifier, and its true accuracy."""
    shift = 1.5 / np.sqrt(d)
    y = rng.permutation(np.arange(n) % 2)
    X = rng.normal(size=(n, d)) + shift * (y[:, None] - 0.5)
    run, score, true = np.empty(n, dtype=int), np.empty(n), []
    for label in (0, 1):
        run[y == label] = rng.permutation(n // 2) % n_splits
    for k in range(n_splits):
        train = run != k
        means = [X[train & (y == label)].mean(axis=0) for label in (0, 1)]
        w, b = means[1] - means[0], (means[1] @ means[1] - means[0] @ means[0]) / 2
        score[~train] = X[~train] @ w - b
        scale = np.linalg.norm(w)
        center = shift * w.sum() / 2
        right = stats.norm.cdf([(center - b) / scale, (center + b) / scale])
        true.append(right.mean())
    rows = {"truth": y, "label": (score > 0).astype(int), "score": score}
    return rows, run, float(np.mean(true))


@pytest.mark.parametrize("n", [40, 120])
def test_coverage_of_cross_validated_accuracy(n):
    rng = np.random.default_rng(n)
    covered = []
    for _ in range(400):
        rows, run, true = nearest_mean(n, 8, rng)
        found = interval(of("accuracy", rows, run=run))
        covered.append(found.low <= true <= found.high)
    assert 0.925 < np.mean(covered) < 0.99


def test_size_of_the_paired_test():
    """Two methods that see eight of sixteen equally good features each."""
    rng = np.random.default_rng(7)
    rejected = []
    for _ in range(300):
        state = rng.integers(2**31)
        one, run, _ = nearest_mean(60, 8, np.random.default_rng(state))
        two, _, _ = nearest_mean(60, 8, np.random.default_rng(state + 1))
        order = np.argsort(one["truth"], kind="stable")
        two = take(two, np.argsort(two["truth"], kind="stable")[np.argsort(order)])
        found = difference(of("accuracy", one, run=run), of("accuracy", two, run=run))
        rejected.append(found.p < 0.05)
    assert np.mean(rejected) < 0.08
