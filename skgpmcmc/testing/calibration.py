"""Simulation-based calibration of whole fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

import numpy as np
from arviz_stats.base.array import array_stats
from scipy import stats

from .._typing import FloatArray, IntArray
from ..model.joint import LatentGP
from ..model.names import element_names
from .invariance import (
    JointDraws,
    Statistic,
    _joint_log_lik,
    _squared_norm_cdf,
    _theta_component,
    simulate_joint,
)


@dataclass(frozen=True, eq=False)
class CalibrationReport:
    """Result of `simulation_based_calibration`.

    Attributes
    ----------
    ranks : dict of str to ndarray of shape (n_replicates,)
        For each statistic, the number of kept draws below its true value; ties at random.
    ess : dict of str to ndarray of shape (n_replicates,)
        Bulk effective sample size of each statistic, from all draws. If it is below `n_kept`, the
        kept draws are dependent, and too many ranks are small or large even for a correct sampler.
    n_kept : int
        Number of draws among which the true value is ranked: ranks are 0, ..., n_kept.
    """

    ranks: dict[str, IntArray]
    ess: dict[str, FloatArray]
    n_kept: int

    @property
    def p_values(self) -> dict[str, float]:
        """The `rank_p_value` of each statistic."""
        return {name: rank_p_value(ranks, self.n_kept) for name, ranks in self.ranks.items()}

    @property
    def p_value(self) -> float:
        """Family-wise p-value: the smallest one times their number (Bonferroni), at most 1."""
        return min(1.0, len(self.ranks) * min(self.p_values.values()))

    def __str__(self) -> str:
        rows = [
            f"{p:9.2g}  {name}, least ESS {self.ess[name].min():.0f}"
            for name, p in sorted(self.p_values.items(), key=itemgetter(1))
        ]
        return "\n".join([f"p = {self.p_value:.2g}", *rows])


def calibration_statistics(model: LatentGP) -> list[Statistic]:
    """Return the default statistics of `simulation_based_calibration`.

    They are all components of theta, and three functions of f: its value at the first input,
    log p(y | f), and ``f' K(theta)^-1 f``. If a wrong sampler ignores the data and returns the
    prior, ranks of theta are still uniform, but ranks of log p(y | f) are not.

    Parameters
    ----------
    model : LatentGP
        Model with kernel, priors and likelihood.

    Returns
    -------
    list of Statistic
        The statistics; ranks need no `cdf`, which is None.

    References
    ----------
    Modrak, Moon, Kim, Burkner, Huurre, Faltejskova, Gelman & Vehtari (2023), *Simulation-based
    calibration checking for Bayesian computation: the choice of test quantities shapes
    sensitivity*.
    """
    names = element_names(model.hyperprior.names)
    return [
        *(Statistic(name, _theta_component(j), None) for j, name in enumerate(names)),
        Statistic("f at the first point", lambda draws: draws.f[:, 0], None),
        Statistic("log p(y | f)", partial(_joint_log_lik, model), None),
        Statistic("law of the norm of v", partial(_squared_norm_cdf, model), None),
    ]


def simulation_based_calibration(
    model: LatentGP,
    fit: Callable[[LatentGP, np.random.Generator], tuple[FloatArray, FloatArray]],
    *,
    n_replicates: int,
    rng: np.random.Generator,
    n_kept: int = 63,
    statistics: Sequence[Statistic] | None = None,
    accept: Callable[[FloatArray], bool] | None = None,
) -> CalibrationReport:
    """Rank simulated parameters among the posterior draws of fits to simulated data.

    In every replicate (theta, f, y) is drawn from the model, and `fit` draws from the posterior
    given y. If `fit` is correct, the true value is distributed like the draws, so that its rank
    among nearly independent draws is uniform. Too many ranks at both ends mean that the draws are
    too narrow, in the middle that they are too wide, at one end that they are biased. This checks
    everything that `fit` does: set-up, warm-up, and whether the run is long enough.

    Parameters
    ----------
    model : LatentGP
        The joint distribution; its own targets are not used.
    fit : callable
        ``fit(model, rng) -> (theta, f)``: draws of shape (n_chains, n_draws, p) and
        (n_chains, n_draws, n) from the posterior given the targets of that model.
    n_replicates : int
        Number of fits.
    rng : numpy.random.Generator
        All random numbers; every replicate has its own stream.
    n_kept : int, default=63
        Number of draws kept of each fit, evenly spaced over all of its chains. They should be
        nearly independent: see `CalibrationReport.ess`. If `n_kept` + 1 is a multiple of the number
        of bars of a histogram, all bars have the same expected height.
    statistics : sequence of Statistic, optional
        `calibration_statistics` by default.
    accept : callable, optional
        ``accept(y) -> bool``: whether to keep simulated targets, or to draw (theta, f, y) again. As
        this depends on y alone, the true values are still draws from the posterior given y.

    Returns
    -------
    CalibrationReport
        Ranks, effective sample sizes and p-values.

    Raises
    ------
    ValueError
        If a fit has fewer than `n_kept` draws.

    References
    ----------
    Talts, Betancourt, Simpson, Vehtari & Gelman (2018), *Validating Bayesian inference algorithms
    with simulation-based calibration*.
    """
    statistics = calibration_statistics(model) if statistics is None else statistics
    ranks = np.empty((n_replicates, len(statistics)), dtype=np.intp)
    ess = np.empty((n_replicates, len(statistics)))
    for row, stream in enumerate(rng.spawn(n_replicates)):
        truth = simulate_joint(model, 1, stream)
        while accept is not None and not accept(truth.y[0]):
            truth = simulate_joint(model, 1, stream)
        theta, f = fit(model.with_observations(y=truth.y[0]), stream)
        n_chains, n_draws = theta.shape[:2]
        n_all = n_chains * n_draws
        if n_all < n_kept:
            raise ValueError(f"n_kept={n_kept} draws are ranked, but a fit has only {n_all}.")
        draws = JointDraws(
            theta.reshape(n_all, -1),
            f.reshape(n_all, -1),
            np.broadcast_to(truth.y, (n_all, truth.y.shape[1])),
        )
        values = np.stack([s.values(draws) for s in statistics], axis=1)
        own = np.array([s.values(truth)[0] for s in statistics])
        kept = values[np.linspace(0, n_all - 1, n_kept).round().astype(int)]
        n_ties = (kept == own).sum(axis=0)
        ranks[row] = (kept < own).sum(axis=0) + stream.integers(n_ties + 1)
        by_chain = values.reshape(n_chains, n_draws, -1)
        ess[row] = array_stats.ess(by_chain, method="bulk", chain_axis=0, draw_axis=1)
    names = [s.name for s in statistics]
    return CalibrationReport(
        dict(zip(names, ranks.T, strict=True)), dict(zip(names, ess.T, strict=True)), n_kept
    )


def rank_p_value(ranks: IntArray, n_kept: int) -> float:
    """Return the p-value of a test that ranks are uniform.

    For every i the number of ranks below i is binomial. The statistic is the smallest tail
    probability among these; its distribution is computed exactly, by recursion over i.

    Parameters
    ----------
    ranks : ndarray of shape (n_replicates,)
        Independent ranks, each one of 0, ..., n_kept.
    n_kept : int
        Largest possible rank.

    Returns
    -------
    float
        The p-value.

    References
    ----------
    Sailynoja, Burkner & Vehtari (2022), *Graphical test for discrete uniformity and its
    applications in goodness-of-fit evaluation and multiple sample comparison*.
    """
    n = len(ranks)
    counts = np.arange(n + 1)
    places = np.arange(1, n_kept + 1)
    share = (places / (n_kept + 1))[:, None]
    tails = np.minimum(stats.binom.cdf(counts, n, share), stats.binom.sf(counts - 1, n, share))
    below = np.searchsorted(np.sort(ranks), places)
    # A little more than the observed minimum, so that rounding does not separate equal tails.
    least = tails[places - 1, below].min() * (1.0 + 1e-9)
    # P(so many ranks below i, and no tail up to i as small as `least`)
    inside = np.eye(1, n + 1)[0]
    for i, tail in zip(places, tails, strict=True):
        possible = np.flatnonzero(inside)
        left = n - possible[:, None]
        # Each rank that is not below i - 1 equals i - 1 with probability 1 / (n_kept + 2 - i).
        steps = stats.binom.pmf(counts - possible[:, None], left, 1.0 / (n_kept + 2 - i))
        inside = np.where(tail > least, inside[possible] @ steps, 0.0)
    return float(np.clip(1.0 - inside.sum(), 0.0, 1.0))
