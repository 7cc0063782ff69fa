"""The training loop: all models at once, each on the bags it may see.

All weights of all models are in one matrix, and `torch.optim.AdamW` makes the update.
The class here gives each model its own learning rate, weight decay and gradient norm,
and keeps the rates on the device, as a recorded step requires.
"""

import math
import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F

from bagwise.neural.engine.layers import NO_NOISE, Noise
from bagwise.neural.engine.losses import Goal, bag_losses
from bagwise.neural.engine.network import (
    POOLINGS,
    bag_scores,
    initial_weights,
    pooled,
)
from bagwise.neural.engine.rows import drawn_rows, row_index
from bagwise.neural.engine.segments import Recorder, Segments, worth_recording
from bagwise.solvers.pace import paced

# Offsets of weights are multiples of this value, for fast matrix products on a GPU.
_ALIGNED = 64


class Parameters:
    """Named weights with a leading axis of models, as views of one matrix.

    Row m of `flat` holds all weights of model m, with zeros between them, so that
    clipping, the update and keeping the best weights are a few operations, whatever
    the number of layers.
    """

    def __init__(self, initial, device, dtype):
        self.shapes = {name: tuple(w.shape[1:]) for name, w in initial.items()}
        n_models = next(iter(initial.values())).shape[0]
        parts = []
        for weight in initial.values():
            part = weight.reshape(n_models, -1).to(dtype)
            parts.append(F.pad(part, (0, -part.shape[1] % _ALIGNED)))
        self.sizes = [part.shape[1] for part in parts]
        self.flat = torch.cat(parts, dim=1).to(device).requires_grad_()

    def named(self, flat):
        """Return the parts of a matrix like `flat`, by name."""
        parts = flat.split(self.sizes, dim=1)
        return {
            name: part[:, : math.prod(shape)].reshape(len(flat), *shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }


class AdamW:
    """AdamW with a learning rate and a decay for each model.

    The rates in force are read where the weights are, so that a GPU can record a step.

    Parameters
    ----------
    parameters : Parameters
        What is changed in place.
    learning_rate, weight_decay : arrays of shape (n_models,)
        Of each model.
    clip : float
        Largest norm of the gradient of a model.

    Attributes
    ----------
    rates : tensor of shape (n_rates,)
        The different rates, on the host.
    now : tensor of shape (n_rates,)
        Those in force, on the device.
    """

    def __init__(self, parameters, learning_rate, weight_decay, clip):
        self.clip = clip
        self.rows = [row.detach() for row in parameters.flat]
        groups = {}
        for row, rate, decay in zip(
            self.rows, learning_rate, weight_decay, strict=True
        ):
            groups.setdefault((float(rate), float(decay)), []).append(row)
        device = parameters.flat.device
        gpu = device.type == "cuda"
        self.rates = torch.tensor([rate for rate, _ in groups], dtype=torch.float64)
        dtype = torch.float32 if gpu else torch.float64
        self.now = self.rates.to(device, dtype, copy=True)
        self.inner = torch.optim.AdamW(
            [
                {"params": rows, "lr": self.now[i], "weight_decay": decay}
                for i, ((_, decay), rows) in enumerate(groups.items())
            ],
            fused=True,
            capturable=gpu,
        )

    def slow_down(self, factor):
        """Set the rates to a factor, that of the schedule, times what they are."""
        self.now.copy_(self.rates * factor)

    @torch.no_grad()
    def step(self, grad):
        """Make one step along a gradient, with the rates in force."""
        norm = torch.linalg.vector_norm(grad, dim=1, keepdim=True)
        grad = grad * torch.clamp(self.clip / (norm + 1e-12), max=1.0)
        for row, own in zip(self.rows, grad, strict=True):
            row.grad = own
        self.inner.step()


# A pass over few bags is divided into at least this many steps.
_STEPS = 16
_FEWEST_BAGS = 4
_WARM_UP = 0.05
# On a GPU, validation sets are evaluated one by one up to this number of different
# sets, and only above this number of rows times models.
_MOST_GROUPS = 8
_FEW_ROWS = 2**20


@dataclass
class Models:
    """What differs between the models of one run: one entry, or row, for each."""

    seeds: np.ndarray
    learning_rate: np.ndarray
    weight_decay: np.ndarray
    dropout: np.ndarray
    train_weight: np.ndarray  # (n_models, n_bags), zero where a bag is not seen
    valid_weight: np.ndarray  # (n_models, n_bags), all zero without early stopping


@dataclass
class Options:
    """What is the same for all of them."""

    bags_per_step: int
    max_instances: int | None
    max_epochs: int
    patience: int
    seed: int
    clip: float = 5.0
    instance_dropout: float = 0.0
    mixup: float = 0.0
    smoothness: float = 0.0
    say: object = None


@dataclass
class Trained:
    """The best weights and how they came about."""

    weights: dict
    buffers: dict
    train_loss: np.ndarray  # (n_epochs, n_models)
    valid_loss: np.ndarray  # (n_epochs, n_models), NaN without validation
    best_epoch: np.ndarray  # (n_models,)
    epoch_seconds: np.ndarray


def train(rows, offsets, targets, loss, shape, models, options, **extra):
    """Train all models of one shape together.

    Parameters
    ----------
    rows : Rows
        The instances.
    offsets : int array of shape (n_bags + 1,)
        Where bags begin among them.
    targets : array of shape (n_bags, 1 or n_models, n_outputs), or codes (n_bags,)
        What to learn.
    loss : {"logistic", "softmax", "squared", "cox"}
        See `losses.bag_losses`.
    shape : Shape
        The network.
    models : Models
        What differs between the models.
    options : Options
        What does not.
    encoder : Encoder, default=None
        Turns instances into rows of features, with weights of its own.
    intercept : array of shape (n_models, n_outputs), default=None
        Where the intercepts start; zero by default.
    affine : pair of arrays of shape (n_models, width), default=None
        Scale and shift of the inputs of each model.
    graph : int array of shape (n_rows, k), default=None
        Neighbors of each row over which attention is smoothed, -1 for none.

    Returns
    -------
    Trained
    """
    with torch.random.fork_rng(
        devices=[rows.device] if rows.device.type == "cuda" else []
    ):
        torch.manual_seed(options.seed)
        return _Run(
            rows, offsets, targets, loss, shape, models, options, **extra
        ).train()


class _Run:
    def __init__(
        self,
        rows,
        offsets,
        targets,
        loss,
        shape,
        models,
        options,
        encoder=None,
        intercept=None,
        affine=None,
        graph=None,
    ):
        self.rows, self.offsets, self.loss = rows, np.asarray(offsets), loss
        self.shape, self.models, self.options = shape, models, options
        self.encoder = encoder
        device = self.device = rows.device
        wide = self.wide = rows.wide
        start = initial_weights(shape, models.seeds)
        if intercept is not None:
            start["intercept"] = torch.as_tensor(intercept, dtype=torch.float64)
        self.buffers = {}
        if encoder is not None:
            own, self.buffers = encoder.initial(models.seeds, device)
            start.update(own)
        self.parameters = Parameters(start, device, wide)
        kind = torch.int64 if loss == "softmax" else wide
        # One additional bag that belongs to no model and has no weight.
        targets = np.concatenate([targets, np.zeros_like(targets[:1])])
        self.targets = torch.as_tensor(targets, dtype=kind).to(device)
        self.train_weight = F.pad(self._tensor(models.train_weight), (0, 1))
        seen = (models.train_weight > 0) | (models.valid_weight > 0)
        self.active = np.flatnonzero(seen.any(axis=0))
        # Weights are scaled so that an average step has the average loss.
        total = self.train_weight.sum(dim=1)
        self.unit = len(self.active) / total
        self.affine = None if affine is None else [self._tensor(a) for a in affine]
        self.generator = torch.Generator(device).manual_seed(options.seed)
        self.noise = NO_NOISE
        if (models.dropout > 0).any():
            # A separate random stream: a model without dropout draws the same rows.
            stream = torch.Generator(device).manual_seed(options.seed + 1)
            self.noise = Noise(1.0 - models.dropout, stream, device, wide)
        self.optimizer = AdamW(
            self.parameters,
            models.learning_rate,
            models.weight_decay,
            options.clip,
        )
        self.graph = None if graph is None else torch.as_tensor(graph).to(device)
        self.groups = self._validation_groups()
        self.recorder, self.n_steps = None, 0

    def _tensor(self, values):
        return torch.as_tensor(np.asarray(values), dtype=self.wide).to(self.device)

    def _validation_groups(self):
        """Models with the same validation bags, and a fixed draw of their rows."""
        weight = self.models.valid_weight
        if not (weight > 0).any():
            return []
        patterns, code = np.unique(weight > 0, axis=0, return_inverse=True)
        many = len(patterns) > _MOST_GROUPS
        if self.device.type == "cuda" and (many or self._few_rows()):
            # Launching kernels costs more than products with bags that a model ignores.
            patterns = (weight > 0).any(axis=0, keepdims=True)
            code = np.zeros(len(weight), dtype=np.int64)
        groups = []
        for p, seen in enumerate(patterns):
            bags = np.flatnonzero(seen)
            members = np.flatnonzero(code.ravel() == p)
            fixed = torch.Generator(self.device).manual_seed(self.options.seed)
            index, sizes = row_index(
                bags, self.offsets, self.options.max_instances, fixed, self.device
            )
            groups.append((members, bags, index, sizes, self._tensor(weight[members])))
        return groups

    def _few_rows(self):
        return len(self.models.seeds) * self.rows.n_rows <= _FEW_ROWS

    def _encoded(self, weights, buffers, x, affine, training):
        if self.encoder is None:
            return x
        return self.encoder(weights, buffers, x, training=training, affine=affine)

    def _connect(self, segments, index):
        """Let segments know which of their rows are neighbors."""
        if self.graph is not None:
            segments.connect(self.graph, index, self.options.smoothness)

    def _losses(self, weights, x, segments, tasks):
        """Return the losses of training for each task, (n_bags, n_models)."""
        given = self.shape, weights, x, segments, self.noise, self.affine
        if self.shape.pooling not in POOLINGS:
            scores = bag_scores(*given)
            return [task.losses(scores) for task in tasks]
        pooling = POOLINGS[self.shape.pooling]
        found = pooled(*given, self.generator)
        return [pooling.losses(self.shape, found, segments, t) for t in tasks]

    def _task(self, bags):
        weight = self.train_weight[:, bags].T
        return Goal(self.loss, self.targets[bags], weight)

    def train(self):
        """Run the epochs and return the best weights."""
        options, n_models = self.options, len(self.models.seeds)
        n_active = len(self.active)
        # The risk sets of Cox's partial likelihood contain the bags of one step.
        fewest = 1 if self.loss == "cox" else _STEPS
        per_step = min(options.bags_per_step, -(-n_active // fewest))
        per_step = min(max(per_step, _FEWEST_BAGS), options.bags_per_step, n_active)
        steps = -(-n_active // per_step)
        self.total_steps = steps * options.max_epochs
        self.total = torch.zeros(n_models, device=self.device, dtype=self.wide)
        plain = self.shape.pooling not in POOLINGS and self.graph is None
        if (
            plain
            and options.mixup == 0
            and worth_recording(self.rows, self.encoder, self.total_steps)
        ):
            self.recorder = self._recorder(per_step)
        order_rng = np.random.default_rng(options.seed)
        best_loss = np.full(n_models, np.inf)
        best_epoch = np.zeros(n_models, dtype=np.int64)
        running = np.ones(n_models, dtype=bool)
        best = self.parameters.flat.detach().clone()
        best_buffers = {k: v.clone() for k, v in self.buffers.items()}
        history = [], [], []
        epochs = range(options.max_epochs)
        for epoch in paced(epochs, "training of the network", "epochs"):
            begun = time.perf_counter()
            order = self.active[order_rng.permutation(n_active)]
            train_loss = self._epoch(order, per_step)
            valid_loss = self._validate()
            self._refuse_nan(train_loss, epoch)
            improved = running & (valid_loss < best_loss) if self.groups else running
            if improved.any():
                mark = torch.as_tensor(improved, device=self.device)
                best = torch.where(mark[:, None], self.parameters.flat.detach(), best)
                for name, value in self.buffers.items():
                    best_buffers[name][mark] = value[mark]
                best_loss = np.where(improved, valid_loss, best_loss)
                best_epoch[improved] = epoch
            if self.groups:
                running &= epoch - best_epoch < options.patience
            seconds = time.perf_counter() - begun
            for kept, value in zip(
                history, (train_loss, valid_loss, seconds), strict=True
            ):
                kept.append(value)
            if options.say is not None:
                options.say(
                    f"epoch {epoch + 1}: loss {train_loss.mean():.4f}, validation "
                    f"{np.mean(valid_loss):.4f}, {running.sum()} of {n_models} models "
                    f"running, {seconds:.2f} s"
                )
            if not running.any():
                break
        self.recorder = None  # refers to this run: neither would be freed
        arrays = {
            name: np.ascontiguousarray(weight.cpu().numpy())
            for name, weight in self.parameters.named(best).items()
        }
        kept = {k: v.cpu().numpy() for k, v in best_buffers.items()}
        return Trained(
            arrays,
            kept,
            np.array(history[0]),
            np.array(history[1]),
            best_epoch,
            np.array(history[2]),
        )

    def _epoch(self, order, per_step):
        cuts = np.arange(0, len(order) + per_step, per_step).clip(max=len(order))
        cuts = np.unique(cuts)
        index, sizes, mix = self._drawn(order, cuts)
        first, self.n_steps = self.n_steps, self.n_steps + len(cuts) - 1
        factors = [self._factor(step) for step in range(first, self.n_steps)]
        self.total.zero_()
        if self.recorder is None:
            self._plain_steps(index, sizes, order, cuts, factors, mix)
        else:
            slower = torch.tensor(factors, dtype=torch.float64)
            rates = slower[:, None] * self.optimizer.rates
            self.recorder.epoch(index, sizes, order, cuts, rates)
        return (self.total / len(order)).cpu().numpy()

    def _drawn(self, order, cuts):
        """Draw the rows of an epoch: index, sizes, and what bags are mixed with."""
        options = self.options
        taken = np.diff(self.offsets)[order]
        if options.max_instances is not None:
            taken = np.minimum(taken, options.max_instances)
        kept = np.ceil(taken * (1.0 - options.instance_dropout)).astype(np.int64)
        if options.mixup == 0:
            return *self._rows_of(order, kept), None
        rng = np.random.default_rng([options.seed, self.n_steps])
        partner = np.concatenate(
            [start + rng.permutation(stop - start) for start, stop in pairwise(cuts)]
        )
        first = np.maximum(rng.beta(options.mixup, options.mixup, len(order)), 0.5)
        parts = np.stack([np.ceil(first * kept), np.floor((1 - first) * kept[partner])])
        parts = parts.T.astype(np.int64)
        # The label is weighted by the fraction of instances drawn from its bag.
        share = parts[:, 0] / parts.sum(axis=1)
        pairs = np.stack([order, order[partner]], axis=1)
        index, _ = self._rows_of(pairs.ravel(), parts.ravel())
        second = torch.as_tensor(pairs[:, 1], device=self.device)
        return index, parts.sum(axis=1), (second, self._tensor(share))

    def _rows_of(self, bags, taken):
        return drawn_rows(bags, self.offsets, taken, self.generator, self.device)

    def _plain_steps(self, index, sizes, order, cuts, factors, mix=None):
        row_cuts = np.concatenate([[0], np.cumsum(sizes)])[cuts]
        # Copied once: a copy in every step would make the device wait for the host.
        bags = torch.as_tensor(order, device=self.device)
        lengths = torch.as_tensor(sizes, dtype=torch.int64).to(self.device)
        for i, x in enumerate(self.rows.batches(index, row_cuts)):
            part = slice(cuts[i], cuts[i + 1])
            segments = Segments(lengths[part], len(x))
            self._connect(segments, index[row_cuts[i] : row_cuts[i + 1]])
            self.optimizer.slow_down(factors[i])
            other = None if mix is None else [given[part] for given in mix]
            step = self._step(x, bags[part], segments, 1.0 / segments.n_bags, other)
            self.total += step

    def _recorder(self, per_step, record=True):
        return Recorder(
            self._step,
            self.rows,
            len(self.train_weight[0]) - 1,
            per_step,
            self._most_rows(per_step),
            self.optimizer.now,
            self.total,
            None if self.noise is NO_NOISE else self.noise.generator,
            record,
        )

    def _most_rows(self, per_step):
        """Return the rows of the largest step there can be."""
        sizes = np.diff(self.offsets)[self.active]
        if self.options.max_instances is not None:
            sizes = np.minimum(sizes, self.options.max_instances)
        return int(np.sort(sizes)[-per_step:].sum())

    def _step(self, x, bags, segments, share, mix=None):
        """Make one step; `share` is one over the number of bags that count.

        `mix` is a second bag for each bag, and the share of the first.
        """
        flat = self.parameters.flat
        # Cast all weights at once; intercepts are added in full precision.
        weights = self.parameters.named(flat.to(self.rows.dtype))
        x = self._encoded(weights, self.buffers, x, self.affine, training=True)
        tasks = [self._task(bags)]
        if mix is not None:
            tasks.append(self._task(mix[0]))
        losses = self._losses(weights, x, segments, tasks)
        if mix is None:
            weighted = losses[0].T * tasks[0].weight.T
        else:
            first, second = (task.weight.T for task in tasks)
            part = mix[1]
            weighted = part * first * losses[0].T + (1 - part) * second * losses[1].T
            # A model learns only from pairs in which it may use both bags.
            weighted = weighted * ((first > 0) & (second > 0))
        weighted = weighted.sum(dim=1) * self.unit
        mean = weighted.sum() * share
        (grad,) = torch.autograd.grad(mean, flat)
        self.optimizer.step(grad)
        return weighted.detach()

    def _factor(self, step):
        """Warm up for a twentieth of the steps, then follow a cosine to zero."""
        share = (step + 1) / self.total_steps
        if share < _WARM_UP:
            return share / _WARM_UP
        return 0.5 * (1.0 + math.cos(math.pi * (share - _WARM_UP) / (1.0 - _WARM_UP)))

    @torch.no_grad()
    def _validate(self):
        """Return the validation loss of each model, NaN without validation bags."""
        out = np.full(len(self.models.seeds), np.nan)
        n_models = len(out)
        for members, bags, index, sizes, weight in self.groups:
            pick = slice(None) if len(members) == n_models else torch.as_tensor(members)
            weights = self.parameters.named(self.parameters.flat[pick])
            buffers = {k: b[pick] for k, b in self.buffers.items()}
            affine = None if self.affine is None else [a[pick] for a in self.affine]
            scores = []
            for part, row_part in bag_chunks(sizes, self._chunk_rows(len(members))):
                x = self.rows.take(index[row_part])
                x = self._encoded(weights, buffers, x, affine, training=False)
                within = Segments.of(sizes[part], self.device)
                self._connect(within, index[row_part])
                scores.append(
                    bag_scores(self.shape, weights, x, within, NO_NOISE, affine)
                )
            chosen = torch.as_tensor(bags, device=self.device)
            targets = self.targets[chosen]
            if targets.dim() == 3 and targets.shape[1] > 1:
                targets = targets[:, pick]
            own = weight[:, chosen]
            losses = bag_losses(self.loss, torch.cat(scores), targets, own.T)
            total = (losses.T * own).sum(dim=1)
            out[members] = (total / weight.sum(dim=1)).cpu().numpy()
        return out

    def _chunk_rows(self, n_models):
        return chunk_rows(self.shape, n_models, self.device)

    def _refuse_nan(self, loss, epoch):
        if np.isfinite(loss).all():
            return
        raise FloatingPointError(
            f"the loss is not finite in epoch {epoch + 1}: the training diverged. "
            "Use a smaller learning_rate, or precision='float32'."
        )


def chunk_rows(shape, n_models, device):
    """Rows evaluated together outside of training, by the memory they take."""
    width = max(shape.n_inputs, n_models * max(shape.width, *shape.hidden, 0))
    budget = 2**31 if device.type == "cuda" else 2**27
    return max(256, budget // (16 * width))


def bag_chunks(sizes, most):
    """Cut bags into runs of about `most` rows: slices of bags and of rows."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield slice(start, stop), slice(int(done), int(ends[stop - 1]))
        start = stop
