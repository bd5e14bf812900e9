"""Posterior predictive averages over draws of (theta, f), with bounded memory.

Draws with equal theta share one factorization. Groups of draws go to the workers in tasks of fixed
size, and new rows are handled in batches, so that a prediction depends neither on the number of
workers nor on which other rows are asked for.

Far from the training rows a kernel, or the exponential of f, can leave the range of double
precision. Sums over draws are therefore made without warnings, and looked at afterwards: a number
that is not finite is refused, by its row. Only the log of a density may be minus infinity: there
the density is below all numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol

import joblib
import numpy as np
from scipy.optimize import elementwise

from .._typing import FloatArray, IntArray
from ..approximations import (
    Density,
    Reference,
    density_from,
    importance_estimate,
    log_importance_weights,
)
from ..likelihoods import Likelihood
from ..model import CrossCovariance, GaussianPrior, LatentGP, LatentMoments
from ..numerics.logs import log_sum
from ..numerics.threads import one_thread

__all__ = ["Particles", "Predictor", "Subset", "parts_of", "spread_subset"]

#: Distinct thetas per task of a worker.
_GROUPS_PER_TASK = 8
#: New rows that are handled at once.
_ROW_BATCH = 1000
#: Pairs of continuations of each f to a new row, where classes have a latent function each.
_N_PAIRS = 2
#: Importance draws of f for each further draw that has the same theta, and most draws whose f are
#: handled at once.
_N_MORE, _MOST_AT_ONCE = 4, 400
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

    n: int  # for one draw
    defensive: float
    seed: int
    unit: float = 1.0  # weight that counts as one draw

    def at_weight(self, weight: float) -> int:
        """Importance draws of f at a theta whose draws have this weight together.

        All draws of a theta compete with the same ones, so that the noise of an average there is
        theirs: for it to fall with the number of draws, they have to grow with it.
        """
        return self.n + int(_N_MORE * max(weight / self.unit - 1.0, 0.0))


def parts_of(
    model: LatentGP, reference: Reference | None, theta: FloatArray, n_jobs: int | None = None
) -> tuple[FloatArray, ...]:
    """Find what the reference's densities are made of at each row of theta (S, p); each (S, n).

    Equal rows share one evaluation. Without a reference there are none.
    """
    if reference is None:
        return ()
    groups = _equal_rows(theta)
    distinct = theta[[group[0] for group in groups]]
    rows = [distinct[i : i + _GROUPS_PER_TASK] for i in range(0, len(groups), _GROUPS_PER_TASK)]
    done = joblib.Parallel(n_jobs=n_jobs)(
        joblib.delayed(_parts_of)(model, reference, some) for some in rows
    )
    which = np.empty(len(theta), dtype=np.intp)
    for position, group in enumerate(groups):
        which[group] = position
    parts = zip(*(p for task in done for p in task), strict=True)
    return tuple(np.array(part)[which] for part in parts)


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

    @property
    def _known_parts(self) -> tuple[FloatArray, ...]:
        return self._parts_found_late if self.parts is None else self.parts

    @cached_property
    def _parts_found_late(self) -> tuple[FloatArray, ...]:
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
            Natural logs; minus infinity where even the log is below all numbers.
        """
        summary = _LogPredictive(self.model, np.stack(y_new), _per_row(offset, X_new))
        log_p = self._sum_over_draws(summary, X_new, n_jobs) - np.log(self.weight.sum())
        impossible = np.isneginf(log_p)
        self.refuse_overflow("The log predictive density", np.where(impossible, 0.0, log_p), X_new)
        return log_p

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
        average = self._sum_over_draws(summary, X_new, n_jobs) / self.weight.sum()
        self.refuse_overflow("The prediction", average, X_new)
        return average

    def target_mean(
        self, X_new: FloatArray, n_jobs: int | None = None, offset: FloatArray | float = 0.0
    ) -> FloatArray:
        """Posterior predictive mean of targets that are numbers; (m,)."""
        return self.expectation(_target_mean, X_new, n_jobs, offset)[0]

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
        with one_thread(), _overflow_is_refused_later():
            parts = [
                self._quantiles_of(probabilities, batch, offset[batch.rows])
                for batch in self.batches(X_new)
            ]
        quantiles = np.concatenate(parts, axis=1)
        self.refuse_overflow("The quantile", quantiles, X_new)
        return quantiles

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
        p = self._sum_over_draws(summary, X_new, n_jobs) / self.weight.sum()
        self.refuse_overflow("The probability of a class", p, X_new)
        return p

    def latent_moments(
        self, X_new: FloatArray, n_jobs: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of f*, by the law of total variance.

        Each (m,), or (C, m) for C latent functions.
        """
        sums = self._sum_over_draws(_LatentSums(), X_new, n_jobs)
        self.refuse_overflow("The variance of the latent function", sums, X_new)
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
        with one_thread(), _overflow_is_refused_later():
            for rows in _equal_rows(self.theta[chosen]):
                means, covariances = self.jointly(chosen[rows], X_new)
                variances = np.diagonal(covariances, axis1=-2, axis2=-1)
                self.refuse_overflow("The variance of the latent function", variances, X_new)
                self.refuse_overflow("A covariance of the latent function", covariances, X_new)
                pairs = zip(means.reshape(shape), covariances.reshape(shape), strict=True)
                for c, (mean, covariance) in enumerate(pairs):
                    out[rows, c] = mean.T + noise[rows, c] @ _covariance_root(covariance).T
        self.refuse_overflow("A draw of the latent function", out, X_new)
        return out if n_functions > 1 else out[:, 0]

    def refuse_overflow(self, what: str, values: FloatArray, X_new: FloatArray) -> None:
        """Raise a ValueError that names the first row with a value that is not finite, and why.

        Parameters
        ----------
        what : str
            What the values are called.
        values : ndarray of shape (..., m)
            One value or several for each new row.
        X_new : ndarray of shape (m, d)
            New inputs.
        """
        legal = np.isfinite(values)
        if legal.all():
            return
        by_row = legal.reshape(-1, len(X_new))
        row = int(np.argmin(by_row.all(axis=0)))
        value = values.reshape(by_row.shape)[np.argmin(by_row[:, row]), row]
        with _overflow_is_refused_later():
            _, square, within = self._sum_over_draws(_LatentSums(), X_new[[row]], 1)
            sd = np.sqrt((square + within).max() / self.weight.sum())
        why = (
            f"the latent function is of the size of {sd:.3g} there"
            if np.isfinite(sd)
            else "the kernel, or the square of the latent function, overflows there"
        )
        with np.printoptions(threshold=6, edgeitems=3):
            raise ValueError(
                f"{what} for row {row} of X, {X_new[row]}, comes out as {value}: {why}, out of "
                "reach of double precision. Check the units of that row and of its target against "
                "those of the training rows, or leave it out."
            )

    def _sum_over_draws(
        self, summary: _Summary, X_new: FloatArray, n_jobs: int | None
    ) -> FloatArray:
        groups = _equal_rows(self.theta)
        tasks = [groups[i : i + _GROUPS_PER_TASK] for i in range(0, len(groups), _GROUPS_PER_TASK)]
        with _overflow_is_refused_later():
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
    ) -> Iterator[tuple[int, LatentMoments, FloatArray]]:
        """Give moments of f* at the theta that the draws share, batch after batch of rows.

        Where the draws are many, so that the f of all do not fit in memory, some of them at a time.

        Parameters
        ----------
        draws : ndarray of int
            Positions of draws with equal theta.
        batches : sequence of _Batch
            See `batches`.

        Yields
        ------
        position : int
            Of the batch.
        moments : LatentMoments
            One column of means for each f that is averaged over.
        log_weight : ndarray
            Of the columns; the weights of a batch add up to that of the draws.
        """
        if self.particles is None:
            q = self._density(int(draws[0])).q
            log_weight = np.log(self.weight[draws].sum(keepdims=True))
            for position, batch in enumerate(batches):
                yield position, q.predict(batch.X), log_weight
            return
        for prior, f, log_weight in self._functions(draws, self.particles):
            for position, batch in enumerate(batches):
                yield position, prior.condition(f, batch.X), log_weight

    def _functions(
        self, draws: IntArray, particles: Particles
    ) -> Iterator[tuple[GaussianPrior, FloatArray, FloatArray]]:
        """Give the prior at the theta of some draws, and f that stand for them, some at a time."""
        some = np.array_split(draws, -(-len(draws) // _MOST_AT_ONCE))
        if particles.n == 0:
            prior = self._prior(int(draws[0]))
            yield from ((prior, self.f[own].T, np.log(self.weight[own])) for own in some)
            return
        density = self._density(int(draws[0]))
        rng = _stream_of(self.theta[draws[0]], particles.seed)
        for own in some:
            yield density.q.prior, *self._averaged(density, own, particles, rng)

    def _averaged(
        self, density: Density, draws: IntArray, particles: Particles, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """All f that stand for some draws of one theta, a column each, and their log weights."""
        fresh = importance_estimate(
            self.model,
            density,
            particles.at_weight(self.weight[draws].sum()),
            rng,
            defensive=particles.defensive,
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


def _overflow_is_refused_later() -> np.errstate:
    """Context without warnings about numbers that `Predictor.refuse_overflow` looks for."""
    return np.errstate(over="ignore", invalid="ignore")


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
    with one_thread(), _overflow_is_refused_later():
        batches = predictor.batches(X_new)
        totals: list[FloatArray | None] = [None] * len(batches)
        for draws in _equal_rows(predictor.theta):
            theta = predictor.theta[draws[0]]
            # The matrices of a theta go with its iterator.
            for position, moments, log_weight in predictor.moments(draws, batches):
                value = summary.of(theta, moments, batches[position].rows, log_weight)
                total = totals[position]
                totals[position] = value if total is None else summary.combine(total, value)
    return np.concatenate([total for total in totals if total is not None], axis=-1)


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


def _target_mean(likelihood: Likelihood, mean: FloatArray, var: FloatArray) -> FloatArray:
    """Mean of a target given the moments of f*."""
    return np.broadcast_to(likelihood.predictive_moments(mean, var).mean, (1, *mean.shape))


def _target_moments(likelihood: Likelihood, mean: FloatArray, var: FloatArray) -> FloatArray:
    """Mean, squared mean and variance of a target given the moments of f*."""
    moments = likelihood.predictive_moments(mean, var)
    parts = (moments.mean, moments.mean**2, moments.var)
    return np.stack([np.broadcast_to(part, mean.shape) for part in parts])


def _per_row(offset: FloatArray | float, X_new: FloatArray) -> FloatArray:
    return np.broadcast_to(np.asarray(offset, dtype=float), len(X_new))
