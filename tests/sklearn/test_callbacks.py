"""Progress, stop requests and interrupts: what callbacks see, and what a cut run leaves behind."""

import copy
import warnings
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.chains import ROUND_LENGTH, n_rounds
from skgpmcmc.transitions import MarginalMetropolis, PseudoMarginalMetropolis

# A few draws are enough here; that chains converge is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N_WARMUP = 12
N_DRAWS = 2 * ROUND_LENGTH + 20  # two full rounds and a rest
N_WARMUP_ROUNDS = n_rounds(N_WARMUP, N_DRAWS) - 3


def quick(**changes):
    settings = {"n_chains": 2, "n_importance": 4, "random_state": 0}
    return BayesianGPClassifier(**{**settings, "n_warmup": N_WARMUP, "n_draws": N_DRAWS, **changes})


def moons():
    return make_moons(30, noise=0.15, random_state=0)


def three_classes():
    X, y = moons()
    return X, np.where(np.arange(30) < 8, 2, y)


@pytest.fixture(scope="module")
def uncut():
    return quick().fit(*moons())


class Recorder:
    """Notes every call; does what it is told at the end (or begin) of given rounds.

    `actions` maps (hook, chain, round) to what the hook does there, a function.
    """

    def __init__(self, actions=None):
        self.actions = actions or {}
        self.calls = []
        self.contexts = []

    def setup(self, estimator, context):
        self.calls.append(("setup", context.task_name, None))

    def teardown(self, estimator, context):
        self.calls.append(("teardown", context.task_name, None))

    def on_fit_task_begin(self, estimator, context):
        self.contexts.append(context)
        return self._note("begin", context)

    def on_fit_task_end(self, estimator, context):
        return self._note("end", context)

    def _note(self, hook, context):
        if context.task_name != "round":
            self.calls.append((hook, context.task_name, context.task_id))
            return None
        where = (context.parent.task_id, context.task_id)
        self.calls.append((hook, "round", where))
        return self.actions.get((hook, *where), lambda: None)()

    def count(self):
        return Counter((hook, name) for hook, name, _ in self.calls)


def interrupt():
    raise KeyboardInterrupt


def at_draw_round(index, action, hook="end", chain=0):
    return Recorder({(hook, chain, N_WARMUP_ROUNDS + index): action})


def assert_prefix(model, uncut, n_draws):
    """The model is usable and holds the first draws of the run that nothing cut short."""
    assert model.theta_samples_.shape == (2, n_draws, 2)
    assert model.latent_samples_.shape == (2, n_draws, 30)
    assert_array_equal(model.theta_samples_, uncut.theta_samples_[:, :n_draws])
    assert_array_equal(model.latent_samples_, uncut.latent_samples_[:, :n_draws])
    assert model.n_iter_ == N_WARMUP + n_draws
    (rates,) = model.diagnostics_.acceptance_rate.values()
    moved = (np.diff(model.theta_samples_[..., 0], axis=1) != 0.0).sum(axis=1)
    assert np.all(np.abs(rates * n_draws - moved) <= 1.0 + 1e-9)
    X, y = moons()
    assert model.score(X, y) > 0.9
    assert np.isfinite(model.latent_mean_and_variance(X)).all()


# --- what callbacks see ---------------------------------------------------------------------------


def test_one_task_per_chain_and_one_leaf_per_round():
    recorder = Recorder()
    quick(n_chains=3).set_callbacks(recorder).fit(*moons())
    rounds = n_rounds(N_WARMUP, N_DRAWS)
    assert rounds == N_WARMUP_ROUNDS + 3
    assert recorder.calls[0] == ("setup", "fit", None)
    assert recorder.calls[-1] == ("teardown", "fit", None)
    tasks = {"fit": 1, "chain": 3, "round": 3 * rounds}
    expected = {(hook, task): n for hook in ("begin", "end") for task, n in tasks.items()}
    assert recorder.count() == {**expected, ("setup", "fit"): 1, ("teardown", "fit"): 1}
    root = recorder.contexts[0]
    assert root.parent is None
    assert root.max_subtasks == 3
    chains = [context for context in recorder.contexts if context.task_name == "chain"]
    assert [chain.task_id for chain in chains] == [0, 1, 2]
    assert all(chain.parent is root and chain.max_subtasks == rounds for chain in chains)
    leaves = [context for context in recorder.contexts if context.task_name == "round"]
    assert all(leaf.max_subtasks == 0 and leaf.parent in chains for leaf in leaves)
    for chain in chains:
        of_chain = [leaf.task_id for leaf in leaves if leaf.parent is chain]
        assert of_chain == list(range(rounds))


def test_tasks_end_in_order():
    recorder = Recorder()
    quick().set_callbacks(recorder).fit(*moons())
    open_tasks = set()
    for hook, name, where in recorder.calls[1:-1]:
        if hook == "begin":
            assert (name, where) not in open_tasks
            open_tasks.add((name, where))
        else:
            open_tasks.remove((name, where))
            if name == "chain":
                assert not any(task == "round" for task, _ in open_tasks)
    assert not open_tasks


def test_chains_of_one_vs_rest():
    recorder = Recorder()
    model = quick(n_draws=10).set_callbacks(recorder).fit(*three_classes())
    assert recorder.count()["begin", "chain"] == 3 * 2
    assert len(model.estimators_) == 3


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_watching_changes_no_draw(n_jobs, uncut):
    model = quick(n_jobs=n_jobs).set_callbacks(Recorder(), Recorder()).fit(*moons())
    assert_prefix(model, uncut, N_DRAWS)


def test_callbacks_leave_no_attribute():
    model = quick(n_draws=10).set_callbacks(Recorder())
    before = set(vars(model))
    model.fit(*moons())
    assert {name for name in set(vars(model)) - before if name.startswith("_")} == {"_predictor"}
    assert "_skl_callbacks" not in vars(clone(quick()).fit(*moons()))


def test_a_callback_that_fails_is_torn_down_and_leaves_the_old_fit():
    def fail():
        raise ZeroDivisionError

    X, y = moons()
    model = quick(n_draws=10).fit(X, y)
    before = dict(vars(model))
    recorder = at_draw_round(0, fail)
    model.set_callbacks(recorder)
    with pytest.raises(ZeroDivisionError):
        model.fit(X[:, :1], y)
    assert recorder.calls[-1] == ("teardown", "fit", None)
    model.set_callbacks()
    assert list(vars(model)) == list(before)
    assert all(vars(model)[name] is value for name, value in before.items())


def test_progress_bar(capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    X, y = moons()
    model = quick(n_draws=10).set_callbacks(ProgressBar()).fit(X, y)
    assert "BayesianGPClassifier" in capsys.readouterr().out
    assert model.score(X, y) > 0.9


@pytest.mark.filterwarnings("ignore:Sampling was interrupted")
@pytest.mark.parametrize("action", [lambda: True, interrupt], ids=["stop", "interrupt"])
def test_progress_bar_of_a_run_that_is_cut_short(action, uncut):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    recorder = at_draw_round(0, action)
    model = quick().set_callbacks(ProgressBar(), recorder).fit(*moons())
    assert_prefix(model, uncut, ROUND_LENGTH)


def test_progress_bar_around_a_search():
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    X, y = moons()
    model = make_pipeline(StandardScaler(), quick(n_draws=10))
    grid = {"bayesiangpclassifier__approximation": ["ep", "laplace"]}
    search = GridSearchCV(model, grid, cv=2, error_score="raise")
    assert search.set_callbacks(ProgressBar()).fit(X, y).score(X, y) > 0.9


# --- stop requests --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(("index", "chain"), [(0, 1), (1, 0)])
def test_a_stop_request_of_any_chain_ends_all_at_that_round(index, chain, n_jobs, uncut):
    recorder = at_draw_round(index, lambda: True, chain=chain)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", message="Chains have not converged")
        model = quick(n_jobs=n_jobs).set_callbacks(recorder).fit(*moons())
    assert_prefix(model, uncut, (index + 1) * ROUND_LENGTH)
    # Every chain heard of the end of the last round, and tasks were closed.
    assert recorder.count()["end", "round"] == 2 * (N_WARMUP_ROUNDS + index + 1)
    assert recorder.count()["end", "chain"] == 2
    assert recorder.count()["end", "fit"] == 1


def test_a_stop_request_in_warm_up_waits_for_the_first_draws(uncut):
    recorder = Recorder({("end", 0, 0): lambda: True})
    model = quick().set_callbacks(recorder).fit(*moons())
    assert_prefix(model, uncut, ROUND_LENGTH)


def test_a_stop_request_in_the_last_round_changes_nothing(uncut):
    model = quick().set_callbacks(at_draw_round(2, lambda: True)).fit(*moons())
    assert_prefix(model, uncut, N_DRAWS)


def test_a_stop_request_of_one_vs_rest():
    # The last chain of the last class asks.
    recorder = at_draw_round(0, lambda: True, chain=5)
    model = quick().set_callbacks(recorder).fit(*three_classes())
    assert {binary.theta_samples_.shape for binary in model.estimators_} == {(2, ROUND_LENGTH, 2)}
    assert model.n_iter_ == N_WARMUP + ROUND_LENGTH
    X, y = three_classes()
    assert model.score(X, y) > 0.7


def test_predictions_use_what_a_stopped_run_has(uncut):
    recorder = at_draw_round(0, lambda: True)
    X, y = moons()
    model = quick(max_predict_draws=None).set_callbacks(recorder).fit(X, y)
    short = quick(n_draws=ROUND_LENGTH, max_predict_draws=None).fit(X, y)
    assert_array_equal(model.predict_proba(X), short.predict_proba(X))


# --- interrupts -----------------------------------------------------------------------------------

KEPT = f"interrupted: the {ROUND_LENGTH} draws per chain of the complete rounds .of {N_DRAWS} asked"


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("index", "hook"), [(0, "end"), (1, "begin")], ids=["end of first", "begin of second"]
)
def test_an_interrupt_keeps_the_complete_rounds(index, hook, n_jobs, uncut):
    recorder = at_draw_round(index, interrupt, hook)
    model = quick(n_jobs=n_jobs).set_callbacks(recorder)
    with pytest.warns(UserWarning, match=KEPT):
        model.fit(*moons())
    assert_prefix(model, uncut, ROUND_LENGTH)
    assert recorder.calls[-1] == ("teardown", "fit", None)
    assert recorder.count()["end", "fit"] == 1


@pytest.mark.parametrize("index", [1, 2])
def test_an_interrupt_at_the_end_of_a_later_round(index, uncut):
    n_kept = min((index + 1) * ROUND_LENGTH, N_DRAWS)
    with pytest.warns(UserWarning, match=f"interrupted: the {n_kept} draws per chain"):
        model = quick().set_callbacks(at_draw_round(index, interrupt, chain=1)).fit(*moons())
    assert_prefix(model, uncut, n_kept)


def interrupt_after(monkeypatch, transition, n_steps):
    """Let the n-th step of a kind of transition be interrupted."""
    count = iter(range(n_steps))
    step = transition.step

    def interrupted(self, model, state, rng):
        if next(count, None) is None:
            raise KeyboardInterrupt
        return step(self, model, state, rng)

    monkeypatch.setattr(transition, "step", interrupted)


def n_settling_steps():
    return 2 * int(np.ceil(0.1 * N_WARMUP))


@pytest.mark.parametrize("into_round", [3, ROUND_LENGTH + 3])
def test_an_interrupt_within_a_step_drops_the_round(into_round, monkeypatch, uncut):
    # The second round begins after both chains have settled and finished the first.
    n_steps = n_settling_steps() + 2 * ROUND_LENGTH + into_round
    interrupt_after(monkeypatch, PseudoMarginalMetropolis, n_steps)
    with pytest.warns(UserWarning, match=KEPT):
        model = quick(n_jobs=1).fit(*moons())
    assert_prefix(model, uncut, ROUND_LENGTH)


@pytest.mark.parametrize(
    ("transition", "n_steps"),
    [
        (MarginalMetropolis, 5),  # warm-up
        (PseudoMarginalMetropolis, 1),  # settling
        (PseudoMarginalMetropolis, ROUND_LENGTH + 20),  # the first round: no complete one yet
    ],
)
@pytest.mark.parametrize("fitted_before", [False, True])
def test_an_interrupt_before_the_first_round_is_complete_propagates(
    transition, n_steps, fitted_before, monkeypatch, uncut
):
    X, y = moons()
    model = copy.copy(uncut) if fitted_before else quick()
    before = dict(vars(model))
    interrupt_after(monkeypatch, transition, n_steps)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:20, ::-1], 1 - y[:20])
    assert list(vars(model)) == list(before)
    assert all(vars(model)[name] is value for name, value in before.items())


@pytest.mark.parametrize("hook", ["begin", "end"])
def test_an_interrupt_from_a_callback_in_warm_up_propagates(hook, uncut):
    X, y = moons()
    model = copy.copy(uncut)
    recorder = Recorder({(hook, 1, 2): interrupt})
    model.set_callbacks(recorder)
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :1], y)
    assert recorder.calls[-1] == ("teardown", "fit", None)
    assert list(vars(model)) == list(before)
    assert all(vars(model)[name] is value for name, value in before.items())
    assert_array_equal(model.predict_proba(X), uncut.predict_proba(X))


def test_an_interrupt_of_one_vs_rest():
    recorder = at_draw_round(0, interrupt, chain=4)
    X, y = three_classes()
    with pytest.warns(UserWarning, match=KEPT):
        model = quick().set_callbacks(recorder).fit(X, y)
    assert {binary.theta_samples_.shape for binary in model.estimators_} == {(2, ROUND_LENGTH, 2)}
    assert model.predict_proba(X).shape == (30, 3)
