"""The base class of samplers, and the samplers of theta with f integrated out.

f is integrated out by an unbiased estimate, by an approximation, or exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from .._params import Configuration, check_choice, check_in
from ..chain.executor import Executor
from ..likelihoods.base import Likelihood
from ..model.joint import LatentGP
from ..model.kernels import check_gradient
from ..setup.emulated import set_up_emulated
from ..setup.random_walk import set_up_random_walk
from ..setup.report import EmulatorSettings
from ..setup.request import N_IMPORTANCE, PreparedChains, Request
from ..setup.schedule import WarmUpSchedule
from ..transitions.metropolis import MarginalMetropolis
from ..transitions.pseudo_marginal import PseudoMarginalMetropolis

#: Default warm-up iterations of a sampler whose moves are tuned.
_N_TUNED = 500
#: Default warm-up iterations of a sampler that learns: burn-in from overdispersed starts.
_N_BURN_IN = 10
#: Rounds of a set-up that learns, for progress reports: the last round has all later batches.
_LEARNING_ROUNDS = 4
#: Approximate evaluations per hyper-parameter of a set-up that learns, for progress reports.
_N_LEARNED = 30
#: Names of the moves of `PseudoMarginal`.
_MOVE_NAMES = ("emulated", "trajectories", "random_walk")


@dataclass(eq=False)
class Sampler(Configuration, ABC):
    """Base class of samplers: how the chains move on (theta, f).

    Parameters
    ----------
    target_acceptance : float in (0, 1), default=0.25
        Acceptance rate to which warm-up tunes a random walk on the approximate marginal posterior
        of theta. Filippone & Girolami (2014), section 4.4, use 20 to 30 %.
    """

    #: Whether f is integrated out exactly, so that no approximation is needed.
    integrates_f: ClassVar[bool] = False
    #: Name of the approximation that suits the sampler best; None if it uses none.
    best_approximation: ClassVar[str | None] = "ep"
    #: Most n x n matrices of doubles that a worker holds per latent function, as measured.
    n_matrices: ClassVar[float] = 9.0
    #: Most (n, r) matrices that it holds instead, if K has a root of few columns r; None if K
    #: itself is needed.
    n_roots: ClassVar[float | None] = None
    #: Whether the sampler estimates p(y | theta) by `n_importance` draws.
    estimates: ClassVar[bool] = False
    #: Whether proposals come from a cheap posterior, which the estimator's `approximation` names.
    moves_by_cheap: ClassVar[bool] = False
    #: Whether the sampler works with likelihoods that have several latent functions.
    many_functions: ClassVar[bool] = True

    target_acceptance: float = 0.25

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        check_in("sampler: target_acceptance", self.target_acceptance, "(0, 1)")

    def check_likelihood(self, likelihood: Likelihood) -> None:
        """Raise a ValueError if the sampler cannot work with the likelihood."""
        if not self.many_functions:
            likelihood.check_single(f"sampler={type(self).__name__}", 'sampler="pm"')

    @property
    def approximates(self) -> bool:
        """Whether an approximation of p(f | y, theta) is in use."""
        return self.best_approximation is not None and not self.integrates_f

    @property
    def follows_gradient(self) -> bool:
        """Whether the moves of theta use gradients, which the kernel must then provide."""
        return self.learns

    def check_model(self, model: LatentGP) -> None:
        """Raise a ValueError if the sampler cannot work with the kernel or the priors."""
        if self.follows_gradient:
            remedy = "use a sampler that follows none, such as PseudoMarginal(moves='random_walk')"
            check_gradient(model.covariance, remedy)

    def prepare_model(self, model: LatentGP) -> LatentGP:
        """Return the model that is sampled; by default the same."""
        return model

    @property
    def learns(self) -> bool:
        """Whether the set-up learns an emulator for proposals, so that warm-up tunes nothing."""
        return False

    def n_warmup(self, wanted: int | None) -> int:
        """Return the discarded iterations per chain; `wanted` is None for the sampler's choice."""
        if wanted is not None:
            return wanted
        return _N_BURN_IN if self.learns else _N_TUNED

    def n_set_up_rounds(self, n_warmup: int) -> int:
        """Return the number of rounds before the first draw; the last round is burn-in."""
        begun = (
            _LEARNING_ROUNDS if self.learns else 1 + len(WarmUpSchedule.of_length(n_warmup).windows)
        )
        return begun + 1

    def n_set_up_evaluations(self, dim: int) -> int:
        """Estimate how many evaluations the set-up needs for `dim` hyper-parameters."""
        return _N_LEARNED * dim if self.learns else 0

    @abstractmethod
    def set_up(self, request: Request, workers: Executor) -> PreparedChains:
        """Prepare the chains of one model; workers do the work."""


@dataclass(eq=False)
class PseudoMarginal(Sampler):
    """Pseudo-marginal MCMC on theta: asymptotically exact draws of (theta, f).

    Parameters
    ----------
    target_acceptance : float in (0, 1), default=0.25
        See `Sampler`; only used with ``moves="random_walk"``.
    defensive : float in [0, 1), default=0.05
        Proportion of the importance draws that come from the prior. It bounds the importance
        weights; with 0, as in the paper, their variance can be infinite and chains can get stuck.
    moves : {"emulated", "trajectories", "random_walk"}, default="emulated"
        Proposals of theta. "emulated": they come from an emulator of the marginal likelihood,
        learned in the set-up, by rotations with at most three hyper-parameters and by a cheap
        Markov chain with more; a Metropolis-Hastings step with the likelihood estimate makes them
        exact. "trajectories": from Hamiltonian trajectories under the gradient
        of the approximate marginal likelihood; "emulated" uses these too if its emulator is poor.
        "random_walk": the tuned random walk of the papers.
    noise : float > 0, default=0.24
        Target of ``n_importance="auto"`` for every model: standard deviation of the estimate of
        log p(y | theta). The number of importance draws at every theta follows from it, and so do
        the rows whose values a draw takes sequentially, whatever ``n_importance`` is. Not used
        with ``moves="random_walk"``.
    """

    n_roots: ClassVar[float | None] = 6.0
    estimates: ClassVar[bool] = True

    defensive: float = 0.05
    moves: str = "emulated"
    noise: float = 0.24

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        super().check()
        check_in("sampler: defensive", self.defensive, "[0, 1)")
        check_in("sampler: noise", self.noise, "(0, inf)")
        check_choice("sampler: moves", self.moves, _MOVE_NAMES)

    @property
    def learns(self) -> bool:
        """Whether the set-up learns an emulator, rather than that warm-up tunes a walk."""
        return self.moves != "random_walk"

    def set_up(self, request: Request, workers: Executor) -> PreparedChains:
        """Learn an emulator, or tune a random walk."""
        if self.learns:
            settings = EmulatorSettings(
                self.noise, self.defensive, request.n_importance, self.moves == "emulated"
            )
            return set_up_emulated(request, workers, settings)
        count = N_IMPORTANCE if request.n_importance is None else request.n_importance
        frozen = partial(
            PseudoMarginalMetropolis,
            request.approximation,
            n_importance=count,
            defensive=self.defensive,
        )
        return set_up_random_walk(request, self.target_acceptance, frozen, workers)


@dataclass(eq=False)
class Marginal(Sampler):
    """MCMC on the approximate marginal posterior of theta (the papers' MCMC EP).

    The likelihood has no Monte Carlo noise, but the target is the posterior of the approximation
    and not the exact one. Predictions use the Gaussian approximation at each theta.

    Parameters
    ----------
    target_acceptance : float in (0, 1), default=0.25
        See `Sampler`; only used with ``moves="random_walk"``.
    moves : {"emulated", "random_walk"}, default="emulated"
        As for `PseudoMarginal`, except that the approximate evidence takes the place of the
        likelihood estimate. "emulated" goes over to Hamiltonian trajectories on the approximate
        posterior if its emulator is poor.
    """

    n_matrices: ClassVar[float] = 7.0
    n_roots: ClassVar[float | None] = 6.0
    # Predictions from q are implemented for one latent function only.
    many_functions: ClassVar[bool] = False

    moves: str = "emulated"

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        super().check()
        check_choice("sampler: moves", self.moves, ("emulated", "random_walk"))

    @property
    def learns(self) -> bool:
        """Whether the set-up learns an emulator, rather than that warm-up tunes a walk."""
        return self.moves != "random_walk"

    def set_up(self, request: Request, workers: Executor) -> PreparedChains:
        """Learn an emulator of the approximate evidence, or tune a random walk on it."""
        if self.learns:
            return set_up_emulated(request, workers, None)
        frozen = partial(MarginalMetropolis, request.approximation)
        return set_up_random_walk(request, self.target_acceptance, frozen, workers)


@dataclass(eq=False)
class Collapsed(Sampler):
    """MCMC on theta with f integrated out in closed form, for Gaussian likelihoods: exact.

    With more than four hyper-parameters, unless there are many rows, chains follow
    Hamiltonian trajectories on the exact marginal posterior. Otherwise proposals come from an
    emulator of the marginal likelihood, learned in the set-up, and a Metropolis-Hastings step with
    the exact marginal likelihood corrects them; if the emulator is poor, trajectories take its
    place. The chains do not contain f: predictions integrate it out, and draws of f are made on
    request.

    Parameters
    ----------
    target_acceptance : float in (0, 1), default=0.25
        Not used.
    """

    integrates_f: ClassVar[bool] = True
    n_matrices: ClassVar[float] = 7.0
    n_roots: ClassVar[float | None] = 6.0
    learns: ClassVar[bool] = True

    def check_likelihood(self, likelihood: Likelihood) -> None:
        """Raise a ValueError unless the likelihood is Gaussian."""
        if not likelihood.quadratic:
            raise ValueError(
                'sampler="collapsed" integrates f out, which only a Gaussian likelihood allows; '
                f'the likelihood is {likelihood.name!r}: use sampler="pm".'
            )

    def set_up(self, request: Request, workers: Executor) -> PreparedChains:
        """Learn an emulator of the evidence, or trajectories; `n_importance` is not used."""
        return set_up_emulated(request, workers, None, draws_latent=False)
