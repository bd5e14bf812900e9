"""Hamiltonian Monte Carlo: leapfrog trajectories with a constant mass matrix."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from .._typing import FloatArray
from ..approximations.base import Approximation
from ..hyperposterior.posterior import HyperPosterior, PosteriorPoint, keep_mean
from ..model.joint import LatentGP
from ..numerics.dynamics import IDENTITY, DenseRoot, DensityPoint, LeapfrogPath, P, Root, leapfrog
from .base import StepInfo, Transition
from .metropolis import metropolis_accepts, rejection_info
from .operator import Operator, Outcome

#: Shortest trajectory, in radians of a Gaussian target: a quarter period makes ends independent.
SHORTEST_TRAVEL = 0.3 * np.pi
#: Longest trajectory, in radians of a Gaussian target: lengths average to a quarter period.
LONGEST_TRAVEL = 0.7 * np.pi

#: Most leapfrog steps of a trajectory of such a length: bounds the cost of tiny steps.
_MOST_LEAPFROGS = 20


class TrajectoryState(NamedTuple):
    """State of a chain of trajectories: a point with the density and gradient of its theta."""

    point: PosteriorPoint  # keeps the mean of f

    @property
    def theta(self) -> FloatArray:
        """Hyper-parameters, natural logs; (p,)."""
        return self.point.position

    @property
    def f(self) -> FloatArray:
        """Mean of f given theta; (n,)."""
        f: FloatArray = self.point.kept
        return f


@dataclass(frozen=True)
class HamiltonianOperator(Operator):
    """Base class of operators that follow Hamilton's equations.

    The number of steps is drawn from `fewest_steps`, ..., `max_steps`, and the step size varies by
    a tenth, both independently of the point. This prevents trajectories whose length matches a
    period of the target.

    Attributes
    ----------
    log_scale : float
        Log of the step size.
    target_acceptance : float or None, default=0.7
    max_steps : int, default=10
    fewest_steps : int, default=1
    """

    log_scale: float = -1.0
    target_acceptance: float | None = 0.7
    max_steps: int = 10
    fewest_steps: int = 1
    follows_gradient = True

    def n_steps(self, rng: np.random.Generator) -> int:
        """Draw the number of steps."""
        return int(rng.integers(self.fewest_steps, self.max_steps + 1))

    def step_sizes(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> FloatArray:
        """Draw step sizes."""
        return np.asarray(np.exp(self.log_scale) * rng.uniform(0.9, 1.1, size=size))

    def typical_log_scale(self, dim: int) -> float:
        """Return log(0.8 dim^-1/4) (Neal, 2011)."""
        return float(np.log(0.8) - 0.25 * np.log(max(dim, 1)))


@dataclass(frozen=True)
class Trajectory(HamiltonianOperator):
    """A leapfrog trajectory with the mass matrix (B B')^-1.

    **Invariant:** leaves the conditional distribution unchanged, for any root B that does not
    depend on x, because the step size and the number of steps are drawn independently of x.

    Attributes
    ----------
    log_scale, target_acceptance, max_steps, fewest_steps : as in `HamiltonianOperator`
    root : Root
        B.

    References
    ----------
    Filippone, Zhong & Girolami (2013), algorithms 1 and 4; Neal (1993, 2011). The code uses the
    momenta B' p, which have the covariance I.
    """

    root: Root = IDENTITY
    name = "trajectory"

    @classmethod
    def quarter(cls, root: FloatArray, log_scale: float) -> Self:
        """Return trajectories that cover about a quarter of a period.

        Parameters
        ----------
        root : ndarray of shape (p, p)
            B, where B B' is close to the covariance of the target.
        log_scale : float
            Log of the step size.
        """
        fewest, most = (
            int(np.clip(np.rint(travel / np.exp(log_scale)), 1, _MOST_LEAPFROGS))
            for travel in (SHORTEST_TRAVEL, LONGEST_TRAVEL)
        )
        return cls(log_scale, max_steps=most, fewest_steps=fewest, root=DenseRoot(root))

    def integrate(
        self, at: Callable[[FloatArray], P | None], point: P, rng: np.random.Generator
    ) -> tuple[LeapfrogPath[P], Any]:
        """Follow one trajectory, or one from each point of a batch, with equally many steps.

        Returns the path, and the log of the acceptance ratio; (m,) for a batch.
        """
        n_steps = self.n_steps(rng)
        step = self.step_sizes(rng, np.shape(point.log_density))[..., None]
        begun = rng.standard_normal(point.position.shape)
        path = leapfrog(at, point, begun, step, self.root, n_steps)
        if path.end is None:
            return path, -np.inf
        with np.errstate(invalid="ignore"):  # some points of a batch may have no density
            return path, _negative_hamiltonian(path.end, path.momentum) - _negative_hamiltonian(
                point, begun
            )

    def move(self, conditional: Any, point: Any, rng: np.random.Generator) -> Outcome:
        """Follow one trajectory, and accept or reject its end.

        The conditional density needs only a method `at`, which returns a `DensityPoint`.
        """

        def at(position: FloatArray) -> Any:
            """Return the point at a position; None if the position is not finite."""
            return conditional.at(position) if math.isfinite(position.sum()) else None

        path, log_ratio = self.integrate(at, point, rng)
        if path.end is None:
            return Outcome.rejected(point, path.n_evaluations, path.position)
        accepted, probability = metropolis_accepts(float(log_ratio), rng)
        end = path.end if accepted else point
        return Outcome(end, accepted, probability, path.n_evaluations)

    def with_root(self, root: Root) -> Self:
        """Return the same trajectory with momenta of another shape."""
        return replace(self, root=root)


def _negative_hamiltonian(point: DensityPoint, momentum: FloatArray) -> Any:
    """Minus the Hamiltonian at a point, or at each point of a batch."""
    return point.log_density - 0.5 * np.einsum("...r,...r->...", momentum, momentum)


@dataclass(frozen=True, eq=False)
class MarginalTrajectory(Transition[TrajectoryState]):
    """A Hamiltonian trajectory of theta on the marginal posterior; f is integrated out.

    **Invariant:** leaves the density proportional to q(y | theta) p(theta) unchanged, which is the
    posterior if the evidence is exact: the leapfrog method is reversible and preserves volume, and
    its metric, step size and number of steps do not depend on the state.

    Attributes
    ----------
    approximation : Approximation
        Approximation of the evidence with its gradient, as a function of theta alone.
    trajectory : Trajectory
    """

    approximation: Approximation
    trajectory: Trajectory
    name = "trajectory"

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator
    ) -> TrajectoryState | None:
        """Return the state at theta; None without a density."""
        point = self._posterior(model).at(theta)
        return None if point is None else TrajectoryState(point)

    def step(
        self, model: LatentGP, state: TrajectoryState, rng: np.random.Generator
    ) -> tuple[TrajectoryState, StepInfo]:
        """Follow one trajectory."""
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # trajectories may leave double precision
            outcome = self.trajectory.move(self._posterior(model), state.point, rng)
        end, accepted, probability, n_evaluations, lost, _ = outcome
        failed = lost is not None and rejection_info(self.name, model, lost).failed
        info = StepInfo(self.name, accepted, probability, n_evaluations, failed)
        return TrajectoryState(end), info

    def _posterior(self, model: LatentGP) -> HyperPosterior:
        return HyperPosterior(model, self.approximation, keep=keep_mean)
