"""The estimators: what they promise beyond the batteries."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

import bagwise
from bagwise import Bags, Ragged
from bagwise.base import bag_folds
from bagwise.datasets import make_bags

torch = pytest.importorskip("torch")

from bagwise.neural import (  # noqa: E402
    NeuralBagClassifier,
    NeuralBagRegressor,
    register_encoder,
)

POOLINGS = ("gated", "attention", "mean", "max")
SMALL = {
    "hidden": 8,
    "attention": 4,
    "n_models": 2,
    "learning_rate": 0.03,
    "max_epochs": 5,
    "random_state": 0,
}


def toy(n_bags=24, **options):
    return make_bags(n_bags, n_features=4, bag_size=(2, 5), random_state=1, **options)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_contributions_sum_to_the_score(pooling, n_classes):
    X, y = toy(n_classes=n_classes)
    model = NeuralBagClassifier(pooling, **SMALL).fit(X, y)
    total = np.add.reduceat(model.instance_scores(X).values, X.offsets[:-1], axis=0)
    np.testing.assert_allclose(total, model.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("head", ["additive", "pooled"])
def test_order_of_bags_and_instances_does_not_matter(pooling, head):
    X, y = toy()
    model = NeuralBagClassifier(pooling, head=head, **SMALL).fit(X, y)
    expected = model.decision_function(X)
    order = np.random.default_rng(0).permutation(len(X))
    turned = Bags.from_list([X[i][::-1] for i in order])
    np.testing.assert_allclose(
        model.decision_function(turned), expected[order], atol=1e-6
    )


def test_attention_is_a_share_of_each_bag():
    X, y = toy()
    model = NeuralBagClassifier(**SMALL).fit(X, y)
    assert isinstance(model.attention_, Ragged)
    np.testing.assert_array_equal(
        model.attention_.values, model.attention_weights(X).values
    )
    total = np.add.reduceat(model.attention_.values, X.offsets[:-1])
    np.testing.assert_allclose(total, 1.0, rtol=1e-6)
    assert np.ptp(model.attention_.values) > 0.01


def test_the_spread_of_the_models_is_zero_for_one_and_positive_for_two():
    X, y = toy()
    one = NeuralBagClassifier(**{**SMALL, "n_models": 1}).fit(X, y)
    np.testing.assert_array_equal(one.predict_std(X), 0.0)
    two = NeuralBagClassifier(**SMALL).fit(X, y)
    assert two.predict_std(X).shape == (len(X),)
    assert (two.predict_std(X) > 0).all()


def test_several_labels_per_bag():
    X, y = toy(40)
    labels = np.column_stack([y, 1 - y, y])
    model = NeuralBagClassifier(**{**SMALL, "max_epochs": 30}).fit(X, labels)
    found = model.predict(X)
    assert found.shape == labels.shape
    assert (found == labels).mean() > 0.8
    assert model.predict_proba(X).shape == labels.shape
    assert model.key_instances(X).shape == labels.shape
    assert model.predict_instances(X).values.shape == (X.n_instances, 3)
    with pytest.raises(ValueError, match="must be 0 or 1"):
        clone(model).fit(X, labels + 1)
    with pytest.raises(ValueError, match="one label per bag"):
        clone(model).set_params(class_weight="balanced").fit(X, labels)


def test_regression_in_units_of_y():
    rng = np.random.default_rng(0)
    X = Bags.from_list([rng.normal(size=(rng.integers(2, 6), 3)) for _ in range(80)])
    y = 1000.0 + 50.0 * np.array([bag[:, 0].mean() for bag in X])
    settings = {**SMALL, "hidden": 16, "max_epochs": 40}
    model = NeuralBagRegressor("mean", **settings).fit(X, y)
    assert model.score(X, y) > 0.8
    assert np.abs(model.instance_scores(X).values - 1000).max() < 500
    assert model.predict_std(X).shape == y.shape
    # The mean of the values of the instances is the value of the bag.
    values = model.instance_scores(X).values
    mean = np.add.reduceat(values, X.offsets[:-1]) / X.sizes
    np.testing.assert_allclose(mean, model.predict(X), rtol=1e-5)


def test_weights_of_bags_and_classes_shift_the_decision():
    rng = np.random.default_rng(0)
    X = Bags.from_list([rng.normal(size=(3, 2)) for _ in range(60)])
    y = rng.integers(0, 2, 60)  # nothing to learn but the shares
    model = NeuralBagClassifier(**SMALL)
    plain = model.fit(X, y).predict_proba(X)[:, 1].mean()
    heavy = clone(model).set_params(class_weight={0: 1.0, 1: 20.0}).fit(X, y)
    assert heavy.predict_proba(X)[:, 1].mean() > plain + 0.2
    weighted = clone(model).fit(X, y, sample_weight=np.where(y == 1, 20.0, 1.0))
    np.testing.assert_allclose(
        weighted.predict_proba(X), heavy.predict_proba(X), atol=1e-6
    )


def test_validation_bags_keep_groups_together():
    X, y = toy(40)
    groups = np.repeat(np.arange(10), 4)
    y = np.tile([0, 0, 1, 1], 10)
    X = Bags(X.data, X.offsets, groups=groups)
    model = NeuralBagClassifier(n_models=5, validation_fraction=0.2)
    held = model._validation(X, y, seed=3)
    assert held.any(axis=1).all()
    for row in held:
        assert not set(groups[row]) & set(groups[~row])
        assert len(set(y[row])) == 2
    # Another fold for each model, so that together they learn from every bag.
    assert held.sum() == len(X)
    folds = bag_folds(X, y, 5, 3)
    np.testing.assert_array_equal(np.flatnonzero(held[0]), folds[0][1])


def test_too_few_bags_for_validation_train_to_the_end():
    X, y = toy(4)
    y = np.array([0, 1, 1, 1])
    model = NeuralBagClassifier(**SMALL).fit(X, y)
    assert model.n_iter_ == SMALL["max_epochs"]
    assert np.isnan(model.validation_loss_).all()


class TestManyFits:
    def test_equal_separate_fits_of_one_run(self):
        # Models that are alone on their bags differ from a joint run in nothing but
        # the order of steps, which this fixes: all see all bags.
        X, y = toy(30)
        base = NeuralBagClassifier(**SMALL, precision="float64")
        settings = [
            {"learning_rate": 0.01},
            {"dropout": 0.5, "weight_decay": 0.1},
            {"pooling": "mean"},
        ]
        together = base.fit_many(X, y, np.ones((1, 30), dtype=bool), settings)
        for setting, (model,) in zip(settings, together, strict=True):
            alone = clone(base).set_params(**setting).fit(X, y)
            np.testing.assert_allclose(
                model.decision_function(X), alone.decision_function(X), rtol=1e-7
            )

    def test_bags_outside_of_a_mask_are_not_seen(self):
        X, y = toy(30)
        mask = np.zeros((2, 30), dtype=bool)
        mask[0, :20] = mask[1, 10:] = True
        spoilt = X.data.copy()
        spoilt[X.offsets[20] :] *= 1e3
        wrong = np.where(np.arange(30) < 20, y, 1 - y)
        base = NeuralBagClassifier(**SMALL, precision="float64")
        clean = base.fit_many(X, y, mask)[0][0]
        other = base.fit_many(X.with_data(spoilt), wrong, mask)[0][0]
        np.testing.assert_allclose(clean.mean_, other.mean_, rtol=1e-9)
        np.testing.assert_allclose(
            clean.decision_function(X[:20]), other.decision_function(X[:20]), rtol=1e-5
        )

    def test_regression_scales_by_its_own_bags(self):
        X, _ = toy(30)
        y = np.arange(30.0)
        mask = np.zeros((2, 30), dtype=bool)
        mask[0, :15] = mask[1, 15:] = True
        low, high = NeuralBagRegressor(**SMALL).fit_many(X, y, mask)[0]
        assert low.y_mean_ == pytest.approx(7.0)
        assert high.y_mean_ == pytest.approx(22.0)

    def test_is_the_hook_of_tuning(self):
        X, y = toy(24)
        base = NeuralBagClassifier(**SMALL)
        splits = bag_folds(X, y, 3, 0)
        candidates = [{"learning_rate": 0.03}, {"learning_rate": 1e-6}]
        scores = base._score_candidates(candidates, X, y, splits, "accuracy")
        assert len(scores) == 2
        assert 0.0 <= min(scores) <= max(scores) <= 1.0

    def test_masks_must_fit_the_bags(self):
        X, y = toy(24)
        with pytest.raises(ValueError, match="24 bags"):
            NeuralBagClassifier(**SMALL).fit_many(X, y, np.ones((1, 3), dtype=bool))


def images(n_bags=30, seed=0, shape=(6, 6)):
    """Bags of noise; positive ones hold an image with a bright cross."""
    rng = np.random.default_rng(seed)
    bags, y = [], np.arange(n_bags) % 2
    for label in y:
        bag = rng.normal(scale=0.3, size=(rng.integers(2, 5), *shape))
        if label:
            bag[0, ..., shape[-1] // 2] += 2.0
        bags.append(bag)
    return bags, y


class TestEncoders:
    @pytest.mark.parametrize(
        ("name", "shape"),
        [
            ("image", (6, 6)),
            ("image", (2, 5, 7)),
            ("signal", (16,)),
            ("signal", (3, 9)),
        ],
    )
    def test_learn_from_arrays_of_any_shape(self, name, shape):
        bags, y = images(shape=shape)
        settings = {**SMALL, "learning_rate": 0.01, "n_models": 1}
        model = NeuralBagClassifier(encoder=name, **settings).fit(bags, y)
        assert model.score(bags, y) > 0.8
        assert model.instance_shape_ == shape
        flat = Bags.from_list([b.reshape(len(b), -1) for b in bags])
        np.testing.assert_array_equal(
            model.decision_function(flat), model.decision_function(bags)
        )

    def test_several_models_equal_one_by_one(self):
        bags, y = images()
        flat = Bags.from_list([b.reshape(len(b), -1) for b in bags])
        settings = {**SMALL, "n_models": 1, "max_epochs": 2, "precision": "float64"}
        base = NeuralBagClassifier(
            encoder="image", instance_shape=(6, 6), validation_fraction=0, **settings
        )
        two = base.fit_many(
            flat,
            y,
            np.ones((1, len(y)), dtype=bool),
            [{"dropout": 0}, {"dropout": 0.5}],
        )
        alone = clone(base).set_params(dropout=0.5).fit(flat, y)
        np.testing.assert_allclose(
            two[1][0].decision_function(flat), alone.decision_function(flat), rtol=1e-6
        )

    def test_batch_norm_keeps_its_statistics(self, tmp_path):
        def normed(shape):
            return torch.nn.Sequential(
                torch.nn.Flatten(),
                torch.nn.Linear(int(np.prod(shape)), 8),
                torch.nn.BatchNorm1d(8),
                torch.nn.ReLU(),
            )

        register_encoder("test-normed", normed)
        bags, y = images()
        model = NeuralBagClassifier(encoder="test-normed", **SMALL).fit(bags, y)
        name = next(n for n in model.buffers_ if n.endswith("running_mean"))
        assert np.abs(model.buffers_[name]).max() > 0
        assert not np.array_equal(*model.buffers_[name])
        path = tmp_path / "model.bagwise"
        bagwise.save(model, path)
        np.testing.assert_array_equal(
            bagwise.load(path).decision_function(bags), model.decision_function(bags)
        )

    def test_what_is_wrong_is_said(self):
        bags, y = images()
        with pytest.raises(ValueError, match="not registered"):
            NeuralBagClassifier(encoder="nothing", **SMALL).fit(bags, y)
        with pytest.raises(TypeError, match="torch.nn.Module"):
            NeuralBagClassifier(encoder=lambda shape: 3, **SMALL).fit(bags, y)
        flat_only = NeuralBagClassifier(
            encoder=lambda shape: torch.nn.Identity(), **SMALL
        )
        with pytest.raises(ValueError, match="got \\(2, 6, 6\\)"):
            flat_only.fit(bags, y)
        model = NeuralBagClassifier(instance_shape=(5, 5), **SMALL)
        with pytest.raises(ValueError, match="instance_shape"):
            model.fit(bags, y)
        odd = [*bags[:-1], bags[-1][:, :5]]
        with pytest.raises(ValueError, match="bag 29"):
            NeuralBagClassifier(**SMALL).fit(odd, y)


def test_wrong_parameters_are_refused():
    X, y = toy()
    with pytest.raises(ValueError, match="hidden"):
        NeuralBagClassifier(hidden=(8, 0)).fit(X, y)
    with pytest.raises(ValueError, match="not a device"):
        NeuralBagClassifier(device="abacus").fit(X, y)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="no CUDA device"):
            NeuralBagClassifier(device="cuda").fit(X, y)


def test_a_diverging_fit_raises():
    X, y = toy()
    wild = {**SMALL, "learning_rate": 1e30}
    with pytest.raises(FloatingPointError, match="learning_rate"):
        NeuralBagRegressor(**wild).fit(X, y.astype(float))


def test_memory_is_stated_before_it_is_taken(capsys):
    X, y = toy()
    NeuralBagClassifier(**SMALL, verbose=1).fit(X, y)
    first = capsys.readouterr().out.splitlines()[0]
    assert "GB in float32" in first
    assert "free" in first


def test_importing_the_package_does_not_import_torch():
    code = (
        "import sys, bagwise, bagwise.neural, bagwise.svm; "
        "bagwise.neural.NeuralBagClassifier(); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_without_torch_the_error_names_the_extra_and_the_rest_works():
    code = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, NoTorch())
from bagwise.datasets import make_bags
from bagwise.compose import SimpleMI
from bagwise.neural import NeuralBagClassifier
X, y = make_bags(random_state=0)
SimpleMI().fit(X, y)
try:
    NeuralBagClassifier().fit(X, y)
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "bagwise[torch]" in done.stdout


def test_encoders_of_all_models_at_once_equal_one_after_the_other(monkeypatch):
    # What a GPU does to save launches, run here.
    from bagwise.neural.engine.network import ModuleEncoder

    bags, y = images()
    settings = {**SMALL, "max_epochs": 2, "precision": "float64"}
    model = NeuralBagClassifier(encoder="image", **settings)
    expected = clone(model).fit(bags, y).decision_function(bags)
    before = ModuleEncoder.__init__

    def batched(self, *args):
        before(self, *args)
        self.batched = True

    monkeypatch.setattr(ModuleEncoder, "__init__", batched)
    found = clone(model).fit(bags, y).decision_function(bags)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
