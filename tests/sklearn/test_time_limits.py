"""`max_time` ends a set-up wherever it is: the fit goes on with what it knows, and says so.

The clock of these tests goes on by one second whenever somebody looks at it, so that a fit can be
cut at any place where it asks for the time.
"""

import functools

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_moons

from skgpmcmc import BayesianGPClassifier, BayesianGPRegressor
from skgpmcmc.approximations import Laplace, SubsetOfData
from skgpmcmc.chain import sample, time_limit
from skgpmcmc.chain.executor import perform
from skgpmcmc.chain.segment import start, tune
from skgpmcmc.chain.time_limit import TimeLimit, apply_limit
from skgpmcmc.hyperposterior import HyperPosterior
from skgpmcmc.run import chains, set_ups
from skgpmcmc.run.checkpoint import read_checkpoint
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.setup.emulator.cheap import Emulated
from skgpmcmc.setup.emulator.options import EmulatorOptions
from skgpmcmc.setup.emulator.search import search
from skgpmcmc.setup.hamiltonian import run_window
from skgpmcmc.transitions import RandomWalk, Sweep
from skgpmcmc.transitions.metropolis import MarginalWalk

from ..helpers import make_model, toy_classes
from .conftest import ROUND_LENGTH, assert_same_draws, parts_of

# A few draws are enough here; that chains converge is tested elsewhere.
pytestmark = [
    pytest.mark.usefixtures("short_rounds"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

N_DRAWS = 3 * ROUND_LENGTH
SHORT = {"n_chains": 2, "n_warmup": 12, "n_draws": N_DRAWS, "target_ess": None, "random_state": 3}
SHORT |= {"max_predict_draws": 8}
CUT_SHORT = "The set-up was cut short"
LONG = pytest.mark.statistical


class Clock:
    """A second later at every look; or as late as it is told."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


@pytest.fixture
def clock(monkeypatch):
    own = Clock()
    monkeypatch.setattr(time_limit, "clock", own)
    return own


def moons():
    return make_moons(16, noise=0.2, random_state=0)


def six_columns():
    X, y = moons()
    return np.column_stack([X, np.random.default_rng(1).standard_normal((len(X), 4))]), y


def three_classes():
    X, y = moons()
    return X, np.where(np.arange(len(X)) < 5, 2, y)


def curve():
    X, _ = moons()
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(len(X))


def classifier(**changes):
    """By Laplace, which is faster than EP."""
    return BayesianGPClassifier(**{**SHORT, "approximation": "laplace", **changes})


def regressor(**changes):
    return BayesianGPRegressor(**{**SHORT, **changes})


walk = functools.partial(classifier, sampler=PseudoMarginal(moves="random_walk"))


def made(make, **settings):
    return functools.partial(make, **settings)


#: Estimator, data, and the places where the time is over, in shares of the looks in a set-up.
CASES = {
    "emulated": (classifier, moons, (0.0, 0.5, 0.8)),
    "walk": (walk, moons, (0.0, 0.6)),
    "within Gibbs": (made(classifier, sampler="surr", approximation="auto"), moons, (0.0, 0.6)),
    "marginal": (made(classifier, sampler="marginal"), moons, (0.1, 0.6)),
    "mapped": (
        made(regressor, sampler="discretizing", approximation=SubsetOfData(5)),
        curve,
        (0.0, 0.6),
    ),
}
EVERYWHERE = tuple(np.linspace(0.0, 0.85, 6))
LONG_CASES = {
    "emulated everywhere": (classifier, moons, EVERYWHERE),
    "many hyper-parameters": (made(classifier, ard=True), six_columns, EVERYWHERE),
    "one-vs-rest": (classifier, three_classes, EVERYWHERE),
    "softmax": (made(classifier, multi_class="softmax"), three_classes, EVERYWHERE),
    "collapsed": (regressor, curve, EVERYWHERE),
    "collapsed with many": (made(regressor, ard=True), six_columns, EVERYWHERE),
    "trajectories": (
        made(classifier, sampler=PseudoMarginal(moves="trajectories")), moons, EVERYWHERE
    ),
    "sizes to choose": (made(regressor, sampler="discretizing"), curve, EVERYWHERE),
    "tempered": (
        made(classifier, sampler="tempered", approximation=SubsetOfData(5)), moons, EVERYWHERE
    ),
    "emulator mapped": (
        made(regressor, sampler="discretizing", approximation=Emulated()), curve, EVERYWHERE
    ),
}  # fmt: skip


def cases(*names):
    every = {**CASES, **LONG_CASES}
    return [
        pytest.param(*every[name], marks=[LONG] * (name in LONG_CASES), id=name)
        for name in names or every
    ]


def looks_in_set_up(monkeypatch, clock, model, X, y):
    """How often a set-up asks for the time, if it has enough."""
    with monkeypatch.context() as patch:
        looks, sample_more = [], chains._sample_more

        def noted(*arguments):
            looks.append(clock.now)
            return sample_more(*arguments)

        patch.setattr(chains, "_sample_more", noted)
        model.set_params(max_time=1e9, n_draws=1).fit(X, y)
    return looks[0]


def fit_in(clock, n_looks, model, X, y):
    """Fit with the time over after so many looks at the clock."""
    clock.now = 0.0
    return model.set_params(max_time=n_looks + 0.5).fit(X, y)


@pytest.mark.parametrize(("make", "data", "shares"), cases())
def test_max_time_ends_a_set_up_and_one_round_is_made(make, data, shares, clock, monkeypatch):
    X, y = data()
    whole = looks_in_set_up(monkeypatch, clock, make(), X, y)
    for share in shares:
        n_looks = 1.0 + int(share * whole)
        with pytest.warns(UserWarning, match=f"^max_time={n_looks + 0.5:g} .*{CUT_SHORT}"):
            model = fit_in(clock, n_looks, make(), X, y)
        for part in parts_of(model):
            assert part.theta_samples_.shape[1] == ROUND_LENGTH
            assert np.isfinite(part.theta_samples_).all()
        assert np.isfinite(model.predict(X).astype(float)).all()


def test_warm_start_after_a_cut_set_up_keeps_its_moves(clock):
    X, y = moons()
    with pytest.warns(UserWarning, match=CUT_SHORT):
        model = fit_in(clock, 20, classifier(), X, y)
    first = model.theta_samples_
    assert set(model.diagnostics_.acceptance_rate) <= {"random walk", "refresh"}
    model.set_params(max_time=None, warm_start=True).fit(X, y)
    assert model.theta_samples_.shape[1] == N_DRAWS
    assert_array_equal(model.theta_samples_[:, :ROUND_LENGTH], first)
    assert set(model.diagnostics_.acceptance_rate) <= {"random walk", "refresh"}


@pytest.mark.parametrize(("make", "data", "shares"), cases("walk", *LONG_CASES))
def test_checkpoint_leaves_out_work_that_max_time_cut_short(
    make, data, shares, clock, monkeypatch, tmp_path
):
    """With more time a fit makes the draws of one that was never in a hurry."""
    X, y = data()
    whole = looks_in_set_up(monkeypatch, clock, make(), X, y)
    uncut = make(n_draws=ROUND_LENGTH + 3).fit(X, y)
    sizes = []
    for share in shares[1::2]:
        file = tmp_path / f"{share}"
        with pytest.warns(UserWarning, match=CUT_SHORT):
            fit_in(clock, 1.0 + int(share * whole), make(checkpoint=file), X, y)
        content = read_checkpoint(file)
        assert not content["tapes"]
        sizes.append(len(content["batches"]))
        later = make(checkpoint=file, n_draws=ROUND_LENGTH + 3).fit(X, y)
        assert_same_draws(later, uncut)
    assert sizes[-1] > 0  # what was done in time is there


def test_checkpoint_is_followed_to_its_end_despite_max_time(clock, tmp_path):
    X, y = moons()
    settings = {"checkpoint": tmp_path / "file", "n_draws": ROUND_LENGTH}
    uncut = walk(**settings).fit(X, y)
    assert_same_draws(fit_in(clock, 1, walk(**settings), X, y), uncut)


@pytest.mark.parametrize("make", [classifier, walk], ids=["emulated", "walk"])
def test_max_time_too_short_for_one_evaluation_is_an_error(make, clock, monkeypatch):
    def slow(*call):
        clock.now += 100.0  # within the call, which has to end for that
        return perform(*call)._replace(seconds=600.0)

    monkeypatch.setattr(set_ups, "perform", slow)
    message = r"max_time=20\.5 seconds are over before .* takes about .* seconds with n = 16 .* Use"
    model = make(n_chains=1)
    with pytest.raises(RuntimeError, match=message):
        fit_in(clock, 20, model, *moons())
    assert not hasattr(model, "theta_samples_")


# --- calls ----------------------------------------------------------------------------------------


def done_in(clock, n_looks, function, *arguments):
    """Make a call with the time over after so many looks at the clock, and one when it begins."""
    clock.now = 0.0
    return perform(function, arguments, TimeLimit(n_looks + 1.5))


def test_long_calls_end_early_with_partial_results_at_the_limit(clock):
    """Each looks at the clock after an evaluation, a trajectory or an iteration."""
    model, rng = make_model(*toy_classes(8, 2, 0)), np.random.default_rng(0)
    path = done_in(clock, 2, search, model, Laplace(), model.start + 1.0, EmulatorOptions())
    assert path.cut
    assert len(path.value) == 3
    parts = HyperPosterior(model, Laplace()), path.value[-1].theta, 0.3 * np.eye(2), -1.0, 0.9
    explored = done_in(clock, 2, run_window, *parts, 50, np.random.SeedSequence(0))
    assert explored.cut
    assert len(explored.value.states) == 3
    sweep = Sweep((MarginalWalk(Laplace(), RandomWalk(-1.0, 0.25), with_latent=False),), (1,))
    begun = start(model, sweep, model.start, rng)
    tuned = done_in(clock, 2, tune, model, sweep, begun.state, rng, 50, [0])
    assert tuned.cut
    assert len(tuned.value.segment.theta) == 2
    rehearsed = done_in(clock, 2, sample, model, sweep, begun.state, rng, 50)
    assert rehearsed.cut
    assert len(rehearsed.value.theta) == len(rehearsed.value.f) == 2
    assert not done_in(clock, 1000, sample, model, sweep, begun.state, rng, 5).cut


def test_innermost_time_limit_decides_if_time_is_over(clock):
    clock.now = 10.0
    assert not time_limit.time_is_over()
    with apply_limit(TimeLimit(5.0)) as outer:
        with apply_limit(TimeLimit()) as inner:
            assert not time_limit.time_is_over()
        assert not outer.was_noticed
        assert time_limit.time_is_over()
    assert outer.was_noticed
    assert not inner.was_noticed
    assert not time_limit.time_is_over()
