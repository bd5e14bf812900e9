"""What drawing probabilities towards one half does to the capacity scores, and what it does not.

Run as ``python -m benchmarks.shrinking [--repeats 10]``. `EPMLClassifier` on the splits of
``python -m skgpmcmc compare``; the logits of its probabilities are multiplied by 1, 0.5 and 0.25,
which keeps the order of the rows and every decision.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import expit, logit

from skgpmcmc.baselines import EPMLClassifier
from skgpmcmc.compare.data import DataSet, bundled_data, split_data
from skgpmcmc.compare.methods import score

from .common import mean_and_error, print_table, save

SCALES = (1.0, 0.5, 0.25)
COLUMNS = ("capacity_accuracy", "capacity_auc", "selective_accuracy", "auc", "accuracy", "log_loss")


def scores_by_scale(data: DataSet, seed: int) -> dict[float, dict[str, float]]:
    """Scores of one split for each factor of the logits."""
    split = split_data(data, seed)
    model = EPMLClassifier(random_state=seed).fit(split.X_train, split.y_train)
    logits = logit(model.predict_proba(split.X_test)[:, 1])
    scores = {}
    for scale in SCALES:
        p = expit(scale * logits)
        each = score(split.y_test, np.column_stack([1 - p, p]), model.classes_)
        scores[scale] = {column: each[column] for column in COLUMNS}
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10, help="splits, with seeds from 0")
    repeats = parser.parse_args().repeats
    results = {}
    for data in bundled_data():
        splits = [scores_by_scale(data, seed) for seed in range(repeats)]
        results[data.name] = {f"{scale:g}": [s[scale] for s in splits] for scale in SCALES}
        print(f"\n{data.name}")
        rows = [
            [scale, *(mean_and_error([s[column] for s in each]) for column in COLUMNS)]
            for scale, each in results[data.name].items()
        ]
        print_table(["logits times", *(column.replace("_", " ") for column in COLUMNS)], rows)
    save("shrinking", {"repeats": repeats, "random_state": 0, "train_size": 100}, results)


if __name__ == "__main__":
    main()
