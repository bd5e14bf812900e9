"""Quantiles of new targets: where the average of distribution functions reaches a probability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import elementwise

from .._typing import FloatArray, IntArray
from ..likelihoods.base import Likelihood
from ..model.covariance import CrossCovariance
from .draws import WeightedDraws
from .groups import group_equal_rows, make_stream

#: Terms of a distribution function, at least, over all thetas: the search evaluates it often.
_TERMS = 200
#: Purpose of the random numbers of quantiles, for their stream.
_OF_QUANTILES = 2
#: Terms whose integrals are made at once: their nodes stay in the processor's cache.
_TERMS_PER_CALL = 5000
#: Relative error of a probability; where the quantile is zero nothing else would end the search.
_QUANTILE_TOLERANCE = 1e-9
#: Roots this near above an integer, relative to it, are that integer.
_NEAR_INTEGER = 1e-9


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
    encoded_zero: FloatArray | float = 0.0,
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
    encoded_zero : ndarray of shape (m,), or float
        How the likelihood encodes a count of zero; of others it is that plus the count.

    Returns
    -------
    ndarray of shape (k, m)
        Counts, or on the scale of encoded targets.
    """
    zero = np.broadcast_to(encoded_zero, len(components[0].var))
    largest = components[0].likelihood.largest_log_count
    center = np.mean([c.mean.mean(axis=1) for c in components], axis=0)
    spread = np.max([np.sqrt(c.var) + 1.0 for c in components], axis=0)

    def cdf(y: FloatArray, row: FloatArray) -> FloatArray:
        """Return the probability that a target is at most y in some rows."""
        at = row.astype(np.intp)
        return np.asarray(sum(component.cdf(zero[at] + y, at) for component in components))

    def gap(place: FloatArray, row: FloatArray, probability: FloatArray) -> FloatArray:
        """Return the distribution function at a place, minus a probability."""
        if not counts:
            return cdf(place, row) - probability
        # Counts are looked for on the scale of f, and what is below zero stands for zero.
        at_most = cdf(np.expm1(np.clip(place, 0.0, largest)), row)
        return at_most * np.exp(np.minimum(place, 0.0)) - probability

    every = np.arange(len(center), dtype=float)
    found = []
    for probability in probabilities:
        args: Any = (every, np.full(len(center), probability))
        bracket = elementwise.bracket_root(gap, center - spread, center + spread, args=args).bracket
        error = _QUANTILE_TOLERANCE * min(probability, 1.0 - probability)
        root = elementwise.find_root(gap, bracket, args=args, tolerances={"fatol": error}).x
        if counts:  # the first integer from the root on that is no less than zero
            root = np.maximum(np.expm1(root), 0.0)
            root = np.ceil(root - _NEAR_INTEGER * (1.0 + root))
        found.append(root)
    return np.stack(found)


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
