"""Posterior predictive averages over draws of (theta, f), with bounded memory.

Groups of draws go to the workers in tasks of fixed size, and new rows are handled in batches, so
that a prediction depends neither on the number of workers nor on which other rows are asked for.

Far from the training rows a kernel, or the exponential of f, can leave the range of double
precision. Sums over draws are therefore made without warnings, and looked at afterwards: a number
that is not finite is refused, by its row. Only the log of a density may be minus infinity: there
the density is below all numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import methodcaller

import joblib
import numpy as np

from .._typing import FloatArray, IntArray
from ..likelihoods.base import Likelihood
from ..likelihoods.gaussian import Gaussian
from ..model.covariance import Covariance, CrossCovariance
from ..model.prior import Conditional
from ..parallel.threads import one_thread
from ..parallel.workers import make_pool
from .cache import FactorCache
from .covariance import compute_transposed_root, latent_covariance
from .draws import WeightedDraws
from .groups import GROUPS_PER_TASK, Group, group_equal_rows
from .strategy import LatentStrategy
from .summary import (
    AtNewRows,
    ClassProbabilities,
    Expectation,
    LatentFunction,
    LogClassProbabilities,
    LogPredictive,
    Summary,
    forget_rows,
    mean_of_target,
    moments_of_latent,
    moments_of_target,
)

#: New rows that are handled at once: this bounds the memory for their covariances. Functions of
#: `Predictor.expectation` see all rows if there are no more.
ROW_BATCH = 1000
#: Share of a sum within which all places lie, as the sum is rounded.
_NEARLY_ONE = 1.0 - 1e-9
#: Most distances between new and training rows that are kept from one theta to the next (40 MB).
_MAX_DISTANCES = 5_000_000
#: Law of a target that is the latent value itself.
ITSELF = Gaussian(noise_scale=0.0, fixed=True)
#: Context without warnings about numbers that `Predictor.refuse_overflow` looks for.
ignore_overflow = partial(np.errstate, over="ignore", invalid="ignore")


@dataclass(frozen=True, eq=False)
class Predictor(WeightedDraws):
    """Posterior predictive averages over S draws; see `WeightedDraws` for the attributes."""

    def log_predictive(
        self,
        y_new: Sequence[FloatArray],
        X_new: FloatArray,
        n_jobs: int | None = None,
        offset: FloatArray | float = 0.0,
        at_new_rows: AtNewRows = forget_rows,
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
        at_new_rows : callable, optional
            ``at_new_rows(likelihood, rows)`` returns the likelihood of some of the new rows, a
            slice of them, from that of the training rows. By default rows have no data of their
            own.

        Returns
        -------
        ndarray of shape (k, m)
            Natural logs; minus infinity where even the log is below all numbers.
        """
        offset = broadcast_to_rows(offset, X_new)
        summary = LogPredictive(self.model, np.stack(y_new), offset, at_new_rows)
        return self._log_average(summary, X_new, n_jobs)

    def log_class_probabilities(self, X_new: FloatArray, n_jobs: int | None = None) -> FloatArray:
        """Return logs of the predictive probabilities of the classes -1.0 and +1.0; (2, m)."""
        return self._log_average(LogClassProbabilities(self.model), X_new, n_jobs)

    def _log_average(self, summary: Summary, X_new: FloatArray, n_jobs: int | None) -> FloatArray:
        log_p = self._sum_over_draws(summary, X_new, n_jobs) - np.log(self.total)
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
            of shape (m, 1), returns k values stacked, (k, m, g); between k and m, C latent
            functions have an axis of their own. Workers must be able to import it.
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
        summary = Expectation(self.model, function, broadcast_to_rows(offset, X_new))
        return self._average(summary, X_new, n_jobs, "The prediction")

    def _average(
        self, summary: Summary, X_new: FloatArray, n_jobs: int | None, called: str
    ) -> FloatArray:
        average = self._sum_over_draws(summary, X_new, n_jobs) / self.total
        self.refuse_overflow(called, average, X_new)
        return average

    def target_mean(
        self, X_new: FloatArray, n_jobs: int | None = None, offset: FloatArray | float = 0.0
    ) -> FloatArray:
        """Posterior predictive mean of targets that are numbers; (m,)."""
        return self.expectation(mean_of_target, X_new, n_jobs, offset)[0]

    def target_moments(
        self, X_new: FloatArray, n_jobs: int | None = None, offset: FloatArray | float = 0.0
    ) -> tuple[FloatArray, FloatArray]:
        """Posterior predictive mean and variance of targets that are numbers, each (m,)."""
        return _total_variance(*self.expectation(moments_of_target, X_new, n_jobs, offset))

    def target_quantiles(
        self,
        probabilities: Sequence[float],
        X_new: FloatArray,
        offset: FloatArray | float = 0.0,
        trials: FloatArray | None = None,
    ) -> FloatArray:
        """Posterior predictive quantiles of targets that are numbers; (k, m).

        Of counts the least that has at least the probability at or below it; successes have
        `trials` (m,). Where f is not integrated out, some of what it is averaged over stands for
        the rest.
        """
        of_one = [self], np.ones(1)
        return find_mixture_quantiles(*of_one, probabilities, X_new, offset, trials)

    def latent_quantiles(self, probabilities: Sequence[float], X_new: FloatArray) -> FloatArray:
        """Posterior quantiles of f*; (k, m)."""
        return find_mixture_quantiles([self], np.ones(1), probabilities, X_new, law=ITSELF)

    def latent_covariance(self, X_new: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and covariance of f* at all rows; (m,) and (m, m).

        With an axis in front for C latent functions.
        """
        with one_thread(), ignore_overflow():
            mean, covariance = latent_covariance(self, X_new)
        self._refuse_covariances(covariance, X_new)
        return mean, covariance

    def target_covariance(self, X_new: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Posterior predictive mean and covariance of targets whose mean is f; (m,) and (m, m)."""
        mean, covariance = self.latent_covariance(X_new)
        # Noise is independent from row to row: it is on the diagonal alone.
        np.fill_diagonal(covariance, self.target_moments(X_new)[1])
        return mean, covariance

    def class_probabilities(self, X_new: FloatArray, n_jobs: int | None = None) -> FloatArray:
        """Posterior predictive probabilities of the classes of a softmax; (C, m)."""
        summary = ClassProbabilities(self.strategy.seed)
        return self._average(summary, X_new, n_jobs, "The probability of a class")

    def latent_moments(
        self, X_new: FloatArray, n_jobs: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of f*, by the law of total variance.

        Each (m,), or (C, m) for C latent functions.
        """
        summary = Expectation(self.model, moments_of_latent, broadcast_to_rows(0.0, X_new))
        what = "The variance of the latent function"
        return _total_variance(*self._average(summary, X_new, n_jobs, what))

    def sample_latent(
        self, X_new: FloatArray, n_draws: int, rng: np.random.Generator
    ) -> FloatArray:
        """Joint draws of f* at all rows of X_new; (n_draws, m) or (n_draws, C, m)."""
        return self._sample_latent(X_new, self._resample(n_draws, rng), rng)

    def sample_targets(
        self,
        X_new: FloatArray,
        n_draws: int,
        rng: np.random.Generator,
        offset: FloatArray | float = 0.0,
        at_new_rows: Callable[[Likelihood], Likelihood] = methodcaller("at_new_rows"),
    ) -> FloatArray:
        """Joint draws of targets at all rows of X_new, which share theta and f*; (n_draws, m).

        `at_new_rows` returns the likelihood of the new rows from that of the training rows.
        """
        chosen = self._resample(n_draws, rng)
        f = (self._sample_latent(X_new, chosen, rng) + offset).reshape(n_draws, -1)
        likelihoods = (self.model.likelihood_at(self.theta[draw]) for draw in chosen)
        with ignore_overflow():
            laws = zip(likelihoods, f, strict=True)
            targets = np.stack([at_new_rows(law).sample(row, rng) for law, row in laws])
        self.refuse_overflow("A draw of the target", targets, X_new)
        return targets

    def _resample(self, n_draws: int, rng: np.random.Generator) -> IntArray:
        """Positions of draws, each used in proportion to what it stands for (systematic)."""
        edges = np.cumsum(self.multiplicity) / self.total
        places = (np.arange(n_draws) + rng.uniform()) / n_draws
        return rng.permutation(np.minimum(np.searchsorted(edges, places), len(edges) - 1))

    def _sample_latent(
        self, X_new: FloatArray, chosen: IntArray, rng: np.random.Generator
    ) -> FloatArray:
        noise = rng.standard_normal((len(chosen), *self.model.latent_shape(len(X_new))))
        out = np.full_like(noise, np.nan)
        with one_thread(), ignore_overflow():
            for group in self.groups():
                rows = rng.permutation(np.flatnonzero(np.isin(chosen, group.members)))
                at = iter(rows)
                for conditional, columns in self._draw_columns(group, len(rows), rng):
                    some = np.array([*islice(at, len(columns))], dtype=np.intp)
                    distinct, which = np.unique(columns, return_inverse=True)
                    means, covariances = conditional.select(distinct).predict_jointly(X_new)
                    self._refuse_covariances(covariances, X_new)
                    # One draw a row, where there are several functions for each of them.
                    root = compute_transposed_root(covariances)
                    steps = np.moveaxis(noise[some], 0, -2) @ root
                    own = np.swapaxes(means[..., which], -1, -2) + steps
                    out[some] = np.moveaxis(own, -2, 0)
        self.refuse_overflow("A draw of the latent function", out, X_new)
        return out

    def _draw_columns(
        self, group: Group, n: int, rng: np.random.Generator
    ) -> Iterator[tuple[Conditional, IntArray]]:
        """Give what f is averaged over at a theta, with columns drawn by weight, n in all."""
        step = _NEARLY_ONE * group.multiplicity.sum() / max(n, 1)
        places = step * (np.arange(n) + rng.uniform())
        for part in self.parts(group) if n else ():
            mass = np.exp(part.log_weight).sum()
            here = places[(places >= 0.0) & (places < mass)]
            if len(here):
                yield part.conditional, part.find_columns(here)
            places = places - mass

    def _refuse_covariances(self, covariances: FloatArray, X_new: FloatArray) -> None:
        """Name the first row whose variance is no number, and else whose covariance is none."""
        variances = np.diagonal(covariances, axis1=-2, axis2=-1)
        self.refuse_overflow("The variance of the latent function", variances, X_new)
        self.refuse_overflow("A covariance of the latent function", covariances, X_new)

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
        with ignore_overflow():
            summary = Expectation(self.model, moments_of_latent, np.zeros(1))
            _, square, within = self._sum_over_draws(summary, X_new[[row]], 1)
            sd = np.sqrt((square + within).max() / self.total)
        why = (
            f"the latent function is of the size of {sd:.3g} there"
            if np.isfinite(sd)
            else "the kernel, or the square of the latent function, overflows there"
        )
        with np.printoptions(threshold=6, edgeitems=3):
            raise ValueError(
                f"{what} for row {row} of X, {X_new[row]}, comes out as {value}: {why}, beyond "
                "double precision. Check the units of that row and of its target against "
                "those of the training rows, or leave it out."
            )

    def _sum_over_draws(
        self, summary: Summary, X_new: FloatArray, n_jobs: int | None
    ) -> FloatArray:
        at_theta = group_equal_rows(self.theta)
        n = self.f.shape[1]
        if len(X_new) <= n and 8 * len(at_theta) * n * n <= self.cache.room:
            n_jobs = 1  # a call costs little once factors are made, and the cache can hold them
        tasks = [
            at_theta[i : i + GROUPS_PER_TASK] for i in range(0, len(at_theta), GROUPS_PER_TASK)
        ]
        with ignore_overflow():
            by_task = make_pool(n_jobs)(
                joblib.delayed(_summarize)(
                    [self.group(members) for members in task],
                    self.strategy,
                    self.cache,
                    summary,
                    X_new,
                )
                for task in tasks
            )
            return np.asarray(summary.combine.reduce(list(by_task), axis=0))


def find_mixture_quantiles(
    members: Sequence[Predictor],
    weights: FloatArray,
    probabilities: Sequence[float],
    X_new: FloatArray,
    offset: FloatArray | float = 0.0,
    trials: FloatArray | None = None,
    law: Likelihood | None = None,
) -> FloatArray:
    """Return quantiles of the mixture of some predictors, with weights that add up to one; (k, m).

    With `law` targets have this likelihood, whatever that of the models.
    """
    from .quantiles import find_quantiles, make_components

    offset = broadcast_to_rows(offset, X_new)
    counts = (law or members[0].model.likelihood).counts
    batches = [split_into_batches(own.model.covariance, X_new) for own in members]
    found = []
    with one_thread(), ignore_overflow():
        for batch in zip(*batches, strict=True):
            rows = batch[0][0]
            components = [
                component._replace(share=weight * component.share)
                for own, weight, (_, X) in zip(members, weights, batch, strict=True)
                for component in make_components(own, X, offset[rows], law)
            ]
            found.append(
                find_quantiles(
                    components,
                    probabilities,
                    counts=counts,
                    trials=None if trials is None else trials[rows],
                )
            )
    quantiles = np.concatenate(found, axis=1)
    members[0].refuse_overflow("The quantile", quantiles, X_new)
    return quantiles


def split_into_batches(
    covariance: Covariance, X_new: FloatArray
) -> list[tuple[slice, FloatArray | CrossCovariance]]:
    """Part new rows into batches, bound to the kernel where that takes little memory.

    Bound rows keep their distances to the training inputs, which all thetas share.
    """
    few = len(X_new) * len(covariance.X) <= _MAX_DISTANCES
    return [
        (rows, covariance.at_new(X_new[rows]) if few else X_new[rows])
        for rows in (slice(i, i + ROW_BATCH) for i in range(0, len(X_new), ROW_BATCH))
    ]


def _summarize(
    groups: Sequence[Group],
    strategy: LatentStrategy,
    cache: FactorCache,
    summary: Summary,
    X_new: FloatArray,
) -> FloatArray:
    """Combine a summary over the draws of some groups; (k, m) or (k, C, m)."""
    with one_thread(), ignore_overflow():
        batches = split_into_batches(groups[0].model.covariance, X_new)
        totals: list[FloatArray | None] = [None] * len(batches)
        for group in groups:
            # The matrices of a theta go with its iterator, unless there is room for them.
            for conditional, log_weight in cache.parts(strategy, group):
                for i, (rows, X) in enumerate(batches):
                    value = summary.of(group.theta, conditional.predict(X), rows, log_weight)
                    total = totals[i]
                    totals[i] = value if total is None else summary.combine(total, value)
    return np.concatenate([total for total in totals if total is not None], axis=-1)


def _total_variance(
    mean: FloatArray, square: FloatArray, within: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of a mixture, from the means of its means, their squares and variances."""
    return mean, np.maximum(square - mean**2, 0.0) + within


def broadcast_to_rows(offset: FloatArray | float, X_new: FloatArray) -> FloatArray:
    """Return one offset for each row."""
    return np.broadcast_to(np.asarray(offset, dtype=float), len(X_new))
