"""What moves of f and of theta by an operator have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import numpy as np

from .._typing import FloatArray
from ..model import GPState, LatentGP
from .base import StepInfo, start_from_prior
from .operators import Operator, Outcome
from .tunable import Tunable


class OperatorUpdate(Tunable[GPState]):
    """A frozen dataclass with an operator, whose scale and target are its own.

    Attributes
    ----------
    operator : Operator
    """

    operator: Operator

    @property
    def log_scale(self) -> float:  # type: ignore[override]
        """That of the operator."""
        return self.operator.log_scale

    @property
    def target_acceptance(self) -> float | None:  # type: ignore[override]
        """That of the operator."""
        return self.operator.target_acceptance

    def with_log_scale(self, log_scale: float) -> Self:
        """Return the same update with another scale."""
        return replace(self, operator=self.operator.with_log_scale(log_scale))  # type: ignore[type-var]

    def start(self, model: LatentGP, theta: FloatArray, rng: np.random.Generator) -> GPState | None:
        """Return the state at theta with f from the prior."""
        return start_from_prior(model, theta, rng)

    def _info(self, outcome: Outcome, *, failed: bool) -> StepInfo:
        """Report what the operator did."""
        return StepInfo(
            self.name,
            outcome.accepted,
            outcome.acceptance_probability,
            outcome.n_evaluations,
            failed,
        )
