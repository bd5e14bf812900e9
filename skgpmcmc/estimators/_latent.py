"""What predictors with one latent function have: its moments and draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..run import LeaveOneOut, leave_one_out
from ..run.effort import require_memory
from . import _validation as check
from ._base import BaseBayesianGP


def in_units_of_y(values: np.ndarray, shift: float, scale: float) -> np.ndarray:
    """Return ``shift + scale * values``, refused where that is beyond double precision."""
    with np.errstate(over="ignore", invalid="ignore"):  # looked for in the next line
        result = shift + scale * values
    if not np.isfinite(result).all():
        raise ValueError(
            f"The result overflows in the units of y, whose standard deviation is {scale:.3g}: "
            "divide y by a power of ten before fit."
        )
    return result


#: Matrices that a joint draw at m rows holds: their covariance, its eigenvectors and its root.
_JOINT_MATRICES = 7.0


def require_joint_memory(n_rows: int, n_draws: int) -> None:
    """Refuse joint draws at more rows than the machine has memory for."""
    require_memory("A joint draw at n rows", n_rows, _JOINT_MATRICES, n_doubles=n_draws * n_rows)


class OneLatentFunction(BaseBayesianGP):
    """Moments and draws of the latent function, shifted and scaled to what the user knows."""

    def _check_single(self, method: str) -> None:
        """Raise a ValueError where there are several latent functions."""

    def _log_density_shift(self) -> float:
        """Added to log p(y | f) so that it is per unit of y as the user gave it."""
        return 0.0

    def _latent_scale(self) -> tuple[float, float]:
        """Shift and scale from the function that is sampled to the one that is reported."""
        return 0.0, 1.0

    def latent_mean_and_variance(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of the latent function, over theta and f.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        latent_mean : ndarray of shape (n_samples,)
            Mean, on the latent scale; (n_samples, n_classes) for a softmax.
        latent_var : ndarray of shape (n_samples,)
            Total variance, on the latent scale: mean of variances plus variance of means; of the
            same shape. Zero where it is below the smallest number, in the units of y squared.
        """
        X = self._check_X(X)
        self._check_single("latent_mean_and_variance")
        mean, var = self._predictor.latent_moments(X, self.n_jobs)
        shift, scale = self._latent_scale()
        return in_units_of_y(mean.T, shift, scale), in_units_of_y(scale * var.T, 0.0, scale)

    def sample_latent(self, X: Any, n_draws: int = 1, random_state: Any = None) -> np.ndarray:
        """Joint posterior draws of the latent function at the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows at which the function is drawn.
        n_draws : int, default=1
            Number of functions drawn. Each continues one of the draws of (theta, f) that
            predictions use: at training rows there are no more different ones than
            `max_predict_draws`. For histograms there take `latent_samples_`.
        random_state : int, RandomState instance or None, default=None
            Seed of the draws.

        Returns
        -------
        ndarray of shape (n_draws, n_samples)
            On the latent scale; (n_draws, n_samples, n_classes) for a softmax.
        """
        X = self._check_X(X)
        self._check_single("sample_latent")
        n_draws = check.check_integer("n_draws", n_draws, 1)
        require_joint_memory(len(X), n_draws)
        rng = np.random.default_rng(check.check_seed(random_state).randint(2**31))
        shift, scale = self._latent_scale()
        draws = self._predictor.sample_latent(X, n_draws, rng)
        return in_units_of_y(np.moveaxis(draws, 1, -1), shift, scale)

    def loo(self) -> LeaveOneOut:
        """Leave-one-out cross-validation of the training rows, from the draws.

        Pareto-smoothed importance sampling (PSIS-LOO) from the draws' p(y | f, theta), by arviz:
        nothing is fitted again. Rows whose Pareto k is above 0.7 are those that the draws know too
        little about.

        Returns
        -------
        LeaveOneOut
            Expected log predictive density, its standard error, and both row by row; natural logs.

        References
        ----------
        Vehtari, Gelman & Gabry (2017), Practical Bayesian model evaluation using leave-one-out
        cross-validation and WAIC, Statistics and Computing 27.
        """
        check_is_fitted(self)
        self._check_single("loo")
        return leave_one_out(self._predictor.model, self._draws, self._log_density_shift())
