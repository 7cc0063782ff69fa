r"""Poolings of ragged rows with layers of their own: DSMIL, CLAM and DTFD.

A pooling is an object without state. It names its weights, pools the rows of ragged
bags for all models at once, and may add terms to the loss. Rows h have the shape
(n_models, n_rows, width) and are those of whole bags.
"""

import torch
import torch.nn.functional as F

from bagwise.neural.engine.layers import (
    Pooled,
    Pooling,
    attention_layers,
    attention_values,
    thin,
)
from bagwise.neural.engine.segments import Segments


class DSMIL(Pooling):
    r"""Dual stream: the highest instance, and attention to what resembles it.

    With :math:`c(h) = w_1' h + b_1`, the critical instance m is that with the highest
    c, :math:`q = W_q h + b_q`, and

    .. math::
        s(B) = \frac12 \max_j c(h_j) + \frac12 \sum_j a_j (w_2' h_j + b_2), \qquad
        a = \mathrm{softmax}_j(q_j' q_m / \sqrt{k}),

    for each output. Either stream has its own loss, and the two are averaged.
    """

    def layers(self, shape):
        """Return names, shapes and fan-in of the weights."""
        width, inner, k = shape.width, shape.attention, shape.n_outputs
        return {
            "instance.weight": ((width, k), width),
            "instance.bias": ((k,), 0),
            "query.weight": ((width, inner), width),
            "query.bias": ((inner,), width),
            "bag.weight": ((width, k), width),
        }

    def forward(self, shape, weights, h, segments, generator=None):
        """Pool the rows of all models."""
        bias = weights["instance.bias"]
        instance = thin(h, weights["instance.weight"]).transpose(0, 1) + bias
        query = torch.baddbmm(
            weights["query.bias"][:, None, :], h, weights["query.weight"]
        ).transpose(0, 1)
        rank = ranks(instance.detach().flatten(1), segments).reshape(instance.shape)
        shares, highest = [], []
        for k in range(shape.n_outputs):
            # Select the row with rank zero in each bag, for each model.
            critical = torch.argsort(rank[:, :, k] > 0, dim=0, stable=True)
            critical = critical[: segments.n_bags]
            highest.append(instance[:, :, k].gather(0, critical))
            top = query.gather(0, critical[:, :, None].expand(-1, -1, query.shape[2]))
            found = (query * segments.spread(top)).sum(dim=2)
            shares.append(segments.softmax(found / query.shape[2] ** 0.5))
        share, first = torch.stack(shares, dim=2), torch.stack(highest, dim=2)
        value = thin(h, weights["bag.weight"]).transpose(0, 1) + weights["intercept"]
        second = segments.sum(share * value)
        hit = (rank == 0).to(value.dtype)
        return Pooled(
            0.5 * (first + second),
            0.5 * (hit + share),
            0.5 * (hit * instance + share * value),
            {"streams": (first, second)},
        )

    def losses(self, shape, pooled, segments, task):
        """Return the mean of the losses of the two streams."""
        first, second = pooled.extra["streams"]
        return 0.5 * (task.losses(first) + task.losses(second))


class CLAM(Pooling):
    r"""Gated attention, and a clustering of the instances it looks at most and least.

    With one branch the score is :math:`\sum_j a_j w' h_j + b`; with a branch for each
    class, that of class c has its own attention :math:`a^c` and vector :math:`w_c`.
    In training, the k instances of a bag with the highest and the lowest attention are
    examples and counterexamples for a linear classifier of its class, and those with
    the highest attention are counterexamples for the other classes, with the smooth
    support vector loss :math:`\log(1 + e^{1 - d})` of their margin d.
    """

    n_sampled = 8
    share_of_loss = 0.3

    def __init__(self, *, several):
        self.several = several

    def _n_classes(self, shape):
        return max(2, shape.n_outputs)

    def layers(self, shape):
        """Return names, shapes and fan-in of the weights."""
        n_classes, width = self._n_classes(shape), shape.width
        n_branches = n_classes if self.several else 1
        n_vectors = n_classes if self.several else shape.n_outputs
        found = attention_layers(width, shape.attention, True, n_branches=n_branches)
        found["bag.weight"] = (width, n_vectors), width
        found["cluster.weight"] = (width, n_classes), width
        found["cluster.bias"] = (n_classes,), width
        return found

    def forward(self, shape, weights, h, segments, generator=None):
        """Pool the rows of all models."""
        score = attention_values(weights, h, shape.attention, True)
        share = segments.softmax(score)
        part = share * thin(h, weights["bag.weight"]).transpose(0, 1)
        seen = share
        if self.several and shape.n_outputs == 1:
            part = part[:, :, 1:] - part[:, :, :1]
            seen = share.mean(dim=2, keepdim=True)
        intercept = weights["intercept"]
        cluster = thin(h, weights["cluster.weight"]).transpose(0, 1)
        return Pooled(
            segments.sum(part) + intercept,
            seen,
            part + seen * intercept,
            {"attention": score, "cluster": cluster + weights["cluster.bias"]},
        )

    def losses(self, shape, pooled, segments, task):
        """Return the losses of bags and of the clustering, 7 : 3."""
        clustering = self.clustering(pooled, segments, task.members(shape.n_outputs))
        bag = task.losses(pooled.scores)
        return (1.0 - self.share_of_loss) * bag + self.share_of_loss * clustering

    def clustering(self, pooled, segments, members):
        """Return the losses of the clustering, (n_bags, n_models).

        Parameters
        ----------
        pooled : Pooled
            What `forward` returned.
        segments : Segments
            The bags.
        members : tensor of shape (n_bags, 1 or n_models, n_classes)
            One for the classes of a bag, zero for the others.
        """
        score, margin = pooled.extra["attention"].detach(), pooled.extra["cluster"]
        rank = ranks(score.flatten(1), segments).reshape(score.shape)
        sizes = segments.repeat(segments.sizes)[:, None, None]
        # In bags of fewer than 2 k instances, no instance may be in both groups.
        k = torch.clamp(sizes // 2, 1, self.n_sampled)
        top = (rank < k).to(margin.dtype) / k
        bottom = (rank >= sizes - k).to(margin.dtype) / k
        of_class = segments.sum(
            0.5 * (top * F.softplus(1.0 - margin) + bottom * F.softplus(1.0 + margin))
        )
        of_others = segments.sum(top * F.softplus(1.0 + margin))
        own, other = members, 1.0 - members
        return (own * of_class).sum(2) / own.sum(2).clamp(min=1.0) + (
            other * of_others
        ).sum(2) / other.sum(2).clamp(min=1.0)


class DTFD(Pooling):
    r"""Double tier: gated attention in pseudo-bags, and again between them.

    The instances of a bag are dealt into at most `n_groups` pseudo-bags, at random in
    training. Gated attention makes a vector z of each, which has a linear classifier
    of its own (tier 1); a second one pools the vectors of a bag (tier 2):

    .. math:: s(B) = \sum_g \beta_g w' z_g + b, \qquad z_g = \sum_{j \in g} a_j h_j.

    The loss is that of tier 2 plus the mean of those of the pseudo-bags, with the label
    of the bag. Outside of training instances are dealt by the rank of their attention,
    so that scores do not depend on chance or on their order.
    """

    n_groups = 8

    def layers(self, shape):
        """Return names, shapes and fan-in of the weights."""
        width, k = shape.width, shape.n_outputs
        return {
            **attention_layers(width, shape.attention, True),
            **attention_layers(width, shape.attention, True, name="tier2"),
            "pseudo.weight": ((width, k), width),
            "pseudo.bias": ((k,), 0),
            "bag.weight": ((width, k), width),
        }

    def forward(self, shape, weights, h, segments, generator=None):
        """Pool the rows of all models."""
        n_models, n_rows, width = h.shape
        score = attention_values(weights, h, shape.attention, True)[:, :, 0]
        if generator is None:
            key = score.detach()
        else:
            key = torch.rand(n_rows, 1, generator=generator, device=h.device)
            key = key.expand(-1, n_models)
        order, groups, pseudo = self._deal(key, segments)
        rows = h.gather(1, order.T[:, :, None].expand(-1, -1, width)).transpose(0, 1)
        inner = pseudo.softmax(score.gather(0, order))
        z = pseudo.sum(inner[:, :, None] * rows)
        vectors = z.transpose(0, 1)
        tier1 = thin(vectors, weights["pseudo.weight"]).transpose(0, 1)
        outer = attention_values(weights, vectors, shape.attention, True, "tier2")
        outer = groups.softmax(outer[:, :, 0])
        value = thin(vectors, weights["bag.weight"]).transpose(0, 1)
        scores = groups.sum(outer[:, :, None] * value) + weights["intercept"]
        share = torch.zeros_like(inner).scatter(0, order, inner * pseudo.spread(outer))[
            :, :, None
        ]
        value = thin(h, weights["bag.weight"]).transpose(0, 1) + weights["intercept"]
        extra = {"pseudo": tier1 + weights["pseudo.bias"], "groups": groups}
        return Pooled(scores, share, share * value, extra)

    def _deal(self, key, segments):
        """Return rows in the order of their groups, groups of bags, rows of groups.

        A row of rank r in its bag goes to group r modulo the number of groups.
        """
        n_groups = segments.sizes.clamp(max=self.n_groups)
        per_row = segments.repeat(n_groups)[:, None]
        group = ranks(key, segments) % per_row
        code = segments.bag[:, None] * self.n_groups + group
        order = torch.argsort(code, dim=0, stable=True)
        number = torch.arange(self.n_groups, device=key.device)[None, :]
        sizes = torch.div(
            segments.sizes[:, None] - number + n_groups[:, None] - 1,
            n_groups[:, None],
            rounding_mode="floor",
        )
        sizes = sizes[number < n_groups[:, None]]
        return order, Segments(n_groups, len(sizes)), Segments(sizes, len(key))

    def losses(self, shape, pooled, segments, task):
        """Return the loss of tier 2 plus the mean of the losses of the pseudo-bags."""
        groups = pooled.extra["groups"]
        tier1 = task.losses(pooled.extra["pseudo"], groups.bag)
        return task.losses(pooled.scores) + groups.mean(tier1)


def ranks(values, segments):
    """Return the rank of each value in its bag, 0 for the highest, in each column."""
    first = torch.argsort(values, dim=0, descending=True, stable=True)
    second = torch.argsort(segments.bag[first], dim=0, stable=True)
    order = first.gather(0, second)
    start = torch.cumsum(segments.sizes, 0) - segments.sizes
    place = torch.arange(segments.n_rows, device=values.device)
    place = (place - segments.repeat(start))[:, None].expand_as(order)
    return torch.empty_like(order).scatter(0, order, place)
