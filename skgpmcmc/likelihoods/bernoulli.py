"""Two classes, encoded -1.0 and +1.0, with a probit or a logit link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, expit, log_ndtr, ndtr, ndtri, owens_t

from .._typing import BoolArray, FloatArray
from ..numerics.logistic import average_logistic
from ..numerics.quadrature import Bend
from .base import Derivatives, Likelihood, TiltedMoments, mask_negative

#: Argument below which the textbook derivatives of log Phi suffer from cancellation.
_FAR_TAIL = -5.0
#: Levels of the continued fraction, which give full precision below `_FAR_TAIL`.
_FRACTION_LEVELS = 40
#: Least and largest probability that are told from 0 and 1.
_TOLD_FROM_ENDS = (1e-300, 1.0 - 1e-16)
#: Values of f at which the probability of +1.0 has its limits.
FAR_ENDS = np.array([-700.0, 700.0])


class Bernoulli(Likelihood):
    """Base class of links for two classes, -1.0 and +1.0, whose probabilities add up to one.

    The class with the sign of f is the likelier one.
    """

    log_concave: ClassVar[bool] = True
    targets: ClassVar[str] = "-1.0 and +1.0"

    def legal(self, y: FloatArray) -> BoolArray:
        """Return where y is -1 or +1."""
        return np.abs(y) == 1.0

    def probability(self, f: FloatArray) -> FloatArray:
        """Return the probability of +1.0 at f."""
        return np.asarray(np.exp(self.log_prob(np.asarray(1.0), f)))

    def latent_value(self, probability: FloatArray) -> FloatArray:
        """Return f of a probability of +1.0, within what double precision tells from 0 and 1."""
        raise NotImplementedError(
            f"The {self.name} likelihood has no inverse: define `latent_value`, which returns f of "
            "a probability."
        )

    def probability_moments(
        self, mean: FloatArray, var: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return means over f ~ N(mean, var) of the probability of +1.0, and of its square.

        Parameters
        ----------
        mean, var : ndarray, of shapes that broadcast
            A variance of zero is allowed.

        Returns
        -------
        tuple of two ndarrays
            Of the common shape.
        """
        mean, var = np.broadcast_arrays(mean, var)
        first = np.exp(self.log_predictive(1.0, mean, var))
        given_success = self.tilted_densities(np.ones(mean.size), mean.ravel(), var.ravel(), None)
        again = given_success.average(lambda _, f: self.probability(f)[None])
        return first, first * again.reshape(mean.shape)

    def probability_above(
        self, threshold: FloatArray, mean: FloatArray, var: FloatArray
    ) -> FloatArray:
        """Return how probable it is over f ~ N(mean, var) that that of +1.0 is above a threshold.

        Parameters
        ----------
        threshold, mean, var : ndarray, of shapes that broadcast
            Thresholds between 0 and 1. A variance of zero is allowed.

        Returns
        -------
        ndarray
            Of the common shape. One or zero where no f brings the probability below the threshold,
            or above.
        """
        least, most = self.probability(FAR_ENDS)
        at = self.latent_value(np.clip(threshold, least, most))
        sd = np.maximum(np.sqrt(var), np.finfo(float).tiny)
        with np.errstate(over="ignore"):
            above = np.where(threshold < least, 1.0, ndtr((mean - at) / sd))
        return np.where(threshold >= most, 0.0, above)

    def log_class_probabilities(
        self, mean: FloatArray, var: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """See `Likelihood`; one integral, for the class that the sign of the mean speaks against.

        This class has the smaller probability, so that one minus that loses no digits.
        """
        positive = mean > 0.0
        smaller = self.log_predictive(np.where(positive, -1.0, 1.0), mean, var)
        larger = np.log1p(-np.exp(smaller))
        return np.where(positive, smaller, larger), np.where(positive, larger, smaller)


@dataclass(frozen=True)
class Probit(Bernoulli):
    """Probit likelihood: the class y has probability Phi(y f), with Phi the standard normal cdf.

    Notes
    -----
    Derivatives: Rasmussen & Williams (2006), (3.16). Relative errors, for -1e5 <= y f <= 30: below
    1e-13 in the first and second derivative, below 1e-11 in the third. Where y f > 39 all three
    underflow to zero.
    """

    name: ClassVar[str] = "probit"

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Log Phi(y f)."""
        return np.asarray(log_ndtr(y * f))

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return y r, -r (z + r), y r (2 r^2 + 3 z r + z^2 - 1); z = y f, r = phi(z) / Phi(z)."""
        first, second, third = _differentiate_log_ndtr(y * f)
        return Derivatives(y * first, second, y * third)

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return phi(f)^2 / (Phi(f) Phi(-f))."""
        return hazard(f) * hazard(-f)

    def tilted_moments(self, y: FloatArray, mean: FloatArray, var: FloatArray) -> TiltedMoments:
        """Log normalizer and its derivatives in closed form; shapes as in the base class.

        With u = y mean / sqrt(1 + var): log Phi(u) and its derivatives in `mean`; Rasmussen &
        Williams (2006), (3.58) and section 3.9.
        """
        scale = np.sqrt(1.0 + mask_negative(var))
        u = y * mean / scale
        first, second, _ = _differentiate_log_ndtr(u)
        return TiltedMoments(np.asarray(log_ndtr(u)), y * first / scale, -second / scale**2)

    def latent_value(self, probability: FloatArray) -> FloatArray:
        """Return the quantile of the normal distribution."""
        return np.asarray(ndtri(np.clip(probability, *_TOLD_FROM_ENDS)))

    def probit_signs(self, y: FloatArray) -> FloatArray | None:
        """Return y."""
        return y

    def log_predictive(
        self, y: npt.ArrayLike, mean: npt.ArrayLike, var: npt.ArrayLike
    ) -> FloatArray:
        """Log Phi(y mean / sqrt(1 + var)), any shapes that broadcast, var >= 0.

        Filippone & Girolami (2014), (8).
        """
        y, mean, var = (np.asarray(a, dtype=float) for a in (y, mean, var))
        return np.asarray(log_ndtr(y * mean / np.sqrt(1.0 + mask_negative(var))))

    def probability_moments(
        self, mean: FloatArray, var: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return Phi(u) and Phi(u) - 2 T(u, 1 / sqrt(1 + 2 var)), u = mean / sqrt(1 + var).

        T is Owen's function. In the far tail, where the difference cancels, the square takes
        quadrature.
        """
        mean, var = np.broadcast_arrays(mean, mask_negative(var))
        u = mean / np.sqrt(1.0 + var)
        first = ndtr(u)
        square = np.asarray(first - 2.0 * owens_t(u, 1.0 / np.sqrt(1.0 + 2.0 * var)))
        far = u < _FAR_TAIL
        if far.any():
            square[far] = super().probability_moments(mean[far], var[far])[1]
        return first, square

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw +1.0 with probability Phi(f), else -1.0."""
        return np.where(rng.random(np.shape(f)) < ndtr(f), 1.0, -1.0)


@dataclass(frozen=True)
class Logit(Bernoulli):
    """Logistic likelihood: the class y has probability 1 / (1 + exp(-y f)).

    Notes
    -----
    Derivatives: Rasmussen & Williams (2006), (3.15). Tilted moments and predictions use quadrature,
    that of predictions with nodes of its own.
    For abs(mean) <= 1000 and var <= 1e6 the error of log_z is below 1e-12 max(1, abs(log_z)), and
    those of sqrt(var) alpha and var beta (shift of the mean and shrinkage of the variance, in
    units of the Gaussian) are below 1e-12. For var <= 1 and abs(mean) <= 30, the relative errors of
    alpha and beta are below 1e-11 as well.
    """

    name: ClassVar[str] = "logit"

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Return -log(1 + exp(-y f))."""
        z = y * f
        # Both terms have the same sign, so that the sum is exact to rounding in both tails; it is
        # several times faster than scipy.special.log_expit.
        return np.minimum(z, 0.0) - np.log1p(np.exp(-np.abs(z)))

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return y q, -q (1 - q) and -q (1 - q) (1 - 2 p), p and q the logistics of f and -y f."""
        first, second = self.slopes(y, f)
        return Derivatives(first, second, -second * np.tanh(0.5 * f))

    def latent_value(self, probability: FloatArray) -> FloatArray:
        """Return the log of the odds."""
        inside = np.clip(probability, *_TOLD_FROM_ENDS)
        return np.asarray(np.log(inside) - np.log1p(-inside))

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return p (1 - p), p = 1 / (1 + exp(-f))."""
        return np.asarray(expit(f) * expit(-f))

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw +1.0 with probability 1 / (1 + exp(-f)), else -1.0."""
        return np.where(rng.random(np.shape(f)) < expit(f), 1.0, -1.0)

    def log_predictive(
        self, y: npt.ArrayLike, mean: npt.ArrayLike, var: npt.ArrayLike
    ) -> FloatArray:
        """See `Likelihood`; the relative error of the probability is below 1e-12."""
        y, mean, var = (np.asarray(a, dtype=float) for a in (y, mean, var))
        return average_logistic(y * mean, var).log_mean

    def probability_moments(
        self, mean: FloatArray, var: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """See `Bernoulli`; one quadrature for both."""
        log_first, square = average_logistic(mean, var)
        return np.exp(log_first), square

    def bend(self, y: FloatArray) -> Bend:
        """Return the bend at zero; the nearest poles are at plus and minus pi times i."""
        return Bend(np.asarray(0.0), np.asarray(6.0))

    def slopes(self, y: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the first two derivatives of log p(y | f)."""
        z = y * f
        tail = np.exp(-np.abs(z))
        larger = 1.0 / (1.0 + tail)
        smaller = tail * larger
        return y * np.where(z > 0.0, smaller, larger), -smaller * larger


def hazard(z: FloatArray) -> FloatArray:
    """phi(z) / Phi(z), by two branches, as each is accurate in one tail only."""
    above = np.maximum(z, 0.0)
    below = np.minimum(z, 0.0)
    left = np.sqrt(2.0 / np.pi) / erfcx(-below / np.sqrt(2.0))
    right = np.exp(-0.5 * above * above) / (np.sqrt(2.0 * np.pi) * ndtr(above))
    return np.asarray(np.where(z < 0.0, left, right))


def _differentiate_log_ndtr(z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """First three derivatives of log Phi(z), without cancellation in the far tail."""
    z = np.asarray(z)
    r = hazard(z)
    delta = z + r
    second = np.asarray(-r * delta)
    third = np.asarray(r * (delta * (r + delta) - 1.0))
    far = z < _FAR_TAIL
    if far.any():
        r[far], second[far], third[far] = _differentiate_far_tail(z[far])
    return r, second, third


def _differentiate_far_tail(z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """First three derivatives of log Phi(z) for z < -5, from the continued fraction of r.

    r(z) = t + 1/(t + 2/(t + 3/(t + ...))), t = -z (Laplace's fraction for Mills' ratio). With
    delta = 1/(t + e1), e1 = 2/(t + e2), e2 = 3/(t + ...): r = t + delta, and the differences
    in the textbook formulas become products, delta = r + z and
    delta (r + delta) - 1 = delta^2 e1 (e2 - e1).
    """
    t = -z
    fraction = np.zeros_like(t)
    for level in range(_FRACTION_LEVELS, 2, -1):
        fraction = level / (t + fraction)
    e2 = fraction
    e1 = 2.0 / (t + e2)
    delta = 1.0 / (t + e1)
    r = t + delta
    return r, -r * delta, r * delta * delta * e1 * (e2 - e1)
