"""Points and conditional distribution of f at fixed theta, in whitened coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from .._caches import ForgetsCaches
from .._typing import FloatArray
from ..likelihoods.base import Derivatives
from ..model.joint import GPState
from ..model.prior import GaussianPrior
from ..numerics.dynamics import FactorRoot
from ..numerics.linalg import NotPositiveDefiniteError
from .geometry import Geometry


class LatentFactors(Protocol):
    """A positive function of f that is a product over inputs, such as p(y | f): `Observations`."""

    def total(self, f: FloatArray) -> float:
        """Return the log of the function, for f of shape (n,)."""

    def derivatives(self, f: FloatArray) -> Derivatives:
        """Return derivatives of the log of the function in f; each (n,)."""

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return a precision of f, which may depend on f; (n,)."""

    def curvature(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return another precision that depends on f, and its derivative; each (n,)."""


@dataclass(frozen=True, eq=False)
class LatentConditional:
    """Distribution of v given y and theta, f = R v: the density p(y | R v) N(v; 0, I).

    In these coordinates K^-1 never appears.

    Attributes
    ----------
    observed : LatentFactors
        p(y | f) at theta.
    prior : GaussianPrior
        p(f | theta).
    """

    observed: LatentFactors
    prior: GaussianPrior

    def point_of(self, state: GPState) -> LatentPoint:
        """Return the point that belongs to a state under the same prior."""
        if isinstance(state.local, LatentPoint):
            return state.local
        return LatentPoint(self.observed, state)

    def at(self, position: FloatArray) -> LatentPoint:
        """Return the point at v."""
        f = self.prior.unwhiten(position)
        point = LatentPoint(self.observed, GPState(self.prior, f, self.observed.total(f)))
        vars(point)["position"] = position  # otherwise computed from f
        return point


@dataclass(frozen=True, eq=False)
class LatentPoint(ForgetsCaches):
    """A point of v, at fixed theta.

    Attributes
    ----------
    observed : LatentFactors
        p(y | f) at its theta.
    state : GPState
        The state, with f = R v.
    """

    observed: LatentFactors
    state: GPState

    @cached_property
    def position(self) -> FloatArray:
        """v; (r,).

        A copy computes it from f, as a root of K in another process may have other pivots.
        """
        return self.state.prior.whiten(self.state.f)

    @property
    def log_density(self) -> float:
        """Log p(y | R v) - v'v / 2."""
        return self.state.log_lik - 0.5 * float(self.position @ self.position)

    @cached_property
    def gradient(self) -> FloatArray:
        """``R' d log p(y | f) / df - v``; (r,)."""
        slope = self.observed.derivatives(self.state.f).first
        return self.state.prior.root.apply_transpose(slope) - self.position

    @cached_property
    def metric_root(self) -> FactorRoot:
        """Root of the inverse of the metric I + R'C R, where C is the Fisher information of f.

        It is the identity if the metric is not finite or has no factor, for instance if the rate of
        counts overflows. This is correct because any function of the point is a valid metric.
        """
        with np.errstate(over="ignore"):
            information = self.observed.fisher_information(self.state.f)
        if np.isfinite(information).all():
            try:
                return FactorRoot(self.state.prior.whitened_factor(np.sqrt(information)))
            except NotPositiveDefiniteError:
                pass
        return FactorRoot(np.eye(len(self.position)))

    @cached_property
    def geometry(self) -> Geometry | None:
        """The metric I + R'P R with the curvature P at f; None if it has no factor."""
        with np.errstate(over="ignore", invalid="ignore"):
            precision, slope = self.observed.curvature(self.state.f)
        if not (np.isfinite(precision).all() and np.isfinite(slope).all()):
            return None
        try:
            return Geometry.of(self.state.prior, precision, slope)
        except NotPositiveDefiniteError:
            return None
