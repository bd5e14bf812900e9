"""The approximate posterior of theta: ``log q(y | theta) + log p(theta)``, with its gradient.

Searches climb on it, trajectories explore it, cheap posteriors are it for a cheaper model, and
where the evidence q(y | theta) is exact, chains have it as their target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._typing import FloatArray
from ..approximations.base import Approximation, Evaluation, GaussianApproximation, Sites
from ..importance.interpolated import InterpolatedSites
from ..model.joint import LatentGP
from ..numerics.linalg import NotPositiveDefiniteError
from ..numerics.quadratic import Quadratic


class PosteriorPoint(NamedTuple):
    """A theta with its posterior density: a `DensityPoint` that holds no matrix."""

    position: FloatArray  # theta; (p,), natural logs
    log_density: float  # log evidence + log p(theta), and the correction if there is one
    gradient: FloatArray  # (p,), of the log density; empty where none was asked for
    log_evidence: float
    evidence_gradient: FloatArray  # (p,), of the log evidence; empty as the other
    sites: Sites
    kept: Any = None  # what `HyperPosterior.keep` has returned


_EMPTY = np.empty(0)


@dataclass(frozen=True, eq=False)
class HyperPosterior:
    """``log q(y | theta) + log p(theta)`` in a model, up to a constant.

    A density on which operators can move theta. Iterations of the approximation begin at given
    sites, else at those interpolated for theta, else at the prior: in the last two cases the
    density is one function of theta, whatever its tolerance. Value and gradient need not be those
    of one function to the last digit: trajectories stay reversible whatever the force is.

    Attributes
    ----------
    model : LatentGP
    approximation : Approximation
        The approximation of the evidence. For gradients its tolerance should be tight.
    start : InterpolatedSites, optional
        Where the iterations begin at any theta.
    correction : Quadratic, optional
        What is added to the log evidence, from the approximate to the exact one.
    keep : callable, optional
        Returns, for q(f | y, theta) and the model, what a point keeps of q, whose matrices it does
        not hold.
    with_gradient : bool
        Whether points have gradients. Without them they take less time.
    with_hyperprior : bool
        Whether log p(theta) counts. Without it the density is that of type-II maximum likelihood.
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
    cost: float = np.nan

    def at(self, position: FloatArray, sites: Sites | None = None) -> PosteriorPoint | None:
        """Return the point at theta (p,), iterations beginning at given sites.

        None outside the support of the prior, where K is no covariance, and where the density or
        its gradient is not finite.
        """
        log_hyperprior = 0.0
        slope = np.zeros(len(position))
        if self.with_hyperprior:
            log_hyperprior, slope = self.model.hyperprior.value_and_gradient(position)
            if not math.isfinite(log_hyperprior):
                return None
        if sites is None and self.start is not None:
            sites = self.start.sites_at(position)
        try:
            found = self._evaluate(position, sites)
            kept = None if self.keep is None else self.keep(found.q, self.model)
        except NotPositiveDefiniteError:  # K, or what is made of it to be kept
            return None
        log_density = found.log_evidence + log_hyperprior
        if self.correction is not None:
            value, of_correction = self.correction.value_and_gradient(position)
            log_density += float(value)
            slope = slope + of_correction
        gradient = found.gradient + slope if self.with_gradient else _EMPTY
        if not math.isfinite(log_density + gradient.sum()):
            return None
        return PosteriorPoint(
            position,
            float(log_density),
            gradient,
            found.log_evidence,
            found.gradient,
            found.q.sites,
            kept,
        )

    def _evaluate(self, theta: FloatArray, sites: Sites | None) -> Evaluation:
        if self.with_gradient:
            found = self.approximation.fit_with_gradient(self.model, theta, sites)
            return found._replace(gradient=self.model.pad(found.gradient))
        fit = self.approximation.fit(self.model, theta, sites)
        return Evaluation(fit.q, fit.log_evidence, _EMPTY)


def keep_mean(q: GaussianApproximation, model: LatentGP) -> FloatArray:
    """Mean of f, (n,): what a point keeps where chains record it."""
    return q.mean
