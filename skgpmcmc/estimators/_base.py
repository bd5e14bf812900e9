"""What all estimators share: from parameters to chains, and fitted attributes set all at once."""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel

from ..likelihoods import Likelihood
from ..model import ClasswiseGP, Covariance, HyperPrior, LatentGP, Observations
from ..numerics.threads import one_thread
from ..prediction import (
    Integrated,
    LatentStrategy,
    OwnLatent,
    Particles,
    Predictor,
    density_parts_at,
    spread_subset,
)
from ..run import (
    Diagnostics,
    ModelRun,
    SamplingRun,
    StoppingRule,
    continue_chains,
    convergence_message,
    diagnose,
    n_rounds,
    sample_chains,
)
from ..run.effort import require_memory
from ..samplers import WITHIN_GIBBS, Sampler, in_use
from . import _validation as check
from ._fitted import new_rows, replace_fitted
from ._progress import CallbackMonitor

#: With default priors, features outside these standard deviations deserve a warning.
_USUAL_SCALE = (1.0 / 30.0, 30.0)
#: Parameters that may differ from those of the fit that a warm start continues.
_FREE_TO_CHANGE = frozenset(
    {"n_draws", "target_ess", "max_rhat", "max_predict_draws", "random_state"}
    | {"n_jobs", "verbose", "warm_start"}
)
#: Copies of all draws that are held while rounds are joined.
_COPIES_OF_DRAWS = 3
#: What random numbers are for; each has a branch of the seed.
_OF_CHAINS, _OF_PREDICTIONS = 0, 1


class Problem(NamedTuple):
    """Encoded targets of the training rows, and what goes with each row."""

    likelihood: Likelihood
    y: np.ndarray  # (n,)
    offset: np.ndarray | None = None  # (n,), added to f
    weight: np.ndarray | None = None  # (n,), positive
    separate: bool = False  # where a row has several latent functions: own hyper-parameters

    @property
    def n_kernels(self) -> int:
        """Sets of the kernel's hyper-parameters."""
        return self.likelihood.n_functions if self.separate else 1

    def model(self, covariance: Covariance, hyperprior: HyperPrior) -> LatentGP:
        """Return the model of these targets."""
        observations = Observations(self.likelihood, self.y, self.offset, self.weight)
        if self.likelihood.n_functions == 1:
            return LatentGP(covariance, observations, hyperprior)
        return ClasswiseGP(covariance, observations, hyperprior, separate=self.separate)

    def is_of(self, model: LatentGP) -> bool:
        """Whether a model was made of the same."""
        return (
            _same(model.likelihood, self.likelihood)
            and np.array_equal(model.y, self.y)
            and _same(model.observations.offset, self.offset)
            and _same(model.observations.weight, self.weight)
        )


class _Sampling(NamedTuple):
    """What a warm start continues."""

    run: SamplingRun
    params: dict[str, Any]  # as they were


class BaseBayesianGP(CallbackSupportMixin, BaseEstimator):
    """Machinery of the estimators; see a concrete one for the parameters."""

    #: Strings that `likelihood` accepts, set by each estimator that has this parameter.
    _likelihoods: ClassVar[dict[str, type[Likelihood]]] = {}
    #: Strings that `sampler` accepts.
    _samplers: ClassVar[tuple[str, ...]] = ("pm", "marginal", *WITHIN_GIBBS)

    # --- fitting ----------------------------------------------------------------------------------

    def _check_schedule(self) -> None:
        check.check_integer("n_chains", self.n_chains, 1)
        if not (isinstance(self.n_warmup, str) and self.n_warmup == "auto"):
            check.check_integer("n_warmup", self.n_warmup, 0, ' Use "auto" for the sampler\'s own.')
        check.check_integer("n_draws", self.n_draws, 1)
        if self.max_predict_draws is not None:
            check.check_integer(
                "max_predict_draws", self.max_predict_draws, 1, " Use None for all draws."
            )
        check.check_real_above("max_rhat", self.max_rhat, 1.0)
        if self.target_ess is not None:
            check.check_real_above("target_ess", self.target_ess, 0.0, " Use None for n_draws.")
        check.check_flag("warm_start", self.warm_start)
        check.check_n_jobs(self.n_jobs)
        check.check_verbose(self.verbose)

    def _sample(self, X: np.ndarray, problems: list[Problem]) -> SamplingRun:
        """Run chains for every problem on the same inputs, or continue those of an earlier fit."""
        self._check_schedule()
        stop = None if self.target_ess is None else StoppingRule(self.target_ess, self.max_rhat)
        likelihood = problems[0].likelihood
        sampler = check.resolve_sampler(self.sampler, self._samplers, likelihood)
        n_bytes = self._require_memory(X, problems, sampler)
        earlier = vars(self).get("_sampling") if self.warm_start else None
        if earlier is not None:
            return self._continued(earlier, X, problems, stop, n_bytes)
        approximation = check.resolve_approximation(self.approximation, sampler, likelihood)
        n_importance = check.resolve_n_importance(self.n_importance)
        models = self._models(X, problems)
        sampler.check_model(models[0])
        n_warmup = sampler.n_warmup(None if self.n_warmup == "auto" else self.n_warmup)
        rounds = sampler.n_set_up_rounds(n_warmup) + n_rounds(self.n_draws)
        monitor = CallbackMonitor(self, len(problems) * self.n_chains, rounds, n_bytes)
        run = sample_chains(
            models,
            sampler,
            approximation,
            n_importance=n_importance,
            n_chains=self.n_chains,
            n_warmup=n_warmup,
            n_draws=self.n_draws,
            seed=_seed_sequence(self.random_state, _OF_CHAINS),
            stop=stop,
            n_jobs=self.n_jobs,
            monitor=monitor,
        )
        monitor.end()
        return replace(run, in_use=in_use(sampler, approximation, n_importance))

    def _models(self, X: np.ndarray, problems: list[Problem]) -> list[LatentGP]:
        """Return the models of all problems, which share the covariance and the priors."""
        covariance = check.resolve_covariance(self.kernel, self.ard, X)
        hyperprior = check.resolve_priors(
            self.priors, covariance, problems[0].likelihood, problems[0].n_kernels
        )
        for problem in problems:
            check.check_log_density(problem.likelihood, problem.y, problem.offset)
        return [problem.model(covariance, hyperprior) for problem in problems]

    def _require_memory(self, X: np.ndarray, problems: list[Problem], sampler: Sampler) -> float:
        """Refuse a fit that the machine has no memory for; returns the bytes that it needs."""
        n_functions = problems[0].likelihood.n_functions
        n_chains = len(problems) * self.n_chains
        n_workers = min(effective_n_jobs(self.n_jobs), n_chains)
        n_warmup = sampler.n_warmup(None if self.n_warmup == "auto" else self.n_warmup)
        n_held = max(_COPIES_OF_DRAWS * self.n_draws, n_warmup)  # one after the other
        return require_memory(
            f"A fit by {n_workers} worker{'s' * (n_workers > 1)}",
            len(X),
            n_workers * n_functions * sampler.n_matrices,
            n_doubles=n_chains * n_held * n_functions * len(X),
            remedy=", fewer workers (n_jobs), fewer draws (n_draws) or less warm-up (n_warmup)",
        )

    def _continued(
        self,
        earlier: _Sampling,
        X: np.ndarray,
        problems: list[Problem],
        stop: StoppingRule | None,
        n_bytes: float,
    ) -> SamplingRun:
        """Continue the chains of an earlier fit to the same data with the same settings."""
        run = earlier.run
        changed = [
            name
            for name, value in self._posterior_params().items()
            if not _same(value, earlier.params[name])
        ]
        if changed:
            raise ValueError(
                f"warm_start=True continues the chains of the earlier fit, but {changed} changed "
                "since: use warm_start=False, or a fresh clone, for other settings."
            )
        same_data = np.array_equal(run.models[0].model.covariance.X, X) and all(
            p.is_of(own.model) for own, p in zip(run.models, problems, strict=False)
        )
        if not same_data or len(run.models) != len(problems):
            raise ValueError(
                "warm_start=True continues the chains of the earlier fit, but X or y differ from "
                "its data, or what goes with their rows does: use warm_start=False, or a fresh "
                "clone, for other data."
            )
        if self.n_draws <= run.n_draws:
            warnings.warn(
                f"warm_start=True found n_draws={self.n_draws}, and the chains already have "
                f"{run.n_draws} draws each: nothing was added. Increase n_draws to continue.",
                UserWarning,
                stacklevel=6,
            )
        n_rounds_left = n_rounds(self.n_draws - run.n_draws)
        monitor = CallbackMonitor(self, len(problems) * self.n_chains, n_rounds_left, n_bytes)
        run = continue_chains(
            run, n_draws=self.n_draws, stop=stop, n_jobs=self.n_jobs, monitor=monitor
        )
        monitor.end()
        return run

    def _posterior_params(self) -> dict[str, Any]:
        """Parameters that chains depend on; the others may change between warm starts."""
        params = self.get_params(deep=False)
        return {name: params[name] for name in sorted(params) if name not in _FREE_TO_CHANGE}

    def _fitted_models(
        self, run: SamplingRun
    ) -> tuple[list[dict[str, Any]], np.ndarray, dict[str, Any]]:
        """Fitted attributes of each model, the noise of its likelihood, and what is kept to go on.

        Predictions draw their noise here, from streams that do not depend on the chains' length.
        """
        streams = _seed_sequence(self.random_state, _OF_PREDICTIONS).spawn(len(run.models))
        noise, fitted = np.full(len(run.models), np.nan), []
        for m, (own, stream) in enumerate(zip(run.models, streams, strict=True)):
            rng = np.random.default_rng(stream)
            with one_thread():
                mean = own.draws.theta.mean(axis=(0, 1))
                noise[m] = (
                    0.0
                    if own.estimator is None
                    else own.estimator.log_likelihood_sd(own.model, mean, rng)
                )
            fitted.append(self._fitted_model(run, own, rng))
        params = copy.deepcopy(self._posterior_params())
        kept = {"_sampling": _Sampling(run, params), "_max_predict_draws": self.max_predict_draws}
        return fitted, noise, kept

    def _fitted_model(
        self, run: SamplingRun, own: ModelRun, rng: np.random.Generator
    ) -> dict[str, Any]:
        """Fitted attributes of one model of a run."""
        model, draws = own.model, own.draws
        n_chains, n_draws, p = draws.theta.shape
        theta = draws.theta.reshape(n_chains * n_draws, p)
        f = draws.f.reshape(n_chains * n_draws, -1)
        strategy = _strategy(own, rng)
        # Without hyper-parameters all draws share one factorization, and more of f costs little.
        all_draws = p == 0 and not isinstance(strategy, Integrated)
        chosen = spread_subset(theta, None if all_draws else self.max_predict_draws, rng)
        if isinstance(strategy, Particles):
            strategy = replace(strategy, unit=float(chosen.multiplicity.mean()))
        parts = self._parts(run, own, theta[chosen.rows])
        predictor = Predictor(
            model,
            theta[chosen.rows],
            f[chosen.rows],
            chosen.multiplicity,
            parts,
            strategy,
            reference=own.reference if parts is None else None,
        )
        return {
            "theta_samples_": draws.theta,
            "latent_samples_": draws.f,
            "hyperparameter_names_": _element_names(model.hyperprior.names),
            "priors_": dict(model.hyperprior.distributions),
            "kernel_": _kernel_at(model, theta.mean(axis=0)),
            "n_iter_": n_draws + run.n_discarded,
            "_draws": draws,
            "_predictor": predictor,
            "_max_predict_draws": self.max_predict_draws,
        }

    def _parts(
        self, run: SamplingRun, own: ModelRun, theta: np.ndarray
    ) -> tuple[np.ndarray, ...] | None:
        """What predictions need at theta (S, p); None leaves it to the first of them.

        It takes as long as a round of draws, and who has pressed Ctrl-C does not want to wait.
        """
        if run.interrupted:
            return None
        try:
            return density_parts_at(own.model, own.reference, theta, self.n_jobs)
        except KeyboardInterrupt:
            warnings.warn(
                "Interrupted after the last draw: all draws are kept, and the first prediction "
                "takes longer.",
                UserWarning,
                stacklevel=2,
            )
            return None

    # --- what estimators with one latent function share ---------------------------------------

    def _fit_one(
        self, X: np.ndarray, problem: Problem, functions: Sequence[Any] | None = None
    ) -> dict[str, Any]:
        """Sample one problem; returns its fitted attributes.

        `functions` labels the latent functions that have hyper-parameters of their own.
        """
        run = self._sample(X, [problem])
        (fitted,), noise, kept = self._fitted_models(run)
        if functions is not None:
            own = _element_names(run.models[0].model.covariance.names)
            names = [f"{name}[{label}]" for label in functions for name in own]
            fitted["hyperparameter_names_"] = names
        diagnostics = diagnose(run, fitted["hyperparameter_names_"], noise, [0])
        return {**fitted, "diagnostics_": diagnostics, **kept}

    def _finish(self, X: np.ndarray, fitted: dict[str, Any], names: dict[str, Any]) -> None:
        """Set all fitted attributes at once, and say what the user should know."""
        replace_fitted(self, {**fitted, **names})
        self._warn_about_scales(X, names.get("feature_names_in_"))
        self._report_convergence(self.diagnostics_)

    def _check_X(self, X: Any) -> np.ndarray:
        X = new_rows(self, X)
        check.check_n_jobs(self.n_jobs)  # predictions use it, and it may have changed since `fit`
        if self.max_predict_draws != self._max_predict_draws:
            warnings.warn(
                f"max_predict_draws={self.max_predict_draws!r} has no effect before the next fit: "
                "the draws that enter predictions were chosen in fit, with max_predict_draws="
                f"{self._max_predict_draws!r}.",
                UserWarning,
                stacklevel=3,
            )
        return X

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
                stacklevel=5,
            )

    def _report_convergence(self, diagnostics: Diagnostics) -> None:
        """Print what `verbose` asks for, and warn about what has not converged."""
        if self.verbose:
            print(diagnostics)
        message = convergence_message(diagnostics, self.max_rhat, self.target_ess)
        if message is None:
            return
        noise = float(np.nanmax([*diagnostics.log_likelihood_sd, 0.0]))
        remedy = "To do better, increase n_draws (warm_start=True continues these chains)"
        if noise > 2.0:
            remedy += f", and n_importance: the log-likelihood noise is {noise:.1f}"
        warnings.warn(f"{message} {remedy}. See diagnostics_.", ConvergenceWarning, stacklevel=5)


def _strategy(own: ModelRun, rng: np.random.Generator) -> LatentStrategy:
    """How predictions average f: as the chains treat it."""
    if own.reference is None:
        return OwnLatent()
    if own.estimator is None:
        return Integrated()
    return Particles(int(rng.integers(2**31)), defensive=own.estimator.defensive)


def _seed_sequence(random_state: Any, purpose: int) -> np.random.SeedSequence:
    """Return the branch of a seed that serves one purpose: no other has a stream of it."""
    words = check.check_seed(random_state).randint(0, 2**32, size=4, dtype=np.uint32)
    return np.random.SeedSequence(words.tolist(), spawn_key=(purpose,))


def _same(a: Any, b: Any) -> bool:
    """Whether two parameters mean the same posterior."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, Kernel):
        own = [(h.name, h.fixed) for h in a.hyperparameters]
        return own == [(h.name, h.fixed) for h in b.hyperparameters] and a == b
    if hasattr(a, "dist") and hasattr(a, "args"):  # a frozen distribution of scipy
        return type(a.dist) is type(b.dist) and a.args == b.args and _same(a.kwds, b.kwds)
    if hasattr(a, "get_params"):
        return _same(a.get_params(), b.get_params())
    if type(a).__eq__ is object.__eq__:  # says nothing of its own: compare what it holds
        return _same(vars(a), vars(b)) if hasattr(a, "__dict__") else a is b
    return bool(np.all(a == b))


def _kernel_at(model: LatentGP, theta: np.ndarray) -> Kernel:
    """Return the kernel at theta, or one for each latent function, as scikit-learn stacks them."""
    kernels = [model.covariance.kernel.clone_with_theta(t) for t in model.kernel_thetas(theta)]
    return kernels[0] if len(kernels) == 1 else CompoundKernel(kernels)


def _element_names(names: Sequence[str]) -> list[str]:
    """Names of the components of theta; those of vectors carry their index."""
    counts, seen, elements = Counter(names), Counter[str](), []
    for name in names:
        elements.append(name if counts[name] == 1 else f"{name}[{seen[name]}]")
        seen[name] += 1
    return elements
