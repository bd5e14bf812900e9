"""Test that a transition leaves the joint distribution unchanged, by independent replicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import chdtr

from .._typing import FloatArray
from ..model.joint import LatentGP
from ..transitions.base import ChainState, Transition
from ..transitions.operator import Operator

#: Shares of the replicates after which a test with a level computes its p-value.
_LOOKS = (0.5, 1.0)
#: P-value above which a test stops at the first look: a mistake that all replicates would show
#: plainly hardly ever has a p-value above this with half of them.
_CLEAR_P_VALUE = 0.1


class JointDraws(NamedTuple):
    """Independent draws of (theta, f, y), one per row."""

    theta: FloatArray  # (r, p), natural logs where positive
    f: FloatArray  # (r, n), latent scale
    y: FloatArray  # (r, n)


class Statistic(NamedTuple):
    """A scalar function of (theta, f, y) whose distribution is compared."""

    name: str
    values: Callable[[JointDraws], FloatArray]  # (r,), one per row
    cdf: Callable[[FloatArray], FloatArray] | None  # under the model; None if it is not known


@dataclass(frozen=True)
class InvarianceReport:
    """Result of `prior_invariance_test`.

    Attributes
    ----------
    p_values : dict of str to float
        Kolmogorov-Smirnov p-value of each statistic.
    acceptance_rate : float
        Proportion of accepted steps. If it is zero, the test is meaningless.
    n_replicates : int
        Number of replicates that were made.
    n_looks : int
        How often the test may look at its p-values: once if it has no level.
    """

    p_values: dict[str, float]
    acceptance_rate: float
    n_replicates: int
    n_looks: int

    @property
    def p_value(self) -> float:
        """Family-wise p-value: the smallest times the number of statistics and of looks."""
        return min(1.0, self.n_looks * self._p_value_of_a_look)

    @property
    def _p_value_of_a_look(self) -> float:
        """Family-wise p-value (Bonferroni) without the correction for several looks."""
        return len(self.p_values) * min(self.p_values.values())

    def __str__(self) -> str:
        rows = [f"{p:9.2g}  {name}" for name, p in sorted(self.p_values.items(), key=itemgetter(1))]
        head = (
            f"p = {self.p_value:.2g} after {self.n_replicates} replicates, "
            f"acceptance {self.acceptance_rate:.2f}"
        )
        return "\n".join([head, *rows])


def simulate_joint(model: LatentGP, size: int, rng: np.random.Generator) -> JointDraws:
    """Draw (theta, f, y) from the model.

    Parameters
    ----------
    model : LatentGP
        The joint distribution; its own targets are not used.
    size : int
        Number of draws.
    rng : numpy.random.Generator
        Random numbers for the draws.

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
        Latent values; together with theta a draw from p(theta, f | y).
    rng : numpy.random.Generator
        Random numbers for the other particles.

    Returns
    -------
    ChainState or None
        The state, or None if the transition cannot start at theta.
    """
    state: ChainState | None = transition.start(model, theta, rng, retained=f)  # type: ignore[call-arg]
    return state


def joint_statistics(model: LatentGP) -> list[Statistic]:
    """Return statistics that are sensitive to errors of transitions on (theta, f).

    Besides the marginals of theta and functions of f and y, these are cross terms of theta and f,
    above all ``f' K(theta)^-1 f``. It is chi-squared with n degrees of freedom for any theta, and
    becomes huge if f does not follow theta.

    Parameters
    ----------
    model : LatentGP
        Model with kernel, priors and likelihood.

    Returns
    -------
    list of Statistic
        With their distributions under the model, where these are known.
    """
    names = [f"{name}[{j}]" for j, name in enumerate(model.hyperprior.names)]
    laws = model.hyperprior.laws

    def agreement(draws: JointDraws) -> FloatArray:
        """Return f times y, or for a softmax the latent value of the observed class."""
        if model.likelihood.n_functions == 1:
            return draws.f[:, model.observations.input_of_row] * draws.y
        # A target is the position of its class among the latent functions.
        by_function = draws.f.reshape(len(draws.f), model.likelihood.n_functions, -1)
        return np.take_along_axis(by_function, draws.y[:, None].astype(np.intp), axis=1)[:, 0]

    def mean_agreement(draws: JointDraws) -> FloatArray:
        """Return the mean agreement over the rows."""
        return np.asarray(agreement(draws).mean(axis=1))

    def log_size(draws: JointDraws) -> FloatArray:
        """Return the log of the mean square of f."""
        return np.asarray(np.log((draws.f**2).mean(axis=1)))

    statistics = [
        Statistic("law of the norm of v", partial(_squared_norm_cdf, model), stats.uniform().cdf),
        Statistic("mean f y", mean_agreement, None),
        Statistic("f y at the first point", lambda draws: agreement(draws)[:, 0], None),
        Statistic("f f' at the ends", lambda draws: draws.f[:, 0] * draws.f[:, -1], None),
        Statistic("log p(y | f)", partial(_joint_log_lik, model), None),
    ]
    for j, (name, law, positive) in enumerate(
        zip(names, laws, model.hyperprior.positive, strict=True)
    ):
        what, cdf = (f"log {name}", partial(_log_scale_cdf, law)) if positive else (name, law.cdf)
        statistics += [
            Statistic(what, _theta_component(j), cdf),
            Statistic(f"{what} * mean f y", _times_theta_component(j, mean_agreement), None),
            Statistic(f"{what} * log mean f^2", _times_theta_component(j, log_size), None),
        ]
    return statistics


def _squared_norm_cdf(model: LatentGP, draws: JointDraws) -> FloatArray:
    """Return the chi-squared probability of |v|^2, where f = R v, of each draw."""
    whitened = [
        model.prior_at(theta).whiten(f) for theta, f in zip(draws.theta, draws.f, strict=True)
    ]
    rank = np.array([len(v) for v in whitened])
    return np.asarray(chdtr(rank, np.array([v @ v for v in whitened])))


def _joint_log_lik(model: LatentGP, draws: JointDraws) -> FloatArray:
    """Return log p(y | f, theta) of each draw."""
    rows = zip(*draws, strict=True)
    return np.array(
        [model.with_observations(y=y).observations_at(theta).total(f) for theta, f, y in rows]
    )


def _theta_component(j: int) -> Callable[[JointDraws], FloatArray]:
    return lambda draws: draws.theta[:, j]


def _times_theta_component(
    j: int, function: Callable[[JointDraws], FloatArray]
) -> Callable[[JointDraws], FloatArray]:
    return lambda draws: draws.theta[:, j] * function(draws)


def _log_scale_cdf(law: Any, u: FloatArray) -> FloatArray:
    return np.asarray(law.cdf(np.exp(u)))


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
    level: float | None = None,
) -> InvarianceReport:
    """Test that a transition leaves p(theta, f | y) unchanged, averaged over y.

    In every replicate (theta, f, y) is drawn from the model, a chain is started at (theta, f) and
    moved `n_steps` times under the posterior given y. If the transition is correct, its final state
    has, together with y, the same joint distribution as the initial state. The replicates are
    independent, so that the p-values are valid whatever the autocorrelation of the chain.

    Parameters
    ----------
    model : LatentGP
        The joint distribution; its own targets are not used. The test is most powerful with a few
        points and moderately informative hyper-priors.
    set_up : callable
        ``set_up(model, rng) -> Transition``: may tune the transition, using only the targets in
        `model`. It is called once for each distinct y, with its own random stream.
    start : callable
        ``start(model, transition, theta, f, rng) -> state``, such as `start_at_latent` and
        `start_with_particles`. The state must be a draw from the transition's target if (theta, f)
        is a draw from p(theta, f | y).
    n_replicates, n_steps : int
        Number of independent replicates, and of steps of the transition in each.
    rng : numpy.random.Generator
        All random numbers.
    statistics : sequence of Statistic, optional
        `joint_statistics` by default.
    n_reference : int, optional
        Number of new draws from the model, for the statistics whose distribution is not known; by
        default four times the number of replicates.
    level : float, optional
        The caller takes the transition for wrong if the p-value of the report is below `level`. The
        test then stops with half of the replicates if their answer is clear: if the p-value is
        below the level, or above 0.1 without the correction for two looks. A correct transition is
        taken for wrong with at most the probability `level`, as both looks count. By default all
        replicates are made.

    Returns
    -------
    InvarianceReport
        A p-value for each statistic.

    Raises
    ------
    RuntimeError
        If a chain cannot start. Leaving out this replicate would bias the test.
    TypeError
        If `set_up` is not callable, or returns an operator, which moves coordinates only.

    References
    ----------
    Geweke (2004), *Getting it right*; Gandy & Scott (2020), *Unit testing for MCMC and other Monte
    Carlo methods*, for independent replicates and tests that stop early.
    """
    if not callable(set_up):
        raise TypeError(
            "set_up must be a function of a model and a random generator that returns a transition;"
            f" got {set_up!r}: for a transition without set-up, pass lambda model, rng: transition."
        )
    streams = rng.spawn(4)
    statistics = joint_statistics(model) if statistics is None else statistics
    n_reference = 4 * n_replicates if n_reference is None else n_reference
    replicates = _Replicates(model, set_up, start, n_steps, streams[1], streams[2])
    shares = (1.0,) if level is None else _LOOKS
    end = reference = None
    for share in shares:
        end = _extend(
            end,
            share * n_replicates,
            lambda size: replicates.move_all(simulate_joint(model, size, streams[0])),
        )
        reference = _extend(
            reference,
            share * n_reference,
            lambda size: simulate_joint(model, size, streams[3]),
        )
        p_values = {s.name: _ks_p_value(s, end, reference) for s in statistics}
        n_made = len(end.theta)
        acceptance_rate = replicates.n_accepted / (n_made * n_steps)
        report = InvarianceReport(p_values, acceptance_rate, n_made, len(shares))
        # Beyond such a p-value, more replicates would hardly change the verdict.
        clear = level is None or report.p_value < level
        if clear or report._p_value_of_a_look > _CLEAR_P_VALUE:
            break
    return report


def _extend(
    draws: JointDraws | None, wanted: float, make: Callable[[int], JointDraws]
) -> JointDraws:
    """Return the draws with those that they lack of a number, which is rounded up."""
    if draws is None:
        return make(int(np.ceil(wanted)))
    # With few replicates, the second look may need no further ones.
    if n_more := int(np.ceil(wanted)) - len(draws.theta):
        return JointDraws(*map(np.concatenate, zip(draws, make(n_more), strict=True)))
    return draws


@dataclass
class _Replicates:
    """Chains of `n_steps` transitions each, one for each draw of (theta, f, y).

    There is one set-up for each distinct y. Given the set-ups, replicates are independent, even if
    they share one.
    """

    model: LatentGP
    set_up: Callable[[LatentGP, np.random.Generator], Transition[Any]]
    start: Callable[..., ChainState | None]
    n_steps: int
    set_up_rng: np.random.Generator
    chain_rng: np.random.Generator
    n_accepted: int = 0
    set_ups: dict[bytes, tuple[LatentGP, Transition[Any]]] = field(default_factory=dict)

    def move_all(self, begin: JointDraws) -> JointDraws:
        """Return the last states of chains that begin at these draws, each given its own y."""
        theta = np.empty_like(begin.theta)
        f = np.empty_like(begin.f)
        for row, (theta_0, f_0, y) in enumerate(zip(*begin, strict=True)):
            problem, transition = self._prepare(y)
            state = self.start(problem, transition, theta_0, f_0, self.chain_rng)
            if state is None:
                raise RuntimeError(
                    f"No chain can start at theta = {theta_0}, a draw from the prior."
                )
            for _ in range(self.n_steps):
                state, info = transition.step(problem, state, self.chain_rng)
                self.n_accepted += info.accepted
            theta[row] = state.theta
            f[row] = state.f
        return JointDraws(theta, f, begin.y)

    def _prepare(self, y: FloatArray) -> tuple[LatentGP, Transition[Any]]:
        """Return the model with these targets, and the transition that is set up for it."""
        key = y.tobytes()
        if key not in self.set_ups:
            problem = self.model.with_observations(y=y)
            transition = self.set_up(problem, self.set_up_rng.spawn(1)[0])
            if isinstance(transition, Operator):
                raise TypeError(
                    f"set_up returns the operator {transition!r}, which moves coordinates, and not "
                    "a transition: return HyperUpdate(AncillaryAugmentation(), operator), which "
                    "applies it to theta, or LatentUpdate(operator), which applies it to f."
                )
            self.set_ups[key] = problem, transition
        return self.set_ups[key]


def _ks_p_value(statistic: Statistic, end: JointDraws, reference: JointDraws) -> float:
    values = statistic.values(end)
    if statistic.cdf is not None:
        return float(stats.kstest(statistic.cdf(values), "uniform").pvalue)
    return float(stats.ks_2samp(values, statistic.values(reference), method="asymp").pvalue)
