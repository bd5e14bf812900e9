"""Posterior predictive averages over draws of (theta, f), with bounded memory.

Draws with equal theta share one factorization. Groups of draws go to the workers in tasks of fixed
size, and new rows are handled in batches, so that a prediction depends neither on the number of
workers nor on which other rows are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol

import joblib
import numpy as np
from scipy.optimize import elementwise

from ._logs import log_sum
from ._threads import one_thread
from ._typing import FloatArray, IntArray
from .approximations import Density, Reference, density_from
from .covariance import CrossCovariance
from .gaussian import GaussianPrior, LatentMoments
from .importance import importance_estimate, log_importance_weights
from .likelihoods import Likelihood
from .model import LatentGP

__all__ = ["Particles", "Predictor", "Subset", "parts_of", "spread_subset"]

#: Distinct thetas per task of a worker.
_GROUPS_PER_TASK = 8
#: New rows that are handled at once.
_ROW_BATCH = 1000
#: Pairs of continuations of each f to a new row, where classes have a latent function each.
_N_PAIRS = 2
#: Most distances between new and training rows that are kept from one theta to the next (40 MB).
_MAX_DISTANCES = 5_000_000


class Subset(NamedTuple):
    """Some of many draws, each standing for its neighborhood."""

    rows: IntArray  # (S,)
    weight: FloatArray  # (S,), how many draws each stands for


def spread_subset(theta: FloatArray, n_wanted: int | None, rng: np.random.Generator) -> Subset:
    """Choose `n_wanted` of the draws theta (n, p) so that they cover all; every one for None.

    Draws are parted into cells of nearly equal size, by medians along the widest direction, and one
    of each cell is taken at random: a stratified sample, whose averages over theta vary far less
    than those of draws taken anywhere.
    """
    if n_wanted is None or n_wanted >= len(theta):
        return Subset(np.arange(len(theta)), np.ones(len(theta)))
    spread = theta.std(axis=0)
    z = theta / np.where(spread > 0.0, spread, 1.0)
    cells = _cells(z, np.arange(len(theta)), n_wanted)
    chosen = np.array([rng.choice(cell) for cell in cells], dtype=np.intp)
    order = np.argsort(chosen)
    return Subset(chosen[order], np.array([len(cell) for cell in cells], dtype=float)[order])


def _cells(z: FloatArray, members: IntArray, n_cells: int) -> list[IntArray]:
    if n_cells == 1:
        return [members]
    left = n_cells // 2
    if z.shape[1]:
        widest = int(np.argmax(z[members].std(axis=0)))
        members = members[np.argsort(z[members, widest], kind="stable")]
    cut = round(len(members) * left / n_cells)
    return _cells(z, members[:cut], left) + _cells(z, members[cut:], n_cells - left)


class _Batch(NamedTuple):
    """Some new rows, and where they stand among all."""

    rows: slice
    X: FloatArray | CrossCovariance


class Particles(NamedTuple):
    """How f is averaged at the theta of a draw: importance draws of f beside the draw's own."""

    n: int
    defensive: float
    seed: int


def parts_of(
    model: LatentGP, reference: Reference | None, theta: FloatArray, n_jobs: int | None = None
) -> tuple[FloatArray, ...]:
    """Find what the reference's densities are made of at each row of theta (S, p); each (S, n).

    Without a reference there are none.
    """
    if reference is None:
        return ()
    rows = [theta[i : i + _GROUPS_PER_TASK] for i in range(0, len(theta), _GROUPS_PER_TASK)]
    with one_thread():
        done = joblib.Parallel(n_jobs=n_jobs)(
            joblib.delayed(_parts_of)(model, reference, some) for some in rows
        )
    return tuple(np.array(part) for part in zip(*(p for task in done for p in task), strict=True))


def _parts_of(
    model: LatentGP, reference: Reference, theta: FloatArray
) -> list[tuple[FloatArray, ...]]:
    with one_thread():
        return [reference.at(model, row).parts for row in theta]


@dataclass(frozen=True, eq=False)
class Predictor:
    """Averages over S posterior draws.

    Attributes
    ----------
    model : LatentGP
    theta : ndarray of shape (S, p)
        Natural logs.
    f : ndarray of shape (S, n)
    weight : ndarray of shape (S,)
        How many draws each stands for.
    parts : tuple of ndarray of shape (S, n), or None
        What densities of f near p(f | y, theta) are made of; functions of theta. None has them
        found by the first prediction.
    particles : Particles or None
        None: f is integrated out under the Gaussian. Otherwise f is averaged over importance draws
        from the density beside the draw's own f, with their weights: that is one refresh of a
        pseudo-marginal chain, so that averages stay those of the exact posterior, and have far less
        noise than with the draw's own f alone. The same draws are made whenever they are needed.
        With none of them the draw's own f stands alone, and needs no `parts`.
    reference : Reference or None
        What finds `parts` where there are none.
    """

    model: LatentGP
    theta: FloatArray
    f: FloatArray
    weight: FloatArray
    parts: tuple[FloatArray, ...] | None
    particles: Particles | None
    reference: Reference | None = None

    @cached_property
    def _known_parts(self) -> tuple[FloatArray, ...]:
        if self.parts is not None:
            return self.parts
        return parts_of(self.model, self.reference, self.theta)

    def log_predictive(
        self,
        y_new: Sequence[FloatArray],
        X_new: FloatArray,
        n_jobs: int | None = None,
        offset: FloatArray | float = 0.0,
    ) -> FloatArray:
        """Log of the average of p(y* | draw), for several candidate targets at once.

        Parameters
        ----------
        y_new : sequence of k ndarrays of shape (m,)
            Encoded targets.
        X_new : ndarray of shape (m, d)
            New inputs.
        n_jobs : int, optional
            Workers of joblib.
        offset : ndarray of shape (m,) or float
            Added to f*.

        Returns
        -------
        ndarray of shape (k, m)
            Natural logs.
        """
        summary = _LogPredictive(self.model, np.stack(y_new), _per_row(offset, X_new))
        return self._sum_over_draws(summary, X_new, n_jobs) - np.log(self.weight.sum())

    def expectation(
        self,
        function: LatentFunction,
        X_new: FloatArray,
        n_jobs: int | None = None,
        offset: FloatArray | float = 0.0,
    ) -> FloatArray:
        """Posterior mean of functions of the moments of f* and the likelihood.

        Parameters
        ----------
        function : callable
            ``function(likelihood, mean, var)`` for f* ~ N(mean, var), mean of shape (m, g) and var
            of shape (m, 1), returns k values stacked, (k, m, g). Workers must be able to import it.
        X_new : ndarray of shape (m, d)
            New inputs.
        n_jobs : int, optional
            Workers of joblib.
        offset : ndarray of shape (m,) or float
            Added to f*.

        Returns
        -------
        ndarray of shape (k, m)
            Averages over the draws.
        """
        summary = _Expectation(self.model, function, _per_row(offset, X_new))
        return self._sum_over_draws(summary, X_new, n_jobs) / self.weight.sum()

    def target_moments(
        self, X_new: FloatArray, n_jobs: int | None = None, offset: FloatArray | float = 0.0
    ) -> tuple[FloatArray, FloatArray]:
        """Posterior predictive mean and variance of targets that are numbers, each (m,)."""
        mean, square, within = self.expectation(_target_moments, X_new, n_jobs, offset)
        return mean, np.maximum(square - mean**2, 0.0) + within

    def target_quantiles(
        self, probabilities: Sequence[float], X_new: FloatArray, offset: FloatArray | float = 0.0
    ) -> FloatArray:
        """Posterior predictive quantiles of targets that are real numbers; (k, m).

        Where f is not integrated out, each draw counts with its own f.
        """
        offset = _per_row(offset, X_new)
        with one_thread():
            parts = [
                self._quantiles_of(probabilities, batch, offset[batch.rows])
                for batch in self.batches(X_new)
            ]
        return np.concatenate(parts, axis=1)

    def _quantiles_of(
        self, probabilities: Sequence[float], batch: _Batch, offset: FloatArray
    ) -> FloatArray:
        components = []
        for draws in _equal_rows(self.theta):
            mean, var = self._own_moments(draws, batch.X)
            weight = self.weight[draws] / self.weight.sum()
            if mean.shape[1] == 1:
                weight = weight.sum(keepdims=True)
            likelihood = self.model.likelihood_at(self.theta[draws[0]]).at_new_rows()
            components.append((likelihood, mean + offset[:, None], var, weight))

        def cdf(y: FloatArray, row: IntArray, probability: FloatArray) -> FloatArray:
            at = row.astype(np.intp)
            total = -probability
            for likelihood, mean, var, weight in components:
                below = likelihood.predictive_cdf(y[:, None], mean[at], var[at, None])
                total = total + below @ weight
            return np.asarray(total)

        center = np.mean([mean.mean(axis=1) for _, mean, _, _ in components], axis=0)
        spread = np.max([np.sqrt(var) + 1.0 for _, _, var, _ in components], axis=0)
        rows = np.arange(len(center), dtype=float)
        found = []
        for probability in probabilities:
            wanted = np.full(len(center), probability)
            bracket = elementwise.bracket_root(
                cdf, center - spread, center + spread, args=(rows, wanted)
            ).bracket
            found.append(elementwise.find_root(cdf, bracket, args=(rows, wanted)).x)
        return np.stack(found)

    def _own_moments(self, draws: IntArray, X: FloatArray | CrossCovariance) -> LatentMoments:
        """Moments of f* given the theta that some draws share, and f of each if it is not out."""
        if self.particles is None:
            return self._density(int(draws[0])).q.predict(X)
        return self._prior(int(draws[0])).condition(self.f[draws].T, X)

    def class_probabilities(self, X_new: FloatArray, n_jobs: int | None = None) -> FloatArray:
        """Posterior predictive probabilities of the classes of a softmax; (C, m)."""
        assert self.particles is not None
        summary = _ClassProbabilities(self.particles.seed)
        return self._sum_over_draws(summary, X_new, n_jobs) / self.weight.sum()

    def latent_moments(
        self, X_new: FloatArray, n_jobs: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of f*, by the law of total variance.

        Each (m,), or (C, m) for C latent functions.
        """
        sums = self._sum_over_draws(_LatentSums(), X_new, n_jobs)
        mean, square, within = sums / self.weight.sum()
        return mean, np.maximum(square - mean**2, 0.0) + within

    def sample_latent(
        self, X_new: FloatArray, n_draws: int, rng: np.random.Generator
    ) -> FloatArray:
        """Joint draws of f* at all rows of X_new; (n_draws, m) or (n_draws, C, m)."""
        return self._sample_latent(X_new, self._resampled(n_draws, rng), rng)

    def sample_targets(
        self, X_new: FloatArray, n_draws: int, rng: np.random.Generator
    ) -> FloatArray:
        """Joint draws of targets at all rows of X_new, which share theta and f*; (n_draws, m)."""
        chosen = self._resampled(n_draws, rng)
        f = self._sample_latent(X_new, chosen, rng)
        likelihoods = (self.model.likelihood_at(self.theta[draw]) for draw in chosen)
        return np.stack(
            [law.at_new_rows().sample(row, rng) for law, row in zip(likelihoods, f, strict=True)]
        )

    def _resampled(self, n_draws: int, rng: np.random.Generator) -> IntArray:
        """Positions of draws, each used in proportion to what it stands for (systematic)."""
        edges = np.cumsum(self.weight) / self.weight.sum()
        places = (np.arange(n_draws) + rng.uniform()) / n_draws
        return rng.permutation(np.minimum(np.searchsorted(edges, places), len(edges) - 1))

    def _sample_latent(
        self, X_new: FloatArray, chosen: IntArray, rng: np.random.Generator
    ) -> FloatArray:
        n_functions = self.model.likelihood.n_functions
        noise = rng.standard_normal((len(chosen), n_functions, len(X_new)))
        out, shape = np.empty_like(noise), (n_functions, len(X_new), -1)
        with one_thread():
            for rows in _equal_rows(self.theta[chosen]):
                means, covariances = self.jointly(chosen[rows], X_new)
                pairs = zip(means.reshape(shape), covariances.reshape(shape), strict=True)
                for c, (mean, covariance) in enumerate(pairs):
                    out[rows, c] = mean.T + noise[rows, c] @ _covariance_root(covariance).T
        return out if n_functions > 1 else out[:, 0]

    def _sum_over_draws(
        self, summary: _Summary, X_new: FloatArray, n_jobs: int | None
    ) -> FloatArray:
        groups = _equal_rows(self.theta)
        tasks = [groups[i : i + _GROUPS_PER_TASK] for i in range(0, len(groups), _GROUPS_PER_TASK)]
        with one_thread():  # around the workers' own limits, in case these are threads
            parts = joblib.Parallel(n_jobs=n_jobs)(
                joblib.delayed(_summarize)(self._subset(np.concatenate(task)), summary, X_new)
                for task in tasks
            )
        return np.asarray(summary.combine.reduce(list(parts), axis=0))

    def _subset(self, draws: IntArray) -> Predictor:
        return replace(
            self,
            theta=self.theta[draws],
            f=self.f[draws],
            weight=self.weight[draws],
            parts=tuple(part[draws] for part in self._known_parts),
            reference=None,
        )

    def _prior(self, draw: int) -> GaussianPrior:
        return self.model.prior_at(self.theta[draw])

    def _density(self, draw: int) -> Density:
        return density_from(self._prior(draw), tuple(part[draw] for part in self._known_parts))

    def batches(self, X_new: FloatArray) -> list[_Batch]:
        """Part new rows into batches, bound to the kernel where that takes little memory.

        Bound rows keep their distances to the training inputs, which all thetas share.
        """
        covariance = self.model.covariance
        few = len(X_new) * len(covariance.X) <= _MAX_DISTANCES
        return [
            _Batch(rows, covariance.at_new(X_new[rows]) if few else X_new[rows])
            for rows in (slice(i, i + _ROW_BATCH) for i in range(0, len(X_new), _ROW_BATCH))
        ]

    def moments(
        self, draws: IntArray, batches: Sequence[_Batch]
    ) -> Iterator[tuple[slice, LatentMoments, FloatArray]]:
        """Give moments of f* at the theta that the draws share, batch after batch of rows.

        Parameters
        ----------
        draws : ndarray of int
            Positions of draws with equal theta.
        batches : sequence of _Batch
            See `batches`.

        Yields
        ------
        rows : slice
            Where the batch stands among all new rows.
        moments : LatentMoments
            One column of means for each f that is averaged over.
        log_weight : ndarray
            Of the columns; the weights add up to that of the draws.
        """
        if self.particles is not None and self.particles.n == 0:
            prior, f = self._prior(int(draws[0])), self.f[draws].T
            for batch in batches:
                yield batch.rows, prior.condition(f, batch.X), np.log(self.weight[draws])
            return
        density = self._density(int(draws[0]))
        if self.particles is None:
            log_weight = np.log(self.weight[draws].sum(keepdims=True))
            for batch in batches:
                yield batch.rows, density.q.predict(batch.X), log_weight
            return
        f, log_weight = self._averaged(density, draws, self.particles)
        for batch in batches:
            yield batch.rows, density.q.prior.condition(f, batch.X), log_weight

    def _averaged(
        self, density: Density, draws: IntArray, particles: Particles
    ) -> tuple[FloatArray, FloatArray]:
        """All f that stand for some draws of one theta, a column each, and their log weights."""
        rng = _stream_of(self.theta[draws[0]], particles.seed)
        fresh = importance_estimate(
            self.model, density, particles.n, rng, defensive=particles.defensive
        )
        own = self.f[draws].T
        own_log = log_importance_weights(self.model, density, own, defensive=particles.defensive)
        # Each own f competes with all fresh ones: conditional importance sampling.
        log_total = np.logaddexp(own_log, log_sum(fresh.log_weights))
        log_share = np.log(self.weight[draws]) - log_total
        log_weight = np.concatenate([own_log + log_share, fresh.log_weights + log_sum(log_share)])
        return np.concatenate([own, fresh.particles], axis=1), log_weight

    def jointly(self, draws: IntArray, X_new: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean (m, g) and covariance (m, m) of f* given the theta that g draws share, and f."""
        if self.particles is None:
            return self._density(int(draws[0])).q.predict_jointly(X_new)
        return self._prior(int(draws[0])).condition_jointly(self.f[draws].T, X_new)


def _equal_rows(theta: FloatArray) -> list[IntArray]:
    """Positions of equal rows, in the order of first appearance."""
    groups: dict[bytes, list[int]] = {}
    for position, row in enumerate(theta):
        groups.setdefault(row.tobytes(), []).append(position)
    return [np.array(positions, dtype=np.intp) for positions in groups.values()]


def _covariance_root(covariance: FloatArray) -> FloatArray:
    """R with R R' = covariance, which is singular where new rows coincide with training rows."""
    eigenvalues, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(eigenvalues, 0.0)))


def _summarize(predictor: Predictor, summary: _Summary, X_new: FloatArray) -> FloatArray:
    """Combine a summary over all draws of a predictor; (k, m) or (k, C, m)."""
    totals: FloatArray | None = None
    with one_thread():
        batches = predictor.batches(X_new)
        for draws in _equal_rows(predictor.theta):
            # The matrices of a theta go with its iterator.
            parts = [
                summary.of(predictor.theta[draws[0]], moments, rows, log_weight)
                for rows, moments, log_weight in predictor.moments(draws, batches)
            ]
            value = np.concatenate(parts, axis=-1)
            totals = value if totals is None else summary.combine(totals, value)
    assert totals is not None  # a task has at least one draw
    return totals


class _Summary(Protocol):
    """What is added up over draws."""

    combine: ClassVar[np.ufunc]

    def of(
        self, theta: FloatArray, moments: LatentMoments, rows: slice, log_weight: FloatArray
    ) -> FloatArray:
        """Weighted sum over the columns of means, with log weights (g,); (..., rows)."""


@dataclass(frozen=True, eq=False)
class _LogPredictive:
    """Log of the sum of p(y* | draw) for each of k candidate targets; sums are taken in logs."""

    model: LatentGP
    y_new: FloatArray  # (k, m)
    offset: FloatArray  # (m,)
    combine: ClassVar[np.ufunc] = np.logaddexp

    def of(
        self, theta: FloatArray, moments: LatentMoments, rows: slice, log_weight: FloatArray
    ) -> FloatArray:
        likelihood = self.model.likelihood_at(theta).at_new_rows()
        mean = moments.mean + self.offset[rows, None]
        terms = [
            likelihood.log_predictive(y[rows, None], mean, moments.var[:, None]) for y in self.y_new
        ]
        return np.stack([log_sum(term + log_weight, overwrite=True) for term in terms])


@dataclass(frozen=True, eq=False)
class _ClassProbabilities:
    """Sums of the probabilities of all classes of a softmax; (C, m).

    Its mean over f* ~ N(mean, var) has no closed form: every f is continued to a new row by a few
    antithetic pairs of normal numbers for each class, which all rows share and each theta has anew.
    """

    seed: int
    combine: ClassVar[np.ufunc] = np.add

    def of(
        self, theta: FloatArray, moments: LatentMoments, rows: slice, log_weight: FloatArray
    ) -> FloatArray:
        mean, sd = moments.mean, np.sqrt(moments.var)[..., None]
        rng = _stream_of(theta, self.seed, 1)
        total = np.zeros(mean.shape[:2])
        for _ in range(_N_PAIRS):
            step = sd * rng.standard_normal((len(mean), 1, mean.shape[2]))
            for f in (mean + step, mean - step):
                f -= f.max(axis=0)
                p = np.exp(f, out=f)
                total += (p / p.sum(axis=0)) @ np.exp(log_weight)
        return total / (2 * _N_PAIRS)


def _stream_of(theta: FloatArray, seed: int, *purpose: int) -> np.random.Generator:
    """Return the random numbers that belong to a theta, others for another purpose."""
    return np.random.default_rng([seed, *purpose, *theta.view(np.uint32).tolist()])


@dataclass(frozen=True, eq=False)
class _LatentSums:
    """Sums of the mean, the squared mean and the variance of f*."""

    combine: ClassVar[np.ufunc] = np.add

    def of(
        self, theta: FloatArray, moments: LatentMoments, rows: slice, log_weight: FloatArray
    ) -> FloatArray:
        mean, var = moments
        weight = np.exp(log_weight)
        return np.stack([mean @ weight, mean**2 @ weight, var * weight.sum()])


#: Values (k, m, g) of functions of f* ~ N(mean, var), mean (m, g) and var (m, 1).
LatentFunction = Callable[[Likelihood, FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class _Expectation:
    """Sums of functions of the moments of f*."""

    model: LatentGP
    function: LatentFunction
    offset: FloatArray  # (m,)
    combine: ClassVar[np.ufunc] = np.add

    def of(
        self, theta: FloatArray, moments: LatentMoments, rows: slice, log_weight: FloatArray
    ) -> FloatArray:
        likelihood = self.model.likelihood_at(theta).at_new_rows()
        mean = moments.mean + self.offset[rows, None]
        return self.function(likelihood, mean, moments.var[:, None]) @ np.exp(log_weight)


def _target_moments(likelihood: Likelihood, mean: FloatArray, var: FloatArray) -> FloatArray:
    """Mean, squared mean and variance of a target given the moments of f*."""
    moments = likelihood.predictive_moments(mean, var)
    parts = (moments.mean, moments.mean**2, moments.var)
    return np.stack([np.broadcast_to(part, mean.shape) for part in parts])


def _per_row(offset: FloatArray | float, X_new: FloatArray) -> FloatArray:
    return np.broadcast_to(np.asarray(offset, dtype=float), len(X_new))
