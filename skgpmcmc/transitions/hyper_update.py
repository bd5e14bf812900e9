"""A move of theta under a parameterization, by any operator."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._typing import FloatArray, IntArray
from ..model import GPState, LatentGP
from ..parameterizations import DenseRoot, HyperConditional, Parameterization
from .base import StepInfo
from .operator_update import OperatorUpdate
from .operators import Operator
from .tunable import root_of


@dataclass(frozen=True, eq=False)
class HyperUpdate(OperatorUpdate):
    """An operator on theta, while what the parameterization says stays still.

    **Invariant:** leaves p(theta, f | y) unchanged, as the operator leaves the conditional
    distribution of theta unchanged and what stands still is a function of (theta, f), or a draw
    given it that joins the target.

    Attributes
    ----------
    parameterization : Parameterization
    operator : Operator
    root : ndarray of shape (q, q) or None
        Shape of steps or momenta; None is the identity.
    free : ndarray of int of shape (q,) or None
        Positions of the components that move; None moves all.
    """

    parameterization: Parameterization
    operator: Operator
    root: FloatArray | None = None
    free: IntArray | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        """What diagnostics call it."""
        return f"{self.operator.name} on theta ({self.parameterization.name})"

    def with_covariance(self, covariance: FloatArray) -> HyperUpdate:
        """Return the update with steps of that shape, and the scale that goes with it."""
        if self.free is not None:
            covariance = covariance[np.ix_(self.free, self.free)]
        operator = self.operator.with_log_scale(self.operator.typical_log_scale(len(covariance)))
        return replace(self, root=root_of(covariance), operator=operator)

    def step(
        self, model: LatentGP, state: GPState, rng: np.random.Generator
    ) -> tuple[GPState, StepInfo]:
        """Let the operator move theta; f follows."""
        conditional = HyperConditional.of(model, self.parameterization, state, rng, self.free)
        point = conditional.begin
        root = DenseRoot(np.eye(len(point.position)) if self.root is None else self.root)
        with np.errstate(over="ignore", invalid="ignore"):
            outcome = self.operator.move(conditional, point, root, rng)
        lost = outcome.lost
        failed = lost is not None and bool(
            np.isfinite(model.hyperprior.log_prob(conditional.theta(lost)))
        )
        info = self._info(outcome, failed=failed)
        # The very same state where nothing has moved, with all that is known of it.
        return state if outcome.point is point else outcome.point.state, info
