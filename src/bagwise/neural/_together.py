"""Training several estimators at once: the seeds of one, or folds and settings."""

from dataclasses import dataclass

import numpy as np

from bagwise._sizes import memory_budget

# Parameters that may differ between models that are trained together.
FREE = ("learning_rate", "weight_decay", "dropout", "n_models", "random_state")


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
    # Codes are shared between the jobs of a run; other targets need not be.
    codes = job.targets.tobytes() if job.loss == "softmax" else b""
    return job.loss, job.intercept.shape, codes, tuple(sorted(fixed.items()))


def _fit_run(jobs, X):
    first = jobs[0].estimator
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
            say=first._say(),
        ),
        encoder=encoder,
        intercept=_spread(jobs, [job.intercept for job in jobs]),
        affine=_affine(mean, scale),
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


def _affine(mean, scale):
    """Scale and shift from the rows of the run to those of each model, or None."""
    if (mean == mean[0]).all() and (scale == scale[0]).all():
        return None
    return scale[0] / scale, (mean[0] - mean) / scale
