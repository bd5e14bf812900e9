"""The condition for continuing the chains of an earlier fit: the same data and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel

from ..model.observations import Observations
from ..run.records import SamplingRun

#: Parameters that may differ from those of the fit that a warm start continues.
FREE_TO_CHANGE = frozenset(
    {"n_draws", "target_ess", "max_rhat", "max_predict_draws", "predict_cache_bytes"}
    | {"checkpoint", "max_time", "random_state", "n_jobs", "verbose", "warm_start"}
)


@dataclass(frozen=True, eq=False)
class ContinuableRun:
    """A run, and a copy of the parameters of the estimator at that time."""

    run: SamplingRun
    params: dict[str, Any]

    def check_unchanged(
        self, estimator: BaseEstimator, X: np.ndarray, observed: Sequence[Observations]
    ) -> None:
        """Raise an error unless data and settings are those of the run."""
        changed = [
            name
            for name, value in estimator.get_params(deep=False).items()
            if name not in FREE_TO_CHANGE and not _are_equivalent(value, self.params[name])
        ]
        if changed:
            raise ValueError(
                f"warm_start=True continues the chains of the earlier fit, but {changed} changed "
                "since: use warm_start=False, or a fresh clone, for other settings."
            )
        models = [own.model for own in self.run.models]
        same_data = len(models) == len(observed) and np.array_equal(models[0].covariance.X, X)
        pairs = zip(models, observed, strict=False)
        if not (
            same_data and all(_are_equivalent(model.observations, rows) for model, rows in pairs)
        ):
            raise ValueError(
                "warm_start=True continues the chains of the earlier fit, but X or y differ from "
                "its data, or what goes with their rows does: use warm_start=False, or a fresh "
                "clone, for other data."
            )


class NoContinuableRun:
    """Placeholder for a run in a copy of an estimator that has no chains."""

    def check_unchanged(self, *_: Any) -> None:
        """Raise an error, as there are no chains to continue."""
        raise ValueError(
            "warm_start=True continues chains, which a copy made by for_prediction() does not "
            "hold: continue those of the full estimator, or use warm_start=False for new ones."
        )


def is_frozen_distribution(value: Any) -> bool:
    """Whether a value is a distribution of scipy.stats with its parameters."""
    return hasattr(value, "dist") and hasattr(value, "args")


def _are_equivalent(a: Any, b: Any) -> bool:
    """Whether two values of a parameter define the same posterior."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_are_equivalent(a[key], b[key]) for key in a)
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, Kernel):
        own = [(h.name, h.fixed) for h in a.hyperparameters]
        return own == [(h.name, h.fixed) for h in b.hyperparameters] and a == b
    if is_frozen_distribution(a):
        return type(a.dist) is type(b.dist) and a.args == b.args and _are_equivalent(a.kwds, b.kwds)
    if hasattr(a, "get_params"):
        return _are_equivalent(a.get_params(), b.get_params())
    if type(a).__eq__ is object.__eq__:  # `==` compares identity: compare the attributes
        if is_dataclass(a):  # its fields only, without cached values
            return all(
                _are_equivalent(getattr(a, own.name), getattr(b, own.name)) for own in fields(a)
            )
        return _are_equivalent(vars(a), vars(b)) if hasattr(a, "__dict__") else a is b
    return bool(np.all(a == b))
