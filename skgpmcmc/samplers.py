"""Named combinations of transitions: the only place that knows recipes.

A sampler is configuration (scikit-learn can clone it and search over its fields); from it and an
approximation it makes the transition for warm-up and the frozen one for sampling.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ._params import Configuration, check_in
from ._typing import FloatArray
from .approximations import Approximation
from .importance import importance_estimate
from .model import LatentGP
from .transitions import (
    GaussianRandomWalk,
    MarginalMetropolis,
    PseudoMarginalMetropolis,
    Transition,
)

__all__ = ["SAMPLERS", "Marginal", "PseudoMarginal", "Sampler"]

#: Standard deviation of the first random-walk proposals, on the natural-log scale.
_START_SCALE = 0.5


@dataclass(eq=False)
class Sampler(Configuration, ABC):
    """How chains move on (theta, f).

    Parameters
    ----------
    target_acceptance : float in (0, 1), default=0.25
        Acceptance rate on the approximate marginal to which warm-up tunes the random walk;
        Filippone & Girolami (2014), section 4.4, use 20 to 30 %.
    """

    target_acceptance: float = 0.25

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        check_in("sampler", "target_acceptance", self.target_acceptance, "(0, 1)")

    def warmup_transition(self, approximation: Approximation, dim: int) -> MarginalMetropolis:
        """Return MH on the deterministic approximate marginal, to be tuned (section 4.4)."""
        walk = GaussianRandomWalk.isotropic(dim, _START_SCALE)
        return MarginalMetropolis(approximation, walk, with_latent=False)

    @abstractmethod
    def sampling_transition(
        self, approximation: Approximation, walk: GaussianRandomWalk, n_importance: int
    ) -> Transition[Any]:
        """Return the frozen transition that makes the kept draws."""

    def log_likelihood_sd(
        self,
        model: LatentGP,
        approximation: Approximation,
        n_importance: int,
        theta: FloatArray,
        rng: np.random.Generator,
    ) -> float:
        """Noise of the log likelihood that the chain sees at theta; 0 where it sees none."""
        return 0.0


@dataclass(eq=False)
class PseudoMarginal(Sampler):
    """Pseudo-marginal random walk on theta: asymptotically exact draws of (theta, f).

    Parameters
    ----------
    target_acceptance : float in (0, 1), default=0.25
        See `Sampler`.
    defensive : float in [0, 1), default=0.05
        Share of the importance draws that come from the prior. It bounds the weights; with 0, as
        in the paper, their variance can be infinite and chains can stick.
    """

    defensive: float = 0.05

    #: Estimates from which `log_likelihood_sd` is computed.
    _n_noise_replicates: ClassVar[int] = 30

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        super().check()
        check_in("sampler", "defensive", self.defensive, "[0, 1)")

    def sampling_transition(
        self, approximation: Approximation, walk: GaussianRandomWalk, n_importance: int
    ) -> PseudoMarginalMetropolis:
        """Return pseudo-marginal MH with the tuned walk."""
        return PseudoMarginalMetropolis(approximation, walk, n_importance, self.defensive)

    def log_likelihood_sd(
        self,
        model: LatentGP,
        approximation: Approximation,
        n_importance: int,
        theta: FloatArray,
        rng: np.random.Generator,
    ) -> float:
        """Return the standard deviation of the log estimate at theta, over fresh particles."""
        q = approximation.fit(model, theta).q
        estimates = [
            importance_estimate(model, q, n_importance, rng, defensive=self.defensive)
            for _ in range(self._n_noise_replicates)
        ]
        return float(np.std([e.log_likelihood for e in estimates], ddof=1))


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

    def sampling_transition(
        self, approximation: Approximation, walk: GaussianRandomWalk, n_importance: int
    ) -> MarginalMetropolis:
        """Return MH on the approximate marginal with the tuned walk."""
        return MarginalMetropolis(approximation, walk)


#: The samplers that have a name in the estimators.
SAMPLERS: dict[str, type[Sampler]] = {"pm": PseudoMarginal, "marginal": Marginal}
