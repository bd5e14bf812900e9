"""Proposals from a chain that runs on an emulated posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._typing import FloatArray
from .hamiltonian import CheapDensity, CheapPoint, Jump, Leapfrog

__all__ = ["SurrogateProposal"]


@dataclass(frozen=True, eq=False)
class SurrogateProposal:
    """theta' is where a short chain under a cheap density pi* leads from theta.

    The chain is one trajectory, then independence candidates, then a trajectory again: a palindrome
    of moves that are each reversible with respect to pi*, so that the whole is. Its Hastings ratio
    is therefore pi*(theta) / pi*(theta'), and the emulator's errors are corrected exactly by the
    step that evaluates the likelihood.

    Attributes
    ----------
    target : CheapDensity
        pi*, unnormalized.
    leapfrog : Leapfrog
    jump : Jump or None
        The middle of the palindrome.

    References
    ----------
    Liu (2001), section 9.4.3 (surrogate transition); Wang & Neal (2013), section 2 (temporary
    mapping).
    """

    target: CheapDensity
    leapfrog: Leapfrog
    jump: Jump | None = None

    def propose(self, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """Return theta' and ``log pi*(theta) - log pi*(theta')``."""
        point = start = CheapPoint.at(self.target, theta)
        point, _ = self.leapfrog.move(self.target, point, rng)
        if self.jump is not None:
            point = self.jump.move(self.target, point, rng)
        point, _ = self.leapfrog.move(self.target, point, rng)
        return point.theta, float(start.log_prob - point.log_prob)
