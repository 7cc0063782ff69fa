"""Ten gigabytes of slides within three gigabytes of memory, method by method.

500 slides x 10,000 patches x 1,024 features in half precision, 10 GB in one file. Each
method is fitted in a process of its own whose private memory the kernel limits to 3 GB
(``RLIMIT_DATA``); a run that needs more fails. The page gives the passes over the rows,
processor and wall time, the peak of the private memory (``RssAnon``) and that of all
resident memory, pages of the mapped file included (``VmHWM``), and the area under the
curve on the slides that were held out.

    python studies/scripts/slides_10gb.py FOLDER [--slides 500] [--size 10000]
                                     [--features 1024] [--limit 3e9] [--methods ..]
                                     [--out OUT.md]

The file is made in FOLDER where it is not there yet, and left there. Finished rows are
kept in OUT.json next to OUT.md, so that a run that was stopped goes on. What stands in
OUT.md below the next heading is left as it is.
"""

import argparse
import json
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[1] / "results"
MOST_BYTES = 3e9


def methods():
    """Return every method by its name; made late, in the process that fits."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from bagwise.compose import OnInstances, SampleInstances, SimpleMI
    from bagwise.embedding import MiFV, SlicedWassersteinEmbedding
    from bagwise.least_squares import SAFE
    from bagwise.linear_model import MILogisticRegression
    from bagwise.svm import MISVM

    def logistic():
        return LogisticRegression(C=0.1, max_iter=2000)

    def of_rows():
        return make_pipeline(StandardScaler(), logistic())

    waves = RBFSampler(gamma=0.01, n_components=100, random_state=0)
    return {
        "mean + logistic regression": SimpleMI(of_rows()),
        "mean+std + logistic regression": SimpleMI(of_rows(), pooling="mean+std"),
        "200 patches a slide + MILR": make_pipeline(
            SampleInstances(200, random_state=0),
            MILogisticRegression(n_init=1, random_state=0),
        ),
        "random features + mean + logistic regression": make_pipeline(
            OnInstances(waves), SimpleMI(of_rows())
        ),
        "SAFE, 100 landmarks": SAFE(n_components=100, random_state=0),
        "miFV + logistic regression": make_pipeline(
            MiFV(max_samples=20_000, random_state=0), logistic()
        ),
        "sliced Wasserstein + logistic regression": make_pipeline(
            SlicedWassersteinEmbedding(random_state=0), of_rows()
        ),
        "standardize + mean + logistic regression": make_pipeline(
            OnInstances(), SimpleMI(logistic())
        ),
        "MI-SVM, linear": MISVM(C=0.1, kernel="linear", max_iter=5, tol=1e-2),
        "SAFE, linear": SAFE(kernel="linear", aggregation="mean"),
        "MILR": MILogisticRegression(n_init=1, max_iter=15, random_state=0),
    }


def make(folder, n_slides, size, n_features):
    """Write slides like embeddings: few strong columns, and a shift of every slide.

    A few slides are drawn; the others are these with the signs of columns turned, the
    same law at the price of a copy. Then a twentieth of the patches of every second
    slide move in the last ten columns.
    """
    path = Path(folder) / f"slides-{n_slides}-{size}-{n_features}.npy"
    if path.exists():
        return path
    Path(folder).mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    shape = (n_slides * size, n_features)
    out = np.lib.format.open_memmap(draft, mode="w+", dtype=np.float16, shape=shape)
    rng = np.random.default_rng(0)
    spread = (1.0 / np.sqrt(1.0 + np.arange(n_features) / 16.0)).astype(np.float32)
    drawn = []
    for _ in range(min(n_slides, 20)):
        rows = rng.standard_normal((size, n_features), dtype=np.float32)
        rows += 0.3 * rng.standard_normal(n_features, dtype=np.float32)
        drawn.append((rows * spread).astype(np.float16).view(np.uint16))
    for k in range(n_slides):
        signs = (rng.integers(0, 2, n_features) << 15).astype(np.uint16)
        slide = np.bitwise_xor(drawn[k // 2 % len(drawn)], signs).view(np.float16)
        if k % 2:
            some = rng.choice(size, size // 20, replace=False)
            slide[some, -10:] += np.float16(0.5)
        out[k * size : (k + 1) * size] = slide
    out.flush()
    draft.rename(path)
    return path


class Watch(threading.Thread):
    """Note the largest private memory of this process, ten times a second."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most = 0

    def run(self):
        """Look until the process ends."""
        while True:
            self.most = max(self.most, kilobytes("RssAnon"))
            time.sleep(0.1)


def kilobytes(key):
    """Read one line of what the kernel says of this process."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    raise KeyError(key)


def count_passes():
    """Count the rows that are read in pieces; return how to ask for the sum."""
    from bagwise.bags import Bags

    plain, read = Bags.iter_chunks, [0]

    def counted(self, *arguments):
        for piece in plain(self, *arguments):
            read[0] += piece.n_instances
            yield piece

    Bags.iter_chunks = counted
    return lambda: read[0]


def one(name, path, n_slides, size, limit):
    """Fit once in this process and print what it took as JSON."""
    import warnings

    from sklearn.base import clone
    from sklearn.metrics import roc_auc_score

    from bagwise.bags import Bags

    model = methods()[name]
    rng = np.random.default_rng(0)
    small = Bags(rng.normal(size=(400, 20)), np.arange(0, 401, 10))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clone(model).fit(small, np.arange(40) % 2)  # compile before the measurement
    n_read = count_passes()
    resource.setrlimit(resource.RLIMIT_DATA, (int(limit), int(limit)))
    X = Bags(np.load(path, mmap_mode="r"), size * np.arange(n_slides + 1))
    y = np.arange(n_slides) % 2
    test = np.arange(n_slides) % 10 >= 8
    watch = Watch()
    watch.start()
    wall, processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X[~test], y[~test])
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    passes = n_read() / (X.n_instances * np.mean(~test))
    started = time.process_time()
    if hasattr(model, "decision_function"):
        scores = model.decision_function(X[test])
    else:
        scores = model.predict_proba(X[test])[:, 1]
    found = {
        "passes": passes,
        "processor": processor,
        "wall": wall,
        "private": max(watch.most, kilobytes("RssAnon")) / 1e6,
        "resident": kilobytes("VmHWM") / 1e6,
        "auroc": roc_auc_score(y[test], scores),
        "scored": (time.process_time() - started) / test.sum(),
        "warnings": sorted({str(w.message)[:200] for w in told}),
    }
    print(json.dumps(found))


def measure(name, path, options):
    """Run `one` in a process of its own."""
    command = [sys.executable, __file__, str(path), "--one", name]
    command += ["--slides", str(options.slides), "--size", str(options.size)]
    command += ["--limit", str(options.limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1][:300]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def table(found, options, n_bytes):
    """Return the rows as Markdown."""
    lines = [
        f"# {n_bytes / 1e9:.1f} GB of slides, {options.limit / 1e9:.1f} GB of memory",
        "",
        f"{options.slides} slides x {options.size:,} patches x {options.features:,} "
        f"features, float16: {n_bytes / 1e9:.1f} GB in one mapped file. Fitted on four "
        "fifths of the slides, each method in a process whose private memory the "
        f"kernel limits to {options.limit / 1e9:.1f} GB, on one core of a computer "
        "that was also used for other work. Made by `studies/scripts/slides_10gb.py`.",
        "",
        "| fit | passes | processor, s | wall, s | private memory, GB | with mapped "
        "pages, GB | AUROC held out | processor to score a slide, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in found.items():
        if "error" in row:
            lines.append(f"| {name} | failed: {row['error']} | | | | | | |")
            continue
        lines.append(
            f"| {name} | {row['passes']:.1f} | {row['processor']:.0f} | "
            f"{row['wall']:.0f} | {row['private']:.2f} | {row['resident']:.2f} | "
            f"{row['auroc']:.3f} | {row['scored']:.2f} |"
        )
    told = {n: r["warnings"] for n, r in found.items() if r.get("warnings")}
    if told:
        lines += ["", *(f"- {n}: {'; '.join(w)}" for n, w in told.items())]
    return "\n".join(lines) + "\n"


def below(page):
    """Return what a page says from its second heading on."""
    if not page.exists():
        return ""
    _, mark, rest = page.read_text(encoding="utf-8").partition("\n## ")
    return mark + rest


def main():
    """Measure every method, write the table, end with 1 if one fails."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--slides", type=int, default=500)
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--features", type=int, default=1024)
    parser.add_argument("--limit", type=float, default=MOST_BYTES, help="bytes")
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--out", type=Path, default=RESULTS / "slides/README.md")
    parser.add_argument("--one")
    options = parser.parse_args()
    if options.one:
        one(options.one, options.folder, options.slides, options.size, options.limit)
        return 0
    started = time.perf_counter()
    path = make(options.folder, options.slides, options.size, options.features)
    print(f"{path}: {time.perf_counter() - started:.0f} s", flush=True)
    kept = options.out.with_suffix(".json")
    found = {}
    if kept.exists():
        found = json.loads(kept.read_text(encoding="utf-8"))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for name in options.methods or methods():
        if name in found and "error" not in found[name] and not options.methods:
            continue
        found[name] = measure(name, path, options)
        print(name, found[name], flush=True)
        ordered = {n: found[n] for n in methods() if n in found}
        kept.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
        text = table(ordered, options, path.stat().st_size)
        options.out.write_text(text + below(options.out), encoding="utf-8")
    return int(any("error" in row for row in found.values()))


if __name__ == "__main__":
    sys.exit(main())
