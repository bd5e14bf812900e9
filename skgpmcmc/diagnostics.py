"""Convergence diagnostics of the kept draws; a thin layer over arviz-stats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ._linalg import OperationCount
from ._typing import FloatArray
from .chains import SamplingRun

__all__ = ["MIN_ESS", "ConvergenceSummary", "Diagnostics", "diagnose", "summarize_convergence"]

#: Below this effective sample size the Monte Carlo error of a posterior mean exceeds a tenth of
#: the posterior standard deviation, and R-hat itself is unreliable.
MIN_ESS = 100.0


@dataclass(frozen=True, eq=False)
class ConvergenceSummary:
    """Rank-normalized split R-hat, effective sample sizes and errors; each (p,)."""

    r_hat: FloatArray
    ess_bulk: FloatArray
    ess_tail: FloatArray
    mcse_mean: FloatArray


def summarize_convergence(samples: FloatArray) -> ConvergenceSummary:
    """Diagnose draws of shape (n_chains, n_draws, p).

    A single chain is compared with itself, half against half. Chains that are constant, not
    finite or shorter than four draws (eight for a single chain) have not converged: R-hat is
    infinite, the effective sample size 0 and the error NaN.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter & Burkner (2021), *Rank-normalization, folding, and
    localization: an improved R-hat*.
    """
    from arviz_stats.base.array import array_stats  # takes a second to import

    p = samples.shape[2]
    r_hat, ess_bulk = np.full(p, np.inf), np.zeros(p)
    ess_tail, mcse_mean = np.zeros(p), np.full(p, np.nan)
    if samples.shape[0] == 1:
        half = samples.shape[1] // 2
        samples = np.stack([samples[0, :half], samples[0, half : 2 * half]])
    if samples.shape[1] < 4:
        return ConvergenceSummary(r_hat, ess_bulk, ess_tail, mcse_mean)
    usable = np.isfinite(samples).all(axis=(0, 1)) & (np.ptp(samples, axis=1) > 0.0).all(axis=0)
    if usable.any():
        x = samples[:, :, usable]
        axes = {"chain_axis": 0, "draw_axis": 1}
        r_hat[usable] = array_stats.rhat(x, **axes)
        ess_bulk[usable] = array_stats.ess(x, method="bulk", **axes)
        ess_tail[usable] = array_stats.ess(x, method="tail", prob=(0.05, 0.95), **axes)
        mcse_mean[usable] = array_stats.mcse(x, method="mean", **axes)
    return ConvergenceSummary(r_hat, ess_bulk, ess_tail, mcse_mean)


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """How well chains have converged and what they cost; ``print`` shows a table.

    Attributes
    ----------
    names : list of str
        Hyper-parameter of each row.
    classes : list or None
        Class of each row, for one-vs-rest problems.
    r_hat, ess_bulk, ess_tail, mcse_mean : ndarray of shape (n_rows,)
        Of theta on its sampling scale (natural log).
    acceptance_rate : dict of str to ndarray
        Per transition, of shape (n_models * n_chains,).
    log_likelihood_sd : ndarray of shape (n_models,)
        Standard deviation of the log-likelihood estimate at the posterior mean of theta. Above
        about 2 chains stick; below 0.5 it hardly matters. 0 for a deterministic likelihood.
    n_cubic : float
        Operations in O(n^3) of the whole run; see `operations` for the kinds. A product or solve
        with m columns counts m / n.
    operations : OperationCount
    n_likelihood_evaluations : int
    n_failed : int
        Proposals rejected because a factorization failed.
    seconds_warmup, seconds_sampling : float
        Wall time.
    """

    names: list[str]
    classes: list[object] | None
    r_hat: FloatArray
    ess_bulk: FloatArray
    ess_tail: FloatArray
    mcse_mean: FloatArray
    acceptance_rate: dict[str, FloatArray]
    log_likelihood_sd: FloatArray
    operations: OperationCount
    n_likelihood_evaluations: int
    n_failed: int
    seconds_warmup: float
    seconds_sampling: float

    @property
    def n_cubic(self) -> float:
        """Operations in O(n^3) of the whole run."""
        return self.operations.total

    def converged(self, max_rhat: float) -> bool:
        """Whether every R-hat is at most `max_rhat` and every effective sample size suffices."""
        return not self.not_converged(max_rhat)

    def not_converged(self, max_rhat: float) -> list[int]:
        """Return rows whose R-hat exceeds `max_rhat` or whose sample size is below MIN_ESS."""
        good = (self.r_hat <= max_rhat) & (np.minimum(self.ess_bulk, self.ess_tail) >= MIN_ESS)
        return [int(i) for i in np.flatnonzero(~good)]

    def row_label(self, row: int) -> str:
        """Name of a row, with its class if there are several."""
        if self.classes is None:
            return self.names[row]
        return f"{self.names[row]} (class {self.classes[row]})"

    def __str__(self) -> str:
        return "\n".join([*self._table(), *self._footer()])

    def _table(self) -> list[str]:
        labels = [self.row_label(row) for row in range(len(self.names))]
        width = max([len("hyper-parameter"), *map(len, labels)])
        head = f"{'hyper-parameter':<{width}}   R-hat  ESS bulk  ESS tail     MCSE"
        columns = zip(labels, self.r_hat, self.ess_bulk, self.ess_tail, self.mcse_mean, strict=True)
        rows = [
            f"{label:<{width}}  {r:6.3f}  {bulk:8.0f}  {tail:8.0f}  {mcse:7.4f}"
            for label, r, bulk, tail, mcse in columns
        ]
        return [head, *rows]

    def _footer(self) -> list[str]:
        rates = "; ".join(f"{name} {_range(rate)}" for name, rate in self.acceptance_rate.items())
        kinds = self.operations
        return [
            f"acceptance: {rates}; log-likelihood noise (sd): {_range(self.log_likelihood_sd)}",
            f"O(n^3) operations: {self.n_cubic:.0f} ({kinds.cholesky:.0f} Cholesky, "
            f"{kinds.triangular_solve:.0f} solves, {kinds.product:.0f} products, "
            f"{kinds.inverse:.0f} inverses); likelihood evaluations: "
            f"{self.n_likelihood_evaluations}; failed proposals: {self.n_failed}",
            f"seconds: warm-up {self.seconds_warmup:.1f}, sampling {self.seconds_sampling:.1f}",
        ]


def _range(values: FloatArray) -> str:
    low, high = float(np.min(values)), float(np.max(values))
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"


def diagnose(
    run: SamplingRun,
    names: Sequence[str],
    log_likelihood_sd: FloatArray,
    which: Sequence[int],
    classes: Sequence[object] | None = None,
) -> Diagnostics:
    """Diagnose some models of a run.

    Parameters
    ----------
    run : SamplingRun
        What the chains left behind.
    names : sequence of str
        One per component of theta.
    log_likelihood_sd : ndarray of shape (n_models,)
        Of all models of the run.
    which : sequence of int
        The models to report.
    classes : sequence, optional
        Class of each model of the run; without it rows carry no class.
    """
    draws = [run.draws[m] for m in which]
    summaries = [summarize_convergence(d.theta) for d in draws]
    operations = OperationCount()
    for d in draws:
        operations.add(d.tally.operations)
    return Diagnostics(
        names=list(names) * len(draws),
        classes=None if classes is None else [classes[m] for m in which for _ in names],
        r_hat=np.concatenate([s.r_hat for s in summaries]),
        ess_bulk=np.concatenate([s.ess_bulk for s in summaries]),
        ess_tail=np.concatenate([s.ess_tail for s in summaries]),
        mcse_mean=np.concatenate([s.mcse_mean for s in summaries]),
        acceptance_rate={run.transition_name: np.concatenate([d.acceptance_rate for d in draws])},
        log_likelihood_sd=log_likelihood_sd[list(which)],
        operations=operations,
        n_likelihood_evaluations=sum(d.tally.n_evaluations for d in draws),
        n_failed=sum(d.tally.n_failed for d in draws),
        seconds_warmup=run.seconds_warmup,
        seconds_sampling=run.seconds_sampling,
    )
