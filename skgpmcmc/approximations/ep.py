"""Expectation propagation with parallel updates in natural parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from .._params import check_in, check_integer
from .._typing import FloatArray
from ..likelihoods.base import TiltedMoments
from ..model.joint import LatentGP
from .base import Approximation, ApproximationFit, Cavities, GaussianApproximation, Sites
from .laplace import Laplace
from .whitened import gaussian_family

#: Least damping.
_SMALLEST_DAMPING = 0.1
#: Factor of the damping after a sweep whose change has grown.
_DAMPING_DECREASE = 0.5
#: Factor of the damping after any other sweep.
_DAMPING_INCREASE = 1.5
#: Change of a site, in posterior standard deviations, after which sweeps do not converge.
_DIVERGED = 100.0
#: Sweeps in which the change must halve; otherwise rounding errors cause the change.
_PATIENCE_SWEEPS = 20
#: Least ratio of a variance with a site to that without; below, cavities are rounding errors.
_LEAST_VARIANCE_RATIO = 1e-12
#: Tolerance of a Laplace approximation that gives the first sites, or replaces EP.
_START_TOLERANCE = 1e-4
#: Most damping for likelihoods that are not log-concave, whose sites could become negative.
_MOST_DAMPING_NOT_CONCAVE = 0.5
#: Least precision of a site for such a likelihood, in units of the precision of the prior.
_LEAST_PRECISION_NOT_CONCAVE = 1e-3


@dataclass(eq=False)
class EP(Approximation):
    """Parallel expectation propagation from empty sites.

    A sweep updates every site from the same posterior, which takes one Cholesky factorization and
    the inverse of the factor. The first sweep starts from the prior and needs neither.

    Every distinct input has one site, for all of its rows.

    Parameters
    ----------
    tol : float, default=1e-2
        Sweeps stop once no site changes by more than `tol` on the scale of the posterior: the
        change of precision times the marginal variance, the change of shift times the marginal
        standard deviation. log Z is stationary at the fixed point, so that its error is of the
        order of the square: about 1e-3 at the default. Gradients need 1e-9.
    max_sweeps : int, default=100
        Maximum number of sweeps. The result of the last one is used, and reported as not converged.
    damping : float in (0, 1], default=0.9
        Share of the new site in an update. The damping is halved, down to 0.1, whenever the changes
        grow, and multiplied by 1.5 in every other sweep. Updates are extrapolated along the line
        through the last two, which saves up to half of the sweeps.

    Notes
    -----
    Where log p(y | f) is not concave, as with Student-t noise, sites are kept positive: the sites
    of outliers match only the mean of their tilted distributions. log Z is then near its stationary
    value, and the gradient is approximate.

    References
    ----------
    Rasmussen & Williams (2006), section 3.6; Filippone & Girolami (2014), (14)-(18).
    """

    tol: float = 1e-2
    max_sweeps: int = 100
    damping: float = 0.9

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        check_in("approximation: tol", self.tol, "(0, inf)")
        check_integer("approximation: max_sweeps", self.max_sweeps, 1)
        check_in("approximation: damping", self.damping, "(0, 1]")

    def with_few_sweeps(self) -> Self:
        """Return an EP that stops after about two sweeps if it starts from good sites."""
        return replace(self, tol=max(self.tol, 0.1))

    def with_tolerance(self, tol: float = 1e-9) -> Self:
        """Return an EP with a tolerance of at most `tol`, by default for gradients."""
        return replace(self, tol=min(self.tol, tol), max_sweeps=10 * self.max_sweeps)

    def fit(
        self, model: LatentGP, theta: FloatArray, start: Sites | None = None
    ) -> ApproximationFit:
        """Return q at the last sites and log Z_EP.

        Without `start` the sweeps begin with empty sites. For a steep likelihood, and for inputs
        with several rows, sweeps from there may diverge: they begin with the sites of the Laplace
        approximation, which also takes the place of q if they diverge all the same.
        """
        prior = model.prior_at(theta)
        family = gaussian_family(prior)
        observed = model.observations_at(theta)
        log_concave = model.likelihood.log_concave
        least = 0.0 if log_concave else _LEAST_PRECISION_NOT_CONCAVE / prior.variance
        careful = model.likelihood.steep or observed.has_repeats
        if start is not None:
            sites = start
        elif careful:
            sites = Laplace(tol=_START_TOLERANCE).fit(model, theta).q.sites
        else:
            sites = Sites(np.zeros(prior.size), np.zeros(prior.size))
        most = damping = (
            self.damping if log_concave else min(self.damping, _MOST_DAMPING_NOT_CONCAVE)
        )
        changes: list[float] = []
        last: _Step | None = None
        beyond = False
        for sweep in range(1, self.max_sweeps + 1):
            q = family(prior, sites)
            var = q.marginal_variance
            cavities = q.cavities()
            tilted = observed.tilted_moments(*cavities.moments)
            matched = _match_sites(sites, cavities, tilted, least)
            moves = Sites(*(new - old for old, new in zip(sites, matched, strict=True)))
            scaled = np.concatenate([moves.shift * np.sqrt(var), moves.precision * var])
            change = float(np.abs(scaled).max())
            changes.append(change)
            before = changes[:-_PATIENCE_SWEEPS]
            lately = changes[-_PATIENCE_SWEEPS:]
            stalled = before and min(lately) > 0.5 * min(before)
            if change < self.tol or sweep == self.max_sweeps or stalled:
                break
            if careful and not change < _DIVERGED:
                return _fall_back_on_laplace(model, theta, sweep)
            grown = sweep > 1 and change > changes[-2]
            # Changes that grow after an extrapolated step are no reason for a smaller damping.
            factor = _DAMPING_DECREASE if grown and not beyond else _DAMPING_INCREASE
            damping = float(np.clip(factor * damping, _SMALLEST_DAMPING, most))
            end = Sites(*(old + damping * move for old, move in zip(sites, moves, strict=True)))
            step = _Step(end, scaled)
            sites = end if grown or last is None else step.extrapolate(last)
            beyond = sites is not end
            last = step
        # A variance, tilted or under q, that is tiny beside that of the cavity is a rounding error.
        cavity = cavities.precision
        ratios = np.minimum(1.0 - tilted.beta / cavity, cavity / (cavity + q.precision))
        if not ratios.min() > _LEAST_VARIANCE_RATIO:
            return _fall_back_on_laplace(model, theta, sweep)
        log_evidence = _log_evidence(q, cavities, tilted)
        return ApproximationFit(q, log_evidence, change < self.tol, sweep)

    def gradient(self, model: LatentGP, fit: ApproximationFit) -> FloatArray:
        """Gradient of log Z_EP; R&W (5.27). Sites are stationary, so no implicit term."""
        return fit.q.evidence_gradient(model)


def _fall_back_on_laplace(model: LatentGP, theta: FloatArray, sweep: int) -> ApproximationFit:
    """Return the Laplace approximation in place of sweeps that do not converge."""
    fit = Laplace(tol=_START_TOLERANCE).fit(model, theta)
    return fit._replace(converged=False, n_iterations=sweep)


class _Step(NamedTuple):
    """A damped update of every site."""

    end: Sites
    change: FloatArray  # (2 n,), of shifts and precisions without damping, on posterior scales

    def extrapolate(self, last: _Step) -> Sites:
        """Return sites beyond the end, where changes vanish on the line through the last two steps.

        This is Anderson's acceleration with one step of memory (Walker & Ni, 2011). Without it the
        distance to the fixed point shrinks by the same factor in every sweep, which may be 0.9. A
        site whose precision would be negative stays at the end of the step.
        """
        less = last.change - self.change
        square = float(less @ less)
        share = float(less @ self.change) / square if square > 0.0 else 0.0
        ends = zip(last.end, self.end, strict=True)
        shift, precision = (b + share * (b - a) for a, b in ends)
        legal = precision >= 0.0
        return Sites(
            np.where(legal, shift, self.end.shift), np.where(legal, precision, self.end.precision)
        )


def _match_sites(
    sites: Sites, cavities: Cavities, tilted: TiltedMoments, least: FloatArray | float
) -> Sites:
    """Return sites that match the tilted moments, R&W (3.59), without the form 1/var - 1/var.

    No precision is below `least`.
    """
    cavity_mean, _ = cavities.moments
    shrink = 1.0 - tilted.beta / cavities.precision  # tilted over cavity variance
    # If a tilted variance is not positive by rounding, the site keeps its value in this sweep.
    valid = (shrink > 0.0) & np.isfinite(tilted.alpha) & np.isfinite(cavity_mean)
    shrink = np.where(valid, shrink, 1.0)
    matched = tilted.beta / shrink
    precision = np.maximum(matched, least)
    # If `least` changes a precision, the shift still matches the tilted mean.
    mean = cavity_mean + tilted.alpha / cavities.precision
    shift = np.where(
        precision == matched,
        (tilted.alpha + cavity_mean * tilted.beta) / shrink,
        mean * (precision + cavities.precision) - cavities.shift,
    )
    return Sites(np.where(valid, shift, sites.shift), np.where(valid, precision, sites.precision))


def _log_evidence(q: GaussianApproximation, cavities: Cavities, tilted: TiltedMoments) -> float:
    """Log Z_EP; R&W (3.65) rearranged so that nothing is divided by a site precision."""
    var = q.marginal_variance
    shift, precision = q.sites
    ratio = precision / cavities.precision
    # In the far tails of a hyper-prior the sum may not be finite; theta is then rejected.
    with np.errstate(over="ignore", invalid="ignore"):
        terms = (
            tilted.log_z
            - 0.5 * var * shift**2
            + 0.5 * var * cavities.shift * (ratio * cavities.shift - 2.0 * shift)
            + 0.5 * np.log1p(ratio)
        )
        total = float(terms.sum())
    return total + 0.5 * float(q.sites.shift @ q.mean) - q.half_log_det_B
