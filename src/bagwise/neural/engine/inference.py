"""Scores, attention and contributions with fitted weights, chunk by chunk."""

import numpy as np
import torch

from bagwise.neural.engine.layers import full
from bagwise.neural.engine.network import (
    ATTENTIVE,
    POOLINGS,
    attention_scores,
    embed,
    head_values,
    pooled,
)
from bagwise.neural.engine.rows import Standardize, host_chunk
from bagwise.neural.engine.segments import Segments
from bagwise.neural.engine.training import bag_chunks, chunk_rows


class Fitted:
    """Fitted models on a device.

    Rows are evaluated in chunks that do not care where bags begin, so that a bag of
    any size takes no more memory than its scores.

    Parameters
    ----------
    shape : Shape
        The network.
    weights, buffers : dict of arrays
        With a leading axis of models.
    mean, scale : arrays of shape (width,)
        Of the instances.
    device, dtype : torch.device, torch.dtype
        Where and in which precision it runs.
    encoder : Encoder, default=None
        The first stage.
    smoothness : float, default=0.0
        Weight of the neighbors of an instance in its attention.
    """

    def __init__(
        self,
        shape,
        weights,
        buffers,
        mean,
        scale,
        device,
        dtype,
        encoder=None,
        smoothness=0.0,
    ):
        self.shape, self.device, self.dtype = shape, device, dtype
        self.encoder, self.smoothness = encoder, smoothness
        wide = self.wide = torch.float64 if dtype == torch.float64 else torch.float32
        self.weights = {k: self._tensor(w, wide) for k, w in weights.items()}
        self.buffers = {
            k: torch.as_tensor(np.asarray(b).copy(), device=device)
            for k, b in buffers.items()
        }
        self.standardize = Standardize(mean, scale, device, wide)
        self.n_models = len(weights["intercept"])

    def _tensor(self, values, dtype):
        # Copied, because torch warns about read-only arrays, as in a model file.
        values = np.asarray(values).copy()
        return torch.as_tensor(values, dtype=dtype, device=self.device)

    def _chunks(self, data):
        """Give slices of rows and h of shape (n_models, rows, width)."""
        step = chunk_rows(self.shape, self.n_models, self.device)
        for start in range(0, data.shape[0], step):
            part = slice(start, min(start + step, data.shape[0]))
            yield part, embed(self.shape, self.weights, self._rows(data, part))

    def _rows(self, data, part):
        x = self.standardize(host_chunk(data, part).to(self.device)).to(self.dtype)
        if self.encoder is not None:
            x = self.encoder(self.weights, self.buffers, x, training=False)
        return x

    def _whole_bags(self, data, offsets):
        """Evaluate bag by bag a pooling with layers of its own."""
        found = []
        step = chunk_rows(self.shape, self.n_models, self.device)
        sizes = np.diff(offsets)
        for bags, part in bag_chunks(sizes, step):
            x = self._rows(data, part)
            within = Segments.of(sizes[bags], self.device)
            one = pooled(self.shape, self.weights, x, within)
            found.append((one.scores, one.share.mean(dim=2), one.contributions))
        return [torch.cat(parts) for parts in zip(*found, strict=True)]

    def _evaluate_whole(self, data, offsets):
        scores, share, contributions = self._whole_bags(data, offsets)
        return {
            "scores": scores.cpu().double().numpy(),
            "attention": share.cpu().numpy(),
            "contributions": contributions.cpu().double().numpy(),
        }

    @torch.no_grad()
    def evaluate(self, data, offsets, graph=None):
        """Return what there is to say about some bags.

        Parameters
        ----------
        data, offsets : arrays
            The instances, and where bags begin.
        graph : int array of shape (n_rows, k), default=None
            Neighbors over which attention is smoothed.

        Returns
        -------
        dict of arrays
            "scores" (n_bags, n_models, n_outputs); "attention" (n_rows, n_models);
            "contributions" (n_rows, n_models, n_outputs), whose sums over a bag are the
            scores when the head is additive or the pooling has layers of its own;
            otherwise also "values", the scores of single instances as bags of their
            own, which attention multiplies.
        """
        if self.shape.pooling in POOLINGS:
            return self._evaluate_whole(data, offsets)
        segments = Segments.of(np.diff(offsets), self.device)
        score, value, hidden = [], [], None
        for part, h in self._chunks(data):
            value.append(head_values(self.weights, h))
            if self.shape.pooling in ATTENTIVE:
                score.append(attention_scores(self.shape, self.weights, h))
            if self.shape.head == "pooled" and self.shape.pooling not in ATTENTIVE:
                hidden = self._pool(hidden, part, h, offsets, None)
        value = torch.cat(value)
        intercept = self.weights["intercept"].to(value.dtype)
        if self.shape.pooling in ATTENTIVE:
            if graph is not None:
                rows = torch.arange(len(graph), device=self.device)
                graph = torch.as_tensor(graph).to(self.device)
                segments.connect(graph, rows, self.smoothness)
            share = segments.plain_softmax(segments.smoothed(torch.cat(score)))
            if self.shape.head == "pooled":
                for part, h in self._chunks(data):
                    hidden = self._pool(hidden, part, h, offsets, share)
            share = share[:, :, None]
        elif self.shape.pooling == "mean":
            one = 1.0 / segments.sizes.to(value.dtype)
            share = segments.repeat(one)[:, None, None].expand(-1, self.n_models, 1)
        elif self.shape.head == "additive":
            _, share = segments.share_of_max(value)
        else:
            share = self._unit_share(data, segments, hidden)[:, :, None]
        value = value + intercept
        contributions = share * value
        if self.shape.head == "additive":
            scores = segments.plain_sum(contributions)
        else:
            if self.shape.pooling == "mean":
                hidden = hidden / segments.sizes.to(hidden.dtype)[:, None, None]
            pooled = hidden.transpose(0, 1).to(self.dtype)
            scores = head_values(self.weights, pooled) + intercept
        return {
            "scores": scores.cpu().double().numpy(),
            "attention": share.mean(dim=2).cpu().numpy(),
            "values": value.cpu().double().numpy(),
            "contributions": contributions.cpu().double().numpy(),
        }

    def _pool(self, hidden, part, h, offsets, share):
        """Add the rows of a chunk to the pooled features of their bags."""
        rows = full(h.transpose(0, 1))
        first = int(np.searchsorted(offsets, part.start, side="right")) - 1
        last = int(np.searchsorted(offsets, part.stop, side="left"))
        inside = np.clip(offsets[first : last + 1], part.start, part.stop)
        segments = Segments.of(np.diff(inside), self.device)
        bags = slice(first, last)
        n_bags = len(offsets) - 1
        if self.shape.pooling == "max":
            if hidden is None:
                hidden = rows.new_full((n_bags, *rows.shape[1:]), -torch.inf)
            hidden[bags] = torch.maximum(hidden[bags], segments.plain_max(rows))
            return hidden
        if hidden is None:
            hidden = rows.new_zeros((n_bags, *rows.shape[1:]))
        if share is not None:
            rows = share[part][:, :, None] * rows
        hidden[bags] += segments.plain_sum(rows)
        return hidden

    def _unit_share(self, data, segments, hidden):
        """Share of the pooled units whose largest value an instance holds."""
        share = []
        for part, h in self._chunks(data):
            rows = full(h.transpose(0, 1))
            top = hidden[segments.bag[part]]
            share.append(((rows == top) & (top > 0)).sum(dim=2))
        share = torch.cat(share).to(hidden.dtype)
        total = segments.repeat(segments.plain_sum(share))
        even = segments.repeat(1.0 / segments.sizes.to(share.dtype))[:, None]
        return torch.where(total > 0, share / total.clamp(min=1.0), even)
