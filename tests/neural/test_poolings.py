"""Poolings with layers of their own, against one bag at a time in plain torch."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

from bagwise import Bags  # noqa: E402
from bagwise.datasets import make_bags  # noqa: E402
from bagwise.neural import NeuralBagClassifier, NeuralBagRegressor  # noqa: E402
from bagwise.neural.engine.inference import Fitted  # noqa: E402
from bagwise.neural.engine.losses import Goal  # noqa: E402
from bagwise.neural.engine.network import (  # noqa: E402
    POOLINGS,
    Shape,
    bag_scores,
    initial_weights,
    pooled,
)
from bagwise.neural.engine.rows import Rows  # noqa: E402
from bagwise.neural.engine.segments import Segments  # noqa: E402
from bagwise.neural.engine.training import Models, Options, train  # noqa: E402
from bagwise.testing import _check_data, _check_models  # noqa: E402

CPU = torch.device("cpu")
SIZES = np.array([3, 1, 20, 2, 3, 11])
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])
WIDTH, ATTENTION = 8, 3
SMALL = {
    "hidden": 8,
    "attention": 4,
    "n_models": 2,
    "learning_rate": 0.03,
    "max_epochs": 5,
    "random_state": 0,
}


def make_shape(pooling, n_outputs):
    return Shape(5, n_outputs, (WIDTH,), ATTENTION, pooling, "additive")


def make_weights(shape, n_models=2):
    weights = initial_weights(shape, range(n_models))
    generator = torch.Generator().manual_seed(1)
    for w in weights.values():
        w += 0.3 * torch.randn(w.shape, generator=generator, dtype=w.dtype)
    return weights


def make_rows():
    return torch.as_tensor(np.random.default_rng(0).normal(size=(SIZES.sum(), 5)))


def embedded(w, bag):
    return torch.relu(bag @ w["hidden0.weight"].T + w["hidden0.bias"])


def gated(w, h, name="attention"):
    inner = h @ w[f"{name}.weight"] + w[f"{name}.bias"]
    value, gate = inner[:, :ATTENTION], inner[:, ATTENTION:]
    return (torch.tanh(value) * torch.sigmoid(gate)) @ w[f"{name}.score"]


def norm(w, name, x):
    mean = x.mean(-1, keepdim=True)
    spread = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(spread + 1e-5) * (1 + w[f"{name}.gain"]) + w[
        f"{name}.bias"
    ]


def dsmil(w, h, n_outputs):
    """Return the two streams of Li et al. (2021)."""
    instance = h @ w["instance.weight"] + w["instance.bias"]
    query = h @ w["query.weight"] + w["query.bias"]
    second = []
    for k in range(n_outputs):
        critical = query[instance[:, k].argmax()]
        a = torch.softmax(query @ critical / math.sqrt(ATTENTION), 0)
        second.append((a @ h) @ w["bag.weight"][:, k] + w["intercept"][k])
    return instance.amax(0), torch.stack(second)


def clam(w, h, n_outputs, several):
    """Return the score and the scores of the attention of Lu et al. (2021)."""
    score = gated(w, h)
    z = torch.softmax(score, 0).T @ h
    if not several:
        return z[0] @ w["bag.weight"] + w["intercept"], score
    logits = (z * w["bag.weight"].T).sum(1)
    if n_outputs == 1:
        logits = logits[1:] - logits[:1]
    return logits + w["intercept"], score


def clustering(w, h, score, classes):
    """Clustering loss of one bag; `classes` has a one for those it belongs to."""
    k = min(8, max(1, len(h) // 2))
    own, other = [], []
    for c, member in enumerate(classes):
        s = score[:, min(c, score.shape[1] - 1)]
        order = torch.argsort(s, descending=True)
        margin = h @ w["cluster.weight"][:, c] + w["cluster.bias"][c]
        logits = torch.stack([torch.zeros_like(margin), margin], 1)

        def smooth(rows, target, logits=logits):
            off = torch.tensor([1.0, 1.0]).double()
            off[target] = 0.0
            x = logits[rows] + off - logits[rows][:, [target]]
            return torch.logsumexp(x, 1)

        if member:
            pair = torch.cat([smooth(order[:k], 1), smooth(order[-k:], 0)])
            own.append(pair.mean())
        else:
            other.append(smooth(order[:k], 0).mean())
    return sum(own) / max(1, len(own)) + sum(other) / max(1, len(other))


def dtfd(w, h, groups):
    """Return scores of the bag and of its pseudo-bags, of Zhang et al. (2022)."""
    z = torch.stack([torch.softmax(gated(w, h[g]), 0)[:, 0] @ h[g] for g in groups])
    beta = torch.softmax(gated(w, z, "tier2"), 0)[:, 0]
    tier1 = z @ w["pseudo.weight"] + w["pseudo.bias"]
    return (beta @ z) @ w["bag.weight"] + w["intercept"], tier1


def attention(w, name, x, n_heads, nystroem):
    """Multi-head attention, written out head by head."""
    width = x.shape[1]
    q, k, v = (x @ w[f"{name}.qkv"]).split(width, 1)
    d = width // n_heads
    out = []
    for i in range(n_heads):
        part = slice(i * d, (i + 1) * d)
        heads = q[:, part] / math.sqrt(d), k[:, part], v[:, part]
        out.append(heads)
    landmarks = width // 2
    if not nystroem or len(x) <= landmarks:
        return torch.cat([torch.softmax(q @ k.T, 1) @ v for q, k, v in out], 1)
    filled = -len(x) % landmarks
    kernels = []
    for q, k, v in out:
        q, k, v = (F.pad(one, (0, 0, filled, 0)) for one in (q, k, v))
        mean_q = torch.stack([one.mean(0) for one in q.chunk(landmarks)])
        mean_k = torch.stack([one.mean(0) for one in k.chunk(landmarks)])
        kernels.append(
            [torch.softmax(a @ b.T, 1) for a, b in ((q, mean_k), (mean_q, mean_k))]
            + [torch.softmax(mean_q @ k.T, 1) @ v]
        )
    top = max(a.sum(1).max() for _, a, _ in kernels)
    top = top * max(a.sum(0).max() for _, a, _ in kernels)
    result = []
    for first, a, last in kernels:
        z, eye = a.T / top, torch.eye(landmarks, dtype=a.dtype)
        for _ in range(6):
            az = a @ z
            z = 0.25 * z @ (13 * eye - az @ (15 * eye - az @ (7 * eye - az)))
        result.append((first @ z @ last)[filled:])
    return torch.cat(result, 1)


def transmil(w, h):
    """Score of Shao et al. (2021), Algorithm 2."""
    side = math.ceil(math.sqrt(len(h)))
    x = torch.cat([w["token"][None], h, h[: side**2 - len(h)]])
    x = x + attention(w, "layer0", norm(w, "layer0.norm", x), 8, True)
    image = x[1:].T.reshape(1, WIDTH, side, side)
    grid = image
    for size in (7, 5, 3):
        grid = grid + F.conv2d(
            image,
            w[f"grid{size}.weight"][:, None],
            w[f"grid{size}.bias"],
            padding=size // 2,
            groups=WIDTH,
        )
    x = torch.cat([x[:1], grid[0].reshape(WIDTH, -1).T])
    x = x + attention(w, "layer1", norm(w, "layer1.norm", x), 8, True)
    return norm(w, "norm", x[0]) @ w["bag.weight"] + w["intercept"]


def set_transformer(w, h):
    """Score of two layers of self-attention and pooling by attention."""
    x = h
    for i in range(2):
        own = f"layer{i}"
        x = x + attention(w, own, norm(w, f"{own}.norm1", x), 8, False)
        up = norm(w, f"{own}.norm2", x) @ w[f"{own}.up.weight"] + w[f"{own}.up.bias"]
        x = x + F.gelu(up) @ w[f"{own}.down.weight"] + w[f"{own}.down.bias"]
    x = norm(w, "norm", x)
    inner = torch.tanh(x @ w["attention.weight"] + w["attention.bias"])
    a = torch.softmax(inner @ w["attention.score"], 0)
    return (a.T @ x)[0] @ w["bag.weight"] + w["intercept"]


def expected(pooling, w, h, n_outputs, y, loss):
    """Score and loss of one bag by one model."""
    if pooling == "dsmil":
        first, second = dsmil(w, h, n_outputs)
        return 0.5 * (first + second), 0.5 * (loss(first, y) + loss(second, y))
    if pooling.startswith("clam"):
        scores, score = clam(w, h, n_outputs, pooling == "clam_mb")
        classes = [1 - y[0], y[0]] if n_outputs == 1 else y
        extra = clustering(w, h, score, classes)
        return scores, 0.7 * loss(scores, y) + 0.3 * extra
    if pooling == "dtfd":
        n_groups = min(8, len(h))
        order = torch.argsort(gated(w, h)[:, 0], descending=True)
        groups = [order[g::n_groups] for g in range(n_groups)]
        scores, tier1 = dtfd(w, h, groups)
        return scores, loss(scores, y) + sum(loss(s, y) for s in tier1) / n_groups
    make = transmil if pooling == "transmil" else set_transformer
    scores = make(w, h)
    return scores, loss(scores, y)


@pytest.mark.parametrize("kind", ["logistic", "labels", "softmax"])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_scores_losses_and_gradients_equal_one_bag_at_a_time(pooling, kind):
    n_outputs = 1 if kind == "logistic" else 3
    shape = make_shape(pooling, n_outputs)
    weights = make_weights(shape)
    for w in weights.values():
        w.requires_grad_()
    x = make_rows()
    rng = np.random.default_rng(2)
    if kind == "softmax":
        codes = torch.as_tensor(rng.integers(0, 3, len(SIZES)))
        targets, labels = codes, F.one_hot(codes, 3).double()

        def loss(s, y):
            return F.cross_entropy(s, y)

    else:
        labels = torch.as_tensor(rng.integers(0, 2, (len(SIZES), n_outputs))).double()
        targets, loss = labels[:, None], F.binary_cross_entropy_with_logits
    name = "softmax" if kind == "softmax" else "logistic"
    task = Goal(name, targets, torch.ones(len(SIZES), 2, dtype=torch.float64))
    segments = Segments.of(SIZES, CPU)
    found = pooled(shape, weights, x, segments)
    losses = POOLINGS[pooling].losses(shape, found, segments, task)
    names = list(weights)
    gradients = torch.autograd.grad(losses.sum(), weights.values(), allow_unused=True)
    total = 0.0
    for m in range(2):
        own = {key: w[m] for key, w in weights.items()}
        for i in range(len(SIZES)):
            h = embedded(own, x[OFFSETS[i] : OFFSETS[i + 1]])
            scores, value = expected(pooling, own, h, n_outputs, labels[i], loss)
            torch.testing.assert_close(found.scores[i, m], scores, rtol=0, atol=1e-10)
            torch.testing.assert_close(losses[i, m], value, rtol=0, atol=1e-10)
            total = total + value
    wanted = torch.autograd.grad(total, weights.values(), allow_unused=True)
    for key, ours, theirs in zip(names, gradients, wanted, strict=True):
        if theirs is None:
            assert ours is None or not ours.any(), key
        else:
            torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9, msg=key)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_gradients_equal_finite_differences(pooling):
    shape = make_shape(pooling, 1)
    weights = make_weights(shape, 1)
    names, values = zip(*weights.items(), strict=True)
    x, segments = make_rows()[:7], Segments.of(np.array([3, 1, 3]), CPU)
    targets = torch.tensor([0.0, 1.0, 1.0]).double()[:, None, None]
    task = Goal("logistic", targets, torch.ones(3, 1, dtype=torch.float64))

    def loss(*values):
        found = pooled(shape, dict(zip(names, values, strict=True)), x, segments)
        return POOLINGS[pooling].losses(shape, found, segments, task).sum()

    values = [w.requires_grad_() for w in values]
    assert torch.autograd.gradcheck(loss, values, fast_mode=True)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_contributions_sum_to_scores_and_shares_to_one(pooling, n_outputs, monkeypatch):
    shape = make_shape(pooling, n_outputs)
    weights = make_weights(shape)
    x = make_rows()
    fitted = Fitted(shape, weights, {}, np.zeros(5), np.ones(5), CPU, torch.float64)
    monkeypatch.setattr("bagwise.neural.engine.inference.chunk_rows", lambda *a: 4)
    found = fitted.evaluate(x.numpy(), OFFSETS)
    scores = bag_scores(shape, weights, x, Segments.of(SIZES, CPU))
    np.testing.assert_allclose(found["scores"], scores, atol=1e-12)
    total = np.add.reduceat(found["contributions"], OFFSETS[:-1], axis=0)
    np.testing.assert_allclose(total, scores, atol=1e-12)
    share = np.add.reduceat(found["attention"], OFFSETS[:-1], axis=0)
    np.testing.assert_allclose(share, 1.0)
    assert (found["attention"] >= 0).all()


def test_contributions_of_the_class_token_are_those_of_its_attention():
    # At the scale of the class token, the sum over instances is linear in each of them.
    shape = make_shape("transmil", 1)
    weights = make_weights(shape, 1)
    segments = Segments.of(SIZES, CPU)
    found = pooled(shape, weights, make_rows(), segments)
    # The last layer without values of instances leaves the class token alone.
    silent = dict(weights)
    silent["layer1.qkv"] = weights["layer1.qkv"].clone()
    silent["layer1.qkv"][:, :, 2 * WIDTH :] = 0.0
    silent["norm.bias"] = torch.zeros_like(weights["norm.bias"])
    silent["intercept"] = torch.zeros_like(weights["intercept"])
    flat = pooled(shape, silent, make_rows(), segments)
    for i, size in enumerate(SIZES):
        part = flat.contributions[OFFSETS[i] : OFFSETS[i] + size, 0, 0]
        torch.testing.assert_close(part, flat.scores[i, 0, 0].expand(size) / size)
    assert float(found.contributions[OFFSETS[2] : OFFSETS[3]].std()) > 1e-3


def test_groups_of_pseudo_bags_are_random_in_training_and_of_equal_size():
    shape = make_shape("dtfd", 1)
    h = torch.randn(1, 20, WIDTH, dtype=torch.float64)
    weights = {k: w for k, w in make_weights(shape, 1).items() if "hidden" not in k}
    segments = Segments.of(np.array([20]), CPU)
    fixed, again = (POOLINGS["dtfd"].forward(shape, weights, h, segments) for _ in "ab")
    assert torch.equal(fixed.scores, again.scores)
    generator = torch.Generator().manual_seed(0)
    drawn = [
        POOLINGS["dtfd"].forward(shape, weights, h, segments, generator).scores
        for _ in range(3)
    ]
    assert len({float(s) for s in drawn}) == 3
    key = torch.rand(20, 1)
    _, groups, pseudo = POOLINGS["dtfd"]._deal(key, segments)
    assert groups.sizes.tolist() == [8]
    assert pseudo.sizes.tolist() == [3] * 4 + [2] * 4


@pytest.mark.parametrize("pooling", POOLINGS)
def test_models_trained_together_equal_models_trained_alone(pooling):
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 6, 20)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    x, y = rng.normal(size=(offsets[-1], 5)), np.arange(20) % 2.0
    hidden = np.zeros((3, 20))
    hidden[0, :4] = hidden[1, 4:8] = hidden[2, 8:12] = 1.0

    def run(pick, budget=1e9):
        models = Models(
            seeds=np.array([1, 2, 3])[pick],
            learning_rate=np.array([1e-3, 2e-3, 5e-3])[pick],
            weight_decay=np.array([0.0, 1e-2, 1e-3])[pick],
            dropout=np.array([0.0, 0.5, 0.25])[pick],
            train_weight=(hidden == 0)[pick].astype(float),
            valid_weight=hidden[pick],
        )
        rows = Rows(x, np.zeros(5), np.ones(5), CPU, torch.float64, budget)
        assert rows.resident == (budget > 0)
        options = Options(8, 3, 4, 10, seed=0, instance_dropout=0.3)
        shape = make_shape(pooling, 1)
        return train(
            rows, offsets, y[:, None, None], "logistic", shape, models, options
        ).weights

    together = run([0, 1, 2])
    for key, streamed in run([0, 1, 2], budget=0).items():
        np.testing.assert_array_equal(streamed, together[key])
    # Alone, the first model sees other bags in an epoch: those that it may see.
    pair = run([0, 1])
    for key, weight in pair.items():
        np.testing.assert_allclose(weight, together[key][:2], rtol=1e-7, atol=1e-9)


# The whole battery runs on the default pooling; these depend on the pooling.
CHECKS = (
    *(_check_data.check_test_bag_order, _check_data.check_instance_order),
    *(_check_data.check_single_instance_bags, _check_data.check_float32),
    *(_check_data.check_awkward_data, _check_data.check_zero_weights),
    *(_check_models.check_same_seed, _check_models.check_pickle),
    *(_check_models.check_model_file, _check_models.check_refit_forgets),
    *(_check_models.check_parameters_after_fit, _check_models.check_classifier_outputs),
)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_battery(pooling, check):
    settings = {**SMALL, "max_epochs": 16, "dropout": 0.25, "precision": "float64"}
    settings["random_state"] = None
    model = NeuralBagClassifier(pooling, **settings)
    if pooling == "transmil" and check.__name__ == "check_instance_order":
        # Convolutions on the grid of the instances depend on their order.
        with pytest.raises(AssertionError, match="instance order"):
            check(model)
        return
    check(model)


def toy(n_bags=24, **options):
    return make_bags(n_bags, n_features=4, bag_size=(2, 5), random_state=1, **options)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_estimators_learn_and_explain(pooling, n_classes):
    X, y = toy(40, n_classes=n_classes)
    settings = {**SMALL, "max_epochs": 30, "dropout": 0.0}
    model = NeuralBagClassifier(pooling, **settings).fit(X, y)
    assert model.score(X, y) > 0.8
    total = np.add.reduceat(model.instance_scores(X).values, X.offsets[:-1], axis=0)
    np.testing.assert_allclose(total, model.decision_function(X), atol=1e-5)
    share = np.add.reduceat(model.attention_weights(X).values, X.offsets[:-1])
    np.testing.assert_allclose(share, 1.0, rtol=1e-5)
    if pooling != "transmil":  # which sees the order
        turned = Bags.from_list([bag[::-1] for bag in X])
        np.testing.assert_allclose(
            model.decision_function(turned), model.decision_function(X), atol=1e-5
        )


@pytest.mark.parametrize("pooling", ["dsmil", "dtfd", "transmil", "set_transformer"])
def test_values_of_instances_are_those_of_bags_of_one(pooling):
    X, y = toy()
    model = NeuralBagRegressor(pooling, **SMALL).fit(X, y.astype(float))
    alone = Bags(X.data, np.arange(X.n_instances + 1))
    np.testing.assert_allclose(
        model.instance_scores(X).values, model.predict(alone), atol=1e-6
    )


def test_clustering_needs_classes():
    X, y = toy()
    with pytest.raises(ValueError, match="pooling"):
        NeuralBagRegressor("clam_sb", **SMALL).fit(X, y.astype(float))
