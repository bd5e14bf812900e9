"""Hamiltonian (hybrid) Monte Carlo on any coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from .._typing import FloatArray
from ..numerics.roots import IDENTITY, Root
from ..parameterizations import Conditional, Point
from .base import metropolis_accepts
from .operators import Operator, Outcome
from .surrogate import leapfrog


@dataclass(frozen=True)
class Trajectory(Operator):
    """A leapfrog trajectory with the mass matrix (B B')^-1.

    The number of steps is drawn from 1, ..., `max_steps` and the step size varies by a tenth, both
    without a look at the point: no trajectory length then suits a period of the target.

    **Invariant:** leaves the conditional distribution unchanged, for any root B that does not
    depend on x.

    Attributes
    ----------
    log_scale : float
        Log of the step size.
    target_acceptance : float or None, default=0.7
    max_steps : int, default=10
    root : Root
        B.

    References
    ----------
    Filippone, Zhong & Girolami (2013), algorithms 1 and 4; Neal (1993). The Hamiltonian is the one
    of momenta B' p, which have the covariance I.
    """

    log_scale: float = -1.0
    target_acceptance: float | None = 0.7
    max_steps: int = 10
    root: Root = IDENTITY
    name = "trajectory"
    follows_gradient = True

    def move(self, conditional: Conditional, point: Point, rng: np.random.Generator) -> Outcome:
        """Follow one trajectory, and accept or reject where it ends."""
        n_steps = int(rng.integers(1, self.max_steps + 1))
        step = np.exp(self.log_scale) * rng.uniform(0.9, 1.1)
        begun = rng.standard_normal(len(point.position))

        def at(position: FloatArray) -> Point | None:
            return conditional.at(position) if np.isfinite(position).all() else None

        path = leapfrog(at, point, begun, step, self.root, n_steps)
        if path.end is None:
            return Outcome.rejected(point, path.n_evaluations, path.position)
        energy = point.log_density - 0.5 * begun @ begun
        log_ratio = float(path.end.log_density - 0.5 * path.momentum @ path.momentum - energy)
        accepted, probability = metropolis_accepts(log_ratio, rng)
        return Outcome(path.end if accepted else point, accepted, probability, n_steps)

    def typical_log_scale(self, dim: int) -> float:
        """Return log(0.8 dim^-1/4) (Neal, 2011)."""
        return float(np.log(0.8) - 0.25 * np.log(max(dim, 1)))

    def with_root(self, root: Root) -> Self:
        """Return the same trajectory with momenta of another shape."""
        return self._with(root=root)
