"""Expectation propagation with parallel updates in natural parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from .._params import check_in, check_integer
from .._typing import FloatArray
from ..likelihoods.base import TiltedMoments
from ..model.joint import LatentGP
from ..model.observations import Observations
from .base import Approximation, ApproximationFit, Cavities, GaussianApproximation, Sites
from .laplace import Laplace
from .whitened import gaussian_family

_SMALLEST_DAMPING = 0.1
#: Factor of the damping after a sweep whose change has grown.
_DAMPING_DECREASE = 0.5
#: Factor of the damping after any other sweep.
_DAMPING_INCREASE = 1.5
#: Change of a site, in posterior standard deviations, from which sweeps do not come back.
_LOST = 100.0
#: Sweeps, of full updates, in which the change must halve: below that it is rounding that moves it.
_PATIENCE = 20
#: Least variance with a site over that without: below that cavities consist of rounding.
_RESOLVED = 1e-12
#: Tolerance of a Laplace approximation to begin with, or to fall back on.
_START_TOLERANCE = 1e-4
#: Damping where a likelihood is not log-concave, so that sites could become negative.
_CAREFUL_DAMPING = 0.5
#: Least precision of a site there, in units of the precision of the prior.
_LEAST_PRECISION = 1e-3


@dataclass(eq=False)
class EP(Approximation):
    """Parallel expectation propagation from empty sites.

    A sweep updates every site from one posterior: one Cholesky factorization and the inverse of the
    factor, all of it in LAPACK. The first sweep starts from the prior and needs neither.

    There is a site for each distinct input, which stands for all of its rows.

    Parameters
    ----------
    tol : float, default=1e-2
        Sweeps stop once no site changes by more than this on the scale of the posterior it acts
        on: the change of precision times the marginal variance, the change of shift times the
        marginal standard deviation. log Z is stationary at the fixed point, so its error is of
        the order of the square: about 1e-3 at the default. Gradients want 1e-9.
    max_sweeps : int, default=100
        At most so many sweeps; what is reached then is used, and reported as not converged.
    damping : float in (0, 1], default=0.9
        Share of the new site in an update. It is halved, down to 0.1, whenever the changes grow,
        and comes back by half of itself in every other sweep. Updates are extrapolated along the
        line through the last two, which saves up to half of the sweeps.

    Notes
    -----
    Where log p(y | f) is not concave, as with Student-t noise, sites are kept positive: those of
    outliers match the mean of their tilted distribution alone. log Z is then near its stationary
    value, and the gradient approximate.

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
        """Return an EP that stops after about two sweeps where it starts from good sites."""
        return replace(self, tol=max(self.tol, 0.1))

    def with_tolerance(self, tol: float = 1e-9) -> Self:
        """Return an EP that is tight enough for gradients."""
        return replace(self, tol=min(self.tol, tol), max_sweeps=10 * self.max_sweeps)

    def fit(
        self, model: LatentGP, theta: FloatArray, start: Sites | None = None
    ) -> ApproximationFit:
        """Return q at the last sites and log Z_EP.

        Unless told otherwise the sweeps begin with empty sites. For a steep likelihood, and where
        inputs have many rows, these would lead astray: there sweeps begin with the sites of the
        Laplace approximation. Sweeps that are lost all the same fall back on it.
        """
        prior = model.prior_at(theta)
        family = gaussian_family(prior)
        observed = model.observations_at(theta)
        log_concave = model.likelihood.log_concave
        least = 0.0 if log_concave else _LEAST_PRECISION / prior.variance
        careful = model.likelihood.steep or observed.several
        if start is not None:
            sites = start
        elif careful:
            sites = Laplace(tol=_START_TOLERANCE).fit(model, theta).q.sites
        else:
            sites = Sites(np.zeros(prior.size), np.zeros(prior.size))
        most = damping = self.damping if log_concave else min(self.damping, _CAREFUL_DAMPING)
        changes: list[float] = []
        last: _Step | None = None
        beyond = False
        for sweep in range(1, self.max_sweeps + 1):
            q = family(prior, sites)
            swept = _Sweep.of(q, observed, least)
            change = _largest_change(q.marginal_variance, sites, swept.matched)
            changes.append(change)
            if change < self.tol or sweep == self.max_sweeps or _is_stalled(changes):
                break
            if careful and not change < _LOST:
                return _from_laplace(model, theta, sweep)
            grown = sweep > 1 and change > changes[-2]
            # Where changes grow after a step that went too far, its length was not the damping's.
            factor = _DAMPING_DECREASE if grown and not beyond else _DAMPING_INCREASE
            damping = float(np.clip(factor * damping, _SMALLEST_DAMPING, most))
            step = _Step.of(sites, swept.matched, q.marginal_variance, damping)
            sites = step.end if grown or last is None else step.extrapolate(last)
            beyond = sites is not step.end
            last = step
        if not swept.share_of_cavity(q.precision) > _RESOLVED:
            return _from_laplace(model, theta, sweep)
        log_evidence = _log_evidence(q, swept)
        return ApproximationFit(q, log_evidence, bool(change < self.tol), sweep)

    def gradient(self, model: LatentGP, fit: ApproximationFit) -> FloatArray:
        """Gradient of log Z_EP; R&W (5.27). Sites are stationary, so no implicit term."""
        of_likelihood = likelihood_gradient(fit.q, model.observations_at(fit.q.prior.theta))
        return np.concatenate([fit.q.kernel_gradient(), of_likelihood])


def _from_laplace(model: LatentGP, theta: FloatArray, sweep: int) -> ApproximationFit:
    """What the Laplace approximation finds, where sweeps lead nowhere."""
    fit = Laplace(tol=_START_TOLERANCE).fit(model, theta)
    return fit._replace(converged=False, n_iterations=sweep)


def likelihood_gradient(q: GaussianApproximation, observed: Observations) -> FloatArray:
    """Gradient of log Z_EP in the parameters of the likelihood; (k,)."""
    if not observed.likelihood.parameters:
        return np.empty(0)
    return observed.tilted_parameter_gradient(*q.cavities().moments).sum(axis=1)


class _Sweep(NamedTuple):
    """One parallel update of every site, with what it was made of."""

    cavities: Cavities
    tilted: TiltedMoments
    matched: Sites

    @classmethod
    def of(
        cls, q: GaussianApproximation, observed: Observations, least: FloatArray | float
    ) -> Self:
        """Match the moments of every tilted distribution of q, by sites of a `least` precision."""
        cavities = q.cavities()
        tilted = observed.tilted_moments(*cavities.moments)
        return cls(cavities, tilted, _match_sites(q.sites, cavities, tilted, least))

    def share_of_cavity(self, precision: FloatArray) -> float:
        """Least variance of a tilted distribution, and of q, over that of the cavity.

        `precision` (n,) is that of the sites.
        """
        cavity = self.cavities.precision
        tilted = 1.0 - self.tilted.beta / cavity
        return float(np.minimum(tilted, cavity / (cavity + precision)).min())


class _Step(NamedTuple):
    """A damped update of every site."""

    end: Sites
    change: FloatArray  # (2 n,), by a full update, on the scale of the posterior

    @classmethod
    def of(cls, old: Sites, new: Sites, var: FloatArray, share: float) -> Self:
        """Move by a share of the way."""
        shift, precision = (b - a for a, b in zip(old, new, strict=True))
        end = Sites(old.shift + share * shift, old.precision + share * precision)
        return cls(end, np.concatenate([shift * np.sqrt(var), precision * var]))

    def extrapolate(self, last: _Step) -> Sites:
        """Go beyond the end, to where changes vanish on the line through the last two.

        It is Anderson's acceleration with one step of memory (Walker & Ni, 2011). Sweeps approach
        the fixed point along a few directions by the same factor each time, which may be 0.9. A
        site whose precision would be negative stays at the end.
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
    """Sites that match the tilted moments, R&W (3.59), in a form without 1/var - 1/var.

    No precision is below `least`.
    """
    cavity_mean = cavities.shift / cavities.precision
    shrink = 1.0 - tilted.beta / cavities.precision  # tilted over cavity variance
    # Where rounding leaves no tilted variance, the site stays as it is for this sweep.
    valid = (shrink > 0.0) & np.isfinite(tilted.alpha) & np.isfinite(cavity_mean)
    shrink = np.where(valid, shrink, 1.0)
    matched = tilted.beta / shrink
    precision = np.maximum(matched, least)
    # Where that changes the precision, the shift still matches the tilted mean.
    mean = cavity_mean + tilted.alpha / cavities.precision
    shift = np.where(
        precision == matched,
        (tilted.alpha + cavity_mean * tilted.beta) / shrink,
        mean * (precision + cavities.precision) - cavities.shift,
    )
    return Sites(np.where(valid, shift, sites.shift), np.where(valid, precision, sites.precision))


def _largest_change(var: FloatArray, old: Sites, new: Sites) -> float:
    """Largest change of a site, in units of the posterior marginal that it acts on."""
    precision = np.abs(new.precision - old.precision) * var
    shift = np.abs(new.shift - old.shift) * np.sqrt(var)
    return float(max(precision.max(), shift.max()))


def _is_stalled(changes: list[float]) -> bool:
    """Whether the change has not halved for long."""
    before = changes[:-_PATIENCE]
    lately = changes[-_PATIENCE:]
    return len(before) > 0 and min(lately) > 0.5 * min(before)


def _log_evidence(q: GaussianApproximation, swept: _Sweep) -> float:
    """Log Z_EP; R&W (3.65) rearranged so that nothing is divided by a site precision."""
    cavities, tilted, _ = swept
    var = q.marginal_variance
    shift, precision = q.sites
    ratio = precision / cavities.precision
    # Far out in the tails of a prior this is not finite, which rejects the theta.
    with np.errstate(over="ignore", invalid="ignore"):
        terms = (
            tilted.log_z
            - 0.5 * var * shift**2
            + 0.5 * var * cavities.shift * (ratio * cavities.shift - 2.0 * shift)
            + 0.5 * np.log1p(ratio)
        )
        total = float(terms.sum())
    return total + 0.5 * float(q.sites.shift @ q.mean) - q.half_log_det_B
