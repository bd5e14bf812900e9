"""Mixtures of a constant and another likelihood: some targets have nothing to do with f."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from .._typing import FloatArray
from .base import Derivatives, Likelihood, ParameterDerivatives, TiltedMoments


class MixedWithConstant(Likelihood):
    """Base class of likelihoods p(y | f) = c(y) + s(y) p0(y | f) with c and s that do not have f.

    With the share r = s p0 / p of the part p0, and d = d log p0 / df,

        d log p / df = r d,   d^2 log p / df^2 = r d' + r (1 - r) d^2.

    Integrals over f are mixtures as well, so that the log normalizer of a tilted density and its
    derivatives follow from those of p0 by the same formulas. They are in closed form if those are.
    """

    log_concave: ClassVar[bool] = False

    @property
    @abstractmethod
    def part(self) -> Likelihood:
        """The likelihood p0."""

    @abstractmethod
    def log_shares(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the logs of c(y), which may be minus infinity, and of s(y)."""

    @abstractmethod
    def share_slopes(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return derivatives of `log_shares` in the last parameters, which p0 does not have.

        Both have the shape (k, ...) for y of shape (...), and are finite.
        """

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Return log [c(y) + s(y) p0(y | f)]."""
        return self._mix(y, self.part.log_prob(y, f))

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return the first three derivatives in f."""
        r, q = self._split(y, self.part.log_prob(y, f))
        first, second, third = self.part.derivatives(y, f)
        # Where p0 is negligible its slopes may overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            of_third = first * (3.0 * second + (q - r) * first**2)
            return Derivatives(
                vanishing_product(r, first),
                vanishing_product(r, second + vanishing_product(q, first**2)),
                vanishing_product(r, third + vanishing_product(q, of_third)),
            )

    def parameter_derivatives(self, y: FloatArray, f: FloatArray) -> ParameterDerivatives:
        """Return derivatives in the parameters of p0, then in those of the shares."""
        r, q = self._split(y, self.part.log_prob(y, f))
        first, second, _ = self.part.derivatives(y, f)
        own = self.part.parameter_derivatives(y, f)
        of_constant, of_share = self.share_slopes(np.broadcast_to(y, np.shape(r)))
        nothing = np.zeros_like(of_constant)
        # Derivatives of log c, of log (s p0 / c), and of the first two derivatives of log p0.
        lone = np.concatenate([np.zeros_like(own.log_prob), of_constant])
        gap = np.concatenate([own.log_prob, of_share - of_constant])
        steeper = np.concatenate([own.first, nothing])
        rounder = np.concatenate([own.second, nothing])
        with np.errstate(over="ignore", invalid="ignore"):
            log_prob = lone + vanishing_product(r, gap)
            bent = second + (q - r) * first**2
            of_second = gap * bent + 2.0 * steeper * first
            return ParameterDerivatives(
                log_prob,
                vanishing_product(r, steeper + vanishing_product(q, gap * first)),
                vanishing_product(r, rounder + vanishing_product(q, of_second)),
            )

    def tilted_moments(self, y: FloatArray, mean: FloatArray, var: FloatArray) -> TiltedMoments:
        """Return those of the mixture, from those of p0; all of shape (n,)."""
        log_z, alpha, beta = self.part.tilted_moments(y, mean, var)
        r, q = self._split(y, log_z)
        return TiltedMoments(self._mix(y, log_z), r * alpha, r * (beta - q * alpha**2))

    def weighted_tilted_moments(
        self, y: FloatArray, weight: FloatArray | None, mean: FloatArray, var: FloatArray
    ) -> TiltedMoments:
        """Return `tilted_moments` without weights, and else the result of quadrature."""
        if weight is None:
            return self.tilted_moments(y, mean, var)
        return super().weighted_tilted_moments(y, weight, mean, var)

    def tilted_parameter_gradient(
        self, y: FloatArray, weight: FloatArray | None, mean: FloatArray, var: FloatArray
    ) -> FloatArray:
        """Return derivatives of the log normalizer in the parameters; (k, n)."""
        if weight is not None or not self.parameters:
            return super().tilted_parameter_gradient(y, weight, mean, var)
        r, q = self._split(y, self.part.tilted_moments(y, mean, var).log_z)
        of_constant, of_share = self.share_slopes(np.broadcast_to(y, np.shape(r)))
        of_shares = q * of_constant + r * of_share
        if not self.part.parameters:
            return of_shares
        of_part = self.part.tilted_parameter_gradient(y, None, mean, var)
        return np.concatenate([r * of_part, of_shares])

    def log_predictive(
        self, y: npt.ArrayLike, mean: npt.ArrayLike, var: npt.ArrayLike
    ) -> FloatArray:
        """Log of the mean of p(y | f) over f ~ N(mean, var); any shapes that broadcast."""
        return self._mix(np.asarray(y, dtype=float), self.part.log_predictive(y, mean, var))

    def _mix(self, y: FloatArray, log_part: FloatArray) -> FloatArray:
        """Return log [c + s exp(log_part)]."""
        log_constant, log_share = self.log_shares(y)
        return np.logaddexp(log_constant, log_share + log_part)

    def _split(self, y: FloatArray, log_part: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the shares of p0 and of the constant in c + s exp(log_part)."""
        log_constant, log_share = self.log_shares(y)
        alone = np.isneginf(log_constant)
        log_odds = log_part + log_share - np.where(alone, 0.0, log_constant)
        return np.where(alone, 1.0, expit(log_odds)), np.where(alone, 0.0, expit(-log_odds))


def vanishing_product(share: FloatArray, values: FloatArray) -> FloatArray:
    """Return the product, which is zero where the share is, even of values that are not finite."""
    return np.where(share > 0.0, share * values, 0.0)
