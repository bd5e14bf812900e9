"""Leave-one-out cross-validation from posterior draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._typing import FloatArray
from .chains import Draws
from .model import LatentGP

__all__ = ["LeaveOneOut", "leave_one_out"]


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Outcome of PSIS-LOO.

    Attributes
    ----------
    elpd : float
        Sum of the log predictive densities of the rows, each given all others; natural log.
    se : float
        Standard error of `elpd` over the choice of rows.
    p_loo : float
        Effective number of parameters.
    elpd_i, pareto_k : ndarray of shape (n,)
        Row by row: log predictive density, and the shape of the tail of the weights, which should
        not be above 0.7.
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


def leave_one_out(model: LatentGP, draws: Draws, shift: float = 0.0) -> LeaveOneOut:
    """Estimate log p(y_i | y_-i) for every row by importance sampling from the posterior draws.

    Parameters
    ----------
    model : LatentGP
        Of which the draws are; a weight multiplies the log density of its row.
    draws : Draws
        Draws of theta and f.
    shift : float
        Added to every log p(y | f).
    """
    from arviz_stats.base.array import array_stats  # takes a second to import

    log_lik = np.array(
        [
            [model.observations_at(theta).log_prob(f) for theta, f in zip(*chain, strict=True)]
            for chain in zip(draws.theta, draws.f, strict=True)
        ]
    )
    axes = {"chain_axis": 0, "draw_axis": 1}
    relative = np.asarray(array_stats.ess(log_lik, method="mean", relative=True, **axes))
    efficiency = float(np.clip(np.nanmean(relative), 1.0 / log_lik[..., 0].size, 1.0))
    elpd_i, pareto_k, p_loo_i = (
        np.asarray(part) for part in array_stats.loo(log_lik, r_eff=efficiency, **axes)
    )
    # Not before: a constant changes nothing else, and costs digits.
    elpd_i = elpd_i + shift * (1.0 if model.weight is None else model.weight)
    return LeaveOneOut(
        float(elpd_i.sum()),
        float(np.sqrt(len(elpd_i) * elpd_i.var(ddof=1))) if len(elpd_i) > 1 else float("nan"),
        float(p_loo_i.sum()),
        elpd_i,
        pareto_k,
    )
