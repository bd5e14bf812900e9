"""Pseudo-marginal Metropolis-Hastings: an exact chain from an unbiased likelihood estimate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._typing import FloatArray
from ..importance.density import Density, ReferenceDensity
from ..importance.estimate import ImportanceEstimate, estimate_many, importance_estimate
from ..model.joint import LatentGP
from ..numerics.linalg import NotPositiveDefiniteError
from ..numerics.quadratic import Quadratic
from .metropolis import EvaluatedState, MetropolisHastings, Proposal


class PseudoMarginalState(NamedTuple):
    """State in the extended space: theta, and the particles of the estimate of p(y | theta)."""

    theta: FloatArray  # (p,), natural logs
    log_hyperprior: float  # log p(theta)
    density: Density  # importance density of the particles, a function of theta
    estimate: ImportanceEstimate  # made with theta; only moves of particles replace it
    f: FloatArray  # (n,), one particle, drawn by weight at every step
    direction: int = 0  # see `DirectedPair`


@dataclass(frozen=True, eq=False)
class DrawCount:
    """Number N of importance draws of an estimate, as a fixed function of theta.

    The log of an estimate has a variance of about v(theta) / N, where v is the relative variance of
    a single weight. N(theta) keeps this variance near a target all over the posterior.

    Attributes
    ----------
    log_variance : Quadratic
        Log of v.
    target_sd : float
        Target standard deviation of the log estimate.
    lowest, highest : int
        Bounds of N.
    """

    log_variance: Quadratic
    target_sd: float
    lowest: int
    highest: int

    def at(self, theta: FloatArray) -> int:
        """N at theta of shape (p,)."""
        log_n = float(self.log_variance.value(theta)) - 2.0 * math.log(self.target_sd)
        return min(max(math.ceil(math.exp(min(log_n, 50.0))), self.lowest), self.highest)


@dataclass(frozen=True, eq=False)
class PseudoMarginalMetropolis(MetropolisHastings[PseudoMarginalState]):
    """Metropolis-Hastings on theta with an unbiased estimate in place of p(y | theta).

    **Invariant:** leaves the extended target p(theta) prod_i g(f_i | theta) * estimate unchanged,
    whose marginal in (theta, f), with f a particle drawn by weight, is p(theta, f | y) exactly,
    for any number of draws N(theta) >= 1. The estimate at the current theta is never recomputed
    after theta was accepted, which would break the invariance.

    Attributes
    ----------
    reference : ReferenceDensity
        Importance density, as a function of theta alone.
    proposal : Proposal
    n_importance : int or DrawCount
        Number N of draws per estimate: a number, or a function of theta alone.
    defensive : float
        Share of the draws taken from the prior, see `importance_estimate`.
    name : str
        Name of the move in diagnostics.

    References
    ----------
    Filippone & Girolami (2014), algorithm 1 and (25); Andrieu & Roberts (2009). Section 3.3 of the
    paper updates f separately, which is not exact; here f is drawn from the particles.
    """

    reference: ReferenceDensity
    proposal: Proposal
    n_importance: int | DrawCount
    defensive: float = 0.0
    name: str = "pseudo-marginal random walk"

    def start(
        self,
        model: LatentGP,
        theta: FloatArray,
        rng: np.random.Generator,
        *,
        retained: FloatArray | None = None,
    ) -> PseudoMarginalState | None:
        """Return a state at theta with fresh particles.

        With `retained`, a draw from p(f | y, theta), the particles have their law under the
        extended target: the state is then a draw from it if theta is one from p(theta | y).
        """
        (found,) = self.evaluate_many(model, [theta], [rng], [retained])
        return None if found is None else found.state

    def evaluate(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator
    ) -> EvaluatedState[PseudoMarginalState] | None:
        """Return theta with fresh particles."""
        return self.evaluate_many(model, [theta], [rng])[0]

    def evaluate_many(
        self,
        model: LatentGP,
        thetas: Sequence[FloatArray],
        rngs: Sequence[np.random.Generator],
        retained: Sequence[FloatArray | None] | None = None,
    ) -> list[EvaluatedState[PseudoMarginalState] | None]:
        """Return every theta with fresh particles; for `retained` see `start`."""
        keeps = [None] * len(thetas) if retained is None else retained
        densities: dict[int, Density] = {}
        for i, theta in enumerate(thetas):
            if np.isfinite(model.hyperprior.log_prob(theta)):
                with suppress(NotPositiveDefiniteError):
                    densities[i] = self.reference.at(model, theta).factorize()
        estimates = estimate_many(
            model,
            list(densities.values()),
            [self._n_draws(thetas[i]) for i in densities],
            [rngs[i] for i in densities],
            defensive=self.defensive,
            retained=[keeps[i] for i in densities],
        )
        found: list[EvaluatedState[PseudoMarginalState] | None] = [None] * len(thetas)
        for (i, density), estimate in zip(densities.items(), estimates, strict=True):
            if np.isfinite(estimate.log_likelihood):
                log_hyperprior = model.hyperprior.log_prob(thetas[i])
                f = estimate.draw(rngs[i])
                state = PseudoMarginalState(thetas[i], log_hyperprior, density, estimate, f)
                found[i] = EvaluatedState(state, self.log_target(state))
        return found

    def log_target(self, state: PseudoMarginalState) -> float:
        """Log of the estimate times p(theta)."""
        return state.log_hyperprior + state.estimate.log_likelihood

    def complete(
        self, found: EvaluatedState[PseudoMarginalState], rng: np.random.Generator
    ) -> PseudoMarginalState:
        """Draw f by weight."""
        return self.stay(found.state, rng)

    def stay(self, state: PseudoMarginalState, rng: np.random.Generator) -> PseudoMarginalState:
        """Draw f by weight."""
        return state._replace(f=state.estimate.draw(rng))

    def log_likelihood_sd(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator, n_replicates: int = 30
    ) -> float:
        """Standard deviation of the log estimate at theta, over fresh particles.

        The result is NaN if K is not positive definite, and infinite if an estimate is zero.
        """
        try:
            density = self.reference.at(model, theta).factorize()
            n = self._n_draws(theta)
            estimates = [
                importance_estimate(model, density, n, rng, defensive=self.defensive)
                for _ in range(n_replicates)
            ]
        except NotPositiveDefiniteError:
            return float("nan")
        log_likelihoods = [estimate.log_likelihood for estimate in estimates]
        if not np.isfinite(log_likelihoods).all():
            return float("inf")
        with np.errstate(over="ignore"):  # a spread beyond 1e154 counts as infinite
            return float(np.std(log_likelihoods, ddof=1))

    def _n_draws(self, theta: FloatArray) -> int:
        count = self.n_importance
        return count if isinstance(count, int) else count.at(theta)
