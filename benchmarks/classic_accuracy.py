"""Accuracy of the classic methods on the benchmark sets, tuned inside the folds.

Ten folds, two splits; the sets come from the folder named by BAGWISE_DATA.
"""

import sys
import warnings

from bagwise.comparison import KFold, compare

METHODS = [
    "SimpleMI",
    "WrapperMI (forest)",
    "miFV",
    "miGraph",
    "EMD + SVC",
    "MILES",
    "MILBoost",
    "EM-DD",
    "Citation-kNN",
]


def main():
    warnings.simplefilter("ignore")
    quick = "--quick" in sys.argv
    names = ["musk1"] if quick else ["musk1", "elephant", "fox", "tiger"]
    for name in names:
        result = compare(
            name,
            methods=METHODS,
            protocol=KFold(10, 1 if quick else 2),
            metric="accuracy",
            grid="none" if quick else "default",
            progress=False,
        )
        print(name)
        for row in result.ranking:
            print(f"  {row.method:<20} {row.mean:.3f}")


if __name__ == "__main__":
    main()
