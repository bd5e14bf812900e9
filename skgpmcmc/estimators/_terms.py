"""Terms of a sum of kernels, and the slopes of linear ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel

from ..kernels import Linear
from ..model.parts import list_parts
from ..model.terms import Term, TermsCovariance, is_linear, list_terms
from ..prediction.predictor import Predictor
from ..run.summary import Effects
from ._data import to_units_of_y

#: Probabilities of the quantiles of an effect.
_EFFECT_PROBABILITIES = (0.05, 0.95)


def select_terms(predictor: Predictor, terms: Any) -> Predictor:
    """Return a predictor of the sum of some terms of the kernel, given by their positions.

    Raises
    ------
    ValueError
        If there is no such term.
    """
    covariance = predictor.model.covariance
    every = list_terms(covariance)
    positions = np.atleast_1d(np.asarray(terms))
    legal = positions.ndim == 1 and positions.size > 0 and positions.dtype.kind in "iu"
    if not legal or not np.all((positions >= 0) & (positions < len(every))):
        shown = ", ".join(f"{k}: {term.kernel}" for k, (term, _) in enumerate(every))
        raise ValueError(
            f"terms must be a list of positions in the sum {{{shown}}}; got {terms!r}."
        )
    if len(set(positions.tolist())) < len(positions):
        raise ValueError(f"terms={terms!r} has a term twice: leave one out.")
    return _with_terms(predictor, [every[k] for k in positions])


def _with_terms(
    predictor: Predictor, terms: Sequence[Term], reference: np.ndarray | None = None
) -> Predictor:
    model = predictor.model
    covariance = TermsCovariance(model.covariance, terms, reference)
    return replace(predictor, model=replace(model, covariance=covariance))


def find_linear_effects(
    predictor: Predictor, names: Sequence[str], steps: np.ndarray, scale: float
) -> Effects:
    """Return the posterior of the slopes of all linear terms.

    Parameters
    ----------
    predictor : Predictor
        Predictions of the whole function.
    names : sequence of d str
        Names of the columns.
    steps : ndarray of shape (d,)
        Differences in each column to which effects belong.
    scale : float
        Units of y in one unit of the latent function.
    """
    covariance = predictor.model.covariance
    d = covariance.X.shape[1]
    linear = [term for term in list_terms(covariance) if is_linear(term[0].kernel)]
    if not linear:
        raise ValueError(
            f"linear_effects: kernel={covariance.kernel} has no linear term: add "
            "skgpmcmc.kernels.Linear(), or On(Linear(), columns) for some of the columns, to the "
            "sum. A sum within a product is not taken apart: multiply it out."
        )
    found = []
    columns_of_rows: list[int] = []
    for term in linear:
        columns, origin = _find_origin(term, d)
        rows = origin + np.diag(steps)[columns]
        slopes = _with_terms(predictor, [term], origin)
        mean, var = slopes.latent_moments(rows)
        quantiles = slopes.latent_quantiles(_EFFECT_PROBABILITIES, rows)
        found.append(np.vstack([mean, np.sqrt(var), quantiles]))
        columns_of_rows += columns
    values = to_units_of_y(np.hstack(found), 0.0, scale)
    labels = [names[k] for k in columns_of_rows]
    return Effects(labels, dict(zip(("mean", "sd", "5%", "95%"), values, strict=True)))


def _find_origin(term: Term, d: int) -> tuple[list[int], np.ndarray]:
    """Return the columns of a linear term, and the input (d,) at which its function is smallest.

    There the difference from other inputs loses no digits.
    """
    parts = list_parts(term[0].kernel, d)
    (part,) = (own for own in parts if not isinstance(own.kernel, ConstantKernel))
    origin = np.zeros(d)
    if isinstance(part.kernel, Linear):
        origin[part.columns] = part.kernel.center
    return part.columns, origin
