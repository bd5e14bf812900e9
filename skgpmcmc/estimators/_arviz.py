"""Conversion of draws to ArviZ: named variables on the natural scale, with named dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..model.parts import label_elements
from ..run.leave_one_out import have_joint_rows, pointwise_log_lik
from ..run.records import Draws
from . import _validation as check

#: Arrays by their names, and the names of the dimensions of each after chain and draw.
_Variables = tuple[dict[str, np.ndarray], dict[str, list[str]]]


def make_tree(estimator: Any, posterior_predictive: bool, random_state: Any) -> Any:
    """Return the DataTree of `to_arviz`."""
    try:
        import arviz_base
    except ImportError as error:
        raise ImportError(
            'to_arviz() needs arviz_base, an optional dependency: pip install "skgpmcmc[arviz]".'
        ) from error
    model = estimator._predictor.model
    draws = estimator._with_latent_draws()
    values, dims = _split_theta(estimator, draws.theta)
    rows = estimator._rows
    values["f"] = estimator.latent_samples_[:, :, rows.kept]
    dims["f"] = ["row", "class"][: values["f"].ndim - 2]
    groups = {
        "posterior": values,
        "observed_data": {"y": estimator._as_given(model.observations.y[rows.given.row_of])},
    }
    if not have_joint_rows(model):
        log_lik = pointwise_log_lik(model, draws, rows.given, estimator._log_density_shift())
        groups["log_likelihood"] = {"y": log_lik}
    if posterior_predictive:
        rng = np.random.default_rng(check.check_seed(random_state).randint(2**31))
        groups["posterior_predictive"] = {"y": _replicate(estimator, draws, rng)}
    coords = {
        "row": np.arange(len(rows.kept)),
        "feature": _features(estimator),
        **{_dimension(estimator, name): own for name, own in _labels(estimator).items()},
        "transition": list(estimator.diagnostics_.acceptance_rate),
    }
    if model.likelihood.n_functions > 1:
        coords["class"] = estimator.classes_
    about = {"inference_library": "skgpmcmc", **estimator.diagnostics_.in_use}
    tree = arviz_base.from_dict(
        groups, coords=coords, dims={**dims, "y": ["row"]}, attrs={"posterior": about}
    )
    rates = estimator.diagnostics_.acceptance_rate
    if rates:  # acceptance rates are known for whole chains, and not for draws
        dataset = arviz_base.dict_to_dataset(
            {"acceptance_rate": np.stack(list(rates.values()), axis=1)},
            dims={"acceptance_rate": ["transition"]},
            coords=coords,
            sample_dims=["chain"],
        )
        tree["sample_stats"] = type(tree)(dataset)
    marked = getattr(estimator, "marked_samples_", None)
    if marked is not None:
        values, dims = _split_theta(estimator, marked.theta, "mark")
        values["weight"] = marked.weights
        dims["weight"] = ["mark"]
        dataset = arviz_base.dict_to_dataset(values, dims=dims, coords=coords)
        tree["marked_samples"] = type(tree)(dataset)
    return tree


def _split_theta(estimator: Any, theta: np.ndarray, *between: str) -> _Variables:
    """Split theta, (n_chains, n_draws, ..., p), into variables.

    A positive hyper-parameter makes two variables: its value, and its natural log, which is the
    scale of the chains. `between` names the dimensions between the draws and the components.
    """
    model = estimator._predictor.model
    of_kernel = model.covariance.names
    begin = model.n_kernel_hyperparameters
    kernel, rest = np.split(theta, [begin], axis=-1)
    by_class = model.n_kernels > 1  # each class has its own hyper-parameters of the kernel
    if by_class:
        kernel = kernel.reshape(*kernel.shape[:-1], -1, len(of_kernel))
    real = {parameter.name for parameter in model.likelihood.parameters if not parameter.positive}
    values = {}
    dims = {}
    for array, names, lead in (
        (kernel, of_kernel, [*between, *["class"][:by_class]]),
        (rest, model.hyperprior.names[begin:], [*between]),
    ):
        for name in dict.fromkeys(names):
            columns = np.flatnonzero([other == name for other in names])
            own = array[..., columns] if len(columns) > 1 else array[..., columns[0]]
            variables = {name: own} if name in real else {name: np.exp(own), f"log_{name}": own}
            values.update(variables)
            last = [_dimension(estimator, name)] if len(columns) > 1 else []
            dims.update({key: [*lead, *last] for key in variables})
    return values, dims


def _labels(estimator: Any) -> dict[str, list[Any]]:
    """Return the features or levels of the elements of hyper-parameters that are vectors."""
    kernel = estimator._predictor.model.covariance.kernel
    return label_elements(kernel, estimator.n_features_in_, _features(estimator))


def _features(estimator: Any) -> list[Any]:
    """Return the names of the features, or their positions."""
    return list(getattr(estimator, "feature_names_in_", range(estimator.n_features_in_)))


def _dimension(estimator: Any, name: str) -> str:
    """Return the name of the dimension of a vector of hyper-parameters."""
    per_feature = _labels(estimator).get(name) == _features(estimator)
    return "feature" if per_feature else f"{name}_index"


def _replicate(estimator: Any, draws: Draws, rng: np.random.Generator) -> np.ndarray:
    """Draw targets of the training rows from each draw of (theta, f); (n_chains, n_draws, n)."""
    model = estimator._predictor.model
    rows = estimator._rows
    observed = model.observations
    numbers = rows.given.row_of
    likelihood = observed.likelihood.of_rows(numbers)
    offset = 0.0 if observed.offset is None else observed.offset[numbers]
    many = draws.theta.shape[:2]
    at_rows = estimator._latent_at_rows()[..., rows.kept].reshape(*many, -1)
    if model.has_residuals:
        laws = (model.observations_at(theta) for own in draws.theta for theta in own)
        residuals = np.reshape([law.draw_residuals(rng) for law in laws], (*many, -1))
        at_rows = at_rows + residuals[..., observed.input_of_row[numbers]]
    every = [
        likelihood.with_parameters(model.likelihood_theta(theta)).sample(f + offset, rng)
        for chain in zip(draws.theta, at_rows, strict=True)
        for theta, f in zip(*chain, strict=True)
    ]
    return estimator._as_given(np.reshape(every, (*many, -1)))
