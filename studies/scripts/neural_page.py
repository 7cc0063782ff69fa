"""The page of the study of networks, written from its rows."""

import csv

import numpy as np
from neural_data import IMAGES, OTHERS, SETS
from neural_study import (
    DEFAULT,
    HELD,
    OPTIONS,
    PUBLISHED,
    SIZES,
    choosing_scores,
    tuned_encoder,
)

N_BAGS = dict(zip(SETS, (92, 102, 200, 200, 200), strict=True))


def write_page(figures, folder):
    """Write README.md."""
    lines = [
        "# Networks",
        "",
        "`python studies/scripts/neural_study.py` writes `figures.csv` and this page. "
        "[CPU time of an epoch](epoch.md) has the ratio to the matrix products.",
    ]
    for part in (_setting, _options, _torchmil, _classic, _spread, _images):
        lines += ["", *part(figures)]
    (folder / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _setting(figures):
    """The setting, and on what it was chosen."""
    scores = choosing_scores(figures)
    lines = ["## The setting", ""]
    if not scores:
        return [*lines, "Not chosen yet."]
    names = list(scores)
    best, kinds = names[0], list(next(iter(scores.values()))[1])
    lines += [
        f"One setting for all of gated attention: **{best}**, the best of {len(names)} "
        "settings on other data: seven texts (newsgroups, 100 bags each), three pairs "
        "of classes of Corel scenes (200 bags), digit images as numbers (100 and 200 "
        "bags) and three simulated sets (120 bags). Accuracy in five folds, three "
        "models each; the setting with the best mean over the kinds is used. No bag of "
        "the five sets below, and no image set of this page, was used.",
        "",
        "| setting | mean | " + " | ".join(kinds) + " |",
        "|---" * (len(kinds) + 2) + "|",
    ]
    shown = [*names[:4], *([DEFAULT] if DEFAULT not in names[:4] else [])]
    for name in shown:
        mean, cells = scores[name]
        label = f"{name} (default before this study)" if name == DEFAULT else name
        values = " | ".join(f"{cells[kind]:.3f}" for kind in kinds)
        lines.append(f"| {label} | {mean:.3f} | {values} |")
    worst = scores[names[-1]][0]
    return [*lines, f"| the worst | {worst:.3f} |" + "  |" * len(kinds)]


def _options(figures):
    """Sampling, dropout of instances and mixup, against the defaults."""
    lines = [
        "## Sampling, dropout of instances and mixup of bags",
        "",
        "On the same data, a network of a quarter of the width (64 units, decay 0.01, "
        "three models, five folds). Mean over the data sets, and the mean difference "
        "to the defaults with its standard error over the data sets.",
        "",
        "| option | data sets | accuracy | difference | AUROC | difference |",
        "|---" * 6 + "|",
    ]
    names = [name for kind in OTHERS.values() for name in kind]
    better = []
    for option in OPTIONS:
        cells = []
        for figure in ("accuracy", "auroc"):
            pairs = []
            for name in names:
                base = figures.values("options", name, "defaults", figure)
                own = figures.values("options", name, option, figure)
                if len(base) and len(own):
                    pairs.append((own.mean(), base.mean()))
            if not pairs:
                return [*lines[:2], "Not measured yet."]
            own, base = np.array(pairs).T
            gain = own - base
            error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
            shown = "" if option == "defaults" else f"{gain.mean():+.3f} ± {error:.3f}"
            if option != "defaults" and gain.mean() >= 2 * error:
                better.append(f"{option} ({figure})")
            cells += [f"{own.mean():.3f}", shown]
        lines.append(f"| {option} | {len(pairs)} | {' | '.join(cells)} |")
    found = ", ".join(better) or "none"
    return [
        *lines,
        "",
        f"With a gain of two standard errors or more: {found}. All options are off by "
        "default.",
    ]


def _torchmil(figures):
    """Differences from another package on the same weights."""
    lines = [
        "## Poolings against torchmil",
        "",
        "`python studies/scripts/torchmil_forward.py` copies the weights of each "
        "pooling into the model of torchmil 1.0.2 and compares scores and losses on "
        "the same bags, in double precision. The clustering loss of CLAM is compared "
        "with the equation of its paper, from which torchmil deviates; the groups of "
        "DTFD are random in its loss.",
        "",
        "| pooling | largest difference of scores | of losses |",
        "|---|---|---|",
    ]
    path = figures.path.parent / "torchmil.csv"
    if not path.exists():
        return [*lines[:2], "Not measured yet."]
    with open(path, encoding="utf-8", newline="") as file:
        for name, scores, losses in list(csv.reader(file))[1:]:
            lines.append(f"| {name} | {scores} | {losses or '-'} |")
    return lines


def _classic(figures):
    """The five sets."""
    lines = [
        "## Five classic sets",
        "",
        "Accuracy, 10 folds repeated three times, five models averaged, with the "
        "setting above. Standard errors are binomial. Published are the figures of "
        "Ilse et al. (2018), and those of an earlier implementation "
        "under the same protocol; the last column says whether gated attention is no "
        "more than a standard error below the latter.",
        "",
        "| set | gated | mean pooling | gated, earlier defaults | standard error | "
        "published | earlier | within one standard error |",
        "|---" * 8 + "|",
    ]
    for name in SETS:
        found = figures.values("classic", name, "gated", "accuracy")
        if not len(found):
            continue
        mean = found.mean()
        error = np.sqrt(mean * (1 - mean) / N_BAGS[name])
        held = "yes" if mean >= HELD[name] - error else "**no**"
        others = []
        for method in ("mean", "gated, defaults"):
            values = figures.values("classic", name, method, "accuracy")
            others.append(f"{values.mean():.3f}" if len(values) else "")
        lines.append(
            f"| {name} | {mean:.3f} | {' | '.join(others)} | {error:.3f} | "
            f"{PUBLISHED[name]:.3f} | {HELD[name]:.3f} | {held} |"
        )
    return lines


def _spread(figures):
    """Ten runs of the earlier defaults."""
    lines = [
        "## Variation between seeds",
        "",
        "Standard deviation, and range, of the test AUROC in points over ten runs that "
        "differ in the seed alone; half of the bags in training; the earlier defaults, "
        "with "
        "five models averaged or a single one.",
        "",
        "| set | five models | one model |",
        "|---|---|---|",
    ]
    for name in SETS:
        cells = []
        for method in ("five models", "one model"):
            found = 100 * figures.values("spread", name, method, "auroc")
            if len(found):
                cells.append(f"{found.std(ddof=1):.1f} (range {np.ptp(found):.1f})")
        if len(cells) == 2:
            lines.append(f"| {name} | {cells[0]} | {cells[1]} |")
    return lines


def _images(figures):
    """Networks and classic methods on bags of images."""
    lines = [
        "## Bags of images",
        "",
        "Accuracy on 400 test bags of 8 to 12 digit images, positive with one or two "
        "nines, mean over the simulations, whose number is in the last column (test "
        "images are in no training bag). Moved digits are at a random position of a "
        "noisy 10 x 10 image (larger images could not be learned from 100 bags). "
        + _encoder_text(figures)
        + "The network without an encoder has the setting above. The best of the "
        "classic methods, near their defaults, is chosen on the test bags, which is an"
        " advantage; its standard error is that over the simulations.",
    ]
    names = {r["method"] for r in figures.rows if r["part"] == "images"}
    nets = [m for m in ("network, image encoder", "network") if m in names]
    for kind in IMAGES:
        lines += ["", f"### {kind.capitalize()}", "", *_one_kind(figures, kind, nets)]
    return lines


def _encoder_text(figures):
    if not figures.methods("tune"):
        return ""
    return (
        f"The setting of the image encoder ({tuned_encoder(figures)}) is the best of "
        f"{len(figures.methods('tune'))} on two other simulations with 200 bags. "
    )


def _one_kind(figures, kind, nets):
    names = {r["method"] for r in figures.rows if r["part"] == "images"}
    others = sorted(names - set(nets))
    lines = [
        "| method | " + " | ".join(f"{s} bags" for s in SIZES) + " | draws |",
        "|---" * (len(SIZES) + 2) + "|",
    ]
    table = {
        method: [
            figures.values("images", kind, method, "accuracy", size) for size in SIZES
        ]
        for method in [*nets, *others]
    }
    for method, cells in table.items():
        if not any(len(cell) for cell in cells):
            continue
        text = [_cell(cell, error=method in nets) for cell in cells]
        draws = sorted({len(c) for c in cells})
        count = str(draws[0]) if len(draws) == 1 else f"{draws[0]} to {draws[-1]}"
        lines.append(f"| {method} | " + " | ".join(text) + f" | {count} |")
    best = []
    for k in range(len(SIZES)):
        found = [table[m][k] for m in others if len(table[m][k])]
        top = max(found, key=np.mean, default=())
        best.append(f"**{_cell(top, error=True)}**" if len(top) else "")
    lines.append("| *best classic* | " + " | ".join(best) + " | |")
    return lines


def _cell(values, error):
    """Return a mean, and its standard error."""
    if not len(values):
        return ""
    text = f"{np.mean(values):.3f}"
    if error and len(values) > 1:
        text += f" ({np.std(values, ddof=1) / np.sqrt(len(values)):.3f})"
    return text
