"""Proposals from a chain that runs on an emulated posterior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from .._typing import FloatArray
from ..numerics.linalg import cholesky
from .hamiltonian import CheapDensity, CheapPoint, IndependenceMetropolis, Leapfrog


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
    moves : tuple of Leapfrog and IndependenceMetropolis
        The same forwards and backwards.

    References
    ----------
    Liu (2001), section 9.4.3 (surrogate transition); Wang & Neal (2013), section 2 (temporary
    mapping).
    """

    target: CheapDensity
    moves: tuple[Leapfrog | IndependenceMetropolis, ...]

    def propose(self, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """Return theta' and ``log pi*(theta) - log pi*(theta')``."""
        point = start = CheapPoint.at(self.target, theta)
        for move in self.moves:
            point, _ = move.move(self.target, point, rng)
        return point.position, float(start.log_density - point.log_density)


class Proposal(Protocol):
    """A distribution of theta' given theta, with the Hastings ratio that it asks for."""

    def propose(self, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """Return theta' and ``log pi(theta | theta') - log pi(theta' | theta)``."""


@dataclass(frozen=True, eq=False)
class GaussianRandomWalk:
    """theta' ~ N(theta, scale^2 C C'), symmetric: its log Hastings ratio is zero.

    Attributes
    ----------
    factor : ndarray of shape (p, p)
        C, lower triangular, on the natural-log scale of theta.
    log_scale : float
        Log of the scale.
    """

    factor: FloatArray
    log_scale: float = 0.0

    @classmethod
    def isotropic(cls, dim: int, scale: float) -> GaussianRandomWalk:
        """Return a walk with the same standard deviation in every coordinate."""
        return cls(np.eye(dim), float(np.log(scale)))

    def propose(self, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """Return theta' and 0."""
        step = self.factor @ rng.standard_normal(len(theta))
        return theta + np.exp(self.log_scale) * step, 0.0

    def with_covariance(self, covariance: FloatArray) -> GaussianRandomWalk:
        """Return the walk of shape `covariance` with the scale 2.38 / sqrt(p).

        That scale is optimal for Gaussian targets (Gelman, Roberts & Gilks, 1996).
        """
        scale = 2.38 / np.sqrt(len(covariance))
        return GaussianRandomWalk(cholesky(np.asfortranarray(covariance)), float(np.log(scale)))

    def with_log_scale(self, log_scale: float) -> GaussianRandomWalk:
        """Return the same walk with another scale."""
        return replace(self, log_scale=log_scale)
