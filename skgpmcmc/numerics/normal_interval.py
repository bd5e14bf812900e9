"""Mass of a standard normal variable between two points, and its derivatives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, log_ndtr

from .._typing import BoolArray, FloatArray
from .linalg import LOG_TWO_PI

#: Square root of 1 / 2, by which erfc takes a standard normal variable.
_ROOT_HALF = float(np.sqrt(0.5))
#: Width times distance from zero below which an interval has constant density.
_NARROW = 1e-6
#: Width below which, and distance from zero beyond which, the variance inside does not matter: it
#: is at most a quarter of the squared width, and one over the squared distance.
_THIN = 1e-4
_FAR = 3e3


class NormalInterval(NamedTuple):
    """Standard normal mass between two points.

    The mass is stored relative to exp(-t^2 / 2), with t the point of the interval nearest to zero,
    so that ratios of tiny masses keep their digits however far out the interval is.
    """

    low: FloatArray
    high: FloatArray
    nearest: FloatArray  # absolute value of t
    log_scaled: FloatArray  # log mass + t^2 / 2
    narrow: BoolArray  # whether the density is constant between the points
    concentrated: BoolArray  # whether the variable is all but known, given that it is inside

    @classmethod
    def of(cls, low: FloatArray, high: FloatArray, width: FloatArray) -> NormalInterval:
        """Return the interval; far out the ends may be equal by rounding, but `width` is not 0."""
        right = low > 0.0
        left = np.where(right, -high, low)
        upper = np.where(right, -low, high)
        tail = np.minimum(upper, 0.0)  # an interval that contains zero needs no scaling
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            log_tail = np.log(0.5 * erfcx(-tail * _ROOT_HALF))
            log_upper = np.where(upper > 0.0, log_ndtr(upper), log_tail)
            below = np.minimum(left, 0.0)
            log_left = np.log(0.5 * erfcx(-below * _ROOT_HALF)) + _half_square_gap(tail, below)
            log_scaled = np.asarray(log_upper + np.log1p(-np.exp(log_left - log_upper)))
            # For a narrow interval the difference cancels: density in the middle times width.
            middle = 0.5 * (upper + left)
            narrow = np.asarray(width * (1.0 + np.abs(middle)) < _NARROW)
            if narrow.any():
                thin = np.log(width) + _half_square_gap(tail, middle) - 0.5 * LOG_TWO_PI
                log_scaled = np.where(narrow, thin, log_scaled)
            # Beyond 1e154 squares are infinite and their differences NaN: the mass is zero.
            log_scaled = np.where(np.isinf(tail * tail), -np.inf, log_scaled)
        concentrated = np.asarray((width < _THIN) | (tail < -_FAR))
        return cls(low, high, -tail, log_scaled, narrow, concentrated)

    @property
    def log_mass(self) -> FloatArray:
        """Natural log of the mass."""
        with np.errstate(over="ignore"):  # where the square overflows the mass is zero
            return np.asarray(self.log_scaled - 0.5 * self.nearest**2)

    def end_density(self, x: FloatArray) -> FloatArray:
        """phi(x) over the mass; zero at infinity."""
        with np.errstate(over="ignore", invalid="ignore"):
            gap = _half_square_gap(self.nearest, x)
            return np.asarray(np.exp(gap - 0.5 * LOG_TWO_PI - self.log_scaled))

    def moments(self, count: int) -> tuple[FloatArray, ...]:
        """h_j = (low^j phi(low) - high^j phi(high)) / mass for j below `count`.

        In a narrow interval, whose ends may be equal by rounding, the difference cancels. There h_j
        is its limit, -(x^j phi(x))' / phi(x) with x in the middle.
        """
        low, high = (np.where(np.isfinite(x), x, 0.0) for x in (self.low, self.high))
        x = 0.5 * (low + high)
        flat = self.narrow | (self.low == self.high)
        at_low, at_high = (np.where(flat, 0.0, self.end_density(z)) for z in (self.low, self.high))
        return tuple(
            np.where(
                flat,
                x ** (j + 1) - (j * x ** (j - 1) if j else 0.0),
                low**j * at_low - high**j * at_high,
            )
            for j in range(count)
        )

    def slopes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """First three derivatives of the log mass as the center of the normal variable moves.

        They are the mean, the variance minus one and the third cumulant inside.
        """
        h0, h1, h2 = self.moments(3)
        second = np.minimum(h1 - h0 * h0, 0.0)  # positive by rounding alone
        third = h2 - h0 - 3.0 * h0 * h1 + 2.0 * h0**3
        # Without a variance they are known, and the differences would be all rounding.
        return (
            h0,
            np.where(self.concentrated, -1.0, second),
            np.where(self.concentrated, 0.0, third),
        )

    def scale_slopes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return derivatives of the log mass, and of two `slopes`, in the log of the scale.

        The slopes are those per unit of the center, which does not grow with the scale.
        """
        h0, h1, h2, h3 = self.moments(4)
        first = h2 - h0 - h1 * h0
        second = h3 - 3.0 * h1 - 2.0 * (h2 * h0 - h0**2 - h1 * h0**2) - h1**2
        return (
            h1,
            np.where(self.concentrated, -2.0 * h0, first),
            np.where(self.concentrated, 2.0, second),
        )


def _half_square_gap(a: FloatArray, b: FloatArray) -> FloatArray:
    """``(a^2 - b^2) / 2`` without cancellation."""
    return np.asarray(0.5 * (np.abs(a) - np.abs(b)) * (np.abs(a) + np.abs(b)))
