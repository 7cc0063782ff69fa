"""What classifier and regressor share: parameters, inputs, training, outputs."""

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import Interval, StrOptions
from bagwise._sizes import memory_budget
from bagwise.bags import Bags, Ragged
from bagwise.bags.neighbors import neighbor_rows
from bagwise.base import bag_folds
from bagwise.base.folds import most_folds
from bagwise.neural._torch import (
    choose_device,
    choose_dtype,
    require_torch,
    resolve_encoder,
)

# Parameters that may differ between models that are trained together.
FREE = ("learning_rate", "weight_decay", "dropout", "n_models", "random_state")


# Number of neighbors over which the attention of an instance is smoothed.
_N_SMOOTHED = 8


@dataclass
class Job:
    """An estimator and what it is to learn.

    `weight` is zero for the bags that it must not see; `targets` has the shape
    (n_bags, n_outputs), or (n_bags,) for the codes of "softmax"; validation bags are
    drawn with regard to `strata`.
    """

    estimator: object
    targets: np.ndarray
    weight: np.ndarray
    strata: np.ndarray
    intercept: np.ndarray
    loss: str


def fit_together(jobs, X):
    """Train the models of all jobs at once and set their fitted attributes.

    Jobs whose networks have another shape, or other parameters than those that may
    differ within a run, are trained in a run of their own.
    """
    runs = {}
    for job in jobs:
        runs.setdefault(_kind(job), []).append(job)
    for run in runs.values():
        _fit_run(run, X)


def _kind(job):
    params = job.estimator.get_params(deep=False)
    fixed = {k: repr(v) for k, v in params.items() if k not in FREE}
    # Models trained together share class codes; other targets may differ.
    codes = job.targets.tobytes() if job.loss == "softmax" else b""
    return job.loss, job.intercept.shape, codes, tuple(sorted(fixed.items()))


def _fit_run(jobs, X):
    first = jobs[0].estimator
    first._check_smoothness()
    device, dtype = first._runs_on()
    from bagwise.neural.engine.network import Shape
    from bagwise.neural.engine.rows import Rows, standardization
    from bagwise.neural.engine.training import Options, train

    encoder = first._make_encoder(device, dtype)
    shape = Shape(
        n_inputs=X.n_features if encoder is None else encoder.width,
        n_outputs=len(jobs[0].intercept),
        hidden=first._hidden() if encoder is None else (),
        attention=int(first.attention),
        pooling=first.pooling,
        head=first.head,
    )
    seed = first._draw_seeds()[0]
    models = _models(jobs, X)
    seen = (models.train_weight > 0) | (models.valid_weight > 0)
    mean, scale = standardization(
        X.data, X.offsets, seen, device, pooled=encoder is not None
    )
    rows = Rows(X.data, mean[0], scale[0], device, dtype, memory_budget(), first._say())
    trained = train(
        rows,
        X.offsets,
        _targets(jobs),
        jobs[0].loss,
        shape,
        models,
        Options(
            bags_per_step=first.bags_per_step,
            max_instances=first.max_instances,
            max_epochs=first.max_epochs,
            patience=first.patience,
            seed=seed,
            instance_dropout=first.instance_dropout,
            mixup=first.mixup,
            smoothness=first.smoothness,
            say=first._say(),
        ),
        encoder=encoder,
        intercept=_spread(jobs, [job.intercept for job in jobs]),
        affine=_affine(mean, scale),
        graph=_graph(X, first.smoothness),
    )
    start = 0
    for job in jobs:
        own = slice(start, start + job.estimator.n_models)
        job.estimator._keep(shape, trained, own, mean[start], scale[start])
        start = own.stop


def _models(jobs, X):
    """Return what differs between the models of a run."""
    from bagwise.neural.engine.training import Models

    seeds, train_weight, valid_weight = [], [], []
    for job in jobs:
        estimator = job.estimator
        _, fold_seed, own = estimator._draw_seeds()
        bags = np.flatnonzero(job.weight > 0)
        inside = X if len(bags) == len(X) else X[bags]
        held = np.zeros((estimator.n_models, len(X)), dtype=bool)
        held[:, bags] = estimator._validation(inside, job.strata[bags], fold_seed)
        seeds.append(own)
        train_weight.append(np.where(held, 0.0, job.weight))
        valid_weight.append(np.where(held, job.weight, 0.0))
    params = {
        name: _spread(jobs, [getattr(job.estimator, name) for job in jobs])
        for name in ("learning_rate", "weight_decay", "dropout")
    }
    return Models(
        np.concatenate(seeds),
        train_weight=np.concatenate(train_weight),
        valid_weight=np.concatenate(valid_weight),
        **{name: values.astype(np.float64) for name, values in params.items()},
    )


def _spread(jobs, values):
    """Repeat the value of each job for its models."""
    return np.repeat(np.asarray(values), [j.estimator.n_models for j in jobs], axis=0)


def _targets(jobs):
    if jobs[0].loss == "softmax":
        return jobs[0].targets
    same = all(np.array_equal(job.targets, jobs[0].targets) for job in jobs)
    if same:
        return jobs[0].targets[:, None, :]
    return _spread(jobs, [job.targets for job in jobs]).transpose(1, 0, 2)


def _graph(X, smoothness):
    """Return the neighbors of each instance over which attention is smoothed."""
    return neighbor_rows(X, _N_SMOOTHED) if smoothness > 0 else None


def _affine(mean, scale):
    """Scale and shift from the rows of the run to those of each model, or None."""
    if (mean == mean[0]).all() and (scale == scale[0]).all():
        return None
    return scale[0] / scale, (mean[0] - mean) / scale


_POSITIVE = [Interval(Integral, 1, None, closed="left")]

# Poolings for targets of any kind; the clustering of CLAM requires classes.
REAL = {
    *("gated", "attention", "mean", "max"),
    *("dsmil", "dtfd", "transmil", "set_transformer"),
}

CONSTRAINTS: dict = {
    "pooling": [StrOptions(REAL | {"clam_sb", "clam_mb"})],
    "head": [StrOptions({"additive", "pooled"})],
    "hidden": [*_POSITIVE, tuple, list],
    "attention": _POSITIVE,
    "dropout": [Interval(Real, 0, 1, closed="left")],
    "encoder": [str, callable, None],
    "instance_shape": [tuple, list, None],
    "learning_rate": [Interval(Real, 0, None, closed="neither")],
    "weight_decay": [Interval(Real, 0, None, closed="left")],
    "bags_per_step": _POSITIVE,
    "max_instances": [*_POSITIVE, None],
    "max_epochs": _POSITIVE,
    "patience": _POSITIVE,
    "validation_fraction": [Interval(Real, 0, 0.5, closed="both")],
    "instance_dropout": [Interval(Real, 0, 1, closed="left")],
    "mixup": [Interval(Real, 0, None, closed="left")],
    "smoothness": [Interval(Real, 0, 1, closed="left")],
    "n_models": _POSITIVE,
    "random_state": ["random_state"],
    "device": [str],
    "precision": [StrOptions({"auto", "float32", "float64", "bfloat16", "float16"})],
    "verbose": ["verbose"],
}


class NetworkParameters:
    """The parameters of networks whose targets are not classes."""

    def __init__(
        self,
        pooling="gated",
        *,
        head="additive",
        hidden=256,
        attention=128,
        dropout=0.5,
        encoder=None,
        instance_shape=None,
        learning_rate=1e-3,
        weight_decay=1e-4,
        bags_per_step=32,
        max_instances=512,
        max_epochs=80,
        patience=10,
        validation_fraction=0.0,
        instance_dropout=0.0,
        mixup=0.0,
        smoothness=0.0,
        n_models=5,
        random_state=None,
        device="auto",
        precision="auto",
        verbose=0,
    ):
        self.pooling = pooling
        self.head = head
        self.hidden = hidden
        self.attention = attention
        self.dropout = dropout
        self.encoder = encoder
        self.instance_shape = instance_shape
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.bags_per_step = bags_per_step
        self.max_instances = max_instances
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.instance_dropout = instance_dropout
        self.mixup = mixup
        self.smoothness = smoothness
        self.n_models = n_models
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.verbose = verbose


class NetworkMixin:
    """Inputs of any shape, draws, and the evaluation of fitted weights."""

    _prediction_parameters = ("device", "precision")

    def _check_bags(self, X, y=None, *, reset, min_bags=1):
        X, shape = flatten_instances(X)
        checked = super()._check_bags(X, y, reset=reset, min_bags=min_bags)
        if reset:
            self.instance_shape_ = self._own_shape(shape)
        elif shape is not None and shape != tuple(self.instance_shape_):
            raise ValueError(
                f"X has instances of shape {shape}, {type(self).__name__} was fitted "
                f"with {tuple(self.instance_shape_)}."
            )
        return checked

    def _own_shape(self, found):
        asked = None if self.instance_shape is None else tuple(self.instance_shape)
        if asked is None:
            return found or (self.n_features_in_,)
        if found is not None and found != asked:
            raise ValueError(
                f"instance_shape={asked}, but the instances have the shape {found}."
            )
        if int(np.prod(asked)) != self.n_features_in_:
            raise ValueError(
                f"instance_shape={asked} holds {int(np.prod(asked))} values, but the "
                f"instances have {self.n_features_in_} features."
            )
        return asked

    def _hidden(self):
        """Return the widths of the hidden layers."""
        widths = (
            self.hidden if isinstance(self.hidden, (tuple, list)) else [self.hidden]
        )
        if not widths or any(not isinstance(w, Integral) or w < 1 for w in widths):
            raise ValueError(
                f"hidden={self.hidden!r} must be a positive integer, or several in a "
                "tuple."
            )
        return tuple(int(w) for w in widths)

    def _draw_seeds(self):
        """Return the seed of the run, of the folds and of each model."""
        rng = check_random_state(self.random_state)
        drawn = rng.randint(np.iinfo(np.int32).max, size=2 + self.n_models)
        return int(drawn[0]), int(drawn[1]), drawn[2:]

    def _validation(self, X, y, seed):
        """Return which bags each model holds out: (n_models, n_bags) of bool.

        The models take different folds, so that together they learn from every bag.
        """
        held = np.zeros((self.n_models, len(X)), dtype=bool)
        if self.validation_fraction == 0:
            return held
        wanted = max(2, round(1.0 / self.validation_fraction))
        for n_folds in range(most_folds(X, y, wanted), 1, -1):
            try:
                folds = bag_folds(X, y, n_folds, seed)
            except ValueError:  # few groups: one fold would have all bags of a class
                continue
            for m in range(self.n_models):
                held[m, folds[m % n_folds][1]] = True
            break
        return held

    def _say(self):
        return print if self.verbose else None

    def _runs_on(self):
        require_torch(type(self).__name__)
        device = choose_device(self.device, type(self).__name__)
        return device, choose_dtype(self.precision, device)

    def _make_encoder(self, device, dtype):
        if self.encoder is None:
            return None
        from bagwise.neural.engine.network import ModuleEncoder

        factory = resolve_encoder(self.encoder)
        return ModuleEncoder(factory, self.instance_shape_, device, dtype)

    def _keep(self, shape, trained, models, mean, scale):
        """Set the fitted attributes; `models` are the positions of its own models."""
        self.network_ = {
            "n_inputs": shape.n_inputs,
            "n_outputs": shape.n_outputs,
            "hidden": list(shape.hidden),
            "attention": shape.attention,
            "pooling": shape.pooling,
            "head": shape.head,
        }
        self.weights_ = {k: w[models].copy() for k, w in trained.weights.items()}
        self.buffers_ = {k: b[models].copy() for k, b in trained.buffers.items()}
        self.mean_, self.scale_ = mean, scale
        self.smoothness_ = float(self.smoothness)
        self.best_epoch_ = trained.best_epoch[models]
        self.train_loss_ = trained.train_loss[:, models]
        self.validation_loss_ = trained.valid_loss[:, models]
        self.n_iter_ = len(trained.train_loss)

    def fit_many(self, X, y, masks, settings=({},), sample_weight=None):
        """Fit one model for each setting and each set of training bags, together.

        A whole cross-validation then takes about the time of its slowest fit: the rows
        are multiplied with the first layers of all models in one product.

        Parameters
        ----------
        X : Bags or sequence of arrays
            All bags.
        y : array-like of shape (n_bags,)
            Their labels or values. A model uses only those of its own bags.
        masks : array-like of bool of shape (n_masks, n_bags)
            The training bags of each model.
        settings : sequence of dict, default=({},)
            Parameters to change, for each setting. Those that differ in
            `learning_rate`, `weight_decay`, `dropout`, `n_models` or `random_state` are
            trained together; others separately.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag in the loss.

        Returns
        -------
        list of list of estimators
            ``result[i][j]`` is fitted with setting i on mask j.
        """
        masks = np.asarray(masks)
        if masks.ndim != 2 or masks.dtype != bool or masks.shape[1] != len(y):
            raise ValueError(
                "masks must be an array of bool with one row per model and one column "
                f"for each of the {len(y)} bags, got {masks.dtype} of shape "
                f"{masks.shape}."
            )
        models, jobs = [], []
        for setting in settings:
            models.append([])
            for mask in masks:
                one = clone(self).set_params(**setting)
                one._validate_params()
                bags, *job = one._masked_job(X, y, mask, sample_weight)
                jobs.append(job[0])
                models[-1].append(one)
        fit_together(jobs, bags)
        return models

    def _score_candidates(self, candidates, X, y, splits, scoring):
        """Score settings on folds, trained together; the hook of tuning."""
        masks = np.zeros((len(splits), len(y)), dtype=bool)
        for mask, (train, _) in zip(masks, splits, strict=True):
            mask[train] = True
        score = check_scoring(self, scoring)
        fitted = self.fit_many(X, y, masks, candidates)
        return [
            np.mean(
                [
                    score(model, X[test], y[test])
                    for model, (_, test) in zip(models, splits, strict=True)
                ]
            )
            for models in fitted
        ]

    def _set_attention(self, X):
        """Keep the attention of the training bags."""
        weight = self._evaluate(X)["attention"].mean(axis=1)
        self.attention_ = Ragged(weight, X.offsets)

    def attention_weights(self, X):
        """Return the weight of each instance in its bag, averaged over the models.

        Parameters
        ----------
        X : Bags or sequence of arrays
            The bags.

        Returns
        -------
        Ragged
            Numbers that sum to one over each bag.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        return Ragged(self._evaluate(X)["attention"].mean(axis=1), X.offsets)

    def _evaluate(self, X):
        """Return scores, attention and contributions of bags; see `Fitted.evaluate`."""
        from bagwise.neural.engine.inference import Fitted
        from bagwise.neural.engine.network import Shape

        device, dtype = self._runs_on()
        shape = Shape(**{**self.network_, "hidden": tuple(self.network_["hidden"])})
        fitted = Fitted(
            shape,
            self.weights_,
            self.buffers_,
            self.mean_,
            self.scale_,
            device,
            dtype,
            self._make_encoder(device, dtype),
            smoothness=self.smoothness_,
        )
        return fitted.evaluate(X.data, X.offsets, _graph(X, self.smoothness_))

    def _values(self, X):
        """Return the scores of single instances as bags of their own."""
        found = self._evaluate(X)
        if "values" in found:
            return found["values"]
        alone = Bags(X.data, np.arange(X.n_instances + 1))
        return self._evaluate(alone)["scores"]

    def _check_smoothness(self):
        attentive = self.pooling in ("gated", "attention")
        if self.smoothness > 0 and not (attentive and self.mixup == 0):
            raise ValueError(
                "smoothness is for pooling='gated' or 'attention' and cannot be "
                f"combined with mixup; got pooling={self.pooling!r}, "
                f"mixup={self.mixup}."
            )


def flatten_instances(X):
    """Flatten instances with more than one axis: the bags, and the shape of one.

    A list of arrays of shape (n_instances, ...) becomes `Bags`; what is no such list
    comes back as it is, with None.
    """
    if isinstance(X, Bags) or isinstance(X, (str, bytes, dict)):
        return X, None
    if isinstance(X, np.ndarray) and X.dtype != object:
        if X.ndim < 4:
            return X, None
    elif not isinstance(X, (list, tuple, np.ndarray)) or not len(X):
        return X, None
    elif max((getattr(bag, "ndim", 2) for bag in X), default=2) < 3:
        return X, None
    shapes = [np.shape(bag)[1:] for bag in X]
    for i, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(
                f"All instances must have the same shape: those of bag 0 have "
                f"{shapes[0]}, those of bag {i} have {shape}."
            )
    flat = [np.reshape(bag, (np.shape(bag)[0], -1)) for bag in X]
    return Bags.from_list(flat), tuple(shapes[0])
