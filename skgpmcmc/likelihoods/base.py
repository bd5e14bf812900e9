"""What a likelihood p(y | f) is: functions of one point, vectorized, and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _quadrature as quadrature
from .._typing import FloatArray

__all__ = ["Derivatives", "Likelihood", "TiltedMoments"]


class Derivatives(NamedTuple):
    """Derivatives of log p(y | f) with respect to f, point by point; latent scale."""

    first: FloatArray  # (n,)
    second: FloatArray  # (n,), not positive for a log-concave likelihood
    third: FloatArray  # (n,)


class TiltedMoments(NamedTuple):
    """Integral of p(y | f) N(f; mean, var) over f, and its derivatives, point by point.

    The tilted mean is mean + var alpha; the tilted variance is var - var^2 beta.
    """

    log_z: FloatArray  # (n,), natural log of the integral
    alpha: FloatArray  # (n,), d log_z / d mean
    beta: FloatArray  # (n,), -d^2 log_z / d mean^2


class Likelihood(ABC):
    """Distribution of one target y given one latent value f.

    Targets are independent given f. Every function works point by point and broadcasts, so that
    `y` of shape (n, 1) goes with `f` of shape (n, m).

    A new log-concave likelihood states `name`, `log_concave` and the four abstract methods; the
    tilted moments and the predictive then come by quadrature, which must know where log p(y | f)
    bends (`bend`). Closed forms, where there are any, override the two.

    Attributes
    ----------
    name : str
        What messages and registries call it.
    log_concave : bool
        Whether the second derivative of log p(y | f) is nowhere positive.
    """

    name: ClassVar[str]
    log_concave: ClassVar[bool]

    @abstractmethod
    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Log p(y | f), point by point.

        Parameters
        ----------
        y, f : ndarray of shape (n,), or any shapes that broadcast
            Targets as the likelihood encodes them, and latent values.

        Returns
        -------
        ndarray of the common shape
            Natural log.
        """

    @abstractmethod
    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """First, second and third derivative of log p(y | f) in f; shapes as in `log_prob`."""

    @abstractmethod
    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return the mean over y of minus the second derivative, never negative; shape of `f`."""

    @abstractmethod
    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw one target for each latent value; the shape of `f`."""

    def bend(self, y: FloatArray) -> quadrature.Bend:
        """Where log p(y | f) bends as a function of f; by default at 0, on a scale of one.

        Only the speed and the accuracy of the quadrature depend on it.
        """
        return quadrature.Bend(np.asarray(0.0), np.asarray(2.0))

    def tilted_moments(self, y: FloatArray, mean: FloatArray, var: FloatArray) -> TiltedMoments:
        """Log normalizer of p(y | f) N(f; mean, var), and its derivatives in the mean.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Targets as the likelihood encodes them.
        mean, var : ndarray of shape (n,)
            Cavity mean and variance, latent scale.

        Returns
        -------
        TiltedMoments
            Each (n,); NaN for a point with a negative variance.

        Raises
        ------
        NotImplementedError
            If the likelihood is not log-concave and has no moments of its own.
        """
        y, mean, var = np.broadcast_arrays(y, mean, var)
        moments = quadrature.tilted_moments(
            self._log_density(), self.bend(y.ravel()), y.ravel(), mean.ravel(), var.ravel()
        )
        return TiltedMoments(*(moment.reshape(mean.shape) for moment in moments))

    def log_predictive(
        self, y: npt.ArrayLike, mean: npt.ArrayLike, var: npt.ArrayLike
    ) -> FloatArray:
        """Log of the mean of p(y | f) over f ~ N(mean, var).

        Parameters
        ----------
        y, mean, var : array-like, of any shapes that broadcast
            Targets as the likelihood encodes them; predictive mean and variance, latent scale. A
            variance of zero is legal.

        Returns
        -------
        ndarray of the common shape
            Natural log; NaN where the variance is negative.

        Raises
        ------
        NotImplementedError
            If the likelihood is not log-concave and has no predictive of its own.
        """
        y, mean, var = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (y, mean, var)))
        log_z = quadrature.log_normalizer(
            self._log_density(), self.bend(y.ravel()), y.ravel(), mean.ravel(), var.ravel()
        )
        return log_z.reshape(mean.shape)

    def _log_density(self) -> quadrature.LogDensity:
        if not self.log_concave:
            raise NotImplementedError(
                f"The {self.name} likelihood is not log-concave, and the quadrature for tilted "
                "moments and predictions needs that; give it its own `tilted_moments` and "
                "`log_predictive`."
            )
        return quadrature.LogDensity(self.log_prob, self._slopes)

    def _slopes(self, y: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        first, second, _ = self.derivatives(y, f)
        return first, second
