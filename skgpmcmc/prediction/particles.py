"""Each draw's own f stands beside importance draws of f at its theta."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._typing import FloatArray
from ..approximations import Density, importance_estimate, log_importance_weights
from ..numerics.linalg import log_sum
from .own_latent import OwnLatent
from .strategy import Conditional, Given, Group, stream_of

#: Importance draws of f for each further draw that has the same theta.
_N_MORE = 4


@dataclass(frozen=True)
class Particles(OwnLatent):
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
        Weight that counts as one draw.
    """

    n: int = 48
    defensive: float = 0.0
    unit: float = 1.0

    def at_weight(self, weight: float) -> int:
        """Importance draws of f at a theta whose draws have this weight together.

        All draws of a theta compete with the same ones, so that the noise of an average there is
        theirs: for it to fall with the number of draws, they have to grow with it.
        """
        return self.n + int(_N_MORE * max(weight / self.unit - 1.0, 0.0))

    def averaged(self, group: Group) -> Iterator[tuple[Conditional, FloatArray]]:
        """Give what f is averaged over; see `LatentStrategy`.

        Yields
        ------
        conditional : Conditional
            f* given some f.
        log_weight : ndarray of shape (g,)
            Of its columns.
        """
        density, rng = group.density(), stream_of(group.theta, self.seed)
        for some in group.some_at_a_time():
            f, log_weight = self._weighted(some, density, rng)
            yield Given(density.q.prior, f), log_weight

    def _weighted(
        self, group: Group, density: Density, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """All f that stand for some draws, a column each, and their log weights."""
        model, own = group.model, group.f.T
        n = self.at_weight(group.weight.sum())
        fresh = importance_estimate(model, density, n, rng, defensive=self.defensive)
        own_log = log_importance_weights(model, density, own, defensive=self.defensive)
        # Each own f competes with all fresh ones: conditional importance sampling.
        log_total = np.logaddexp(own_log, log_sum(fresh.log_weights))
        log_share = np.log(group.weight) - log_total
        log_weight = np.concatenate([own_log + log_share, fresh.log_weights + log_sum(log_share)])
        return np.concatenate([own, fresh.particles], axis=1), log_weight
