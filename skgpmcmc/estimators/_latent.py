"""What predictors with one latent function have: its moments and draws."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._params import check_choice, check_integer
from ..prediction.covariance import draw_latent_jointly
from ..run.leave_one_out import LOO_METHODS, LeaveOneOut, leave_one_out
from ..run.memory import require_memory
from ..run.records import Draws, with_latent_draws
from ..run.summary import PosteriorSummary
from . import _validation as check
from ._average import average_evidence
from ._base import BaseBayesianGP
from ._data import (
    LogProbabilityClassifierMixin,
    find_label_positions,
    to_units_of_y,
    validate_rows_to_predict,
)
from ._predictive import Curve
from ._terms import find_linear_effects, select_terms

if TYPE_CHECKING:
    from ..run.evidence import Evidence

#: Matrices that a joint draw at m rows holds: their covariance, its eigenvectors and its root.
_JOINT_MATRICES = 7.0


class OneLatentFunction(BaseBayesianGP):
    """Moments and draws of the latent function, in the units of the user."""

    def _check_single(self, method: str) -> None:
        """Raise a ValueError where there are several latent functions."""

    def _log_density_shift(self) -> float | np.ndarray:
        """Added to log p(y | f) so that it is per unit of y as the user gave it.

        One number, or one for each row of the model.
        """
        return 0.0

    @property
    def _target_units(self) -> tuple[float, float]:
        """Shift and scale from targets as the likelihood encodes them to those of the user."""
        return (0.0, 1.0)

    def _as_given(self, encoded: np.ndarray) -> np.ndarray:
        """Return encoded targets as the user knows them."""
        return to_units_of_y(encoded, *self._target_units)

    def _as_reported(self, f: np.ndarray) -> np.ndarray:
        """Arrange draws of f (n_chains, n_draws, n_functions, n) as the user knows them."""
        return f[:, :, 0]

    @cached_property
    def latent_samples_(self):
        """Posterior draws of the latent function at the training rows.

        Those of weight zero are included: f there follows from the draws at the others. If the
        sampler integrates the latent function out, they are made at the first access.

        Returns
        -------
        ndarray of shape (n_chains, n_draws, n_train)
            On the scale of `latent_mean_and_variance`. They do not depend on `n_jobs`.
        """
        check_is_fitted(self)
        f = self._as_reported(self._latent_at_rows())
        return f if self._units == (0.0, 1.0) else to_units_of_y(f, *self._units)

    def latent_mean_and_variance(
        self, X: Any, return_cov: bool = False, terms: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of the latent function, averaged over theta.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        return_cov : bool, default=False
            Return the covariance matrix of the rows instead of their variances.
        terms : sequence of int, default=None
            Positions in the sum that the kernel is, from 0: moments are those of the sum of these
            terms, such as of a trend, or of a function of space. A sum on some of the columns,
            ``On(k1 + k2, columns)``, has two terms. None is the whole function.

        Returns
        -------
        latent_mean : ndarray of shape (n_samples,)
            Mean, on the latent scale; (n_samples, n_classes) for a softmax.
        latent_var : ndarray of shape (n_samples,)
            Total variance, on the latent scale: the mean over theta of the variances plus the
            variance of the means. Same shape as the mean. Zero if it underflows in the units of
            y squared. With `return_cov` the covariance matrix, of shape (n_samples, n_samples);
            (n_samples, n_samples, n_classes) for a softmax.

        Notes
        -----
        Means of all terms add up to that of the function. With ``normalize_y=True`` the mean of y
        is not part of any term. Variances do not add up, as terms are dependent in the posterior.
        """
        X = validate_rows_to_predict(self, X)
        self._check_single("latent_mean_and_variance")
        predictor, shift = self._predictor_of_terms(terms)
        if return_cov:
            require_joint_memory(len(X))
            mean, var = predictor.latent_covariance(X)
        else:
            mean, var = predictor.latent_moments(X, self.n_jobs)
        scale = self._units[1]
        half_way = to_units_of_y(var.T, 0.0, scale)  # the square of the scale may be no number
        return to_units_of_y(mean.T, shift, scale), to_units_of_y(half_way, 0.0, scale)

    def _predictor_of_terms(self, terms: Any) -> tuple[Any, float]:
        """Return a predictor of some terms, and what is added to it; of all terms for None."""
        if terms is None:
            return self._predictor, self._units[0]
        self._check_one_kernel("latent_mean_and_variance(terms=...)")
        return select_terms(self._predictor, terms), 0.0

    def linear_effects(self, X: Any = None) -> Any:
        """Posterior of the slopes of the linear terms of the kernel.

        Terms of a sum that are `skgpmcmc.kernels.Linear` or DotProduct, alone or times a constant,
        and on all columns or by `On` on some, are linear in their columns. The sum may be within
        `On`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), default=None
            Effects are those of one standard deviation of each column in these rows; None is one
            unit of each column, as in `fit`.

        Returns
        -------
        pandas.DataFrame, or a printable table if pandas is not installed
            A row for each column of a linear term, in its order. Columns: "mean", "sd", "5%" and
            "95%" of the change of the latent function, which is in units of y for numbers, the log
            of the rate for counts, and on the scale of the link for probabilities.

        Raises
        ------
        ValueError
            If the kernel has no linear term, or there is one model per class or kernel.
        """
        check_is_fitted(self)
        self._check_single("linear_effects")
        self._check_one_kernel("linear_effects")
        steps = np.ones(self.n_features_in_)
        if X is not None:
            steps = np.std(validate_rows_to_predict(self, X), axis=0)
        positions = map(str, range(self.n_features_in_))
        names = [str(name) for name in vars(self).get("feature_names_in_", positions)]
        found = find_linear_effects(self._predictor, names, steps, self._units[1])
        return _to_frame(found)

    def _latent_quantiles(self, X: np.ndarray, probabilities: Sequence[float]) -> np.ndarray:
        """Posterior quantiles of the latent function, (k, n), on the latent scale."""
        quantiles = self._predictor.latent_quantiles(probabilities, X)
        return to_units_of_y(quantiles, *self._units)

    def _curve(self, X: Any, probabilities: Sequence[float], y: Any) -> Curve:
        """Predictions at X, and targets y, for `PredictionDisplay`.

        Counts also have an argument `exposure`, and successes `trials`: the numbers of the rows of
        y, or None. New targets have their median.
        """
        raise ValueError(
            "PredictionDisplay draws numbers, counts, successes in trials and two classes; got "
            f"{type(self).__name__}: draw what its predict returns."
        )

    def sample_latent(self, X: Any, n_draws: int = 1, random_state: Any = 0) -> np.ndarray:
        """Joint posterior draws of the latent function at the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows at which the function is drawn.
        n_draws : int, default=1
            Number of functions drawn. Each extends one of the draws of (theta, f) that predictions
            use to the rows of X. At training rows there are therefore at most `max_predict_draws`
            distinct values; for histograms there, use `latent_samples_`.
        random_state : int, RandomState instance or None, default=0
            Seed of the draws.

        Returns
        -------
        ndarray of shape (n_samples, n_draws)
            On the latent scale; (n_samples, n_draws, n_classes) for a softmax.
        """
        X = validate_rows_to_predict(self, X)
        self._check_single("sample_latent")
        rng = self._joint_stream(X, "n_draws", n_draws, random_state)
        draws = self._predictor.sample_latent(X, n_draws, rng)
        return to_units_of_y(np.moveaxis(draws, -1, 0), *self._units)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draw new targets from the posterior predictive distribution, jointly over the rows of X.

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
            Rows at which targets are drawn.
        n_samples : int, default=1
            Number of draws for each row. `sample_latent` says how many of them are distinct.
        random_state : int, RandomState instance or None, default=0
            Seed of the draws.

        Returns
        -------
        ndarray of shape (n_samples_X, n_samples)
            Targets as in `fit`: numbers or class labels. All rows of a column come from the same
            hyper-parameters and latent function.
        """
        return self._sample_y(validate_rows_to_predict(self, X), n_samples, random_state)

    def _sample_y(
        self, X: np.ndarray, n_samples: int, random_state: Any, offset: np.ndarray | float = 0.0
    ) -> np.ndarray:
        """Draw targets where `offset` is added to f."""
        self._check_single("sample_y")
        rng = self._joint_stream(X, "n_samples", n_samples, random_state)
        return self._as_given(self._predictor.sample_targets(X, n_samples, rng, offset).T)

    def _joint_stream(
        self, X: np.ndarray, name: str, n_draws: int, random_state: Any
    ) -> np.random.Generator:
        """Return the random numbers of joint draws, refused if the machine has no memory for."""
        check_integer(name, n_draws, 1)
        require_joint_memory(len(X), n_draws)
        return np.random.default_rng(check.check_seed(random_state).randint(2**31))

    def summary(self) -> Any:
        """Summarize the posterior of every hyper-parameter, and the convergence of its draws.

        All values are on the natural scale. The scale of the noise is in units of y. Other values
        are those of `kernel_`, which describes standardized targets if ``normalize_y=True``.

        Returns
        -------
        pandas.DataFrame, or PosteriorSummary if pandas is not installed
            A row per hyper-parameter, named as in `hyperparameter_names_` (with the class, if there
            is a model of each class against the rest). Columns: "mean", "sd", "5%", "median", "95%"
            (natural scale), "r_hat", "ess_bulk" and "ess_tail". The mean of a scale may be far
            above its median. A notebook marks what has not reached `max_rhat` or `target_ess`.
        """
        check_is_fitted(self)
        return _to_frame(self._summarize(""))

    def _summarize(self, suffix: str) -> PosteriorSummary:
        """Return the summary of all models of the fit; `suffix` says of which these are."""
        parts = vars(self).get("estimators_")
        if parts is not None:
            whose = "kernel" if self._is_average else "class"
            labels = range(len(parts)) if self._is_average else self.classes_
            first, *others = [
                own._summarize(f"{suffix} ({whose} {label})")
                for own, label in zip(parts, labels, strict=True)
            ]
            return reduce(PosteriorSummary.join, others, first)
        model = self._predictor.model
        names = self.hyperparameter_names_
        scale = getattr(model.likelihood, "scale", None)
        unit = np.array([self._target_units[1] if name == scale else 1.0 for name in names])
        return PosteriorSummary.of_draws(
            [f"{name}{suffix}" for name in names],
            self.theta_samples_,
            model.hyperprior.positive,
            unit,
            self._goal,
        )

    def loo(self, method: str = "integrated") -> LeaveOneOut:
        """Leave-one-out cross-validation of the training rows, without refitting.

        A row is left out with its whole weight; rows of weight zero have no part in it. With a
        model of each class against the rest, the probabilities of all classes are normalized, and a
        weight multiplies the log probability of one observation of the row's class. Draws are
        weighted by the inverse of the density of the row, and the largest weights are smoothed
        (PSIS-LOO). For rows whose Pareto k is above 0.7 the estimate is unreliable: fit the model
        again without these rows to see how well they are predicted.

        Parameters
        ----------
        method : {"integrated", "psis"}, default="integrated"
            "integrated": the weights are about the hyper-parameters alone. At each draw of them
            (1000 at most, evenly spread over the chains) the latent function is integrated out
            given all other rows: in closed form with Gaussian noise, by the Laplace approximation
            for a softmax and with ``approximation="laplace"``, otherwise by expectation
            propagation. "psis": the weights are about the latent function as well, which for most
            rows are too uneven. This is what ArviZ does with the draws.

        Returns
        -------
        LeaveOneOut
            Expected log predictive density and its standard error, and for each row its log
            predictive density and Pareto k; natural logs.

        References
        ----------
        Vehtari, Mononen, Tolvanen, Sivula & Winther (2016), Bayesian leave-one-out cross-validation
        approximations for Gaussian latent variable models, Journal of Machine Learning Research
        17(103); Rasmussen & Williams (2006), (5.10)-(5.12); Vehtari, Gelman & Gabry (2017),
        Practical Bayesian model evaluation using leave-one-out cross-validation and WAIC,
        Statistics and Computing 27.
        """
        check_is_fitted(self)
        self._require_draws("loo")
        self._check_one_kernel("loo")
        check_choice("method", method, LOO_METHODS)
        return self._leave_one_out(method)

    def _leave_one_out(self, method: str) -> LeaveOneOut:
        """Return what `loo` does."""
        return leave_one_out(
            self._predictor.model,
            self._with_latent_draws() if method == "psis" else self._draws,
            self._rows.given,
            self._log_density_shift(),
            method=method,
            reference=self._reference,
            n_jobs=self.n_jobs,
        )

    def to_arviz(self, posterior_predictive: bool = False, random_state: Any = 0) -> Any:
        """Return the draws as an ArviZ data tree, for its summaries, plots and comparisons.

        Parameters
        ----------
        posterior_predictive : bool, default=False
            Also draw new targets of the training rows, one from each draw of (theta, f).
        random_state : int, RandomState instance or None, default=0
            Seed of the new targets.

        Returns
        -------
        xarray.DataTree
            Group ``posterior``: the hyper-parameters on their natural scale, and as the logs
            (``log_...``) for which convergence is assessed, with dimensions ``feature`` and
            ``class`` where needed; and the latent function at the training rows, ``f``. Group
            ``log_likelihood``: log p(y | f, theta) of each row (natural log, per unit of y), times
            the row's weight; left out with ``covariance="inducing"`` if some rows have equal inputs
            or weights, as rows are then dependent given f. Groups ``observed_data``, and
            ``posterior_predictive`` on request. Group ``sample_stats``: acceptance rates, per chain
            and not per draw. Group ``marked_samples``, with ``sampler="discretizing"``: see the
            attribute ``marked_samples_`` of the estimator.

        Raises
        ------
        ImportError
            If arviz_base is not installed.
        ValueError
            If there is one model per class; use ``estimators_[k].to_arviz()`` for one of them.

        Notes
        -----
        Rows are those of the training data, without rows of weight zero.
        """
        from ._arviz import make_tree

        check_is_fitted(self)
        self._check_one_kernel("to_arviz")
        self._check_single("to_arviz")
        return make_tree(self, posterior_predictive, random_state)

    def _latent_at_rows(self) -> np.ndarray:
        """Draws of f at the training rows as they were given; (n_chains, n_draws, C, n_given)."""
        draws = self._with_latent_draws()
        rows = self._rows
        model = self._predictor.model
        many = draws.f.shape[:2]
        f = draws.f.reshape(*many, model.likelihood.n_functions, -1)
        if len(rows.X_aside):
            flat = (part.reshape(many[0] * many[1], -1) for part in (draws.theta, draws.f))
            aside = draw_latent_jointly(model, *flat, rows.X_aside, self._evidence_parts[1])
            f = np.concatenate([f, aside.reshape(*many, *aside.shape[1:])], axis=-1)
        return f[..., rows.input_of]

    def _with_latent_draws(self) -> Draws:
        """Draws with f, made now and kept where chains have gone without."""
        if self._draws.f_is_mean:
            own = self._sampling.run.models[0]
            self._draws = with_latent_draws(
                own.model, own.reference, self._draws, self._evidence_parts[1], self.n_jobs
            )
        return self._draws

    def log_evidence(self, method: Any = "integrated", theta: Any = None) -> Evidence:
        """Log evidence (log marginal likelihood) of the training targets.

        Parameters
        ----------
        method : {"integrated", "is", "ais", "ep", "ep2", "laplace"} or AnnealedImportance, \
default="integrated"
            "integrated": log p(y), with the hyper-parameters integrated out under their priors, by
            importance sampling from a density fitted to their draws. All others compute
            log p(y | theta) at one theta. "is": importance sampling of the latent function. "ais":
            annealed importance sampling, for cases in which "is" is too noisy; or a configured
            `skgpmcmc.model_selection.AnnealedImportance`. "ep" and "laplace": approximations.
            "ep2": EP with its second-order correction. With Gaussian noise all of these are exact,
            and "integrated" uses the exact p(y | theta).
        theta : array-like of shape (n_hyperparameters,), default=None
            Hyper-parameters on their *natural* scale, in the order of `hyperparameter_names_`; None
            is their posterior mean on the scale of `theta_samples_`. Not for "integrated".

        Returns
        -------
        value : float
            Natural log of the evidence, for y in its own units; weights enter as powers of the
            rows' likelihoods.
        standard_error : float
            Monte Carlo standard error of `value`. The random numbers are fixed by the fit:
            repeated calls return the same value. 0 for a deterministic method; this does not
            include the error of an approximation.

        Raises
        ------
        ValueError
            If a prior is improper, theta is invalid, or the method does not support the likelihood.

        Warns
        -----
        UserWarning
            If the Pareto k of the weights is above 0.7: the standard error is then unreliable.

        Examples
        --------
        >>> import numpy as np
        >>> from skgpmcmc import BayesianGPRegressor
        >>> X = np.linspace(0.0, 4.0, 20)[:, None]
        >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(20)
        >>> reg = BayesianGPRegressor(n_draws=100, max_rhat=1.1, random_state=0).fit(X, y)
        >>> value, standard_error = reg.log_evidence()
        >>> standard_error < 0.1
        True
        >>> reg.log_evidence("ep", theta=[1.0, 1.0, 0.2]).standard_error
        0.0
        """
        from ..run import evidence

        check_is_fitted(self)
        self._check_single("log_evidence")
        self._require_draws("log_evidence")
        if self._is_average:
            if method != "integrated" or theta is not None:
                self._check_one_kernel(f"log_evidence(method={method!r})")
            return average_evidence(self._member_evidences)
        if not isinstance(method, evidence.AnnealedImportance):
            check_choice("method", method, ("integrated", "ais", *evidence.CONDITIONAL_METHODS))
        model = self._predictor.model
        draws = self.theta_samples_
        estimator, seed = self._evidence_parts
        if method != "integrated":
            at = draws.mean(axis=(0, 1)) if theta is None else self._check_theta(theta)
            value, error = evidence.conditional_evidence(model, at, method, seed, self.n_jobs)
        elif theta is None:
            value, error = evidence.integrated_evidence(model, draws, estimator, seed, self.n_jobs)
        else:
            raise ValueError(
                'method="integrated" averages over theta, and theta was given: leave it out, or '
                'use another method, such as "is".'
            )
        return self._in_units_of_y(evidence.Evidence(value, error))

    def _in_units_of_y(self, found: Evidence) -> Evidence:
        """Return the log of the evidence per unit of y as the user gave it."""
        observations = self._predictor.model.observations
        weight = np.ones(len(observations))
        if observations.weight is not None:
            weight = observations.weight
        return found._replace(value=float(found.value + np.sum(weight * self._log_density_shift())))

    def _check_theta(self, theta: Any) -> np.ndarray:
        """Return hyper-parameters of the natural scale on that of `theta_samples_`."""
        names = self.hyperparameter_names_
        positive = self._predictor.model.hyperprior.positive
        theta = np.array(theta, dtype=float)
        if theta.shape != (len(names),):
            raise ValueError(
                f"theta must have shape ({len(names)},), one number for each of {names}; got shape "
                f"{theta.shape}."
            )
        legal = np.isfinite(theta) & ((theta > 0.0) | ~positive)
        if not legal.all():
            at = int(np.argmin(legal))
            raise ValueError(
                f"theta must be finite, and positive on the natural scale; got {theta[at]} for "
                f"{names[at]!r}."
            )
        theta[positive] = np.log(theta[positive])
        return theta


def _to_frame(table: Any) -> Any:
    """Return a table as a data frame, or as it is without pandas, which is no dependency."""
    try:
        return table.to_frame()
    except ModuleNotFoundError:
        return table


def require_joint_memory(n_rows: int, n_draws: int = 0) -> None:
    """Refuse what has a covariance of more rows than the machine has memory for."""
    require_memory("The covariance of n rows", n_rows, _JOINT_MATRICES, n_doubles=n_draws * n_rows)


class LatentClassifier(LogProbabilityClassifierMixin, OneLatentFunction):
    """Labels and their probabilities, from log probabilities."""

    def _as_given(self, encoded):
        return self.classes_[encoded.astype(np.intp)]

    def log_predictive_density(self, X, y):
        """Log of the posterior predictive probability of each label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to predict.
        y : array-like of shape (n_samples,)
            Labels among `classes_`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Natural logs, of each row alone.
        """
        log_p = self.predict_log_proba(X)
        index = find_label_positions(y, self.classes_, len(log_p))
        return log_p[np.arange(len(log_p)), index]
