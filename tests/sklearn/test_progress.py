"""How far a fit is, how long it will take and how large it gets: what a user hears of it."""

import itertools
import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpmcmc import BayesianGPClassifier, BayesianGPRegressor
from skgpmcmc.approximations import EP
from skgpmcmc.chain import time_limit
from skgpmcmc.chain.executor import ITERATIONS_PER_EVALUATION
from skgpmcmc.run import chains, progress, set_ups
from skgpmcmc.run.convergence import ConvergenceGoal
from skgpmcmc.run.progress import WorkPlan
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import in_one_test, make_model
from .conftest import ROUND_LENGTH, Callback

# A few draws are enough here; that chains converge is tested elsewhere.
pytestmark = [
    pytest.mark.usefixtures("short_rounds"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

FIXED = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")


def moons():
    return make_moons(20, noise=0.15, random_state=0)


def quick(**changes):
    settings = {"sampler": "asis", "n_chains": 2, "n_warmup": 5, "random_state": 0}
    return BayesianGPClassifier(**{**settings, "n_draws": 2 * ROUND_LENGTH, **changes})


def learning(**changes):
    return quick(sampler="pm", approximation="laplace", n_chains=1, n_importance=4, **changes)


class Rounds(Callback):
    """The rounds of the first chain that ended, and what was told with each."""

    def __init__(self, *, stop=False):
        self.announced, self.ended, self.told, self.names, self.stop = None, 0, [], [], stop

    def on_fit_task_begin(self, estimator, context):
        self.names.append(context.task_name)
        if context.task_name == "chain":
            self.announced = context.max_subtasks

    def on_fit_task_end(self, estimator, context, *, metadata):
        if context.task_name.startswith("round") and context.parent.task_id == 0:
            self.ended += 1
            self.told.append(metadata)
        return self.stop


# --- the share that is done -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        learning(),
        pytest.param(learning(ard=True), marks=pytest.mark.statistical),
        learning(kernel=FIXED),
        quick(sampler=PseudoMarginal(moves="random_walk"), n_warmup=20),
        quick(n_warmup=20),
        BayesianGPRegressor(
            kernel=ConstantKernel(1.0, "fixed") * RBF(),
            n_chains=1,
            n_warmup=5,
            n_draws=ROUND_LENGTH,
            random_state=0,
        ),
    ],
    ids=["emulated", "many hyper-parameters", "none", "walk", "sweep", "collapsed"],
)
def test_announced_number_of_rounds_is_reached(model):
    X, y = moons()
    X = np.column_stack([X, np.random.default_rng(0).standard_normal((len(X), 2))])
    rounds = Rounds()
    model.set_callbacks(rounds).fit(X, y)
    assert rounds.ended == rounds.announced


def shares(monkeypatch, model, X, y):
    """Percentages that the progress bar goes through."""
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar, _progressbar

    monitor, seen = _progressbar.RichProgressMonitor, []
    on_end = monitor._on_task_end

    def noted(self, info):
        on_end(self, info)
        seen.append(self.root_rich_task.progress)

    monkeypatch.setattr(monitor, "_on_task_end", noted)
    model.set_callbacks(ProgressBar()).fit(X, y)
    return np.array(seen)


def test_progress_bar_climbs_in_small_steps_to_its_end(monkeypatch, capsys):
    share = shares(monkeypatch, learning(), *moons())
    assert (np.diff(share) >= 0.0).all()
    assert share[-1] == 1.0
    # Four rounds of set-up, one of settling, and two of draws.
    assert np.diff([0.0, *share]).max() == pytest.approx(1.0 / 7.0)


def test_progress_bar_ends_where_target_ess_is_reached(monkeypatch, capsys):
    # A chain by EP hardly stays anywhere.
    model = learning(n_draws=10_000, target_ess=100.0).set_params(approximation="ep")
    share = shares(monkeypatch, model, *moons())
    assert share[-1] == 1.0
    assert np.diff(share).max() > 0.9  # it was far from the most that sampling may take


def test_progress_bar_reports_convergence_whenever_draws_have_doubled(monkeypatch, capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    monkeypatch.setenv("COLUMNS", "120")
    rounds = Rounds()
    learning(n_draws=6 * ROUND_LENGTH).set_callbacks(ProgressBar(), rounds).fit(*moons())
    shown = re.findall(r"round, R-hat (.*?), ESS (.*?) #", capsys.readouterr().out)
    known = [told for told in rounds.told if told and "r_hat" in told]
    after = [known[n - 1] for n in (1, 2, 4)]  # rounds; none is begun after the last
    assert shown == [(f"{told['r_hat']:.3f}", f"{told['ess']:.0f}") for told in after]


# --- how long, and how large ----------------------------------------------------------------------


@in_one_test(
    ("seconds", "words"),
    [(3.21, "3.2 seconds"), (80, "80 seconds"), (720, "12 minutes"), (7200, "2 hours")],
)
def test_estimated_effort_is_put_into_words(seconds, words):
    plan = WorkPlan(n_rows=1000, n_iterations=5200.0, n_workers=2)
    assert str(progress.Effort(plan, seconds, "a guess")) == f"about {words}"


def test_estimated_effort_grows_with_iterations_and_shrinks_with_workers():
    plan = WorkPlan(n_rows=1000, n_iterations=5200.0, n_workers=2)
    one, twice, alone = (
        own.estimate_effort(0.1, "a guess").seconds
        for own in (plan, plan._replace(n_iterations=10400.0), plan._replace(n_workers=1))
    )
    assert twice == pytest.approx(2.0 * one)
    assert alone == pytest.approx(2.0 * one)


class Timed:
    """An approximation whose fit takes a second for each row."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(progress.time, "perf_counter", lambda: self.now)

    def fit(self, model, theta):
        self.now += len(model.observations)


def places(n, kernel, n_each=1):
    """A model of n inputs, each with as many rows; there is nothing to be found in it."""
    X = np.linspace(0.0, 1.0, n)[:, None]
    return make_model(X, np.ones(n), kernel=kernel).with_observations(
        y=np.ones(n * n_each), first=None if n_each == 1 else np.arange(n) * n_each
    )


@pytest.mark.parametrize("n_each", [1, 50])
@pytest.mark.parametrize(("kernel", "power"), [(Matern(1e-3, nu=0.5), 3), (RBF(10.0), 2)])
def test_time_of_some_inputs_is_extrapolated_to_all_inputs(kernel, power, n_each, monkeypatch):
    """All rows of an input take their time, and a matrix of low rank takes less."""
    some = progress.time_iteration(places(1000, kernel, n_each), Timed(monkeypatch))
    assert some == pytest.approx(1000 * n_each / ITERATIONS_PER_EVALUATION)
    more = progress.time_iteration(places(2000, kernel, n_each), Timed(monkeypatch))
    assert more == pytest.approx(some * 2.0**power)


def test_verbose_reports_duration_and_progress_after_every_round(capsys):
    model = quick(verbose=1).fit(*moons())
    out = capsys.readouterr().out
    assert str(model.diagnostics_) in out
    said = out.splitlines()
    first, then, *_ = [line for line in said if "judged by" in line]
    assert first.startswith("BayesianGPClassifier: about ")
    assert "of memory for n = 20 rows and 1 worker, judged by the first evaluations." in first
    assert "judged by the draws so far." in then
    lines = [line for line in said if "per second" in line]
    assert len(lines) == 2
    for n, line in zip((10, 20), lines, strict=True):
        assert line.startswith(f"BayesianGPClassifier: {n} of at most 20 draws per chain, ")
        assert "; acceptance 0." in line
    table = model.diagnostics_
    worst = model.hyperparameter_names_[int(table.r_hat.argmax())]
    assert f"worst R-hat {table.r_hat.max():.3f} ({worst})" in lines[-1]
    least = np.minimum(table.ess_bulk, table.ess_tail)
    assert f"least effective sample size {least.min():.0f} (" in lines[-1]
    assert "left" in lines[0]
    assert "left" not in lines[1]


def stages(said):
    """What set-ups have said that they do, and after how many seconds."""
    found = re.findall(r"BayesianGP\w+: set-up, (.*?) so far: (.*)\.\n", said)
    return [stage.partition(":")[0] for _, stage in found], [seconds for seconds, _ in found]


LEARNING = ("search for modes", "scale of the posterior at a mode", "learning")


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (learning(), [*LEARNING, "measuring the noise of estimates", "burn-in"]),
        (learning().set_params(sampler="marginal"), [*LEARNING, "burn-in"]),
        (quick(), ["start of the chains", "tuning", "burn-in"]),
    ],
    ids=["emulated", "marginal", "sweep"],
)
def test_verbose_reports_the_stages_of_a_set_up(model, expected, capsys, monkeypatch):
    monkeypatch.setattr(time_limit, "clock", lambda: 1000.0)  # no time goes by
    model.set_params(verbose=1).fit(*moons())
    said, seconds = stages(capsys.readouterr().out)
    assert list(dict.fromkeys(said))[: len(expected)] == expected
    assert set(seconds) == {"0 seconds"}


def test_verbose_reports_a_long_set_up_at_intervals(capsys, monkeypatch):
    now = itertools.count(0.0, 2.0)  # two seconds go by between two stages
    monkeypatch.setattr(time_limit, "clock", lambda: next(now))
    quick(verbose=1, n_warmup=20).fit(*moons())
    lines = re.findall(r"set-up, (.*?) so far: (tuning: window \d+ of 10)", capsys.readouterr().out)
    assert lines == [
        (f"{4 + 2 * i} seconds", f"tuning: window {i + 1} of 10") for i in range(0, 10, 3)
    ]


def test_callbacks_receive_the_stages_of_a_set_up():
    rounds = Rounds()
    learning().set_callbacks(rounds).fit(*moons())
    assert "round, search for modes: from 1 start with 20 inputs" in rounds.names


def test_callbacks_receive_expected_duration_and_convergence():
    rounds = Rounds()
    table = quick().set_callbacks(rounds).fit(*moons()).diagnostics_
    assert rounds.told[0] is None  # nothing has been timed yet
    left = [told["seconds_left"] for told in rounds.told[1:]]
    assert min(left[:-1]) > 0.0
    assert left[-1] == 0.0
    assert "r_hat" not in (rounds.told[-3] or {})  # the set-up has no draws
    assert rounds.told[-1]["r_hat"] == table.r_hat.max()
    assert rounds.told[-1]["ess"] == np.minimum(table.ess_bulk, table.ess_tail).min()


def test_progress_reports_convergence_of_f_if_theta_is_fixed(capsys):
    quick(kernel=FIXED, verbose=1).fit(*moons())
    said = capsys.readouterr().out
    assert "worst R-hat" in said
    assert "(f)" in said


def test_short_fit_prints_and_warns_nothing(capsys):
    quick().fit(*moons())  # a warning would be an error
    assert capsys.readouterr().out == ""


LONG = "This fit will be long: about .* for n = 20 rows and 1 worker"


def test_long_fit_warns_once_after_its_first_evaluations(monkeypatch):
    monkeypatch.setattr(set_ups, "perform", slowed(set_ups.perform))
    with pytest.warns(UserWarning, match="This fit will be long") as caught:
        quick().fit(*moons())
    long = [w for w in caught if "This fit will be long" in str(w.message)]
    assert len(long) == 1
    assert "n = 20 rows and 1 worker, judged by the first evaluations" in str(long[0].message)
    for remedy in ("n_jobs", "n_draws", "target_ess", "Fewer rows"):
        assert remedy in str(long[0].message)


def slowed(perform):
    return lambda *call: perform(*call)._replace(seconds=1000.0)


def test_many_rows_cause_a_warning_before_any_evaluation(monkeypatch):
    """The warning is an error here: nothing has been factored when it comes."""
    monkeypatch.setattr(chains, "_ROWS_TIMED_FIRST", 15)
    monkeypatch.setattr(chains, "time_iteration", lambda *_: 100.0)
    monkeypatch.setattr(set_ups, "perform", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=f"{LONG}, judged by an evaluation with some"):
            quick().fit(*moons())


def test_target_ess_shortens_the_expected_duration(monkeypatch):
    monkeypatch.setattr(set_ups, "perform", slowed(set_ups.perform))

    def first(**changes):
        rounds = Rounds(stop=True)
        quick(n_draws=100_000, **changes).set_callbacks(rounds).fit(*moons())
        return next(told["seconds_left"] for told in rounds.told if told)

    with pytest.warns(UserWarning, match="This fit will be long"):
        assert first(target_ess=200.0) < 0.1 * first(target_ess=None)


def test_more_hyper_parameters_are_expected_to_take_more_draws():
    goal = ConvergenceGoal(max_rhat=1.01, target_ess=400.0)
    expected = [progress.estimate_n_draws(2000, goal, 4, dim) for dim in (0, 1, 4, 36)]
    assert expected == [125, 125, 225, 625]
    assert progress.estimate_n_draws(100, goal, 4, 4) == 100


class Efforts(progress.Monitor):
    """The seconds that are left after each round, in units of one draw of every chain."""

    def __init__(self):
        super().__init__()
        self.seconds, self.draws = np.nan, []

    def report_effort(self, left):
        self.seconds = left.seconds

    def report_draws(self, progress):
        self.draws.append(self.seconds / progress.seconds)


@pytest.mark.parametrize(("missing", "wanted"), [(0.5, 5.0), (30.0, 40.0), (np.inf, 3.0)])
def test_time_left_follows_the_draws_that_the_goal_still_takes(missing, wanted, monkeypatch):
    """It ends with the most draws, and is the first guess while the draws say nothing."""
    monkeypatch.setattr(ConvergenceGoal, "estimate_missing", lambda goal, draws: missing)
    monkeypatch.setattr(chains, "estimate_n_draws", lambda *_: 13)
    efforts = Efforts()
    goal = ConvergenceGoal(max_rhat=1.01, target_ess=400.0)
    chains.sample_chains(
        [make_model(*moons())], PseudoMarginal(moves="random_walk"), EP(), n_importance=2,
        n_chains=1, n_warmup=0, n_draws=50, stop=goal, seed=np.random.SeedSequence(0),
        monitor=efforts,
    )  # fmt: skip
    assert efforts.draws[0] == pytest.approx(wanted)


def test_progress_in_a_terminal_is_one_line(capsys, monkeypatch):
    """It is no wider than the terminal, and covers the line before."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    model = quick(verbose=1).fit(*moons())
    out = capsys.readouterr().out
    progress, newline, table = out.partition("\n")
    assert newline
    assert table.startswith("hyper-parameter")
    assert str(model.diagnostics_) in table
    shown = progress.split("\r")[1:]
    assert len(shown) > 2
    assert all(line.startswith("BayesianGPClassifier: ") for line in shown)
    assert max(map(len, shown)) <= 59
    lengths = [len(line.rstrip()) for line in shown]
    assert all(len(line) >= before for line, before in zip(shown[1:], lengths, strict=False))
