"""Samplers of theta with f integrated out: by an unbiased estimate, approximately, or exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .._params import check_in
from ..likelihoods import Gaussian, Likelihood
from ..transitions import MarginalMetropolis, PseudoMarginalMetropolis, RandomWalk
from ..warmup import (
    N_IMPORTANCE,
    EmulatorSettings,
    Request,
    SetUp,
    set_up_collapsed,
    set_up_emulated,
    set_up_random_walk,
)
from .base import Sampler, check_one_function

_MOVES = ("emulated", "trajectories", "random_walk")


@dataclass(eq=False)
class PseudoMarginal(Sampler):
    """Pseudo-marginal MCMC on theta: asymptotically exact draws of (theta, f).

    Parameters
    ----------
    target_acceptance : float in (0, 1), default=0.25
        See `Sampler`; for ``moves="random_walk"``, and without effect on the others.
    defensive : float in [0, 1), default=0.05
        Share of the importance draws that come from the prior. It bounds the weights; with 0, as
        in the paper, their variance can be infinite and chains can stick.
    moves : {"emulated", "trajectories", "random_walk"}, default="emulated"
        "emulated": proposals come from a cheap chain on an emulator of the marginal likelihood,
        learned in the set-up; the likelihood estimate corrects them exactly. "trajectories": they
        come from Hamiltonian trajectories under the gradient of the approximate marginal
        likelihood, which is also what "emulated" resorts to where its emulator is poor.
        "random_walk": the papers' tuned random walk.
    noise : float > 0, default=0.12
        Standard deviation of the log-likelihood estimate at which ``n_importance="auto"`` aims;
        not for ``moves="random_walk"``.
    """

    estimates: ClassVar[bool] = True

    defensive: float = 0.05
    moves: str = "emulated"
    noise: float = 0.12

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        super().check()
        check_in("sampler", "defensive", self.defensive, "[0, 1)")
        check_in("sampler", "noise", self.noise, "(0, inf)")
        if self.moves not in _MOVES:
            raise ValueError(f"sampler: moves must be one of {list(_MOVES)}; got {self.moves!r}.")

    @property
    def follows_gradient(self) -> bool:
        """Whether theta moves along gradients, which the kernel must then have."""
        return self.learns

    @property
    def learns(self) -> bool:
        """Whether the set-up learns an emulator, rather than that warm-up tunes a walk."""
        return self.moves != "random_walk"

    def set_up(self, request: Request) -> SetUp:
        """Learn an emulator, or tune a random walk."""
        if self.learns:
            settings = EmulatorSettings(
                self.noise, self.defensive, request.n_importance, self.moves == "emulated"
            )
            return set_up_emulated(request, settings)
        count = N_IMPORTANCE if request.n_importance is None else request.n_importance

        def frozen(walk: RandomWalk) -> PseudoMarginalMetropolis:
            return PseudoMarginalMetropolis(request.approximation, walk, count, self.defensive)

        return set_up_random_walk(request, self.target_acceptance, frozen)


@dataclass(eq=False)
class Marginal(Sampler):
    """Random walk on the approximate marginal posterior of theta (the papers' MCMC EP).

    Cheaper than `PseudoMarginal` and free of Monte Carlo noise in the likelihood, but it targets
    the approximation's posterior. Predictions use the approximation's Gaussian at each theta.

    Parameters
    ----------
    target_acceptance : float in (0, 1), default=0.25
        See `Sampler`.
    """

    n_matrices: ClassVar[float] = 7.0

    def check_likelihood(self, likelihood: Likelihood) -> None:
        """Refuse a likelihood with several latent functions, whose q has no predictions."""
        check_one_function(self, likelihood)

    def set_up(self, request: Request) -> SetUp:
        """Tune a random walk on the target itself, the approximate marginal."""

        def frozen(walk: RandomWalk) -> MarginalMetropolis:
            return MarginalMetropolis(request.approximation, walk)

        return set_up_random_walk(request, self.target_acceptance, frozen)


@dataclass(eq=False)
class Collapsed(Sampler):
    """MCMC on theta with f integrated out in closed form, for Gaussian likelihoods: exact.

    Proposals come from a cheap chain on an emulator of the marginal likelihood, learned in the
    set-up, or, where that is poor, from Hamiltonian trajectories under its gradient; the exact
    marginal likelihood corrects them. f is drawn from its Gaussian with every theta, and
    predictions integrate it out.

    Parameters
    ----------
    target_acceptance : float in (0, 1), default=0.25
        Not used: nothing is tuned to it.
    """

    integrates_f: ClassVar[bool] = True
    n_matrices: ClassVar[float] = 7.0

    @property
    def follows_gradient(self) -> bool:
        """Whether theta moves along gradients, which the kernel must then have."""
        return True

    def check_likelihood(self, likelihood: Likelihood) -> None:
        """Raise a ValueError unless the likelihood is Gaussian."""
        if not isinstance(likelihood, Gaussian):
            raise ValueError(
                'sampler="collapsed" integrates f out, which only a Gaussian likelihood allows; '
                f'the likelihood is {likelihood.name!r}: use sampler="pm".'
            )

    @property
    def learns(self) -> bool:
        """Whether the set-up learns an emulator: always."""
        return True

    def set_up(self, request: Request) -> SetUp:
        """Learn an emulator of the evidence; `n_importance` does not matter."""
        return set_up_collapsed(request)
