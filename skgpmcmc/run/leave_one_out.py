"""Leave-one-out cross-validation from posterior draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import joblib
import numpy as np
from arviz_stats.base.array import array_stats
from scipy.special import logsumexp

from .._shown import TableRepr
from .._typing import FloatArray, IntArray
from ..chain.segment import count_work
from ..importance.density import ReferenceDensity
from ..importance.left_out import DensityQuery, FittedPosterior
from ..model.joint import LatentGP
from ..model.observations import Further
from ..numerics.linalg import NotPositiveDefiniteError
from ..parallel.workers import Workers
from .convergence import min_draws
from .records import Draws

#: The Pareto tail is fitted to a fifth of the draws, and to five at least.
_LEAST_DRAWS = 25
#: Most draws of theta at which f is integrated out: they leave an error of a thirtieth of the
#: spread of the log densities over theta.
_MOST_DRAWS = 1000
#: Draws of theta in a task of a worker.
_INTEGRALS_PER_TASK = 25
#: What the weights of draws are about, and what helps if they are too uneven, by method.
_WEIGHTS_OVER = {
    "integrated": ("the hyper-parameters", "fit the model again without each of them"),
    "psis": ("f and the hyper-parameters", 'use method="integrated"'),
}
#: The names of the methods.
LOO_METHODS = tuple(_WEIGHTS_OVER)


@dataclass(frozen=True, eq=False, repr=False)
class LeaveOneOut(TableRepr):
    """Result of leave-one-out cross-validation; prints as one line.

    Attributes
    ----------
    elpd : float
        Sum of the log predictive densities of the rows, each given all others; natural log.
    se : float
        Standard error of `elpd` over the choice of rows, as computed by ArviZ.
    p_loo : float
        Effective number of parameters: how much larger the sum of the log predictive densities is
        if each row is among the data.
    elpd_i, pareto_k : ndarray of shape (n,)
        For each row: its log predictive density, and the Pareto shape of the tail of its importance
        weights, which should not exceed 0.7. The latter is infinite if the largest weights are
        equal, as then nothing is known about the tail; and zero if there are no weights, because
        all hyper-parameters are fixed.
    method : {"integrated", "psis"}
        What the importance weights are about: the hyper-parameters alone, with the latent function
        integrated out at each draw of them, or the latent function as well.
    """

    elpd: float
    se: float
    p_loo: float
    elpd_i: FloatArray
    pareto_k: FloatArray
    method: str = "integrated"

    def __str__(self) -> str:
        over, remedy = _WEIGHTS_OVER[self.method]
        numbers = f"elpd {self.elpd:.1f} +- {self.se:.1f}, p_loo {self.p_loo:.1f}"
        bad = int((self.pareto_k > 0.7).sum())
        if not bad:
            return f"{numbers} (weights over {over})"
        rows = f"{bad} row{'s' * (bad > 1)}"
        return f"{numbers}; {rows} with Pareto k > 0.7 of the weights over {over}: {remedy}"


class GivenRows(NamedTuple):
    """Rows as they were given: a model has rows that are equal in all as one."""

    row_of: IntArray  # (n_given,), the row of the model that each is, or is part of
    weight: FloatArray  # (n_given,), positive

    def distinct(self) -> tuple[GivenRows, IntArray]:
        """Return those that differ, and the position of each row among them."""
        pairs, which = np.unique(np.column_stack(self), axis=0, return_inverse=True)
        return GivenRows(pairs[:, 0].astype(np.intp), np.asarray(pairs[:, 1])), which.ravel()


def pointwise_log_lik(
    model: LatentGP, draws: Draws, given: GivenRows, shift: float = 0.0
) -> FloatArray:
    """Log p(y_i | f_i, theta) of every draw and given row, (n_chains, n_draws, n_given).

    A weight multiplies the log density of its row, after `shift` is added.
    """
    n_chains, n_draws, _ = draws.theta.shape
    thetas, fs = (x.reshape(n_chains * n_draws, x.shape[2]) for x in (draws.theta, draws.f))
    pairs = zip(thetas, fs, strict=True)
    each = [model.observations_at(theta).with_unit_weights().log_prob(f) for theta, f in pairs]
    log_lik = np.reshape(each, (n_chains, n_draws, -1))
    return (log_lik[..., given.row_of] + shift) * given.weight


class PointwiseDensities(NamedTuple):
    """Log densities of given rows at each draw; each (n_chains, n_draws, n_given).

    Importance weights are the inverse of those of `observed`. The weighted mean of those of
    `left_out` is a density given the other rows, the plain mean of those of `kept` one given all.
    """

    observed: FloatArray
    left_out: FloatArray
    kept: FloatArray


class Averages(NamedTuple):
    """What `PointwiseDensities` come to; each (n_given,)."""

    left_out: FloatArray  # natural log
    kept: FloatArray  # natural log
    pareto_k: FloatArray


def latent_densities(
    model: LatentGP, draws: Draws, given: GivenRows, label: float | None = None
) -> PointwiseDensities:
    """Return log densities given f, for "psis"; see `integrated_densities`."""
    observed = pointwise_log_lik(model, draws, given)
    if label is None:
        return PointwiseDensities(observed, observed, observed)
    labels = np.full(len(model.observations), label)
    whole = GivenRows(given.row_of, np.ones(len(given.row_of)))
    of_label = pointwise_log_lik(model.observing(y=labels), draws, whole)
    return PointwiseDensities(observed, of_label, of_label)


def integrated_densities(
    model: LatentGP,
    reference: ReferenceDensity | None,
    draws: Draws,
    given: GivenRows,
    label: float | None = None,
    n_jobs: int | None = None,
) -> PointwiseDensities:
    """Return log densities with f integrated out, at as many draws of theta as are needed.

    Parameters
    ----------
    model : LatentGP
        Of which the draws are.
    reference : ReferenceDensity or None
        What the chains use at each theta, see `FittedPosterior.at`.
    draws : Draws
        Draws of theta.
    given : GivenRows
        What is left out, one at a time, with its whole weight.
    label : float, optional
        Ask for the density of this target instead of that of each row, once whatever the weight.
    n_jobs : int, optional
        Workers of joblib; the result does not depend on it.

    Raises
    ------
    ValueError
        If the covariance cannot be factored at a draw.
    """
    chosen = _thin(draws.theta)
    n_chains, n_draws, p = chosen.shape
    distinct, which = np.unique(chosen.reshape(n_chains * n_draws, p), axis=0, return_inverse=True)
    queries = _queries(model, given, label)
    tasks = [
        distinct[i : i + _INTEGRALS_PER_TASK] for i in range(0, len(distinct), _INTEGRALS_PER_TASK)
    ]
    with Workers(n_jobs) as workers:
        found = workers.run(
            [joblib.delayed(_at_each)(model, reference, some, queries) for some in tasks]
        )
    by_draw = np.concatenate(found)[which.ravel()].reshape(n_chains, n_draws, len(queries), -1)
    observed, kept, *others = np.moveaxis(by_draw, 2, 0)
    left_out = others[0] if others else observed
    return PointwiseDensities(observed, left_out, kept)


def _thin(theta: FloatArray) -> FloatArray:
    """Return draws that are evenly spread over each chain; one alone if all of theta is fixed."""
    n_chains, n_draws, p = theta.shape
    if not p:
        return theta[:1, :1]
    n = min(n_draws, max(_MOST_DRAWS // n_chains, min_draws(n_chains)))
    return theta[:, np.linspace(0, n_draws - 1, n).round().astype(np.intp)]


def _queries(model: LatentGP, given: GivenRows, label: float | None) -> list[DensityQuery]:
    """Return the targets whose densities `PointwiseDensities` are."""
    observed = model.observations
    (rows, weight) = given
    total = np.ones(len(rows)) if observed.weight is None else observed.weight[rows]
    left = total - weight
    left[left < np.finfo(float).eps * len(rows) * total] = 0.0  # a rounding of nothing
    own = Further(observed.y[rows], weight)
    asked = own if label is None else Further(np.full(len(rows), label), np.ones(len(rows)))
    queries = [DensityQuery(rows, left, own), DensityQuery(rows, total, asked)]
    return queries if label is None else [*queries, DensityQuery(rows, left, asked)]


def _at_each(
    model: LatentGP,
    reference: ReferenceDensity | None,
    thetas: FloatArray,
    queries: list[DensityQuery],
) -> FloatArray:
    """Return the log densities that are asked for at each theta; (m, n_queries, n_given)."""
    found = np.empty((len(thetas), len(queries), len(queries[0].rows)))
    with count_work():
        for own, theta in zip(found, thetas, strict=True):
            try:
                settled = FittedPosterior.at(model, theta, reference)
                own[:] = [settled.log_density_given(query) for query in queries]
            except NotPositiveDefiniteError as error:
                raise ValueError(
                    "loo needs the Gaussian approximation of f at hyper-parameters "
                    f"{model.hyperprior.describe(theta)}, where a chain has been, and the "
                    'covariance cannot be factored there: use method="psis", or priors that do '
                    "not reach so far."
                ) from error
    return found


def leave_one_out(
    model: LatentGP,
    draws: Draws,
    given: GivenRows,
    shift: float = 0.0,
    *,
    method: str = "psis",
    reference: ReferenceDensity | None = None,
    n_jobs: int | None = None,
) -> LeaveOneOut:
    """Estimate log p(y_i | y_-i) for every row by importance sampling from the posterior draws.

    Parameters
    ----------
    model : LatentGP
        Of which the draws are.
    draws : Draws
        Draws of theta, and of f for "psis".
    given : GivenRows
        What is left out, one at a time; a weight multiplies the log density of its row.
    shift : float
        Added to every log p(y | f).
    method : {"integrated", "psis"}
        Whether densities at each draw are those with f integrated out, or those given f.
    reference : ReferenceDensity or None
        What the chains use at each theta; for "integrated".
    n_jobs : int, optional
        Workers of joblib for "integrated"; the result does not depend on it.

    Raises
    ------
    ValueError
        If the draws are too few to say anything about the tails of their weights.
    """
    left_out, kept, pareto_k = average_densities(
        model, draws, given, method, reference, n_jobs=n_jobs
    )
    # Not before: a constant changes nothing else, and costs digits.
    elpd_i = left_out + shift * given.weight
    return _total(elpd_i, kept - left_out, pareto_k, method)


def leave_one_out_of_classes(
    averages: Sequence[Averages], labels: IntArray, given: GivenRows, method: str
) -> LeaveOneOut:
    """Combine binary models, one for each class against the rest, as their predictions are.

    Parameters
    ----------
    averages : sequence of Averages
        For each class, of the label that stands for it.
    labels : ndarray of int of shape (n_given,)
        The class of each row.
    given : GivenRows
        A weight multiplies the log probability of its row.
    method : {"integrated", "psis"}
        Of the averages.
    """
    rows = np.arange(len(labels))
    left_out, kept, pareto_k = (np.array(part) for part in zip(*averages, strict=True))
    elpd_i, inside = (
        given.weight * (log_p - logsumexp(log_p, axis=0))[labels, rows]
        for log_p in (left_out, kept)
    )
    return _total(elpd_i, inside - elpd_i, pareto_k.max(axis=0), method)


def average_densities(
    model: LatentGP,
    draws: Draws,
    given: GivenRows,
    method: str,
    reference: ReferenceDensity | None,
    label: float | None = None,
    n_jobs: int | None = None,
) -> Averages:
    """Return the averages of densities over draws.

    Arguments are those of `leave_one_out` and of `integrated_densities`, which say what is raised.
    """
    n_chains, n_draws, p = draws.theta.shape
    if p or method == "psis":
        _check_number(n_chains, n_draws)
    distinct, which = given.distinct()
    if method == "psis":
        densities = latent_densities(model, draws, distinct, label)
    else:
        densities = integrated_densities(model, reference, draws, distinct, label, n_jobs)
    possible = np.asarray(np.isfinite(densities).all(axis=(0, 1, 2)))[which]
    if not possible.all():
        raise ValueError(
            f"loo: row {int(np.argmin(possible))} of the training data has no finite log density "
            "under some draws, so that they cannot tell what the others predict of it: check the "
            "units of its target, or leave it out."
        )
    return Averages(*(part[which] for part in _averaged(densities)))


def _check_number(n_chains: int, n_draws: int) -> None:
    """Refuse draws that are too few for the tails of their weights."""
    if n_draws < min_draws(n_chains) or n_chains * n_draws < _LEAST_DRAWS:
        raise ValueError(
            f"loo needs at least {_LEAST_DRAWS} draws, and {min_draws(n_chains)} in each chain; "
            f"n_chains={n_chains} with {n_draws} draws each are too few: increase n_draws "
            "(warm_start=True continues these chains)."
        )


def _total(
    elpd_i: FloatArray, p_loo_i: FloatArray, pareto_k: FloatArray, method: str
) -> LeaveOneOut:
    se = _sd_of_sum(elpd_i) if len(elpd_i) > 1 else float("nan")
    return LeaveOneOut(float(elpd_i.sum()), se, float(p_loo_i.sum()), elpd_i, pareto_k, method)


def _sd_of_sum(elpd_i: FloatArray) -> float:
    """Standard error of the sum; the squares of very small log densities would be no numbers."""
    largest = max(float(np.abs(elpd_i).max()), np.finfo(float).tiny)
    return float(largest * np.sqrt(len(elpd_i)) * (elpd_i / largest).std())


def _averaged(densities: PointwiseDensities) -> Averages:
    """Average densities, those without a row by Pareto-smoothed importance sampling (PSIS).

    Where the largest weights of a row are equal, as those of chains that hardly move are, no tail
    can be fitted to them: then the weights are used as they are, and k is infinite. A single draw
    stands for a theta that is fixed.
    """
    observed, left_out, kept = (np.asarray(part.reshape(-1, part.shape[2])) for part in densities)
    n_draws, n_rows = observed.shape
    if n_draws == 1:
        return Averages(left_out[0], kept[0], np.zeros(n_rows))
    efficiency = _efficiency(densities.observed)
    log_weight = -observed
    pareto_k = np.full(n_rows, np.inf)
    log_weight -= logsumexp(log_weight, axis=0)
    for i in range(n_rows):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # looked for below
            try:
                smoothed, k = array_stats.psislw(observed[:, i], r_eff=efficiency)
            except ValueError:  # the whole tail is one value
                continue
        if np.isfinite(k) and np.isfinite(smoothed).all():
            log_weight[:, i] = smoothed
            pareto_k[i] = k
    mean_kept = logsumexp(kept, axis=0) - np.log(n_draws)
    return Averages(logsumexp(log_weight + left_out, axis=0), mean_kept, pareto_k)


def _efficiency(log_lik: FloatArray) -> float:
    """Effective draws for each draw, which say how many of them a tail has: the mean over rows."""
    n_draws = log_lik[..., 0].size
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # of rows that never change
        ess = array_stats.ess(log_lik, chain_axis=0, draw_axis=1, method="mean", relative=True)
    relative = np.asarray(ess)
    known = relative[np.isfinite(relative)]
    return float(np.clip(known.mean(), 1.0 / n_draws, 1.0)) if len(known) else 1.0
