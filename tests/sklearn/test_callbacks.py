"""Progress, stop requests and interrupts: what callbacks see, and what a cut run leaves behind."""

import copy
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.approximations import EP
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.transitions import Mixture
from skgpmcmc.transitions.metropolis import MarginalMetropolis
from skgpmcmc.transitions.pseudo_marginal import PseudoMarginalMetropolis

from .conftest import ROUND_LENGTH, Callback, assert_same_draws, interrupt, unchanged

# A few draws are enough here.
pytestmark = [
    pytest.mark.usefixtures("short_rounds"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

N_ROWS = 20
N_DRAWS = 2 * ROUND_LENGTH + 4  # two full rounds and a rest
N_DRAW_ROUNDS = 3
N_TUNED = 15  # warm-up of a random walk: ten windows of tuning, and two iterations to settle
N_SETTLED = 2
N_WARMUP = 6  # of the default sampler, whose warm-up settles chains and nothing else


def default(**changes):
    """Emulated moves: the set-up takes far longer than that of a random walk."""
    settings = {"n_chains": 2, "n_importance": 4, "n_warmup": N_WARMUP, "random_state": 0}
    return BayesianGPClassifier(**{**settings, "n_draws": N_DRAWS, **changes})


def random_walk(**changes):
    settings = {"approximation": "laplace", "n_warmup": N_TUNED, **changes}
    return default(sampler=PseudoMarginal(moves="random_walk"), **settings)


def moons():
    return make_moons(N_ROWS, noise=0.15, random_state=0)


def three_classes():
    X, y = moons()
    return X, np.where(np.arange(N_ROWS) < 6, 2, y)


def n_set_up_rounds(model):
    """Rounds before the first draw."""
    sampler = PseudoMarginal() if model.sampler == "pm" else model.sampler
    return sampler.n_set_up_rounds(model.n_warmup)


@pytest.fixture(scope="module")
def uncut_default():
    return default().fit(*moons())


@pytest.fixture(scope="module")
def uncut():
    return random_walk().fit(*moons())


@pytest.fixture
def uncut_of(request):
    """The fit that nothing cuts short, of `default` or of `random_walk`."""
    return lambda make: request.getfixturevalue("uncut" if make is random_walk else "uncut_default")


class Recorder(Callback):
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
        if not context.task_name.startswith("round"):
            self.calls.append((hook, context.task_name, context.task_id))
            return None
        where = (context.parent.task_id, context.task_id)
        self.calls.append((hook, "round", where))
        return self.actions.get((hook, *where), lambda: None)()

    def count(self):
        return Counter((hook, name) for hook, name, _ in self.calls)


def at_draw_round(index, action, hook="end", chain=0, make=random_walk):
    return Recorder({(hook, chain, n_set_up_rounds(make()) + index): action})


def assert_prefix(model, uncut, n_draws):
    """The model is usable and holds the first draws of the run that nothing cut short."""
    assert_same_draws(model, uncut, n_draws)
    assert model.n_iter_ == model.n_warmup + n_draws
    # The counts are those of the kept draws alone.
    every = model._sampling.run.models[0].draws.chain_counts
    rates = model.diagnostics_.acceptance_rate
    moved = (np.diff(model.theta_samples_[..., 0], axis=1) != 0.0).sum(axis=1)
    for chain, counts in enumerate(every):
        assert sum(counts.n_steps.values()) == n_draws
        shares = {move: counts.n_accepted[move] / n for move, n in counts.n_steps.items() if n}
        assert shares == {m: r[chain] for m, r in rates.items() if not np.isnan(r[chain])}
        accepted = sum(n for move, n in counts.n_accepted.items() if move != "refresh")
        # The first draw may have moved from a discarded one; a cheap chain may end where it began.
        assert moved[chain] <= accepted <= moved[chain] + 1 + 0.02 * n_draws
    X, y = moons()
    assert model.score(X, y) > 0.8
    assert np.isfinite(model.latent_mean_and_variance(X)).all()


# --- what callbacks see ---------------------------------------------------------------------------


@pytest.mark.parametrize("make", [default, random_walk])
def test_callbacks_see_one_task_per_chain_and_one_leaf_per_round(make):
    recorder = Recorder()
    model = make(n_chains=3).set_callbacks(recorder).fit(*moons())
    rounds = recorder.count()["end", "round"] // 3
    announced = n_set_up_rounds(model) + N_DRAW_ROUNDS  # as progress bars are told
    assert rounds == announced
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
    assert all(chain.parent is root for chain in chains)
    assert {chain.max_subtasks for chain in chains} == {announced}
    leaves = [c for c in recorder.contexts if c.task_name.startswith("round")]
    # Those of the first chain that carry news announce a sub-task, so that bars show their names.
    assert all(leaf.max_subtasks == 0 or leaf.parent is chains[0] for leaf in leaves)
    assert all(leaf.parent in chains for leaf in leaves)
    for chain in chains:
        of_chain = [leaf.task_id for leaf in leaves if leaf.parent is chain]
        assert of_chain == list(range(rounds))


def test_callback_tasks_end_before_their_parents():
    recorder = Recorder()
    random_walk().set_callbacks(recorder).fit(*moons())
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


@pytest.mark.parametrize("make", [default, random_walk])
def test_callbacks_change_no_draw(make, uncut_of):
    model = make().set_callbacks(Recorder(), Recorder()).fit(*moons())
    assert_prefix(model, uncut_of(make), N_DRAWS)


def test_a_callback_that_fails_is_torn_down_and_leaves_the_old_fit():
    X, y = moons()
    recorder = at_draw_round(0, lambda: 1 / 0)
    model = random_walk(n_draws=2).fit(X, y).set_callbacks(recorder)
    with unchanged(model), pytest.raises(ZeroDivisionError):
        model.fit(X[:, :1], y)
    assert recorder.calls[-1] == ("teardown", "fit", None)


@pytest.mark.filterwarnings("ignore:Sampling was interrupted")
@pytest.mark.parametrize("action", [lambda: True, interrupt], ids=["stop", "interrupt"])
def test_progress_bar_does_not_change_a_run_that_is_cut_short(action, uncut):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    recorder = at_draw_round(0, action)
    model = random_walk().set_callbacks(ProgressBar(), recorder).fit(*moons())
    assert_prefix(model, uncut, ROUND_LENGTH)


@pytest.mark.statistical
def test_progress_bar_works_around_a_search():
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    X, y = moons()
    model = make_pipeline(StandardScaler(), random_walk(n_draws=2))
    grid = {"bayesiangpclassifier__approximation": ["ep", "laplace"]}
    search = GridSearchCV(model, grid, cv=2, error_score="raise")
    assert search.set_callbacks(ProgressBar()).fit(X, y).score(X, y) > 0.7


# --- stop requests --------------------------------------------------------------------------------


@pytest.mark.parametrize(("index", "chain", "n_jobs"), [(0, 1, 1), (1, 0, 2), (2, 0, 1)])
def test_a_stop_request_of_any_chain_ends_all_at_that_round(index, chain, n_jobs, uncut):
    """Without a warning, which would be an error here."""
    recorder = at_draw_round(index, lambda: True, chain=chain)
    model = random_walk(n_jobs=n_jobs).set_callbacks(recorder).fit(*moons())
    assert_prefix(model, uncut, min((index + 1) * ROUND_LENGTH, N_DRAWS))
    # Every chain heard of the end of the last round, and tasks were closed.
    assert recorder.count()["end", "round"] == 2 * (n_set_up_rounds(model) + index + 1)
    assert recorder.count()["end", "chain"] == 2
    assert recorder.count()["end", "fit"] == 1


@pytest.mark.parametrize(("chain", "index", "make"), [(0, 0, default), (1, 2, random_walk)])
def test_a_stop_request_in_the_set_up_waits_for_the_first_draws(chain, index, make, uncut_of):
    recorder = Recorder({("end", chain, index): lambda: True})
    model = make().set_callbacks(recorder).fit(*moons())
    assert_prefix(model, uncut_of(make), ROUND_LENGTH)
    assert index < n_set_up_rounds(model)
    assert recorder.count()["end", "round"] == 2 * (n_set_up_rounds(model) + 1)


# --- interrupts -----------------------------------------------------------------------------------

KEPT = "interrupted: the {} draws per chain of the complete rounds .of {} asked"


@pytest.mark.parametrize(
    ("index", "hook", "make", "n_jobs", "n_kept"),
    [
        (0, "end", random_walk, 2, ROUND_LENGTH),
        (1, "begin", random_walk, 1, ROUND_LENGTH),
        (1, "begin", default, 1, ROUND_LENGTH),
        (1, "end", random_walk, 1, 2 * ROUND_LENGTH),
        (2, "end", random_walk, 1, N_DRAWS),
    ],
)
def test_interrupt_between_rounds_keeps_the_complete_rounds(
    index, hook, make, n_jobs, n_kept, uncut_of
):
    recorder = at_draw_round(index, interrupt, hook, make=make)
    model = make(n_jobs=n_jobs).set_callbacks(recorder)
    with pytest.warns(UserWarning, match=KEPT.format(n_kept, N_DRAWS)):
        model.fit(*moons())
    assert_prefix(model, uncut_of(make), n_kept)
    assert recorder.calls[-1] == ("teardown", "fit", None)
    assert recorder.count()["end", "fit"] == 1


def interrupt_after(monkeypatch, transition, n_steps, method="step_many"):
    """Let the n-th step of a kind of transition be interrupted; each chain's step counts."""
    left, step = n_steps, getattr(transition, method)

    def interrupted(self, *arguments, **named):
        nonlocal left
        if left <= 0:
            raise KeyboardInterrupt
        left -= len(arguments[1]) if method == "step_many" else 1
        return step(self, *arguments, **named)

    monkeypatch.setattr(transition, method, interrupted)


@pytest.mark.parametrize(
    ("make", "transition", "n_settled", "into_round"),
    [
        (default, Mixture, N_WARMUP, 3),
        (random_walk, PseudoMarginalMetropolis, N_SETTLED, ROUND_LENGTH + 3),
    ],
)
def test_an_interrupt_within_a_step_drops_the_round(
    make, transition, n_settled, into_round, monkeypatch, uncut_of
):
    # The second round begins after both chains have settled and finished the first.
    interrupt_after(monkeypatch, transition, 2 * (n_settled + ROUND_LENGTH) + into_round)
    with pytest.warns(UserWarning, match=KEPT.format(ROUND_LENGTH, N_DRAWS)):
        model = make(n_jobs=1).fit(*moons())
    assert_prefix(model, uncut_of(make), ROUND_LENGTH)


@pytest.mark.parametrize(
    ("make", "where", "fitted_before"),
    [
        (default, (EP, 3, "fit"), True),  # a search for a mode
        (default, (Mixture, 1), False),  # settling
        (default, (Mixture, 2 * N_WARMUP + ROUND_LENGTH + 5), True),  # no complete round yet
        (random_walk, (MarginalMetropolis, 5), False),  # warm-up
        (random_walk, (PseudoMarginalMetropolis, 1), True),  # settling
        # no complete round yet
        (random_walk, (PseudoMarginalMetropolis, 2 * N_SETTLED + ROUND_LENGTH + 5), False),
    ],
)
def test_an_interrupt_before_the_first_round_is_complete_propagates(
    make, where, fitted_before, monkeypatch, uncut
):
    X, y = moons()
    model = copy.copy(uncut).set_params(**make().get_params()) if fitted_before else make()
    interrupt_after(monkeypatch, *where)
    with unchanged(model), pytest.raises(KeyboardInterrupt):
        model.fit(X[:16, ::-1], 1 - y[:16])


@pytest.mark.parametrize("hook", ["begin", "end"])
def test_an_interrupt_from_a_callback_in_the_set_up_propagates(hook, uncut):
    X, y = moons()
    model = copy.copy(uncut)
    recorder = Recorder({(hook, 1, 2): interrupt})
    model.set_callbacks(recorder)
    with unchanged(model), pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :1], y)
    assert recorder.calls[-1] == ("teardown", "fit", None)
    assert_array_equal(model.predict_proba(X), uncut.predict_proba(X))


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore:Sampling was interrupted")
@pytest.mark.parametrize("action", [lambda: True, interrupt], ids=["stop", "interrupt"])
def test_interrupt_keeps_the_rounds_that_all_classes_have_finished(action):
    # The last chain of the last class asks.
    recorder = at_draw_round(0, action, chain=5)
    X, y = three_classes()
    model = random_walk().set_callbacks(recorder).fit(X, y)
    assert {binary.theta_samples_.shape for binary in model.estimators_} == {(2, ROUND_LENGTH, 3)}
    assert model.n_iter_ == N_TUNED + ROUND_LENGTH
    assert model.score(X, y) > 0.7
