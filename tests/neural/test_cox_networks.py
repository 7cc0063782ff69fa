"""Cox's partial likelihood, and networks for survival times."""

import numpy as np
import pytest

import bagwise
from bagwise import Bags
from bagwise.base.survival import survival_target
from bagwise.datasets import make_survival_bags

torch = pytest.importorskip("torch")

from bagwise.neural import NeuralBagRegressor, NeuralBagSurvival  # noqa: E402
from bagwise.neural.engine.losses import bag_losses, cox_losses  # noqa: E402

SMALL = {"hidden": 12, "attention": 6, "n_models": 2, "random_state": 0}


def times(n=30, seed=0, ties=True):
    rng = np.random.default_rng(seed)
    time = rng.exponential(5.0, n)
    time = np.ceil(time) if ties else time
    return time, rng.random(n) < 0.6


@pytest.mark.parametrize("ties", [False, True])
def test_likelihood_equals_that_of_scikit_survival(ties):
    pytest.importorskip("sksurv")
    from sksurv.linear_model.coxph import CoxPHOptimizer

    time, event = times(ties=ties)
    rng = np.random.default_rng(1)
    X, coef = rng.normal(size=(30, 4)), rng.normal(size=4)
    theirs = CoxPHOptimizer(X, event, time, alpha=np.zeros(4), ties="breslow")
    scores = torch.as_tensor(X @ coef)[:, None]
    ours = cox_losses(scores, torch.as_tensor(time), torch.as_tensor(event).double())
    expected = theirs.nlog_likelihood(coef)
    assert abs(float(ours.mean()) - expected) < 1e-8 * abs(expected)


def test_weights_and_gradients_equal_a_double_loop():
    time, event = times()
    rng = np.random.default_rng(2)
    weight = np.where(rng.random((30, 2)) < 0.3, 0.0, rng.random((30, 2)))
    scores = torch.as_tensor(rng.normal(size=(30, 2))).requires_grad_()
    weights = torch.as_tensor(weight)
    targets = torch.as_tensor(np.column_stack([time, event]).astype(float))[:, None]
    found = bag_losses("cox", scores[:, :, None], targets, weights)
    (gradient,) = torch.autograd.grad((found * weights).sum(), scores)
    total = 0.0
    for m in range(2):
        for i in np.flatnonzero(event & (weight[:, m] > 0)):
            at_risk = torch.as_tensor(time >= time[i])
            risk = (weights[at_risk, m] * torch.exp(scores[at_risk, m])).sum()
            one = torch.log(risk) - scores[i, m]
            torch.testing.assert_close(found[i, m], one)
            total = total + weight[i, m] * one
    assert not found[torch.as_tensor(~event)].any()
    (expected,) = torch.autograd.grad(total, scores)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("pooling", ["mean", "gated", "dsmil", "dtfd", "transmil"])
def test_risks_order_the_events(pooling):
    X, y = make_survival_bags(120, random_state=0)
    settings = {**SMALL, "max_epochs": 40, "learning_rate": 0.01}
    model = NeuralBagSurvival(pooling, **settings).fit(X[:80], y[:80])
    assert model.score(X[80:], y[80:]) > 0.6
    alone = Bags(X.data, np.arange(X.n_instances + 1))
    np.testing.assert_allclose(
        model.instance_scores(X).values, model.predict(alone), atol=1e-4
    )


def test_a_line_is_that_of_coxs_model():
    # One instance per bag and one step of all bags: the risk must be linear in x.
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1))
    time = rng.exponential(np.exp(-2.0 * x[:, 0]))
    y = survival_target(np.ones(200, dtype=bool), time)
    X = Bags(x, np.arange(201))
    model = NeuralBagSurvival(
        "mean", bags_per_step=200, max_epochs=300, dropout=0.0, learning_rate=0.01,
        weight_decay=0.0, **SMALL,
    ).fit(X, y)  # fmt: skip
    middle = np.abs(x[:, 0]) < 1
    slope = np.polyfit(x[middle, 0], model.predict(X)[middle], 1)[0]
    assert 1.4 < slope < 2.6


def test_masked_bags_are_in_no_risk_set():
    X, y = make_survival_bags(60, random_state=1)
    mask = np.arange(60) < 40
    settings = {**SMALL, "max_epochs": 5, "precision": "float64"}
    changed = y.copy()
    changed["time"][40:] = changed["time"].max() * np.linspace(2, 3, 20)
    first, second = (
        NeuralBagSurvival("mean", **settings).fit(X, values, mask.astype(float))
        for values in (y, changed)
    )
    np.testing.assert_allclose(first.predict(X), second.predict(X), rtol=1e-9)
    (many,) = NeuralBagSurvival("mean", **settings).fit_many(X, y, mask[None])[0]
    np.testing.assert_allclose(many.predict(X), first.predict(X), rtol=1e-9)


def test_validation_groups_files_and_refusals(tmp_path):
    X, y = make_survival_bags(40, random_state=2)
    model = NeuralBagSurvival(validation_fraction=0.3, max_epochs=4, **SMALL).fit(X, y)
    assert np.isfinite(model.validation_loss_).all()
    bagwise.save(model, tmp_path / "model.bagwise")
    again = bagwise.load(tmp_path / "model.bagwise")
    np.testing.assert_allclose(again.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="mixup"):
        NeuralBagSurvival(mixup=1.0, **SMALL).fit(X, y)
    with pytest.raises(ValueError, match="has an event"):
        NeuralBagSurvival(**SMALL).fit(X, y, (~y["event"]).astype(float))
    with pytest.raises(ValueError, match="event"):
        NeuralBagSurvival(**SMALL).fit(X, y["time"])


def test_several_real_targets_equal_their_own_scales():
    rng = np.random.default_rng(0)
    X = Bags.from_list([rng.normal(size=(4, 3)) for _ in range(80)])
    mean = np.array([bag.mean(0) for bag in X])
    y = np.column_stack([1000.0 + 50.0 * mean[:, 0], -0.01 * mean[:, 1]])
    settings = {**SMALL, "max_epochs": 60, "learning_rate": 0.01, "dropout": 0.0}
    model = NeuralBagRegressor("mean", **settings).fit(X, y)
    assert model.predict(X).shape == y.shape
    assert model.score(X, y) > 0.8
    scaled = NeuralBagRegressor("mean", **settings).fit(X, 3.0 * y - 1.0)
    np.testing.assert_allclose(scaled.predict(X), 3.0 * model.predict(X) - 1, rtol=1e-4)
    values = model.instance_scores(X).values.reshape(80, 4, 2).mean(1)
    np.testing.assert_allclose(values, model.predict(X), rtol=1e-4)
    assert model.predict_std(X).shape == y.shape
    assert model.key_instances(X).shape == y.shape
