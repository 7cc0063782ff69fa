"""Data of the study of networks: the five classic sets, others, and bags of images."""

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_digits

from bagwise import Bags
from bagwise.datasets import make_bags, make_generalized_bags, make_key_instance_bags

SETS = ("musk1", "musk2", "elephant", "fox", "tiger")
IMAGES = {"digits": (8, 8), "moved digits": (10, 10)}
TOPICS = (
    *("alt.atheism", "comp.graphics", "misc.forsale", "rec.autos"),
    *("sci.crypt", "sci.med", "talk.politics.guns"),
)
COREL = ((0, 1), (2, 3), (4, 5))
# Data for choosing settings: none of the five reported sets, no reported draw of
# images.
OTHERS = {
    "texts": [f"newsgroups_{topic}" for topic in TOPICS],
    "scenes": [f"corel {a} {b}" for a, b in COREL],
    "images": ["digits", "moved digits"],
    "simulated": ["witness", "key instance", "generalized"],
}
CHOOSING_DRAW = 1000


def bags_of(rows, bag):
    """Return rows as bags, by the sorted bag of each."""
    offsets = np.concatenate([[0], np.cumsum(np.bincount(bag))])
    return Bags(np.asarray(rows, dtype=np.float64), offsets)


def classic_set(name, folder):
    """Read one of the five sets."""
    file = np.load(folder / f"{name}.npz", allow_pickle=False)
    return bags_of(file["X"], file["bag"]), file["y"] > 0


def other_set(name, folder):
    """Read, or draw, one of the sets on which settings are chosen."""
    if name.startswith("newsgroups"):
        file = np.load(folder / f"{name}.npz", allow_pickle=False)
        parts = file["data"], file["indices"], file["indptr"]
        rows = sp.csr_array(parts, shape=tuple(file["shape"])).toarray()
        return bags_of(rows, file["bag"]), file["y_zhou"] > 0
    if name.startswith("corel"):
        file = np.load(folder / "corel1000.npz", allow_pickle=False)
        first, second = (int(part) for part in name.split()[1:])
        X, y = bags_of(file["X"], file["bag"]), file["y"]
        kept = np.flatnonzero((y == first) | (y == second))
        return X[kept], y[kept] == second
    if name in IMAGES:
        n_bags = 100 if name == "digits" else 200
        X, y = image_bags(name, n_bags, CHOOSING_DRAW, test=False)
        return X, y > 0
    make, options = {
        "witness": (make_bags, {"n_features": 50, "bag_size": (3, 12), "shift": 3.0}),
        "key instance": (make_key_instance_bags, {"n_features": 50}),
        "generalized": (make_generalized_bags, {"n_features": 4}),
    }[name]
    X, y = make(120, random_state=CHOOSING_DRAW, **options)
    return X, y > 0


def image_bags(kind, n_bags, seed, *, test):
    """Bags of digit images; positive with a nine among them. No image on both sides.

    "digits" are scikit-learn's 8 x 8 images; "moved digits" stand at a random place of
    a noisy 10 x 10 image.
    """
    source = load_digits()
    rng = np.random.default_rng([seed, int(test), n_bags])
    order = np.random.default_rng(seed).permutation(len(source.target))
    half = order[1200:] if test else order[:1200]
    nines = half[source.target[half] == 9]
    others = half[source.target[half] != 9]
    bags, y = [], np.arange(n_bags) % 2
    for label in y:
        size = int(rng.integers(8, 13))
        chosen = rng.choice(others, size)
        if label:
            n = int(rng.integers(1, 3))
            chosen[:n] = rng.choice(nines, n)
        pictures = source.images[chosen] / 16.0
        if kind == "moved digits":
            canvas = 0.1 * rng.standard_normal((size, 10, 10))
            for picture, place in zip(pictures, canvas, strict=True):
                i, j = rng.integers(0, 3, 2)
                place[i : i + 8, j : j + 8] += picture
            pictures = canvas
        bags.append(pictures.reshape(size, -1))
    return Bags.from_list(bags), y
