"""f at fixed theta, in whitened coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._typing import FloatArray
from ..model import GaussianPrior, GPState, LatentGP, Observations
from ..numerics.linalg import NotPositiveDefiniteError
from ..numerics.roots import FactorRoot


@dataclass(frozen=True, eq=False)
class LatentConditional:
    """v = L^-1 f given y and theta: the density p(y | L v) N(v; 0, I).

    A linear change of variables, so that nothing of f is lost, and K^-1 never appears.

    Attributes
    ----------
    model : LatentGP
    prior : GaussianPrior
        p(f | theta).
    """

    model: LatentGP
    prior: GaussianPrior

    def point_of(self, state: GPState) -> LatentPoint:
        """Return the point of a state under the same prior."""
        if isinstance(state.local, LatentPoint):
            return state.local
        return LatentPoint(self._observed, state, self.prior.whiten(state.f))

    def at(self, position: FloatArray) -> LatentPoint:
        """Return the point at v."""
        state = self.model.state_in(self.prior, self.prior.unwhiten(position))
        return LatentPoint(self._observed, state, position)

    @cached_property
    def _observed(self) -> Observations:
        return self.model.observations_at(self.prior.theta)


@dataclass(frozen=True, eq=False)
class LatentPoint:
    """A point of v, at fixed theta.

    Attributes
    ----------
    observed : Observations
        p(y | f) at its theta.
    state : GPState
        With f = L v.
    position : ndarray of shape (n,)
        v.
    """

    observed: Observations
    state: GPState
    position: FloatArray

    def __getstate__(self) -> dict[str, Any]:
        # Matrices are made anew on demand: states stay O(n) when they travel between processes.
        return {"observed": self.observed, "state": self.state, "position": self.position}

    @property
    def log_density(self) -> float:
        """Log p(y | L v) - v'v / 2."""
        return self.state.log_lik - 0.5 * float(self.position @ self.position)

    @cached_property
    def gradient(self) -> FloatArray:
        """``L' d log p(y | f) / df - v``; (n,)."""
        slope = self.observed.derivatives(self.state.f).first
        return self.state.prior.pull(slope) - self.position

    @cached_property
    def metric_root(self) -> FactorRoot:
        """Of the metric I + L'R L, R the Fisher information of f.

        The identity where the metric is not finite or has no factor, as under counts with a rate
        beyond all numbers: any function of the point is a legal metric.
        """
        with np.errstate(over="ignore"):
            information = self.observed.fisher_information(self.state.f)
        if np.isfinite(information).all():
            try:
                return FactorRoot(self.state.prior.whitened_factor(np.sqrt(information)))
            except NotPositiveDefiniteError:
                pass
        return FactorRoot(np.eye(len(self.position)))
