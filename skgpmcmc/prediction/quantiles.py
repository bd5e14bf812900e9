"""Quantiles of new targets: where the average of distribution functions reaches a probability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import elementwise

from .._typing import FloatArray, IntArray
from ..likelihoods.base import Likelihood
from ..likelihoods.binomial import encode
from ..model.covariance import CrossCovariance
from .draws import WeightedDraws
from .groups import group_equal_rows, make_stream

#: Terms of a distribution function, at least, over all thetas: the search evaluates it often.
_TERMS = 200
#: Purpose of the random numbers of quantiles, for their stream.
_OF_QUANTILES = 2
#: Terms whose integrals are made at once: their nodes stay in the processor's cache.
_TERMS_PER_CALL = 5000
#: Relative error of a probability. It ends the search where the quantile is zero, and exceeds the
#: rounding errors of sums that should equal the probability.
_QUANTILE_TOLERANCE = 1e-9


class Component(NamedTuple):
    """New targets given the draws of one theta."""

    likelihood: Likelihood
    mean: FloatArray  # (m, g), of f*
    var: FloatArray  # (m,)
    share: FloatArray  # (g,), of the posterior

    def thin(self, n: int, rng: np.random.Generator) -> Component:
        """Return a component with at most n means in each row, one from each n-th of the sorted.

        Means are drawn by their shares: nothing is biased, and few are nearly as good as all.
        """
        if len(self.share) <= n:
            return self
        total = self.share.sum()
        places = total * (np.arange(n) + rng.uniform(size=n)) / n
        order = np.argsort(self.mean, axis=1)
        ends = np.cumsum(self.share[order], axis=1)
        last = len(self.share) - 1
        at = [np.minimum(np.searchsorted(row, places), last) for row in ends]
        chosen = np.take_along_axis(order, np.reshape(at, (-1, n)), axis=1)
        mean = np.take_along_axis(self.mean, chosen, axis=1)
        return self._replace(mean=mean, share=np.full(n, total / n))

    def cdf(self, y: FloatArray, rows: IntArray) -> FloatArray:
        """Return the share of these draws times the probability of at most y, in some rows."""
        found = np.empty(len(rows))
        step = max(_TERMS_PER_CALL // len(self.share), 1)
        for some in (slice(i, i + step) for i in range(0, len(rows), step)):
            at = rows[some]
            moments = self.mean[at], self.var[at, None]
            found[some] = self.likelihood.predictive_cdf(y[some, None], *moments) @ self.share
        return found


def find_quantiles(
    components: Sequence[Component],
    probabilities: Sequence[float],
    *,
    counts: bool,
    trials: FloatArray | None = None,
) -> FloatArray:
    """Return quantiles of targets at the rows of a batch.

    Parameters
    ----------
    components : sequence of Component
        Distributions at m rows, whose shares add up to one.
    probabilities : sequence of k floats
        Between 0 and 1.
    counts : bool
        Whether targets are counts.
    trials : ndarray of shape (m,), optional
        Number of trials, if targets are successes in trials.

    Returns
    -------
    ndarray of shape (k, m)
        Counts, or on the scale of encoded targets.
    """
    zero = np.zeros(len(components[0].var)) if trials is None else encode(0.0, trials)
    center = np.mean([c.mean.mean(axis=1) for c in components], axis=0)
    spread = np.max([np.sqrt(c.var) + 1.0 for c in components], axis=0)

    def cdf(y: FloatArray, row: IntArray) -> FloatArray:
        """Return the probability that a target is at most y in some rows."""
        return np.asarray(sum(component.cdf(zero[row] + y, row) for component in components))

    if counts:
        largest = np.exp(components[0].likelihood.largest_log_count)
        # The link of counts without trials is the exponential function.
        first = np.minimum(np.ceil(np.exp(center)), largest) if trials is None else trials
        return np.stack([_find_counts(cdf, p, first, largest) for p in probabilities])

    def gap(place: FloatArray, row: FloatArray, probability: FloatArray) -> FloatArray:
        """Return the distribution function at a place, minus a probability."""
        return cdf(place, row.astype(np.intp)) - probability

    every = np.arange(len(center), dtype=float)
    found = []
    for probability in probabilities:
        args: Any = (every, np.full(len(center), probability))
        bracket = elementwise.bracket_root(gap, center - spread, center + spread, args=args).bracket
        error = _tolerance(probability)
        found.append(elementwise.find_root(gap, bracket, args=args, tolerances={"fatol": error}).x)
    return np.stack(found)


def _tolerance(probability: float) -> float:
    return _QUANTILE_TOLERANCE * min(probability, 1.0 - probability)


def _find_counts(
    cdf: Callable[[FloatArray, IntArray], FloatArray],
    probability: float,
    first: FloatArray,
    largest: float,
) -> FloatArray:
    """Return the least counts that have at least a probability at or below them; (m,).

    Counts double, beginning at `first` (m,), until there is such a count; beyond `largest` it is
    infinite. Then the interval of counts is halved until one is left.
    """
    enough = probability - _tolerance(probability)
    low = np.full(len(first), -1.0)
    high = np.array(first)
    rows = np.arange(len(first))
    while len(rows):
        rows = rows[cdf(high[rows], rows) < enough]
        low[rows] = high[rows]
        high[rows] = 2.0 * high[rows] + 1.0
        high[high > largest] = np.inf
        rows = rows[np.isfinite(high[rows])]
    while True:
        middle = np.floor(0.5 * (low + high))
        (rows,) = np.nonzero((low < middle) & (middle < high) & np.isfinite(high))
        if not len(rows):
            return high
        is_enough = cdf(middle[rows], rows) >= enough
        high[rows[is_enough]] = middle[rows[is_enough]]
        low[rows[~is_enough]] = middle[rows[~is_enough]]


def make_components(
    draws: WeightedDraws,
    X: FloatArray | CrossCovariance,
    offset: FloatArray,
    law: Likelihood | None = None,
) -> list[Component]:
    """Return the distributions of targets at rows X (m, d), where `offset` (m,) is added to f*.

    Each has at most an equal share of the terms. With `law` targets have this likelihood, whatever
    that of the draws.
    """
    components = []
    at_theta = group_equal_rows(draws.theta)
    n_terms = -(-_TERMS // len(at_theta))
    for group in map(draws.group, at_theta):
        rng = make_stream(group.theta, draws.strategy.seed, _OF_QUANTILES)
        likelihood = law or draws.model.likelihood_at(group.theta).at_new_rows()
        for part in draws.parts(group):
            mean, var = part.conditional.predict(X)
            share = np.exp(part.log_weight) / draws.total
            component = Component(likelihood, mean + offset[:, None], var, share)
            components.append(component.thin(n_terms, rng))
    return components
