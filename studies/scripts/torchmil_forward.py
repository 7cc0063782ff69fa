"""Differences between the poolings and those of torchmil, on shared weights.

    python studies/scripts/torchmil_forward.py [--output FOLDER]

Needs torchmil 1.0.2, einops and tensordict (pip install --group studies). Bags of
several sizes are evaluated together here, and one by one there, in double precision.
Writes `torchmil.csv`: the largest absolute difference of scores, and of losses.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
import torch

from bagwise.neural.engine.losses import Goal
from bagwise.neural.engine.network import POOLINGS, Shape, initial_weights
from bagwise.neural.engine.segments import Segments

RESULTS = Path(__file__).parents[1] / "results" / "neural"
WIDTH, ATTENTION = 16, 6
SIZES = np.array([40, 17, 25, 60, 17])
CPU = torch.device("cpu")


def dense(layer, weights, name, *, bias=None):
    """Copy the weights of a linear layer; ours are stored by input."""
    layer = getattr(layer, "module", layer)
    layer.weight.data = weights[f"{name}.weight"].T.clone()
    if layer.bias is not None:
        layer.bias.data = weights[bias or f"{name}.bias"].clone()


def attention(pool, weights, name, *, gated):
    """Copy the weights of an attention."""
    weight, bias = weights[f"{name}.weight"].T, weights[f"{name}.bias"]
    parts = [(pool.fc1, slice(0, ATTENTION))]
    if gated:
        parts.append((pool.fc_gated, slice(ATTENTION, None)))
    for layer, rows in parts:
        layer.module.weight.data = weight[rows].clone()
        layer.module.bias.data = bias[rows].clone()
    pool.fc2.weight.data = weights[f"{name}.score"].T.clone()


def norm(layer, weights, name):
    """Copy a layer normalization."""
    layer.weight.data = 1.0 + weights[f"{name}.gain"]
    layer.bias.data = weights[f"{name}.bias"].clone()


def dsmil(w):
    from torchmil.models import DSMIL

    model = DSMIL((WIDTH,), att_dim=ATTENTION)
    dense(model.inst_classifier, w, "instance")
    dense(model.q_nn, w, "query")
    dense(model.bag_classifier, w, "bag", bias="intercept")
    return model, lambda bag: model.predict(bag)


def clam_sb(w):
    from torchmil.models import CLAM_SB

    model = CLAM_SB((WIDTH,), att_dim=ATTENTION, gated=True, k_sample=8)
    attention(model.pool, w, "attention", gated=True)
    dense(model.classifier, w, "bag", bias="intercept")
    for c, layer in enumerate(model.inst_classifiers):
        # Only the difference between the two outputs matters.
        zero = torch.zeros(WIDTH, dtype=torch.float64)
        layer.module.weight.data = torch.stack([zero, w["cluster.weight"][:, c]])
        layer.module.bias.data = torch.stack([zero[0], w["cluster.bias"][c]])
    return model, lambda bag: model(bag)


def dtfd(w):
    from torchmil.models import DTFDMIL
    from torchmil.nn import AttentionPool

    model = DTFDMIL((WIDTH,), att_dim=ATTENTION, distill_mode="afs")
    for name, pool in (("attention", "attention_pool"), ("tier2", "u_attention_pool")):
        setattr(model, pool, AttentionPool(WIDTH, ATTENTION, gated=True))
        attention(getattr(model, pool), w, name, gated=True)
    dense(model.classifier, w, "pseudo")
    dense(model.u_classifier, w, "bag", bias="intercept")
    model.double()

    def score(bag):
        # The groups that our pooling forms outside of training: assigned by rank.
        order = model.attention_pool(bag, return_att=True)[1][0].argsort(
            descending=True
        )
        n_groups = min(8, len(order))
        dealt = torch.cat([order[g::n_groups] for g in range(n_groups)])
        shuffle, np.random.shuffle = np.random.shuffle, lambda values: None
        try:
            return model(bag[:, dealt])
        finally:
            np.random.shuffle = shuffle

    return model, score


def transmil(w):
    from torchmil.models import TransMIL

    model = TransMIL((WIDTH,), att_dim=WIDTH, n_heads=8)
    model.cls_token.data = w["token"][None, None].clone()
    for i, layer in enumerate(model.layers):
        norm(layer.norm1, w, f"layer{i}.norm")
        layer.att_module.qkv_nn.weight.data = w[f"layer{i}.qkv"].T.clone()
    grid = model.pos_layer
    for size, layer in ((7, grid.proj), (5, grid.proj1), (3, grid.proj2)):
        layer.weight.data = w[f"grid{size}.weight"][:, None].clone()
        layer.bias.data = w[f"grid{size}.bias"].clone()
    norm(model.norm, w, "norm")
    dense(model.classifier, w, "bag", bias="intercept")
    return model, lambda bag: model(bag)


def set_transformer(w):
    from torchmil.models import TransformerABMIL

    model = TransformerABMIL(
        (WIDTH,),
        pool_att_dim=ATTENTION,
        transf_att_dim=WIDTH,
        transf_n_layers=2,
        transf_add_self=False,
    )
    for i, layer in enumerate(model.transformer_encoder.layers):
        norm(layer.norm1, w, f"layer{i}.norm1")
        norm(layer.norm2, w, f"layer{i}.norm2")
        layer.att_module.qkv_nn.weight.data = w[f"layer{i}.qkv"].T.clone()
        dense(layer.mlp_module[0], w, f"layer{i}.up")
        dense(layer.mlp_module[3], w, f"layer{i}.down")
    norm(model.transformer_encoder.norm, w, "norm")
    attention(model.pool, w, "attention", gated=False)
    dense(model.last_layer, w, "bag", bias="intercept")
    return model, lambda bag: model(bag)


def clustering_reference(model, score, embedded, label):
    """Return the clustering loss of `CLAM_SB`, with the loss of the paper.

    That of torchmil, `SmoothTop1SVM.smooth_loss`, broadcasts targets of shape (n, 1) to
    an (n, n, 2) array and sums over another axis than that of the classes. Here is the
    equation of Berrada et al. (2018) with temperature and margin one.
    """
    inside, outside = model.inst_classifiers[label], model.inst_classifiers[1 - label]

    def loss(logits, target):
        margin = (torch.arange(2) != target).to(logits.dtype)
        return torch.logsumexp(logits + margin - logits[:, [target]], dim=1).mean()

    top = embedded[torch.topk(score, model.k_sample)[1]]
    low = embedded[torch.topk(-score, model.k_sample)[1]]
    own = 0.5 * (loss(inside(top), 1) + loss(inside(low), 0))
    return own + loss(outside(top), 0)


def losses(name, model, bags, labels):
    """Return the terms of the loss of torchmil, summed as in our pooling."""
    found = []
    for bag, y in zip(bags, labels, strict=True):
        y = torch.tensor([float(y)], dtype=torch.float64)
        if name == "clam_sb":
            score, att, embedded = model(bag, return_att=True, return_emb=True)
            extra = clustering_reference(model, att[0], embedded[0], int(y))
            found.append(0.7 * model.criterion(score, y) + 0.3 * extra)
        else:
            parts = model.compute_loss(y, bag)[1].values()
            found.append(sum(parts) * (0.5 if name == "dsmil" else 1.0))
    return torch.stack(found)


def compare(name, make):
    """Return the largest differences of scores and of losses."""
    shape = Shape(WIDTH, 1, (WIDTH,), ATTENTION, name, "additive")
    weights = initial_weights(shape, [0, 1])
    generator = torch.Generator().manual_seed(3)
    for w in weights.values():
        w += 0.2 * torch.randn(w.shape, generator=generator, dtype=w.dtype)
    h = torch.randn(2, SIZES.sum(), WIDTH, generator=generator, dtype=torch.float64)
    segments = Segments.of(SIZES, CPU)
    pooling = POOLINGS[name]
    ours = pooling.forward(shape, weights, h, segments)
    y = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    task = Goal("logistic", y[:, None, None], torch.ones(5, 2, dtype=torch.float64))
    our_losses = pooling.losses(shape, ours, segments, task)
    of_scores, of_losses = 0.0, 0.0
    for m in range(2):
        model, score = make({k: w[m] for k, w in weights.items()})
        model.double().eval()
        bags = [part[None] for part in h[m].split(SIZES.tolist())]
        theirs = torch.stack([score(bag).reshape(()) for bag in bags])
        gap = (theirs - ours.scores[:, m, 0]).abs().max()
        of_scores = max(of_scores, float(gap))
        if name != "dtfd":  # the loss uses random groups
            gap = losses(name, model, bags, y) - our_losses[:, m]
            of_losses = max(of_losses, float(gap.abs().max()))
    return of_scores, of_losses if name != "dtfd" else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    makers = (dsmil, clam_sb, dtfd, transmil, set_transformer)
    with open(options.output / "torchmil.csv", "w", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("pooling", "largest difference of scores", "of losses"))
        for make in makers:
            with torch.no_grad():
                scores, loss = compare(make.__name__, make)
            row = make.__name__, f"{scores:.1e}", "" if loss is None else f"{loss:.1e}"
            print(*row)
            writer.writerow(row)


if __name__ == "__main__":
    main()
