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
from skgpmcmc.approximations import EP
from skgpmcmc.likelihoods import Logit
from skgpmcmc.run import StoppingRule, n_rounds, summarize_convergence
from skgpmcmc.run.chains import ROUND_LENGTH
from skgpmcmc.run.diagnostics import MIN_ESS
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.transitions import Mixture
from skgpmcmc.warmup import emulated

from ..helpers import short_chains

#: Samplers, and parameters that make them quick.
SAMPLERS = {
    "pm": {},
    "random walk": {"sampler": PseudoMarginal(moves="random_walk"), "n_warmup": 30},
    "marginal": {"sampler": "marginal", "n_warmup": 30},
}
every_sampler = pytest.mark.parametrize("settings", SAMPLERS.values(), ids=SAMPLERS.keys())


def quick(**changes):
    settings = {"n_chains": 2, "n_warmup": 10, "n_importance": 8, "target_ess": None}
    settings["random_state"] = 0
    return BayesianGPClassifier(**{**settings, **changes})


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
    "priors": {"k1__constant_value": stats.lognorm(0.5), "k2__length_scale": stats.lognorm(0.3)},
    "n_importance": "auto",
    "n_chains": 4,
    "max_rhat": 1.05,
}


@pytest.fixture(scope="module")
def stopped():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        return quick(**EASY, n_draws=2000, target_ess=450.0).fit(*moons())


def test_sampling_ends_as_soon_as_the_target_is_reached(stopped):
    n_draws = stopped.theta_samples_.shape[1]
    assert ROUND_LENGTH < n_draws < 2000
    assert stopped.latent_samples_.shape == (4, n_draws, 16)
    assert stopped.diagnostics_.ess_bulk.min() >= 450.0
    assert stopped.diagnostics_.ess_tail.min() >= 450.0
    assert stopped.diagnostics_.r_hat.max() <= 1.05
    assert stopped.diagnostics_.converged(1.05, 450.0)
    # A round earlier it was not.
    before = summarize_convergence(stopped.theta_samples_[:, :-ROUND_LENGTH])
    least = min(before.ess_bulk.min(), before.ess_tail.min())
    assert least < 450.0 or before.r_hat.max() > 1.05


def test_draws_up_to_the_target_are_those_of_a_longer_run(stopped):
    n_draws = stopped.theta_samples_.shape[1]
    longer = quick(**EASY, n_draws=n_draws + ROUND_LENGTH).fit(*moons())
    assert_array_equal(longer.theta_samples_[:, :n_draws], stopped.theta_samples_)
    assert_array_equal(longer.latent_samples_[:, :n_draws], stopped.latent_samples_)


def test_the_number_of_draws_is_an_upper_bound():
    model = quick(**EASY, n_draws=70, target_ess=1e6)
    with pytest.warns(ConvergenceWarning, match=r"effective sample size \d+ \(wanted: at least 10"):
        model.fit(*moons())
    assert model.theta_samples_.shape == (4, 70, 2)
    assert not model.diagnostics_.converged(1.05, 1e6)


@every_sampler
@short_chains()
def test_a_small_target_does_not_stop_before_the_least_of_all(settings):
    """No run ends with fewer effective draws than a warning would ask for."""
    limit = 6 * ROUND_LENGTH
    model = quick(**settings, max_rhat=50.0, n_draws=limit, target_ess=0.5).fit(*moons())
    n_draws = model.theta_samples_.shape[1]
    assert n_draws == limit or model.diagnostics_.converged(50.0)
    before = summarize_convergence(model.theta_samples_[:, :-ROUND_LENGTH])
    assert min(before.ess_bulk.min(), before.ess_tail.min()) < MIN_ESS


@pytest.mark.statistical
@pytest.mark.parametrize("n_jobs", [pytest.param(1, marks=pytest.mark.statistical), 2])
@short_chains()
def test_every_class_stops_as_soon_as_it_may(n_jobs):
    rule = {"n_draws": 400, "target_ess": 110.0, "max_rhat": 1.2, "n_importance": "auto"}
    model = quick(**rule, n_jobs=n_jobs).fit(*three_classes())
    for binary in model.estimators_:
        assert binary.theta_samples_.shape[1] < 400
        assert binary.diagnostics_.converged(1.2, 110.0)
        before = summarize_convergence(binary.theta_samples_[:, :-ROUND_LENGTH])
        least = min(before.ess_bulk.min(), before.ess_tail.min())
        assert least < 110.0 or before.r_hat.max() > 1.2


def test_what_meets_the_rule():
    rng = np.random.default_rng(0)
    good, short = rng.standard_normal((4, 200, 2)), rng.standard_normal((4, 20, 2))
    apart = good + 3.0 * np.arange(4)[:, None, None]
    rule = StoppingRule(300.0, 1.05)
    assert rule.missing(good) == 0.0
    assert rule.missing(short) > 0.0
    assert rule.missing(apart) > 10.0
    assert 0.0 < StoppingRule(2000.0, 1.05).missing(good) < np.inf
    assert rule.missing(np.zeros((4, 200, 1))) == np.inf  # chains that do not move
    assert rule.missing(rng.standard_normal((4, 0, 2))) == np.inf
    assert rule.missing(np.empty((4, 50, 0))) == 0.0  # nothing to wait for


@short_chains()
def test_every_model_ends_for_itself():
    """The draws of one class against the rest are those of that problem alone."""
    X, y = moons()
    y = np.where(X[:, 0] > 1.2, 2, y)
    settings = {"n_draws": 2000, "target_ess": 400.0, "max_rhat": 1.05, "random_state": 0}
    model = BayesianGPClassifier(**settings).fit(X, y)
    lengths = [binary.theta_samples_.shape[1] for binary in model.estimators_]
    assert min(lengths) < max(lengths) < 2000
    assert model.n_iter_ == max(binary.n_iter_ for binary in model.estimators_)
    for binary in model.estimators_:
        assert binary.diagnostics_.converged(1.05, 400.0)
    n_draws = max(lengths) + 20
    before = [binary.theta_samples_ for binary in model.estimators_]
    model.set_params(warm_start=True, target_ess=None, n_draws=n_draws).fit(X, y)
    for theta, binary in zip(before, model.estimators_, strict=True):
        assert binary.theta_samples_.shape[1] == n_draws
        assert_array_equal(binary.theta_samples_[:, : theta.shape[1]], theta)


def test_what_has_not_converged_by_either_measure():
    model = quick(**EASY, n_draws=ROUND_LENGTH, target_ess=None).fit(*moons())
    diagnostics = copy.copy(model.diagnostics_)
    vars(diagnostics).update(
        r_hat=np.array([1.0, 1.0]),
        ess_bulk=np.array([300.0, 500.0]),
        ess_tail=np.array([400.0] * 2),
    )
    assert diagnostics.not_converged(1.01) == []
    assert diagnostics.not_converged(1.01, 400.0) == [0]
    assert diagnostics.not_converged(1.01, 600.0) == [0, 1]
    vars(diagnostics).update(ess_tail=np.array([400.0, MIN_ESS - 1.0]))
    assert diagnostics.not_converged(1.01) == [1]
    vars(diagnostics).update(r_hat=np.array([1.02, 1.0]))
    assert diagnostics.not_converged(1.01) == [0, 1]


# --- continuing the chains of a fit ---------------------------------------------------------------


@pytest.fixture(scope="module", params=SAMPLERS)
@short_chains()
def lengths(request):
    """Settings of a sampler, a fit of 60 draws and one of 120, both by one worker."""
    settings = SAMPLERS[request.param]
    return (
        settings,
        quick(**settings, n_draws=60, warm_start=True).fit(*moons()),
        quick(**settings, n_draws=120).fit(*moons()),
    )


@short_chains()
def test_a_fit_by_two_workers_continues_bit_for_bit(lengths):
    settings, _, whole = lengths
    model = quick(**settings, n_draws=60, warm_start=True, n_jobs=2).fit(*moons())
    assert model.theta_samples_.shape == (2, 60, 2)
    model.set_params(n_draws=120).fit(*moons())
    assert_same_fit(model, whole)


@pytest.mark.parametrize("n_jobs", [1, 2])
@short_chains()
def test_a_pickled_fit_continues_bit_for_bit(n_jobs, lengths):
    _, short, whole = lengths
    model = twin(short).set_params(n_draws=120, n_jobs=n_jobs).fit(*moons())
    assert_same_fit(model, whole)
    assert short.theta_samples_.shape == (2, 60, 2)


@short_chains()
def test_a_fit_continues_many_times(lengths):
    """Rounds that end elsewhere change nothing; several limits are met on the way."""
    _, short, whole = lengths
    model = twin(short)
    for n_draws in (61, 80, 120):
        model.set_params(n_draws=n_draws).fit(*moons())
        assert_array_equal(model.theta_samples_, whole.theta_samples_[:, :n_draws])
        assert_array_equal(model.latent_samples_, whole.latent_samples_[:, :n_draws])
    assert_same_fit(model, whole)


@short_chains()
def test_warm_start_without_an_earlier_fit_is_an_ordinary_one(lengths):
    settings, short, _ = lengths
    assert_same_fit(quick(**settings, n_draws=60).fit(*moons()), short)


@short_chains()
def test_a_fit_made_without_warm_start_can_be_continued(lengths):
    settings, _, whole = lengths
    model = quick(**settings, n_draws=60).fit(*moons())
    assert_same_fit(model.set_params(n_draws=120, warm_start=True).fit(*moons()), whole)


@short_chains()
def test_without_warm_start_a_fit_begins_anew(lengths):
    _, short, _ = lengths
    model = twin(short).set_params(warm_start=False)
    assert_same_fit(model.fit(*moons()), short)
    X, y = moons()
    assert model.fit(X[:12], y[:12]).latent_samples_.shape == (2, 60, 12)


@pytest.fixture(scope="module")
@short_chains()
def short():
    return quick(n_draws=60, warm_start=True).fit(*moons())


@short_chains()
def test_a_clone_does_not_continue(short):
    X, y = moons()
    assert_same_draws(clone(short).fit(X, y), short)
    assert clone(short).fit(X[:12], y[:12]).latent_samples_.shape == (2, 60, 12)


@pytest.mark.parametrize("n_draws", [60, 30])
@short_chains()
def test_nothing_to_add_is_a_warning_and_no_change(n_draws, short):
    model = twin(short).set_params(n_draws=n_draws)
    message = f"n_draws={n_draws}, and the chains already have 60 draws each.*Increase n_draws"
    with pytest.warns(UserWarning, match=message) as caught:
        model.fit(*moons())
    assert [w.filename for w in caught if "already" in str(w.message)] == [__file__]
    assert_same_fit(model, short)


def test_a_target_that_has_been_reached_adds_a_round_at_most():
    long = quick(**EASY, n_draws=260).fit(*moons())
    assert long.diagnostics_.converged(50.0)
    model = twin(long).set_params(n_draws=500, target_ess=0.5, max_rhat=50.0, warm_start=True)
    model.fit(*moons())
    n_draws = model.theta_samples_.shape[1]
    assert n_draws <= 260 + ROUND_LENGTH
    assert_array_equal(model.theta_samples_[:, :260], long.theta_samples_)


def test_a_fit_continues_to_a_target():
    model = quick(**EASY, n_draws=100, target_ess=None, warm_start=True).fit(*moons())
    before = model.theta_samples_
    model.set_params(n_draws=2000, target_ess=400.0).fit(*moons())
    n_draws = model.theta_samples_.shape[1]
    assert 100 < n_draws < 2000
    assert_array_equal(model.theta_samples_[:, :100], before)
    assert model.diagnostics_.converged(1.05, 400.0)


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": ConstantKernel() * Matern()},
        {"kernel": ConstantKernel(2.0) * RBF()},
        {"ard": True},
        {"priors": {"k2__length_scale": stats.gamma(2.0)}},
        {"likelihood": "logit"},
        {"likelihood": Logit()},
        {"sampler": "marginal"},
        {"sampler": PseudoMarginal(noise=0.2)},
        {"approximation": "laplace"},
        {"approximation": EP(tol=1e-6)},
        {"n_importance": 16},
        {"n_chains": 3},
        {"n_warmup": 11},
    ],
    ids=lambda change: "-".join(map(str, change)),
)
def test_other_settings_are_refused_by_name(change, short):
    model = twin(short).set_params(n_draws=100, **change)
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
    model = quick(sampler=sampler, n_draws=10, warm_start=True).fit(*moons())
    model.set_params(n_draws=20, sampler__defensive=0.2)
    with pytest.raises(ValueError, match=r"\['sampler'\] changed since"):
        model.fit(*moons())
    prior = {"k2__length_scale": stats.gamma(2.0)}
    model = quick(priors=prior, sampler="marginal", n_draws=10, warm_start=True).fit(*moons())
    prior["k2__length_scale"] = stats.gamma(3.0)
    with pytest.raises(ValueError, match=r"\['priors'\] changed since"):
        model.set_params(n_draws=20).fit(*moons())


@pytest.mark.parametrize(
    "kernel",
    [
        ConstantKernel(2.0) * RBF(0.7001, "fixed"),
        ConstantKernel(2.0001, "fixed") * RBF(0.7),
        ConstantKernel(2.0) * RBF(0.7),
    ],
    ids=["another fixed value", "another one fixed", "none fixed"],
)
@short_chains()
def test_kernels_that_only_look_alike_are_told_apart(kernel):
    """Neither what is fixed nor the fourth digit is in their texts."""
    first = ConstantKernel(2.0) * RBF(0.7, "fixed")
    assert repr(first) == repr(kernel)
    model = quick(kernel=first, sampler="marginal", n_draws=10, warm_start=True).fit(*moons())
    model.set_params(kernel=kernel, n_draws=20)
    with pytest.raises(ValueError, match=r"\['kernel'\] changed since"):
        model.fit(*moons())


@pytest.mark.parametrize("sampler", ["marginal"])
@short_chains()
def test_equal_settings_in_other_objects_are_the_same(sampler):
    """Such as those of a clone, or of a fit that was pickled."""

    def settings():
        return {
            "kernel": ConstantKernel(2.0) * RBF([1.0, 1.0]),
            "priors": {"k2__length_scale": stats.gamma(2.0, scale=0.5)},
            "approximation": EP(tol=1e-3),
        }

    model = quick(**settings(), sampler=sampler, n_draws=10, warm_start=True).fit(*moons())
    again = twin(model)
    for each in (model, again):
        each.set_params(**settings(), n_draws=20).fit(*moons())
        assert each.theta_samples_.shape == (2, 20, 3)
    assert_same_draws(model, again)


@short_chains()
def test_settings_that_the_draws_do_not_depend_on_may_change(short):
    model = twin(short).set_params(
        n_draws=80, n_jobs=2, max_predict_draws=10, max_rhat=1.2, verbose=0, random_state=7
    )
    model.fit(*moons())
    assert_array_equal(model.theta_samples_[:, :60], short.theta_samples_)
    assert model._predictor.theta.shape == (10, 2)


def other_data():
    X, y = moons()
    other_y = y.copy()
    other_y[3] = 1 - other_y[3]
    three = np.where(np.arange(len(y)) < 8, 2, y)
    return {
        "values": (X + 1e-9, y),
        "fewer rows": (X[:-1], y[:-1]),
        "order": (X[::-1], y[::-1]),
        "columns": (X[:, :1], y),
        "labels": (X, other_y),
        "flipped": (X, 1 - y),
        "three classes": (X, three),
    }


@pytest.mark.parametrize("case", other_data())
def test_other_data_is_refused(case, short):
    model = twin(short).set_params(n_draws=100)
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
    model = twin(short).set_params(n_draws=70).fit(X, np.array(labels)[y])
    assert_array_equal(model.classes_, labels)
    assert set(model.predict(X)) <= set(labels)


@pytest.mark.statistical
@pytest.mark.parametrize("n_jobs", [1, 2])
@short_chains()
def test_one_vs_rest_continues_bit_for_bit(n_jobs):
    X, y = three_classes()
    walk = SAMPLERS["random walk"]
    whole = quick(**walk, n_draws=80).fit(X, y)
    model = quick(**walk, n_draws=30, warm_start=True, n_jobs=n_jobs).fit(X, y)
    assert_same_fit(model.set_params(n_draws=80).fit(X, y), whole)
    again = twin(model).set_params(n_draws=100, target_ess=1e9).fit(X, y)
    for part, before in zip(again.estimators_, whole.estimators_, strict=True):
        assert part.theta_samples_.shape == (2, 100, 2)
        assert_array_equal(part.theta_samples_[:, :80], before.theta_samples_)
    with pytest.raises(ValueError, match="X or y differ"):
        model.set_params(n_draws=200).fit(X, np.where(y == 2, 0, y))


@short_chains()
def test_iterations_of_a_class_are_its_own(monkeypatch):
    """Each settles for as long as its emulator needs."""
    lengths = iter((5, 6, 7))
    monkeypatch.setattr(emulated, "to_settle", lambda *_: next(lengths))
    model = quick(n_warmup="auto", n_draws=10).fit(*three_classes())
    assert sorted(part.n_iter_ for part in model.estimators_) == [15, 16, 17]


@short_chains()
def test_no_class_makes_more_draws_than_it_may(monkeypatch):
    """One has enough of them long before the others, and the fit is continued."""
    X, y = three_classes()
    model = quick(**SAMPLERS["random walk"], n_draws=40, warm_start=True).fit(X, y)
    first = model.estimators_[0].theta_samples_[0, 0]

    def missing(rule, draws):
        return 0.0 if np.array_equal(draws[0, 0], first) else np.inf

    monkeypatch.setattr(StoppingRule, "missing", missing)
    for most in (200, 300):
        model.set_params(n_draws=most, target_ess=400.0).fit(X, y)
        n_draws = [part.theta_samples_.shape[1] for part in model.estimators_]
        assert n_draws[1:] == [most, most]
        assert n_draws[0] < most


@pytest.mark.parametrize("sampler", ["pm", "marginal"])
def test_fixed_hyper_parameters_continue_too(sampler):
    kernel = ConstantKernel(4.0, "fixed") * RBF(0.7, "fixed")
    whole = quick(kernel=kernel, sampler=sampler, n_draws=80).fit(*moons())
    model = quick(kernel=kernel, sampler=sampler, n_draws=30, warm_start=True).fit(*moons())
    assert_same_draws(model.set_params(n_draws=80).fit(*moons()), whole)


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


@pytest.fixture(scope="module")
@short_chains()
def long():
    return quick(n_draws=260).fit(*moons())


@pytest.mark.parametrize("index", [0, 1])
@short_chains()
def test_an_interrupt_of_a_warm_start_keeps_all_complete_rounds(index, short, long):
    n_kept = 60 + (index + 1) * ROUND_LENGTH
    model = twin(short).set_params(n_draws=260)
    model.set_callbacks(Watcher(index, interrupt))
    with pytest.warns(UserWarning, match=f"interrupted: the {n_kept} draws.*of 260 asked for"):
        model.fit(*moons())
    assert model.theta_samples_.shape == (2, n_kept, 2)
    assert_array_equal(model.theta_samples_, long.theta_samples_[:, :n_kept])
    assert_array_equal(model.latent_samples_, long.latent_samples_[:, :n_kept])
    # And can go on from there.
    model.set_callbacks()
    assert_same_fit(model.fit(*moons()), long)


@pytest.mark.parametrize(("n_steps", "n_kept"), [(0, 60), (30, 60), (130, 110)])
@short_chains()
def test_an_interrupt_within_a_round_of_a_warm_start(n_steps, n_kept, short, long, monkeypatch):
    """The round is dropped, random numbers included: later it is made again as it was."""
    count = iter(range(n_steps))
    moving = Mixture.moving

    def interrupted(self, model, state, rng):
        if next(count, None) is None:
            raise KeyboardInterrupt
        return moving(self, model, state, rng)

    model = twin(short).set_params(n_draws=260)
    with monkeypatch.context() as patch:
        patch.setattr(Mixture, "moving", interrupted)
        with pytest.warns(UserWarning, match=f"interrupted: the {n_kept} draws per chain"):
            model.fit(*moons())
    assert_array_equal(model.theta_samples_, long.theta_samples_[:, :n_kept])
    assert_array_equal(model.latent_samples_, long.latent_samples_[:, :n_kept])
    assert_same_fit(model.fit(*moons()), long)


@short_chains()
def test_a_warm_start_that_fails_leaves_the_earlier_fit_as_it_was(short, long):
    def fail():
        raise ZeroDivisionError

    model = twin(short).set_params(n_draws=260)
    model.set_callbacks(Watcher(1, fail))
    with pytest.raises(ZeroDivisionError):
        model.fit(*moons())
    assert_same_draws(model, short)
    model.set_callbacks()
    assert_same_fit(model.fit(*moons()), long)


@short_chains()
def test_continuing_one_copy_does_not_change_another(short, long):
    original = twin(short).set_params(n_draws=260)
    shallow = copy.copy(original)
    assert_same_fit(shallow.fit(*moons()), long)
    assert_same_draws(original, short)
    assert_same_fit(original.fit(*moons()), long)


@short_chains()
def test_a_stop_request_of_a_warm_start(short, long):
    watcher = Watcher(0, lambda: True)
    model = twin(short).set_params(n_draws=260).set_callbacks(watcher)
    model.fit(*moons())
    assert_array_equal(model.theta_samples_, long.theta_samples_[:, : 60 + ROUND_LENGTH])
    assert watcher.announced == [n_rounds(200)] * 2  # no set-up again
    model.set_callbacks()
    assert_same_fit(model.fit(*moons()), long)


@short_chains()
def test_an_interrupted_fit_can_be_continued(long):
    model = quick(n_draws=260, warm_start=True)
    rounds = long.get_params()["n_draws"] // ROUND_LENGTH
    n_before = _n_set_up_rounds()
    model.set_callbacks(Watcher(n_before + 1, interrupt))
    with pytest.warns(UserWarning, match=f"interrupted: the {2 * ROUND_LENGTH} draws"):
        model.fit(*moons())
    assert rounds > 2
    model.set_callbacks()
    assert_same_fit(model.fit(*moons()), long)


def _n_set_up_rounds():
    """Rounds of set-up of these chains."""
    seen = []

    class Counter(Watcher):
        def on_fit_task_end(self, estimator, context):
            if context.task_name.startswith("round") and context.parent.task_id == 0:
                seen.append(context.task_id)

    quick(n_draws=1).set_callbacks(Counter(0, None)).fit(*moons())
    return len(seen) - 1
