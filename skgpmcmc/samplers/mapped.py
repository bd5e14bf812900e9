"""Samplers whose proposals come from a cheap approximate posterior, by temporary mapping: exact."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from .._params import check_in, check_integer
from ..approximations.exact import Exact
from ..chain.executor import Executor
from ..hyperposterior.cheap import CHEAP_APPROXIMATIONS, CheapApproximation, evidence_cost
from ..likelihoods.base import Likelihood
from ..setup.mapped import MappedSettings, set_up_mapped
from ..setup.request import N_IMPORTANCE, PreparedChains, Request
from ..transitions.langevin import Langevin
from ..transitions.mapping import DiscretizingMap, Layer, TemperedProposal
from ..transitions.metropolis import MarginalMetropolis, RandomWalk
from ..transitions.operator import Operator
from ..transitions.pseudo_marginal import PseudoMarginalMetropolis
from .base import Sampler
from .within_gibbs import make_operator

#: Default tuning iterations of R: few, as each evaluates a cheap posterior many times.
_N_WARMUP = 100
#: Names of the operators R.
_OPERATORS = ("slice", "mh", "hmc")


@dataclass(eq=False)
class MappedSampler(Sampler):
    """Base class of samplers that propose theta by a cheap approximate posterior pi*.

    pi* comes from the estimator's `approximation`. Accepting or rejecting by the exact posterior
    makes the sampler exact. With a Gaussian likelihood the evidence is exact; with others it is
    estimated by importance sampling, with new importance draws for each theta.

    Parameters
    ----------
    target_acceptance : float in (0, 1) or None, default=None
        Acceptance rate on pi* to which warm-up tunes `operator`; None is 0.25 for "mh" and 0.7 for
        "hmc". It has no effect on "slice".
    operator : {"slice", "mh", "hmc"} or Operator, default="slice"
        The transition R that moves theta on pi*: univariate slice sampling (each component of theta
        then has a mapping of its own), a random walk, or Hamiltonian trajectories.
    max_leapfrog : int, default=10
        Maximum number of leapfrog steps of a trajectory.
    defensive : float in [0, 1), default=0.05
        See `PseudoMarginal`.
    """

    estimates: ClassVar[bool] = True
    moves_by_cheap: ClassVar[bool] = True

    target_acceptance: float | None = None  # type: ignore[assignment]
    operator: Any = "slice"
    max_leapfrog: int = 10
    defensive: float = 0.05

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        if self.target_acceptance is not None:
            super().check()
        check_integer("sampler: max_leapfrog", self.max_leapfrog, 1)
        check_in("sampler: defensive", self.defensive, "[0, 1)")
        legal = isinstance(self.operator, Operator) and not isinstance(self.operator, Langevin)
        if not legal and self.operator not in _OPERATORS:
            raise ValueError(
                f"sampler: operator must be one of {list(_OPERATORS)}, or an Operator that needs "
                f"no metric; got {self.operator!r}."
            )

    @property
    def follows_gradient(self) -> bool:
        """Whether the moves of theta use gradients, which the kernel must then provide."""
        return self._operator(1).follows_gradient

    def n_warmup(self, wanted: int | None) -> int:
        """Return the discarded iterations per chain; `wanted` is None for the sampler's choice."""
        return _N_WARMUP if wanted is None else wanted

    def set_up(self, request: Request, workers: Executor) -> PreparedChains:
        """Choose the size m of the cheap posterior if it is "auto", and tune R on pi*."""
        assert request.cheap is not None  # the estimator always provides one
        cheap = self._cheap(request.cheap)
        count = N_IMPORTANCE if request.n_importance is None else request.n_importance
        cost = evidence_cost(request.model, request.approximation)
        if not isinstance(request.approximation, Exact):
            cost += 2.0 * count * float(request.model.n_inputs) ** 2
        operators = [self._operator(len(request.model.start))] * len(cheap)
        make = partial(self._make_move, partial(self._make_exact, request.approximation, count))
        wanted = MappedSettings(cheap, operators, self._n_updates(len(cheap)), make, cost)
        return set_up_mapped(request, wanted, workers)

    def _operator(self, dim: int) -> Operator:
        return make_operator(self.operator, dim, self.max_leapfrog, self.target_acceptance)

    def _cheap(self, first: CheapApproximation) -> Sequence[CheapApproximation]:
        """Return the cheap approximation of each layer."""
        return (first,)

    @abstractmethod
    def _n_updates(self, n_layers: int) -> Sequence[int]:
        """Return the updates by R in each layer."""

    @abstractmethod
    def _make_move(self, exact: Any, layers: Sequence[Layer]) -> Any:
        """Make the move of theta from layers; `exact` makes what evaluates the target."""

    def _make_exact(self, approximation: Any, count: int, proposal: Any, name: str) -> Any:
        """Make the transition that evaluates the target, in closed form or by an estimate."""
        if isinstance(approximation, Exact):
            return MarginalMetropolis(approximation, proposal, name=name)
        return PseudoMarginalMetropolis(approximation, proposal, count, self.defensive, name)


@dataclass(eq=False)
class DiscretizingChain(MappedSampler):
    """Mapping to a discretizing chain: theta moves along a chain on a cheap posterior.

    In each iteration, a Markov chain that leaves the cheap posterior invariant runs through the
    present theta, and a mark moves along its points. Moves of the mark are accepted or rejected by
    the exact posterior. The points after all moves are in `marked_samples_`; `theta_samples_` has
    those at the end of each iteration.

    Parameters
    ----------
    target_acceptance, operator, max_leapfrog, defensive : as in `MappedSampler`
        Moves of theta on the cheap posterior, and the importance sampling.
    n_moves : int, default=1
        Moves of the mark in each iteration, r in the paper. It is the maximum number of evaluations
        of the exact posterior; with slices, the maximum for each component of theta.
    jump : int, default=1
        Number of transitions R that each move of the mark covers, s in the paper.

    References
    ----------
    Wang & Neal (2013), section 3.
    """

    n_moves: int = 1
    jump: int = 1

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        super().check()
        check_integer("sampler: n_moves", self.n_moves, 1)
        check_integer("sampler: jump", self.jump, 1)

    def _n_updates(self, n_layers: int) -> Sequence[int]:
        return (1,)

    def _make_move(self, exact: Any, layers: Sequence[Layer]) -> Any:
        (layer,) = layers
        return DiscretizingMap(exact(RandomWalk(), "not proposing"), layer, self.n_moves, self.jump)


@dataclass(eq=False)
class TemperedTransitions(MappedSampler):
    """Tempered transitions: proposals that go through ever cheaper posteriors and back again.

    Parameters
    ----------
    target_acceptance, operator, max_leapfrog, defensive : as in `MappedSampler`
        Moves of theta on the cheap posteriors, and the importance sampling.
    n_updates : int or sequence of int, default=1
        Number of updates R in each layer on the way up, and the same number on the way down: one
        number for all layers, or one for each.
    layers : sequence of CheapApproximation, default=()
        Layers after that of the estimator's `approximation`, each cheaper than the one before.
        Their `m` must not be "auto".

    References
    ----------
    Wang & Neal (2013), section 4.
    """

    n_updates: Any = 1
    layers: Sequence[Any] = ()

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        super().check()
        for layer in self.layers:
            if not isinstance(layer, CheapApproximation):
                raise ValueError(
                    "sampler: layers must be cheap posteriors such as "
                    f"{CHEAP_APPROXIMATIONS['sod'].__name__}(m=0.1); got {layer!r}."
                )
            layer.check()
            if len(layer.candidates(1000)) > 1:
                raise ValueError(
                    f"sampler: layers has {layer!r}, but m can be 'auto' only in the first layer, "
                    "that of the estimator's approximation: give m a number."
                )
        counts = self.n_updates if isinstance(self.n_updates, Sequence) else (self.n_updates,)
        for count in counts:
            check_integer("sampler: n_updates", count, 1)
        if isinstance(self.n_updates, Sequence) and len(counts) != 1 + len(self.layers):
            raise ValueError(
                f"sampler: n_updates={self.n_updates!r} must have {1 + len(self.layers)} numbers, "
                "one for the estimator's approximation and one for each of layers."
            )

    def check_likelihood(self, likelihood: Likelihood) -> None:
        """Raise a ValueError if a layer cannot work with the likelihood."""
        super().check_likelihood(likelihood)
        for layer in self.layers:
            layer.check_likelihood(likelihood)

    def _cheap(self, first: CheapApproximation) -> Sequence[CheapApproximation]:
        return (first, *self.layers)

    def _n_updates(self, n_layers: int) -> Sequence[int]:
        own = self.n_updates
        return tuple(own) if isinstance(own, Sequence) else (own,) * n_layers

    def _make_move(self, exact: Any, layers: Sequence[Layer]) -> Any:
        return exact(TemperedProposal(layers), "tempered transitions")
