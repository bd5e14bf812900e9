"""Counts with more zeros than a Poisson or a negative binomial distribution has."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from .._typing import FloatArray
from ..numerics.quadrature import Cuts
from .base import OneScaleLikelihood, PositiveParameters, PredictiveMoments
from .counts import Counts, NegativeBinomial, Poisson
from .mixed import MixedWithConstant, vanishing_product

#: Ends of panels around the rate one, and around the place at which a likelihood changes its form.
_LOG_RATE_PANEL_ENDS = np.array([-8.0, -4.0, -2.0, 0.0, 2.0, 4.0])
_NEAR_ENDS = np.array([-1.0, -0.3, 0.0, 0.3, 1.0])


class ZeroInflated(MixedWithConstant, Counts, PositiveParameters):
    """Base class of counts that are zero with a probability pi, whatever the rate is.

    The other counts are those of `part`; they may be zero, too. What is inferred is the odds
    pi / (1 - pi).
    """

    zero_odds: float

    @property
    @abstractmethod
    def turn(self) -> FloatArray:
        """Return f at which zeros of both kinds are equally likely, if pi is below one half."""

    @property
    def zero_probability(self) -> float:
        """The probability pi."""
        return float(expit(np.log(self.zero_odds)))

    def log_shares(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log pi for zeros, minus infinity for other counts, and log(1 - pi)."""
        log_share = -np.log1p(self.zero_odds)
        log_constant = np.where(np.asarray(y) == 0.0, np.log(self.zero_odds) + log_share, -np.inf)
        return log_constant, np.full(np.shape(y), log_share)

    def share_slopes(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return derivatives of log pi and of log(1 - pi) in the log of the odds; (k, ...)."""
        shape = (int("zero_odds" in self.inferred), *np.shape(y))
        pi = self.zero_probability
        return np.full(shape, 1.0 - pi), np.full(shape, -pi)

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return that of counts without additional zeros, less what zeros do not tell any more."""
        zero = np.zeros(np.shape(f))
        log_zero = self.part.log_prob(zero, f)
        _, q = self._split(zero, log_zero)
        slope = self.part.derivatives(zero, f).first
        with np.errstate(over="ignore", invalid="ignore"):
            lost = vanishing_product(np.exp(log_zero), slope**2 * q)
        return np.asarray((1.0 - self.zero_probability) * (self.part.fisher_information(f) - lost))

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw counts."""
        inflated = rng.random(np.shape(f)) < self.zero_probability
        return np.where(inflated, 0.0, self.part.sample(f, rng))

    def bend(self, y: FloatArray) -> Cuts:
        """Return cuts around the rate one, and the turn of a zero or the most likely rate."""
        turn = np.where(y == 0.0, self.turn, np.log(np.maximum(y, 1.0)))
        wide = np.broadcast_to(_LOG_RATE_PANEL_ENDS, (len(y), len(_LOG_RATE_PANEL_ENDS)))
        return Cuts(np.concatenate([wide, turn[:, None] + _NEAR_ENDS], axis=1))

    def predictive_moments(self, mean: FloatArray, var: FloatArray) -> PredictiveMoments:
        """Mean and variance of a count over f ~ N(mean, var)."""
        pi = self.zero_probability
        other = self.part.predictive_moments(mean, var)
        spread = (1.0 - pi) * (other.var + pi * other.mean**2)
        return PredictiveMoments((1.0 - pi) * other.mean, spread)

    def predictive_cdf(self, y: FloatArray, mean: FloatArray, var: FloatArray) -> FloatArray:
        """Probability that a count over f ~ N(mean, var) is at most y >= 0; shapes of `part`."""
        pi = self.zero_probability
        return np.asarray(pi + (1.0 - pi) * self.part.predictive_cdf(y, mean, var))


@dataclass(frozen=True)
class ZeroInflatedPoisson(ZeroInflated, OneScaleLikelihood):
    """Poisson counts with mean exp(f), but zero with a probability pi, whatever f is.

    Parameters
    ----------
    zero_odds : float, default=0.2
        Positive odds pi / (1 - pi). A starting value of the chains, unless `fixed`.
    fixed : bool, default=False
        Keep `zero_odds` fixed instead of inferring it (as hyper-parameter ``"zero_odds"``).
    fractional : bool, default=False
        Allow any targets >= 0, such as averages of counts.

    Notes
    -----
    The mean of a count is (1 - pi) exp(f), and an exposure multiplies exp(f).
    """

    zero_odds: float = 0.2
    fixed: bool = False
    fractional: bool = False

    name: ClassVar[str] = "zero_inflated_poisson"
    scale: ClassVar[str] = "zero_odds"

    @property
    def part(self) -> Poisson:
        """Counts without additional zeros."""
        return Poisson(self.fractional)

    @property
    def turn(self) -> FloatArray:
        """See `ZeroInflated`."""
        return np.log(max(-np.log(self.zero_odds), 0.1))


@dataclass(frozen=True)
class ZeroInflatedNegativeBinomial(ZeroInflated):
    """Negative binomial counts with mean exp(f), but zero with a probability pi, whatever f is.

    Parameters
    ----------
    shape : float, default=1.0
        Positive; see `NegativeBinomial`. A starting value of the chains, unless `fixed`.
    zero_odds : float, default=0.2
        Positive odds pi / (1 - pi). A starting value of the chains, unless `fixed`.
    fixed : bool, default=False
        Keep both fixed instead of inferring them (as hyper-parameters ``"shape"`` and
        ``"zero_odds"``).
    fractional : bool, default=False
        Allow any targets >= 0, such as averages of counts.

    Notes
    -----
    The mean of a count is (1 - pi) exp(f), and an exposure multiplies exp(f). With few data a small
    shape and additional zeros are hard to tell apart.
    """

    shape: float = 1.0
    zero_odds: float = 0.2
    fixed: bool = False
    fractional: bool = False

    name: ClassVar[str] = "zero_inflated_negative_binomial"

    @property
    def inferred(self) -> tuple[str, ...]:
        """Both parameters, unless they are fixed."""
        return () if self.fixed else ("shape", "zero_odds")

    @property
    def part(self) -> NegativeBinomial:
        """Counts without additional zeros."""
        return NegativeBinomial(self.shape, self.fixed, self.fractional)

    @property
    def turn(self) -> FloatArray:
        """See `ZeroInflated`."""
        needed = max(-np.log(self.zero_odds), 0.1) / self.shape
        return np.log(self.shape) + needed + np.log(-np.expm1(-needed))
