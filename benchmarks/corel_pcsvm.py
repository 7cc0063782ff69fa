"""PC-SVM on the COREL images: ten and twenty classes, five times two folds, untuned."""

import sys
import warnings

import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline

from bagwise.compose import OnInstances
from bagwise.datasets import fetch
from bagwise.svm import PCSVM


def main():
    warnings.simplefilter("ignore")
    quick = "--quick" in sys.argv
    model = make_pipeline(
        OnInstances(), PCSVM(C=10.0, rho=0.1, n_components=200, random_state=0)
    )
    folds = RepeatedStratifiedKFold(
        n_splits=2, n_repeats=1 if quick else 5, random_state=0
    )
    for name in ["corel1000"] if quick else ["corel1000", "corel2000"]:
        data = fetch(name)
        scores = cross_val_score(model, data.X, data.y, cv=folds)
        error = scores.std(ddof=1) / np.sqrt(len(scores))
        print(f"{name}: accuracy {scores.mean():.3f}, standard error {error:.3f}")


if __name__ == "__main__":
    main()
