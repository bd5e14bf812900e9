"""The contract of a sampler: configuration that makes the set-up of chains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from .._params import Configuration, check_in
from ..likelihoods import Likelihood
from ..model import LatentGP, check_gradient
from ..warmup import Request, Schedule, SetUp

#: Warm-up iterations of what has to be tuned, and of what has not.
_N_TUNED, _N_SETTLED = 500, 50
#: Rounds of a set-up that learns, as progress counts them: with so many batches of work every such
#: set-up begins, and the last round takes all batches that follow.
_LEARNING_ROUNDS = 4
#: Evaluations that a set-up learns from, about, for each hyper-parameter.
_N_LEARNED = 100


@dataclass(eq=False)
class Sampler(Configuration, ABC):
    """How chains move on (theta, f).

    Parameters
    ----------
    target_acceptance : float in (0, 1), default=0.25
        Acceptance rate on the approximate marginal to which warm-up tunes a random walk;
        Filippone & Girolami (2014), section 4.4, use 20 to 30 %.
    """

    #: Whether f is integrated out exactly, so that no approximation is needed.
    integrates_f: ClassVar[bool] = False
    #: Name of the approximation that suits it best; None where it uses none.
    best_approximation: ClassVar[str | None] = "ep"
    #: Matrices of n x n doubles that a worker holds at most, for each latent function; measured.
    n_matrices: ClassVar[float] = 9.0
    #: Whether it estimates p(y | theta), by `n_importance` draws.
    estimates: ClassVar[bool] = False

    target_acceptance: float = 0.25

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        check_in("sampler", "target_acceptance", self.target_acceptance, "(0, 1)")

    def check_likelihood(self, likelihood: Likelihood) -> None:
        """Raise a ValueError if the sampler cannot work with the likelihood; any will do here."""

    @property
    def approximates(self) -> bool:
        """Whether an approximation of p(f | y, theta) is in use."""
        return self.best_approximation is not None and not self.integrates_f

    @property
    def follows_gradient(self) -> bool:
        """Whether theta moves along gradients, which the kernel must then have."""
        return False

    def check_model(self, model: LatentGP) -> None:
        """Raise a ValueError if the sampler cannot work with kernel or priors."""
        if self.follows_gradient:
            remedy = "use a sampler that follows none, such as PseudoMarginal(moves='random_walk')"
            check_gradient(model.covariance, remedy)

    @property
    def learns(self) -> bool:
        """Whether the set-up learns what proposals need, and warm-up has nothing to tune."""
        return False

    def n_warmup(self, wanted: int | None) -> int:
        """Return discarded iterations per chain; `wanted` is None for as many as it takes."""
        if wanted is not None:
            return wanted
        return _N_SETTLED if self.learns else _N_TUNED

    def n_set_up_rounds(self, n_warmup: int) -> int:
        """Return the rounds before the first draw, of which in the last one chains settle."""
        begun = _LEARNING_ROUNDS if self.learns else 1 + len(Schedule.of_length(n_warmup).windows)
        return begun + 1

    def n_learned(self, dim: int) -> int:
        """Return about how many evaluations the set-up needs for `dim` hyper-parameters."""
        return _N_LEARNED * dim if self.learns else 0

    @abstractmethod
    def set_up(self, request: Request) -> SetUp:
        """Return the set-up that prepares one model's chains."""


def check_one_function(sampler: Sampler, likelihood: Likelihood) -> None:
    """Refuse a likelihood with several latent functions."""
    if likelihood.n_functions > 1:
        raise ValueError(
            f"sampler={type(sampler).__name__} works with one latent function, and the "
            f'{likelihood.name} likelihood has one for each class: use sampler="pm".'
        )
