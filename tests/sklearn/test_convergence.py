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
from skgpmcmc.run import (
    ConvergenceGoal,
    chains,
    convergence,
    draws_wanted,
    n_rounds,
    summarize_convergence,
)
from skgpmcmc.run.convergence import MIN_ESS
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.transitions.pseudo_marginal import PseudoMarginalMetropolis

from ..helpers import in_one_test, rounds_of, short_chains

ROUND_LENGTH = 10  # where rounds are counted and what they hold does not matter
FULL_LENGTH = chains.ROUND_LENGTH  # where sampling ends at a target, also within a round
N_TUNED = 12
WALK = PseudoMarginal(moves="random_walk")

#: Samplers, and parameters that make them quick.
SAMPLERS = {
    "pm": {"sampler": "pm", "approximation": "auto", "n_warmup": 4},
    "random walk": {},
    "marginal": {"sampler": "marginal", "n_warmup": 4},
}


@pytest.fixture(scope="module", autouse=True)
def _short_rounds():
    with rounds_of(ROUND_LENGTH):
        yield


@pytest.fixture
def _full_rounds():
    with rounds_of(FULL_LENGTH):
        yield


def quick(**changes):
    settings = {"sampler": WALK, "approximation": "laplace", "n_importance": 4, "n_chains": 2}
    settings |= {"n_warmup": N_TUNED, "n_draws": SOME, "target_ess": None, "random_state": 0}
    return BayesianGPClassifier(**{**settings, **changes})


#: Draws of a fit that is continued, and of the fits that it becomes: none ends with a round.
SOME, MORE, MANY = 12, 25, 52


def moons():
    return make_moons(16, noise=0.3, random_state=0)


def three_classes():
    X, y = moons()
    return X, np.where(X[:, 0] > 1.2, 2, y)


def twin(model):
    """A copy that shares nothing with the original."""
    return pickle.loads(pickle.dumps(model))


def parts_of(model):
    return getattr(model, "estimators_", [model])


def assert_same_draws(a, b):
    for mine, other in zip(parts_of(a), parts_of(b), strict=True):
        assert_array_equal(mine.theta_samples_, other.theta_samples_)
        assert_array_equal(mine.latent_samples_, other.latent_samples_)


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


def test_sampling_ends_as_soon_as_the_target_is_reached(stopped):
    n_draws = stopped.theta_samples_.shape[1]
    assert FULL_LENGTH < n_draws < 2000
    assert stopped.latent_samples_.shape == (4, n_draws, 16)
    assert stopped.diagnostics_.ess_bulk.min() >= 450.0
    assert stopped.diagnostics_.ess_tail.min() >= 450.0
    assert stopped.diagnostics_.r_hat.max() <= 1.05
    assert stopped.diagnostics_.converged(1.05, 450.0)
    # A round earlier it was not.
    before = summarize_convergence(stopped.theta_samples_[:, :-FULL_LENGTH])
    least = min(before.ess_bulk.min(), before.ess_tail.min())
    assert least < 450.0 or before.r_hat.max() > 1.05


@pytest.mark.usefixtures("_full_rounds")
def test_draws_up_to_the_target_are_those_of_a_longer_run(stopped):
    n_draws = stopped.theta_samples_.shape[1]
    longer = quick(**EASY, n_draws=n_draws + FULL_LENGTH).fit(*moons())
    assert_array_equal(longer.theta_samples_[:, :n_draws], stopped.theta_samples_)
    assert_array_equal(longer.latent_samples_[:, :n_draws], stopped.latent_samples_)


def test_the_number_of_draws_is_an_upper_bound():
    model = quick(n_chains=4, n_draws=14, target_ess=1e6)
    with pytest.warns(ConvergenceWarning, match=r"effective sample size \d+ \(wanted: at least 10"):
        model.fit(*moons())
    assert model.theta_samples_.shape == (4, 14, 2)
    assert not model.diagnostics_.converged(1.05, 1e6)


@short_chains()
def test_the_warning_advises_what_helps():
    """A sampler that learns nothing is no match; more of the draws of others, if they agree."""
    with pytest.warns(ConvergenceWarning, match="use sampler='pm', which needs far fewer draws"):
        quick(n_draws=14).fit(*moons())
    model = quick(**SAMPLERS["pm"], n_draws=100, n_chains=4, target_ess=1e5)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(*moons())
    (said,) = (str(warning.message) for warning in caught)
    table = model.diagnostics_
    wanted = draws_wanted(table, 100, ConvergenceGoal(model.max_rhat, 1e5))
    least = min(table.ess_bulk.min(), table.ess_tail.min())
    assert f"n_draws={wanted} (warm_start=True continues these chains)" in said
    assert "sampler=" not in said
    assert 1e7 / least <= wanted


@pytest.mark.usefixtures("_full_rounds")
@short_chains()
def test_a_small_target_does_not_stop_before_the_least_of_all():
    """No run ends with fewer effective draws than a warning would ask for."""
    model = quick(**SAMPLERS["pm"], max_rhat=50.0, n_draws=400, target_ess=0.5).fit(*moons())
    assert model.theta_samples_.shape[1] < 400
    assert model.diagnostics_.converged(50.0)
    before = summarize_convergence(model.theta_samples_[:, :-FULL_LENGTH])
    assert min(before.ess_bulk.min(), before.ess_tail.min()) < MIN_ESS


def test_what_meets_the_goal():
    rng = np.random.default_rng(0)
    good, short = rng.standard_normal((4, 200, 2)), rng.standard_normal((4, 20, 2))
    apart = good + 3.0 * np.arange(4)[:, None, None]
    goal = ConvergenceGoal(1.05, 300.0)
    assert goal.estimate_missing(good) == 0.0
    assert goal.estimate_missing(short) > 0.0
    assert goal.estimate_missing(apart) > 10.0
    assert 0.0 < ConvergenceGoal(1.05, 2000.0).estimate_missing(good) < np.inf
    assert goal.estimate_missing(np.zeros((4, 200, 1))) == np.inf  # chains that do not move
    assert goal.estimate_missing(rng.standard_normal((4, 0, 2))) == np.inf
    assert goal.estimate_missing(np.empty((4, 50, 0))) == 0.0  # nothing to wait for


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.statistical)])
@pytest.mark.usefixtures("_full_rounds")
@short_chains()
def test_every_model_settles_and_ends_for_itself(n_jobs, monkeypatch):
    """The draws of one class against the rest are those of that problem alone."""
    X, y = three_classes()
    monkeypatch.setattr(convergence, "MIN_ESS", 20.0)  # so that few draws are enough
    rule = {"n_draws": 1000, "target_ess": 80.0, "max_rhat": 1.2, "n_importance": 16}
    model = quick(sampler="pm", n_warmup="auto", **rule, n_jobs=n_jobs).fit(X, y)
    lengths = [binary.theta_samples_.shape[1] for binary in model.estimators_]
    assert min(lengths) < max(lengths) < 1000
    assert model.n_iter_ == max(binary.n_iter_ for binary in model.estimators_)
    for binary in model.estimators_:
        assert binary.diagnostics_.converged(1.2, 80.0)
        before = summarize_convergence(binary.theta_samples_[:, :-FULL_LENGTH])
        least = min(before.ess_bulk.min(), before.ess_tail.min())
        assert least < 80.0 or before.r_hat.max() > 1.2
    n_draws = max(lengths) + 5
    before = [binary.theta_samples_ for binary in model.estimators_]
    model.set_params(warm_start=True, target_ess=None, n_draws=n_draws).fit(X, y)
    for theta, binary in zip(before, model.estimators_, strict=True):
        assert binary.theta_samples_.shape[1] == n_draws
        assert_array_equal(binary.theta_samples_[:, : theta.shape[1]], theta)


def test_what_has_not_converged_by_either_measure(short):
    table = copy.copy(short.diagnostics_)
    vars(table).update(
        r_hat=np.array([1.0, 1.0]),
        ess_bulk=np.array([300.0, 500.0]),
        ess_tail=np.array([400.0] * 2),
    )
    assert table.rows_short_of(ConvergenceGoal(1.01)) == []
    assert table.rows_short_of(ConvergenceGoal(1.01, 400.0)) == [0]
    assert table.rows_short_of(ConvergenceGoal(1.01, 600.0)) == [0, 1]
    vars(table).update(ess_tail=np.array([400.0, MIN_ESS - 1.0]))
    assert table.rows_short_of(ConvergenceGoal(1.01)) == [1]
    vars(table).update(r_hat=np.array([1.02, 1.0]))
    assert table.rows_short_of(ConvergenceGoal(1.01)) == [0, 1]


# --- continuing the chains of a fit ---------------------------------------------------------------


@pytest.fixture(scope="module", params=SAMPLERS)
@short_chains()
def lengths(request):
    """Settings of a sampler, a short fit and a longer one, both by one worker."""
    settings = SAMPLERS[request.param]
    return (
        settings,
        quick(**settings, warm_start=True).fit(*moons()),
        quick(**settings, n_draws=MORE).fit(*moons()),
    )


@pytest.fixture(scope="module")
@short_chains()
def short():
    return quick(warm_start=True).fit(*moons())


@pytest.fixture(scope="module")
@short_chains()
def long():
    return quick(n_draws=MANY).fit(*moons())


@short_chains()
def test_a_fit_by_two_workers_continues_bit_for_bit(lengths):
    settings, _, whole = lengths
    model = quick(**settings, warm_start=True, n_jobs=2).fit(*moons())
    assert model.theta_samples_.shape == (2, SOME, 2)
    model.set_params(n_draws=MORE).fit(*moons())
    assert_same_fit(model, whole)


@short_chains()
def test_a_pickled_fit_continues_bit_for_bit(lengths):
    _, short, whole = lengths
    model = twin(short).set_params(n_draws=MORE).fit(*moons())
    assert_same_fit(model, whole)
    assert short.theta_samples_.shape == (2, SOME, 2)


@short_chains()
def test_a_fit_continues_many_times(short, long):
    """Rounds that end elsewhere change nothing; several limits are met on the way."""
    model = twin(short)
    for n_draws in (SOME + 1, 20, MANY):
        model.set_params(n_draws=n_draws).fit(*moons())
        assert_array_equal(model.theta_samples_, long.theta_samples_[:, :n_draws])
        assert_array_equal(model.latent_samples_, long.latent_samples_[:, :n_draws])
    assert_same_fit(model, long)


@short_chains()
def test_warm_start_without_an_earlier_fit_is_an_ordinary_one(short):
    assert_same_fit(quick().fit(*moons()), short)


@short_chains()
def test_a_fit_made_without_warm_start_can_be_continued(long):
    model = quick().fit(*moons())
    assert_same_fit(model.set_params(n_draws=MANY, warm_start=True).fit(*moons()), long)


@short_chains()
def test_without_warm_start_a_fit_begins_anew(short):
    model = twin(short).set_params(warm_start=False)
    assert_same_fit(model.fit(*moons()), short)
    X, y = moons()
    assert model.fit(X[:12], y[:12]).latent_samples_.shape == (2, SOME, 12)


@short_chains()
def test_a_clone_does_not_continue(short):
    X, y = moons()
    assert_same_draws(clone(short).fit(X, y), short)
    assert clone(short).fit(X[:12], y[:12]).latent_samples_.shape == (2, SOME, 12)


@pytest.mark.parametrize("n_draws", [SOME, SOME // 2])
@short_chains()
def test_nothing_to_add_is_a_warning_and_no_change(n_draws, short):
    model = twin(short).set_params(n_draws=n_draws)
    message = f"n_draws={n_draws}, and the chains already have {SOME} draws each.*Increase n_draws"
    with pytest.warns(UserWarning, match=message) as caught:
        model.fit(*moons())
    assert [w.filename for w in caught if "already" in str(w.message)] == [__file__]
    assert_same_fit(model, short)


@pytest.mark.usefixtures("_full_rounds")
def test_a_target_that_has_been_reached_adds_a_round_at_most(stopped):
    n_before = stopped.theta_samples_.shape[1]
    model = twin(stopped).set_params(target_ess=0.5, max_rhat=50.0, warm_start=True).fit(*moons())
    n_draws = model.theta_samples_.shape[1]
    assert n_before <= n_draws <= n_before + FULL_LENGTH
    assert_array_equal(model.theta_samples_[:, :n_before], stopped.theta_samples_)


@pytest.mark.usefixtures("_full_rounds")
def test_a_fit_continues_to_a_target(stopped):
    before = stopped.theta_samples_
    n_before = before.shape[1]
    model = twin(stopped).set_params(target_ess=600.0, warm_start=True).fit(*moons())
    n_draws = model.theta_samples_.shape[1]
    assert n_before < n_draws < 2000
    assert_array_equal(model.theta_samples_[:, :n_before], before)
    assert model.diagnostics_.converged(1.05, 600.0)


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
def test_other_settings_are_refused_by_name(change, short):
    model = twin(short).set_params(n_draws=MORE, **change)
    before = dict(vars(model))
    (name,) = change
    message = rf"warm_start=True continues.*\['{name}'\] changed since: use warm_start=False"
    with pytest.raises(ValueError, match=message):
        model.fit(*moons())
    assert list(vars(model)) == list(before)
    assert all(vars(model)[key] is value for key, value in before.items())


@short_chains()
def test_settings_changed_inside_an_object_are_refused_too():
    sampler = PseudoMarginal(moves="random_walk")
    model = quick(sampler=sampler, warm_start=True).fit(*moons())
    model.set_params(n_draws=MORE, sampler__defensive=0.2)
    with pytest.raises(ValueError, match=r"\['sampler'\] changed since"):
        model.fit(*moons())
    prior = {"k2__length_scale": stats.gamma(2.0)}
    model = quick(priors=prior, warm_start=True).fit(*moons())
    for other in (stats.gamma(3.0), stats.gamma(2.0, scale=3.0)):
        prior["k2__length_scale"] = other
        with pytest.raises(ValueError, match=r"\['priors'\] changed since"):
            model.set_params(n_draws=MORE).fit(*moons())


@pytest.fixture(scope="module")
@short_chains()
def partly_fixed():
    return quick(kernel=ConstantKernel(2.0) * RBF(0.7, "fixed"), warm_start=True).fit(*moons())


@in_one_test(
    "kernel",
    [
        ConstantKernel(2.0) * RBF(0.7001, "fixed"),
        ConstantKernel(2.0001, "fixed") * RBF(0.7),
        ConstantKernel(2.0) * RBF(0.7),
    ],
    ids=["another fixed value", "another one fixed", "none fixed"],
)
def test_kernels_that_only_look_alike_are_told_apart(kernel, partly_fixed):
    """Neither what is fixed nor the fourth digit is in their texts."""
    assert repr(partly_fixed.kernel) == repr(kernel)
    model = twin(partly_fixed).set_params(kernel=kernel, n_draws=MORE)
    with pytest.raises(ValueError, match=r"\['kernel'\] changed since"):
        model.fit(*moons())


@short_chains()
def test_equal_settings_in_other_objects_are_the_same():
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


@short_chains()
def test_settings_that_the_draws_do_not_depend_on_may_change(short, long):
    changes = {"n_jobs": 2, "max_predict_draws": 10, "max_rhat": 1.2, "random_state": 7}
    model = twin(short).set_params(n_draws=MORE, verbose=0, **changes).fit(*moons())
    assert_array_equal(model.theta_samples_, long.theta_samples_[:, :MORE])
    assert_array_equal(model.latent_samples_, long.latent_samples_[:, :MORE])
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
def test_other_data_is_refused(case, short):
    model = twin(short).set_params(n_draws=MORE)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=r"X or y differ.*use warm_start=False, or a fresh clone"):
        model.fit(*other_data()[case])
    assert list(vars(model)) == list(before)
    assert all(vars(model)[key] is value for key, value in before.items())


@pytest.mark.parametrize("labels", [[5, 6], ["a", "b"]], ids=["numbers", "strings"])
@short_chains()
def test_other_names_of_the_same_classes_rename_them(labels, short):
    """The targets are the same: the chains go on, and answers use the new names."""
    X, y = moons()
    model = twin(short).set_params(n_draws=SOME + 1).fit(X, np.array(labels)[y])
    assert_array_equal(model.classes_, labels)
    assert set(model.predict(X)) <= set(labels)


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.statistical)])
@short_chains()
def test_one_vs_rest_continues_bit_for_bit(n_jobs):
    X, y = three_classes()
    whole = quick(n_draws=MORE).fit(X, y)
    model = quick(warm_start=True, n_jobs=n_jobs).fit(X, y)
    assert_same_fit(model.set_params(n_draws=MORE).fit(X, y), whole)
    again = twin(model).set_params(n_draws=MORE + 5, target_ess=1e9).fit(X, y)
    for part, before in zip(again.estimators_, whole.estimators_, strict=True):
        assert part.theta_samples_.shape == (2, MORE + 5, 2)
        assert_array_equal(part.theta_samples_[:, :MORE], before.theta_samples_)
    with pytest.raises(ValueError, match="X or y differ"):
        model.set_params(n_draws=MANY).fit(X, np.where(y == 2, 0, y))


@short_chains()
def test_no_class_makes_more_draws_than_it_may(monkeypatch):
    """One has enough of them long before the others, and the fit is continued."""
    X, y = three_classes()
    model = quick(warm_start=True).fit(X, y)
    first = model.estimators_[0].theta_samples_[0, 0]

    def estimate_missing(goal, draws):
        return 0.0 if np.array_equal(draws[0, 0], first) else np.inf

    monkeypatch.setattr(ConvergenceGoal, "estimate_missing", estimate_missing)
    for most in (40, 60):
        model.set_params(n_draws=most, target_ess=400.0).fit(X, y)
        n_draws = [part.theta_samples_.shape[1] for part in model.estimators_]
        assert n_draws[1:] == [most, most]
        assert n_draws[0] < most


@pytest.mark.parametrize("sampler", ["pm", "marginal"])
def test_fixed_hyper_parameters_continue_too(sampler):
    kernel = ConstantKernel(4.0, "fixed") * RBF(0.7, "fixed")
    whole = quick(kernel=kernel, sampler=sampler, n_draws=MORE).fit(*moons())
    model = quick(kernel=kernel, sampler=sampler, warm_start=True).fit(*moons())
    assert_same_draws(model.set_params(n_draws=MORE).fit(*moons()), whole)


# --- interrupts and stop requests -----------------------------------------------------------------


class Watcher:
    """Does something at the end of a given round of the first chain."""

    def __init__(self, index, action):
        self.index, self.action = index, action
        self.announced = []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        if context.task_name == "chain":
            self.announced.append(context.max_subtasks)

    def on_fit_task_end(self, estimator, context):
        if not context.task_name.startswith("round") or (
            context.parent.task_id,
            context.task_id,
        ) != (
            0,
            self.index,
        ):
            return None
        return self.action()


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("index", [0, 1])
@short_chains()
def test_an_interrupt_of_a_warm_start_keeps_all_complete_rounds(index, short, long):
    n_kept = SOME + (index + 1) * ROUND_LENGTH
    model = twin(short).set_params(n_draws=MANY)
    model.set_callbacks(Watcher(index, interrupt))
    with pytest.warns(UserWarning, match=f"interrupted: the {n_kept} draws.*of {MANY} asked for"):
        model.fit(*moons())
    assert model.theta_samples_.shape == (2, n_kept, 2)
    assert_array_equal(model.theta_samples_, long.theta_samples_[:, :n_kept])
    assert_array_equal(model.latent_samples_, long.latent_samples_[:, :n_kept])
    # And can go on from there.
    model.set_callbacks()
    assert_same_fit(model.fit(*moons()), long)


@pytest.mark.parametrize(
    ("n_steps", "n_kept"),
    [(0, SOME), (ROUND_LENGTH, SOME), (2 * ROUND_LENGTH + 5, SOME + ROUND_LENGTH)],
)
@short_chains()
def test_an_interrupt_within_a_round_of_a_warm_start(n_steps, n_kept, short, long, monkeypatch):
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
    assert_array_equal(model.theta_samples_, long.theta_samples_[:, :n_kept])
    assert_array_equal(model.latent_samples_, long.latent_samples_[:, :n_kept])
    assert_same_fit(model.fit(*moons()), long)


@short_chains()
def test_a_warm_start_that_fails_leaves_the_earlier_fit_as_it_was(short, long):
    def fail():
        raise ZeroDivisionError

    model = twin(short).set_params(n_draws=MANY)
    model.set_callbacks(Watcher(1, fail))
    with pytest.raises(ZeroDivisionError):
        model.fit(*moons())
    assert_same_draws(model, short)
    model.set_callbacks()
    assert_same_fit(model.fit(*moons()), long)


@short_chains()
def test_continuing_one_copy_does_not_change_another(short, long):
    original = twin(short).set_params(n_draws=MANY)
    shallow = copy.copy(original)
    assert_same_fit(shallow.fit(*moons()), long)
    assert_same_draws(original, short)
    assert_same_fit(original.fit(*moons()), long)


@short_chains()
def test_a_stop_request_of_a_warm_start(short, long):
    watcher = Watcher(0, lambda: True)
    model = twin(short).set_params(n_draws=MANY).set_callbacks(watcher)
    model.fit(*moons())
    assert_array_equal(model.theta_samples_, long.theta_samples_[:, : SOME + ROUND_LENGTH])
    assert watcher.announced == [n_rounds(MANY - SOME)] * 2  # no set-up again
    model.set_callbacks()
    assert_same_fit(model.fit(*moons()), long)


@pytest.mark.parametrize("sampler", ["pm", "random walk"])
@short_chains()
def test_an_interrupted_fit_can_be_continued(sampler):
    settings = SAMPLERS[sampler]
    whole = quick(**settings, n_draws=MORE).fit(*moons())
    model = quick(**settings, n_draws=MORE, warm_start=True)
    kind = PseudoMarginal() if sampler == "pm" else WALK
    model.set_callbacks(Watcher(kind.n_set_up_rounds(model.n_warmup) + 1, interrupt))
    with pytest.warns(UserWarning, match=f"interrupted: the {2 * ROUND_LENGTH} draws"):
        model.fit(*moons())
    model.set_callbacks()
    assert_same_fit(model.fit(*moons()), whole)
