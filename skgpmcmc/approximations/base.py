"""The Gaussian approximation of p(f | y, theta) that Laplace and EP both give.

Both have the form q(f) = N(f; mu, Sigma) with Sigma^-1 = K^-1 + W, W diagonal and not negative, and
mu = K a. Everything is computed from B = I + W^1/2 K W^1/2, whose eigenvalues are at least one, so
that neither K nor W is ever inverted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from .._params import Configuration
from .._typing import BoolArray, FloatArray
from ..likelihoods.base import Likelihood
from ..model.joint import LatentGP
from ..model.observations import Observations
from ..model.prior import Conditional, GaussianPrior, GivenSites
from ..numerics import linalg


class Sites(NamedTuple):
    """Natural parameters of the Gaussian sites exp(shift f - precision f^2 / 2)."""

    shift: FloatArray  # (n,)
    precision: FloatArray  # (n,), not negative


class Cavities(NamedTuple):
    """Marginals of q with one site removed, natural parameters."""

    shift: FloatArray  # (n,)
    precision: FloatArray  # (n,)

    @classmethod
    def of(
        cls, marginals: tuple[FloatArray, FloatArray], sites: Sites, prior_variance: FloatArray
    ) -> Self:
        """Take sites from the means and variances of q; Rasmussen & Williams (2006), (3.56)."""
        mean, var = marginals
        # With no negative site a cavity is never wider than the prior; rounding must not say so.
        precision = np.maximum(1.0 / var - sites.precision, 1.0 / prior_variance)
        return cls(mean / var - sites.shift, precision)

    @property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance."""
        return self.shift / self.precision, 1.0 / self.precision


class LatentDraws(NamedTuple):
    """Draws of f from a density, one per column."""

    f: FloatArray  # (n, m)
    log_ratio: FloatArray  # (m,), log density relative to N(f; 0, K)


#: Differences from one below this have lost four digits.
_CANCELLED = 1e-4
#: Step of the finite difference for a third cumulant, in cavity standard deviations.
_CUMULANT_STEP = 1e-3


@dataclass(frozen=True, eq=False)
class GaussianApproximation:
    """q(f) proportional to N(f; 0, K) times Gaussian sites: N(f; K a, (K^-1 + W)^-1).

    Attributes
    ----------
    prior : GaussianPrior
        p(f | theta); holds K.
    sites : Sites
        Their precisions are W, the diagonal that q adds to K^-1.
    """

    prior: GaussianPrior
    sites: Sites

    @classmethod
    def touching(
        cls,
        prior: GaussianPrior,
        observed: Observations,
        f: FloatArray,
        slope: FloatArray | None = None,
    ) -> Self:
        """Return q whose sites have the slope and the curvature of log p(y | f) at f.

        Where it is not concave, its curvature counts as none. With another `slope` that of
        log p(y | f) is ignored: K^-1 f makes f the mean of q.
        """
        own, precision = observed.slope_and_precision(f)
        slope = own if slope is None else slope
        return cls(prior, Sites(cls.coupled(prior, precision, f) + slope, precision))

    @staticmethod
    def coupled(prior: GaussianPrior, precision: FloatArray, f: FloatArray) -> FloatArray:
        """``W f`` for f of shape (n,)."""
        return precision * f

    @classmethod
    def with_weights(cls, prior: GaussianPrior, sites: Sites, weights: FloatArray) -> Self:
        """Return q where its `weights` are known."""
        q = cls(prior, sites)
        vars(q)["weights"] = weights
        return q

    def __getstate__(self) -> dict[str, Any]:
        # Factors are rebuilt on demand; what is O(n) goes along, to be the same after a journey.
        names = ("prior", "sites", "weights", "mean")
        return {name: value for name, value in vars(self).items() if name in names}

    @property
    def q(self) -> GaussianApproximation:
        """Itself: a `Density`."""
        return self

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """The sites, which make it again with the prior."""
        return tuple(self.sites)

    @property
    def precision(self) -> FloatArray:
        """W >= 0; (n,)."""
        return self.sites.precision

    @cached_property
    def weights(self) -> FloatArray:
        """a, with mean K a: a = K^-1 mean without ever inverting K; (n,).

        The mean is Sigma nu, nu the shifts: a = K^-1 Sigma nu = nu - s o B^-1 s o K nu.
        """
        shift = self.sites.shift
        if not shift.any():
            return shift
        # For a strong site the difference would cancel: there a = s o B^-1 (nu / s).
        strong = self.precision * self.prior.variance > 1.0
        s = self.root_precision
        if strong.all():
            return np.asarray(s * linalg.cholesky_solve(self.chol_B, shift / s))
        weak = np.where(strong, 0.0, shift)
        scaled = np.where(strong, shift, 0.0) / np.where(strong, s, 1.0)
        if weak.any():
            scaled -= s * self.prior.times(weak)
        return np.asarray(weak + s * linalg.cholesky_solve(self.chol_B, scaled))

    @cached_property
    def mean(self) -> FloatArray:
        """Mean of q; (n,)."""
        return self.prior.times(self.weights)

    def factorize(self) -> Self:
        """Return itself, with all that draws take made now."""
        _ = self.prior.factorize(), self.half_log_det_B, self.weights, self.mean
        return self

    def cavities(self) -> Cavities:
        """Return the marginals of q with one site removed; see `Cavities.of`."""
        marginals = self.mean, self.marginal_variance
        return Cavities.of(marginals, self.sites, self.prior.variance)

    def skewness(self, model: LatentGP) -> FloatArray | None:
        """Skewness of the margins of f given y, (n,); None where sites are coupled.

        It is that of the third derivative of the tilted log normalizer in the cavity mean.
        """
        mean, var = self.cavities().moments
        observed = model.observations_at(self.prior.theta)
        step = _CUMULANT_STEP * np.sqrt(var)
        up = observed.tilted_moments(mean + step, var).beta
        at = observed.tilted_moments(mean, var).beta
        down = observed.tilted_moments(mean - step, var).beta
        # The tilted cumulants are var^k times the derivatives of log Z; beta is minus the second.
        # Both in units of the cavity, whose own powers could overflow.
        third = -var * (up - down) / (2.0 * _CUMULANT_STEP)
        shrunk = np.maximum(1.0 - var * at, 0.0)  # below zero by rounding
        with np.errstate(invalid="ignore", divide="ignore"):  # where nothing is left: no skewness
            return np.nan_to_num(third / shrunk**1.5, posinf=0.0, neginf=0.0)

    def widen(self, share: float) -> Self:
        """Return q with the same mean and `share` of the precision of its sites."""
        precision = share * self.precision
        shift = self.weights + self.coupled(self.prior, precision, self.mean)
        return type(self)(self.prior, Sites(shift, precision))

    @cached_property
    def root_precision(self) -> FloatArray:
        """``s = W^1/2``; (n,)."""
        return np.sqrt(self.sites.precision)

    @cached_property
    def chol_B(self) -> FloatArray:
        """Lower Cholesky factor of B = I + W^1/2 K W^1/2."""
        return self.prior.smoothed_factor(self.root_precision)

    @cached_property
    def chol_white(self) -> FloatArray:
        """Lower Cholesky factor T of I + R'W R, the precision under q of v, f = R v; (r, r)."""
        return self.prior.whitened_factor(self.root_precision)

    @cached_property
    def half_log_det_B(self) -> float:
        """``1/2 log |B|``, which equals ``1/2 (log |K| - log |Sigma|)``."""
        return linalg.half_log_det(self.chol_B)

    @cached_property
    def _inverse_factor(self) -> FloatArray:
        """L_B^-1, which marginal variances and gradients share; one inverse."""
        return linalg.lower_inverse(self.chol_B)

    @cached_property
    def marginal_variance(self) -> FloatArray:
        """Diagonal of Sigma; (n,). Costs one inverse of a triangle.

        ``s Sigma s = I - B^-1`` cancels where W_i Sigma_ii is small: the relative error is about
        eps / (W_i Sigma_ii). That of ``Sigma = K - K s B^-1 s K`` is eps K_ii / Sigma_ii, hence
        smaller where W_i K_ii < 1; there it steps in once the first has lost four digits.
        """
        prior_variance = self.prior.variance
        weight = self.precision * prior_variance  # never below W_i Sigma_ii
        if not weight.any():
            return prior_variance.copy()
        # For most of them an inverse would not be worth its cost.
        if 2 * np.count_nonzero(weight < _CANCELLED) > len(weight):
            return self._positive(self._variance_by_solving(np.full(len(weight), True)))
        factor = self._inverse_factor
        shrinkage = 1.0 - np.einsum("ij,ij->j", factor, factor)
        cancelled = (shrinkage < _CANCELLED) & (weight < 1.0)
        variance = shrinkage / np.where(cancelled, 1.0, self.precision)
        if cancelled.any():
            variance[cancelled] = self._variance_by_solving(cancelled)
        return self._positive(variance)

    def _positive(self, variance: FloatArray) -> FloatArray:
        """Mend what rounding has made of variances; what no rounding makes is a fault of K.

        The matrix B can have a factor although K has negative eigenvalues, as where a kernel is no
        covariance in several dimensions.
        """
        prior_variance = self.prior.variance
        if (variance < -_CANCELLED * prior_variance).any():
            raise linalg.NotPositiveDefiniteError(
                "the kernel is no covariance at these hyper-parameters"
            )
        return np.where(variance > 0.0, variance, np.finfo(float).eps * prior_variance)

    def _variance_by_solving(self, which: BoolArray) -> FloatArray:
        """Diagonal of ``K - K s B^-1 s K`` where the mask of shape (n,) says so."""
        half = self.prior.columns(which)
        half *= self.root_precision[:, None]
        half = linalg.solve_lower(self.chol_B, half, overwrite=True)
        return np.asarray(self.prior.variance[which] - np.einsum("ij,ij->j", half, half))

    @cached_property
    def root(self) -> FloatArray:
        """R T'^-1, whose product with its transpose is Sigma: nothing cancels; (n, r)."""
        identity = np.eye(self.prior.rank, order="F")
        white = linalg.solve_lower(self.chol_white, identity, transpose=True, overwrite=True)
        return self.prior.unwhiten(white)

    def solve_smoothed(self, g: FloatArray) -> FloatArray:
        """Return ``s o B^-1 s o g`` = (K + W^-1)^-1 g, for g of shape (n,) or (n, m)."""
        s = self.root_precision if g.ndim == 1 else self.root_precision[:, None]
        return s * linalg.cholesky_solve(self.chol_B, s * g)

    def folded_smoothed_inverse(self) -> FloatArray:
        """Lower triangle T for which ``T + T' = (K + W^-1)^-1 = s s' o B^-1``; one product.

        Freshly allocated in Fortran order, for sums with symmetric weights.
        """
        inverse = self._inverse_factor
        finished = "marginal_variance" in vars(self)
        if finished:  # nothing else wants it: one matrix less
            del vars(self)["_inverse_factor"]
        T = linalg.lower_gram(inverse, overwrite=finished)
        T *= self.root_precision[:, None]
        T *= self.root_precision
        T.flat[:: len(T) + 1] *= 0.5
        return T

    def kernel_gradient(self, *more: tuple[FloatArray, FloatArray]) -> FloatArray:
        """``sum_ij G_ij dK_ij / dtheta_r``, G = (a a' - (K + W^-1)^-1) / 2 plus `more` x y'.

        Without these it is the gradient of a log evidence that does not change with the sites.
        """
        A = self.folded_smoothed_inverse()
        for x, y in ((0.5 * self.weights, self.weights), *more):
            A = linalg.add_outer(A, -x, y)
        return -self.prior.contract(A)

    def sample(self, rng: np.random.Generator, size: int) -> LatentDraws:
        """Independent draws of f."""
        if 2 * size > len(self.weights):
            return self._draws(self.prior.unwhiten(self.sample_white(rng, size)))
        return self._draws(self._sample_by_conditioning(rng, size))

    def _draws(self, delta: FloatArray) -> LatentDraws:
        """Return what is known of draws f = mean + delta, (n, m)."""
        return LatentDraws(self.mean[:, None] + delta, self.log_ratio_of_deviation(delta))

    def log_ratio_to_prior(self, f: FloatArray) -> FloatArray:
        """Log [q(f) / N(f; 0, K)] for each column of f of shape (n, m); (m,)."""
        return self.log_ratio_of_deviation(f - self.mean[:, None])

    def log_ratio_of_deviation(self, delta: FloatArray) -> FloatArray:
        """Log [q(f) / N(f; 0, K)] at f = mean + delta, delta of shape (n, m); (m,).

        The quadratic forms in K^-1 cancel: with f = K a + delta, it is
        ``1/2 log |B| + 1/2 mu'a + delta'a - 1/2 delta'W delta``.
        """
        return np.asarray(
            self.half_log_det_B
            + 0.5 * float(self.mean @ self.weights)
            + self.weights @ delta
            - 0.5 * self._squares_of_sites(delta)
        )

    def _squares_of_sites(self, delta: FloatArray) -> FloatArray:
        """``delta'W delta`` for each column; (m,)."""
        return np.asarray(np.einsum("i,ij,ij->j", self.sites.precision, delta, delta))

    def sample_white(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw v less its mean under q, T'^-1 z for z ~ N(0, I), one per column; (r, size)."""
        z = np.asfortranarray(rng.standard_normal((size, self.prior.rank)).T)
        return linalg.solve_lower(self.chol_white, z, transpose=True, overwrite=True)

    def _sample_by_conditioning(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw f - mean under q, (n, m), without `chol_white`: cheaper for few draws.

        Matheron's rule: with u ~ N(0, K) and e ~ N(0, I),
        ``u - K s o B^-1 (s o u + e)`` has covariance (K^-1 + W)^-1. No division by W occurs.
        """
        u = self.prior.sample(rng, size)
        noise = np.asfortranarray(rng.standard_normal((size, len(self.weights))).T)
        s = self.root_precision[:, None]
        pulled = s * linalg.cholesky_solve(self.chol_B, s * u + noise)
        return np.asarray(u - self.prior.times(pulled))

    def conditional(self) -> Conditional:
        """Return f* at new inputs, f integrated out under q."""
        prior = self.prior
        a = self.weights[:, None]
        return GivenSites(prior.covariance, prior.kernel_theta, self.chol_B, a, self.root_precision)


class ApproximationFit(NamedTuple):
    """What an approximation found at one theta."""

    q: GaussianApproximation
    log_evidence: float  # deterministic estimate of log p(y | theta), natural log
    converged: bool
    n_iterations: int


class Evaluation(NamedTuple):
    """What an approximation found at one theta, with the gradient of its log evidence."""

    q: GaussianApproximation
    log_evidence: float
    gradient: FloatArray  # (p,)


class Approximation(Configuration, ABC):
    """A way to find a Gaussian q(f) near p(f | y, theta).

    Without a `start`, the result is a function of (y, theta) alone, never of the state of a chain:
    that is what keeps a pseudo-marginal chain exact whatever the tolerance.
    """

    @abstractmethod
    def fit(
        self, model: LatentGP, theta: FloatArray, start: Sites | None = None
    ) -> ApproximationFit:
        """Return q at theta of shape (p,), natural logs, and the approximate log evidence.

        With `start`, the iterations begin at these sites instead of at the prior. Inside a
        pseudo-marginal chain it must be None or a function of theta alone: what it leaves in q
        within the tolerance would otherwise be the history of the chain. A start from the last
        theta is for searches.
        """

    def at(self, model: LatentGP, theta: FloatArray) -> GaussianApproximation:
        """Return q at theta: an approximation is a `ReferenceDensity`."""
        return self.fit(model, theta).q

    @abstractmethod
    def gradient(self, model: LatentGP, fit: ApproximationFit) -> FloatArray:
        """Gradient of the log evidence, at a fit iterated to a tight tolerance.

        It is that in the hyper-parameters of the kernel, then of the likelihood, which come first
        in theta: the evidence depends on no others.
        """

    def fit_with_gradient(
        self, model: LatentGP, theta: FloatArray, start: Sites | None = None
    ) -> Evaluation:
        """Fit, with the gradient of the log evidence; arguments are those of `fit`."""
        fit = self.fit(model, theta, start)
        return Evaluation(fit.q, fit.log_evidence, self.gradient(model, fit))

    @abstractmethod
    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""

    def check_likelihood(self, likelihood: Likelihood) -> None:
        """Raise a ValueError if the approximation cannot work with the likelihood."""
        remedy = 'approximation="laplace" or "auto"'
        likelihood.check_single(f"approximation={type(self).__name__}", remedy)

    def with_few_sweeps(self) -> Approximation:
        """Return a cheaper one, for proposals that are corrected anyway; here, the same."""
        return self

    @abstractmethod
    def with_tolerance(self, tol: float = ...) -> Approximation:
        """Return the same with a tighter tolerance, by default one that is enough for gradients.

        It is of the same class, and has the same values of all other fields.
        """
