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

    The chain is a palindrome of moves that are each reversible with respect to pi*, such as a
    trajectory, independence candidates and a trajectory again; so the whole is reversible. Its
    Hastings ratio is therefore pi*(theta) / pi*(theta'), and the emulator's errors are corrected
    exactly by the step that evaluates the likelihood.

    Attributes
    ----------
    target : CheapDensity
        pi*, unnormalized.
    moves : tuple of Leapfrog and Jump
        The same forwards and backwards.

    References
    ----------
    Liu (2001), section 9.4.3 (surrogate transition); Wang & Neal (2013), section 2 (temporary
    mapping).
    """

    target: CheapDensity
    moves: tuple[Leapfrog | Jump, ...]

    def propose(self, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """Return theta' and ``log pi*(theta) - log pi*(theta')``."""
        point = start = CheapPoint.at(self.target, theta)
        for move in self.moves:
            point, _ = move.move(self.target, point, rng)
        return point.theta, float(start.log_prob - point.log_prob)
