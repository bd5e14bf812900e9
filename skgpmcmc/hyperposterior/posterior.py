"""The approximate posterior of theta: ``log q(y | theta) + log p(theta)``, with its gradient.

Searches for modes and Hamiltonian trajectories use it. A cheap posterior is the approximate
posterior of a cheaper model. If the evidence q(y | theta) is exact, it is the target of the chains.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._typing import FloatArray
from ..approximations.base import Approximation, GaussianApproximation, Sites
from ..importance.interpolated import InterpolatedSites
from ..model.joint import LatentGP
from ..model.prior import RankError
from ..numerics.linalg import NotPositiveDefiniteError
from ..numerics.quadratic import Quadratic


class PosteriorPoint(NamedTuple):
    """A theta with its posterior density and gradient: a `DensityPoint` that holds no matrix."""

    position: FloatArray  # theta; (p,), natural logs
    log_density: float  # log evidence + log p(theta), and the correction if there is one
    gradient: FloatArray  # (p,), of the log density; empty without `with_gradient`
    log_evidence: float
    evidence_gradient: FloatArray  # (p,), of the log evidence; empty like `gradient`
    sites: Sites
    kept: Any = None  # result of `HyperPosterior.keep`


#: Gradient of a point that is evaluated without gradient.
_NO_GRADIENT = np.empty(0)


@dataclass(frozen=True, eq=False)
class HyperPosterior:
    """``log q(y | theta) + log p(theta)`` in a model, up to a constant.

    Operators can move theta on this density. Iterations of the approximation begin at given sites,
    else at the sites interpolated at theta, else at the prior. In the last two cases the density
    is one function of theta for any tolerance. The gradient need not agree with the density to the
    last digit, because leapfrog trajectories are reversible for any force.

    Attributes
    ----------
    model : LatentGP
    approximation : Approximation
        Approximation of the evidence. For precise gradients its tolerance must be tight.
    start : InterpolatedSites, optional
        Sites at which the iterations begin at any theta.
    correction : Quadratic, optional
        Difference of exact and approximate log evidence, which is added to the latter.
    keep : callable, optional
        Computes, from q(f | y, theta) and the model, what a point keeps of q. Points do not hold
        the matrices of q.
    with_gradient : bool
        Whether points have gradients. A point without gradient takes less time.
    with_hyperprior : bool
        Whether log p(theta) is added. Otherwise the density is that of type-II maximum likelihood.
    power : float
        Power to which the density is raised, correction and prior included.
    cost : float
        Approximate number of floating-point operations of one `at`, where a formula is known.
    """

    model: LatentGP
    approximation: Approximation
    start: InterpolatedSites | None = None
    correction: Quadratic | None = None
    keep: Callable[[GaussianApproximation, LatentGP], Any] | None = None
    with_gradient: bool = True
    with_hyperprior: bool = True
    power: float = 1.0
    cost: float = np.nan

    def at(self, position: FloatArray, sites: Sites | None = None) -> PosteriorPoint | None:
        """Return the point at theta (p,), with iterations that begin at `sites`.

        The result is None outside the support of the prior, if K is not positive definite, and if
        the density or its gradient is not finite.
        """
        log_hyperprior = 0.0
        slope = np.zeros(len(position))
        if self.with_hyperprior:
            log_hyperprior, slope = self.model.hyperprior.value_and_gradient(position)
            if not math.isfinite(log_hyperprior):
                return None
        if sites is None and self.start is not None:
            sites = self.start.sites_at(position)
        of_evidence = _NO_GRADIENT
        try:
            if self.with_gradient:
                q, log_evidence, gradient = self.approximation.fit_with_gradient(
                    self.model, position, sites
                )
                of_evidence = self.model.pad(gradient)
            else:
                q, log_evidence, _, _ = self.approximation.fit(self.model, position, sites)
            kept = None if self.keep is None else self.keep(q, self.model)
        except (NotPositiveDefiniteError, RankError):  # K, or a matrix that `keep` needs
            return None
        log_density = log_evidence + log_hyperprior
        if self.correction is not None:
            value, of_correction = self.correction.value_and_gradient(position)
            log_density += float(value)
            slope = slope + of_correction
        log_density = self.power * float(log_density)
        gradient = self.power * (of_evidence + slope) if self.with_gradient else _NO_GRADIENT
        if not math.isfinite(log_density + gradient.sum()):
            return None
        return PosteriorPoint(
            position, log_density, gradient, log_evidence, of_evidence, q.sites, kept
        )


def keep_mean(q: GaussianApproximation, model: LatentGP) -> FloatArray:
    """Return the mean of f (n,): the `keep` of a `HyperPosterior` whose chains record it."""
    return q.mean
