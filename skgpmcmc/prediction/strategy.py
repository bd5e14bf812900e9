"""One theta at a time: the draws that share it, how f is averaged there, and what is added up.

What averages need of a theta is kept from one prediction to the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from .._typing import FloatArray, IntArray
from ..importance.density import Density
from ..importance.estimate import importance_estimate, log_importance_weights
from ..importance.interpolated import make_density
from ..likelihoods.base import Likelihood
from ..model.joint import LatentGP
from ..model.prior import Conditional, GaussianPrior, LatentMoments
from ..numerics.linalg import NotPositiveDefiniteError, log_sum

#: Most draws whose f are handled at once.
_MOST_AT_ONCE = 400
#: Importance draws of f for each further draw that has the same theta.
_N_MORE = 4
#: Pairs of continuations of each f to a new row, where classes have a latent function each.
_N_PAIRS = 2


# --- draws with equal theta -----------------------------------------------------------------------


def stream_of(theta: FloatArray, seed: int, *purpose: int) -> np.random.Generator:
    """Return the random numbers that belong to a theta, others for another purpose."""
    return np.random.default_rng([seed, *purpose, *theta.view(np.uint32).tolist()])


class Group(NamedTuple):
    """Draws with equal theta."""

    model: LatentGP
    theta: FloatArray  # (p,)
    f: FloatArray  # (g, n)
    multiplicity: FloatArray  # (g,), how many draws each stands for
    density_arrays: tuple[FloatArray, ...]  # each (n,), see `Predictor`

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """All that distinguishes these draws from others of the model."""
        return (self.theta, self.f, self.multiplicity, *self.density_arrays)

    def prior(self) -> GaussianPrior:
        """Return the prior of f there; it is factored anew at every call."""
        return self.model.prior_at(self.theta)

    def density(self) -> Density:
        """Return the density near p(f | y, theta), factored anew at every call."""
        return make_density(self.model, self.prior(), *self.density_arrays)

    def some_at_a_time(self) -> Iterator[Group]:
        """Give the draws, as many at a time as fit in memory.

        Yields
        ------
        Group
            Some of them.
        """
        for some in np.array_split(np.arange(len(self.f)), -(-len(self.f) // _MOST_AT_ONCE)):
            yield self._replace(f=self.f[some], multiplicity=self.multiplicity[some])


# --- what is kept ---------------------------------------------------------------------------------


class WeightedConditional(NamedTuple):
    """Some of what f is averaged over at a theta."""

    conditional: Conditional  # f* given some f, a column each
    log_weight: FloatArray  # (g,), of the columns; over all parts they add up to the multiplicity

    @property
    def n_bytes(self) -> int:
        """Of its arrays."""
        return self.conditional.n_bytes + self.log_weight.nbytes

    def columns_at(self, places: FloatArray) -> IntArray:
        """Return the columns at these places of the cumulative sum of the weights."""
        ends = np.cumsum(np.exp(self.log_weight))
        return np.minimum(np.searchsorted(ends, places, side="right"), len(ends) - 1)


@dataclass(frozen=True, eq=False)
class FactorCache:
    """The parts of thetas that predictions have made, as long as there is room.

    A copy, or a pickle, is empty. The first that come stay: all predictions go through the thetas
    in the same order, and what was needed last is what will be needed last.

    Attributes
    ----------
    room : int
        Most bytes of all arrays that are kept.
    """

    room: int
    _parts: dict[Hashable, tuple[WeightedConditional, ...]] = field(
        default_factory=dict, init=False
    )
    _lock: Lock = field(default_factory=Lock, init=False)  # predictions may run in several threads

    def __reduce__(self) -> tuple[type[FactorCache], tuple[int]]:
        return FactorCache, (self.room,)

    @property
    def n_bytes(self) -> int:
        """Of all that is kept."""
        known = list(self._parts.values())  # at once: another thread may add to them
        return sum(part.n_bytes for parts in known for part in parts)

    def parts(self, strategy: LatentStrategy, group: Group) -> Iterable[WeightedConditional]:
        """Return what a strategy makes of draws, or have it made, part by part, and keep it."""
        key = (strategy, *(array.tobytes() for array in group.arrays))
        known = self._parts.get(key)
        return self._keeping(key, strategy.weighted_conditionals(group)) if known is None else known

    def _keeping(
        self, key: Hashable, parts: Iterable[WeightedConditional]
    ) -> Iterator[WeightedConditional]:
        some: list[WeightedConditional] = []
        fits = True
        for part in parts:
            some.append(part)
            fits = fits and self._with(some) <= self.room
            if not fits:
                some.clear()
            yield part
        with self._lock:
            if fits and self._with(some) <= self.room:
                self._parts[key] = tuple(some)

    def _with(self, more: Iterable[WeightedConditional]) -> int:
        """Bytes of all that is kept, and of more."""
        return self.n_bytes + sum(part.n_bytes for part in more)


# --- how f is averaged ----------------------------------------------------------------------------


@dataclass(frozen=True)
class LatentStrategy(ABC):
    """How f is averaged at the theta of some draws.

    Attributes
    ----------
    seed : int
        Of the random numbers that belong to a theta: the same whenever they are needed.
    inefficiency : float
        Of the columns that f is averaged over: so many are worth one independent draw. 0 where f
        is integrated out.
    """

    inefficiency: ClassVar[float]

    seed: int = 0

    @abstractmethod
    def weighted_conditionals(self, group: Group) -> Iterator[WeightedConditional]:
        """Give what f is averaged over, some at a time."""


@dataclass(frozen=True)
class Integrated(LatentStrategy):
    """One column: f* under the Gaussian approximation of p(f | y, theta), or the exact one.

    f is integrated out under the Gaussian, as in the chains that were run.
    """

    inefficiency: ClassVar[float] = 0.0

    def weighted_conditionals(self, group: Group) -> Iterator[WeightedConditional]:
        """See `LatentStrategy`."""
        conditional = group.density().q.conditional()
        return iter(
            [WeightedConditional(conditional, np.log(group.multiplicity.sum(keepdims=True)))]
        )


@dataclass(frozen=True)
class OwnLatent(LatentStrategy):
    """One column for each draw: its own f, as classical samplers leave it."""

    inefficiency: ClassVar[float] = 1.0

    def weighted_conditionals(self, group: Group) -> Iterator[WeightedConditional]:
        """See `LatentStrategy`."""
        prior = group.prior()
        some_at_a_time = group.some_at_a_time()
        return (
            WeightedConditional(prior.condition_on(some.f.T), np.log(some.multiplicity))
            for some in some_at_a_time
        )


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
        """Importance draws of f at a theta whose draws have this multiplicity together.

        All draws of a theta compete with the same ones, so that the noise of an average there is
        theirs: for it to fall with the number of draws, they have to grow with it.
        """
        return self.n + int(_N_MORE * max(multiplicity / self.unit - 1.0, 0.0))

    def weighted_conditionals(self, group: Group) -> Iterator[WeightedConditional]:
        """See `LatentStrategy`."""
        density = group.density()
        rng = stream_of(group.theta, self.seed)
        weighted = partial(self._weighted_latent, density=density, rng=rng)
        return map(weighted, group.some_at_a_time())

    def _weighted_latent(
        self, group: Group, density: Density, rng: np.random.Generator
    ) -> WeightedConditional:
        """All f that stand for some draws, and their weights."""
        model = group.model
        own = group.f.T
        n = self.n_fresh(group.multiplicity.sum())
        try:
            fresh = importance_estimate(
                model, density.factorize(), n, rng, defensive=self.defensive
            )
        except NotPositiveDefiniteError as error:
            raise ValueError(_no_factor(model, group.theta)) from error
        own_log = log_importance_weights(model, density, own, defensive=self.defensive)
        # Each own f competes with all fresh ones: conditional importance sampling.
        log_total = np.logaddexp(own_log, log_sum(fresh.log_weights))
        log_share = np.log(group.multiplicity) - log_total
        log_weight = np.concatenate([own_log + log_share, fresh.log_weights + log_sum(log_share)])
        every = np.concatenate([own, fresh.particles], axis=1)
        return WeightedConditional(density.q.prior.condition_on(every), log_weight)


def _no_factor(model: LatentGP, theta: FloatArray) -> str:
    """Message for a theta of the chains at which f cannot be drawn anew."""
    values = model.hyperprior.describe(theta)
    return (
        f"The prediction needs draws of f at hyper-parameters {values}, where a chain has been, "
        "and the covariance of f given y cannot be factored there: use priors that do not reach so "
        "far."
    )


# --- what is added up over draws ------------------------------------------------------------------


class Summary(Protocol):
    """What is added up over draws."""

    combine: ClassVar[np.ufunc]

    def of(
        self, theta: FloatArray, moments: LatentMoments, rows: slice, log_weight: FloatArray
    ) -> FloatArray:
        """Weighted sum over the columns of means, with log weights (g,); (..., rows)."""


@dataclass(frozen=True, eq=False)
class LogPredictive:
    """Log of the sum of p(y* | draw) for each of k candidate targets; sums are taken in logs."""

    model: LatentGP
    y_new: FloatArray  # (k, m)
    offset: FloatArray  # (m,)
    combine: ClassVar[np.ufunc] = np.logaddexp

    def of(
        self, theta: FloatArray, moments: LatentMoments, rows: slice, log_weight: FloatArray
    ) -> FloatArray:
        """See `Summary`."""
        likelihood = self.model.likelihood_at(theta).at_new_rows()
        mean = moments.mean + self.offset[rows, None]
        terms = [
            likelihood.log_predictive(y[rows, None], mean, moments.var[:, None]) for y in self.y_new
        ]
        # A wide prior draws f whose densities are no numbers; without weight they have no part.
        weightless = np.exp(log_weight) == 0.0
        terms = [np.where(weightless & np.isnan(term), -np.inf, term) for term in terms]
        return np.stack([log_sum(term + log_weight, overwrite=True) for term in terms])


@dataclass(frozen=True, eq=False)
class ClassProbabilities:
    """Sums of the probabilities of all classes of a softmax; (C, m).

    Its mean over f* ~ N(mean, var) has no closed form: every f is continued to a new row by a few
    antithetic pairs of normal numbers for each class, which all rows share and each theta has anew.
    """

    seed: int
    combine: ClassVar[np.ufunc] = np.add

    def of(
        self, theta: FloatArray, moments: LatentMoments, rows: slice, log_weight: FloatArray
    ) -> FloatArray:
        """See `Summary`."""
        mean = moments.mean
        sd = np.sqrt(moments.var)[..., None]
        rng = stream_of(theta, self.seed, 1)
        total = np.zeros(mean.shape[:2])
        for _ in range(_N_PAIRS):
            step = sd * rng.standard_normal((len(mean), 1, mean.shape[2]))
            for f in (mean + step, mean - step):
                f -= f.max(axis=0)
                p = np.exp(f, out=f)
                total += (p / p.sum(axis=0)) @ np.exp(log_weight)
        return total / (2 * _N_PAIRS)


#: Values (k, ..., m, g) of functions of f* ~ N(mean, var), mean (..., m, g) and var (..., m, 1).
LatentFunction = Callable[[Likelihood, FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Expectation:
    """Sums of functions of the moments of f*."""

    model: LatentGP
    function: LatentFunction
    offset: FloatArray  # (m,)
    combine: ClassVar[np.ufunc] = np.add

    def of(
        self, theta: FloatArray, moments: LatentMoments, rows: slice, log_weight: FloatArray
    ) -> FloatArray:
        """See `Summary`."""
        likelihood = self.model.likelihood_at(theta).at_new_rows()
        weight = np.exp(log_weight)
        # An f without weight has no part in an average, not even where a function of it overflows:
        # a wide prior draws such f.
        used = weight > 0.0
        mean = moments.mean[..., used] + self.offset[rows, None]
        return self.function(likelihood, mean, moments.var[..., None]) @ weight[used]


def mean_of_target(likelihood: Likelihood, mean: FloatArray, var: FloatArray) -> FloatArray:
    """Mean of a target given the moments of f*."""
    return np.broadcast_to(likelihood.predictive_moments(mean, var).mean, (1, *mean.shape))


def moments_of_target(likelihood: Likelihood, mean: FloatArray, var: FloatArray) -> FloatArray:
    """Mean, squared mean and variance of a target given the moments of f*."""
    moments = likelihood.predictive_moments(mean, var)
    values = (moments.mean, moments.mean**2, moments.var)
    return np.stack([np.broadcast_to(value, mean.shape) for value in values])


def moments_of_latent(likelihood: Likelihood, mean: FloatArray, var: FloatArray) -> FloatArray:
    """Mean, squared mean and variance of f* itself."""
    return np.stack([mean, mean**2, np.broadcast_to(var, mean.shape)])
