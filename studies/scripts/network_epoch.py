"""CPU time of an epoch of a network, and of the matrix products that it needs.

    python studies/scripts/network_epoch.py [--output FOLDER]

200 bags of 500 instances of 512 features, one thread, gated attention with the default
widths, all instances in every epoch. The products are those of the forward pass and of
its gradient, on the rows of a step: the first layer twice (no gradient of the inputs is
needed), the layer of attention and head three times. The two are measured in turn, in
processor time; the ratios of the rounds and their median are written.
"""

import argparse
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[1] / "results" / "neural"
BAGS, SIZE, WIDTH, HIDDEN, ATTENTION = 200, 500, 512, 256, 128


def epoch_seconds(pooling, n_models, rows, offsets, y, epochs):
    """Return processor seconds of an epoch, and the number of rows of a step."""
    from bagwise.neural.engine import training
    from bagwise.neural.engine.network import Shape

    models = training.Models(
        seeds=np.arange(n_models),
        learning_rate=np.full(n_models, 1e-3),
        weight_decay=np.full(n_models, 1e-4),
        dropout=np.full(n_models, 0.5),
        train_weight=np.ones((n_models, BAGS)),
        valid_weight=np.zeros((n_models, BAGS)),
    )
    shape = Shape(WIDTH, 1, (HIDDEN,), ATTENTION, pooling, "additive")
    options = training.Options(32, None, epochs, 10, 0)
    begun = time.process_time()
    training.train(rows, offsets, y[:, None, None], "logistic", shape, models, options)
    return (time.process_time() - begun) / epochs


def product_seconds(n_rows, n_models, epochs):
    """Return processor seconds of the products of an epoch."""
    import torch

    inner = 2 * ATTENTION + HIDDEN // 2
    wide = n_models * HIDDEN
    x, first = torch.randn(n_rows, WIDTH), torch.randn(wide, WIDTH)
    h = torch.randn(n_models, n_rows, HIDDEN)
    second = torch.randn(n_models, HIDDEN, inner)
    grad = torch.randn(n_models, n_rows, inner)
    flat = torch.randn(n_rows, wide)
    steps = -(-BAGS * SIZE // n_rows)
    begun = time.process_time()
    for _ in range(epochs * steps):
        torch.nn.functional.linear(x, first)
        torch.bmm(h, second)
        torch.bmm(h.transpose(1, 2), grad)
        torch.bmm(grad, second.transpose(1, 2))
        torch.mm(flat.T, x)
    # The last step has fewer rows than the others.
    share = BAGS * SIZE / (steps * n_rows)
    return share * (time.process_time() - begun) / epochs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    import torch

    from bagwise.neural.engine import training
    from bagwise.neural.engine.rows import Rows

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    data = rng.standard_normal((BAGS * SIZE, WIDTH), dtype=np.float32)
    offsets = SIZE * np.arange(BAGS + 1)
    y = np.arange(BAGS) % 2.0
    place = torch.device("cpu"), torch.float32, 1e11
    rows = Rows(data, np.zeros(WIDTH), np.ones(WIDTH), *place)
    per_step = min(32, -(-BAGS // training._STEPS))
    lines = [
        "# CPU time of an epoch",
        "",
        *__doc__.strip().splitlines()[2:],
        "",
        f"A step has {per_step} bags.",
        "",
        "| models | epoch, s | products, s | ratio (median) | ratios |",
        "|---|---|---|---|---|",
    ]
    for n_models in (1, 5):
        found = []
        for _ in range(options.rounds + 1):
            epoch = epoch_seconds("gated", n_models, rows, offsets, y, options.epochs)
            products = product_seconds(per_step * SIZE, n_models, options.epochs)
            found.append((epoch, products))
        epoch, products = np.array(found[1:]).T  # the first run is a warm-up
        ratio = epoch / products
        each = ", ".join(f"{one:.2f}" for one in ratio)
        line = f"{np.median(epoch):.2f} | {np.median(products):.2f}"
        print(n_models, line, each, flush=True)
        lines.append(f"| {n_models} | {line} | {np.median(ratio):.2f} | {each} |")
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "epoch.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
