"""When chains are long enough: stopping at a target, and continuing the chains of a fit."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.likelihoods import Logit
from skgpmcmc.run import ConvergenceGoal, chains, summarize_convergence
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.transitions.pseudo_marginal import PseudoMarginalMetropolis

from ..helpers import in_one_test, rounds_of
from .conftest import ROUND_LENGTH, AtRound, assert_same_draws, interrupt, parts_of, unchanged

# A few draws are enough here.
pytestmark = [
    pytest.mark.usefixtures("short_rounds"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

FULL_LENGTH = chains.ROUND_LENGTH  # where sampling ends at a target, also within a round
N_TUNED = 12
#: Draws of a fit that is continued, and of the fits that it becomes: none ends with a round.
SOME, MORE, MANY = 12, 25, 52
WALK = PseudoMarginal(moves="random_walk")

#: Samplers, and parameters that make them quick.
SAMPLERS = {
    "pm": {"sampler": "pm", "approximation": "auto", "n_warmup": 4},
    "random walk": {},
    "marginal": {"sampler": "marginal", "n_warmup": 4},
}


@pytest.fixture
def _full_rounds():
    with rounds_of(FULL_LENGTH):
        yield


def quick(**changes):
    settings = {"sampler": WALK, "approximation": "laplace", "n_importance": 4, "n_chains": 2}
    settings["kernel"] = ConstantKernel() * RBF()
    settings |= {"n_warmup": N_TUNED, "n_draws": SOME, "target_ess": None, "random_state": 0}
    return BayesianGPClassifier(**{**settings, **changes})


def moons():
    return make_moons(16, noise=0.3, random_state=0)


def three_classes():
    X, y = moons()
    return X, np.where(X[:, 0] > 1.2, 2, y)


def twin(model):
    """A copy that shares nothing with the original."""
    return pickle.loads(pickle.dumps(model))


def assert_same_fit(a, b):
    """Draws, predictions, and every count of the diagnostics."""
    assert_same_draws(a, b)
    X = np.random.default_rng(1).uniform(-1.0, 2.0, size=(20, 2))
    assert_array_equal(a.predict_proba(X), b.predict_proba(X))
    mine, other = a.diagnostics_, b.diagnostics_
    for name in ("r_hat", "ess_bulk", "ess_tail", "mcse_mean", "log_likelihood_sd"):
        assert_array_equal(getattr(mine, name), getattr(other, name))
    assert set(mine.acceptance_rate) == set(other.acceptance_rate)
    for move, rates in mine.acceptance_rate.items():
        assert_array_equal(rates, other.acceptance_rate[move])
    assert mine.emulators == other.emulators
    for name in ("n_likelihood_evaluations", "n_sampling_evaluations", "n_failed"):
        assert getattr(mine, name) == pytest.approx(getattr(other, name), rel=1e-12)
    # A state that has travelled to another process makes its factors again.
    assert mine.n_cubic == pytest.approx(other.n_cubic, rel=0.02)
    assert a.n_iter_ == b.n_iter_


# --- stopping at a target -------------------------------------------------------------------------

EASY = {
    **SAMPLERS["pm"],
    "priors": {"k1__constant_value": stats.lognorm(0.5), "k2__length_scale": stats.lognorm(0.3)},
    "n_importance": "auto",
    "n_chains": 4,
    "max_rhat": 1.05,
}


@pytest.fixture(scope="module")
def stopped():
    with warnings.catch_warnings(), rounds_of(FULL_LENGTH):
        warnings.simplefilter("error", ConvergenceWarning)
        return quick(**EASY, n_draws=2000, target_ess=450.0).fit(*moons())


def assert_ended_as_soon_as_it_could(model, max_rhat, target_ess):
    """The target is met, and it was not met one round earlier."""
    assert model.diagnostics_.converged(max_rhat, target_ess)
    before = summarize_convergence(model.theta_samples_[:, :-FULL_LENGTH])
    least = min(before.ess_bulk.min(), before.ess_tail.min())
    assert least < target_ess or before.r_hat.max() > max_rhat


@pytest.mark.usefixtures("_full_rounds")
def test_sampling_ends_in_the_round_that_reaches_the_target(stopped):
    n_draws = stopped.theta_samples_.shape[1]
    assert FULL_LENGTH < n_draws < 2000
    assert stopped.diagnostics_.ess_bulk.min() >= 450.0
    assert stopped.diagnostics_.ess_tail.min() >= 450.0
    assert stopped.diagnostics_.r_hat.max() <= 1.05
    assert_ended_as_soon_as_it_could(stopped, 1.05, 450.0)
    longer = quick(**EASY, n_draws=n_draws + FULL_LENGTH).fit(*moons())
    assert_same_draws(stopped, longer, n_draws)


def test_n_draws_is_an_upper_bound():
    model = quick(n_chains=4, n_draws=14, target_ess=1e6)
    with pytest.warns(ConvergenceWarning, match=r"effective sample size \d+ \(wanted: at least 10"):
        model.fit(*moons())
    assert model.theta_samples_.shape == (4, 14, 2)
    assert not model.diagnostics_.converged(1.05, 1e6)


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.statistical)])
@pytest.mark.usefixtures("_full_rounds")
def test_every_class_ends_at_its_own_target(n_jobs):
    """The draws of one class against the rest are those of that problem alone."""
    X, y = three_classes()
    rule = {"n_draws": 1000, "target_ess": 100.0, "max_rhat": 1.2, "n_importance": 16}
    model = quick(sampler="pm", n_warmup="auto", **rule, n_jobs=n_jobs).fit(X, y)
    lengths = [binary.theta_samples_.shape[1] for binary in model.estimators_]
    assert min(lengths) < max(lengths) < 1000
    assert model.n_iter_ == max(binary.n_iter_ for binary in model.estimators_)
    for binary in model.estimators_:
        assert_ended_as_soon_as_it_could(binary, 1.2, 100.0)
    n_draws = max(lengths) + 5
    before = [binary.theta_samples_ for binary in model.estimators_]
    model.set_params(warm_start=True, target_ess=None, n_draws=n_draws).fit(X, y)
    for theta, binary in zip(before, model.estimators_, strict=True):
        assert binary.theta_samples_.shape[1] == n_draws
        assert_array_equal(binary.theta_samples_[:, : theta.shape[1]], theta)


# --- continuing the chains of a fit ---------------------------------------------------------------


@pytest.fixture(scope="module", params=SAMPLERS)
def lengths(request):
    """Settings of a sampler, a short fit and a longer one, both by one worker."""
    settings = SAMPLERS[request.param]
    return (
        settings,
        quick(**settings, warm_start=True).fit(*moons()),
        quick(**settings, n_draws=MORE).fit(*moons()),
    )


@pytest.fixture(scope="module")
def short():
    return quick(warm_start=True).fit(*moons())


@pytest.fixture(scope="module")
def short_of_defaults():
    return quick(kernel=None, warm_start=True).fit(*moons())


@pytest.fixture(scope="module")
def long():
    return quick(n_draws=MANY).fit(*moons())


def test_a_fit_by_two_workers_continues_bit_for_bit(lengths):
    settings, _, whole = lengths
    model = quick(**settings, warm_start=True, n_jobs=2).fit(*moons())
    assert model.theta_samples_.shape == (2, SOME, 2)
    model.set_params(n_draws=MORE).fit(*moons())
    assert_same_fit(model, whole)


def test_a_pickled_fit_continues_bit_for_bit(lengths):
    _, short, whole = lengths
    model = twin(short).set_params(n_draws=MORE).fit(*moons())
    assert_same_fit(model, whole)
    assert short.theta_samples_.shape == (2, SOME, 2)


def test_fit_continued_several_times_equals_one_longer_fit(short, long):
    """Rounds that end elsewhere change nothing; several limits are met on the way."""
    model = twin(short)
    for n_draws in (SOME + 1, 20, MANY):
        model.set_params(n_draws=n_draws).fit(*moons())
        assert_same_draws(model, long, n_draws)
    assert_same_fit(model, long)


def test_fit_without_warm_start_can_be_continued(short, long):
    model = quick().fit(*moons())
    assert_same_fit(model, short)
    assert_same_fit(model.set_params(n_draws=MANY, warm_start=True).fit(*moons()), long)


@pytest.mark.parametrize(
    "anew", [lambda model: twin(model).set_params(warm_start=False), clone], ids=["off", "clone"]
)
def test_without_warm_start_and_in_a_clone_a_fit_begins_anew(anew, short):
    model = anew(short).fit(*moons())
    assert_same_fit(model, short)
    X, y = moons()
    assert anew(short).fit(X[:12], y[:12]).latent_samples_.shape == (2, SOME, 12)


@pytest.mark.parametrize("n_draws", [SOME, SOME // 2])
def test_warm_start_with_enough_draws_warns_and_changes_nothing(n_draws, short):
    model = twin(short).set_params(n_draws=n_draws)
    message = f"n_draws={n_draws}, and the chains already have {SOME} draws each.*Increase n_draws"
    with pytest.warns(UserWarning, match=message):
        model.fit(*moons())
    assert_same_fit(model, short)


@pytest.mark.parametrize(
    ("max_rhat", "target_ess"), [(50.0, 0.5), (1.05, 600.0)], ids=["met before", "not yet met"]
)
@pytest.mark.usefixtures("_full_rounds")
def test_warm_start_continues_to_a_target(max_rhat, target_ess, stopped):
    n_before = stopped.theta_samples_.shape[1]
    settings = {"max_rhat": max_rhat, "target_ess": target_ess, "warm_start": True}
    model = twin(stopped).set_params(**settings).fit(*moons())
    assert_same_draws(stopped, model, n_before)
    assert model.diagnostics_.converged(max_rhat, target_ess)
    n_draws = model.theta_samples_.shape[1]
    if target_ess < 450.0:
        assert n_draws <= n_before + FULL_LENGTH
    else:
        assert n_before < n_draws < 2000


@in_one_test(
    "change",
    [
        {"kernel": ConstantKernel() * Matern()},
        {"kernel": ConstantKernel(2.0) * RBF()},
        {"ard": True},
        {"priors": {"k2__length_scale": stats.gamma(2.0)}},
        {"likelihood": "logit"},
        {"likelihood": Logit()},
        {"sampler": "marginal"},
        {"sampler": PseudoMarginal(moves="random_walk", noise=0.2)},
        {"approximation": "ep"},
        {"approximation": Laplace(tol=1e-6)},
        {"n_importance": 16},
        {"n_chains": 3},
        {"n_warmup": N_TUNED + 1},
    ],
)
def test_warm_start_refuses_changed_settings_by_name(change, short_of_defaults):
    model = twin(short_of_defaults).set_params(n_draws=MORE, **change)
    (name,) = change
    message = rf"warm_start=True continues.*\['{name}'\] changed since: use warm_start=False"
    with unchanged(model), pytest.raises(ValueError, match=message):
        model.fit(*moons())


def test_warm_start_refuses_settings_changed_inside_an_object():
    sampler = PseudoMarginal(moves="random_walk")
    prior = {"k2__length_scale": stats.gamma(2.0)}
    model = quick(sampler=sampler, priors=prior, warm_start=True).fit(*moons())
    changed = twin(model).set_params(n_draws=MORE, sampler__defensive=0.2)
    with pytest.raises(ValueError, match=r"\['sampler'\] changed since"):
        changed.fit(*moons())
    for other in (stats.gamma(3.0), stats.gamma(2.0, scale=3.0)):
        prior["k2__length_scale"] = other
        with pytest.raises(ValueError, match=r"\['priors'\] changed since"):
            model.set_params(n_draws=MORE).fit(*moons())


@in_one_test(
    "kernel",
    [
        ConstantKernel(2.0) * RBF(0.7001, "fixed"),
        ConstantKernel(2.0001, "fixed") * RBF(0.7),
        ConstantKernel(2.0) * RBF(0.7),
    ],
    ids=["another fixed value", "another one fixed", "none fixed"],
)
def test_warm_start_refuses_a_kernel_with_the_same_text(kernel):
    """Neither what is fixed nor the fourth digit is in their texts."""
    model = quick(kernel=ConstantKernel(2.0) * RBF(0.7, "fixed"), warm_start=True).fit(*moons())
    assert repr(model.kernel) == repr(kernel)
    with pytest.raises(ValueError, match=r"\['kernel'\] changed since"):
        model.set_params(kernel=kernel, n_draws=MORE).fit(*moons())


def test_warm_start_accepts_equal_settings_in_other_objects():
    """Such as those of a clone, or of a fit that was pickled."""

    def settings():
        return {
            "kernel": ConstantKernel(2.0) * RBF([1.0, 1.0]),
            "priors": {"k2__length_scale": stats.gamma(2.0, scale=0.5)},
            "approximation": EP(tol=1e-3),
        }

    model = quick(**settings(), warm_start=True).fit(*moons())
    again = twin(model)
    for each in (model, again):
        each.set_params(**settings(), n_draws=MORE).fit(*moons())
        assert each.theta_samples_.shape == (2, MORE, 3)
    assert_same_draws(model, again)


def test_warm_start_accepts_changes_that_do_not_affect_draws(short, long):
    changes = {"n_jobs": 2, "max_predict_draws": 10, "max_rhat": 1.2, "random_state": 7}
    model = twin(short).set_params(n_draws=MORE, verbose=0, **changes).fit(*moons())
    assert_same_draws(model, long, MORE)
    assert model._predictor.theta.shape == (10, 2)


def other_data():
    X, y = moons()
    other_y = y.copy()
    other_y[3] = 1 - other_y[3]
    three = np.where(np.arange(len(y)) < 8, 2, y)
    return {
        "values": (X + 1e-9, y),
        "fewer rows": (X[:-1], y[:-1]),
        "targets in another order": (X, y[::-1]),
        "columns": (X[:, :1], y),
        "labels": (X, other_y),
        "flipped": (X, 1 - y),
        "three classes": (X, three),
    }


@in_one_test("case", other_data())
def test_warm_start_refuses_other_data(case, short):
    model = twin(short).set_params(n_draws=MORE)
    message = r"X or y differ.*use warm_start=False, or a fresh clone"
    with unchanged(model), pytest.raises(ValueError, match=message):
        model.fit(*other_data()[case])


@pytest.mark.parametrize("labels", [[5, 6], ["a", "b"]], ids=["numbers", "strings"])
def test_warm_start_accepts_renamed_classes(labels, short):
    """The targets are the same: the chains go on, and answers use the new names."""
    X, y = moons()
    model = twin(short).set_params(n_draws=SOME + 1).fit(X, np.array(labels)[y])
    assert_array_equal(model.classes_, labels)
    assert set(model.predict(X)) <= set(labels)


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.statistical)])
def test_one_vs_rest_continues_bit_for_bit(n_jobs):
    X, y = three_classes()
    whole = quick(n_draws=MORE).fit(X, y)
    model = quick(warm_start=True, n_jobs=n_jobs).fit(X, y)
    assert_same_fit(model.set_params(n_draws=MORE).fit(X, y), whole)
    again = twin(model).set_params(n_draws=MORE + 5, target_ess=1e9).fit(X, y)
    assert {part.theta_samples_.shape for part in again.estimators_} == {(2, MORE + 5, 2)}
    assert_same_draws(whole, again, MORE)
    with pytest.raises(ValueError, match="X or y differ"):
        model.set_params(n_draws=MANY).fit(X, np.where(y == 2, 0, y))


def test_no_class_makes_more_draws_than_n_draws(monkeypatch):
    """One has enough of them long before the others, and the fit is continued."""
    X, y = three_classes()
    model = quick(warm_start=True).fit(X, y)
    first = model.estimators_[0].theta_samples_[0, 0]

    def estimate_missing(goal, draws):
        return 0.0 if np.array_equal(draws[0, 0], first) else np.inf

    monkeypatch.setattr(ConvergenceGoal, "estimate_missing", estimate_missing)
    for most in (40, 60):
        model.set_params(n_draws=most, target_ess=400.0).fit(X, y)
        n_draws = [part.theta_samples_.shape[1] for part in parts_of(model)]
        assert n_draws[1:] == [most, most]
        assert n_draws[0] < most


@pytest.mark.parametrize("sampler", ["pm", "marginal"])
def test_warm_start_with_fixed_hyper_parameters_equals_one_longer_fit(sampler):
    kernel = ConstantKernel(4.0, "fixed") * RBF(0.7, "fixed")
    whole = quick(kernel=kernel, sampler=sampler, n_draws=MORE).fit(*moons())
    model = quick(kernel=kernel, sampler=sampler, warm_start=True).fit(*moons())
    assert_same_draws(model.set_params(n_draws=MORE).fit(*moons()), whole)


# --- interrupts and stop requests of a warm start -------------------------------------------------


@pytest.mark.parametrize("index", [0, 1])
def test_an_interrupt_of_a_warm_start_keeps_all_complete_rounds(index, short, long):
    n_kept = SOME + (index + 1) * ROUND_LENGTH
    model = twin(short).set_params(n_draws=MANY)
    model.set_callbacks(AtRound(index, interrupt))
    with pytest.warns(UserWarning, match=f"interrupted: the {n_kept} draws.*of {MANY} asked for"):
        model.fit(*moons())
    assert_same_draws(model, long, n_kept)
    # And can go on from there.
    model.set_callbacks()
    assert_same_fit(model.fit(*moons()), long)


@pytest.mark.parametrize(
    ("n_steps", "n_kept"),
    [(0, SOME), (ROUND_LENGTH, SOME), (2 * ROUND_LENGTH + 5, SOME + ROUND_LENGTH)],
)
def test_warm_start_interrupted_within_a_round_drops_and_repeats_the_round(
    n_steps, n_kept, short, long, monkeypatch
):
    """The round is dropped, random numbers included: later it is made again as it was."""
    left, step_many = n_steps, PseudoMarginalMetropolis.step_many

    def interrupted(self, model, states, rngs):
        nonlocal left
        if left <= 0:
            raise KeyboardInterrupt
        left -= len(states)
        return step_many(self, model, states, rngs)

    model = twin(short).set_params(n_draws=MANY)
    with monkeypatch.context() as patch:
        patch.setattr(PseudoMarginalMetropolis, "step_many", interrupted)
        with pytest.warns(UserWarning, match=f"interrupted: the {n_kept} draws per chain"):
            model.fit(*moons())
    assert_same_draws(model, long, n_kept)
    assert_same_fit(model.fit(*moons()), long)


def test_a_warm_start_that_fails_leaves_the_earlier_fit_as_it_was(short, long):
    model = twin(short).set_params(n_draws=MANY)
    model.set_callbacks(AtRound(1, lambda: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        model.fit(*moons())
    assert_same_draws(model, short)
    model.set_callbacks()
    assert_same_fit(model.fit(*moons()), long)


def test_continuing_one_copy_does_not_change_another(short, long):
    original = twin(short).set_params(n_draws=MANY)
    shallow = copy.copy(original)
    assert_same_fit(shallow.fit(*moons()), long)
    assert_same_draws(original, short)
    assert_same_fit(original.fit(*moons()), long)


def test_stop_request_ends_a_warm_start_after_a_round(short, long):
    model = twin(short).set_params(n_draws=MANY).set_callbacks(AtRound(0, lambda: True))
    assert_same_draws(model.fit(*moons()), long, SOME + ROUND_LENGTH)
    model.set_callbacks()
    assert_same_fit(model.fit(*moons()), long)


@pytest.mark.parametrize("sampler", ["pm", "random walk"])
def test_an_interrupted_fit_can_be_continued(sampler):
    settings = SAMPLERS[sampler]
    whole = quick(**settings, n_draws=MORE).fit(*moons())
    model = quick(**settings, n_draws=MORE, warm_start=True)
    kind = PseudoMarginal() if sampler == "pm" else WALK
    model.set_callbacks(AtRound(kind.n_set_up_rounds(model.n_warmup) + 1, interrupt))
    with pytest.warns(UserWarning, match=f"interrupted: the {2 * ROUND_LENGTH} draws"):
        model.fit(*moons())
    model.set_callbacks()
    assert_same_fit(model.fit(*moons()), whole)
