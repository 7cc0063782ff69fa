"""Measure every hand-written GPU piece of the networks against plain torch.

    python studies/scripts/gpu_pieces.py [--output FOLDER]

One epoch of gated attention is timed with the library's Triton kernels and recorded
steps (CUDA graphs), without each of them, and with ``torch.compile`` instead. The set
kernel's fused Gram matrix is timed against plain and compiled torch. Needs a CUDA
device; writes ``pieces.csv``.
"""

import argparse
import contextlib
import csv
import sys
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[1] / "results"
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))


@contextlib.contextmanager
def replaced(*changes):
    """Set attributes for a while: (object, name, value)."""
    before = [(where, name, getattr(where, name)) for where, name, _ in changes]
    for where, name, value in changes:
        setattr(where, name, value)
    try:
        yield
    finally:
        for where, name, value in before:
            setattr(where, name, value)


def variants():
    """Yield a name and the replacements that make the variant."""
    import torch

    from bagwise.neural.engine import network, training

    def never(*args):
        return False

    def no_kernels(shape, x):
        return None

    def compiled():
        return torch.compile(network.bag_scores, dynamic=True)

    kernels = (network, "kernels_for", no_kernels)
    recording = (training, "worth_recording", never)
    yield "as in the library", []
    yield "without Triton kernels", [kernels]
    yield "without recorded steps", [recording]
    yield "plain torch", [kernels, recording]
    yield (
        "torch.compile",
        [kernels, recording, (training, "bag_scores", compiled())],
    )
    yield (
        "torch.compile, recorded steps",
        [kernels, (training, "bag_scores", compiled())],
    )


def networks(rows_out):
    """Time one epoch of each variant for one, five and thirty models."""
    import torch
    import torch._dynamo
    from gpu import make_slides, train_epochs

    from bagwise.neural.engine import training
    from bagwise.neural.engine.rows import Rows

    torch._dynamo.config.cache_size_limit = 256
    torch.set_float32_matmul_precision("high")
    training._STEPS = training._FEWEST_BAGS = 1
    device = torch.device("cuda")
    data, offsets, y = make_slides(400, 1_900_000, 1024, torch.float16)
    rows = Rows(data, np.zeros(1024), np.ones(1024), device, torch.bfloat16, 1e11)
    fold = np.arange(400) % 5
    weight = np.repeat(fold[None, :] != np.arange(5)[:, None], 6, axis=0).astype(float)
    rates = np.tile(np.geomspace(1e-5, 1e-2, 6), 5)
    cases = {
        "1 model, all instances": {"n_models": 1},
        "5 models, 512 instances per bag": {"n_models": 5, "most": 512},
        "30 models, 512 instances per bag": {
            "n_models": 30,
            "most": 512,
            "weight": weight,
            "rates": rates,
        },
    }
    for name, changes in variants():
        for case, options in cases.items():
            options = dict(options)
            n_models = options.pop("n_models")
            try:
                with replaced(*changes):
                    seconds = train_epochs(
                        rows, offsets, y, n_models, epochs=10, **options
                    )
            except Exception as error:
                print(f"{name}, {case}: {type(error).__name__} {str(error)[:300]}")
                rows_out.append([case, name, "", type(error).__name__])
                continue
            print(f"{case:34} {name:32} {seconds:.4f} s", flush=True)
            rows_out.append([case, name, f"{seconds:.5f}", ""])


def grams(rows_out):
    """Time the set kernel's Gram matrix: fused, plain and compiled torch."""
    import torch
    from gpu import make_set, timed

    import bagwise
    from bagwise.kernels._tiles import stack_of
    from bagwise.kernels.backends import active

    for n_bags, n_rows in ((1_000, 24_000), (5_000, 120_000), (20_000, 1_000_000)):
        X = make_set(n_bags, n_rows)
        case = f"set Gram matrix, {n_rows:,} instances in {n_bags:,} bags"

        def sums(fused, X=X):
            with bagwise.config_context(device="cuda"):
                params = {"kernel": "rbf", "gamma": 0.01}
                return active().device_sums(stack_of(X), None, params, fused=fused)

        for name, fused in (("as in the library", True), ("plain torch", False)):
            seconds, _ = timed(lambda f=fused: sums(f), 2)
            print(f"{case:50} {name:32} {seconds:.4f} s", flush=True)
            rows_out.append([case, name, f"{seconds:.5f}", ""])
        seconds, _ = timed(lambda X=X: compiled_gram(X, 0.01), 2)
        print(f"{case:50} {'torch.compile':32} {seconds:.4f} s", flush=True)
        rows_out.append([case, "torch.compile", f"{seconds:.5f}", ""])
        torch.cuda.empty_cache()


def compiled_gram(X, gamma, block=8192):
    """Sums of the Gaussian kernel over pairs of bags by compiled blocks of torch."""
    import torch

    device = torch.device("cuda")
    x = torch.as_tensor(X.data).to(device)
    sizes = torch.as_tensor(np.diff(X.offsets)).to(device)
    bag = torch.repeat_interleave(torch.arange(len(X), device=device), sizes)
    norms = (x * x).sum(dim=1)
    out = torch.zeros(len(X), len(X), device=device)
    for a in range(0, len(x), block):
        rows = torch.zeros(
            min(block, len(x) - a), len(X), device=device, dtype=torch.float32
        )
        for b in range(0, len(x), block):
            K = gaussian_block(
                x[a : a + block],
                x[b : b + block],
                norms[a : a + block],
                norms[b : b + block],
                gamma,
            )
            first, last = int(bag[b]), int(bag[min(b + block, len(x)) - 1])
            lengths = torch.bincount(
                bag[b : b + block] - first, minlength=last - first + 1
            )
            rows[:, first : last + 1] += torch.segment_reduce(
                K.T.contiguous(), "sum", lengths=lengths, axis=0, unsafe=True
            ).T
        first, last = int(bag[a]), int(bag[min(a + block, len(x)) - 1])
        lengths = torch.bincount(bag[a : a + block] - first, minlength=last - first + 1)
        out[first : last + 1] += torch.segment_reduce(
            rows, "sum", lengths=lengths, axis=0, unsafe=True
        )
    return out


def gaussian_block(x, z, x_norms, z_norms, gamma):
    """Return a block of Gaussian kernel values, compiled on first use."""
    import torch

    if not hasattr(gaussian_block, "compiled"):

        def block(x, z, x_norms, z_norms, gamma):
            d2 = x_norms[:, None] + z_norms[None, :] - 2.0 * (x @ z.T)
            return torch.exp(-gamma * d2.clamp_min(0.0))

        gaussian_block.compiled = torch.compile(block, dynamic=True)
    return gaussian_block.compiled(x, z, x_norms, z_norms, gamma)


def main():
    """Run the measurements and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=RESULTS / "gpu")
    options = parser.parse_args()
    import torch
    from gpu import without_numba

    without_numba()

    if not torch.cuda.is_available():
        sys.exit("no CUDA device")
    rows = []
    networks(rows)
    grams(rows)
    options.output.mkdir(parents=True, exist_ok=True)
    with open(options.output / "pieces.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["case", "variant", "seconds", "failure"])
        table.writerows(rows)


if __name__ == "__main__":
    main()
