"""Decisions of SAFECV on left-out bags: by the exact kernel or by moments."""

import numpy as np

from bagwise.kernels._instance import check_memory, instance_kernel, squared_distances
from bagwise.least_squares._weights import instance_variance, row_namer, weighted_gamma
from bagwise.least_squares.safe._backends import FeatureBackend
from bagwise.least_squares.safe._cv_folds import KernelFolds, moment_folds


class FoldDecisionsMixin:
    """What SAFECV computes for each kernel width: [share][fold][rho] -> decisions."""

    def _kernel_decisions(self, X, codes, count, folds, gammas, rhos, shares):
        """Yield decisions for every width, from the exact kernel."""
        n = X.n_instances
        check_memory(
            16.0 * n * n,
            f"The kernel matrix of {n} instances",
            "Set n_components (for instance 300) to use explicit features.",
        )
        data = X.data.astype(np.float64, copy=False)
        distances = squared_distances(data) if self.kernel == "rbf" else None
        for gamma in gammas:
            groups = {}  # a named width is another number in each training set
            for fold in folds:
                value = self._fold_gamma(gamma, X, fold)
                groups.setdefault(value, []).append(fold)
            out = [[None] * len(folds) for _ in shares]
            for value, members in groups.items():
                omega = self._omega(data, distances, value)
                part = self._one_kernel(omega, X, codes, count, members, rhos, shares)
                for g in range(len(shares)):
                    for fold, decisions in zip(members, part[g], strict=True):
                        out[g][fold.number] = decisions
            yield out

    def _fold_gamma(self, gamma, X, fold):
        if not isinstance(gamma, str) or self.kernel == "linear":
            return 1.0 if self.kernel == "linear" else float(gamma)
        train = X[fold.train]
        return weighted_gamma(gamma, train.data, np.repeat(fold.count, train.sizes))

    def _omega(self, data, distances, gamma):
        if distances is not None:
            return np.exp(-gamma * distances)
        return instance_kernel(
            data, kernel=self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0
        )

    def _one_kernel(self, omega, X, codes, count, folds, rhos, shares):
        template = self._safe()
        template._choose_kernel(X, count)
        work = KernelFolds(
            omega,
            X.offsets,
            template._aggregation_weight(X.offsets),
            folds,
            rhos,
            relative=self.rho_scale == "relative",
        )
        out = [None] * len(shares)
        positive = [share for share in shares if share > 0]
        if len(positive) < len(shares):
            alone = sorted(int(f.test[0]) for f in folds if len(f.test) == 1)
            complete = all(len(f.train) == X.n_bags - 1 for f in folds)
            if alone == list(range(X.n_bags)) and complete and self._fixed_weights:
                template.classes_ = self.classes_
                loss_weight = count * template._class_factor(codes, count)
                plain = work.leave_one_out(template._targets(codes), loss_weight)
            else:
                plain = work.closed_form()
            out = [plain if share == 0 else None for share in shares]
        if positive:
            variance = self._fold_variance(template.core_, work, X)
            found = iter(
                work.with_variance(
                    variance, positive, tol=self.tol, max_iter=self.max_iter
                )
            )
            out = [
                next(found) if share > 0 else one
                for share, one in zip(shares, out, strict=True)
            ]
        return out

    @property
    def _fixed_weights(self):
        return self.class_weight != "balanced"

    def _fold_variance(self, core, work, X):
        variance = np.zeros_like(work.rows)
        namer = row_namer(X)
        for j, fold in enumerate(work.folds):
            inside = np.flatnonzero(work.rows[:, j] > 0)
            try:
                variance[inside, j] = instance_variance(
                    core,
                    work.degrees[inside, j],
                    work.rows[inside, j],
                    lambda row, inside=inside: namer(inside[row]),
                )
            except ValueError as error:
                raise ValueError(f"Fold {fold.number}: {error}") from None
        return variance

    def _feature_decisions(self, X, codes, count, folds, gammas, rhos, shares):
        """Yield decisions for every width, from explicit features."""
        needed = any(share > 0 for share in shares)
        for gamma in gammas:
            model = self._safe(gamma=gamma)
            model.classes_ = self.classes_
            model._choose_kernel(X, count)
            model._choose_features(X)
            weight = model._aggregation_weight(X.offsets)
            check_memory(
                8.0 * X.n_bags * (model.features_.n_features_out + 1),
                f"The features of {X.n_bags} bags",
                "Set a smaller n_components.",
            )
            sums = FeatureBackend(model.features_, X, None)._bag_features(weight)
            yield moment_folds(
                self._training_moments(model, X, codes, count, folds, needed),
                sums,
                folds,
                rhos,
                shares,
                relative=self.rho_scale == "relative",
                two_classes=len(self.classes_) == 2,
            )

    def _training_moments(self, model, X, codes, count, folds, needed):
        """Moments of the training bags: all minus test where that is what they are."""
        ksc = needed and model.core_ == "ksc"
        additive = self._fixed_weights and not ksc
        options = {"instance": needed}
        whole = None
        out = []
        for fold in folds:
            complement = len(fold.train) + len(fold.test) == X.n_bags
            if additive and complement:
                if whole is None:
                    weight = count * model._class_factor(codes, count)
                    whole = model._accumulate(X, codes, count, weight, **options)
                mine, kind = count[fold.test], codes[fold.test]
                weight = mine * self._test_factor(model, kind, mine)
                left = model._accumulate(X[fold.test], kind, mine, weight, **options)
                out.append(whole - left)
                continue
            train = X[fold.train]
            first = model._feature_total(train, fold.count) if ksc else None
            out.append(
                model._accumulate(
                    train,
                    codes[fold.train],
                    fold.count,
                    fold.loss_weight,
                    first=first,
                    **options,
                )
            )
        return out

    def _test_factor(self, model, kind, mine):
        return model._fixed_class_factor(kind) if self.class_weight else 1.0
