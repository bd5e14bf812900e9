"""What all estimators share: checking parameters, running chains, setting fitted attributes.

Also the warnings at the end of a fit.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel

from .._params import check_choice, check_flag, check_in, check_integer
from .._warnings import warn
from ..likelihoods.base import Likelihood
from ..model.classwise import ClasswiseGP
from ..model.covariance import make_covariance
from ..model.inducing import InducingGP
from ..model.joint import LatentGP
from ..model.kernels import smooth_kernel
from ..model.names import element_names
from ..model.observations import Observations
from ..model.parts import label_elements
from ..parallel.threads import one_thread
from ..parallel.workers import LostWorkersError, count_workers
from ..prediction.densities import find_density_arrays
from ..prediction.predictor import Predictor
from ..prediction.strategy import (
    ImportanceLatent,
    Integrated,
    LatentStrategy,
    OwnLatent,
)
from ..prediction.subset import (
    adapt_to_draws,
    choose_spread_subset,
    count_enough_draws,
    typical_values,
)
from ..run.advice import convergence_message, remedy
from ..run.chains import continue_chains, n_rounds, sample_chains
from ..run.convergence import ConvergenceGoal
from ..run.diagnostics import diagnose
from ..run.memory import require_memory
from ..run.progress import estimate_n_draws
from ..run.records import MarkedSamples, ModelRun, SamplingRun
from ..samplers import MAPPED, WITHIN_GIBBS, find_settings_in_use
from ..samplers.base import Sampler
from . import _validation as check
from ._average import KernelAverage
from ._callbacks import CallbackMonitor
from ._data import PREDICTION_PARAMS, check_n_jobs, replace_fitted
from ._inducing import COVARIANCES, approximate_models
from ._kernel_notes import warn_about_kernel
from ._link import DocumentationLink
from ._parameters import ModelParameters, RunParameters
from ._periods import periods_message
from ._rows import TrainingRows
from ._saving import ForPrediction
from ._warm_start import ContinuableRun

#: Copies of all draws that are held while rounds are joined.
_COPIES_OF_DRAWS = 3
#: Matrices of the size of a root that residuals need: columns of K, and those of a gradient.
_MATRICES_OF_RESIDUALS = 2.0
#: Where features differ in scale, those outside these standard deviations deserve a warning.
_USUAL_SCALE = (1.0 / 30.0, 30.0)
#: Length-scales beyond which a fit is warned of. Even with sixty rows a default fit takes about as
#: many seconds as twice their number, so that beyond a hundred it takes many minutes; the tables
#: that people use ``ard=True`` for have fewer columns.
_MANY_LENGTH_SCALES = 100
#: Branch of the seed for the random numbers of the chains.
_OF_CHAINS = 0
#: Branch of the seed for the random numbers of predictions.
_OF_PREDICTIONS = 1


class BaseBayesianGP(
    DocumentationLink,
    KernelAverage,
    ForPrediction,
    CallbackSupportMixin,
    RunParameters,
    ModelParameters,
    BaseEstimator,
):
    """Machinery of the estimators; see a concrete one for the parameters."""

    #: Strings that `likelihood` accepts, set by each estimator that has this parameter.
    _likelihoods: ClassVar[dict[str, type[Likelihood]]] = {}
    #: Strings that `sampler` accepts.
    _samplers: ClassVar[tuple[str, ...]] = ("pm", "marginal", *WITHIN_GIBBS, *MAPPED)
    #: Makes the kernel that stands for None, of a number of features.
    _default_kernel: ClassVar[Callable[..., Kernel]] = staticmethod(smooth_kernel)
    #: Shift and scale from the function that is sampled to the one that is reported.
    _units: tuple[float, float] = (0.0, 1.0)

    def _check_schedule(self) -> None:
        check_integer("n_chains", self.n_chains, 1)
        if not (isinstance(self.n_warmup, str) and self.n_warmup == "auto"):
            check_integer("n_warmup", self.n_warmup, 0, ' Use "auto" for the sampler\'s own.')
        check_integer("n_draws", self.n_draws, 1)
        if self.max_predict_draws is not None and self.max_predict_draws != "auto":
            remedy = ' Use None for all draws, or "auto".'
            check_integer("max_predict_draws", self.max_predict_draws, 1, remedy)
        check_in("max_rhat", self.max_rhat, "(1, inf)")
        check_integer("predict_cache_bytes", self.predict_cache_bytes, 0)
        if self.target_ess is not None:
            check_in("target_ess", self.target_ess, "(0, inf)", " Use None for n_draws.")
        check_flag("warm_start", self.warm_start)
        if self.max_time is not None:
            check_in("max_time", self.max_time, "(0, inf)", " Use None for no limit.")
        path = self.checkpoint
        if path is not None and not (isinstance(path, (str, os.PathLike)) and os.fspath(path)):
            raise ValueError(f"checkpoint must be None or the path of a file; got {path!r}.")
        if not (isinstance(self.n_importance, str) and self.n_importance == "auto"):
            check_integer(
                "n_importance", self.n_importance, 1, ' Use "auto" for as many as it takes.'
            )
        check_choice("covariance", self.covariance, COVARIANCES)
        check_integer("n_inducing", self.n_inducing, 1)
        check_n_jobs(self.n_jobs)
        if not isinstance(self.verbose, (bool, np.bool_)):
            check_integer("verbose", self.verbose, 0, " Use 0 for silence.")

    @property
    def _goal(self) -> ConvergenceGoal:
        """The convergence that a fit aims at, and short of which it warns."""
        return ConvergenceGoal(self.max_rhat, self.target_ess)

    # --- chains -----------------------------------------------------------------------------------

    def _resolve_kernel(self, X: np.ndarray, features: dict[str, Any]) -> Kernel:
        """Return a checked copy of the kernel; that of the papers' models with their priors.

        `features` are the attributes that `validate` returns.
        """
        named = isinstance(self.priors, str)
        default = smooth_kernel if named else self._default_kernel
        of_columns = features.get("feature_names_in_"), features.get("_text_levels")
        return check.resolve_kernel(self.kernel, self.ard, X, default, *of_columns)

    def _training_rows(
        self,
        X: np.ndarray,
        features: dict[str, Any],
        sample_weight: Any,
        likelihood: Likelihood,
        *columns: np.ndarray,
    ) -> TrainingRows:
        """Put rows in order; beside `columns`, a likelihood may tell those of one input apart."""
        kernel = self._resolve_kernel(X, features)
        return TrainingRows.of(kernel, X, sample_weight, *columns, likelihood.row_data(len(X)))

    def _sample(
        self,
        rows: TrainingRows,
        features: dict[str, Any],
        likelihood: Likelihood,
        *targets: np.ndarray,
        offset: np.ndarray | None = None,
        separate: bool = False,
    ) -> SamplingRun:
        """Run chains for one model of each of some targets, or continue earlier ones.

        Parameters
        ----------
        rows : TrainingRows
            The rows, which all models share.
        features : dict
            What `validate` knows of their columns.
        likelihood : Likelihood
            Likelihood of the rows as they were given.
        *targets : ndarrays of shape (n_rows,)
            Targets of the rows of the model.
        offset : ndarray of shape (n_rows,), optional
            Added to f.
        separate : bool
            Whether latent functions of a row have hyper-parameters of their own.
        """
        X = rows.X
        likelihood = likelihood.of_rows(rows.chosen)
        observed = [Observations(likelihood, y, offset, rows.weight, rows.first) for y in targets]
        self._check_schedule()
        stop = None if self.target_ess is None else self._goal
        sampler = check.resolve_sampler(self.sampler, self._samplers, likelihood)
        n_warmup = None if self.n_warmup == "auto" else self.n_warmup
        n_importance = None if self.n_importance == "auto" else int(self.n_importance)
        earlier = vars(self).get("_sampling") if self.warm_start and not self.checkpoint else None
        if earlier is not None:
            earlier.check_unchanged(self, X, observed)
            known = [own.model for own in earlier.run.models]
            n_bytes = self._require_memory(known, sampler, n_warmup, n_importance, stop)
            return self._continued(earlier.run, stop, n_bytes)
        approximation, cheap = check.resolve_approximation(self.approximation, sampler, likelihood)
        kernel = self._resolve_kernel(X, features)
        models = self._models(kernel, X, observed, separate)
        if self.covariance == "inducing":
            models = approximate_models(models, self.n_inducing, sampler, approximation)
        n_bytes = self._require_memory(models, sampler, n_warmup, n_importance, stop)
        sampler.check_model(models[0])
        _warn_about_length_scales(models[0])
        rounds = sampler.n_set_up_rounds(sampler.n_warmup(n_warmup)) + n_rounds(self.n_draws)
        monitor = CallbackMonitor(self, len(models) * self.n_chains, rounds, n_bytes)
        sample = sample_chains
        if self.checkpoint is not None:
            from ._checkpoint import sample_with_file

            sample = partial(sample_with_file, self, X, observed)
        run = sample(
            models,
            sampler,
            approximation,
            n_importance=n_importance,
            n_chains=self.n_chains,
            n_warmup=n_warmup,
            n_draws=self.n_draws,
            seed=_seed_sequence(self.random_state, _OF_CHAINS),
            cheap=cheap,
            stop=stop,
            n_jobs=self.n_jobs,
            monitor=monitor,
        )
        monitor.end()
        in_use = find_settings_in_use(sampler, approximation, n_importance, cheap)
        first = models[0]
        if isinstance(first, InducingGP):
            in_use["covariance"] = f"inducing ({len(first.rows)} inputs, an approximation)"
        return replace(run, in_use=in_use)

    def _continued(
        self, run: SamplingRun, stop: ConvergenceGoal | None, n_bytes: float
    ) -> SamplingRun:
        """Continue the chains of an earlier fit."""
        if self.n_draws <= run.n_draws:
            warn(
                f"warm_start=True found n_draws={self.n_draws}, and the chains already have "
                f"{run.n_draws} draws each: nothing was added. Increase n_draws to continue.",
            )
        n_rounds_left = n_rounds(self.n_draws - run.n_draws)
        monitor = CallbackMonitor(self, len(run.models) * self.n_chains, n_rounds_left, n_bytes)
        run = continue_chains(
            run, n_draws=self.n_draws, stop=stop, n_jobs=self.n_jobs, monitor=monitor
        )
        monitor.end()
        return run

    def _models(
        self, kernel: Kernel, X: np.ndarray, observed: Sequence[Observations], separate: bool
    ) -> list[LatentGP]:
        """Return the models of all observations, which share the covariance and the priors."""
        likelihood = observed[0].likelihood
        n_functions = likelihood.n_functions
        covariance = make_covariance(kernel, X)
        n_kernels = n_functions if separate else 1
        priors = check.name_priors(self.priors, covariance, likelihood)
        hyperprior = check.resolve_priors(priors, covariance, likelihood, n_kernels)
        warn_about_kernel(covariance.kernel, priors, likelihood)
        for own in observed:
            check.check_log_density(own)
        if n_functions == 1:
            return [LatentGP(covariance, own, hyperprior) for own in observed]
        return [ClasswiseGP(covariance, own, hyperprior, separate) for own in observed]

    def _require_memory(
        self,
        models: Sequence[LatentGP],
        sampler: Sampler,
        n_warmup: int | None,
        n_importance: int | None,
        stop: ConvergenceGoal | None,
    ) -> float:
        """Refuse a fit that the machine has no memory for; returns the bytes that it needs.

        Draws are counted as far as they are expected; memory for them is not taken beforehand.
        """
        model = models[0]
        n = model.n_inputs
        n_functions = model.likelihood.n_functions
        n_chains = len(models) * self.n_chains
        n_workers = min(count_workers(self.n_jobs), n_chains)
        # Warm-up and rounds hold draws one after the other; a checkpoint has them once more.
        n_copies = _COPIES_OF_DRAWS + (self.checkpoint is not None)
        n_draws = estimate_n_draws(self.n_draws, stop, self.n_chains, len(model.start))
        n_held = max(n_copies * n_draws, sampler.n_warmup(n_warmup)) + (n_importance or 0)
        rank = None if sampler.n_roots is None else model.find_small_rank()
        n_matrices = sampler.n_matrices if rank is None else sampler.n_roots
        n_matrices += _MATRICES_OF_RESIDUALS * model.has_residuals
        return require_memory(
            f"A fit by {n_workers} worker{'s' * (n_workers > 1)}",
            n,
            n_workers * n_functions * n_matrices,
            rank=rank,
            n_doubles=n_chains * n_held * n_functions * n,
            remedy=", fewer workers (n_jobs), fewer draws (n_draws), fewer importance draws "
            "(n_importance) or less warm-up (n_warmup)",
        )

    # --- fitted attributes ------------------------------------------------------------------------

    def _finish(
        self,
        X: np.ndarray,
        rows: TrainingRows,
        run: SamplingRun,
        names: dict[str, Any],
        units: tuple[float, float] = (0.0, 1.0),
    ) -> Self:
        """Set all fitted attributes at once, and say what the user should know.

        Predictions draw their noise here, from streams that do not depend on the chains' length.
        `names` are those of features and classes, `units` those of `_units`.
        """
        seed = _seed_sequence(self.random_state, _OF_PREDICTIONS, run.seed)
        used = {name: getattr(self, name) for name in PREDICTION_PARAMS}
        models = []
        noise = []
        for own, stream in zip(run.models, seed.spawn(len(run.models)), strict=True):
            rng = np.random.default_rng(stream)
            noise.append(0.0)  # standard deviation of the estimate at the mean of theta
            if own.estimator is not None:
                mean = own.draws.theta.mean(axis=(0, 1))
                with one_thread():
                    noise[-1] = own.estimator.log_likelihood_sd(own.model, mean, rng)
            fitted = self._of_model(run, own, names, rng)
            models.append({**fitted, "_rows": rows, "_for_predictions": used})
        if len(models) == 1:
            elements = models[0]["hyperparameter_names_"]
            diagnostics = diagnose(run, elements, np.array(noise), [0], self._goal)
            fitted = {**models[0], "diagnostics_": diagnostics}
        else:
            fitted = self._one_per_class(run, models, np.array(noise), names)
        kept = {
            "_sampling": ContinuableRun(run, copy.deepcopy(self.get_params(deep=False))),
            "_for_predictions": used,
            "_units": units,
        }
        replace_fitted(self, {**fitted, **names, **kept})
        _warn_about_scales(self, X, names.get("feature_names_in_"))
        _report_convergence(self)
        return self

    def _of_model(
        self, run: SamplingRun, own: ModelRun, names: dict[str, Any], rng: np.random.Generator
    ) -> dict[str, Any]:
        """Fitted attributes of one model of a run."""
        model = own.model
        draws = own.draws
        n_chains, n_draws, p = draws.theta.shape
        theta = draws.theta.reshape(n_chains * n_draws, p)
        f = draws.f.reshape(n_chains * n_draws, -1)
        kernel = model.covariance.kernel
        labels = label_elements(kernel, names["n_features_in_"], names.get("feature_names_in_"))
        elements = element_names(model.hyperprior.names, labels)
        at_mean = model.kernel_thetas(theta.mean(axis=0))
        kernels = [kernel.clone_with_theta(own_theta) for own_theta in at_mean]
        if model.n_kernels > 1:  # one for each class
            of_kernel = element_names(model.covariance.names, labels)
            by_class = [f"{name}[{c}]" for c in names["classes_"].tolist() for name in of_kernel]
            elements = [*by_class, *model.hyperprior.names[len(by_class) :]]
        marked = {} if draws.marked is None else {"marked_samples_": MarkedSamples.of(draws.marked)}
        return {
            **marked,
            "theta_samples_": draws.theta,
            "hyperparameter_names_": elements,
            "priors_": model.hyperprior.table,
            "kernel_": kernels[0] if len(kernels) == 1 else CompoundKernel(kernels),
            "n_iter_": n_draws + own.n_discarded,
            "_draws": draws,
            "_reference": own.reference,
            "_predictor": self._make_predictor(run, own, theta, f, rng),
            "_evidence_parts": (own.estimator, int(rng.integers(2**31))),
        }

    def _make_predictor(
        self,
        run: SamplingRun,
        own: ModelRun,
        theta: np.ndarray,
        f: np.ndarray,
        rng: np.random.Generator,
    ) -> Predictor:
        """Choose some of the draws (S, p) and (S, n) for predictions, and how they average f."""
        model = own.model
        strategy: LatentStrategy = OwnLatent()
        if own.estimator is not None:
            strategy = ImportanceLatent(int(rng.integers(2**31)), defensive=own.estimator.defensive)
        elif own.reference is not None:
            strategy = Integrated()
        n_wanted = self.max_predict_draws
        # Without hyper-parameters all draws share one factorization, and more of f costs little.
        if theta.shape[1] == 0 and not isinstance(strategy, Integrated):
            n_wanted = None
        elif n_wanted == "auto":
            conditional = own.reference if own.draws.f_is_mean else None
            labels = is_classifier(self)
            typical = typical_values(model, theta, f, labels=labels, conditional=conditional)
            n_wanted = count_enough_draws(*typical, strategy)
        rows, multiplicity = choose_spread_subset(theta, n_wanted, rng)
        arrays = None  # the first prediction finds them
        # It takes as long as a round of draws, and who has pressed Ctrl-C does not want to wait.
        if not run.interrupted:
            try:
                arrays = find_density_arrays(model, own.reference, theta[rows], self.n_jobs)
            except (KeyboardInterrupt, LostWorkersError):
                warn(
                    "Interrupted after the last draw: all draws are kept, and the first prediction "
                    "takes longer.",
                )
        return Predictor(
            model,
            theta[rows],
            f[rows],
            multiplicity,
            arrays,
            adapt_to_draws(strategy, multiplicity),
            reference=own.reference if arrays is None else None,
            cache_bytes=self.predict_cache_bytes // len(run.models),
        )


def _seed_sequence(
    random_state: Any, purpose: int, words: Sequence[int] | None = None
) -> np.random.SeedSequence:
    """Return the branch of a seed that serves one purpose: no other has a stream of it."""
    drawn = check.check_seed(random_state).randint(0, 2**32, size=4, dtype=np.uint32)
    return np.random.SeedSequence(words or drawn.tolist(), spawn_key=(purpose,))


# --- what a user hears ----------------------------------------------------------------------------


def _warn_about_length_scales(model: LatentGP) -> None:
    """Say before a fit begins that it has more length-scales than are learned in a few minutes."""
    n = sum(name.endswith("length_scale") for name in model.hyperprior.names)
    if n <= _MANY_LENGTH_SCALES:
        return
    about = (
        " The priors do not switch off features that say nothing: each adds noise, and predictions "
        'may be worse than with one length-scale for all. priors="sparse" does, in as long a time.'
    )
    warn(
        f"The kernel has {n} length-scales to be sampled. The set-up takes long with so many."
        f"{'' if len(model.hyperprior.start) else about} Use ard=False (or, in a kernel of your "
        "own, one length-scale for all features), or fewer columns: select features, or use PCA."
    )


def _warn_about_scales(
    estimator: BaseEstimator, X: np.ndarray, feature_names: np.ndarray | None
) -> None:
    """Say which features the default kernel and its priors do not suit."""
    of_papers = isinstance(estimator.priors, str) and estimator.priors == "paper"
    if estimator.kernel is not None or (estimator.priors and not of_papers):
        return
    scale = X.std(axis=0)
    low, high = _USUAL_SCALE
    varies = np.ptp(X, axis=0) > 0.0  # of a constant column, rounding can make std positive
    odd = np.flatnonzero(varies & ((scale < low) | (scale > high)))
    # Our own priors follow a scale that features share; the papers' expect it to be one.
    extremes = scale[varies].max(initial=0.0), scale[varies].min(initial=np.inf)
    shared = not of_papers and extremes[0] <= high * extremes[1]
    if len(odd) and not shared:
        columns = odd.tolist() if feature_names is None else feature_names[odd].tolist()
        warn(
            "The default priors expect features with similar scales, ideally standard deviations "
            f"of one; those of columns {columns} lie outside [1/30, 30]. Use "
            f"make_pipeline(StandardScaler(), {type(estimator).__name__}(...)), or give priors.",
        )


def _report_convergence(estimator: BaseEstimator) -> None:
    """Print what `verbose` asks for, and warn about what has not converged."""
    diagnostics = estimator.diagnostics_
    if estimator.verbose:
        print(diagnostics)
    goal = estimator._goal
    message = convergence_message(diagnostics, goal)
    if message is None:
        return
    fitted = vars(estimator).get("estimators_", [estimator])
    n_draws = max(own.theta_samples_.shape[1] for own in fitted)
    faster = _faster(estimator, fitted[0]._predictor.model)
    advice = remedy(diagnostics, n_draws, goal, faster)
    of_periods = periods_message(estimator)
    said = [message, *([of_periods] if of_periods else []), advice]
    warn(" ".join(said), ConvergenceWarning)


def _faster(estimator: BaseEstimator, model: LatentGP) -> str | None:
    """Name of the default sampler, if it can be used and the one in use learns no proposals."""
    name = type(estimator).sampler
    allowed = estimator._samplers
    used, default = (
        check.resolve_sampler(own, allowed, model.likelihood) for own in (estimator.sampler, name)
    )
    if used.learns:
        return None
    try:
        default.check_model(model)
    except ValueError:  # a kernel without a gradient
        return None
    return str(name)
