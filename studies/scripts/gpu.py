"""Networks and kernels on a GPU: times, memory, and the error against the CPU.

    python studies/scripts/gpu.py [--output FOLDER] [--only networks|poolings|kernels]

Needs torch with CUDA, numpy, scipy and scikit-learn; a machine without numba runs it
too, with the CPU's references in plain Python where they would be compiled (they are
small). Without a CUDA device it says so and ends. Writes `figures.json` and `README.md`
into the output folder after each part, so that a run that is stopped keeps what it has.
"""

import argparse
import importlib.machinery
import importlib.util
import json
import platform
import sys
import time
import types
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[1] / "results"
ROOT = Path(__file__).resolve().parents[2]


def without_numba():
    """Stand in for a missing compiler: loops run as plain Python."""
    if importlib.util.find_spec("numba") is not None:
        return False
    stub = types.ModuleType("numba")
    stub.__spec__ = importlib.machinery.ModuleSpec("numba", None)
    stub.njit = lambda *args, **options: (
        args[0] if args and callable(args[0]) else lambda function: function
    )
    stub.prange = range
    sys.modules["numba"] = stub
    return True


def timed(function, repeats=3):
    """Best time of several calls that end with the device idle, and the result."""
    import torch

    result, best = function(), np.inf  # the first call compiles and allocates
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = function()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best, result


def relative_error(found, expected):
    """Norm of the difference over the norm."""
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


class Log:
    """Figures, printed as they come, written at the end."""

    def __init__(self):
        self.rows = []

    def add(self, what, value, unit, bar=None, note=""):
        """Record one figure; `bar` is an upper bound, or minus a lower one."""
        met = None
        if bar is not None:
            met = value <= bar if bar > 0 else value >= -bar
        self.rows.append(
            {
                "what": what,
                "value": float(value),
                "unit": unit,
                "bar": bar,
                "met": met,
                "note": note,
            }
        )
        goal = "" if bar is None else f"  ({'at most' if bar > 0 else 'at least'} "
        goal += "" if bar is None else f"{abs(bar):g}: {'yes' if met else 'NO'})"
        print(f"{what:<66} {value:>10.4g} {unit}{goal} {note}", flush=True)


# -- networks ----------------------------------------------------------------


def make_slides(n_bags, n_rows, width, dtype):
    """Rows of bags of unequal size, drawn on the device and kept on the host."""
    import torch

    rng = np.random.default_rng(0)
    sizes = rng.dirichlet(np.full(n_bags, 4.0)) * (n_rows - n_bags)
    sizes = sizes.astype(np.int64) + 1
    sizes[0] += n_rows - sizes.sum()
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    host = torch.empty(n_rows, width, dtype=dtype)
    step = 2_000_000
    for start in range(0, n_rows, step):
        part = host[start : start + step]
        part.copy_(torch.randn(part.shape, device="cuda").to(dtype))
    y = rng.integers(0, 2, n_bags).astype(np.float64)
    return host.numpy(), offsets, y


def train_epochs(
    rows,
    offsets,
    y,
    n_models,
    *,
    per_step=32,
    most=None,
    epochs=8,
    pooling="gated",
    **kw,
):
    """Median seconds of an epoch after the first, by the engine of the networks."""
    from bagwise.neural.engine import training
    from bagwise.neural.engine.network import Shape

    n_bags = len(y)
    models = training.Models(
        seeds=np.arange(n_models),
        learning_rate=kw.get("rates", np.full(n_models, 2e-4)),
        weight_decay=np.full(n_models, 1e-4),
        dropout=np.full(n_models, 0.25),
        train_weight=kw.get("weight", np.ones((n_models, n_bags))),
        valid_weight=np.zeros((n_models, n_bags)),
    )
    shape = Shape(rows.width, 1, (256,), 128, pooling, "additive")
    options = training.Options(per_step, most, epochs, 10, 0)
    found = training.train(
        rows, offsets, y[:, None, None], "logistic", shape, models, options
    )
    return float(np.median(found.epoch_seconds[1:]))


def one_bag_at_a_time(rows, offsets, y):
    """Seconds of an epoch of a plain torch loop: one bag, one step."""
    import torch
    from torch import nn

    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Sequential(
                nn.Linear(rows.width, 256), nn.ReLU(), nn.Dropout(0.25)
            )
            self.value, self.gate = nn.Linear(256, 128), nn.Linear(256, 128)
            self.score = nn.Linear(128, 1)
            self.head = nn.Sequential(
                nn.Linear(256, 128), nn.ReLU(), nn.Dropout(0.25), nn.Linear(128, 1)
            )

        def forward(self, x):
            h = self.embed(x)
            score = self.score(torch.tanh(self.value(h)) * torch.sigmoid(self.gate(h)))
            return (torch.softmax(score.float(), dim=0) * self.head(h)).sum()

    model = Gated().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    loss = nn.BCEWithLogitsLoss()
    targets = torch.as_tensor(y, dtype=torch.float32, device="cuda")

    def epoch():
        for i in np.random.default_rng(0).permutation(len(y)):
            x = rows.rows[offsets[i] : offsets[i + 1]]
            with torch.autocast("cuda", torch.bfloat16):
                score = model(x)
            value = loss(score.float(), targets[i])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()

    return timed(epoch, repeats=2)[0]


def gradient_errors(log):
    """Gradients with few passes over the rows against those of single operations."""
    import torch

    from bagwise.neural.engine import layers, network
    from bagwise.neural.engine.segments import Segments

    sizes = np.random.default_rng(0).integers(1, 400, size=30)
    shape = network.Shape(64, 1, (256,), 128, "gated", "additive")
    x = torch.randn(sizes.sum(), 64, generator=torch.Generator().manual_seed(0))

    def gradient(device, dtype, keep=None):
        weights = network.initial_weights(shape, range(6))
        weights = {k: w.to(device, dtype).requires_grad_() for k, w in weights.items()}
        noise = layers.NO_NOISE
        if keep is not None:
            stream = torch.Generator(device).manual_seed(0)
            noise = layers.Noise(keep, stream, device, dtype)
        scores = network.bag_scores(
            shape, weights, x.to(device, dtype), Segments.of(sizes, device), noise
        )
        scores.square().sum().backward()
        parts = [w.grad.double().cpu().numpy().ravel() for w in weights.values()]
        return np.concatenate(parts)

    cuda = torch.device("cuda")
    found = gradient(cuda, torch.float32)
    error = relative_error(found, gradient(torch.device("cpu"), torch.float64))
    log.add("gradient of six models, float32, error against the CPU", error, "", 1e-5)
    keep = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    found = gradient(cuda, torch.float32, keep)
    kernels_for, network.kernels_for = network.kernels_for, lambda shape, x: None
    plain = gradient(cuda, torch.float32, keep)
    network.kernels_for = kernels_for
    error = relative_error(found, plain)
    log.add("the same with dropout, against single operations", error, "", 1e-5)


def networks(log):
    """Epochs of gated attention; many models at once; rows on the host."""
    import torch

    from bagwise.neural.engine import training
    from bagwise.neural.engine.rows import Rows

    training._STEPS = training._FEWEST_BAGS = 1  # use the given bags per step
    device = torch.device("cuda")
    gradient_errors(log)
    data, offsets, y = make_slides(400, 1_900_000, 1024, torch.float16)
    place = (np.zeros(1024), np.ones(1024), device, torch.bfloat16, 1e11)
    rows = Rows(data, *place)
    epoch = train_epochs(rows, offsets, y, 1)
    title = "epoch, 400 bags / 1.9M x 1,024"
    log.add(f"{title}, one model, all instances", epoch, "s", 0.035)
    single = one_bag_at_a_time(rows, offsets, y)
    log.add(f"{title}, plain loop, one bag a step", single, "s")
    log.add("times faster than one bag at a time", single / epoch, "x", -5.0)
    drawn = train_epochs(rows, offsets, y, 1, most=512)
    log.add(f"{title}, one model, 512 instances drawn a bag", drawn, "s")
    five = train_epochs(rows, offsets, y, 5, most=512)
    log.add(f"{title}, five models, 512 drawn", five, "s")

    # Five folds and six learning rates: the bags of each fold are hidden from six
    # models.
    fold = np.arange(400) % 5
    weight = np.repeat(fold[None, :] != np.arange(5)[:, None], 6, axis=0).astype(float)
    rates = np.tile(np.geomspace(1e-5, 1e-2, 6), 5)
    many = train_epochs(rows, offsets, y, 30, most=512, weight=weight, rates=rates)
    one = train_epochs(rows, offsets, y, 1, most=512, weight=weight[:1])
    log.add("epoch of 30 models (5 folds x 6 settings) at once, 512 drawn", many, "s")
    log.add("share of 30 times one of them", many / (30 * one), "", 0.25)
    del rows
    torch.cuda.empty_cache()

    data, offsets, y = make_slides(1000, 9_800_000, 1024, torch.float16)
    free = torch.cuda.mem_get_info()[0]
    ballast = torch.empty(int(free - 16e9), dtype=torch.uint8, device=device)
    said = []
    rows = Rows(data, *place, say=said.append)
    epoch = train_epochs(rows, offsets, y, 1, most=512, epochs=6)
    log.add(
        "epoch, 1,000 bags / 9.8M x 1,024 (20 GB) from the host, 512 drawn",
        epoch,
        "s",
        note=said[0] if not rows.resident else "NOT STREAMED",
    )
    del ballast, rows
    torch.cuda.empty_cache()
    rows = Rows(data, *place)
    log.add(
        "the same with the rows on the device",
        train_epochs(rows, offsets, y, 1, most=512, epochs=6),
        "s",
    )
    log.add("the same, all instances", train_epochs(rows, offsets, y, 1, epochs=6), "s")
    del rows
    torch.cuda.empty_cache()


# -- poolings with layers of their own ---------------------------------------


def pooling_gradient(pooling, device, dtype):
    """Gradient of the loss of six models on thirty bags, as one vector."""
    import torch

    from bagwise.neural.engine import network
    from bagwise.neural.engine.losses import Goal
    from bagwise.neural.engine.segments import Segments

    sizes = np.random.default_rng(0).integers(1, 400, size=30)
    shape = network.Shape(64, 1, (32,), 16, pooling, "additive")
    rows = torch.randn(sizes.sum(), 64, generator=torch.Generator().manual_seed(0))
    weights = network.initial_weights(shape, range(6))
    weights = {k: w.to(device, dtype).requires_grad_() for k, w in weights.items()}
    segments = Segments.of(sizes, device)
    found = network.pooled(shape, weights, rows.to(device, dtype), segments)
    y = (torch.arange(30, device=device) % 2).to(dtype)[:, None, None]
    task = Goal("logistic", y, torch.ones(30, 6, dtype=dtype, device=device))
    network.POOLINGS[pooling].losses(shape, found, segments, task).sum().backward()
    parts = [w.grad.double().cpu().numpy().ravel() for w in weights.values()]
    return np.concatenate(parts)


def poolings(log):
    """Gradients of the six poolings, and their epochs of many instances."""
    import torch

    from bagwise.neural.engine import training
    from bagwise.neural.engine.network import POOLINGS
    from bagwise.neural.engine.rows import Rows

    training._STEPS = training._FEWEST_BAGS = 1
    cuda = torch.device("cuda")
    data, offsets, y = make_slides(400, 1_900_000, 1024, torch.float16)
    rows = Rows(data, np.zeros(1024), np.ones(1024), cuda, torch.bfloat16, 1e11)
    for name in POOLINGS:
        found = pooling_gradient(name, cuda, torch.float32)
        expected = pooling_gradient(name, torch.device("cpu"), torch.float64)
        error = relative_error(found, expected)
        log.add(f"{name}: gradient of six models, against the CPU", error, "", 1e-4)
        for n_models in (1, 5):
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            seconds = train_epochs(
                rows, offsets, y, n_models, most=512, epochs=4, pooling=name
            )
            taken = (torch.cuda.max_memory_allocated() - before) / 1e9
            log.add(
                f"{name}: epoch, 400 bags / 1.9M x 1,024, {n_models} models, 512 drawn",
                seconds,
                "s",
                note=f"{taken:.1f} GB besides the rows",
            )
            torch.cuda.empty_cache()


# -- kernels -----------------------------------------------------------------


def make_set(n_bags, n_rows, width=100, seed=0):
    """Bags of normal rows with sizes around the mean."""
    from bagwise import Bags

    rng = np.random.default_rng(seed)
    sizes = rng.multinomial(n_rows - n_bags, np.full(n_bags, 1.0 / n_bags)) + 1
    data = rng.standard_normal((n_rows, width), dtype=np.float32)
    return Bags(data, np.concatenate([[0], np.cumsum(sizes)]))


def kernels(log):
    """Set kernels, distances, prototypes and exact SAFE against the CPU."""
    import torch

    import bagwise
    from bagwise.embedding._prototypes import nearest_squared
    from bagwise.kernels import hausdorff, set_kernel
    from bagwise.kernels._tiles import stack_of
    from bagwise.kernels.backends import active
    from bagwise.least_squares import SAFE

    how = {"gamma": 0.01, "normalization": "average"}

    def on_gpu(function, *args, **kwargs):
        with bagwise.config_context(device="cuda"):
            return function(*args, **kwargs)

    def sums(X, fused):
        with bagwise.config_context(device="cuda"):
            params = {"kernel": "rbf", "gamma": how["gamma"]}
            return active().device_sums(stack_of(X), None, params, fused=fused)

    for n_bags, n_rows, plain_bar, fused_bar in (
        (1_000, 24_000, None, None),
        (5_000, 120_000, 0.1, 0.1),
        (20_000, 1_000_000, 6.0, 1.5),
    ):
        X = make_set(n_bags, n_rows)
        size = f"{n_rows:,} instances in {n_bags:,} bags"
        repeats = 3 if n_rows < 500_000 else 1
        plain_time, plain = timed(lambda X=X: sums(X, False), repeats)
        log.add(f"set Gram, {size}, plain torch", plain_time, "s", plain_bar)
        fused_time, fused = timed(lambda X=X: sums(X, True), repeats)
        log.add(f"set Gram, {size}, fused", fused_time, "s", fused_bar)
        gap = float((fused - plain).norm() / plain.norm())
        log.add("the two against each other, relative", gap, "", 1e-4)
        del plain, fused
        whole = timed(lambda X=X: on_gpu(set_kernel, X, **how), repeats)[0]
        log.add(f"set_kernel, {size}, with copies and scaling on the CPU", whole, "s")
        if n_rows < 100_000:
            expected = set_kernel(X, **how)
            error = relative_error(on_gpu(set_kernel, X, **how), expected)
            log.add(
                "set kernel, fused, relative error against the CPU", error, "", 1e-4
            )
    small = make_set(400, 9_000, seed=1)
    error = relative_error(on_gpu(set_kernel, small, **how), set_kernel(small, **how))
    log.add("set kernel, plain torch, relative error against the CPU", error, "", 1e-4)

    for mode in ("min", "max"):
        few = small[:150]
        error = relative_error(
            on_gpu(hausdorff, few, mode=mode), hausdorff(few, mode=mode)
        )
        log.add(f"Hausdorff ({mode}), relative error", error, "", 1e-4)
    X = make_set(5_000, 120_000)
    seconds, _ = timed(lambda: on_gpu(hausdorff, X), repeats=1)
    log.add("Hausdorff (min), 120k instances in 5,000 bags", seconds, "s")
    few = small[:150]
    error = relative_error(
        on_gpu(nearest_squared, few, few.data), nearest_squared(few, few.data)
    )
    log.add("prototypes of MILES, relative error", error, "", 1e-4)
    seconds, _ = timed(lambda: on_gpu(nearest_squared, X, X.data[::6]), repeats=1)
    log.add("prototypes of MILES, 120k instances x 20,000", seconds, "s")

    y = np.arange(400) % 2
    model = SAFE(gamma=0.01)
    expected = model.fit(small, y).decision_function(small)
    found = on_gpu(lambda: model.fit(small, y).decision_function(small))
    log.add(
        "exact SAFE, relative error of decisions",
        relative_error(found, expected),
        "",
        1e-6,
    )
    model = SAFE(gamma=0.01, variance_weight=0.5)
    expected = model.fit(small, y).decision_function(small)
    found = on_gpu(lambda: model.fit(small, y).decision_function(small))
    log.add(
        "exact SAFE with variance weight, relative error",
        relative_error(found, expected),
        "",
        1e-6,
    )
    X = make_set(4_000, 100_000)
    y = np.arange(4_000) % 2
    torch.cuda.empty_cache()
    seconds, _ = timed(lambda: on_gpu(SAFE(gamma=0.01).fit, X, y), repeats=2)
    log.add("exact SAFE, N = 100,000 in 4,000 bags, fit", seconds, "s", 0.5)
    torch.cuda.empty_cache()
    K = make_set(2, 8_000).data.astype(np.float64)
    K = K @ K.T + np.eye(8_000)
    seconds, _ = timed(lambda: on_gpu(lambda: active().cholesky(K)), repeats=1)
    log.add("Cholesky of 8,000 x 8,000, double", seconds, "s")


def write(log, folder, about):
    """Write the figures as JSON and as a page."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"about": about, "figures": log.rows}, indent=1)
    (folder / "figures.json").write_text(text + "\n", encoding="utf-8")
    lines = [
        "# Networks and kernels on a GPU",
        "",
        f"`python studies/scripts/gpu.py` on {about['device']}, torch "
        f"{about['torch']}, Python {about['python']}. Times are the best of a few runs "
        "(epochs: the median), with the device idle at the end; kernels include the "
        "copies to the device and back. Errors are relative, in the norm, against the "
        "CPU.",
        "",
        "| what | value | goal | met |",
        "|---|---|---|---|",
    ]
    for row in log.rows:
        bar = row["bar"]
        goal = "" if bar is None else f"{'<=' if bar > 0 else '>='} {abs(bar):g}"
        met = {None: "", True: "yes", False: "**no**"}[row["met"]]
        note = f"; {row['note']}" if row["note"] else ""
        value = f"{row['value']:.3g} {row['unit']}".strip()
        lines.append(f"| {row['what']}{note} | {value} | {goal} | {met} |")
    (folder / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=RESULTS / "gpu")
    parser.add_argument("--only", choices=["networks", "poolings", "kernels"])
    options = parser.parse_args()
    missing = [
        name
        for name in ("torch", "sklearn", "scipy", "joblib")
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        sys.exit(f"not installed here, and needed: {', '.join(missing)}")
    import torch

    if not torch.cuda.is_available():
        print("no CUDA device here: nothing to measure")
        return
    if without_numba():
        print("numba is not installed: the CPU's loops run as plain Python")
    sys.path.insert(0, str(ROOT / "src"))
    about = {
        "device": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "triton": importlib.util.find_spec("triton") is not None,
    }
    print(about)
    log = Log()
    parts = {"networks": networks, "poolings": poolings, "kernels": kernels}
    failed = []
    for name, part in parts.items():
        if options.only in (None, name):
            started = time.perf_counter()
            try:
                part(log)
            except Exception as error:  # continue with the other parts
                print(f"-- {name} stopped: {type(error).__name__}: {error}")
                failed.append(name)
            print(f"-- {name}: {time.perf_counter() - started:.0f} s", flush=True)
            write(log, options.output, about)
    if failed:
        sys.exit(f"stopped early: {', '.join(failed)}")


if __name__ == "__main__":
    main()
