"""How f is averaged at one theta: under a Gaussian, by the draws alone, or by importance draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from .._typing import FloatArray, IntArray
from ..importance.estimate import importance_estimate, log_importance_weights
from ..model.prior import Conditional
from ..numerics.linalg import NotPositiveDefiniteError, log_sum
from .groups import Group, make_stream

#: Importance draws of f for each further draw that has the same theta; see `n_fresh`.
_N_MORE = 4


class WeightedConditional(NamedTuple):
    """f* given some of the f that are averaged over at a theta, with the weight of each."""

    conditional: Conditional  # f* given some f, a column each
    log_weight: FloatArray  # (g,), of the columns; over all parts they add up to the multiplicity

    def find_columns(self, places: FloatArray) -> IntArray:
        """Return the columns at these places of the cumulative sum of the weights."""
        ends = np.cumsum(np.exp(self.log_weight))
        return np.minimum(np.searchsorted(ends, places, side="right"), len(ends) - 1)


@dataclass(frozen=True)
class LatentStrategy(ABC):
    """How f is averaged at the theta of some draws.

    Attributes
    ----------
    seed : int
        Seed of the random numbers of each theta, which are the same whenever they are needed.
    inefficiency : float
        Number of columns that are worth one independent draw of f; 0 where f is integrated out.
    """

    inefficiency: ClassVar[float]

    seed: int = 0

    @abstractmethod
    def make_conditionals(self, group: Group) -> Iterator[WeightedConditional]:
        """Give f* given what f is averaged over at the theta of a group, in portions.

        Yields
        ------
        WeightedConditional
            The law of f* for a portion of the draws of the group, with log weights.
        """


@dataclass(frozen=True)
class Integrated(LatentStrategy):
    """One column: f* under the Gaussian approximation of p(f | y, theta), or the exact one.

    f is integrated out under the Gaussian, as in the chains that were run.
    """

    inefficiency: ClassVar[float] = 0.0

    def make_conditionals(self, group: Group) -> Iterator[WeightedConditional]:
        """See `LatentStrategy`.

        Yields
        ------
        WeightedConditional
        """
        conditional = group.make_density().q.conditional()
        yield WeightedConditional(conditional, np.log(group.multiplicity.sum(keepdims=True)))


@dataclass(frozen=True)
class OwnLatent(LatentStrategy):
    """One column for each draw: its own f, as classical samplers leave it."""

    inefficiency: ClassVar[float] = 1.0

    def make_conditionals(self, group: Group) -> Iterator[WeightedConditional]:
        """See `LatentStrategy`.

        Yields
        ------
        WeightedConditional
        """
        prior = group.model.prior_at(group.theta)
        for some in group.split_into_portions():
            yield WeightedConditional(prior.condition_on(some.f.T), np.log(some.multiplicity))


@dataclass(frozen=True)
class ImportanceLatent(OwnLatent):
    """Columns for each draw's own f and for importance draws, with their weights.

    That is one refresh of a pseudo-marginal chain, so that averages stay those of the exact
    posterior, and have far less noise than with the draw's own f alone.

    Attributes
    ----------
    n : int
        Importance draws for one draw.
    defensive : float
        Share of the prior in the mixture that they come from.
    unit : float
        Multiplicity that counts as one draw.
    """

    inefficiency: ClassVar[float] = 3.0  # weights differ

    n: int = 48
    defensive: float = 0.0
    unit: float = 1.0

    def n_fresh(self, multiplicity: float) -> int:
        """Return the number of importance draws at a theta whose draws have this multiplicity.

        All draws of a theta compete with the same importance draws, whose noise an average at that
        theta has: it falls with the number of draws only if importance draws become more too.
        """
        return self.n + int(_N_MORE * max(multiplicity / self.unit - 1.0, 0.0))

    def make_conditionals(self, group: Group) -> Iterator[WeightedConditional]:
        """See `LatentStrategy`.

        Yields
        ------
        WeightedConditional
        """
        model = group.model
        density = group.make_density()
        rng = make_stream(group.theta, self.seed)
        for some in group.split_into_portions():
            own = some.f.T
            n = self.n_fresh(some.multiplicity.sum())
            try:
                fresh = importance_estimate(
                    model, density.factorize(), n, rng, defensive=self.defensive
                )
            except NotPositiveDefiniteError as error:
                values = model.hyperprior.describe(group.theta)
                raise ValueError(
                    f"The prediction needs draws of f at hyper-parameters {values}, where a chain "
                    "has been, and the covariance of f given y cannot be factored there: use "
                    "priors that do not reach so far."
                ) from error
            own_log = log_importance_weights(model, density, own, defensive=self.defensive)
            # Each own f competes with all fresh ones: conditional importance sampling.
            log_total = np.logaddexp(own_log, log_sum(fresh.log_weights))
            log_share = np.log(some.multiplicity) - log_total
            log_weight = [own_log + log_share, fresh.log_weights + log_sum(log_share)]
            every = np.concatenate([own, fresh.particles], axis=1)
            conditional = density.q.prior.condition_on(every)
            yield WeightedConditional(conditional, np.concatenate(log_weight))
