"""What a set-up is handed: its work goes to workers, is told, counted and timed."""

import numpy as np
import pytest

from skgpmcmc.chain import time_limit
from skgpmcmc.chain.executor import perform
from skgpmcmc.chain.time_limit import TimeLimit, time_is_over
from skgpmcmc.numerics.linalg import count_root
from skgpmcmc.parallel.workers import Workers
from skgpmcmc.run import set_ups
from skgpmcmc.run.chains import sample_chains
from skgpmcmc.run.progress import Monitor, plan_work
from skgpmcmc.run.set_ups import ChainSettings, set_up_all
from skgpmcmc.samplers import Sampler
from skgpmcmc.setup import PreparedChains

from ...helpers import in_one_test, make_model, toy_classes

MODEL = make_model(*toy_classes(5, 2, 0))


def doubled(_, number):
    """Twice the number; counts an operation on a matrix of this size."""
    count_root(number, number)
    return 2 * number


class NoMarks:
    """A transition that marks nothing."""


class Batches(Sampler):
    """Hands out some batches of work, each of so many calls."""

    def __init__(self, *sizes, iterations=0.0, n_needed=0, doing=None):
        self.sizes, self.about = sizes, {"iterations": iterations, "n_needed": n_needed}
        self.found, self.ends, self.doing = [], [], doing or (lambda: None)

    def set_up(self, request, workers):
        for size in self.sizes:
            items = [(request.model, number) for number in range(size)]
            self.found.append(workers.map(doubled, items, f"stage: {size}", **self.about))
            self.ends.append(workers.limit.end)
            self.doing()
        return PreparedChains(NoMarks(), request.starts, request.rngs, 0, n_evaluations=7.5)


class Told(Monitor):
    """Remembers what it was told."""

    def __init__(self):
        super().__init__()
        self.heard = []

    def report_stage(self, stage):
        self.heard.append(stage)

    def begin_round(self):
        self.heard.append("begin")

    def end_round(self):
        self.heard.append("end")
        return False

    def report_effort(self, left):
        self.heard.append("expect")


class Following(Workers):
    """Follows a journal for some batches, and knows when it was left."""

    def __init__(self, n_replayed=0):
        super().__init__(1)
        self.n_left, self.names, self.left_at = n_replayed, [], None

    @property
    def replays(self):
        return self.n_left > 0

    def run(self, calls, name=""):
        self.names.append(name)
        self.n_left -= 1
        return super().run(calls, name)

    def leave_journal(self):
        if self.left_at is None:
            self.left_at = len(self.names)


def set_up(sampler, n_rounds=0, *, n_models=1, monitor=None, workers=None):
    """What the set-ups of some models are ready for."""
    monitor, workers = monitor or Told(), workers or Following()
    wanted = ChainSettings(sampler, None, 2, None, 0, None)
    plan = plan_work([MODEL], 100, 2, 1)
    with workers:
        models, seed = [MODEL] * n_models, np.random.SeedSequence(0)
        ready = set_up_all(models, wanted, seed, workers, n_rounds, monitor, plan)
    return ready, monitor, workers


def test_executor_returns_results_in_order_and_counts_operations():
    sampler = Batches(3, 4)
    (ready,), _, workers = set_up(sampler)
    assert sampler.found == [[0, 2, 4], [0, 2, 4, 6]]
    assert workers.names == ["stage", "stage"]
    counts = ready.begin_run([]).draws.warmup_counts
    assert counts.n_evaluations == 7.5
    assert counts.operations.cholesky == sum(n**3 for n in (1, 2, 1, 2, 3))


@in_one_test(
    ("n_rounds", "n_batches", "told"),
    [
        (0, 2, "s s"),
        (1, 3, "s begin s s end"),
        (2, 2, "s begin s end begin end"),
        (3, 2, "s begin s end begin end begin end"),
        (2, 4, "s begin s end begin s s end"),
        (2, 0, "begin end begin end"),
    ],
)
def test_set_up_batches_are_rounds_and_the_last_round_has_the_rest(n_rounds, n_batches, told):
    _, monitor, _ = set_up(Batches(*[1] * n_batches), n_rounds)
    assert monitor.heard == ["stage: 1" if word == "s" else word for word in told.split()]


def test_rounds_of_the_set_up_continue_from_model_to_model():
    _, monitor, workers = set_up(Batches(1), 2, n_models=2)
    stages = [f"stage: 1 of class {m} of 2" for m in (1, 2)]
    assert monitor.heard == [stages[0], "begin", stages[1], "end", "begin", "end"]
    assert workers.names == ["stage of class 1 of 2", "stage of class 2 of 2"]


def test_remaining_time_is_reported_once_and_not_from_a_journal():
    sampler = Batches(2, 2, 2, iterations=2.5)
    _, monitor, _ = set_up(sampler)
    assert monitor.heard.count("expect") == 1
    _, monitor, _ = set_up(Batches(2, 2, iterations=2.5), workers=Following(2))
    assert monitor.heard == []
    _, monitor, _ = set_up(Batches(2, 2))
    assert "expect" not in monitor.heard


# --- time -----------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves when it is told to."""
    now = [100.0]
    monkeypatch.setattr(time_limit, "clock", lambda: now[0])
    return now


def limited(seconds):
    monitor = Told()
    monitor.limit = TimeLimit(100.0 + seconds, seconds)
    return monitor


def test_models_share_the_remaining_time_equally(clock):
    def passing():
        clock[0] += 10.0

    sampler = Batches(1, 1, doing=passing)
    set_up(sampler, n_models=3, monitor=limited(90.0))
    # A third of 90 seconds; half of the 70 that are left; all of 50.
    assert sampler.ends == [130.0, 130.0, 155.0, 155.0, 190.0, 190.0]


def test_set_up_without_max_time_has_no_limit():
    sampler = Batches(1)
    set_up(sampler)
    assert sampler.ends == [np.inf]


def test_time_limit_begins_where_the_journal_ends(clock):
    sampler = Batches(1, 1, 1)
    set_up(sampler, monitor=limited(90.0), workers=Following(2))
    assert sampler.ends == [np.inf, np.inf, 190.0]


def test_journal_is_not_written_after_work_was_left_out(clock):
    """And chains settle no more. What had to be done was done."""

    def passing():
        clock[0] += 60.0

    sampler, monitor = Batches(2, 3, 2, n_needed=1, doing=passing), limited(90.0)
    ((_, prepared, _),), _, workers = set_up(sampler, monitor=monitor)
    assert sampler.found == [[0, 2], [0, 2, 4], [0, None]]
    assert monitor.limit.was_noticed
    assert prepared.n_burn_in == 0
    assert workers.left_at == 3
    clock[0] = 100.0
    sampler = Batches(2, 2, 2, n_needed=1, doing=passing)
    _, _, workers = set_up(sampler, monitor=limited(30.0))
    assert sampler.found == [[0, 2], [0, None], [0, None]]
    assert workers.left_at == 2  # the third batch is not journaled


def test_one_call_that_was_cut_ends_the_time_of_all(clock, monkeypatch):
    """Whatever clocks say later: workers may have others."""
    cut = perform(doubled, (MODEL, 1), TimeLimit())._replace(cut=True)
    monkeypatch.setattr(set_ups, "perform", lambda *call: cut)
    asked = []
    sampler = Batches(1, doing=lambda: asked.append(time_is_over()))
    _, monitor, _ = set_up(sampler, monitor=limited(1e6))
    assert asked == [True]
    assert monitor.limit.was_noticed


def test_call_obeys_its_time_limit_unless_it_is_needed(clock):
    over = TimeLimit(50.0)
    left_out, needed = (perform(asks, (), over, is_needed) for is_needed in (False, True))
    assert (left_out.value, left_out.cut) == (None, True)
    assert (needed.value, needed.cut) == (True, True)
    in_time = perform(asks, (), TimeLimit(150.0))
    assert (in_time.value, in_time.cut) == (False, False)
    assert not time_is_over()  # the limit is not that of the caller


def asks():
    return time_is_over()


# --- chains that have settled in the set-up -------------------------------------------------------


def test_discarded_iterations_include_those_of_the_set_up():
    class Moved(Batches):
        def set_up(self, request, workers):
            return super().set_up(request, workers)._replace(n_tuned=20, n_burn_in=5)

    ((ready,), _, _) = set_up(Moved(1))
    assert ready.begin_run([]).n_discarded == 25
    in_a_hurry = Told()
    in_a_hurry.limit.was_noticed = True
    ((ready,), _, _) = set_up(Moved(1), monitor=in_a_hurry)
    assert ready.prepared.n_burn_in == 0


def test_failing_set_up_raises_its_error():
    class Failing(Sampler):
        def set_up(self, request, workers):
            return workers.map(failing, [(request.model,)], "stage")

    with pytest.raises(RuntimeError, match="nothing works"):
        sample_chains(
            [MODEL], Failing(), None, n_importance=None, n_chains=1, n_warmup=0, n_draws=1,
            seed=np.random.SeedSequence(0),
        )  # fmt: skip


def failing(_):
    raise RuntimeError("nothing works")
