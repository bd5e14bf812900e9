"""The table of diagnostics: convergence of the kept draws, and the cost of sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from .._table_repr import TableRepr, html_table
from .._typing import FloatArray
from ..chain.counts import ChainCounts, sum_counts
from ..numerics.linalg import OperationCount
from ..setup.report import EmulatorReport
from .convergence import ConvergenceGoal, summarize_convergence
from .records import SamplingRun


@dataclass(frozen=True, eq=False, repr=False)
class Diagnostics(TableRepr):
    """Convergence and cost of the chains; prints as a table.

    Attributes
    ----------
    names : list of str
        Name of the hyper-parameter in each row.
    classes : list or None
        Class of each row with one-vs-rest; None for a single model.
    r_hat, ess_bulk, ess_tail, mcse_mean : ndarray of shape (n_rows,)
        R-hat, effective sample sizes and Monte Carlo error of the mean, of theta (natural logs).
    acceptance_rate : dict of str to ndarray
        Acceptance rates of the kept iterations by the name of the move, each an array of shape
        (n_models * n_chains,). NaN for a chain that never made the move.
    log_likelihood_sd : ndarray of shape (n_models,)
        Standard deviation of the estimate of log p(y | theta) at the posterior mean of theta. Above
        2 or so, chains get stuck; below 0.5 it hardly matters. 0 if log p(y | theta) is exact.
    emulators : list of EmulatorReport
        How well the emulator predicts, one per model; empty for samplers without one.
    n_cubic : float
        Number of O(n^3) matrix operations of the whole run; `operations` counts them by kind. A
        product or solve with m columns counts m / n, a root of K with r columns (r / n)^2, and a
        factorization of r rows (r / n)^3.
    operations, sampling_operations : OperationCount
        O(n^3) operations by kind: of the whole run, and of the kept iterations alone.
    n_likelihood_evaluations, n_sampling_evaluations : float
        Evaluations of the marginal likelihood in the whole run, and in the kept iterations alone.
        Rejected proposals count. A refresh of m particles counts m / n.
    n_failed : int
        Proposals rejected because a factorization failed, or because a Riemannian trajectory had
        no solution or no way back.
    seconds_warmup, seconds_sampling : float
        Wall time.
    in_use : dict of str to str
        Values of those parameters among "sampler", "approximation" and "n_importance" that had an
        effect. Samplers ignore parameters that they do not use.
    goal : ConvergenceGoal
        Goal of the fit. A notebook marks the numbers that are short of it.
    """

    names: list[str]
    classes: list[object] | None
    r_hat: FloatArray
    ess_bulk: FloatArray
    ess_tail: FloatArray
    mcse_mean: FloatArray
    acceptance_rate: dict[str, FloatArray]
    log_likelihood_sd: FloatArray
    emulators: list[EmulatorReport]
    operations: OperationCount
    sampling_operations: OperationCount
    n_likelihood_evaluations: float
    n_sampling_evaluations: float
    n_failed: int
    seconds_warmup: float
    seconds_sampling: float
    in_use: dict[str, str] = field(default_factory=dict)
    goal: ConvergenceGoal = field(default_factory=lambda: ConvergenceGoal(max_rhat=1.01))

    @property
    def n_cubic(self) -> float:
        """Number of O(n^3) matrix operations of the whole run."""
        return self.operations.total

    def converged(self, max_rhat: float, target_ess: float | None = None) -> bool:
        """Whether every R-hat and every effective sample size meets a `ConvergenceGoal`."""
        return not self.rows_short_of(ConvergenceGoal(max_rhat, target_ess))

    def rows_short_of(self, goal: ConvergenceGoal) -> list[int]:
        """Return the rows whose R-hat is too large or whose effective sample size is too small."""
        is_met = goal.is_met(self.r_hat, self.ess_bulk, self.ess_tail)
        return [int(i) for i in np.flatnonzero(~is_met)]

    def row_label(self, row: int) -> str:
        """Return the name of a row, with its class if there are several."""
        if self.classes is None:
            return self.names[row]
        return f"{self.names[row]} (class {self.classes[row]})"

    def __str__(self) -> str:
        labels = ["hyper-parameter", *(self.row_label(row) for row in range(len(self.names)))]
        words = ["", *(plain_name(name) for name in self.names)]
        width, word_width = (max(map(len, column)) for column in (labels, words))
        heads = [
            f"{label:<{width}}  {word:<{word_width}}" if word_width else f"{label:<{width}}"
            for label, word in zip(labels, words, strict=True)
        ]
        measures = (self.r_hat, self.ess_bulk, self.ess_tail, self.mcse_mean)
        rows = [
            f"{head}  {r:6.3f}  {bulk:8.0f}  {tail:8.0f}  {mcse:7.4f}"
            for head, r, bulk, tail, mcse in zip(heads[1:], *measures, strict=True)
        ]
        head = f"{heads[0]}   R-hat  ESS bulk  ESS tail     MCSE"
        return "\n".join([head, *rows, *self._footer()])

    def _repr_html_(self) -> str:
        """Return the table for a notebook, with marks where the goal is not reached."""
        rows = []
        failed = []
        for i, name in enumerate(self.names):
            r_hat = self.r_hat[i]
            ess = self.ess_bulk[i], self.ess_tail[i]
            rows.append(
                [
                    self.row_label(i),
                    plain_name(name),
                    f"{r_hat:.3f}",
                    *(f"{value:.0f}" for value in ess),
                    f"{self.mcse_mean[i]:.4f}",
                ]
            )
            short = [not r_hat <= self.goal.max_rhat, *(not e >= self.goal.min_ess for e in ess)]
            failed += [(i, 2 + j) for j, is_short in enumerate(short) if is_short]
        head = ["hyper-parameter", "", "R-hat", "ESS bulk", "ESS tail", "MCSE"]
        footer = escape("\n".join(self._footer()), quote=False)
        return f"{html_table(head, rows, failed)}<pre>{footer}</pre>"

    def _footer(self) -> list[str]:
        """Lines below the table: acceptance rates, the emulator, and what the fit has cost."""
        rates = "; ".join(
            f"{name} {_format_range(rate)}" for name, rate in self.acceptance_rate.items()
        )
        noise = _format_range(self.log_likelihood_sd)
        kinds = self.operations
        used = ", ".join(f"{name} {value}" for name, value in self.in_use.items())
        lines = [
            f"acceptance: {rates}; log-likelihood noise (sd): {noise}",
            *self._emulator_lines(),
            f"O(n^3) operations: {self.n_cubic:.0f} ({kinds.cholesky:.0f} Cholesky, "
            f"{kinds.triangular_solve:.0f} solves, {kinds.product:.0f} products, "
            f"{kinds.inverse:.0f} inverses); likelihood evaluations: "
            f"{self.n_likelihood_evaluations:.0f}; failed proposals: {self.n_failed}",
            f"seconds: warm-up {self.seconds_warmup:.1f}, sampling {self.seconds_sampling:.1f}",
        ]
        if used:
            lines.append(f"in use: {used}")
        return lines

    def _emulator_lines(self) -> list[str]:
        if not self.emulators:
            return []
        designs = [e.n_design for e in self.emulators]
        text = (
            f"emulator: {min(designs)} to {max(designs)} design points, held-out error "
            f"{_format_range(np.array([e.held_out_error for e in self.emulators]))}"
        )
        most = max(e.n_importance[1] for e in self.emulators)
        if most > 0:  # zero if the sampler estimates no likelihood
            fewest = min(e.n_importance[0] for e in self.emulators)
            errors = _format_range(np.array([e.probe_error for e in self.emulators]))
            text += f", error against the estimate {errors}, importance draws {fewest} to {most}"
        return [text]


#: Plain words for the last parts of the names of kernel hyper-parameters.
_PLAIN_NAMES = {
    "constant_value": "variance",
    "length_scale": "length-scale",
    "noise_level": "noise variance",
    "periodicity": "period",
    "alpha": "mixture of scales",
    "sigma_0": "offset",
    "slope_variance": "variance of slopes",
    "noise_scale": "noise",
}


def plain_name(name: str) -> str:
    """Describe a hyper-parameter, such as "k1__constant_value": "variance"; empty if unknown."""
    return _PLAIN_NAMES.get(name.partition("[")[0].rpartition("__")[2], "")


def _format_range(values: FloatArray) -> str:
    values = values[~np.isnan(values)]
    if not len(values):
        return "none"
    low, high = (f"{end:.2f}" for end in (np.min(values), np.max(values)))
    return low if low == high else f"{low} to {high}"


def diagnose(
    run: SamplingRun,
    names: Sequence[str],
    log_likelihood_sd: FloatArray,
    which: Sequence[int],
    goal: ConvergenceGoal,
    classes: Sequence[object] | None = None,
) -> Diagnostics:
    """Return the diagnostics of some models of a run.

    Parameters
    ----------
    run : SamplingRun
        The run, with its draws.
    names : sequence of str
        One per component of theta.
    log_likelihood_sd : ndarray of shape (n_models,)
        Standard deviation of the log-likelihood estimate, for all models of the run.
    which : sequence of int
        The models to report.
    goal : ConvergenceGoal
        Goal of the fit.
    classes : sequence, optional
        Class of each model of the run; without it rows have no class.
    """
    draws = [run.models[m].draws for m in which]
    reports = [run.models[m].report for m in which]
    return Diagnostics(
        names=list(names) * len(draws),
        classes=None if classes is None else [classes[m] for m in which for _ in names],
        **table_fields(
            [d.theta for d in draws],
            [counts for d in draws for counts in d.chain_counts],
            sum_counts(d.warmup_counts for d in draws),
            len(run.models[0].model.covariance.X),
        ),
        log_likelihood_sd=log_likelihood_sd[list(which)],
        emulators=[report for report in reports if report is not None],
        seconds_warmup=run.seconds_warmup,
        seconds_sampling=run.seconds_sampling,
        in_use=dict(run.in_use),
        goal=goal,
    )


def table_fields(
    samples: Sequence[FloatArray],
    chains: Sequence[ChainCounts],
    before: ChainCounts,
    n_inputs: int,
) -> dict[str, Any]:
    """Return the fields of `Diagnostics` that follow from draws and counts.

    Parameters
    ----------
    samples : sequence of ndarray of shape (n_chains, n_draws, p)
        Draws of each model.
    chains : sequence of ChainCounts
        Counts of the kept iterations of each chain.
    before : ChainCounts
        Counts of everything before.
    n_inputs : int
        Number of training inputs.
    """
    summaries = [summarize_convergence(own) for own in samples]
    convergence = {
        name: np.concatenate([getattr(summary, name) for summary in summaries])
        for name in ("r_hat", "ess_bulk", "ess_tail", "mcse_mean")
    }
    sampling = sum_counts(chains)
    whole = sum_counts([sampling, before])
    with np.errstate(invalid="ignore"):  # NaN for a move that a chain never made
        rates = {
            move: np.divide([c.n_accepted[move] for c in chains], [c.n_steps[move] for c in chains])
            for move in sampling.n_steps
        }
    return {
        **convergence,
        "acceptance_rate": rates,
        "operations": whole.operations.per(n_inputs),
        "sampling_operations": sampling.operations.per(n_inputs),
        "n_likelihood_evaluations": whole.n_evaluations,
        "n_sampling_evaluations": sampling.n_evaluations,
        "n_failed": whole.n_failed,
    }
