"""The engine against loops over bags and models that are written out by hand."""

from functools import partialmethod
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bagwise import Bags  # noqa: E402
from bagwise.neural import NeuralBagClassifier  # noqa: E402
from bagwise.neural.engine import layers, segments, training  # noqa: E402
from bagwise.neural.engine.inference import Fitted  # noqa: E402
from bagwise.neural.engine.losses import bag_losses  # noqa: E402
from bagwise.neural.engine.network import (  # noqa: E402
    Shape,
    bag_scores,
    initial_weights,
)
from bagwise.neural.engine.rows import (  # noqa: E402
    Rows,
    row_index,
    standardization,
)
from bagwise.neural.engine.segments import Segments  # noqa: E402
from bagwise.neural.engine.training import Models, Options, train  # noqa: E402

CPU = torch.device("cpu")
POOLINGS = ("gated", "attention", "mean", "max")
HEADS = ("additive", "pooled")
SIZES = np.array([3, 1, 5, 2])
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])


def make_shape(pooling="gated", head="additive", n_outputs=2, hidden=(6, 4)):
    return Shape(5, n_outputs, hidden, 3, pooling, head)


def make_rows(seed=0):
    return np.random.default_rng(seed).normal(size=(SIZES.sum(), 5))


def by_hand(shape, weights, m, bag):
    """Score of one bag by one model, in the words of the class's docstring."""
    h = bag
    for i in range(len(shape.hidden)):
        W, c = weights[f"hidden{i}.weight"][m], weights[f"hidden{i}.bias"][m]
        h = torch.relu(h @ (W.T if i == 0 else W) + c)

    def f(z):
        inner = torch.relu(z @ weights["head.weight"][m] + weights["head.bias"][m])
        return inner @ weights["head.out"][m]

    b = weights["intercept"][m]
    if shape.pooling == "mean":
        a = torch.full((len(bag), 1), 1.0 / len(bag), dtype=h.dtype)
    elif shape.pooling == "max":
        pooled = f(h).amax(0) if shape.head == "additive" else f(h.amax(0)[None])[0]
        return pooled + b
    else:
        inner = h @ weights["attention.weight"][m] + weights["attention.bias"][m]
        n = shape.attention
        u = torch.tanh(inner[:, :n])
        if shape.pooling == "gated":
            u = u * torch.sigmoid(inner[:, n:])
        a = torch.softmax(u @ weights["attention.score"][m], dim=0)
    if shape.head == "additive":
        return (a * f(h)).sum(0) + b
    return f((a * h).sum(0)[None])[0] + b


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("head", HEADS)
def test_forward_and_gradient_equal_a_loop_over_bags_and_models(pooling, head):
    shape = make_shape(pooling, head)
    weights = initial_weights(shape, [1, 2, 3])
    weights["intercept"] += 0.3
    for w in weights.values():
        w.requires_grad_()
    x = torch.as_tensor(make_rows())
    target = torch.as_tensor(np.random.default_rng(5).normal(size=(4, 1, 2)))

    scores = bag_scores(shape, weights, x, Segments.of(SIZES, CPU))
    bag_losses("squared", scores, target).sum().backward()
    gradients = {name: w.grad.clone() for name, w in weights.items()}

    for w in weights.values():
        w.grad = None
    total = 0.0
    for m in range(3):
        for i in range(4):
            expected = by_hand(shape, weights, m, x[OFFSETS[i] : OFFSETS[i + 1]])
            torch.testing.assert_close(scores[i, m], expected, rtol=1e-10, atol=1e-12)
            total = total + 0.5 * ((expected - target[i, 0]) ** 2).mean()
    total.backward()
    for name, w in weights.items():
        torch.testing.assert_close(gradients[name], w.grad, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("head", HEADS)
def test_ragged_equals_one_bag_at_a_time(pooling, head):
    shape = make_shape(pooling, head)
    weights = {k: w.float() for k, w in initial_weights(shape, [1, 2]).items()}
    x = torch.as_tensor(make_rows(), dtype=torch.float32)
    together = bag_scores(shape, weights, x, Segments.of(SIZES, CPU))
    for i in range(4):
        alone = bag_scores(
            shape,
            weights,
            x[OFFSETS[i] : OFFSETS[i + 1]],
            Segments.of(SIZES[i : i + 1], CPU),
        )
        torch.testing.assert_close(together[i], alone[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("op", ["sum", "max", "softmax", "mean"])
def test_gradients_of_segments_equal_finite_differences(op):
    values = torch.as_tensor(np.random.default_rng(1).normal(size=(11, 2)))
    values.requires_grad_()
    segments = Segments.of(SIZES, CPU)
    assert torch.autograd.gradcheck(getattr(segments, op), values)


def test_ties_of_a_maximum_share_its_gradient():
    values = torch.tensor([[1.0], [2.0], [2.0], [5.0]], requires_grad=True)
    Segments.of(np.array([3, 1]), CPU).max(values).sum().backward()
    np.testing.assert_array_equal(values.grad[:, 0], [0.0, 0.5, 0.5, 1.0])


def test_a_dense_indicator_gives_the_same_reductions():
    # The path that a GPU takes for a few large bags, run here.
    values = torch.as_tensor(np.random.default_rng(2).normal(size=(11, 2, 3)))
    plain, dense = Segments.of(SIZES, CPU), Segments.of(SIZES, CPU)
    dense.indicator = torch.arange(4)[:, None] == dense.bag[None, :]
    for name in ("plain_sum", "plain_max", "plain_softmax"):
        torch.testing.assert_close(
            getattr(plain, name)(values), getattr(dense, name)(values)
        )


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("head", HEADS)
def test_fitted_scores_equal_the_training_forward(pooling, head, monkeypatch):
    shape = make_shape(pooling, head)
    weights = initial_weights(shape, [1, 2])
    weights["intercept"] -= 0.2
    x = make_rows()
    mean, scale = x.mean(0), x.std(0)
    fitted = Fitted(shape, weights, {}, mean, scale, CPU, torch.float64)
    # Chunks of rows that cut bags in the middle.
    monkeypatch.setattr("bagwise.neural.engine.inference.chunk_rows", lambda *a: 4)
    found = fitted.evaluate(x, OFFSETS)
    z = torch.as_tensor((x - mean) / scale)
    expected = bag_scores(shape, weights, z, Segments.of(SIZES, CPU))
    np.testing.assert_allclose(found["scores"], expected, rtol=1e-10)
    share = np.add.reduceat(found["attention"], OFFSETS[:-1], axis=0)
    np.testing.assert_allclose(share, 1.0)
    if head == "additive":
        total = np.add.reduceat(found["contributions"], OFFSETS[:-1], axis=0)
        np.testing.assert_allclose(total, found["scores"], rtol=1e-12)


def problem(n_bags=20, seed=3):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    x = rng.normal(size=(offsets[-1], 5))
    y = rng.integers(0, 2, n_bags).astype(float)
    x[offsets[:-1][y == 1]] += 2.0
    return x, offsets, y


def run(x, offsets, y, pick, *, rows=None, affine=None, **options):
    """Train some of four models that differ in everything a model may differ in."""
    valid = np.zeros((4, len(y)))
    valid[0, :4] = valid[1, 4:8] = valid[2, :4] = valid[3, 10:15] = 1.0
    models = Models(
        seeds=np.array([1, 2, 3, 4])[pick],
        learning_rate=np.array([1e-3, 2e-3, 5e-3, 1e-2])[pick],
        weight_decay=np.array([0.0, 1e-2, 1e-3, 1e-4])[pick],
        dropout=np.array([0.0, 0.5, 0.25, 0.1])[pick],
        train_weight=(valid == 0)[pick].astype(float),
        valid_weight=valid[pick],
    )
    settings = {"max_instances": 3, "max_epochs": 6, "patience": 2, "bags_per_step": 4}
    settings |= options
    shape = Shape(5, 1, (6,), 3, "gated", "additive")
    if rows is None:
        rows = Rows(x, np.zeros(5), np.ones(5), CPU, torch.float64, 1e9)
    return train(
        rows,
        offsets,
        y[:, None, None],
        "logistic",
        shape,
        models,
        Options(seed=0, **settings),
        affine=None if affine is None else [a[pick] for a in affine],
    )


def test_models_at_once_equal_models_one_by_one():
    x, offsets, y = problem()
    rng = np.random.default_rng(4)
    affine = rng.uniform(0.5, 2.0, (4, 5)), rng.normal(size=(4, 5))
    together = run(x, offsets, y, slice(None), affine=affine)
    epochs = set()
    for m in range(4):
        alone = run(x, offsets, y, slice(m, m + 1), affine=affine)
        epochs.add(len(alone.train_loss))
        for name, weight in together.weights.items():
            np.testing.assert_allclose(
                weight[m], alone.weights[name][0], rtol=1e-8, atol=1e-12, err_msg=name
            )
        n = len(alone.valid_loss)
        np.testing.assert_allclose(
            together.valid_loss[:n, m], alone.valid_loss[:, 0], rtol=1e-8
        )
    assert len(epochs) > 1, "the models should stop at different epochs"


def test_rows_from_the_host_train_the_same_model():
    x, offsets, y = problem()
    x.flags.writeable = False
    streamed = Rows(x, np.zeros(5), np.ones(5), CPU, torch.float64, host_budget=0.0)
    assert not streamed.resident
    a = run(x, offsets, y, slice(None), rows=streamed)
    b = run(x, offsets, y, slice(None))
    for name, weight in a.weights.items():
        np.testing.assert_array_equal(weight, b.weights[name])


@pytest.mark.parametrize("n_rows", [64, 7])
def test_thin_products_and_their_gradients(n_rows):
    # What a GPU takes for one output, run here.
    rng = torch.Generator().manual_seed(0)
    h = torch.rand(2, n_rows, 3, generator=rng, dtype=torch.float64)
    weight = torch.rand(2, 3, generator=rng, dtype=torch.float64)
    h.requires_grad_(), weight.requires_grad_()
    assert torch.autograd.gradcheck(layers.Thin.apply, (h, weight))
    expected = torch.einsum("mnk,mk->mn", h, weight)
    assert torch.allclose(layers.Thin.apply(h, weight), expected, rtol=1e-12)


def test_filled_steps_train_the_same_model(monkeypatch):
    # What a GPU records, run here as it is: steps of a few sizes, filled up with rows
    # of bags that belong to nobody. Without dropout, whose numbers go by rows.
    x, offsets, y = problem()
    sizes = set()

    def filled(n_rows, n_models):
        size = -(-n_rows // 8) * 8
        sizes.add(size)
        return size

    monkeypatch.setattr(segments, "filled_size", filled)
    expected = run(x, offsets, y, slice(0, 1), bags_per_step=3)
    own = training._Run._recorder
    monkeypatch.setattr(training, "worth_recording", lambda *args: True)
    monkeypatch.setattr(training._Run, "_recorder", partialmethod(own, record=False))
    found = run(x, offsets, y, slice(0, 1), bags_per_step=3)
    assert len(sizes) > 1
    for name, weight in found.weights.items():
        np.testing.assert_allclose(weight, expected.weights[name], rtol=1e-9)
    np.testing.assert_allclose(found.train_loss, expected.train_loss, rtol=1e-9)


def test_sizes_of_filled_steps():
    for n_models in (1, 5, 900):
        for n_rows in (1, 70, 5_000, 150_000):
            size = segments.filled_size(n_rows, n_models)
            assert size >= n_rows
            free = max(64, segments._FREE // n_models)
            assert size <= max(free, 1.25 * n_rows + 64)
            assert segments.filled_size(size, n_models) == size


def test_best_weights_are_those_of_the_lowest_validation_loss():
    x, offsets, y = problem()
    found = run(
        x, offsets, y, slice(0, 1), max_epochs=12, patience=3, max_instances=None
    )
    best = int(found.best_epoch[0])
    assert best == int(np.argmin(found.valid_loss[:, 0]))
    assert len(found.valid_loss) in (12, best + 4)
    shape = Shape(5, 1, (6,), 3, "gated", "additive")
    args = (np.zeros(5), np.ones(5), CPU, torch.float64)
    scores = Fitted(shape, found.weights, {}, *args).evaluate(x, offsets)["scores"]
    losses = bag_losses(
        "logistic", torch.as_tensor(scores), torch.as_tensor(y)[:, None, None]
    )
    assert float(losses[:4].mean()) == pytest.approx(found.valid_loss[best, 0])


def test_drawn_rows_are_distinct_and_uniform():
    offsets = np.array([0, 2, 12, 13])
    generator = torch.Generator().manual_seed(0)
    counts = np.zeros(13)
    for _ in range(2000):
        index, sizes = row_index(np.array([1, 0, 2]), offsets, 4, generator, CPU)
        np.testing.assert_array_equal(sizes, [4, 2, 1])
        assert len(set(index.tolist())) == 7
        assert sorted(index[4:6].tolist()) == [0, 1]
        assert index[6] == 12
        assert ((index[:4] >= 2) & (index[:4] < 12)).all()
        counts += np.bincount(index, minlength=13)
    # 2000 draws of 4 out of 10: standard deviation below 22.
    assert np.abs(counts[2:12] - 800).max() < 110


def recorded_step(monkeypatch, options, train_weight):
    """Return rows, bags, lengths, partners and losses of the first step of training.

    A row holds its own number, and its bag. Learning is too slow to change the weights.
    """
    steps, plain = [], training._Run._step

    def step(self, x, bags, segments, share, mix=None):
        weights = self.parameters.named(self.parameters.flat.detach().clone())
        found = plain(self, x, bags, segments, share, mix)
        steps.append((x, bags, segments, mix, weights, found))
        return found

    monkeypatch.setattr(training._Run, "_step", step)
    sizes = np.array([7, 1, 10, 4, 6, 3])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    x = np.zeros((offsets[-1], 5))
    x[:, 0], x[:, 1] = np.arange(offsets[-1]), np.repeat(np.arange(6), sizes)
    n = len(train_weight)
    models = Models(
        seeds=np.arange(n),
        learning_rate=np.full(n, 1e-12),
        weight_decay=np.zeros(n),
        dropout=np.zeros(n),
        train_weight=train_weight,
        valid_weight=np.zeros((n, 6)),
    )
    rows = Rows(x, np.zeros(5), np.ones(5), CPU, torch.float64, 1e9)
    shape = make_shape(n_outputs=1)
    y = np.arange(6) % 2.0
    train(rows, offsets, y[:, None, None], "logistic", shape, models, options)
    return shape, sizes, y, *steps[0]


def test_dropped_instances_are_a_random_share_of_each_bag(monkeypatch):
    options = Options(6, None, 2, 10, seed=0, instance_dropout=0.4)
    _, sizes, _, x, bags, segments, mix, *_ = recorded_step(
        monkeypatch, options, np.ones((1, 6))
    )
    assert mix is None
    parts = np.split(x.numpy(), np.cumsum(segments.sizes.numpy())[:-1])
    for bag, part in zip(bags.tolist(), parts, strict=True):
        assert len(part) == np.ceil(0.6 * sizes[bag])
        assert len(set(part[:, 0])) == len(part)
        assert (part[:, 1] == bag).all()


def test_mixed_bags_and_their_loss(monkeypatch):
    seen = np.array([[1.0, 1, 1, 1, 1, 1], [2.0, 1, 0, 1, 1, 0]])
    options = Options(6, None, 2, 10, seed=3, mixup=0.7)
    shape, sizes, y, x, bags, segments, mix, weights, found = recorded_step(
        monkeypatch, options, seen
    )
    partners, shares = (given.numpy() for given in mix)
    assert sorted(partners) == sorted(bags.tolist())
    assert (partners != bags.numpy()).any()
    parts = x.split(segments.sizes.tolist())
    total = np.zeros(2)
    for part, a, b, share in zip(parts, bags.tolist(), partners, shares, strict=True):
        assert len(set(part[:, 0].tolist())) == len(part) or a == b
        own = (part[:, 1] == a).sum() if a != b else round(share * len(part))
        assert (a == b) or own + (part[:, 1] == b).sum() == len(part)
        assert share == pytest.approx(float(own) / len(part))
        assert own >= np.ceil(0.5 * sizes[a])
        for m in range(2):
            score = by_hand(shape, weights, m, part)
            label = torch.tensor([share * y[a] + (1 - share) * y[b]]).double()
            if seen[0, a] == seen[0, b] == 1 and m == 0:
                # Equal weights: the loss of a soft label.
                loss = torch.nn.functional.binary_cross_entropy_with_logits
                total[0] += float(loss(score, label))
            elif m == 1 and seen[1, a] > 0 and seen[1, b] > 0:
                for bag, of in ((a, share), (b, 1 - share)):
                    signed = float(score[0]) * (2 * y[bag] - 1)
                    total[1] += of * seen[1, bag] * np.log1p(np.exp(-signed))
    unit = 6 / seen.sum(axis=1)
    np.testing.assert_allclose(found.numpy(), total * unit, rtol=1e-9)


@pytest.mark.parametrize("ordered", [False, True])
def test_smoothed_attention_equals_the_iteration_by_hand(ordered):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 15, 12)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    place = rng.normal(size=(offsets[-1], 2))
    X = Bags(rng.normal(size=(offsets[-1], 3)), offsets, coords=place)
    if ordered:
        X = Bags(X.data, offsets)
        place = np.concatenate([np.arange(size) for size in sizes])[:, None]
    model = NeuralBagClassifier(
        smoothness=0.6, hidden=6, attention=4, n_models=1, max_epochs=3,
        learning_rate=0.1, precision="float64", random_state=0,
    ).fit(X, np.arange(12) % 2)  # fmt: skip
    smooth = model.attention_weights(X).values
    contributions = model.instance_scores(X).values
    total = np.add.reduceat(contributions, offsets[:-1])
    np.testing.assert_allclose(total, model.decision_function(X), atol=1e-9)
    model.smoothness_ = 0.0  # the scores of the attention, up to a constant per bag
    plain = np.log(model.attention_weights(X).values)
    for start, stop in pairwise(offsets):
        score, own = plain[start:stop], place[start:stop]
        gap = np.linalg.norm(own[:, None] - own, axis=2)
        np.fill_diagonal(gap, np.inf)
        near = np.argsort(gap, axis=1, kind="stable")[:, : min(8, len(own) - 1)]
        g = score
        for _ in range(10):
            mean = g[near].mean(axis=1) if len(own) > 1 else score
            g = 0.4 * score + 0.6 * mean
        share = np.exp(g - g.max())
        np.testing.assert_allclose(smooth[start:stop], share / share.sum(), rtol=1e-7)
    assert np.abs(smooth - np.exp(plain)).max() > 1e-3


def test_standardization_of_each_set_of_bags(monkeypatch):
    monkeypatch.setattr("bagwise.neural.engine.rows.CHUNK_VALUES", 15)
    x = make_rows() * [1, 10, 0.1, 1, 0] + [1e6, 0, 3, -5, 7]
    seen = np.array([[1, 1, 1, 1], [1, 0, 1, 0]], dtype=bool)
    mean, scale = standardization(x, OFFSETS, seen, CPU)
    for m, rows in enumerate([x, x[np.repeat(seen[1], SIZES)]]):
        expected = rows.std(axis=0)
        expected[4] = 1.0
        np.testing.assert_allclose(mean[m], rows.mean(axis=0), rtol=1e-10)
        np.testing.assert_allclose(scale[m], expected, rtol=1e-6)
    mean, scale = standardization(x, OFFSETS, seen, CPU, pooled=True)
    np.testing.assert_allclose(mean[0], x.mean(), rtol=1e-10)
    np.testing.assert_allclose(scale[0], x.std(), rtol=1e-8)


@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
def test_losses_equal_their_formulas(loss):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4, 2, 3))
    targets = {
        "logistic": rng.integers(0, 2, (4, 1, 3)).astype(float),
        "softmax": rng.integers(0, 3, 4),
        "squared": rng.normal(size=(4, 2, 3)),
    }[loss]
    found = bag_losses(loss, torch.as_tensor(scores), torch.as_tensor(targets))
    if loss == "logistic":
        expected = np.log1p(np.exp(scores)) - targets * scores
    elif loss == "squared":
        expected = 0.5 * (scores - targets) ** 2
    else:
        own = np.take_along_axis(scores, targets[:, None, None], axis=2)[:, :, 0]
        expected = np.log(np.exp(scores).sum(axis=2)) - own
    if loss != "softmax":
        expected = expected.mean(axis=2)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
