"""Leave-one-out cross-validation from posterior draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import joblib
import numpy as np
from arviz_stats.base.array import array_stats
from scipy.special import logsumexp

from .._table_repr import TableRepr
from .._typing import FloatArray, IntArray
from ..chain.segment import count_work
from ..importance.density import ReferenceDensity
from ..importance.left_out import DensityQuery, FittedPosterior
from ..model.joint import LatentGP
from ..model.observations import ExtraTargets
from ..numerics.linalg import NotPositiveDefiniteError
from ..parallel.workers import Workers
from .convergence import MAX_PARETO_K, min_draws
from .records import Draws, split_into_tasks

#: Fewest draws of all chains: the Pareto tail is a fifth of the draws, and needs at least five.
_LEAST_DRAWS = 25
#: Most draws of theta at which f is integrated out. Their Monte Carlo error is a thirtieth of the
#: spread of the log densities over theta.
_MOST_DRAWS = 1000
#: For each method, the quantities that the importance weights are over, and the remedy if the
#: weights are too uneven.
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
        weights, which should not exceed 0.7. The shape is infinite if the largest weights are
        equal, as then nothing is known about the tail; and zero if there are no weights, because
        all hyper-parameters are fixed.
    method : {"integrated", "psis"}
        Quantities that the importance weights are over: the hyper-parameters alone, with the latent
        function integrated out at each draw of them, or the latent function as well.
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
        n_unreliable = int((self.pareto_k > MAX_PARETO_K).sum())
        if not n_unreliable:
            return f"{numbers} (weights over {over})"
        rows = f"{n_unreliable} row{'s' * (n_unreliable > 1)} with Pareto k > {MAX_PARETO_K}"
        return f"{numbers}; {rows} of the weights over {over}: {remedy}"


class GivenRows(NamedTuple):
    """The training rows as the user gave them; a model merges rows that are equal in everything."""

    row_of: IntArray  # (n_given,), position of the model's row that each given row belongs to
    weight: FloatArray  # (n_given,), positive


def pointwise_log_lik(
    model: LatentGP, draws: Draws, given: GivenRows, shift: FloatArray | float = 0.0
) -> FloatArray:
    """Log p(y_i | f_i, theta) of every draw and given row, (n_chains, n_draws, n_given).

    A weight multiplies the log density of its row, after `shift` is added.
    """
    n_chains, n_draws, _ = draws.theta.shape
    thetas, fs = (x.reshape(n_chains * n_draws, x.shape[2]) for x in (draws.theta, draws.f))
    pairs = zip(thetas, fs, strict=True)
    unweighted = model.with_observations(weight=None)
    each = [unweighted.observations_at(theta).log_prob(f) for theta, f in pairs]
    log_lik = np.reshape(each, (n_chains, n_draws, -1))
    return (log_lik + shift)[..., given.row_of] * given.weight


def have_joint_rows(model: LatentGP) -> bool:
    """Whether some rows are dependent given f: they share a residual that is not part of f."""
    return model.has_residuals and model.observations.has_repeats


class PointwiseDensities(NamedTuple):
    """Log densities of given rows at each draw; each (n_chains, n_draws, n_given).

    The importance weights that leave a row out are the inverse of its `observed` density. The
    weighted mean of the `left_out` densities is a density given all other rows. The plain mean of
    the `kept` densities is a density given all rows.
    """

    observed: FloatArray  # of the observed target, given the other rows
    left_out: FloatArray  # of the target in question, given the other rows
    kept: FloatArray  # of the target in question, given all rows


class Averages(NamedTuple):
    """Averages of `PointwiseDensities` over the draws; each (n_given,)."""

    left_out: FloatArray  # natural log
    kept: FloatArray  # natural log
    pareto_k: FloatArray


def latent_densities(
    model: LatentGP, draws: Draws, given: GivenRows, label: float | None = None
) -> PointwiseDensities:
    """Return log densities given f, for "psis"; see `integrated_densities`.

    Raises
    ------
    ValueError
        If rows are dependent given f.
    """
    if have_joint_rows(model):
        raise ValueError(
            'loo: method="psis" needs rows that are independent given f, and with '
            'covariance="inducing" rows with equal inputs, or with weights, are not: use '
            'method="integrated".'
        )
    observed = pointwise_log_lik(model, draws, given)
    if label is None:
        return PointwiseDensities(observed, observed, observed)
    labels = np.full(len(model.observations), label)
    whole = GivenRows(given.row_of, np.ones(len(given.row_of)))
    of_label = pointwise_log_lik(model.with_observations(y=labels), draws, whole)
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
        The model of the draws.
    reference : ReferenceDensity or None
        The Gaussian approximation that the chains use at each theta, see `FittedPosterior.at`.
    draws : Draws
        Draws of theta.
    given : GivenRows
        The rows that are left out, one at a time, with their whole weights.
    label : float, optional
        The target whose density is computed, with a weight of one, in place of that of each row.
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
    # The queries for the densities of `PointwiseDensities`: observed, kept, left out.
    rows, weight = given
    own = model.observations
    total = np.ones(len(rows)) if own.weight is None else own.weight[rows]
    left = total - weight
    left[left < np.finfo(float).eps * len(rows) * total] = 0.0  # the rounding error of a zero
    of_rows = ExtraTargets(own.y[rows], weight)
    queries = [DensityQuery(rows, left, of_rows)]
    if label is None:
        queries.append(DensityQuery(rows, total, of_rows))
    else:
        of_label = ExtraTargets(np.full(len(rows), label), np.ones(len(rows)))
        queries += [DensityQuery(rows, total, of_label), DensityQuery(rows, left, of_label)]
    with Workers(n_jobs) as workers:
        found = workers.run(
            [
                joblib.delayed(_log_densities_at)(model, reference, some, queries)
                for some in split_into_tasks(distinct)
            ]
        )
    by_draw = np.concatenate(found)[which.ravel()].reshape(n_chains, n_draws, len(queries), -1)
    observed = by_draw[:, :, 0]
    kept = by_draw[:, :, 1]
    left_out = observed if label is None else by_draw[:, :, 2]
    return PointwiseDensities(observed, left_out, kept)


def _thin(theta: FloatArray) -> FloatArray:
    """Return draws that are evenly spread over each chain; a single one if theta is fixed."""
    n_chains, n_draws, p = theta.shape
    if not p:
        return theta[:1, :1]
    n = min(n_draws, max(_MOST_DRAWS // n_chains, min_draws(n_chains)))
    return theta[:, np.linspace(0, n_draws - 1, n).round().astype(np.intp)]


def _log_densities_at(
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
    shift: FloatArray | float = 0.0,
    *,
    method: str = "psis",
    reference: ReferenceDensity | None = None,
    n_jobs: int | None = None,
) -> LeaveOneOut:
    """Estimate log p(y_i | y_-i) for every row by importance sampling from the posterior draws.

    Parameters
    ----------
    model : LatentGP
        The model of the draws.
    draws : Draws
        Draws of theta, and of f for "psis".
    given : GivenRows
        The rows that are left out, one at a time; a weight multiplies the log density of its row.
    shift : float or ndarray of shape (n_rows,)
        Added to every log p(y | f), or to that of each row of the model.
    method : {"integrated", "psis"}
        Whether the densities at each draw have f integrated out, or are given f.
    reference : ReferenceDensity or None
        The Gaussian approximation that the chains use at each theta; for "integrated".
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
    # Added to the averages only: a constant does not change the weights, and would cost digits.
    of_rows = np.broadcast_to(shift, len(model.observations))
    elpd_i = left_out + of_rows[given.row_of] * given.weight
    return _sum_over_rows(elpd_i, kept - left_out, pareto_k, method)


def leave_one_out_of_classes(
    averages: Sequence[Averages], labels: IntArray, given: GivenRows, method: str
) -> LeaveOneOut:
    """Combine binary models, one for each class against the rest, by normalizing probabilities.

    Parameters
    ----------
    averages : sequence of Averages
        For each class, those of the label that stands for the class.
    labels : ndarray of int of shape (n_given,)
        The class of each row.
    given : GivenRows
        A weight multiplies the log probability of its row.
    method : {"integrated", "psis"}
        Method by which the averages were computed.
    """
    rows = np.arange(len(labels))
    left_out, kept, pareto_k = (np.array(part) for part in zip(*averages, strict=True))
    elpd_i, lpd_i = (
        given.weight * (log_p - logsumexp(log_p, axis=0))[labels, rows]
        for log_p in (left_out, kept)
    )
    return _sum_over_rows(elpd_i, lpd_i - elpd_i, pareto_k.max(axis=0), method)


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

    The arguments and errors are those of `leave_one_out` and of `integrated_densities`.
    """
    n_chains, n_draws, p = draws.theta.shape
    least = min_draws(n_chains)
    has_weights = p > 0 or method == "psis"  # whose tails too few draws would say nothing about
    if has_weights and (n_draws < least or n_chains * n_draws < _LEAST_DRAWS):
        raise ValueError(
            f"loo needs at least {_LEAST_DRAWS} draws, and {least} in each chain; "
            f"n_chains={n_chains} with {n_draws} draws each are too few: increase n_draws "
            "(warm_start=True continues these chains)."
        )
    pairs, which = np.unique(np.column_stack(given), axis=0, return_inverse=True)
    distinct = GivenRows(pairs[:, 0].astype(np.intp), np.asarray(pairs[:, 1]))
    which = which.ravel()
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
    return Averages(*(part[which] for part in _average(densities)))


def _sum_over_rows(
    elpd_i: FloatArray, p_loo_i: FloatArray, pareto_k: FloatArray, method: str
) -> LeaveOneOut:
    # The standard error of the sum, without squares that could overflow.
    largest = max(float(np.abs(elpd_i).max()), np.finfo(float).tiny)
    n = len(elpd_i)
    se = float(largest * np.sqrt(n) * (elpd_i / largest).std()) if n > 1 else float("nan")
    return LeaveOneOut(float(elpd_i.sum()), se, float(p_loo_i.sum()), elpd_i, pareto_k, method)


def _average(densities: PointwiseDensities) -> Averages:
    """Average densities over the draws; `left_out` by Pareto-smoothed importance sampling (PSIS).

    Where the largest weights of a row are equal, as for chains that hardly move, no tail can be
    fitted to them. Then the weights are used without smoothing, and k is infinite. A single draw
    means that theta is fixed, and has no weights.
    """
    observed, left_out, kept = (np.asarray(part.reshape(-1, part.shape[2])) for part in densities)
    n_draws, n_rows = observed.shape
    if n_draws == 1:
        return Averages(left_out[0], kept[0], np.zeros(n_rows))
    log_weight = -observed
    pareto_k = np.full(n_rows, np.inf)
    log_weight -= logsumexp(log_weight, axis=0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # checked below
        # The effective draws per draw, mean over rows, determine the length of the tails. The
        # densities of some rows may be constant.
        relative = np.asarray(
            array_stats.ess(
                densities.observed, chain_axis=0, draw_axis=1, method="mean", relative=True
            )
        )
        known = relative[np.isfinite(relative)]
        efficiency = float(np.clip(known.mean(), 1.0 / n_draws, 1.0)) if len(known) else 1.0
        for i in range(n_rows):
            try:
                smoothed, k = array_stats.psislw(observed[:, i], r_eff=efficiency)
            except ValueError:  # the whole tail is one value
                continue
            if np.isfinite(k) and np.isfinite(smoothed).all():
                log_weight[:, i] = smoothed
                pareto_k[i] = k
    mean_kept = logsumexp(kept, axis=0) - np.log(n_draws)
    return Averages(logsumexp(log_weight + left_out, axis=0), mean_kept, pareto_k)
