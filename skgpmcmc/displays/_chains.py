"""The chains that displays draw: those of a fitted estimator, or given draws."""

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..model.names import find_names


class ChainDisplay:
    """Base of the displays of chains, with the constructor from a fitted estimator."""

    @classmethod
    def from_estimator(cls, estimator, *, class_label=None, hyperparameters=None, **kwargs):
        """Draw the chains of a fitted estimator.

        Parameters
        ----------
        estimator : estimator of skgpmcmc
            A fitted estimator, or a pipeline that ends in one.
        class_label : label, default=None
            The class whose chains to draw; only with one-vs-rest and more than two classes.
        hyperparameters : str or sequence of str, default=None
            Hyper-parameters to draw, by their names in `hyperparameter_names_` or ends of these,
            such as "length_scale"; None draws all.
        **kwargs : dict
            Passed to `from_samples`, such as `ax`.

        Returns
        -------
        TraceDisplay, AutocorrelationDisplay or PSRFDisplay
            The display, drawn. Positive hyper-parameters are shown and labeled as natural logs, as
            in `theta_samples_`.

        Raises
        ------
        ValueError
            If the estimator has no chains, or not those of this class or these hyper-parameters.
        """
        model = find_model(estimator, class_label)
        names = model.hyperparameter_names_
        positive = model._predictor.model.hyperprior.positive
        if hyperparameters is None:
            hyperparameters = names
        elif isinstance(hyperparameters, str):
            hyperparameters = [hyperparameters]
        found = {name: find_names(name, names) for name in hyperparameters}
        unknown = [name for name, own in found.items() if not own]
        if unknown:
            raise ValueError(
                f"hyperparameters={unknown} are not among those of {type(model).__name__}: choose "
                f"from its hyperparameter_names_, {names}."
            )
        chosen = [names.index(name) for own in found.values() for name in own]
        labels = [f"log {names[j]}" if positive[j] else names[j] for j in chosen]
        return cls.from_samples(model.theta_samples_[:, :, chosen], labels, **kwargs)


def find_model(estimator, class_label):
    """Return the fitted model with the chains: the last step of a pipeline, or that of a class."""
    if isinstance(estimator, Pipeline):
        estimator = estimator[-1]
    check_is_fitted(estimator)
    if hasattr(estimator, "kernel_weights_"):
        raise ValueError(
            f"{type(estimator).__name__} is an average over kernels, each with its own chains: "
            "pass one of its estimators_."
        )
    if not hasattr(estimator, "diagnostics_"):
        raise ValueError(
            f"{type(estimator).__name__} has no chains: pass a fitted estimator of skgpmcmc, or a "
            "pipeline that ends in one, or use from_samples."
        )
    models = getattr(estimator, "estimators_", None)
    if models is None:
        if class_label is not None:
            raise ValueError(
                f"class_label={class_label!r} has no effect, as {type(estimator).__name__} is one "
                "model: leave it out."
            )
        return estimator
    classes = estimator.classes_.tolist()
    if class_label not in classes:
        raise ValueError(
            f"{type(estimator).__name__} is fitted one class against the rest, with chains for "
            f"each: pass one of {classes} as class_label; got {class_label!r}."
        )
    return models[classes.index(class_label)]


def check_chains(samples, names):
    """Return draws as an array of shape (n_chains, n_draws, p), and p names; refuse others."""
    samples = np.asarray(samples, dtype=float)
    if samples.ndim != 3 or 0 in samples.shape:
        raise ValueError(
            "samples must have the shape (n_chains, n_draws, n_hyperparameters), none of them 0; "
            f"got {samples.shape}."
        )
    if not np.isfinite(samples).all():
        raise ValueError("samples must be finite, and have NaN or infinity in them.")
    n_names = samples.shape[2]
    names = [f"theta[{j}]" for j in range(n_names)] if names is None else list(names)
    if len(names) != n_names:
        raise ValueError(
            f"names must have one entry for each of the {n_names} hyper-parameters; got {names}."
        )
    return samples, names
