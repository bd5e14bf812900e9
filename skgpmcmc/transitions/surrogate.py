"""Proposals by a short chain under a cheap density, such as an emulated posterior.

The moves of the chain are Hamiltonian trajectories and independence Metropolis-Hastings. They move
one point (p,), or a batch of independent points (m, p). A pool of chains draws from the density.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from scipy.special import gammaln

from .._typing import FloatArray
from ..numerics.dynamics import DensityPoint, tune_log_scale
from ..numerics.linalg import cholesky, log_sum
from .hmc import Trajectory
from .operator import Outcome


class CheapDensity(Protocol):
    """An unnormalized density with its gradient, at one point or at a batch of points."""

    def value_and_gradient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log density (...) and its gradient (..., p) at theta (..., p)."""

    def log_prob(self, theta: FloatArray) -> FloatArray:
        """Log density (...) at theta (..., p), which is faster without the gradient."""


class CheapPoint(NamedTuple):
    """A point, or a batch of points, with its log density and gradient."""

    position: FloatArray  # (..., p), theta, natural logs
    log_density: FloatArray  # (...)
    gradient: Any  # (..., p); None if it was not evaluated

    @classmethod
    def at(cls, target: CheapDensity, theta: FloatArray) -> Self:
        """Evaluate the density at theta."""
        return cls(theta, *target.value_and_gradient(theta))


def follow_trajectories(
    trajectory: Trajectory, target: CheapDensity, points: CheapPoint, rng: np.random.Generator
) -> tuple[CheapPoint, FloatArray]:
    """Follow a trajectory from each point of a batch (m, p), and accept or reject its end.

    Returns the batch after the moves, and the acceptance probabilities (m,).
    """
    path, log_ratio = trajectory.integrate(partial(CheapPoint.at, target), points, rng)
    assert path.end is not None  # a batch always has an end; points without density have -inf
    log_ratio = np.where(np.isfinite(log_ratio), log_ratio, -np.inf)
    accepted = np.log1p(-rng.uniform(size=log_ratio.shape)) < log_ratio
    wide = accepted[..., None]
    moved = CheapPoint(
        np.where(wide, path.end.position, points.position),
        np.where(accepted, path.end.log_density, points.log_density),
        np.where(wide, path.end.gradient, points.gradient),
    )
    return moved, np.exp(np.minimum(log_ratio, 0.0))


def covariance_root(draws: FloatArray) -> FloatArray:
    """Return the Cholesky factor of the covariance of draws (..., p)."""
    flat = draws.reshape(-1, draws.shape[-1])
    return shrunk_root(np.atleast_2d(np.cov(flat, rowvar=False)), len(flat))


def shrunk_root(covariance: FloatArray, n: int) -> FloatArray:
    """Return the Cholesky factor of a covariance (p, p) of n draws.

    The covariance is shrunk towards its diagonal, which counts as one draw.
    """
    diagonal = np.maximum(covariance.diagonal(), 1e-6)
    return cholesky(np.asfortranarray((n * covariance + np.diag(diagonal)) / (n + 1.0)))


@dataclass(frozen=True, eq=False)
class TMixture:
    """Mixture of multivariate t distributions with six degrees of freedom.

    Attributes
    ----------
    means : ndarray of shape (k, p)
    roots : ndarray of shape (k, p, p)
        Lower Cholesky factors of the scale matrices.
    shares : ndarray of shape (k,)
        Mixture weights, with sum 1.
    """

    means: FloatArray
    roots: FloatArray
    shares: FloatArray

    #: Degrees of freedom: heavy tails with finite moments.
    _DOF = 6.0

    @classmethod
    def of_draws(cls, draws: FloatArray, modes: FloatArray, scale: FloatArray) -> Self:
        """Return one t distribution per mode, with the moments of the draws nearest to the mode.

        A mode with few draws, or none, has its component as well: a chain near a mode where the
        mixture has no mass would not leave. Its share counts one more draw, and its covariance is
        shrunk towards that of all draws around their modes, which counts as p + 1 draws.
        """
        n, p = draws.shape
        nearest = np.linalg.norm((draws[:, None, :] - modes) / scale, axis=2).argmin(axis=1)
        counts = np.bincount(nearest, minlength=len(modes))
        means = modes.copy()
        for occupied in np.flatnonzero(counts):
            means[occupied] = draws[nearest == occupied].mean(axis=0)
        centered = draws - means[nearest]
        within = centered.T @ centered / n
        roots = []
        for k in range(len(modes)):
            group = centered[nearest == k]
            shrunk = (group.T @ group + (p + 1) * within) / (len(group) + p + 1)
            roots.append(shrunk_root(shrunk, n))
        return cls(means, np.array(roots), (counts + 1.0) / (n + len(modes)))

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Independent draws; (size, p)."""
        which = rng.choice(len(self.shares), size=size, p=self.shares)
        z = rng.standard_normal((size, self.means.shape[1]))
        z /= np.sqrt(rng.chisquare(self._DOF, size=size) / self._DOF)[:, None]
        return self.means[which] + np.einsum("irs,is->ir", self.roots[which], z)

    def log_prob(self, theta: FloatArray) -> FloatArray:
        """Log density at theta (m, p); (m,)."""
        z = np.einsum("krs,kms->kmr", self._inverse, theta - self.means[:, None, :])
        squared = np.einsum("kmr,kmr->km", z, z)
        power = 0.5 * (self._DOF + self.means.shape[1])
        log_t = self._log_scale[:, None] - power * np.log1p(squared / self._DOF)
        return log_sum(log_t, axis=0, overwrite=True)

    @cached_property
    def _inverse(self) -> FloatArray:
        return np.asarray(np.linalg.inv(self.roots), dtype=float)

    @cached_property
    def _log_scale(self) -> FloatArray:
        """Log of share times normalizing constant of each component; (k,)."""
        p = self.means.shape[1]
        constant = (
            gammaln(0.5 * (self._DOF + p))
            - gammaln(0.5 * self._DOF)
            - 0.5 * p * np.log(self._DOF * np.pi)
        )
        log_det = np.log(np.abs(np.einsum("krr->kr", self._inverse))).sum(axis=1)
        return np.asarray(constant + log_det + np.log(self.shares))


@dataclass(frozen=True, eq=False)
class IndependenceMetropolis:
    """Independence Metropolis-Hastings; the target is evaluated at all candidates in one call.

    **Invariant:** leaves the target unchanged, and is reversible: it consists of `n_candidates`
    steps of one reversible kernel.

    Attributes
    ----------
    proposal : TMixture
        Density of the candidates.
    n_candidates : int
        Number of steps, each with one candidate.
    """

    proposal: TMixture
    n_candidates: int

    def move(self, target: CheapDensity, point: DensityPoint, rng: np.random.Generator) -> Outcome:
        """Accept or reject one candidate after the other; returns the last accepted one.

        The returned point has no gradient. The acceptance probability of the whole move is not
        computed; the outcome has 1 or 0 in its place.
        """
        theta = self.proposal.sample(rng, self.n_candidates)
        log_prob = target.log_prob(theta)
        log_weights = log_prob - self.proposal.log_prob(theta)
        current = point.log_density - self.proposal.log_prob(point.position[None])[0]
        # A candidate is accepted if its margin exceeds the log weight of the current point.
        margins = log_weights - np.log1p(-rng.uniform(size=len(log_weights)))
        at = -1
        for i in range(len(log_weights)):
            if margins[i] > current:
                current = log_weights[i]
                at = i
        if at < 0:
            return Outcome(point, False, 0.0, self.n_candidates)
        end = CheapPoint(theta[at], log_prob[at], None)
        return Outcome(end, True, 1.0, self.n_candidates)


def independence_acceptance(log_weights: FloatArray, shares: FloatArray | None = None) -> float:
    """Estimate the acceptance rate of independent proposals from pi* in a chain on another density.

    The rate is ``E min(w, w') / E w`` for the importance weights w, w' (target over pi*) of two
    draws from pi*: a mean over the states of the chain, not over pi*. It is small if pi* is far too
    large in some region, or so small that the chain stays in the region for long.

    Parameters
    ----------
    log_weights : ndarray of shape (m,)
        Log weights at draws from pi*, up to a constant.
    shares : ndarray of shape (m,), optional
        Weights of the draws as draws from pi*, if they come from another density.
    """
    w = np.exp(log_weights - log_weights.max())
    u = np.ones(len(w)) if shares is None else shares
    return float(u @ np.minimum(w[:, None], w) @ u / (u.sum() * (u @ w)))


@dataclass(frozen=True, eq=False)
class SurrogateProposal:
    """Proposal of theta' by a reversible move from theta under a cheap density pi*.

    The move is a trajectory, or several steps of independence Metropolis-Hastings. As it is
    reversible with respect to pi*, the Hastings ratio is pi*(theta) / pi*(theta'). The
    accept-reject step with the likelihood corrects the errors of pi* exactly.

    Attributes
    ----------
    target : HyperPosterior or EmulatedPosterior
        pi*, unnormalized; its method `at` returns the point at a theta with its gradient.
    move : Trajectory or IndependenceMetropolis
        The move under pi*.

    References
    ----------
    Liu (2001), section 9.4.3 (surrogate transition); Wang & Neal (2013), section 2 (temporary
    mapping).
    """

    target: Any
    move: Trajectory | IndependenceMetropolis

    def propose(self, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """Return theta' and ``log pi*(theta) - log pi*(theta')``."""
        begin = self.target.at(theta)
        if begin is None:
            return theta, -np.inf
        end = self.move.move(self.target, begin, rng).point
        return end.position, float(begin.log_density - end.log_density)


def run_pool(
    target: CheapDensity,
    theta: FloatArray,
    root: FloatArray,
    n_moves: int,
    rng: np.random.Generator,
    acceptance: float,
) -> FloatArray:
    """Move chains from theta (m, p) by trajectories with the metric of `root`.

    The step size is tuned to an acceptance rate in the first half of the moves. Returns the theta
    after each move of the second half, (n_moves - n_moves // 2, m, p).
    """
    point = CheapPoint.at(target, theta)
    log_step = Trajectory().typical_log_scale(theta.shape[1])
    kept = []
    for i in range(n_moves):
        trajectory = Trajectory.quarter(root, min(log_step, 0.0))
        point, probability = follow_trajectories(trajectory, target, point, rng)
        if i < n_moves // 2:
            log_step = tune_log_scale(log_step, float(probability.mean()), acceptance, i)
        else:
            kept.append(point.position)
    return np.array(kept)
