"""What all estimators share: from parameters to chains, and fitted attributes set all at once."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from .._linalg import NotPositiveDefiniteError
from .._skin import validation as check
from ..chains import SamplingRun, n_rounds, sample_chains
from ..covariance import Covariance
from ..diagnostics import MIN_ESS, Diagnostics, diagnose
from ..likelihoods import Likelihood
from ..model import LatentGP
from ..prediction import Predictor, spread_subset
from ..transitions import Sites

#: With default priors, features outside these standard deviations deserve a warning.
_USUAL_SCALE = (1.0 / 30.0, 30.0)


class BaseBayesianGP(CallbackSupportMixin, BaseEstimator):
    """Machinery of the estimators; see a concrete one for the parameters."""

    #: Strings that `likelihood` accepts, set by each estimator.
    _likelihoods: ClassVar[dict[str, type[Likelihood]]] = {}

    # --- fitting ----------------------------------------------------------------------------------

    def _check_schedule(self) -> None:
        check.check_integer("n_chains", self.n_chains, 1)
        check.check_integer("n_warmup", self.n_warmup, 0)
        check.check_integer("n_draws", self.n_draws, 1)
        if self.max_predict_draws is not None:
            check.check_integer(
                "max_predict_draws", self.max_predict_draws, 1, " Use None for all draws."
            )
        check.check_real_above("max_rhat", self.max_rhat, 1.0)

    def _sample(self, X: np.ndarray, targets: list[np.ndarray]) -> tuple[SamplingRun, np.ndarray]:
        """Run chains for every vector of encoded targets.

        Returns the run and, per model, the noise of the log likelihood at the posterior mean.
        """
        self._check_schedule()
        likelihood = check.resolve_likelihood(self.likelihood, self._likelihoods)
        sampler = check.resolve_sampler(self.sampler)
        approximation = check.resolve_approximation(self.approximation, likelihood)
        n_importance = check.resolve_n_importance(self.n_importance)
        covariance = check.resolve_covariance(self.kernel, self.ard, X)
        hyperprior = check.resolve_priors(self.priors, covariance, X.shape[1])
        models = [LatentGP(covariance, likelihood, hyperprior, y) for y in targets]
        chain_seed, noise_seed = _seed_sequence(self.random_state).spawn(2)
        monitor = _CallbackMonitor(self, len(targets) * self.n_chains)
        run = sample_chains(
            models,
            sampler,
            approximation,
            n_importance=n_importance,
            n_chains=self.n_chains,
            n_warmup=self.n_warmup,
            n_draws=self.n_draws,
            seed=chain_seed,
            n_jobs=self.n_jobs,
            monitor=monitor,
        )
        monitor.end()
        rng = np.random.default_rng(noise_seed)
        noise = np.full(len(targets), np.nan)
        with threadpool_limits(1):
            for m, (model, draws) in enumerate(zip(run.models, run.draws, strict=True)):
                try:
                    noise[m] = sampler.log_likelihood_sd(
                        model, approximation, n_importance, draws.theta.mean(axis=(0, 1)), rng
                    )
                except NotPositiveDefiniteError:  # the mean itself was never visited
                    continue
        return run, noise

    def _fitted_model(self, run: SamplingRun, noise: np.ndarray, m: int) -> dict[str, Any]:
        """Fitted attributes of the m-th model of a run."""
        model, draws = run.models[m], run.draws[m]
        n_chains, n_draws = draws.theta.shape[:2]
        flat = [part.reshape(n_chains * n_draws, -1) for part in (draws.theta, draws.f)]
        subset = spread_subset(n_chains * n_draws, self.max_predict_draws)
        sites = draws.sites
        if sites is not None:
            sites = Sites(*(part.reshape(n_chains * n_draws, -1)[subset] for part in sites))
        theta_mean = draws.theta.mean(axis=(0, 1))
        names = _element_names(model.covariance)
        return {
            "theta_samples_": draws.theta,
            "latent_samples_": draws.f,
            "hyperparameter_names_": names,
            "priors_": dict(model.hyperprior.distributions),
            "kernel_": model.covariance.kernel.clone_with_theta(theta_mean),
            "n_iter_": self.n_warmup + n_draws,
            "diagnostics_": diagnose(run, names, noise, [m]),
            "_predictor": Predictor(model, flat[0][subset], flat[1][subset], sites),
        }

    # --- reports ----------------------------------------------------------------------------------

    def _warn_about_scales(self, X: np.ndarray, feature_names: np.ndarray | None) -> None:
        """Say which features the default priors do not suit."""
        if self.kernel is not None or self.priors:
            return
        scale = X.std(axis=0)
        low, high = _USUAL_SCALE
        varies = np.ptp(X, axis=0) > 0.0  # of a constant column, rounding can make std positive
        odd = np.flatnonzero(varies & ((scale < low) | (scale > high)))
        if len(odd):
            columns = odd.tolist() if feature_names is None else feature_names[odd].tolist()
            warnings.warn(
                f"The default priors expect features with a standard deviation near one; those of "
                f"columns {columns} lie outside [1/30, 30]. Use make_pipeline(StandardScaler(), "
                f"{type(self).__name__}(...)), or give priors.",
                UserWarning,
                stacklevel=4,
            )

    def _report_convergence(self, diagnostics: Diagnostics) -> None:
        """Print what `verbose` asks for, and warn about what has not converged."""
        if self.verbose:
            print(diagnostics)
        rows = diagnostics.not_converged(self.max_rhat)
        if not rows:
            return
        worst = max(rows, key=lambda row: (diagnostics.r_hat[row], -diagnostics.ess_bulk[row]))
        ess = min(diagnostics.ess_bulk[worst], diagnostics.ess_tail[worst])
        noise = float(np.nanmax([*diagnostics.log_likelihood_sd, 0.0]))
        remedy = "increase n_draws (and n_warmup)"
        if noise > 2.0:
            remedy += f", and n_importance: the log-likelihood noise is {noise:.1f}"
        warnings.warn(
            f"Chains have not converged for {[diagnostics.row_label(row) for row in rows]}: the "
            f"worst, {diagnostics.row_label(worst)!r}, has R-hat {diagnostics.r_hat[worst]:.3f} "
            f"(wanted: at most {self.max_rhat:g}) and effective sample size {ess:.0f} (wanted: at "
            f"least {MIN_ESS:.0f}). Predictions may be unreliable; {remedy}. See diagnostics_.",
            ConvergenceWarning,
            stacklevel=4,
        )


def _seed_sequence(random_state: Any) -> np.random.SeedSequence:
    words = check_random_state(random_state).randint(0, 2**32, size=4, dtype=np.uint32)
    return np.random.SeedSequence(words.tolist())


def _element_names(covariance: Covariance) -> list[str]:
    """Names of the components of theta; those of vectors carry their index."""
    names = []
    for hyperparameter in covariance.kernel.hyperparameters:
        if hyperparameter.fixed:
            continue
        if hyperparameter.n_elements == 1:
            names.append(hyperparameter.name)
        else:
            names += [f"{hyperparameter.name}[{i}]" for i in range(hyperparameter.n_elements)]
    return names


class _CallbackMonitor:
    """Reports rounds to scikit-learn callbacks: one sub-task per chain, one leaf per round."""

    def __init__(self, estimator: BaseBayesianGP, n_chains: int) -> None:
        self._estimator = estimator
        self._root = estimator._init_callback_context(
            max_subtasks=n_chains, sequential_subtasks=False
        )
        self._root.call_on_fit_task_begin(estimator=estimator)
        rounds = n_rounds(estimator.n_warmup, estimator.n_draws)
        self._chains = [
            self._root.subcontext(task_name="chain", task_id=c, max_subtasks=rounds)
            for c in range(n_chains)
        ]
        self._round: list[Any] = []
        self._stop_requested = False
        for chain in self._chains:
            chain.call_on_fit_task_begin(estimator=estimator)

    def begin_round(self) -> None:
        self._round = [chain.subcontext(task_name="round") for chain in self._chains]
        for task in self._round:
            task.call_on_fit_task_begin(estimator=self._estimator)

    def end_round(self) -> bool:
        # All of them before `any`: every callback hears of every chain.
        stops = [task.call_on_fit_task_end(estimator=self._estimator) for task in self._round]
        self._stop_requested |= any(stops)  # remembered: warm-up does not stop
        return self._stop_requested

    def end(self) -> None:
        for context in [*self._chains, self._root]:
            context.call_on_fit_task_end(estimator=self._estimator)
