"""Gaussian approximations for the softmax, whose sites couple the classes of a row.

q(f) = N(f; mu, Sigma) with Sigma^-1 = K^-1 + W and mu = K a; K is block-diagonal with one block
K_c for each class, and W = D - D R diag(1/w) R'D. There D is diagonal and positive, R stacks one
identity for each class, and w = R'D 1 are the weights of the rows. At a mode D = w pi, with the
class probabilities pi. Everything comes from factors of n x n matrices: those of
B_c = I + D_c^1/2 K_c D_c^1/2, and of M M' = sum_c E_c with E_c = D_c^1/2 B_c^-1 D_c^1/2. Then
(K + W^-1)^-1 = S = E - E R (M M')^-1 R'E. The formula holds although W is always singular, as a
function that is added to all classes changes no probability.

References
----------
Rasmussen & Williams (2006), section 3.5 and algorithm 3.3; the gradient is derived in the
documentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Self

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from .._typing import FloatArray
from ..model.classwise import ClasswisePrior
from ..model.joint import LatentGP
from ..model.observations import Observations
from ..model.prior import GaussianPrior
from ..numerics import linalg
from .base import GaussianApproximation, Sites
from .laplace import laplace_gradient
from .whitened import gaussian_family

#: Share of the way to the averaged sites by which a sweep moves; the full way would overshoot.
_SWEEP_SHARE = 0.6
#: Change of every mean, in standard deviations, below which sweeps end.
_MEAN_TOLERANCE = 0.01
#: Log2 of the number of points with which averages over q are computed.
_LOG2_POINTS = 6
#: Least variance of a latent value, without the coupling of classes, in units of the prior's.
_LEAST_UNCOUPLED_VARIANCE = 1e-12
#: Least precision of a site.
_LEAST_PRECISION = 1e-12


@dataclass(frozen=True, eq=False)
class ClasswiseApproximation(GaussianApproximation):
    """q(f) of a softmax: `precision` is D. Arrays are stacked class after class."""

    prior: ClasswisePrior

    @staticmethod
    def apply_precision(prior: GaussianPrior, precision: FloatArray, f: FloatArray) -> FloatArray:
        """``W f`` for f of shape (C n,) or (C n, m)."""
        f_by_class = prior.split(f)
        D = prior.split(precision).reshape(*f_by_class.shape[:2], *(1,) * (f.ndim - 1))
        scaled = D * f_by_class
        scaled -= D * (scaled.sum(axis=0) / D.sum(axis=0))
        return scaled.reshape(f.shape)

    @cached_property
    def weights(self) -> FloatArray:
        """a, with mean K a; (C n,)."""
        shift = self.sites.shift
        return np.asarray(shift - self.solve_smoothed(self.prior.times(shift)))

    @property
    def n_classes(self) -> int:
        """Number of classes C."""
        return len(self.prior.priors)

    @property
    def chol_B(self) -> FloatArray:
        """Not defined: there is one B for each class, see `chols_B`."""
        raise TypeError("The sites of a softmax are coupled: there is no B of all classes.")

    @property
    def chol_white(self) -> FloatArray:
        """Not defined, as the precision of the sites is not diagonal."""
        raise TypeError("The sites of a softmax are coupled: they have no diagonal precision.")

    @cached_property
    def chols_B(self) -> tuple[FloatArray, ...]:
        """Lower Cholesky factors of B_c."""
        pairs = zip(self.prior.priors, self.prior.split(self.root_precision), strict=True)
        return tuple(prior.smoothed_factor(root) for prior, root in pairs)

    @cached_property
    def smoothed_inverses(self) -> tuple[FloatArray, ...]:
        """The matrices E_c; they cost an inverse and a product for each class."""
        found = []
        for root, factor in zip(self.prior.split(self.root_precision), self.chols_B, strict=True):
            E = linalg.lower_gram(linalg.lower_inverse(factor))
            E *= root[:, None]
            E *= root
            found.append(linalg.mirror_lower(E))
        return tuple(found)

    @cached_property
    def chol_M(self) -> FloatArray:
        """Lower Cholesky factor of the sum of E_c."""
        first, *others = self.smoothed_inverses
        return linalg.cholesky(sum(others, first))

    @cached_property
    def half_log_det_B(self) -> float:
        """``1/2 log |I + K W|``; R&W (3.44), for weights w."""
        of_classes = sum(linalg.half_log_det(factor) for factor in self.chols_B)
        weight = self.prior.split(self.precision).sum(axis=0)
        return of_classes + linalg.half_log_det(self.chol_M) - 0.5 * float(np.log(weight).sum())

    def solve_smoothed(self, g: FloatArray) -> FloatArray:
        """Return S g = (K + W^-1)^-1 g, for g of shape (C n,) or (C n, m)."""
        inverses = self.smoothed_inverses
        own = list(map(linalg.product, inverses, self.prior.split(g)))
        common = linalg.cholesky_solve(self.chol_M, sum(own[1:], own[0]))
        pairs = zip(inverses, own, strict=True)
        return np.concatenate([part - linalg.product(E, common) for E, part in pairs])

    def factorize(self) -> Self:
        """Compute everything that draws depend on, and return itself."""
        _ = self.prior.factorize(), self.half_log_det_B, self.mean
        return self

    def _squares_of_sites(self, delta: FloatArray) -> FloatArray:
        W_delta = self.apply_precision(self.prior, self.precision, delta)
        return np.asarray(np.einsum("ij,ij->j", delta, W_delta))

    def skewness(self, model: LatentGP) -> None:
        """Return None: rows cannot be drawn one after the other, as sites couple the classes."""

    def sample_deviation(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw f less its mean under q, one per column; (C n, size).

        With u ~ N(0, K), e ~ N(0, W) and v = u + K e, ``v - K S v`` = Sigma (K^-1 u + e) has the
        covariance Sigma (K^-1 + W) Sigma = Sigma.
        """
        u = self.prior.sample(rng, size)
        z = self.prior.split(np.asfortranarray(rng.standard_normal((size, len(self.weights))).T))
        D = self.prior.split(self.precision)[..., None]
        root = np.sqrt(D)
        e = root * z - D * ((root * z).sum(axis=0) / D.sum(axis=0))
        v = u + self.prior.times(e.reshape(u.shape))
        return np.asarray(v - self.prior.times(self.solve_smoothed(v)))

    @cached_property
    def row_covariances(self) -> FloatArray:
        """Covariances of the classes of each row under q; (n, C, C). Two operations per class."""
        halves = []  # M^-1 E_c K_c
        alone = []  # variances without the coupling
        for prior, E in zip(self.prior.priors, self.smoothed_inverses, strict=True):
            half, variance = prior.smooth(E)
            # The difference is a rounding error if the data determine a latent value.
            alone.append(np.maximum(variance, _LEAST_UNCOUPLED_VARIANCE * prior.variance))
            halves.append(linalg.solve_lower(self.chol_M, half, overwrite=True))
        stacked = np.stack(halves)
        covariances = np.einsum("cki,dki->icd", stacked, stacked)
        covariances[:, np.arange(len(alone)), np.arange(len(alone))] += np.stack(alone).T
        return covariances


@gaussian_family.register(ClasswisePrior)
def _choose_classwise(
    prior: ClasswisePrior, whitened: bool = False
) -> type[ClasswiseApproximation]:
    return ClasswiseApproximation


@laplace_gradient.register(ClasswiseApproximation)
def _laplace_gradient(q: ClasswiseApproximation, observed: Observations) -> FloatArray:
    """Gradient of Laplace's log evidence in theta, the moving mode included.

    ``d log q / dK_c = a_c a_c' / 2 - S_cc / 2 + u_c g_c'``, with the slope g of log p(y | f) at the
    mode, and u = (I - S K) s, where s is the derivative of ``-1/2 log |I + K W|`` in the mode.
    """
    slope = q.prior.split(observed.derivatives(q.mean).first)
    of_mode = _differentiate_half_log_det(q)
    u = q.prior.split(of_mode - q.solve_smoothed(q.prior.times(of_mode)))
    A = np.empty((q.n_classes, *q.chol_M.shape))
    by_class = zip(A, q.smoothed_inverses, q.prior.split(q.weights), strict=True)
    for c, (block, E, a) in enumerate(by_class):
        half = linalg.solve_lower(q.chol_M, E)
        block[:] = 0.5 * (linalg.product(half.T, half) - E)  # -S_cc / 2
        block += 0.5 * np.outer(a, a) + np.outer(u[c], slope[c])
    return q.prior.contract(A)


def _differentiate_half_log_det(q: ClasswiseApproximation) -> FloatArray:
    """Derivative of ``-1/2 log |I + K W|`` in the mode, on which W depends; (C n,).

    It is -1/2 sum_i tr(Sigma_i dW_i) over rows, where ``W_i = w (diag(pi) - pi pi')``.
    """
    D = q.prior.split(q.precision)
    weight = D.sum(axis=0)
    p = D / weight
    mixed = np.einsum("icd,di->ci", q.row_covariances, p)
    variance = np.einsum("icc->ci", q.row_covariances)
    trace = variance - (variance * p).sum(axis=0) - 2.0 * mixed + 2.0 * (p * mixed).sum(axis=0)
    return np.asarray(-0.5 * weight * p * trace).ravel()


def average_sites(
    q: ClasswiseApproximation, observed: Observations, n_sweeps: int = 40
) -> ClasswiseApproximation:
    """Return a Gaussian whose sites have slope and curvature averaged over itself.

    If p(f | y, theta) is skewed, its mean and spread differ from those of the Laplace approximation
    at the mode. The Gaussian that minimizes KL(q || p) has sites with the mean slope and the mean
    curvature of log p(y | f) under q (Opper & Archambeau, 2009). Here the curvature is that of the
    mean probabilities, times a factor for each row that preserves the trace. Means are taken over
    fixed points, so that the result is a function of q alone. It is a better importance density
    than the Laplace approximation.

    Parameters
    ----------
    q : ClasswiseApproximation
        Start of the sweeps.
    observed : Observations
        Observations with a softmax.
    n_sweeps : int, default=40
        Maximum number of damped steps; fewer if the mean changes by less than 1 % of its standard
        deviations.
    """
    for _ in range(n_sweeps):
        before = q.sites
        wanted = _average_sites_once(q, observed)
        mixed = (old + _SWEEP_SHARE * (new - old) for old, new in zip(before, wanted, strict=True))
        new = ClasswiseApproximation(q.prior, Sites(*mixed))
        moved = q.prior.split(new.mean - q.mean) ** 2 / np.einsum("icc->ci", q.row_covariances)
        q = new
        if moved.max() < _MEAN_TOLERANCE**2:
            break
    return q


def _average_sites_once(q: ClasswiseApproximation, observed: Observations) -> Sites:
    """Return sites with the slope and the curvature of log p(y | f), averaged over q."""
    roots = np.linalg.cholesky(q.row_covariances)
    steps = np.einsum("icd,sd->isc", roots, normal_points(q.n_classes))
    f = q.prior.split(q.mean).T[:, None, :] + steps
    p = np.exp(f - f.max(axis=2, keepdims=True))
    p /= p.sum(axis=2, keepdims=True)
    usual = p.mean(axis=1)
    spread = 1.0 - np.einsum("isc,isc->i", p, p) / p.shape[1]
    share = spread / np.maximum(1.0 - np.einsum("ic,ic->i", usual, usual), _LEAST_PRECISION)
    count = np.zeros_like(usual)  # of each class, (n, C)
    weight = 1.0 if observed.weight is None else observed.weight
    np.add.at(count, (observed.input_of_row, observed.y.astype(np.intp)), weight)
    total = count.sum(axis=1)
    precision = np.maximum((total * share)[:, None] * usual, _LEAST_PRECISION).T.ravel()
    slope = count - total[:, None] * usual
    return Sites(q.apply_precision(q.prior, precision, q.mean) + slope.T.ravel(), precision)


@cache
def normal_points(dim: int, log_points: int = _LOG2_POINTS) -> FloatArray:
    """Return quasi-random points of the distribution N(0, I); (2 ^ log_points, dim)."""
    return np.asarray(ndtri(qmc.Sobol(dim, rng=0).random_base2(log_points)))
