"""Successes in a number of trials: binomial and beta-binomial likelihoods.

A target has two numbers, the successes k and the trials n of its row. Both are whole numbers, and
one double precision number holds them, ``y = n 2^26 + k``, so that all functions work element by
element as for other targets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import bdtr, betaincinv, digamma, gammaln, ndtr, ndtri, polygamma

from .._typing import BoolArray, FloatArray, IntArray
from ..numerics.quadrature import DECREASING_TAIL, Bend, Cuts, average_decreasing
from .base import (
    Derivatives,
    Likelihood,
    OneScaleLikelihood,
    ParameterDerivatives,
    PredictiveMoments,
)
from .bernoulli import Bernoulli, Logit, Probit

#: Unit of the number of trials in an encoded target; the largest number is one less.
_UNIT = 2.0**26
#: Most trials of a row.
MOST_TRIALS = int(_UNIT) - 1
#: Largest log of the precision of a beta distribution; beyond, counts are binomial.
_LARGEST_LOG_PRECISION = 16.0
#: Most trials whose counts are added up one by one in a Fisher information.
_MOST_COUNTED = 100
#: Bernoulli numbers: coefficients of the powers of 1 / x^2 in the series of x^3 times trigamma.
_TRIGAMMA = (1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0)
#: Ends of panels of a beta-binomial likelihood, on the scale of f.
_PANEL_ENDS = (-16.0, -8.0, -4.0, -2.0, 0.0, 2.0, 4.0, 8.0, 16.0)


def encode(successes: Any, trials: Any) -> FloatArray:
    """Return targets of successes and trials, which broadcast."""
    return np.asarray(np.asarray(trials, dtype=float) * _UNIT + successes)


def decode(y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the successes and the trials of encoded targets."""
    trials = np.floor(np.asarray(y) / _UNIT)
    return y - trials * _UNIT, trials


class SuccessLikelihood(Likelihood):
    """Base class of likelihoods of successes in `trials`, which new targets have, too."""

    trials: FloatArray | float
    link: str

    targets: ClassVar[str] = "integers from 0 to the number of trials"
    # Larger counts would run into the number of trials of an encoded target.
    largest_log_count: ClassVar[float] = float(np.log(MOST_TRIALS))

    def legal(self, y: FloatArray) -> BoolArray:
        """Return where successes are integers from zero to the trials, of which there is one."""
        y = np.asarray(y, dtype=float)
        with np.errstate(invalid="ignore"):
            k, n = decode(np.where(np.isfinite(y), y, -1.0))
        return (n >= 1.0) & (k == np.floor(k)) & (k <= n)

    def at_new_rows(self) -> Likelihood:
        """Return the likelihood of one trial."""
        return self.with_trials(1.0)

    def of_rows(self, rows: IntArray) -> Likelihood:
        """Return the likelihood of a subset of the rows, which keep their trials."""
        return self if np.ndim(self.trials) == 0 else self.with_trials(self._row_trials()[rows])

    def row_data(self, n_rows: int) -> FloatArray:
        """Return the trials of each row as a column, (n_rows, 1), or nothing if all are equal."""
        if np.ndim(self.trials) == 0:
            return np.empty((n_rows, 0))
        return self._row_trials()[:, None]

    def with_trials(self, trials: FloatArray | float) -> Likelihood:
        """Return the likelihood of rows with these numbers of trials."""
        return replace(self, trials=trials)  # type: ignore[type-var]

    @property
    def _one(self) -> Bernoulli:
        """Likelihood of one trial."""
        return Probit() if self.link == "probit" else Logit()

    def probability(self, f: FloatArray) -> FloatArray:
        """Return the probability of a success at f."""
        return np.asarray(np.exp(self._one.log_prob(np.asarray(1.0), f)))

    def latent_value(self, probability: FloatArray) -> FloatArray:
        """Return f of a probability of success."""
        return _inverse_link(np.asarray(probability, dtype=float), self.link)

    def _row_trials(self) -> FloatArray:
        return np.asarray(self.trials, dtype=float)

    def _trials_like(self, f: FloatArray) -> FloatArray:
        """Return the trials so that they broadcast with f of shape (n,) or (n, m)."""
        trials = self._row_trials()
        return trials[:, None] if trials.ndim and np.ndim(f) == 2 else trials


def _log_choose(k: FloatArray, n: FloatArray) -> FloatArray:
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


@dataclass(frozen=True, eq=False)
class Binomial(SuccessLikelihood):
    """Binomial counts of successes, each with probability Phi(f), or a logistic function of f.

    Parameters
    ----------
    link : {"probit", "logit"}, default="probit"
        Probability of a success: Phi(f), or 1 / (1 + exp(-f)).
    trials : ndarray of shape (n,), or float, default=1.0
        Number of trials of each training row, with which targets are drawn.
    """

    link: str = "probit"
    trials: FloatArray | float = 1.0

    name: ClassVar[str] = "binomial"
    log_concave: ClassVar[bool] = True
    counts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse an unknown link."""
        if self.link not in ("probit", "logit"):
            raise ValueError(f"link must be 'probit' or 'logit'; got {self.link!r}.")

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Return log C(n, k) + k log p + (n - k) log(1 - p)."""
        k, n = decode(y)
        of_success = self._one.log_prob(np.asarray(1.0), f)
        of_failure = self._one.log_prob(np.asarray(-1.0), f)
        # Without successes or failures their log, which may be minus infinity, has no part.
        with np.errstate(invalid="ignore"):
            successes = np.where(k > 0.0, k * of_success, 0.0)
            failures = np.where(k < n, (n - k) * of_failure, 0.0)
        return _log_choose(k, n) + successes + failures

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return the sum over the trials."""
        k, n = decode(y)
        of_success = self._one.derivatives(np.asarray(1.0), f)
        of_failure = self._one.derivatives(np.asarray(-1.0), f)
        pairs = zip(of_success, of_failure, strict=True)
        return Derivatives(*(k * one + (n - k) * other for one, other in pairs))

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return the number of trials times that of one trial."""
        return np.asarray(self._trials_like(f) * self._one.fisher_information(f))

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw successes in the trials of each row."""
        trials = np.broadcast_to(self._trials_like(f), np.shape(f))
        return encode(rng.binomial(trials.astype(np.int64), self.probability(f)), trials)

    def bend(self, y: FloatArray) -> Bend:
        """Return the bend of one trial."""
        found = self._one.bend(np.asarray(1.0))
        assert isinstance(found, Bend)
        return found

    def predictive_moments(self, mean: FloatArray, var: FloatArray) -> PredictiveMoments:
        """Mean and variance of one trial over f ~ N(mean, var)."""
        p = np.exp(self._one.log_predictive(1.0, mean, var))
        return PredictiveMoments(p, p * (1.0 - p))

    def predictive_cdf(self, y: FloatArray, mean: FloatArray, var: FloatArray) -> FloatArray:
        """Probability of at most k successes over f ~ N(mean, var); (m, 1), (m, g), (m, 1).

        `y` is encoded, and may have any k. Given f, the probability decreases with f.
        """
        k, n = decode(np.asarray(y, dtype=float))
        whole = np.minimum(np.floor(k), n)
        low, high = (
            self.latent_value(np.asarray(betaincinv(whole + 1.0, np.maximum(n - whole, 0.5), p)))
            for p in (DECREASING_TAIL, 1.0 - DECREASING_TAIL)
        )

        def at_most(f: FloatArray) -> FloatArray:
            """Return the probability of at most k successes given f."""
            at = whole[..., None], n[..., None].astype(np.int64), self.probability(f)
            return np.asarray(bdtr(*at))

        inside = average_decreasing(at_most, low, high, mean, var)
        return np.where(whole >= n, 1.0, inside)


def _inverse_link(p: FloatArray, link: str) -> FloatArray:
    """Return f for a probability of success, within what double precision can tell from 0 and 1."""
    inside = np.clip(p, 1e-300, 1.0 - 1e-16)
    return np.asarray(ndtri(inside) if link == "probit" else np.log(inside) - np.log1p(-inside))


@dataclass(frozen=True, eq=False)
class BetaBinomial(SuccessLikelihood, OneScaleLikelihood):
    """Beta-binomial counts of successes: the probability of a row varies around Phi(f).

    The probability of a row has the distribution Beta(s mu, s (1 - mu)) with mean mu = Phi(f), so
    that the variance of a count is that of a binomial one times ``1 + (n - 1) / (s + 1)``.

    Parameters
    ----------
    precision : float, default=10.0
        Positive number s. A starting value of the chains, unless `fixed`.
    fixed : bool, default=False
        Keep `precision` fixed instead of inferring it (as hyper-parameter ``"precision"``).
    trials : ndarray of shape (n,), or float, default=1.0
        Number of trials of each training row, with which targets are drawn.

    Notes
    -----
    With a = s Phi(f), b = s Phi(-f) and k successes in n trials, the log probability is that of at
    most one success and one failure by a probit, plus ``log Gamma(k + a) - log Gamma(1 + a)`` if
    k > 0, and the like of n - k and b. So written, it loses no digits where Phi underflows.

    Integrals over f take some thirty times as long as those of a binomial likelihood, because log p
    is not concave in f.
    """

    precision: float = 10.0
    fixed: bool = False
    trials: FloatArray | float = 1.0

    link: ClassVar[str] = "probit"  # type: ignore[misc]
    name: ClassVar[str] = "beta_binomial"
    scale: ClassVar[str] = "precision"
    farthest: ClassVar[float] = _LARGEST_LOG_PRECISION
    log_concave: ClassVar[bool] = False
    counts: ClassVar[bool] = True

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Log probability of the successes."""
        k, n = decode(y)
        s = self.precision
        value = _log_choose(k, n) - np.log(s) - gammaln(n + s) + gammaln(1.0 + s)
        for count, sign in ((k, 1.0), (n - k, -1.0)):
            a = s * ndtr(sign * f)
            of_one = np.log(s) + Probit().log_prob(np.asarray(sign), f)
            rest = gammaln(np.maximum(count, 1.0) + a) - gammaln(1.0 + a)
            value = value + np.where(count > 0.0, of_one + rest, 0.0)
        return np.asarray(value)

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return the first three derivatives in f."""
        k, n = decode(y)
        g = self._slope(f)
        third = np.zeros(np.broadcast_shapes(np.shape(y), np.shape(f)))
        for count, sign in ((k, 1.0), (n - k, -1.0)):
            own = Probit().derivatives(np.asarray(sign), f).third
            one, two = self._psi_gaps(count, f, sign)
            three = self._third_psi_gap(count, f, sign)
            rest = sign * (three * g**3 + (f * f - 1.0) * g * one) - 3.0 * two * f * g**2
            third += np.where(count > 0.0, own + rest, 0.0)
        return Derivatives(*self.slopes(y, f), third)

    def parameter_derivatives(self, y: FloatArray, f: FloatArray) -> ParameterDerivatives:
        """Return derivatives with respect to log precision; k = 1, or 0 if it is fixed."""
        if self.fixed:
            return super().parameter_derivatives(y, f)
        k, n = decode(y)
        s = self.precision
        g = self._slope(f)
        value = np.asarray(-1.0 - s * (digamma(n + s) - digamma(1.0 + s)))
        first = np.asarray(0.0)
        second = np.asarray(0.0)
        for count, sign in ((k, 1.0), (n - k, -1.0)):
            a = s * ndtr(sign * f)
            one, two = self._psi_gaps(count, f, sign)
            three = self._third_psi_gap(count, f, sign)
            value = value + np.where(count > 0.0, 1.0 + a * one, 0.0)
            slope = sign * g
            bent = -f * slope
            first = first + slope * (one + a * two)
            second = second + bent * (one + a * two) + slope**2 * (2.0 * two + a * three)
        shape = np.broadcast_shapes(np.shape(y), np.shape(f))
        parts = (np.broadcast_to(part, shape)[None] for part in (value, first, second))
        return ParameterDerivatives(*parts)

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return the mean over y of the squared first derivative.

        Counts of up to a hundred trials are added up. The information of more trials is in
        proportion to the inverse variance of their mean.
        """
        f = np.asarray(f, dtype=float)
        n = np.broadcast_to(self._trials_like(f), f.shape)
        counted = np.minimum(n, _MOST_COUNTED)
        found = np.empty(f.shape)
        for trials in np.unique(counted):
            here = counted == trials
            targets = encode(np.arange(trials + 1.0)[:, None], trials)
            score, _ = self.slopes(targets, f[here])
            found[here] = np.sum(np.exp(self.log_prob(targets, f[here])) * score**2, axis=0)
        return np.asarray(found * self._effective_trials(n) / self._effective_trials(counted))

    def _effective_trials(self, n: FloatArray) -> FloatArray:
        """Return the number of binomial trials whose mean has the same variance."""
        return np.asarray(n / (1.0 + (n - 1.0) / (self.precision + 1.0)))

    def slopes(self, y: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the first two derivatives."""
        k, n = decode(y)
        g = self._slope(f)
        shape = np.broadcast_shapes(np.shape(y), np.shape(f))
        first = np.zeros(shape)
        second = np.zeros(shape)
        for count, sign in ((k, 1.0), (n - k, -1.0)):
            own = Probit().derivatives(np.asarray(sign), f)
            one, two = self._psi_gaps(count, f, sign)
            first += np.where(count > 0.0, own.first + sign * g * one, 0.0)
            bent = two * g**2 - sign * f * g * one
            second += np.where(count > 0.0, own.second + bent, 0.0)
        return first, second

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw successes in the trials of each row."""
        tiny = np.finfo(float).tiny
        a, b = (np.maximum(self.precision * ndtr(sign * f), tiny) for sign in (1.0, -1.0))
        trials = np.broadcast_to(self._trials_like(f), np.shape(f))
        return encode(rng.binomial(trials.astype(np.int64), rng.beta(a, b)), trials)

    def bend(self, y: FloatArray) -> Cuts:
        """Return cuts on the scale of f, and at the most likely f."""
        k, n = decode(y)
        center = ndtri((k + 0.5) / (n + 1.0))
        return Cuts(np.column_stack([center, *(np.full(len(y), end) for end in _PANEL_ENDS)]))

    def predictive_moments(self, mean: FloatArray, var: FloatArray) -> PredictiveMoments:
        """Mean and variance of one trial over f ~ N(mean, var)."""
        p = np.exp(Probit().log_predictive(1.0, mean, var))
        return PredictiveMoments(p, p * (1.0 - p))

    def _slope(self, f: FloatArray) -> FloatArray:
        """Return the derivative of s Phi(f)."""
        return np.asarray(self.precision * np.exp(-0.5 * f * f) / np.sqrt(2.0 * np.pi))

    def _psi_gaps(
        self, count: FloatArray, f: FloatArray, sign: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return two derivatives of log Gamma(count + a) - log Gamma(1 + a) in a, if count > 0."""
        a = self.precision * ndtr(sign * f)
        c = np.maximum(count, 1.0) + a
        return digamma(c) - digamma(1.0 + a), _trigamma(c) - _trigamma(1.0 + a)

    def _third_psi_gap(self, count: FloatArray, f: FloatArray, sign: float) -> FloatArray:
        """Return the third derivative of the same difference."""
        a = self.precision * ndtr(sign * f)
        c = np.maximum(count, 1.0) + a
        return np.asarray(polygamma(2, c) - polygamma(2, 1.0 + a))


def _trigamma(x: FloatArray) -> FloatArray:
    """Return the second derivative of log Gamma at x >= 1, ten times faster than SciPy.

    Eight terms of its sum, and an asymptotic series for the rest.
    """
    total = sum(1.0 / (x + i) ** 2 for i in range(8))
    inverse = 1.0 / (x + 8.0)
    return np.asarray(
        total
        + inverse
        * (
            1.0
            + inverse
            * (0.5 + inverse * np.polynomial.polynomial.polyval(inverse * inverse, _TRIGAMMA))
        )
    )
