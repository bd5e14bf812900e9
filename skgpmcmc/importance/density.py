"""Protocols of importance densities: a density of f at one theta, and a reference for all theta."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from .._typing import FloatArray
from ..approximations.base import GaussianApproximation, LatentDraws
from ..model.joint import LatentGP


class Density(Protocol):
    """A density of f at one theta that can be drawn from, near p(f | y, theta)."""

    @property
    def q(self) -> GaussianApproximation:
        """The Gaussian that the density modifies; the density itself if it is Gaussian."""

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """Arrays of shape (n,) from which `make_density` makes the density again."""

    def factorize(self) -> Density:
        """Compute all matrix factors, and return the density.

        Raises
        ------
        NotPositiveDefiniteError
            If K is not positive definite.
        """

    def sample(self, rng: np.random.Generator, size: int) -> LatentDraws:
        """Independent draws of f."""

    def log_ratio_to_prior(self, f: FloatArray) -> FloatArray:
        """Log density relative to N(f; 0, K) for each column of f of shape (n, m); (m,)."""


class ReferenceDensity(Protocol):
    """An importance density at any theta, as a deterministic function of (model, theta)."""

    def at(self, model: LatentGP, theta: FloatArray) -> Density:
        """Return the density at theta."""

    def arrays_at(self, model: LatentGP, theta: FloatArray) -> tuple[FloatArray, ...]:
        """Return the `arrays` of the density at theta, without its prior if that is possible."""
