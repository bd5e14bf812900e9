"""Whole transitions keep the joint law of (theta, f, y): Geweke (2004), Gandy & Scott (2020).

`SIZES` has the size of each kind of test at length, `SHORT` in the plain run. `tests/planted_bugs`
runs wrong transitions by the same functions, with the same sizes, and sees them caught. Tests stop
as soon as their answer is clear: correct transitions mostly take half of the replicates.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from skgpmcmc.approximations import EP, Laplace, Quadratic
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.testing import prior_invariance_test, start_at_latent, start_with_particles
from skgpmcmc.transitions import (
    Directed,
    DrawCount,
    EllipticalSlice,
    Mixture,
    ParticleRefresh,
    PseudoMarginalMetropolis,
    RandomWalk,
    RetainedParticle,
)
from skgpmcmc.warmup import Request, TimeLimit, until
from skgpmcmc.warmup.emulator import learn
from skgpmcmc.warmup.emulator import probe as probing

from ..helpers import make_model, seeded

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
    set_up = sampler.set_up(request)
    answers, limit = None, TimeLimit()
    while True:
        try:
            with until(limit):
                tasks = set_up.send(answers)
        except StopIteration as end:
            return end.value
        answers = [task.function(*task.arguments) for task in tasks]
        if last is not None and tasks[0].stage.startswith(last):
            limit = TimeLimit(-np.inf)


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
    moves="emulated",
    last=None,
    likelihood="probit",
):
    """Prior-invariance test of ``transition_for(mixture)``, the default sampler's for each y.

    The set-up depends on y alone, and is made for each of the eight. Estimates of few draws are
    noisy, so that what depends on their noise shows.
    """
    sampler = PseudoMarginal(defensive=defensive, moves=moves)
    approximation = approximation or Laplace()

    def set_up(model, rng):
        settings = {"n_importance": n_importance, "last": last}
        ready = prepared(sampler, model, approximation, rng, **settings)
        return transition_for(ready.transition)

    rng = np.random.default_rng(seeded())
    model = small_model(3, 4.0, likelihood)
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


def test_pseudo_marginal_transition_in_short():
    check(particle_test(walk_of(EP(), 0.2), SHORT))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("approximation", "defensive"), [(EP(), 0.2), (Laplace(), 0.0)], ids=["ep", "laplace"]
)
def test_pseudo_marginal_transition(approximation, defensive):
    check(particle_test(walk_of(approximation, defensive)))


# --- the default ----------------------------------------------------------------------------------


def evenly(mixture):
    """Random walk and refresh as often as the surrogate."""
    return with_moves(mixture, mixture.moves, last=mixture.last)


def with_varying_count(mixture):
    """N from 1 to 8, by theta."""
    surrogate, walk, refresh, rotation = mixture.moves
    surrogate, walk, ahead, back = (
        replace(move, n_importance=varying_count())
        for move in (surrogate, walk, rotation.ahead, rotation.back)
    )
    moves = (surrogate, walk, refresh, Directed(ahead, back))
    return with_moves(mixture, moves, last=mixture.last)


def surrogate_alone(mixture):
    return mixture.moves[0]


def test_the_default_is_the_emulated_transition():
    """What is examined below is what the default sampler prepares."""
    model = small_model(4, 4.0).observing(y=np.array([1.0, 1.0, -1.0, 1.0]))
    rng = np.random.default_rng(0)
    mixture = prepared(PseudoMarginal(), model, EP(), rng).transition
    surrogate, walk, refresh, rotation = mixture.moves
    assert isinstance(mixture, Mixture)
    assert isinstance(mixture.last, RetainedParticle)
    assert isinstance(refresh, ParticleRefresh)
    assert isinstance(surrogate.n_importance, DrawCount)
    assert (surrogate.name, walk.name) == ("surrogate", "random walk")
    for other in (walk, rotation.ahead, rotation.back):
        assert other.n_importance is surrogate.n_importance
        assert other.reference is surrogate.reference
    shares = {part.defensive for part in (surrogate, walk, refresh, mixture.last)}
    assert shares == {PseudoMarginal().defensive}


def test_emulated_transition_in_short():
    check(emulated_test(lambda mixture: mixture, SHORT, approximation=EP()))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("approximation", "n_importance"),
    [(EP(), None), (Laplace(), 2)],
    ids=["ep, auto", "laplace, two draws"],
)
def test_emulated_transition(approximation, n_importance):
    check(
        emulated_test(
            lambda mixture: mixture, approximation=approximation, n_importance=n_importance
        )
    )


#: The last stage that there was time for, and the moves that chains then have.
CUT_SHORT = {
    "search for modes": {"random walk", "refresh"},
    "examining the emulator": {"surrogate", "random walk", "refresh"},
}


def test_what_a_set_up_that_is_cut_short_prepares():
    model = small_model(4, 4.0).observing(y=np.array([1.0, 1.0, -1.0, 1.0]))
    for last, names in CUT_SHORT.items():
        mixture = prepared(PseudoMarginal(), model, EP(), np.random.default_rng(0), last=last)
        assert {move.name for move in mixture.transition.moves} == names


@pytest.mark.statistical
@pytest.mark.parametrize("last", CUT_SHORT)
def test_a_set_up_that_is_cut_short(last):
    check(emulated_test(lambda mixture: mixture, last=last))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("transition_for", "defensive"), [(evenly, 0.0), (with_varying_count, 0.5)]
)
def test_emulated_transition_in_other_proportions(transition_for, defensive):
    """`tests/planted_bugs` has each of the moves alone, where its wrong twins are caught."""
    check(emulated_test(transition_for, defensive=defensive))


@pytest.mark.statistical
@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_emulated_transition_with_rows_in_turn(monkeypatch, likelihood):
    """All of them: in closed form, and by tables."""
    turns = []

    def look_at(mixture):
        turns.append(len(mixture.moves[0].reference.turns))
        return mixture

    monkeypatch.setattr(learn, "rows_in_turn", lambda skewness, noise: np.arange(3))
    check(emulated_test(look_at, approximation=EP(), likelihood=likelihood))
    assert set(turns) == {3}


@pytest.mark.statistical
def test_trajectories_on_the_approximate_posterior():
    """The trajectories alone; the other moves of their mixture are tested above."""
    sizes = SIZES | {"emulated": {"n_replicates": 700, "n_steps": 3}}  # they are dear
    check(emulated_test(surrogate_alone, sizes, defensive=0.5, moves="trajectories"))


def test_where_no_emulator_is_trusted(monkeypatch):
    """More design points, and then trajectories."""
    monkeypatch.setattr(probing, "LEAST_ACCEPTANCE", 1.0)
    model = small_model(4, 4.0).observing(y=np.array([1.0, 1.0, -1.0, 1.0]))
    mixture = prepared(PseudoMarginal(), model, EP(), np.random.default_rng(0)).transition
    names = [move.name for move in mixture.moves]
    assert names == ["trajectory", "surrogate", "random walk", "refresh"]
    assert sum(mixture.probabilities) == pytest.approx(1.0)
    trajectory, surrogate = mixture.moves[:2]
    assert trajectory.reference is surrogate.reference
    assert trajectory.n_importance is surrogate.n_importance


# --- latent functions -----------------------------------------------------------------------------


def test_elliptical_slice_in_short():
    check(slice_test(EllipticalSlice(), SHORT))


@pytest.mark.statistical
@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_elliptical_slice(likelihood):
    check(slice_test(EllipticalSlice(), likelihood=likelihood))
