"""Cost of explanations, as multiples of one prediction of the same rows.

"single" asks for the score of every instance alone: as many rows as the bags have, in
bags of one. The limit is 3 predictions for 200 bags of 10; SimpleMI comes close to it,
since its kernel machine sees bags, not rows, and there are ten times as many.
"leave_out" predicts n (n - 1) rows for a bag of n: at 10 instances a bag, 9 times the
rows; what is shown is the cost of a row, which batching must not raise.

A slide: 50,000 instances of 512 stored features scored, drawn as a heat map and written
as a picture, against one product of the rows with a matrix of 256 columns (at most 20).
"""

import argparse
import io
import time
import warnings

import numpy as np
from _timing import best_of
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.compose import OnInstances, SimpleMI, WrapperMI
from bagwise.datasets import make_bags
from bagwise.embedding import MILES
from bagwise.ensemble import MILBoost
from bagwise.inspection import explain, instance_importance, to_geojson
from bagwise.least_squares import SAFE
from bagwise.linear_model import MILogisticRegression
from bagwise.svm import MISVM, BagSVC

LIMIT = 3.0
SLIDE_LIMIT = 20.0


def cpu(function, repeats=7):
    """Return the shortest processor time: the machine may be busy."""
    return best_of(function, repeats, clock=time.process_time)


def models():
    """Yield a name and an unfitted model."""
    scaled = lambda model: make_pipeline(OnInstances(StandardScaler()), model)  # noqa: E731
    yield "MILR", scaled(MILogisticRegression(random_state=0))
    yield "MI-SVM", scaled(MISVM())
    yield "SimpleMI", scaled(SimpleMI())
    yield "WrapperMI", scaled(WrapperMI())
    yield "MILBoost", scaled(MILBoost())
    yield "MILES", scaled(MILES())
    yield "SAFE", scaled(SAFE())
    yield "MI-Kernel", scaled(BagSVC(kernel="set"))
    yield "EMD + SVC", scaled(BagSVC(kernel="emd"))


def slide(n=50_000, d=512):
    """Print what it takes to score and draw one large bag."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, d), dtype=np.float32)
    places = np.column_stack([np.arange(n) % 250, np.arange(n) // 250]) * 256.0
    X = Bags(rows, [0, n], coords=places)
    few, y = make_bags(60, n_features=d, random_state=0)
    model = make_pipeline(
        OnInstances(StandardScaler()), MILogisticRegression(random_state=0)
    ).fit(few, y)
    matrix = rng.standard_normal((d, 256), dtype=np.float32)
    once = cpu(lambda: rows @ matrix, 3)
    found = explain(model, X, method="native")

    def score_and_draw():
        scores = instance_importance(model, X, "native")
        found.scores = scores.values
        found.plot_heatmap(0, 256.0).figure.savefig(io.BytesIO(), dpi=120)

    drawn = cpu(score_and_draw, 3)
    tiles = cpu(lambda: to_geojson(found.scores, places, 256.0), 1)
    print(f"\na slide of {n} x {d}: one product with 256 columns takes {once:.2f} s")
    print(f"scored and drawn: {drawn:.2f} s, {drawn / once:.1f} products")
    print(f"limit {SLIDE_LIMIT:g}; squares for QuPath: {tiles:.2f} s more")


def main():
    """Print the ratios, and the models for which "single" is over the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bags", type=int, default=200)
    parser.add_argument("--size", type=int, default=10)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    n, m = arguments.bags, arguments.size
    X, y = make_bags(n, bag_size=m, n_features=20, random_state=0)
    print(f"{n} bags of {m}: predictions of the same rows that an explanation costs")
    print(f"{'':12s} {'single':>8s} {'leave_out':>10s} {'per row':>8s}")
    over = []
    for name, model in models():
        model.fit(X, y)
        once = cpu(lambda model=model: model.decision_function(X))
        single = cpu(lambda model=model: instance_importance(model, X, "single"))
        drop = cpu(lambda model=model: instance_importance(model, X, "leave_out"), 2)
        ratio, rows = single / once, drop / once
        print(f"{name:12s} {ratio:8.2f} {rows:10.1f} {rows / m:8.2f}", flush=True)
        if ratio > LIMIT:
            over.append(name)
    print(f"over {LIMIT:g}: {', '.join(over) if over else 'none'}")
    slide()


if __name__ == "__main__":
    main()
