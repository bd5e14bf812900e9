"""Gaussian approximations of p(f | y, theta): the form that Laplace and EP have in common.

It is q(f) = N(f; mu, Sigma) with Sigma^-1 = K^-1 + W, W diagonal and not negative, and mu = K a.
Everything is computed from B = I + W^1/2 K W^1/2, whose eigenvalues are at least one, so that
neither K nor W is ever inverted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from .._params import Configuration
from .._typing import FloatArray
from ..likelihoods.base import Likelihood
from ..model.joint import LatentGP
from ..model.observations import Observations
from ..model.prior import Conditional, ConditionalGivenSites, GaussianPrior
from ..numerics import linalg


class Sites(NamedTuple):
    """Natural parameters of the Gaussian sites exp(shift f - precision f^2 / 2)."""

    shift: FloatArray  # (n,)
    precision: FloatArray  # (n,), not negative


class Cavities(NamedTuple):
    """Marginals of q with one site removed, natural parameters."""

    shift: FloatArray  # (n,)
    precision: FloatArray  # (n,)
    moments: tuple[FloatArray, FloatArray]  # mean and variance, each (n,)

    @classmethod
    def of(
        cls, marginals: tuple[FloatArray, FloatArray], sites: Sites, prior_variance: FloatArray
    ) -> Self:
        """Remove each site from its marginal of q; Rasmussen & Williams (2006), (3.56)."""
        mean, var = marginals
        # As no site is negative, a cavity is wider than the prior by rounding alone.
        precision = np.maximum(1.0 / var - sites.precision, 1.0 / prior_variance)
        shift = mean / var - sites.shift
        return cls(shift, precision, (shift / precision, 1.0 / precision))


class LatentDraws(NamedTuple):
    """Draws of f from a density, one per column."""

    f: FloatArray  # (n, m)
    log_ratio: FloatArray  # (m,), log density relative to N(f; 0, K)


#: Difference of a variance from one, in units of the prior's, that has lost four digits.
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
        The sites; their precisions are W, the diagonal that q adds to K^-1.
    """

    prior: GaussianPrior
    sites: Sites

    @classmethod
    def match_at(
        cls,
        prior: GaussianPrior,
        observed: Observations,
        f: FloatArray,
        slope: FloatArray | None = None,
    ) -> Self:
        """Return q whose sites have the slope and the curvature of log p(y | f) at f.

        Where log p(y | f) is not concave, the precision of the site is zero. Another `slope` may
        replace the slope of log p(y | f): with K^-1 f, the mean of q is f.
        """
        own, precision = observed.slope_and_precision(f)
        slope = own if slope is None else slope
        return cls(prior, Sites(cls.apply_precision(prior, precision, f) + slope, precision))

    @staticmethod
    def apply_precision(prior: GaussianPrior, precision: FloatArray, f: FloatArray) -> FloatArray:
        """``W f`` for f of shape (n,)."""
        return precision * f

    @classmethod
    def with_weights(cls, prior: GaussianPrior, sites: Sites, weights: FloatArray) -> Self:
        """Return q with given sites, whose `weights` have been computed already."""
        q = cls(prior, sites)
        vars(q)["weights"] = weights
        return q

    def __getstate__(self) -> dict[str, Any]:
        # Matrices are computed again on demand. Vectors are kept, so that they are the same to the
        # last bit in another process.
        names = ("prior", "sites", "weights", "mean")
        return {name: value for name, value in vars(self).items() if name in names}

    @property
    def q(self) -> GaussianApproximation:
        """Itself: every `Density` has a Gaussian approximation q."""
        return self

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """Arrays that determine q together with the prior: those of the sites."""
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
        # For a strong site the difference would cancel; the form a = s o B^-1 (nu / s) does not.
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
        """Compute everything that draws depend on, and return itself."""
        _ = self.prior.factorize(), self.half_log_det_B, self.weights, self.mean
        return self

    def cavities(self) -> Cavities:
        """Return the marginals of q with one site removed; see `Cavities.of`."""
        marginals = self.mean, self.marginal_variance
        return Cavities.of(marginals, self.sites, self.prior.variance)

    def skewness(self, model: LatentGP) -> FloatArray | None:
        """Skewness of the tilted distributions, which approximate p(f_i | y); (n,), or None.

        It follows from the third derivative of the tilted log normalizer in the cavity mean. The
        result is None if sites couple the classes of a row, as with a softmax.
        """
        mean, var = self.cavities().moments
        observed = model.observations_at(self.prior.theta)
        step = _CUMULANT_STEP * np.sqrt(var)
        up = observed.tilted_moments(mean + step, var).beta
        at = observed.tilted_moments(mean, var).beta
        down = observed.tilted_moments(mean - step, var).beta
        # The k-th tilted cumulant is var^k times the k-th derivative of log Z; beta is minus the
        # second derivative. Cumulants are in units of the cavity, so that no power overflows.
        third = -var * (up - down) / (2.0 * _CUMULANT_STEP)
        shrunk = np.maximum(1.0 - var * at, 0.0)  # negative by rounding alone
        with np.errstate(invalid="ignore", divide="ignore"):  # the skewness is 0 without variance
            return np.nan_to_num(third / shrunk**1.5, posinf=0.0, neginf=0.0)

    def widen(self, share: float) -> Self:
        """Return q with the same mean and `share` of the precision of its sites."""
        precision = share * self.precision
        shift = self.weights + self.apply_precision(self.prior, precision, self.mean)
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
        """L_B^-1, which marginal variances and gradients use; one inverse."""
        return linalg.lower_inverse(self.chol_B)

    @cached_property
    def marginal_variance(self) -> FloatArray:
        """Diagonal of Sigma; (n,). Costs one inverse of a triangle.

        ``s Sigma s = I - B^-1`` cancels where W_i Sigma_ii is small: the relative error is about
        eps / (W_i Sigma_ii). The error of ``Sigma = K - K s B^-1 s K`` is eps K_ii / Sigma_ii,
        which is smaller if W_i K_ii < 1. This form is used where in addition the first one has lost
        four digits.
        """
        prior_variance = self.prior.variance
        weight = self.precision * prior_variance  # never below W_i Sigma_ii
        if not weight.any():
            return prior_variance.copy()
        # If the second form serves most variances, an inverse for the others is not worth its cost.
        if 2 * np.count_nonzero(weight < _CANCELLED) > len(weight):
            cancelled = np.full(len(weight), True)
            variance = np.empty(len(weight))
        else:
            factor = self._inverse_factor
            shrinkage = 1.0 - np.einsum("ij,ij->j", factor, factor)
            cancelled = (shrinkage < _CANCELLED) & (weight < 1.0)
            variance = shrinkage / np.where(cancelled, 1.0, self.precision)
        if cancelled.any():
            half = self.prior.columns(cancelled)
            half *= self.root_precision[:, None]
            half = linalg.solve_lower(self.chol_B, half, overwrite=True)
            variance[cancelled] = prior_variance[cancelled] - np.einsum("ij,ij->j", half, half)
        # B can have a factor although K has negative eigenvalues, for instance if a kernel is no
        # covariance in several dimensions. Smaller negative variances are rounding errors.
        if (variance < -_CANCELLED * prior_variance).any():
            raise linalg.NotPositiveDefiniteError(
                "the kernel is no covariance at these hyper-parameters"
            )
        return np.where(variance > 0.0, variance, np.finfo(float).eps * prior_variance)

    @cached_property
    def root(self) -> FloatArray:
        """R T'^-1, a root of Sigma that is computed without cancellation; (n, r)."""
        identity = np.eye(self.prior.rank, order="F")
        white = linalg.solve_lower(self.chol_white, identity, transpose=True, overwrite=True)
        return self.prior.unwhiten(white)

    def solve_smoothed(self, g: FloatArray) -> FloatArray:
        """Return ``s o B^-1 s o g`` = (K + W^-1)^-1 g, for g of shape (n,) or (n, m)."""
        s = self.root_precision if g.ndim == 1 else self.root_precision[:, None]
        return s * linalg.cholesky_solve(self.chol_B, s * g)

    def folded_smoothed_inverse(self) -> FloatArray:
        """Lower triangle T for which ``T + T' = (K + W^-1)^-1 = s s' o B^-1``; one product.

        T is freshly allocated in Fortran order. Contractions with symmetric weights use it.
        """
        inverse = self._inverse_factor
        finished = "marginal_variance" in vars(self)
        if finished:  # the inverse has no other use, so that its memory can be reused
            del vars(self)["_inverse_factor"]
        T = linalg.lower_gram(inverse, overwrite=finished)
        T *= self.root_precision[:, None]
        T *= self.root_precision
        T.flat[:: len(T) + 1] *= 0.5
        return T

    def kernel_gradient(self, *more: tuple[FloatArray, FloatArray]) -> FloatArray:
        """``sum_ij G_ij dK_ij / dtheta_r``, G = (a a' - (K + W^-1)^-1) / 2 plus `more` x y'.

        Without `more` it is the gradient of a log evidence that is stationary in the sites.
        """
        A = self.folded_smoothed_inverse()
        for x, y in ((0.5 * self.weights, self.weights), *more):
            A = linalg.add_outer(A, -x, y)
        return -self.prior.contract(A)

    def evidence_gradient(self, model: LatentGP) -> FloatArray:
        """Gradient of a log evidence that is stationary in the sites, as EP's and the exact one.

        Components are those of the kernel, then of the likelihood; R&W (5.27) and (5.9).
        """
        observed = model.observations_at(self.prior.theta)
        gradient = self.kernel_gradient()
        if model.has_residuals:
            _, alpha, beta = observed.tilted_moments(*self.cavities().moments)
            gradient = gradient + model.residual_gradient(self.prior, 0.5 * (alpha**2 - beta))
        if not observed.likelihood.parameters:
            return gradient
        of_likelihood = observed.tilted_parameter_gradient(*self.cavities().moments).sum(axis=1)
        return np.concatenate([gradient, of_likelihood])

    def sample(self, rng: np.random.Generator, size: int) -> LatentDraws:
        """Return independent draws of f."""
        delta = self.sample_deviation(rng, size)
        return LatentDraws(self.mean[:, None] + delta, self.log_ratio_of_deviation(delta))

    def sample_deviation(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw f less its mean under q, one per column; (n, size).

        Few draws are cheaper without `chol_white`, by Matheron's rule: with u ~ N(0, K) and
        e ~ N(0, I), ``u - K s o B^-1 (s o u + e)`` has covariance (K^-1 + W)^-1. No division by W
        occurs.
        """
        if 2 * size > len(self.weights):
            return self.prior.unwhiten(self.sample_white(rng, size))
        u = self.prior.sample(rng, size)
        noise = np.asfortranarray(rng.standard_normal((size, len(self.weights))).T)
        s = self.root_precision[:, None]
        pulled = s * linalg.cholesky_solve(self.chol_B, s * u + noise)
        return np.asarray(u - self.prior.times(pulled))

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

    def conditional(self) -> Conditional:
        """Return the conditional at new inputs, f integrated out under q."""
        prior = self.prior
        a = self.weights[:, None]
        return ConditionalGivenSites(
            prior.covariance, prior.kernel_theta, self.chol_B, a, self.root_precision
        )


class ApproximationFit(NamedTuple):
    """The result of an approximation at one theta."""

    q: GaussianApproximation
    log_evidence: float  # deterministic estimate of log p(y | theta), natural log
    converged: bool
    n_iterations: int


class Evaluation(NamedTuple):
    """The result of an approximation at one theta, with the gradient of its log evidence."""

    q: GaussianApproximation
    log_evidence: float
    gradient: FloatArray  # (p,)


class Approximation(Configuration, ABC):
    """Base class: a method that finds a Gaussian q(f) near p(f | y, theta).

    Without a `start`, the result is a function of (y, theta) alone, never of the state of a chain.
    This keeps a pseudo-marginal chain exact whatever the tolerance.
    """

    @abstractmethod
    def fit(
        self, model: LatentGP, theta: FloatArray, start: Sites | None = None
    ) -> ApproximationFit:
        """Return q at theta of shape (p,), natural logs, and the approximate log evidence.

        With `start`, the iterations begin at these sites instead of at the prior. Inside a
        pseudo-marginal chain it must be None or a function of theta alone: q depends on the start
        within the tolerance, and must not depend on the history of the chain. Searches may start
        from the sites at the last theta.
        """

    def at(self, model: LatentGP, theta: FloatArray) -> GaussianApproximation:
        """Return q at theta: an approximation is a `ReferenceDensity`."""
        return self.fit(model, theta).q

    def arrays_at(self, model: LatentGP, theta: FloatArray) -> tuple[FloatArray, ...]:
        """See `ReferenceDensity`."""
        return self.at(model, theta).arrays

    @abstractmethod
    def gradient(self, model: LatentGP, fit: ApproximationFit) -> FloatArray:
        """Gradient of the log evidence, at a fit iterated to a tight tolerance.

        Its components are those of the kernel's hyper-parameters, then of the likelihood's, which
        come first in theta: the evidence depends on no others.
        """

    def fit_with_gradient(
        self, model: LatentGP, theta: FloatArray, start: Sites | None = None
    ) -> Evaluation:
        """Return q, the log evidence and its gradient; arguments are those of `fit`."""
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
        """Return a cheaper approximation, for proposals that are corrected; here, itself."""
        return self

    @abstractmethod
    def with_tolerance(self, tol: float = ...) -> Approximation:
        """Return the approximation with a tolerance of at most `tol`, by default for gradients.

        The result is of the same class, and all other fields have the same values, except that a
        limit of iterations may be larger.
        """
