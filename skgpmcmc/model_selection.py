"""Comparison of fitted models by evidence and by leave-one-out cross-validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from ._table_repr import TableRepr
from .run.annealed import AnnealedImportance

__all__ = ["AnnealedImportance", "ComparedModel", "ModelComparison", "compare_evidence"]

#: Difference of standardized targets that counts as rounding, of other units for instance.
_TARGET_ROUNDING = 1e-6


class ComparedModel(NamedTuple):
    """One row of a `ModelComparison`. All logs are natural logs."""

    name: str
    log_evidence: float  # log p(y), hyper-parameters integrated out
    log_evidence_error: float  # Monte Carlo standard error
    probability: float  # posterior probability of the model, from equal prior probabilities
    elpd: float  # leave-one-out expected log predictive density
    elpd_error: float  # standard error over the choice of rows
    elpd_difference: float  # elpd minus the largest
    elpd_difference_error: float  # standard error of the difference, row by row


@dataclass(frozen=True, repr=False)
class ModelComparison(TableRepr):
    """Result of `compare_evidence`; prints as a table.

    Attributes
    ----------
    records : tuple of ComparedModel
        One per model, the most probable model first.
    """

    records: tuple[ComparedModel, ...]

    def __str__(self) -> str:
        width = max(5, *(len(record.name) for record in self.records))
        titles = ("log evidence", "probability", "elpd", "difference")
        lines = [f"{'model':{width}}" + "".join(f"  {title:>18}" for title in titles)]
        for name, *numbers in self.records:
            evidence, error, probability, elpd, elpd_error, gap, gap_error = numbers
            cells = (
                f"{evidence:.2f} +- {error:.2f}",
                f"{probability:.3f}",
                f"{elpd:.1f} +- {elpd_error:.1f}",
                f"{gap:.1f} +- {gap_error:.1f}",
            )
            lines.append(f"{name:{width}}" + "".join(f"  {cell:>18}" for cell in cells))
        return "\n".join(lines)


def compare_evidence(models: Mapping[str, Any]) -> ModelComparison:
    """Compare models fitted to the same targets, by evidence and leave-one-out cross-validation.

    The evidence is the probability (density) of all of y under a model and its priors; it depends
    on the priors. The elpd (expected log predictive density) measures how well a model predicts a
    row from all others, with the latent function integrated out (`loo`); it hardly depends on the
    priors. The two may disagree.

    Parameters
    ----------
    models : mapping of str to fitted estimator
        Estimators of this package by name; with one-vs-rest only for two classes.

    Returns
    -------
    ModelComparison
        A record for each model, the most probable one first.

    Raises
    ------
    ValueError
        If the models were fitted to different targets, or one of them has no evidence, for instance
        because a prior is improper.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
    >>> from skgpmcmc import BayesianGPRegressor
    >>> from skgpmcmc.model_selection import compare_evidence
    >>> X = np.linspace(0.0, 4.0, 20)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(20)
    >>> def fitted(kernel):
    ...     model = BayesianGPRegressor(ConstantKernel() * kernel, target_ess=200, max_rhat=1.1)
    ...     return model.set_params(random_state=0).fit(X, y)
    >>> models = {"rough": fitted(Matern(nu=0.5)), "smooth": fitted(RBF())}
    >>> [record.name for record in compare_evidence(models).records]
    ['smooth', 'rough']
    """
    if not isinstance(models, Mapping) or not models:
        raise ValueError(f"models must be a mapping of names to fitted estimators; got {models!r}.")
    evidences = [model.log_evidence() for model in models.values()]
    loos = [model.loo() for model in models.values()]
    # The targets must be the same, whatever their encoding and scale.
    targets = {}
    for name, model in models.items():
        y = model._predictor.model.observations.y[model._rows.given.row_of]
        targets[name] = (y - y.mean()) / (y.std() or 1.0)
    first, *others = models
    expected = targets[first]
    for name in others:
        own = targets[name]
        if own.shape != expected.shape or not np.allclose(own, expected, atol=_TARGET_ROUNDING):
            raise ValueError(
                f"models {first!r} and {name!r} were fitted to different targets, whose evidences "
                "cannot be compared: fit them to the same rows, and the same y."
            )
    values, errors = np.array(evidences).T
    rows = np.array([loo.elpd_i for loo in loos])
    gaps = rows - rows[np.argmax(rows.sum(axis=1))]
    n = rows.shape[1]
    columns = (
        *(values, errors, softmax(values)),
        *([loo.elpd for loo in loos], [loo.se for loo in loos]),
        *(gaps.sum(axis=1), np.sqrt(n) * gaps.std(axis=1)),
    )
    numbers = np.array(columns).T.tolist()
    records = [ComparedModel(name, *own) for name, own in zip(models, numbers, strict=True)]
    return ModelComparison(tuple(sorted(records, key=lambda r: -r.log_evidence)))
