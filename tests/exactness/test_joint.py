"""Whole transitions keep the joint law of (theta, f, y): Geweke (2004), Gandy & Scott (2020).

`SIZES` has the size of each kind of test at length, `SHORT` in the plain run. `tests/planted_bugs`
runs wrong transitions by the same functions, with the same sizes, and sees them caught. Tests stop
as soon as their answer is clear: correct transitions mostly take half of the replicates.
"""

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.chain.time_limit import TimeLimit, apply_limit
from skgpmcmc.model import HyperPrior
from skgpmcmc.model.inducing import InducingGP, with_inducing_inputs
from skgpmcmc.numerics.quadratic import Quadratic
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.setup import Request, emulated, proposals
from skgpmcmc.setup.emulator import learn
from skgpmcmc.setup.emulator.options import EmulatorOptions
from skgpmcmc.testing import prior_invariance_test, start_at_latent, start_with_particles
from skgpmcmc.transitions import EllipticalSlice, Mixture, RandomWalk
from skgpmcmc.transitions.compose import DirectedPair
from skgpmcmc.transitions.particles import ParticleRefresh, RetainedParticle
from skgpmcmc.transitions.pseudo_marginal import DrawCount, PseudoMarginalMetropolis

from ..helpers import CutShort, make_model, seeded

#: Family-wise over the statistics of a test.
LEVEL = 1e-4
#: A transition that hardly moves is hardly tested.
LEAST_ACCEPTANCE = 0.1

#: Largest size of a test by its kind: of a real transition, and of its wrong twins. The size is
#: that of the twin that is hardest to see: its p-value is below 1e-8 with most seeds, and far below
#: 0.1 with half of the replicates, where a test may end.
SIZES = {
    "particle": {"n_replicates": 1000, "n_steps": 8},
    "emulated": {"n_replicates": 1400, "n_steps": 3},
    "estimate": {"n_replicates": 1600, "n_steps": 8},
    "reference": {"n_replicates": 3200, "n_steps": 8},
    "slice": {"n_replicates": 10_000, "n_steps": 20, "n_reference": 20_000},
}
SHORT = {
    "particle": {"n_replicates": 400, "n_steps": 6},
    "emulated": {"n_replicates": 1000, "n_steps": 3},
    "estimate": {"n_replicates": 400, "n_steps": 4},
    "slice": {"n_replicates": 1500, "n_steps": 6, "n_reference": 6000},
}


def small_model(n, variance, likelihood="probit"):
    """A few points under moderately informative priors; its targets are drawn anew every time."""
    X = np.linspace(0.0, 2.0, n)[:, None]
    priors = {
        "k1__constant_value": stats.lognorm(0.7, scale=variance),
        "k2__length_scale": stats.lognorm(0.7, scale=1.0),
    }
    return make_model(X, np.ones(n), likelihood, priors=priors)


# --- the transitions of samplers, set up for each y -----------------------------------------------


def prepared(
    sampler, model, approximation, rng, *, n_importance=None, n_warmup=0, n_chains=2, last=None
):
    """What the set-up of a sampler prepares for a model, given its targets alone.

    The time is over for it after the first batch of the stage `last`.
    """
    *rngs, own = rng.spawn(n_chains + 1)
    starts = [model.hyperprior.sample(stream) for stream in rngs]
    request = Request(model, approximation, starts, rngs, own, n_importance, n_warmup)
    with apply_limit(TimeLimit()) as limit:
        return sampler.set_up(request, CutShort(limit, last))


@contextmanager
def without_grids():
    """Treat the hyper-parameters as too many for a grid, however few they are."""
    with pytest.MonkeyPatch.context() as patch:
        for user in (learn, proposals):
            patch.setattr(user, "MOST_ROTATED", 0)
        yield


#: A walk that half of the estimates accept; `test_grid_posterior` has those that a set-up tunes.
WALK = RandomWalk(-0.2)


def particle_test(transition, sizes=SIZES):
    """Prior-invariance test of a random walk with particles, the same for every y."""
    return estimate_test(transition, sizes, n=4, kind="particle")


def emulated_test(
    transition_for,
    sizes=SIZES,
    *,
    approximation=None,
    n_importance=2,
    defensive=0.05,
    noise=PseudoMarginal.noise,
    moves="emulated",
    last=None,
    model=None,
    grids=True,
):
    """Prior-invariance test of ``transition_for(mixture)``, the default sampler's for each y.

    The set-up depends on y alone, and is made for each of the eight, on request without grids.
    Estimates of few draws are noisy, so that what depends on their noise shows.
    """
    sampler = PseudoMarginal(defensive=defensive, noise=noise, moves=moves)
    approximation = approximation or Laplace()

    def set_up(model, rng):
        settings = {"n_importance": n_importance, "last": last}
        with nullcontext() if grids else without_grids():
            ready = prepared(sampler, model, approximation, rng, **settings)
        return transition_for(ready.transition)

    rng = np.random.default_rng(seeded())
    model = small_model(3, 4.0) if model is None else model
    return examined(model, set_up, start_with_particles, rng, **sizes["emulated"])


def slice_test(transition, sizes=SIZES, likelihood="probit"):
    """Prior-invariance test of a transition on f alone, at random theta.

    The large variance makes the slices narrow, so that brackets shrink many times.
    """
    rng = np.random.default_rng(seeded())
    model = small_model(2, 30.0, likelihood)
    return examined(model, lambda *_: transition, start_at_latent, rng, **sizes["slice"])


def estimate_test(transition, sizes=SIZES, variance=4.0, *, n=5, kind="estimate"):
    """Prior-invariance test of a transition of particles that is the same for every y."""
    rng = np.random.default_rng(seeded())
    model = small_model(n, variance)
    return examined(model, lambda *_: transition, start_with_particles, rng, **sizes[kind])


def examined(model, set_up, start, rng, **size):
    """Report of a prior-invariance test that stops as soon as its answer is clear."""
    return prior_invariance_test(model, set_up, start, rng=rng, level=LEVEL, **size)


def check(report):
    assert report.p_value > LEVEL, report
    assert report.acceptance_rate > LEAST_ACCEPTANCE


def check_caught(report):
    """A wrong twin fails the very test that the right one passes."""
    assert report.p_value < LEVEL, report


class NoJacobian(HyperPrior):
    """Takes the density on the natural scale for that on the log scale."""

    def log_prob(self, theta):
        return super().log_prob(theta) - theta.sum()


@cache
def without_jacobian(prior):
    """Made once: a step that makes it anew takes as long again."""
    return NoJacobian(prior.names, prior.distributions)


def varying_count():
    """Up to 8 draws where the variance of f is large, or the length-scale small; 1 elsewhere."""
    log_n = Quadratic(
        center=np.array([np.log(4.0), 0.0]),
        scale=np.array([0.7, 0.7]),
        constant=np.log(3.0),
        linear=np.array([1.0, -0.5]),
        curvature=np.zeros((2, 2)),
    )
    return DrawCount(log_n, 1.0, 1, 8)


def with_moves(mixture, moves, *, last=None):
    """The mixture with other moves, all as probable as another."""
    return replace(mixture, moves=moves, probabilities=[1.0 / len(moves)] * len(moves), last=last)


# --- random walks ---------------------------------------------------------------------------------


def walk_of(approximation, defensive):
    return PseudoMarginalMetropolis(approximation, WALK, 2, defensive)


def test_pseudo_marginal_walk_keeps_the_joint_law_short_run():
    check(particle_test(walk_of(EP(), 0.2), SHORT))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("approximation", "defensive"), [(EP(), 0.2), (Laplace(), 0.0)], ids=["ep", "laplace"]
)
def test_a_pseudo_marginal_walk_keeps_the_joint_law(approximation, defensive):
    check(particle_test(walk_of(approximation, defensive)))


# --- the default ----------------------------------------------------------------------------------


def evenly(mixture):
    """Random walk and refresh as often as the rotation."""
    return with_moves(mixture, mixture.moves, last=mixture.last)


def with_varying_count(mixture):
    """N from 1 to 8, by theta."""
    rotation, walk, refresh = mixture.moves
    ahead, back, walk = (
        replace(move, n_importance=varying_count())
        for move in (rotation.ahead, rotation.back, walk)
    )
    return with_moves(mixture, (DirectedPair(ahead, back), walk, refresh), last=mixture.last)


def main_alone(mixture):
    return mixture.moves[0]


def test_default_sampler_prepares_the_emulated_mixture_of_moves():
    """What is examined below is what the default sampler prepares."""
    model = small_model(4, 4.0).with_observations(y=np.array([1.0, 1.0, -1.0, 1.0]))
    rng = np.random.default_rng(0)
    mixture = prepared(PseudoMarginal(), model, EP(), rng).transition
    rotation, walk, refresh = mixture.moves
    assert isinstance(mixture, Mixture)
    assert isinstance(mixture.last, RetainedParticle)
    assert isinstance(refresh, ParticleRefresh)
    assert isinstance(walk.n_importance, DrawCount)
    assert (rotation.ahead.name, rotation.back.name, walk.name) == ("rotation",) * 2 + (
        "random walk",
    )
    for other in (rotation.ahead, rotation.back):
        assert other.n_importance is walk.n_importance
        assert other.reference is walk.reference
    shares = {part.defensive for part in (rotation.ahead, walk, refresh, mixture.last)}
    assert shares == {PseudoMarginal().defensive}


def test_emulated_sampler_keeps_the_joint_law_short_run():
    check(emulated_test(lambda mixture: mixture, SHORT, approximation=EP()))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("approximation", "n_importance"),
    [(EP(), None), (Laplace(), 2)],
    ids=["ep, auto", "laplace, two draws"],
)
def test_the_emulated_sampler_keeps_the_joint_law(approximation, n_importance):
    check(
        emulated_test(
            lambda mixture: mixture, approximation=approximation, n_importance=n_importance
        )
    )


def many_lengths(p):
    """Three points, and p hyper-parameters: a length-scale each of p - 1 features, and a variance.

    With p = 1 the variance is fixed.
    """
    X = np.random.default_rng(p).uniform(size=(3, max(p - 1, 1)))
    variance = ConstantKernel(4.0, "fixed" if p == 1 else (1e-5, 1e5))
    length = stats.lognorm(0.7, scale=0.7)
    priors = {"k1__constant_value": stats.lognorm(0.7, scale=4.0), "k2__length_scale": length}
    if p == 1:
        del priors["k1__constant_value"]
    return make_model(X, np.ones(3), kernel=variance * RBF(np.ones(X.shape[1])), priors=priors)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("p", "main"), [(1, "rotation"), (3, "rotation"), (4, "surrogate"), (6, "surrogate")]
)
def test_rotations_up_to_three_dimensions_and_chains_beyond_keep_the_joint_law(p, main):
    """A grid up to three; chains beyond."""
    names = set()

    def noted(mixture):
        names.add(mixture.moves[0].name)
        return mixture

    check(emulated_test(noted, model=many_lengths(p)))
    assert names == {main}


def with_one_inducing_input(kind=InducingGP):
    """Six points, one of which determines f at the others, up to large residuals."""
    model = with_inducing_inputs(small_model(6, 4.0), 1)
    return kind(model.covariance, model.observations, model.hyperprior, model.rows)


@pytest.mark.statistical
def test_the_emulated_sampler_keeps_the_joint_law_of_inducing_inputs():
    check(
        emulated_test(lambda mixture: mixture, approximation=EP(), model=with_one_inducing_input())
    )


@pytest.mark.statistical
def test_the_surrogate_move_alone_keeps_the_joint_law():
    """The main move alone, as it is with many hyper-parameters."""
    check(emulated_test(main_alone, approximation=EP(), grids=False))


#: The last stage that there was time for, and the moves that chains then have.
CUT_SHORT = {
    "search for modes": {"random walk", "refresh"},
    "measuring the noise": {"rotation", "random walk", "refresh"},
}


def test_set_up_that_is_cut_short_prepares_the_moves_known_so_far():
    model = small_model(4, 4.0).with_observations(y=np.array([1.0, 1.0, -1.0, 1.0]))
    for last, names in CUT_SHORT.items():
        mixture = prepared(PseudoMarginal(), model, EP(), np.random.default_rng(0), last=last)
        assert {move.name for move in mixture.transition.moves} == names


@pytest.mark.statistical
@pytest.mark.parametrize("last", CUT_SHORT)
def test_a_set_up_that_is_cut_short_keeps_the_joint_law(last):
    check(emulated_test(lambda mixture: mixture, last=last))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("transition_for", "defensive"), [(evenly, 0.0), (with_varying_count, 0.5)]
)
def test_moves_in_other_proportions_keep_the_joint_law(transition_for, defensive):
    """`tests/planted_bugs` has each of the moves alone, where its wrong twins are caught."""
    check(emulated_test(transition_for, defensive=defensive))


@pytest.mark.statistical
@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_sequential_rows_keep_the_joint_law(likelihood):
    """All of them, for so little noise: in closed form, and by tables."""
    sequential_rows = []

    def look_at(mixture):
        sequential_rows.append(len(mixture.moves[0].ahead.reference.sequential_rows))
        return mixture

    model = small_model(3, 4.0, likelihood)
    check(emulated_test(look_at, approximation=EP(), noise=1e-6, model=model))
    assert set(sequential_rows) == {3}


@pytest.mark.statistical
def test_trajectories_on_the_approximate_posterior_keep_the_joint_law():
    """The trajectories alone; the other moves of their mixture are tested above."""
    sizes = SIZES | {"emulated": {"n_replicates": 700, "n_steps": 3}}  # they are dear
    check(emulated_test(main_alone, sizes, defensive=0.5, moves="trajectories"))


def test_trajectories_are_prepared_if_no_emulator_is_usable(monkeypatch):
    """Trajectories on the approximate posterior lead."""
    monkeypatch.setattr(emulated, "EmulatorOptions", lambda: EmulatorOptions(usable_acceptance=1.0))
    model = small_model(4, 4.0).with_observations(y=np.array([1.0, 1.0, -1.0, 1.0]))
    mixture = prepared(PseudoMarginal(), model, EP(), np.random.default_rng(0)).transition
    trajectory, walk, _ = mixture.moves
    assert [move.name for move in mixture.moves] == ["trajectory", "random walk", "refresh"]
    assert sum(mixture.probabilities) == pytest.approx(1.0)
    assert trajectory.reference is walk.reference
    assert trajectory.n_importance is walk.n_importance


# --- latent functions -----------------------------------------------------------------------------


def test_elliptical_slice_keeps_the_law_of_f_short_run():
    check(slice_test(EllipticalSlice(), SHORT))


@pytest.mark.statistical
@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_elliptical_slice_keeps_the_law_of_f(likelihood):
    check(slice_test(EllipticalSlice(), likelihood=likelihood))
