"""The emulated posterior of theta.

Only proposals of the chains use it, so that its errors make sampling slower but not wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ..._typing import FloatArray
from ...hyperposterior.cheap import CALL_COST
from ...model.hyperpriors import HyperPrior
from ...model.joint import LatentGP
from ...numerics.quadratic import Quadratic
from ...transitions.surrogate import CheapPoint
from .design import Design, DesignPoint
from .gp import Emulator, find_flattening
from .options import EmulatorOptions


@dataclass(frozen=True, eq=False)
class EmulatedPosterior:
    """``pi*(theta) = p(theta) [exp m(theta) + c]``: exact prior, emulated likelihood.

    The constant c > 0 keeps the ratio of the target and pi* bounded if the likelihood estimate is
    bounded. Outside the box of the design, m has its value at the edge, so that pi* is positive
    wherever the prior is, and has its tails.

    Attributes
    ----------
    hyperprior : HyperPrior
    emulator : Emulator
        Emulator of the approximate log evidence.
    correction : Quadratic
        Correction from the approximate to the exact log evidence.
    low, high : ndarray of shape (p,)
        Box of the design, natural logs.
    log_floor : float
        Log of c.
    power : float, default=1.0
        Power to which the density is raised.
    optimism : float, default=0.0
        Standard deviations of the emulator that m has in addition.
    ceiling : float, default=inf
        Largest log density, before it is raised to a power. Between distant points an emulator may
        have peaks that are higher than the best mode.
    """

    hyperprior: HyperPrior
    emulator: Emulator
    correction: Quadratic
    low: FloatArray
    high: FloatArray
    log_floor: float
    power: float = 1.0
    optimism: float = 0.0
    ceiling: float = np.inf

    @classmethod
    def of(
        cls, model: LatentGP, design: Design, root: FloatArray, options: EmulatorOptions
    ) -> Self:
        """Emulate the log evidence by those points of a design that are of use.

        High points are. A point with a low density is of use only where the emulator of the other
        points is high: there it shows what the other points do not. Elsewhere it would take part in
        the choice of length-scales for a region to which chains never go.

        Parameters
        ----------
        model : LatentGP
            Model with the prior of theta, and the kernel whose length-scales are flattened.
        design : Design
            Theta with their log evidences and gradients.
        root : ndarray of shape (p, p)
            Factor of the covariance of theta, about.
        options : EmulatorOptions
            Tuning constants of the set-up.
        """
        scale = scales_of_root(root)
        top = design.best.log_density
        lowest = top - options.deepest(len(root))
        is_used = design.log_density >= lowest
        while True:
            used = design.select(is_used).thin(scale, options.most_points(len(scale)))
            posterior = cls._of_points(model, used, root, options)
            log_prior = model.hyperprior.log_prob(design.theta)
            emulated = log_prior + posterior.log_evidence(design.theta)
            is_wrong = ~is_used & (emulated > top - options.negligible_depth)
            if not is_wrong.any():
                return posterior
            is_used |= is_wrong

    @classmethod
    def _of_points(
        cls, model: LatentGP, used: Design, root: FloatArray, options: EmulatorOptions
    ) -> Self:
        """Emulate the log evidence by all points of a design."""
        best = used.best
        dim = len(root)
        scale = scales_of_root(root)
        spread = np.sqrt(dim) * root.T
        emulator = Emulator.fit(
            used.theta,
            used.values,
            used.gradients,
            draws=best.theta + np.concatenate([spread, -spread]),
            flat=find_flattening(model, options.flat_distance),
            options=options,
        )
        volume = 0.5 * dim * np.log(2.0 * np.pi) + np.log(root.diagonal()).sum()
        return cls(
            model.hyperprior,
            emulator,
            Quadratic.flat(best.theta, scale),
            used.theta.min(axis=0),
            used.theta.max(axis=0),
            float(best.log_density + volume) - options.negligible_depth,
        )

    def with_correction(self, correction: Quadratic) -> EmulatedPosterior:
        """Return the density with a correction; it must not have one yet."""
        log_floor = self.log_floor + correction.constant
        return replace(self, correction=correction, log_floor=log_floor)

    def to_power(self, power: float) -> EmulatedPosterior:
        """Return the density raised to a power; powers below 1 give wider tails."""
        return replace(self, power=power * self.power)

    def with_ceiling(self, best: DesignPoint) -> EmulatedPosterior:
        """Return the density that is nowhere larger than the corrected one that `best` has."""
        ceiling = best.log_density + float(self.correction.value(best.theta))
        return replace(self, ceiling=ceiling)

    def be_optimistic(self) -> EmulatedPosterior:
        """Return the density with m larger by one standard deviation of the emulator.

        It is large where pi* is, and where pi* may be too small for lack of design points.
        """
        return replace(self, optimism=1.0)

    def deviation(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `Emulator.deviation` and its gradient at theta (..., p); (...) and (..., p).

        Beyond the box it grows, and is constant where theta is farther from the box than its width.
        """
        width = self.high - self.low
        near = np.minimum(np.maximum(theta, self.low - width), self.high + width)
        value, gradient = self.emulator.deviation(near)
        return value, gradient * (near == theta)

    @property
    def cost(self) -> float:
        """Number of floating-point operations that take as long as one evaluation."""
        return CALL_COST + 10.0 * self.emulator.nodes.size

    def at(self, position: FloatArray) -> CheapPoint | None:
        """Return the point at theta of shape (p,), for operators; None without a density."""
        point = CheapPoint.at(self, position)
        return point if np.isfinite(point.log_density) else None

    def log_evidence(self, theta: FloatArray) -> FloatArray:
        """Emulated approximate log evidence, without correction, at theta (..., p); (...)."""
        inside = np.minimum(np.maximum(theta, self.low), self.high)
        return self.emulator.value(inside)

    def log_prob(self, theta: FloatArray) -> FloatArray:
        """Unnormalized log pi* at theta (..., p); (...)."""
        inside = np.minimum(np.maximum(theta, self.low), self.high)
        m = self.emulator.value(inside) + self.correction.value(inside)
        if self.optimism:
            m = m + self.optimism * self.deviation(theta)[0]
        log_lik = np.logaddexp(m, self.log_floor)
        log_density = self.hyperprior.log_prob(theta) + log_lik
        return np.asarray(self.power * np.minimum(log_density, self.ceiling))

    def value_and_gradient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Unnormalized log pi* at theta (..., p), shape (...), and its gradient, (..., p)."""
        log_prior, prior_gradient = self.hyperprior.value_and_gradient(theta)
        inside = np.minimum(np.maximum(theta, self.low), self.high)
        value, gradient = self.emulator.value_and_gradient(inside)
        corrected, correction_gradient = self.correction.value_and_gradient(inside)
        m = value + corrected
        slope = (gradient + correction_gradient) * (inside == theta)
        if self.optimism:
            deviation, deviation_gradient = self.deviation(theta)
            m = m + self.optimism * deviation
            slope = slope + self.optimism * deviation_gradient
        log_lik = np.logaddexp(m, self.log_floor)
        slope = prior_gradient + slope * np.exp(m - log_lik)[..., None]
        log_density = log_prior + log_lik
        slope = slope * (log_density <= self.ceiling)[..., None]
        return self.power * np.minimum(log_density, self.ceiling), self.power * slope


def scales_of_root(root: FloatArray) -> FloatArray:
    """Return the standard deviations of a covariance by its factor (p, p); (p,)."""
    return np.asarray(np.sqrt((root**2).sum(axis=1)))
