"""Leave-one-out cross-validation from posterior draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from arviz_stats.base.array import array_stats
from scipy.special import logsumexp

from .._shown import Shown
from .._typing import FloatArray, IntArray
from ..model import LatentGP
from .diagnostics import min_draws
from .records import Draws

#: The Pareto tail is fitted to a fifth of the draws, and to five at least.
_LEAST_DRAWS = 25


@dataclass(frozen=True, eq=False, repr=False)
class LeaveOneOut(Shown):
    """Result of leave-one-out cross-validation (PSIS-LOO); prints as one line.

    Attributes
    ----------
    elpd : float
        Sum of the log predictive densities of the rows, each given all others; natural log.
    se : float
        Standard error of `elpd` over the choice of rows, as computed by ArviZ.
    p_loo : float
        Effective number of parameters.
    elpd_i, pareto_k : ndarray of shape (n,)
        For each row: its log predictive density, and the Pareto shape of the tail of its importance
        weights, which should not exceed 0.7. The latter is infinite if the largest weights are
        equal, as then nothing is known about the tail.
    """

    elpd: float
    se: float
    p_loo: float
    elpd_i: FloatArray
    pareto_k: FloatArray

    def __str__(self) -> str:
        bad = int((self.pareto_k > 0.7).sum())
        warning = f"; {bad} row{'s' * (bad > 1)} with Pareto k > 0.7" if bad else ""
        return f"elpd {self.elpd:.1f} +- {self.se:.1f}, p_loo {self.p_loo:.1f}{warning}"


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
    log_lik = np.array(
        [
            [
                model.observations_at(theta).unweighted().log_prob(f)
                for theta, f in zip(*chain, strict=True)
            ]
            for chain in zip(draws.theta, draws.f, strict=True)
        ]
    )
    return (log_lik[..., given.row_of] + shift) * given.weight


def leave_one_out(
    model: LatentGP, draws: Draws, given: GivenRows, shift: float = 0.0
) -> LeaveOneOut:
    """Estimate log p(y_i | y_-i) for every row by importance sampling from the posterior draws.

    Parameters
    ----------
    model : LatentGP
        Of which the draws are.
    draws : Draws
        Draws of theta and f.
    given : GivenRows
        What is left out, one at a time; a weight multiplies the log density of its row.
    shift : float
        Added to every log p(y | f).

    Raises
    ------
    ValueError
        If the draws are too few to say anything about the tails of their weights.
    """
    n_chains, n_draws = draws.theta.shape[:2]
    if n_draws < min_draws(n_chains) or n_chains * n_draws < _LEAST_DRAWS:
        raise ValueError(
            f"loo needs at least {_LEAST_DRAWS} draws, and {min_draws(n_chains)} in each chain; "
            f"n_chains={n_chains} with {n_draws} draws each are too few: increase n_draws "
            "(warm_start=True continues these chains)."
        )
    distinct, which = given.distinct()
    log_lik = pointwise_log_lik(model, draws, distinct)
    possible = np.asarray(np.isfinite(log_lik).all(axis=(0, 1)))[which]
    if not possible.all():
        raise ValueError(
            f"loo: row {int(np.argmin(possible))} of the training data has no finite log density "
            "under some draws, so that they cannot tell what the others predict of it: check the "
            "units of its target, or leave it out."
        )
    elpd_i, pareto_k, p_loo_i = _smoothed(log_lik)[:, which]
    # Not before: a constant changes nothing else, and costs digits.
    elpd_i = elpd_i + shift * given.weight
    return LeaveOneOut(
        float(elpd_i.sum()),
        _sd_of_sum(elpd_i) if len(elpd_i) > 1 else float("nan"),
        float(p_loo_i.sum()),
        elpd_i,
        pareto_k,
    )


def _sd_of_sum(elpd_i: FloatArray) -> float:
    """Standard error of the sum; the squares of very small log densities would be no numbers."""
    largest = max(float(np.abs(elpd_i).max()), np.finfo(float).tiny)
    return float(largest * np.sqrt(len(elpd_i)) * (elpd_i / largest).std())


def _smoothed(log_lik: FloatArray) -> FloatArray:
    """Apply PSIS to log p(y_i | f), (n_chains, n_draws, n); elpd, Pareto k and p_loo, (3, n).

    Where the largest weights of a row are equal, as those of chains that hardly move are, no tail
    can be fitted to them: then the weights are used as they are, and k is infinite.
    """
    axes = {"chain_axis": 0, "draw_axis": 1}
    n_draws = log_lik[..., 0].size
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # looked for below
        relative = np.asarray(array_stats.ess(log_lik, method="mean", relative=True, **axes))
        known = relative[np.isfinite(relative)]
        efficiency = float(np.clip(known.mean(), 1.0 / n_draws, 1.0)) if len(known) else 1.0
        found = np.full((3, log_lik.shape[2]), np.nan)
        for i in range(log_lik.shape[2]):
            try:
                found[:, i] = array_stats.loo(log_lik[..., i], r_eff=efficiency, **axes)
            except ValueError:  # the whole tail is one value
                continue
    rest = ~np.isfinite(found[[0, 2]]).all(axis=0)
    of_rest = log_lik[..., rest].reshape(n_draws, -1)
    elpd = np.log(n_draws) - logsumexp(-of_rest, axis=0)
    found[0, rest], found[1, rest] = elpd, np.inf
    found[2, rest] = logsumexp(of_rest, axis=0) - np.log(n_draws) - elpd
    return found
