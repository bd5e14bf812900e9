"""Examinations of samplers and of their parts, for this package's tests and for third parties.

`prior_invariance_test` asks whether a transition leaves p(theta, f | y) unchanged, for any model;
`simulation_based_calibration` whether a whole fit, set-up and all, recovers what was simulated;
`exact_answer_test` compares long chains with an answer known by other means; `check_likelihood` and
`check_approximation` examine single parts. The first three return reports, whose thresholds are the
caller's; the checks raise an AssertionError that says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.integrate import quad

from .._typing import FloatArray, IntArray
from ..approximations import Approximation, importance_estimate
from ..likelihoods import Likelihood, Probit
from ..model import LatentGP, default_hyperprior, default_kernel, make_covariance
from ..transitions import ChainState, Transition

__all__ = [
    "PROBABILITIES",
    "CalibrationReport",
    "ExactAnswerReport",
    "InvarianceReport",
    "JointDraws",
    "Reference",
    "Statistic",
    "calibration_statistics",
    "check_approximation",
    "check_likelihood",
    "exact_answer_test",
    "joint_statistics",
    "prior_invariance_test",
    "rank_p_value",
    "simulate_joint",
    "simulation_based_calibration",
    "start_at_latent",
    "start_with_particles",
]

# --- the joint distribution, by independent replicates -------------------------------------------


class JointDraws(NamedTuple):
    """Independent draws of (theta, f, y), one per row."""

    theta: FloatArray  # (r, p), as chains have it
    f: FloatArray  # (r, n), latent scale
    y: FloatArray  # (r, n)


class Statistic(NamedTuple):
    """A scalar function of (theta, f, y) whose law is compared."""

    name: str
    values: Callable[[JointDraws], FloatArray]  # (r,), one per row
    cdf: Callable[[FloatArray], FloatArray] | None  # its law under the model, where known


@dataclass(frozen=True)
class InvarianceReport:
    """Outcome of `prior_invariance_test`.

    Attributes
    ----------
    p_values : dict of str to float
        Kolmogorov-Smirnov p-value of each statistic.
    acceptance_rate : float
        Share of the steps that were accepted: the test says nothing about a chain that stays.
    """

    p_values: dict[str, float]
    acceptance_rate: float

    @property
    def p_value(self) -> float:
        """Family-wise p-value: the smallest one times their number (Bonferroni), at most 1."""
        return min(1.0, len(self.p_values) * min(self.p_values.values()))

    def __str__(self) -> str:
        rows = [f"{p:9.2g}  {name}" for name, p in sorted(self.p_values.items(), key=_second)]
        head = f"p = {self.p_value:.2g}, acceptance {self.acceptance_rate:.2f}"
        return "\n".join([head, *rows])


def _second(pair: tuple[str, float]) -> float:
    return pair[1]


def simulate_joint(model: LatentGP, size: int, rng: np.random.Generator) -> JointDraws:
    """Draw (theta, f, y) from the model.

    Parameters
    ----------
    model : LatentGP
        The joint distribution; its own targets do not matter.
    size : int
        Number of draws.
    rng : numpy.random.Generator
        For the draws.

    Returns
    -------
    JointDraws
        One draw per row.
    """
    theta, f, y = zip(*(model.simulate(rng) for _ in range(size)), strict=True)
    return JointDraws(np.array(theta), np.array(f), np.array(y))


def start_at_latent(
    model: LatentGP,
    transition: Transition[Any],
    theta: FloatArray,
    f: FloatArray,
    rng: np.random.Generator,
) -> ChainState:
    """Start a transition on `GPState` at (theta, f).

    Parameters
    ----------
    model : LatentGP
        The model with the targets of the replicate.
    transition : Transition
        Not used: any transition on `GPState` starts like this.
    theta : ndarray of shape (p,)
        Natural logs.
    f : ndarray of shape (n,)
        Latent values.
    rng : numpy.random.Generator
        Not used.

    Returns
    -------
    GPState
        The state at (theta, f).
    """
    return model.state_at(theta, f)


def start_with_particles(
    model: LatentGP,
    transition: Transition[Any],
    theta: FloatArray,
    f: FloatArray,
    rng: np.random.Generator,
) -> ChainState | None:
    """Start a pseudo-marginal transition at theta with f among its particles.

    Parameters
    ----------
    model : LatentGP
        The model with the targets of the replicate.
    transition : Transition
        Its `start` must take `retained`, as that of `PseudoMarginalMetropolis` does.
    theta : ndarray of shape (p,)
        Natural logs.
    f : ndarray of shape (n,)
        Latent values; with theta a draw from p(theta, f | y).
    rng : numpy.random.Generator
        For the other particles.

    Returns
    -------
    ChainState or None
        The state, or None if the transition cannot start at theta.
    """
    state: ChainState | None = transition.start(model, theta, rng, retained=f)  # type: ignore[call-arg]
    return state


def joint_statistics(model: LatentGP) -> list[Statistic]:
    """Return statistics in which a wrong transition on (theta, f) tends to show.

    Beside the marginals of theta and functions of f and y, these are cross terms of theta and f,
    above all ``f' K(theta)^-1 f``: chi-squared with n degrees of freedom whatever theta, and huge
    where f lags behind theta.

    Parameters
    ----------
    model : LatentGP
        Gives kernel, priors and likelihood.

    Returns
    -------
    list of Statistic
        With their laws under the model, where these are known.
    """
    names = [f"{name}[{j}]" for j, name in enumerate(model.hyperprior.names)]
    laws = [model.hyperprior.distributions[name] for name in model.hyperprior.names]

    def agreement(draws: JointDraws) -> FloatArray:
        if model.likelihood.n_functions == 1:
            return draws.f * draws.y
        # Targets are numbers of functions: the value of that one.
        by_function = draws.f.reshape(len(draws.f), model.likelihood.n_functions, -1)
        return np.take_along_axis(by_function, draws.y[:, None].astype(np.intp), axis=1)[:, 0]

    def mean_agreement(draws: JointDraws) -> FloatArray:
        return np.asarray(agreement(draws).mean(axis=1))

    def log_size(draws: JointDraws) -> FloatArray:
        return np.asarray(np.log((draws.f**2).mean(axis=1)))

    statistics = [
        Statistic("f'K(theta)^-1 f", _whitened_norm(model), stats.chi2(model.n_latent).cdf),
        Statistic("mean f y", mean_agreement, None),
        Statistic("f y at the first point", lambda draws: agreement(draws)[:, 0], None),
        Statistic("f f' at the ends", lambda draws: draws.f[:, 0] * draws.f[:, -1], None),
        Statistic("log p(y | f)", _log_lik(model), None),
    ]
    for j, (name, law, positive) in enumerate(
        zip(names, laws, model.hyperprior.positive, strict=True)
    ):
        what, cdf = (f"log {name}", _log_scale_cdf(law)) if positive else (name, law.cdf)
        statistics += [
            Statistic(what, _component(j), cdf),
            Statistic(f"{what} * mean f y", _times_component(j, mean_agreement), None),
            Statistic(f"{what} * log mean f^2", _times_component(j, log_size), None),
        ]
    return statistics


def _whitened_norm(model: LatentGP) -> Callable[[JointDraws], FloatArray]:
    def values(draws: JointDraws) -> FloatArray:
        pairs = zip(draws.theta, draws.f, strict=True)
        return np.array([float((model.prior_at(t).whiten(f) ** 2).sum()) for t, f in pairs])

    return values


def _log_lik(model: LatentGP) -> Callable[[JointDraws], FloatArray]:
    def values(draws: JointDraws) -> FloatArray:
        rows = zip(*draws, strict=True)
        return np.array(
            [replace(model, y=y).observations_at(theta).total(f) for theta, f, y in rows]
        )

    return values


def _component(j: int) -> Callable[[JointDraws], FloatArray]:
    return lambda draws: draws.theta[:, j]


def _times_component(
    j: int, function: Callable[[JointDraws], FloatArray]
) -> Callable[[JointDraws], FloatArray]:
    return lambda draws: draws.theta[:, j] * function(draws)


def _log_scale_cdf(law: Any) -> Callable[[FloatArray], FloatArray]:
    return lambda u: np.asarray(law.cdf(np.exp(u)))


def prior_invariance_test(
    model: LatentGP,
    set_up: Callable[[LatentGP, np.random.Generator], Transition[Any]],
    start: Callable[..., ChainState | None],
    *,
    n_replicates: int,
    n_steps: int,
    rng: np.random.Generator,
    statistics: Sequence[Statistic] | None = None,
    n_reference: int | None = None,
) -> InvarianceReport:
    """Test that a transition leaves p(theta, f | y) unchanged, averaged over y.

    In every replicate (theta, f, y) is drawn from the model, a chain is started at (theta, f) and
    moved `n_steps` times under the posterior given y. If the transition is right, what it ends at
    has, together with y, the law that it began with. The replicates are independent, so the
    p-values are honest whatever the autocorrelation of the chain.

    Parameters
    ----------
    model : LatentGP
        The joint distribution; its own targets do not matter. A few points and moderately
        informative hyper-priors make the test sharp.
    set_up : callable
        ``set_up(model, rng) -> Transition``: may tune the transition, from the targets in `model`
        alone. It is called once for each different y, with a stream of its own.
    start : callable
        ``start(model, transition, theta, f, rng) -> state``, such as `start_at_latent` and
        `start_with_particles`: a draw from the transition's own target given that (theta, f) is
        one from p(theta, f | y).
    n_replicates, n_steps : int
        Independent replicates, and steps of the transition in each.
    rng : numpy.random.Generator
        For everything.
    statistics : sequence of Statistic, optional
        `joint_statistics` by default.
    n_reference : int, optional
        Fresh draws from the model for the statistics without a known law; by default four times
        the replicates.

    Returns
    -------
    InvarianceReport
        A p-value for each statistic.

    Raises
    ------
    RuntimeError
        If a chain cannot start: leaving out that replicate would bias the test.

    References
    ----------
    Geweke (2004), *Getting it right*; Gandy & Scott (2020), *Unit testing for MCMC and other Monte
    Carlo methods*, for independent replicates.
    """
    streams = rng.spawn(4)
    statistics = joint_statistics(model) if statistics is None else statistics
    begin = simulate_joint(model, n_replicates, streams[0])
    end, acceptance_rate = _moved(model, set_up, start, begin, n_steps, streams[1], streams[2])
    n_reference = 4 * n_replicates if n_reference is None else n_reference
    fresh = simulate_joint(model, n_reference, streams[3])
    return InvarianceReport(
        {s.name: _ks_p_value(s, end, fresh) for s in statistics}, acceptance_rate
    )


def _moved(
    model: LatentGP,
    set_up: Callable[[LatentGP, np.random.Generator], Transition[Any]],
    start: Callable[..., ChainState | None],
    begin: JointDraws,
    n_steps: int,
    set_up_rng: np.random.Generator,
    chain_rng: np.random.Generator,
) -> tuple[JointDraws, float]:
    """Where `n_steps` transitions lead from each draw, and the share that was accepted."""
    ready: dict[bytes, tuple[LatentGP, Transition[Any]]] = {}
    theta, f = np.empty_like(begin.theta), np.empty_like(begin.f)
    n_accepted = 0
    for row, (theta_0, f_0, y) in enumerate(zip(*begin, strict=True)):
        # Given the set-ups of all y, replicates stay independent although equal y share one.
        if y.tobytes() not in ready:
            problem = replace(model, y=y)
            ready[y.tobytes()] = problem, set_up(problem, set_up_rng.spawn(1)[0])
        problem, transition = ready[y.tobytes()]
        state = start(problem, transition, theta_0, f_0, chain_rng)
        if state is None:
            raise RuntimeError(f"No chain can start at theta = {theta_0}, a draw from the prior.")
        for _ in range(n_steps):
            state, info = transition.step(problem, state, chain_rng)
            n_accepted += info.accepted
        theta[row], f[row] = state.theta, state.f
    return JointDraws(theta, f, begin.y), n_accepted / (len(theta) * n_steps)


def _ks_p_value(statistic: Statistic, end: JointDraws, fresh: JointDraws) -> float:
    values = statistic.values(end)
    if statistic.cdf is not None:
        return float(stats.kstest(statistic.cdf(values), "uniform").pvalue)
    return float(stats.ks_2samp(values, statistic.values(fresh), method="asymp").pvalue)


# --- calibration of whole fits --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CalibrationReport:
    """Outcome of `simulation_based_calibration`.

    Attributes
    ----------
    ranks : dict of str to ndarray of shape (n_replicates,)
        How many of the kept draws of each statistic lie below its true value.
    ess : dict of str to ndarray of shape (n_replicates,)
        Bulk effective sample size of each statistic, all draws together. Where it is below
        `n_kept`, the kept draws depend on one another, and the ranks crowd at both ends although
        the sampler may be right.
    n_kept : int
        Draws among which the true value is ranked: a rank is one of 0, ..., n_kept.
    """

    ranks: dict[str, IntArray]
    ess: dict[str, FloatArray]
    n_kept: int

    @property
    def p_values(self) -> dict[str, float]:
        """`rank_p_value` of each statistic."""
        return {name: rank_p_value(ranks, self.n_kept) for name, ranks in self.ranks.items()}

    @property
    def p_value(self) -> float:
        """Family-wise p-value: the smallest one times their number (Bonferroni), at most 1."""
        return min(1.0, len(self.ranks) * min(self.p_values.values()))

    def __str__(self) -> str:
        rows = [
            f"{p:9.2g}  {name}, least ESS {self.ess[name].min():.0f}"
            for name, p in sorted(self.p_values.items(), key=_second)
        ]
        return "\n".join([f"p = {self.p_value:.2g}", *rows])


def calibration_statistics(model: LatentGP) -> list[Statistic]:
    """Return what `simulation_based_calibration` ranks by default.

    All components of theta, and three functions of f: its value at the first input, log p(y | f),
    and ``f' K(theta)^-1 f``. Ranks of theta alone stay uniform for a sampler that ignores the data
    and returns the prior; those of log p(y | f) do not.

    Parameters
    ----------
    model : LatentGP
        Gives kernel, priors and likelihood.

    Returns
    -------
    list of Statistic
        Without their laws, which ranks do not need.

    References
    ----------
    Modrak, Moon, Kim, Burkner, Huurre, Faltejskova, Gelman & Vehtari (2023), *Simulation-based
    calibration checking for Bayesian computation: the choice of test quantities shapes
    sensitivity*.
    """
    names = model.hyperprior.names
    labels = [
        name if names.count(name) == 1 else f"{name}[{names[:j].count(name)}]"
        for j, name in enumerate(names)
    ]
    return [
        *(Statistic(label, _component(j), None) for j, label in enumerate(labels)),
        Statistic("f at the first point", lambda draws: draws.f[:, 0], None),
        Statistic("log p(y | f)", _log_lik(model), None),
        Statistic("f'K(theta)^-1 f", _whitened_norm(model), None),
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
    """Rank what was simulated among the draws of a fit to it.

    In every replicate (theta, f, y) is drawn from the model, and `fit` draws from the posterior
    given y. If it is right, the truth is like one more draw: its rank among nearly independent
    draws is uniform. Truths that crowd at both ends say that the draws are too narrow, in the
    middle that they are too wide, at one end that they are biased. Everything that `fit` does takes
    part, so that this also examines set-up and warm-up, and whether a run is long enough.

    Parameters
    ----------
    model : LatentGP
        The joint distribution; its own targets do not matter.
    fit : callable
        ``fit(model, rng) -> (theta, f)``: draws of shape (n_chains, n_draws, p) and
        (n_chains, n_draws, n) from the posterior given the targets of that model.
    n_replicates : int
        Fits.
    rng : numpy.random.Generator
        For everything; every replicate has a stream of its own.
    n_kept : int, default=63
        Draws that are kept of each fit, evenly spaced over all of its chains. So many should be
        nearly independent: see `CalibrationReport.ess`. One less than a multiple of the bars of a
        histogram makes these equal.
    statistics : sequence of Statistic, optional
        `calibration_statistics` by default.
    accept : callable, optional
        ``accept(y) -> bool``: whether targets are kept, or drawn anew with theta and f. As it sees
        y alone, the truth remains a draw from the posterior given y, whatever it refuses.

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
    from arviz_stats.base.array import array_stats  # takes a second to import

    statistics = calibration_statistics(model) if statistics is None else statistics
    ranks = np.empty((n_replicates, len(statistics)), dtype=np.intp)
    ess = np.empty((n_replicates, len(statistics)))
    for row, stream in enumerate(rng.spawn(n_replicates)):
        truth = _accepted(model, stream, accept)
        theta, f = fit(replace(model, y=truth.y[0]), stream)
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
        ranks[row] = _ranks(own, kept, stream)
        by_chain = values.reshape(n_chains, n_draws, -1)
        ess[row] = array_stats.ess(by_chain, method="bulk", chain_axis=0, draw_axis=1)
    names = [s.name for s in statistics]
    return CalibrationReport(
        dict(zip(names, ranks.T, strict=True)), dict(zip(names, ess.T, strict=True)), n_kept
    )


def _accepted(
    model: LatentGP, rng: np.random.Generator, accept: Callable[[FloatArray], bool] | None
) -> JointDraws:
    while True:
        truth = simulate_joint(model, 1, rng)
        if accept is None or accept(truth.y[0]):
            return truth


def _ranks(truth: FloatArray, kept: FloatArray, rng: np.random.Generator) -> IntArray:
    """How many of the rows of `kept` lie below the truth, column by column; ties at random."""
    below, ties = (kept < truth).sum(axis=0), (kept == truth).sum(axis=0)
    return np.asarray(below + rng.integers(ties + 1))


def rank_p_value(ranks: IntArray, n_kept: int) -> float:
    """Probability that uniform ranks have a distribution function as odd as that of `ranks`.

    For every i the number of ranks below i is binomial. The statistic is the smallest tail
    probability among these; its law is exact, by recursion over i.

    Parameters
    ----------
    ranks : ndarray of shape (n_replicates,)
        Independent; each is one of 0, ..., n_kept.
    n_kept : int
        Largest rank that is possible.

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
    counts, places = np.arange(n + 1), np.arange(1, n_kept + 1)
    share = (places / (n_kept + 1))[:, None]
    tails = np.minimum(stats.binom.cdf(counts, n, share), stats.binom.sf(counts - 1, n, share))
    below = np.searchsorted(np.sort(ranks), places)
    # A little more than what was observed, so that rounding does not part it from its equals.
    least = tails[places - 1, below].min() * (1.0 + 1e-9)
    inside = np.eye(1, n + 1)[0]  # P(so many ranks below i, and no tail so far as small as that)
    for i, tail in zip(places, tails, strict=True):
        possible = np.flatnonzero(inside)
        left = n - possible[:, None]
        # Of the ranks that are not below i - 1, each is i - 1 with the same probability.
        steps = stats.binom.pmf(counts - possible[:, None], left, 1.0 / (n_kept + 2 - i))
        inside = np.where(tail > least, inside[possible] @ steps, 0.0)
    return float(np.clip(1.0 - inside.sum(), 0.0, 1.0))


# --- chains against a known answer ----------------------------------------------------------------

#: Quantiles that `exact_answer_test` compares.
PROBABILITIES = (0.05, 0.5, 0.95)


@dataclass(frozen=True, eq=False)
class Reference:
    """What is known of q posterior quantities by other means than the chains.

    Attributes
    ----------
    mean : ndarray of shape (q,)
    quantiles : ndarray of shape (q, 3) or None
        At `PROBABILITIES`; None compares means only.
    mean_error, quantile_error : ndarray or float
        Standard errors of the two, 0 where they are exact.
    """

    mean: FloatArray
    quantiles: FloatArray | None = None
    mean_error: FloatArray | float = 0.0
    quantile_error: FloatArray | float = 0.0

    @classmethod
    def from_batches(cls, whole: Reference, batches: Sequence[Reference]) -> Reference:
        """Return `whole` with errors estimated from independent batches of equal size.

        The error of `whole` is that of one batch over the root of their number.

        Parameters
        ----------
        whole : Reference
            What all batches give together.
        batches : sequence of Reference
            What each gives alone.

        Returns
        -------
        Reference
            With errors.
        """
        root = np.sqrt(len(batches))
        mean_error = np.std([b.mean for b in batches], axis=0, ddof=1) / root
        if whole.quantiles is None:
            return replace(whole, mean_error=mean_error)
        quantiles = [b.quantiles for b in batches if b.quantiles is not None]
        quantile_error = np.std(quantiles, axis=0, ddof=1) / root
        return replace(whole, mean_error=mean_error, quantile_error=quantile_error)


@dataclass(frozen=True, eq=False)
class ExactAnswerReport:
    """Outcome of `exact_answer_test`.

    Attributes
    ----------
    z : ndarray of shape (q, 1) or (q, 4)
        Standardized deviation of the mean and of the quantiles at `PROBABILITIES`.
    ess : ndarray of shape (q,)
        Effective sample size (bulk): what the z-scores could see.
    """

    z: FloatArray
    ess: FloatArray

    @property
    def worst(self) -> float:
        """Largest deviation, in absolute value."""
        return float(np.abs(self.z).max())


def exact_answer_test(samples: FloatArray, reference: Reference) -> ExactAnswerReport:
    """Compare means and quantiles of chains with a known answer.

    Parameters
    ----------
    samples : ndarray of shape (n_chains, n_draws, q)
        What the chains drew of the quantities.
    reference : Reference
        The known answer.

    Returns
    -------
    ExactAnswerReport
        Deviations in units of the Monte Carlo error of the chains and the error of the reference
        together. Each is standard normal if the chains are right and long.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter & Burkner (2021) for the Monte Carlo errors.
    """
    from arviz_stats.base.array import array_stats  # takes a second to import

    axes = {"chain_axis": 0, "draw_axis": 1}
    ess = np.asarray(array_stats.ess(samples, method="bulk", **axes))
    estimates = [samples.mean(axis=(0, 1))]
    answers = [reference.mean]
    errors = [np.hypot(array_stats.mcse(samples, method="mean", **axes), reference.mean_error)]
    if reference.quantiles is not None:
        shape = reference.quantiles.shape
        own_errors = np.broadcast_to(np.asarray(reference.quantile_error), shape)
        for column, probability in enumerate(PROBABILITIES):
            chain_error = array_stats.mcse(samples, method="quantile", prob=probability, **axes)
            estimates.append(np.quantile(samples, probability, axis=(0, 1)))
            answers.append(reference.quantiles[:, column])
            errors.append(np.hypot(chain_error, own_errors[:, column]))
    z = (np.array(estimates) - np.array(answers)) / np.array(errors)
    return ExactAnswerReport(z.T, ess)


# --- parts ----------------------------------------------------------------------------------------

_LATENT_VALUES = np.linspace(-2.5, 2.5, 11)
_STEP = 1e-4  # of central differences
_CAVITIES = ((-1.5, 0.3), (0.0, 1.0), (0.7, 4.0))  # mean, variance
_N_SAMPLED = 20_000
_MAX_Z = 5.0


def check_likelihood(
    likelihood: Likelihood, targets: FloatArray, *, rng: np.random.Generator | None = None
) -> None:
    """Check a likelihood against itself: everything must agree with its `log_prob`.

    Derivatives, also those in its parameters, are compared with finite differences, tilted moments
    (with and without a weight) and the predictive with adaptive quadrature, `sample` and
    `fisher_information` with identities that hold for any density, over many samples.

    Parameters
    ----------
    likelihood : Likelihood
        What is examined.
    targets : ndarray of shape (m,)
        Some encoded targets to examine.
    rng : numpy.random.Generator, optional
        For the targets that are sampled; by default a fixed one.

    Raises
    ------
    AssertionError
        What disagrees, and by how much.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    targets = np.asarray(targets, dtype=float)
    assert np.all(likelihood.legal(targets)), f"some of the targets {targets} are not legal"
    for y in targets:
        _check_derivatives(likelihood, np.full(len(_LATENT_VALUES), y))
        _check_parameters(likelihood, np.full(len(_LATENT_VALUES), y))
        for mean, var in _CAVITIES:
            for weight in (1.0, 2.5):
                _check_moments(likelihood, float(y), mean, var, weight)
            predictive = likelihood.log_predictive(y, mean, var)
            mass = _tilted_moments_by_quad(likelihood, float(y), mean, var, 1.0)[0]
            what = f"log predictive for y = {y:g} under N({mean:g}, {var:g})"
            _agree(what, predictive, np.array([np.log(mass)]))
    for f in (-1.2, 0.0, 0.8):
        _check_sampling(likelihood, f, rng)


def _check_derivatives(likelihood: Likelihood, y: FloatArray) -> None:
    f = _LATENT_VALUES
    first, second, third = likelihood.derivatives(y, f)

    def slope(function: Callable[[FloatArray], FloatArray]) -> FloatArray:
        return np.asarray((function(f + _STEP) - function(f - _STEP)) / (2.0 * _STEP))

    what = f"derivative of log p(y = {y[0]:g} | f)"
    _agree(f"first {what}", first, slope(lambda g: likelihood.log_prob(y, g)))
    _agree(f"second {what}", second, slope(lambda g: likelihood.derivatives(y, g).first))
    _agree(f"third {what}", third, slope(lambda g: likelihood.derivatives(y, g).second))
    if likelihood.log_concave:
        assert np.all(second <= 0.0), (
            f"log_concave is claimed, but the second {what} is {second.max():g}"
        )


def _check_parameters(likelihood: Likelihood, y: FloatArray) -> None:
    f = _LATENT_VALUES
    start = np.array([parameter.start for parameter in likelihood.parameters])
    derivatives = likelihood.parameter_derivatives(y, f)
    mean, var = 0.4 * f, np.linspace(0.2, 3.0, len(f))
    weights = (None, np.linspace(0.5, 2.0, len(f)))
    tilted = [likelihood.tilted_parameter_gradient(y, w, mean, var) for w in weights]
    for j, parameter in enumerate(likelihood.parameters):
        step = _STEP * (np.arange(len(start)) == j)
        up, down = (likelihood.with_parameters(start + s) for s in (step, -step))

        def slope(values: Callable[[Likelihood], FloatArray]) -> FloatArray:
            return np.asarray((values(up) - values(down)) / (2.0 * _STEP))  # noqa: B023

        what = f"with respect to {parameter.name} (number {j}), y = {y[0]:g}"
        for name, value, values in (
            ("log p(y | f)", derivatives.log_prob, lambda p: p.log_prob(y, f)),
            ("the first derivative", derivatives.first, lambda p: p.derivatives(y, f).first),
            ("the second derivative", derivatives.second, lambda p: p.derivatives(y, f).second),
        ):
            _agree(f"derivative of {name} {what}", value[j], slope(values))
        for gradient, w in zip(tilted, weights, strict=True):

            def log_z(p: Likelihood, w: FloatArray | None = w) -> FloatArray:
                return p.weighted_tilted_moments(y, w, mean, var).log_z

            name = "log normalizer" if w is None else "weighted log normalizer"
            _agree(f"derivative of the {name} {what}", gradient[j], slope(log_z))


def _tilted_moments_by_quad(
    likelihood: Likelihood, y: float, mean: float, var: float, weight: float
) -> tuple[float, float, float]:
    """Mass, standardized mean and variance of p(y | f)^weight N(f; mean, var), f standardized."""
    sd = np.sqrt(var)

    def integral(power: int) -> float:
        def integrand(x: float) -> float:
            log_prob = likelihood.log_prob(np.array([y]), np.array([mean + sd * x]))[0]
            density = np.exp(weight * log_prob - 0.5 * x * x) / np.sqrt(2.0 * np.pi)
            return float(x**power * density)

        # In panels: a peak anywhere between them would be missed otherwise.
        edges = np.linspace(-12.0, 12.0, 49)
        return sum(float(quad(integrand, *ends, epsabs=1e-14)[0]) for ends in pairwise(edges))

    mass = integral(0)
    center = integral(1) / mass
    return mass, center, integral(2) / mass - center**2


def _check_moments(
    likelihood: Likelihood, y: float, mean: float, var: float, weight: float
) -> None:
    mass, center, spread = _tilted_moments_by_quad(likelihood, y, mean, var, weight)
    arrays = (np.array([mean]), np.array([var]))
    if weight == 1.0:
        moments = likelihood.tilted_moments(np.array([y]), *arrays)
    else:
        moments = likelihood.weighted_tilted_moments(np.array([y]), np.array([weight]), *arrays)
    where = f"for y = {y:g} with weight {weight:g} under N({mean:g}, {var:g})"
    _agree(f"log normalizer {where}", moments.log_z, np.array([np.log(mass)]))
    _agree(f"alpha {where}", moments.alpha, np.array([center / np.sqrt(var)]))
    _agree(f"beta {where}", moments.beta, np.array([(1.0 - spread) / var]))


def _check_sampling(likelihood: Likelihood, f: float, rng: np.random.Generator) -> None:
    """E p(y | f') / p(y | f) = 1 for any f', and the mean squared score is the information."""
    at = np.full(_N_SAMPLED, f)
    y = likelihood.sample(at, rng)
    for other in (f - 0.25, f + 0.25):
        ratio = np.exp(
            likelihood.log_prob(y, np.full(_N_SAMPLED, other)) - likelihood.log_prob(y, at)
        )
        _mean_is(f"sampled p(y | {other:g}) / p(y | {f:g})", ratio, 1.0)
    information = likelihood.fisher_information(np.array([f]))[0]
    assert information >= 0.0, f"fisher_information at f = {f:g} is negative: {information:g}"
    score = likelihood.derivatives(y, at).first
    _mean_is(f"sampled score at f = {f:g}", score, 0.0)
    _mean_is(f"sampled squared score at f = {f:g}", score**2, information)


def _agree(what: str, value: FloatArray, expected: FloatArray, tolerance: float = 1e-5) -> None:
    gap = float(np.max(np.abs(value - expected) / (1.0 + np.abs(expected))))
    assert gap <= tolerance, f"{what}: {value} where {expected} is expected"


def _mean_is(what: str, values: FloatArray, expected: float) -> None:
    error = float(np.std(values, ddof=1)) / np.sqrt(len(values))
    gap = abs(float(np.mean(values)) - expected)
    assert gap <= _MAX_Z * error + 1e-12, (
        f"{what}: mean {np.mean(values):.5g} with standard error {error:.2g}, "
        f"where {expected:.5g} is expected"
    )


def check_approximation(
    approximation: Approximation,
    *,
    likelihood: Likelihood | None = None,
    evidence_tolerance: float = 0.2,
    rng: np.random.Generator | None = None,
) -> None:
    """Check an approximation on a problem with two points, where the evidence is known.

    It must be a function of (y, theta) alone, as a pseudo-marginal chain would not be exact
    otherwise; its log evidence must be near the truth; the gradient of that, in `refined` form,
    must agree with finite differences; and its Gaussian must give an unbiased estimate of the
    evidence.

    Parameters
    ----------
    approximation : Approximation
        What is examined.
    likelihood : Likelihood, optional
        `Probit` by default.
    evidence_tolerance : float, default=0.2
        Largest error of the log evidence that is let pass.
    rng : numpy.random.Generator, optional
        For the targets and the importance draws; by default a fixed one.

    Raises
    ------
    AssertionError
        What disagrees, and by how much.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    approximation.check()
    model = _two_points(Probit() if likelihood is None else likelihood, rng)
    for theta in np.array([[0.0, 0.0], [1.2, -0.5]]):
        where = f"at theta = {theta}"
        fit = approximation.fit(model, theta)
        again = approximation.fit(model, theta)
        same = np.array_equal(fit.q.weights, again.q.weights)
        same &= np.array_equal(fit.q.precision, again.q.precision)
        assert same, f"two fits {where} differ"
        assert np.all(fit.q.precision >= 0.0), f"q.precision is negative {where}"
        exact = _evidence_of_two(model, theta)
        gap = abs(fit.log_evidence - np.log(exact))
        assert gap <= evidence_tolerance, (
            f"log evidence {where}: {fit.log_evidence:.5g}, where {np.log(exact):.5g} is right"
        )
        estimate = importance_estimate(model, fit.q, _N_SAMPLED, rng, defensive=0.05)
        _mean_is(f"importance weights {where}", np.exp(estimate.log_weights), exact)
        _check_gradient(approximation.refined(), model, theta)


def _two_points(likelihood: Likelihood, rng: np.random.Generator) -> LatentGP:
    covariance = make_covariance(default_kernel(1), np.array([[0.0], [0.8]]))
    y = likelihood.sample(np.array([0.7, -0.4]), rng)
    return LatentGP(covariance, likelihood, default_hyperprior(covariance, likelihood), y)


def _evidence_of_two(model: LatentGP, theta: FloatArray) -> float:
    """p(y | theta) by the trapezoidal rule in whitened coordinates, where it is a smooth bump."""
    nodes = np.linspace(-9.0, 9.0, 181)
    v = np.stack([axis.ravel() for axis in np.meshgrid(nodes, nodes)])
    log_lik = model.observations_at(theta).totals(model.prior_at(theta).chol @ v)
    density = np.exp(log_lik - 0.5 * (v**2).sum(axis=0)) / (2.0 * np.pi)
    return float(density.sum() * (nodes[1] - nodes[0]) ** 2)


def _check_gradient(approximation: Approximation, model: LatentGP, theta: FloatArray) -> None:
    gradient = approximation.gradient(model, approximation.fit(model, theta))
    for j, step in enumerate(_STEP * np.eye(len(theta))):
        above, below = (approximation.fit(model, theta + s).log_evidence for s in (step, -step))
        slope = (above - below) / (2.0 * _STEP)
        what = f"derivative {j} of the log evidence at theta = {theta}"
        _agree(what, gradient[j : j + 1], np.array([slope]))
