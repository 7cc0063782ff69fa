"""The passes between products, against the network in single operations.

`Plain` stands for the kernels of a GPU: it shows that what surrounds them is right.
The kernels themselves run in the interpreter of triton where that is installed.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bagwise.neural.engine import network  # noqa: E402
from bagwise.neural.engine.layers import NO_NOISE, Noise  # noqa: E402
from bagwise.neural.engine.network import (  # noqa: E402
    Shape,
    bag_scores,
    initial_weights,
)
from bagwise.neural.engine.segments import Segments  # noqa: E402

CPU = torch.device("cpu")
SIZES = np.array([3, 40, 1, 5, 2, 29])


class Plain:
    """The kernels in the words of `fused`, with gradients written down by hand."""

    @staticmethod
    def _kept(drawn, keep):
        return 1.0 if drawn is None else (drawn < keep) / keep

    def hidden(self, product, bias, drawn, keep):
        h = torch.relu(product + bias[:, None]) * self._kept(drawn, keep)
        product.copy_(h)

    def hidden_gradient(self, grad, h, keep):
        grad = grad * (h > 0) / (1.0 if keep is None else keep)
        return grad, grad.sum(dim=1)

    def _parts(self, product, bias, score, out, gated):
        z = product + bias[:, None]
        n = score.shape[1]
        gate = (
            torch.sigmoid(z[:, :, n : 2 * n]) if gated else torch.ones_like(z[..., :n])
        )
        return torch.tanh(z[:, :, :n]), gate, z[:, :, -out.shape[1] :]

    def attend(self, product, bias, score, out, drawn, keep, gated):
        value, gate, z = self._parts(product, bias, score, out, gated)
        f = torch.relu(z) * self._kept(drawn, keep)
        return (value * gate * score[:, None]).sum(2), (f * out[:, None]).sum(2)

    def attend_gradient(
        self, of_score, of_value, product, bias, score, out, drawn, keep, gated
    ):
        value, gate, z = self._parts(product, bias, score, out, gated)
        of_score, of_value = of_score[:, :, None], of_value[:, :, None]
        slope = of_score * score[:, None]
        parts = [slope * gate * (1 - value**2)]
        if gated:
            parts.append(slope * value * gate * (1 - gate))
        kept = self._kept(drawn, keep) * (z > 0)
        parts.append(of_value * out[:, None] * kept)
        grad = torch.cat(parts, dim=2)
        of_out = (of_value * z * kept).sum(dim=1)
        return grad, grad.sum(1), (of_score * value * gate).sum(1), of_out


def scores_and_gradients(kernels, pooling, keep, dtype, monkeypatch):
    """Return scores and gradients of a network of three models, as numpy arrays."""
    monkeypatch.setattr(network, "kernels_for", lambda shape, x: kernels)
    shape = Shape(5, 1, (20, 7), 3, pooling, "additive")
    weights = {
        name: weight.to(dtype).requires_grad_()
        for name, weight in initial_weights(shape, [1, 2, 3]).items()
    }
    rng = np.random.default_rng(0)
    x = torch.as_tensor(rng.normal(size=(SIZES.sum(), 5)), dtype=dtype)
    scale = torch.as_tensor(rng.uniform(0.5, 2.0, size=(3, 5)), dtype=dtype)
    shift = torch.as_tensor(rng.normal(size=(3, 5)), dtype=dtype)
    noise = NO_NOISE
    if keep is not None:
        noise = Noise(keep, torch.Generator().manual_seed(0), CPU, dtype)
    segments = Segments.of(SIZES, CPU)
    scores = bag_scores(shape, weights, x, segments, noise, (scale, shift))
    pull = torch.as_tensor(rng.normal(size=scores.shape), dtype=scores.dtype)
    (scores * pull).sum().backward()
    found = {name: weight.grad.numpy() for name, weight in weights.items()}
    return {"scores": scores.detach().numpy(), **found}


@pytest.mark.parametrize("pooling", ["gated", "attention"])
@pytest.mark.parametrize("keep", [None, [0.75] * 3, [1.0, 0.75, 0.5]])
def test_few_passes_equal_single_operations(pooling, keep, monkeypatch):
    given = pooling, keep, torch.float64, monkeypatch
    expected = scores_and_gradients(None, *given)
    found = scores_and_gradients(Plain(), *given)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"head": "pooled"}, "one value for each instance is needed"),
        ({"pooling": "mean"}, "there is no attention"),
        ({"n_outputs": 2}, "several outputs"),
        ({"hidden": (5000,)}, "too wide for a tile"),
    ],
)
def test_other_networks_have_no_such_kernels(change, why, monkeypatch):
    monkeypatch.setattr(network, "_triton", lambda: "kernels")

    class OnGPU:
        is_cuda, dtype = True, torch.bfloat16

    kind = {"n_outputs": 1, "hidden": (16,), "pooling": "gated", "head": "additive"}
    usual = Shape(n_inputs=5, attention=8, **kind)
    assert network.kernels_for(usual, OnGPU) == "kernels"
    other = Shape(n_inputs=5, attention=8, **{**kind, **change})
    assert network.kernels_for(other, OnGPU) is None, why
    assert network.kernels_for(usual, torch.zeros(1)) is None


def interpreted_error(monkeypatch):
    """Errors of the kernels, by the interpreter, over those of single operations."""
    from bagwise.neural.engine import _triton

    # Several tiles, several programs, and rows that fill neither.
    monkeypatch.setattr(_triton, "_TILES", 2)
    monkeypatch.setattr(_triton, "_MOST_UNITS", 64)
    worst = 0.0
    for pooling in ("gated", "attention"):
        for keep in (None, [0.75] * 3, [1.0, 0.75, 0.5]):
            exact, single, found = (
                scores_and_gradients(kernels, pooling, keep, dtype, monkeypatch)
                for kernels, dtype in [
                    (None, torch.float64),
                    (None, torch.float32),
                    (_triton, torch.float32),
                ]
            )
            for name, value in exact.items():
                allowed = (
                    np.abs(single[name] - value).max() + 1e-6 * np.abs(value).max()
                )
                error = np.abs(found[name] - value).max()
                worst = max(worst, float(error / allowed))
    return worst


def test_kernels_of_triton_in_its_interpreter():
    pytest.importorskip("triton", reason="triton comes with torch for a GPU")
    done = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 2.0


if __name__ == "__main__":
    print(interpreted_error(pytest.MonkeyPatch()))
