"""Averages over kernels: a fit for each of them, weighted by evidence or by stacking.

The weights of kernels are their posterior probabilities from equal prior ones. First every kernel
gets few draws, from which its evidence is estimated. Then each gets draws in proportion to its
weight, so that a kernel that explains the data badly costs little more than its set-up.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel, Matern
from sklearn.utils import check_random_state

from .._params import check_choice, check_flag
from .._warnings import warn
from ..kernels import Linear
from ..model.kernels import smooth_kernel
from ..prediction.mixture import PredictorMixture
from ..run.convergence import MIN_ESS, ConvergenceGoal
from ..run.evidence import Evidence, integrated_evidence
from ._data import replace_fitted

#: Values of the parameter `weights`.
WEIGHTS = ("evidence", "stacking")
#: R-hat that suffices for the draws from which the evidence of a kernel is estimated: they only
#: say where the importance density has to be.
_FIRST_RHAT = 1.05
#: Draws of theta for the evidence of a kernel: its standard error is then a few hundredths.
_FEWER_THETA = 40
#: Fitted attributes that only members have.
_OF_MEMBERS = (
    *("theta_samples_", "latent_samples_", "marked_samples_", "hyperparameter_names_"),
    *("kernel_", "priors_", "diagnostics_"),
)
#: Fitted attributes that all members share.
_SHARED = (
    *("n_features_in_", "feature_names_in_", "classes_"),
    *("_units", "_for_predictions", "_text_levels"),
)


def kernels_to_average(estimator: BaseEstimator, X: Any) -> list[Kernel | None]:
    """Return the kernels whose average an estimator is asked for; none for a single kernel."""
    kernel = estimator.kernel
    check_choice("weights", estimator.weights, WEIGHTS)
    if isinstance(kernel, str) and kernel == "auto":
        shape = np.shape(X)
        ard = check_flag("ard", estimator.ard)
        return _automatic_kernels(shape[1] if len(shape) == 2 else 1, ard=ard)
    if not isinstance(kernel, (list, tuple)):
        return []
    if not len(kernel):
        raise ValueError('kernel=[] has no kernel to average over: give one, or use "auto".')
    return list(kernel)


def _automatic_kernels(n_features: int, *, ard: bool) -> list[Kernel | None]:
    """Return the kernels of ``kernel="auto"``: smooth, rough, and smooth around a plane."""
    length_scale = np.ones(n_features) if ard else 1.0
    smooth = smooth_kernel(n_features, ard=ard)
    rough = ConstantKernel() * Matern(length_scale, nu=1.5)
    return [smooth, rough, smooth + Linear()]


def fit_average(estimator: BaseEstimator, X: Any, y: Any, **row_data: Any) -> Any:
    """Fit a copy of an estimator for each kernel, and make their average the estimator's fit.

    Parameters
    ----------
    estimator : estimator
        It asks for several kernels; see `kernels_to_average`.
    X, y : array-like
        Arguments of ``fit``.
    **row_data : dict
        Further arguments of ``fit``; None is the default of each.
    """
    estimator._check_schedule()
    kernels = kernels_to_average(estimator, X)
    if estimator.ard and estimator.kernel != "auto":
        raise ValueError(
            'ard=True only concerns the default kernel and kernel="auto", but a list was given: '
            "use ard=False, and kernels with one length-scale per feature, such as "
            "RBF(np.ones(n_features))."
        )
    deadline = np.inf if estimator.max_time is None else time.monotonic() + estimator.max_time
    members = _continued_members(estimator, kernels) or _new_members(estimator, kernels)
    few = estimator.target_ess is not None and estimator.target_ess > MIN_ESS
    first = estimator._goal
    if few:
        first = ConvergenceGoal(max(estimator.max_rhat, _FIRST_RHAT), MIN_ESS)
    _fit_each(members, [first] * len(members), deadline, X, y, row_data)
    done = [k for k, own in enumerate(members) if "_sampling" in vars(own)]
    if len(done) < len(members):
        warn(f"Interrupted after {len(done)} of {len(members)} kernels: the average is over these.")
        members = [members[k] for k in done]
    evidences = np.array([[_evidence(own) for own in _by_class(member)] for member in members])
    log_evidence = evidences[..., 0].T  # (n_models, K)
    if estimator.weights == "evidence":
        weights = softmax(log_evidence, axis=1)
    else:
        loos = [[own.loo().elpd_i for own in _by_class(member)] for member in members]
        weights = np.array([_stack(np.array(rows)) for rows in zip(*loos, strict=True)])
    if few and len(done) == len(kernels):
        shares = weights.max(axis=0)
        goals = [ConvergenceGoal(estimator.max_rhat, w * estimator.target_ess) for w in shares]
        larger = [
            k
            for k, goal in enumerate(goals)
            if goal.target_ess > MIN_ESS and members[k].diagnostics_.rows_short_of(goal)
        ]
        for k in larger:
            members[k].set_params(warm_start=members[k].checkpoint is None)
        some = [members[k] for k in larger]
        _fit_each(some, [goals[k] for k in larger], deadline, X, y, row_data)
    for own in members:
        own.set_params(warm_start=estimator.warm_start, max_time=estimator.max_time)
    _finish(estimator, members, weights, evidences)
    return estimator


def _new_members(estimator: BaseEstimator, kernels: Sequence[Kernel | None]) -> list[BaseEstimator]:
    """Return an unfitted copy for each kernel, with its own random numbers and checkpoint."""
    seeds = check_random_state(estimator.random_state).randint(2**31 - 1, size=len(kernels))
    members = []
    for k, (kernel, seed) in enumerate(zip(kernels, seeds.tolist(), strict=True)):
        own = clone(estimator).set_params(kernel=clone(kernel, safe=False), random_state=seed)
        if estimator.checkpoint is not None:
            own.set_params(checkpoint=f"{os.fspath(estimator.checkpoint)}.kernel{k}")
        members.append(own.set_params(ard=False) if kernel is not None else own)
    return members


def _continued_members(
    estimator: BaseEstimator, kernels: Sequence[Kernel | None]
) -> list[BaseEstimator] | None:
    """Return copies of the members of an earlier fit, whose chains go on; None without any.

    They get the present parameters, so that their ``fit`` refuses what may not change.
    """
    if not (estimator.warm_start and "kernel_weights_" in vars(estimator)):
        return None
    earlier = estimator.estimators_
    if len(earlier) != len(kernels):
        raise ValueError(
            f"warm_start=True continues the chains of {len(earlier)} kernels, and kernel has "
            f"{len(kernels)} now: use warm_start=False, or a fresh clone, for other kernels."
        )
    params = estimator.get_params(deep=False)
    for name in ("kernel", "ard", "random_state", "checkpoint"):
        del params[name]
    return [
        copy.copy(own).set_params(**params, kernel=clone(kernel, safe=False))
        for own, kernel in zip(earlier, kernels, strict=True)
    ]


def _fit_each(
    members: Sequence[BaseEstimator],
    goals: Sequence[ConvergenceGoal],
    deadline: float,
    X: Any,
    y: Any,
    row_data: dict[str, Any],
) -> None:
    """Fit members one after the other; after an interrupt no other is fitted."""
    given = {name: value for name, value in row_data.items() if value is not None}
    for k, (own, goal) in enumerate(zip(members, goals, strict=True)):
        own.set_params(target_ess=goal.target_ess, max_rhat=goal.max_rhat)
        if np.isfinite(deadline):
            left = max(deadline - time.monotonic(), 0.0) / (len(members) - k)
            own.set_params(max_time=max(left, np.finfo(float).tiny))
        own.fit(X, y, **given)
        if own._sampling.run.interrupted:
            return


def _by_class(member: BaseEstimator) -> list[BaseEstimator]:
    """Return the fitted models of a member: one, or one for each class."""
    models: list[BaseEstimator] = vars(member).get("estimators_", [member])
    return models


def _evidence(own: BaseEstimator) -> Evidence:
    """Estimate the log evidence of one model from few draws."""
    model = own._predictor.model
    estimator, seed = own._evidence_parts
    found = integrated_evidence(
        model, own.theta_samples_, estimator, seed, own.n_jobs, n_theta=_FEWER_THETA
    )
    return own._in_units_of_y(found)


def _stack(elpd: np.ndarray) -> np.ndarray:
    """Return the weights (K,) of the best mixture of K leave-one-out densities.

    They maximize the sum over rows of the log of the average of ``exp(elpd)``, (K, n); Yao et al.
    (2018), eq. (4). The function is concave in the weights.
    """
    density = np.exp(elpd - elpd.max(axis=0))
    n = density.shape[1]

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        average = weights @ density
        return -float(np.log(average).mean()), -(density / average).mean(axis=1)

    start = np.full(len(density), 1.0 / len(density))
    simplex = {"type": "eq", "fun": lambda weights: weights.sum() - 1.0}
    found = minimize(
        loss,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(density),
        constraints=simplex,
        options={"ftol": 1e-9 / n, "maxiter": 1000},
    )
    weights = np.clip(found.x, 0.0, None)
    return np.asarray(weights / weights.sum())


def _finish(
    estimator: BaseEstimator,
    members: list[BaseEstimator],
    weights: np.ndarray,
    evidences: np.ndarray,
) -> None:
    """Set the fitted attributes of an average; `weights` have the shape (n_models, K)."""
    first = members[0]
    predictors = [
        PredictorMixture(
            [own._predictor for own, w in zip(models, share, strict=True) if w], share[share > 0.0]
        )
        for models, share in zip(zip(*map(_by_class, members), strict=True), weights, strict=True)
    ]
    single = len(predictors) == 1
    replace_fitted(
        estimator,
        {
            **{name: vars(first)[name] for name in _SHARED if name in vars(first)},
            "estimators_": members,
            "kernel_weights_": weights[0] if single else weights,
            "n_iter_": max(own.n_iter_ for own in members),
            "_member_evidences": evidences[:, 0] if single else evidences,
            **({"_predictor": predictors[0]} if single else {"_class_predictors": predictors}),
        },
    )


def average_evidence(members: np.ndarray) -> Evidence:
    """Return the log of the mean of evidences, from their logs and standard errors (K, 2)."""
    values, errors = members.T
    top = values.max()
    mean = float(np.exp(values - top).mean())
    share = softmax(values)
    return Evidence(float(top + np.log(mean)), float(np.sqrt(share**2 @ errors**2)))


class KernelAverage:
    """Mixin that answers for attributes and methods that an average of kernels does not have."""

    @property
    def _is_average(self) -> bool:
        """Whether the fitted model is an average over kernels."""
        return "kernel_weights_" in vars(self)

    def _check_one_kernel(self, method: str) -> None:
        """Raise a ValueError if the fitted model is an average over kernels."""
        if self._is_average:
            raise ValueError(
                f"{method} is for one kernel, and the fit is an average over "
                f"{len(vars(self)['estimators_'])}: call estimators_[k].{method} for kernel k."
            )

    def __getattr__(self, name: str) -> Any:
        # Python calls this method only if normal look-up fails.
        if name in _OF_MEMBERS and "kernel_weights_" in vars(self):
            raise AttributeError(
                f"{name} exists once per kernel, as the fit is an average over kernels: see "
                f"estimators_[k].{name} for kernel k."
            )
        return super().__getattr__(name)  # type: ignore[misc]
