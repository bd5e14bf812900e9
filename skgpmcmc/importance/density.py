"""Importance densities: what a density of f and a reference for all theta are."""

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
        """The Gaussian it is made of; itself if it is Gaussian."""

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """Arrays of shape (n,) that make it again, with the prior; see `density_from`."""

    def factorize(self) -> Density:
        """Return itself, all factors made now: this is where a K that is no covariance shows."""

    def sample(self, rng: np.random.Generator, size: int) -> LatentDraws:
        """Independent draws of f."""

    def log_ratio_to_prior(self, f: FloatArray) -> FloatArray:
        """Log density relative to N(f; 0, K) for each column of f of shape (n, m); (m,)."""


class ReferenceDensity(Protocol):
    """Gives an importance density at any theta, a deterministic function of (model, theta)."""

    def at(self, model: LatentGP, theta: FloatArray) -> Density:
        """Return the density at theta."""
