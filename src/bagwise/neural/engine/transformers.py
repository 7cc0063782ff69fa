r"""Poolings in which instances attend to each other: TransMIL and a set transformer.

Both work on tokens of shape (n_models, n_bags, n_tokens, width): the bags of a step
that have the same size are evaluated together, and nothing is padded.
"""

import math

import torch
import torch.nn.functional as F

from bagwise.neural.engine.layers import (
    Pooled,
    Pooling,
    attention_layers,
    attention_values,
    thin,
)

_EPS = 1e-5


def norm_layers(name, width):
    """Return the weights of a layer normalization; gains are stored minus one."""
    return {f"{name}.gain": ((width,), 0), f"{name}.bias": ((width,), 0)}


def normalized(weights, name, tokens):
    """Apply a layer normalization with the gains of each model."""
    tokens = F.layer_norm(tokens, tokens.shape[-1:], eps=_EPS)
    gain, bias = (weights[f"{name}.{part}"][:, None, None] for part in ("gain", "bias"))
    return tokens * (1.0 + gain) + bias


def linear(tokens, weight, bias=None):
    """Apply a layer to tokens of shape (n_models, n_bags, n_tokens, width)."""
    flat = tokens.flatten(1, 2)
    if bias is None:
        out = torch.bmm(flat, weight)
    else:
        out = torch.baddbmm(bias[:, None, :], flat, weight)
    return out.reshape(*tokens.shape[:3], -1)


def heads_of(tokens, weight, n_heads):
    """Return queries, keys and values, (n_models, n_bags, n_heads, n_tokens, width)."""
    found = linear(tokens, weight)
    found = found.reshape(*found.shape[:3], 3, n_heads, -1)
    return found.permute(3, 0, 1, 4, 2, 5)


def merged(tokens):
    """Put the heads side by side again."""
    return tokens.transpose(2, 3).flatten(3)


def by_size(h, segments):
    """Yield the bags of each size: their numbers, and rows (n_bags, size)."""
    sizes = segments.sizes.cpu()
    start = torch.cumsum(sizes, 0) - sizes
    for size in torch.unique(sizes).tolist():
        bags = torch.nonzero(sizes == size)[:, 0]
        rows = start[bags][:, None] + torch.arange(size)
        yield bags.to(h.device), rows.to(h.device)


def in_order(parts, order):
    """Put rows back into their order: `order` says where each one belongs."""
    place = torch.argsort(torch.cat(order))
    return torch.cat(parts)[place]


class SetTransformer(Pooling):
    r"""Two layers of self-attention, then attention as pooling.

    With :math:`x \leftarrow x + A(\mathrm{norm}(x))` and
    :math:`x \leftarrow x + W_2\,\mathrm{gelu}(W_1\,\mathrm{norm}(x))` twice, where A is
    multi-head attention among the instances of a bag, the score is
    :math:`\sum_j a_j w' \mathrm{norm}(x_j) + b` with the weights of Ilse et al.
    """

    n_layers = 2

    def layers(self, shape):
        """Return names, shapes and fan-in of the weights."""
        width, found = shape.width, {}
        for i in range(self.n_layers):
            found |= norm_layers(f"layer{i}.norm1", width)
            found[f"layer{i}.qkv"] = (width, 3 * width), width
            found |= norm_layers(f"layer{i}.norm2", width)
            found[f"layer{i}.up.weight"] = (width, 4 * width), width
            found[f"layer{i}.up.bias"] = (4 * width,), width
            found[f"layer{i}.down.weight"] = (4 * width, width), 4 * width
            found[f"layer{i}.down.bias"] = (width,), 4 * width
        found |= norm_layers("norm", width)
        found |= attention_layers(width, shape.attention, False)
        found["bag.weight"] = (width, shape.n_outputs), width
        return found

    def forward(self, shape, weights, h, segments, generator=None):
        """Pool the rows of all models."""
        n_heads = math.gcd(shape.width, 8)
        parts, order = [], []
        for _, rows in by_size(h, segments):
            tokens = h[:, rows]
            for i in range(self.n_layers):
                tokens = self._layer(weights, f"layer{i}", tokens, n_heads)
            tokens = normalized(weights, "norm", tokens)
            parts.append(tokens.flatten(1, 2).transpose(0, 1))
            order.append(rows.flatten())
        h = in_order(parts, order).transpose(0, 1)
        share = segments.softmax(attention_values(weights, h, shape.attention, False))
        value = thin(h, weights["bag.weight"]).transpose(0, 1) + weights["intercept"]
        part = share * value
        return Pooled(segments.sum(part), share, part)

    def _layer(self, weights, name, tokens, n_heads):
        start = f"{name}."
        own = {
            key.removeprefix(start): weight
            for key, weight in weights.items()
            if key.startswith(start)
        }
        query, key, value = heads_of(
            normalized(own, "norm1", tokens), own["qkv"], n_heads
        )
        tokens = tokens + merged(F.scaled_dot_product_attention(query, key, value))
        inner = F.gelu(
            linear(normalized(own, "norm2", tokens), own["up.weight"], own["up.bias"])
        )
        return tokens + linear(inner, own["down.weight"], own["down.bias"])


class TransMIL(Pooling):
    r"""Transformer with a class token, Nystroem attention and positional convolutions.

    The n instances of a bag are filled up with the first ones to a square grid. A layer
    of attention is followed by depthwise convolutions of sizes 7, 5 and 3 on the grid,
    and by a second layer, of which only the class token is needed: with c its output,

    .. math:: s(B) = w' \mathrm{norm}(c) + b, \qquad c = c_0 + \sum_j A_j v_j.

    Attention with more than m = width / 2 tokens is approximated with m landmarks, the
    means of queries and of keys of neighboring tokens:
    :math:`\mathrm{softmax}(Q \tilde K') \mathrm{softmax}(\tilde Q \tilde K')^+
    \mathrm{softmax}(\tilde Q K')`, with six iterations for the pseudoinverse. With up
    to m tokens every token is a landmark, and the attention is exact.

    Contributions of instances are those of the sum over j, at the scale of norm(c) that
    the bag has; what the class token adds is shared equally.
    """

    n_iterations = 6

    def layers(self, shape):
        """Return names, shapes and fan-in of the weights."""
        width = shape.width
        found = {"token": ((width,), 1)}
        for i in range(2):
            found |= norm_layers(f"layer{i}.norm", width)
            found[f"layer{i}.qkv"] = (width, 3 * width), width
        for size in (7, 5, 3):
            found[f"grid{size}.weight"] = (width, size, size), size**2
            found[f"grid{size}.bias"] = (width,), size**2
        found |= norm_layers("norm", width)
        found["bag.weight"] = (width, shape.n_outputs), width
        return found

    def forward(self, shape, weights, h, segments, generator=None):
        """Pool the rows of all models."""
        found, order, numbers = [], [], []
        for bags, rows in by_size(h, segments):
            found.append(self._bags(shape, weights, h[:, rows]))
            order.append(rows.flatten())
            numbers.append(bags)
        scores, share, contributions = zip(*found, strict=True)
        return Pooled(
            in_order(scores, numbers),
            in_order(share, order),
            in_order(contributions, order),
        )

    def _bags(self, shape, weights, tokens):
        """Scores, shares and contributions of bags of one size."""
        n_models, n_bags, size, width = tokens.shape
        n_heads, landmarks = math.gcd(width, 8), max(1, width // 2)
        side = math.isqrt(size - 1) + 1
        filled = side**2 - size
        token = weights["token"][:, None, None, :].expand(-1, n_bags, -1, -1)
        tokens = torch.cat([token, tokens, tokens[:, :, :filled]], dim=2)
        query, key, value = heads_of(
            normalized(weights, "layer0.norm", tokens), weights["layer0.qkv"], n_heads
        )
        tokens = tokens + merged(self.attention(query, key, value, landmarks))
        grid = self._grid(weights, tokens[:, :, 1:], side)
        tokens = torch.cat([tokens[:, :, :1], grid], dim=2)
        query, key, value = heads_of(
            normalized(weights, "layer1.norm", tokens), weights["layer1.qkv"], n_heads
        )
        share = self.weights(query, key, landmarks, first=True)
        end = tokens[:, :, :1] + merged(share @ value)
        out = normalized(weights, "norm", end)
        scores = linear(out, weights["bag.weight"])[:, :, 0].transpose(0, 1)
        scores = scores + weights["intercept"]
        parts = self._parts(weights, end, share, value)
        share = share[:, :, :, 0].mean(dim=2)[:, :, :, None]
        parts, share = (self._folded(given, size) for given in (parts, share))
        share = share.clamp(min=0.0) + torch.finfo(share.dtype).tiny
        share = share / share.sum(dim=2, keepdim=True)
        rest = scores.transpose(0, 1) - parts.sum(dim=2)
        parts = parts + rest[:, :, None, :] / size
        return (
            scores,
            share.flatten(1, 2).transpose(0, 1),
            parts.flatten(1, 2).transpose(0, 1),
        )

    def _folded(self, values, size):
        """Add the values of repeated tokens to those of the first ones."""
        own, again = values[:, :, 1 : size + 1], values[:, :, size + 1 :]
        return own + F.pad(again, (0, 0, 0, size - again.shape[2]))

    def _parts(self, weights, end, share, value):
        """Return what each token adds to the scores, at the scale that `end` has."""
        spread = torch.sqrt(end.var(dim=3, unbiased=False) + _EPS)  # (M, n_bags, 1)
        gain = (1.0 + weights["norm.gain"])[:, :, None] * weights["bag.weight"]
        gain = gain - gain.mean(dim=1, keepdim=True)
        gain = gain.reshape(len(gain), value.shape[2], -1, gain.shape[2])
        parts = torch.einsum("mbht,mbhtd,mhdk->mbtk", share[:, :, :, 0], value, gain)
        return parts / spread[:, :, :, None]

    def _grid(self, weights, tokens, side):
        """Add convolutions on the grid: three kernels, and the identity, in one."""
        n_models, n_bags, _, width = tokens.shape
        kernel, bias = 0.0, 0.0
        for size in (7, 5, 3):
            pad = (7 - size) // 2
            kernel = kernel + F.pad(weights[f"grid{size}.weight"], (pad,) * 4)
            bias = bias + weights[f"grid{size}.bias"]
        images = tokens.permute(1, 0, 3, 2).reshape(n_bags, -1, side, side)
        kernel = kernel.reshape(n_models * width, 1, 7, 7)
        found = F.conv2d(
            images, kernel, bias.reshape(-1), padding=3, groups=n_models * width
        )
        found = (images + found).reshape(n_bags, n_models, width, -1)
        return found.permute(1, 0, 3, 2)

    def attention(self, query, key, value, landmarks):
        """Return the attended values of all tokens."""
        if query.shape[3] <= landmarks:
            return F.scaled_dot_product_attention(query, key, value)
        first, inverse, last, filled = self._kernels(query, key, landmarks)
        value = F.pad(value, (0, 0, filled, 0))
        return (first @ inverse) @ (last @ value)

    def weights(self, query, key, landmarks, *, first=False):
        """Return the weights of all tokens for each one, or for the first alone."""
        pick = slice(0, 1) if first else slice(None)
        if query.shape[3] <= landmarks:
            scale = query.shape[4] ** -0.5
            return torch.softmax(
                scale * query[:, :, :, pick] @ key.transpose(3, 4), dim=4
            )
        found, inverse, last, filled = self._kernels(query, key, landmarks)
        return ((found[:, :, :, pick] @ inverse) @ last)[..., filled:]

    def _kernels(self, query, key, landmarks):
        """Return the three factors of Nystroem attention, and the zeros in front."""
        n_tokens = query.shape[3]
        filled = -n_tokens % landmarks
        query = F.pad(query * query.shape[4] ** -0.5, (0, 0, filled, 0))
        key = F.pad(key, (0, 0, filled, 0))
        means = [
            given.unflatten(3, (landmarks, -1)).mean(dim=4) for given in (query, key)
        ]
        first = torch.softmax(query[:, :, :, filled:] @ means[1].transpose(3, 4), dim=4)
        middle = torch.softmax(means[0] @ means[1].transpose(3, 4), dim=4)
        last = torch.softmax(means[0] @ key.transpose(3, 4), dim=4)
        return first, self._inverse(middle), last, filled

    def _inverse(self, x):
        """Iterate for the pseudoinverse of the matrices of each bag and head."""
        size = x.abs()
        # One scale for the heads of a bag, independent of the other bags in the batch.
        top = size.sum(4).amax((2, 3)) * size.sum(3).amax((2, 3))
        z = x.transpose(3, 4) / top[:, :, None, None, None]
        eye = torch.eye(x.shape[4], dtype=x.dtype, device=x.device)
        for _ in range(self.n_iterations):
            xz = x @ z
            z = 0.25 * z @ (13 * eye - xz @ (15 * eye - xz @ (7 * eye - xz)))
        return z
