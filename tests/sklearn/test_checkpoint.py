"""A fit that was cut off goes on from its file to the same draws; other files are refused."""

import functools
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.approximations import SubsetOfData
from skgpmcmc.chain import Segment, time_limit
from skgpmcmc.chain import segment as work
from skgpmcmc.chain.counts import ChainCounts, sum_counts
from skgpmcmc.parallel.workers import LostWorkersError, Workers
from skgpmcmc.run import chains, checkpoint
from skgpmcmc.run.checkpoint import read_checkpoint
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.storage import sealed

from ..helpers import in_one_test, rounds_of, seeded, short_chains
from .conftest import ROUND_LENGTH, Callback, assert_same_draws, unchanged

# A few draws are enough here; that chains converge is tested elsewhere.
pytestmark = [
    pytest.mark.usefixtures("short_rounds"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

N_ROWS = 16
FULL_LENGTH = chains.ROUND_LENGTH
N_DRAWS = ROUND_LENGTH + 4  # a round and a rest
SHORT = {"n_chains": 2, "n_warmup": 6, "n_draws": N_DRAWS, "target_ess": None, "random_state": 3}
SHORT |= {"max_predict_draws": 8}
WALK = PseudoMarginal(moves="random_walk")


def moons():
    return make_moons(N_ROWS, noise=0.2, random_state=0)


def three_classes():
    X, y = moons()
    return X, np.where(np.arange(N_ROWS) < 5, 2, y)


def curve():
    X, _ = moons()
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(N_ROWS)


def counts():
    X, _ = moons()
    return X, np.random.default_rng(1).poisson(2.0, N_ROWS)


def walk(**changes):
    settings = {"sampler": WALK, "approximation": "laplace", "n_importance": 4}
    return BayesianGPClassifier(**{**SHORT, **settings, **changes})


def default(**changes):
    """The sampler of the default; Laplace is faster than EP."""
    return BayesianGPClassifier(**{**SHORT, "approximation": "laplace", **changes})


def one_vs_rest(**changes):
    return default(sampler=WALK, **changes)


def regressor(**changes):
    """Of two hyper-parameters, of which an emulator is soon learned."""
    kernel = ConstantKernel(1.0, "fixed") * RBF()
    return BayesianGPRegressor(**{**SHORT, "kernel": kernel, **changes})


def softmax(**changes):
    return default(multi_class="softmax", sampler=WALK, **changes)


def poisson(**changes):
    return BayesianGPCountRegressor(**{**SHORT, "sampler": WALK, **changes})


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch):
    """Do not wait for the disk: that files outlive a failure of power is not tried here."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


class CutError(Exception):
    pass


@contextmanager
def cut_at(batch, error=CutError):
    """Let the workers fail in a batch of what they have to compute."""
    computed, n = Workers._compute, iter(range(batch))

    def failing(self, calls):
        if next(n, None) is None:
            raise error
        return computed(self, calls)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workers, "_compute", failing)
        yield


def n_batches(path):
    """Batches of work that a file has the results of."""
    content = read_checkpoint(path)
    return len(content["batches"]) + max(len(t["segments"]) for t in content["tapes"])


# --- the same draws -------------------------------------------------------------------------------


def long(name, make, data, every=3):
    """A case of the long run, which looks at every so many batches only."""
    return pytest.param(make, data, every, id=name, marks=pytest.mark.statistical)


CASES = [
    pytest.param(walk, moons, 1, id="walk"),
    long("regression", regressor, curve, every=4),
    long("default", default, moons),
    long("one-vs-rest", one_vs_rest, three_classes),
    long("softmax", softmax, three_classes),
    long("counts", poisson, counts),
    *(long(n, functools.partial(default, sampler=n), moons) for n in ("marginal", "surr", "khr")),
]


@pytest.mark.parametrize(("make", "data", "every"), CASES)
def test_fit_cut_off_at_any_batch_continues_to_the_same_draws(make, data, every, tmp_path):
    X, y = data()
    uncut = make().fit(X, y)
    whole = make(checkpoint=tmp_path / "whole").fit(X, y)
    assert_same_draws(whole, uncut)
    n = n_batches(tmp_path / "whole")
    assert n > 4
    for batch in {*range(0, n, every), n - 1}:
        path = tmp_path / f"cut at {batch}"
        with cut_at(batch), pytest.raises(CutError):
            make(checkpoint=path).fit(X, y)
        assert_same_draws(make(checkpoint=path).fit(X, y), uncut)


@pytest.mark.statistical
@pytest.mark.parametrize("sampler", ["discretizing", "tempered"])
def test_fit_cut_off_within_a_long_set_up_continues_to_the_same_draws(sampler, tmp_path):
    X, y = curve()
    make = functools.partial(regressor, sampler=sampler, approximation=SubsetOfData(5))
    uncut = make(checkpoint=tmp_path / "whole").fit(X, y)
    with cut_at(n_batches(tmp_path / "whole") // 2), pytest.raises(CutError):
        make(checkpoint=tmp_path / "file").fit(X, y)
    assert_same_draws(make(checkpoint=tmp_path / "file").fit(X, y), uncut)
    assert_same_draws(make().fit(X, y), uncut)


def test_fit_cut_off_several_times_continues_to_the_same_draws(tmp_path):
    X, y = moons()
    model, path = walk(checkpoint=tmp_path / "file"), tmp_path / "file"
    n_cuts = 0
    while True:  # every attempt makes one batch of progress
        try:
            with cut_at(1):
                model.fit(X, y)
        except CutError:
            n_cuts += 1
        else:
            break
    assert n_cuts >= n_batches(path) - 1
    assert_same_draws(model, walk().fit(X, y))


def test_complete_fit_continued_from_its_file_equals_one_longer_fit(tmp_path):
    X, y = moons()
    walk(checkpoint=tmp_path / "file").fit(X, y)
    content = (tmp_path / "file").read_bytes()
    wanted = walk(n_draws=26).fit(X, y)
    n_cubic = wanted.diagnostics_.n_cubic
    for more in ({}, {"target_ess": 1e6}):
        (tmp_path / "file").write_bytes(content)
        longer = walk(checkpoint=tmp_path / "file", n_draws=26, **more).fit(X, y)
        assert_same_draws(longer, wanted)
        # Counts have other partial sums.
        assert longer.diagnostics_.n_cubic == pytest.approx(n_cubic)
        # ... and can be continued without the file.
        longer.set_params(checkpoint=None, warm_start=True, n_draws=30, target_ess=None).fit(X, y)
        assert_same_draws(longer, walk(n_draws=30).fit(X, y))


@pytest.mark.statistical
def test_fit_continued_to_a_larger_target_equals_one_longer_fit(tmp_path):
    X, y = curve()
    make = functools.partial(regressor, n_draws=1000, max_rhat=1.1)
    with rounds_of(FULL_LENGTH):  # within which sampling may end
        for target in (110.0, 150.0):
            some = make(checkpoint=tmp_path / "file", target_ess=target).fit(X, y)
            assert_same_draws(some, make(target_ess=target).fit(X, y))


def test_checkpoint_refuses_a_fit_shorter_than_its_file(tmp_path):
    X, y = moons()
    walk(checkpoint=tmp_path / "file").fit(X, y)
    with pytest.raises(ValueError, match="has more draws than n_draws=10 and target_ess=None"):
        walk(checkpoint=tmp_path / "file", n_draws=ROUND_LENGTH).fit(X, y)


def test_checkpoint_keeps_the_seed_if_random_state_is_none(tmp_path):
    X, y = moons()
    make = functools.partial(walk, random_state=None)
    first, second = (make(checkpoint=tmp_path / "one").fit(X, y) for _ in range(2))
    assert_same_draws(first, second)
    assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    other = make(checkpoint=tmp_path / "two").fit(X, y)
    assert not np.array_equal(first.theta_samples_, other.theta_samples_)


def test_checkpoint_accepts_changed_settings_of_predictions(tmp_path):
    X, y = moons()
    with cut_at(6), pytest.raises(CutError):
        walk(checkpoint=tmp_path / "file").fit(X, y)
    free = {"max_predict_draws": 5, "predict_cache_bytes": 0, "max_time": 1e6}
    model = walk(checkpoint=str(tmp_path / "file"), warm_start=True, **free).fit(X, y)
    assert_same_draws(model, walk().fit(X, y))
    # A warm start with a file follows the file, and not the chains that are here.
    model.set_params(checkpoint=tmp_path / "other").fit(X, y)
    assert n_batches(tmp_path / "other") == n_batches(tmp_path / "file")
    assert_same_draws(model, walk().fit(X, y))


@pytest.mark.statistical
def test_checkpoint_with_several_processes_changes_no_draw(tmp_path):
    X, y = moons()
    assert_same_draws(walk(checkpoint=tmp_path / "file", n_jobs=2).fit(X, y), walk().fit(X, y))


SCRIPT = """
import sys, warnings
warnings.simplefilter("ignore")
from tests.sklearn import test_checkpoint as here
make, data, path = sys.argv[1:]
print("ready", flush=True)
with here.rounds_of(here.ROUND_LENGTH):
    getattr(here, make)(checkpoint=path, n_draws=100).fit(*getattr(here, data)())
"""


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("make", "data", "n"),
    [("walk", "moons", 3), ("one_vs_rest", "three_classes", 2)],
)
def test_killed_process_leaves_a_checkpoint_that_can_be_continued(make, data, n, tmp_path):
    X, y = globals()[data]()
    made = functools.partial(globals()[make], n_draws=100)
    begin = time.perf_counter()
    uncut = made(checkpoint=tmp_path / "timed").fit(X, y)
    seconds = time.perf_counter() - begin
    for i, moment in enumerate(np.random.default_rng(seeded(0)).uniform(0.0, 1.2 * seconds, n)):
        path = tmp_path / str(i)
        arguments = [sys.executable, "-c", SCRIPT, make, data, str(path)]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"ready\n"
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert_same_draws(made(checkpoint=path).fit(X, y), uncut)


# --- what is said of a fit that goes on -----------------------------------------------------------


def test_remaining_time_ignores_draws_read_from_the_file(monkeypatch, tmp_path, capsys):
    """Those from the file take no time, and what is left is judged without them."""
    now, sample = [0.0], work.sample_all
    monkeypatch.setattr(chains.time, "perf_counter", lambda: now[0])

    def slow(jobs):
        """Each chain takes ten seconds for a round, and nobody else any."""
        now[0] += 10.0 * len(jobs)
        return sample(jobs)

    monkeypatch.setattr(work, "sample_all", slow)
    X, y = moons()
    make = functools.partial(walk, checkpoint=tmp_path / "file", verbose=1)
    make(n_draws=3 * ROUND_LENGTH).fit(X, y)
    capsys.readouterr()
    make(n_draws=6 * ROUND_LENGTH).fit(X, y)
    said = capsys.readouterr().out
    paces = re.findall(r"(\d+) of at most 60 draws per chain, (.*?)[;,]", said)
    followed = [(str(n), "all from the checkpoint") for n in (10, 20, 30)]
    # Ten draws of two chains in twenty seconds.
    assert paces == [*followed, *((str(n), "0.5 per second") for n in (40, 50, 60))]
    assert re.findall(r"about (.*?) left", said) == ["40 seconds", "20 seconds"]
    assert "set-up" not in said  # all of it is in the file
    assert said.count("judged by") == 1
    make(n_draws=6 * ROUND_LENGTH + 4).fit(X, y)
    capsys.readouterr()
    make(n_draws=7 * ROUND_LENGTH).fit(X, y)
    # Six of the last round, in twenty seconds.
    assert "70 of at most 70 draws per chain, 0.3 per second" in capsys.readouterr().out


# --- files that are refused -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """The file of a complete fit, as bytes."""
    path = tmp_path_factory.mktemp("files") / "file"
    with short_chains():
        walk(checkpoint=path).fit(*moons())
    return path.read_bytes()


def refused(path, content, match="cannot be used: .* Delete the file, or choose another path"):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=match):
        read_checkpoint(path)


def test_checkpoint_with_flipped_bits_is_refused(complete, tmp_path):
    rng = np.random.default_rng(0)
    first = sealed._DIGEST_LENGTH + len(sealed._MAGIC) + 3  # the two lines of the head: every byte
    places = [*range(first), *rng.integers(first, len(complete), 200)]
    for place in places:
        changed = bytearray(complete)
        changed[place] ^= 1 << int(rng.integers(8))
        refused(tmp_path / "file", bytes(changed))


def test_truncated_checkpoint_is_refused(complete, tmp_path):
    for length in [*range(0, 120, 7), *np.linspace(120, len(complete) - 1, 50).astype(int)]:
        refused(tmp_path / "file", complete[:length])
    refused(tmp_path / "file", complete + b"0")


def test_fit_refuses_a_damaged_checkpoint_and_keeps_the_earlier_fit(complete, tmp_path):
    X, y = moons()
    (tmp_path / "file").write_bytes(complete[:-1])
    model = walk(n_draws=4).fit(X, y)
    model.checkpoint = tmp_path / "file"
    message = "damaged or was cut short: its digest does not fit"
    with unchanged(model), pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert (tmp_path / "file").read_bytes() == complete[:-1]


@in_one_test(
    ("content", "why"),
    [
        (b"", "no checkpoint of skgpmcmc"),
        (b"PK\x03\x04 something else", "no checkpoint of skgpmcmc"),
        (b"skgpmcmc checkpoint 999\n", "it has format 999, and this version of skgpmcmc reads 1"),
    ],
)
def test_files_that_are_no_checkpoints_are_refused(content, why, tmp_path):
    refused(tmp_path / "file", content, match=why)


def test_checkpoint_with_an_array_larger_than_the_file_is_refused(tmp_path):
    place = sealed._ArrayBytes(memoryview(b"12345678"))
    for shape in ([2], [10**15, 10**15], [-1], [1] * 9):
        with pytest.raises(ValueError, match=r"bytes has 8|no array is of"):
            place.take_array("<f8", shape, "C")
    with pytest.raises(ValueError, match="no array is of"):
        place.take_array("|O", [1], "C")
    assert place.take_array("<f8", [1], "C").shape == (1,)


def changed_data(name):
    """The call of `fit` with something else in the data."""
    X, y = moons()
    weight = np.ones(N_ROWS)
    if name == "X":
        X = X + 1e-9
    if name == "y":
        y = y.copy()
        y[0] = 1 - y[0]
    if name == "sample_weight":
        weight[3] = 0.5
    return X, y, weight


CHANGES = {
    "kernel": Matern(),
    "priors": {"k2__length_scale": stats.gamma(2.0, scale=0.3)},
    "likelihood": "logit",
    "sampler": PseudoMarginal(moves="random_walk", defensive=0.1),
    "approximation": "ep",
    "n_importance": 5,
    "n_chains": 3,
    "n_warmup": 7,
    "random_state": 4,
}


@in_one_test("name", [*CHANGES, "X", "y", "sample_weight"])
def test_checkpoint_of_other_settings_is_refused_by_their_name(name, complete, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(complete)
    model = walk(checkpoint=path).set_params(**{k: v for k, v in CHANGES.items() if k == name})
    named = re.escape(f"{name} (or how often a row occurs)" if name == "sample_weight" else name)
    match = rf"is the file of another fit: {named} differs\. Delete the file, choose another path"
    with pytest.raises(ValueError, match=match):
        model.fit(*changed_data(name))
    assert path.read_bytes() == complete


def test_checkpoint_error_names_all_settings_that_differ(complete, tmp_path):
    (tmp_path / "file").write_bytes(complete)
    model = walk(checkpoint=tmp_path / "file", kernel=RBF(), n_chains=1)
    with pytest.raises(ValueError, match="another fit: kernel, n_chains, y differ"):
        model.fit(*changed_data("y"))


def test_checkpoint_of_other_noise_variances_or_exposures_is_refused(tmp_path):
    X, y = curve()
    model = regressor(checkpoint=tmp_path / "noise", sampler="aa").fit(X, y)
    with pytest.raises(ValueError, match=r"another fit: .*noise_variance differ"):
        model.fit(X, y, noise_variance=np.full(N_ROWS, 0.1))
    known = regressor(checkpoint=tmp_path / "known", sampler="aa", noise="known", alpha=0.1)
    known.fit(X, y)
    with pytest.raises(ValueError, match="another fit: noise differs"):
        known.set_params(noise="inferred").fit(X, y)
    X, y = counts()
    model = poisson(checkpoint=tmp_path / "exposure").fit(X, y)
    with pytest.raises(ValueError, match=r"another fit: .*exposure.* differ"):
        model.fit(X, y, exposure=np.linspace(1.0, 2.0, N_ROWS))


def test_checkpoint_that_cannot_be_followed_names_versions(tmp_path):
    path = tmp_path / "file"
    X, y = moons()
    walk(checkpoint=path).fit(X, y)
    content = read_checkpoint(path)
    content["batches"][2][1].pop()
    content["versions"] = "Python 3, numpy 1.0"
    sealed.write_sealed(path, content)
    with pytest.raises(
        ValueError,
        match=r"batch 3 has 1 results of 'tuning', and .* needs 2 of 'tuning'.*numpy 1\.0; here",
    ):
        walk(checkpoint=path).fit(X, y)


def test_checkpoint_of_another_version_is_refused(complete, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(complete)
    sealed.write_sealed(path, read_checkpoint(path) | {"package": "99.0"})
    with pytest.raises(ValueError, match=r"was made with skgpmcmc 99\.0, and this is "):
        walk(checkpoint=path).fit(*moons())


def test_checkpoint_of_another_estimator_is_refused(tmp_path):
    X, y = counts()
    poisson(checkpoint=tmp_path / "file").fit(X, y)
    volatility = BayesianGPVolatilityRegressor(**SHORT, sampler=WALK, checkpoint=tmp_path / "file")
    with pytest.raises(ValueError, match=r"another fit: .*estimator.* differ"):
        volatility.fit(X, y - 1.5)


def test_checkpoint_in_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"cannot be written .* in a folder that is there"):
        walk(checkpoint=tmp_path / "no" / "file").fit(*moons())
    with pytest.raises(ValueError, match="cannot be used"):
        walk(checkpoint=tmp_path).fit(*moons())


# --- a full disk ----------------------------------------------------------------------------------


def test_on_a_full_disk_the_fit_goes_on_with_one_warning(monkeypatch, tmp_path):
    X, y = moons()
    path, fsync, n = tmp_path / "file", os.fsync, iter(range(9))

    def full(handle):
        if next(n, None) is None:
            raise OSError(28, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(UserWarning, match="No space left on device.* the fit goes on") as caught:
        model = walk(checkpoint=path).fit(X, y)
    assert sum("No space left" in str(w.message) for w in caught) == 1
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == [path]  # nothing half-written lies about
    assert 0 < n_batches_written(path) < n_batches(full_file(tmp_path, X, y))
    assert_same_draws(model, walk().fit(X, y))
    assert_same_draws(walk(checkpoint=path).fit(X, y), model)


def n_batches_written(path):
    return len(read_checkpoint(path)["batches"])


def full_file(folder, X, y):
    walk(checkpoint=folder / "other").fit(X, y)
    return folder / "other"


# --- interrupts, lost workers and time ------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyboardInterrupt, "interrupted: the 10 draws per chain"),
        (LostWorkersError("Workers were lost."), "the 10 draws per .* kept. Workers were lost"),
    ],
    ids=["interrupt", "lost workers"],
)
def test_interrupted_fit_keeps_its_draws_and_its_checkpoint_can_be_continued(error, said, tmp_path):
    X, y = moons()
    n_before = n_batches_written(full_file(tmp_path, X, y)) + 1
    with cut_at(n_before, error), pytest.warns(UserWarning, match=said):
        model = walk(checkpoint=tmp_path / "file").fit(X, y)
    assert model.theta_samples_.shape[1] == ROUND_LENGTH
    assert_same_draws(model.fit(X, y), walk().fit(X, y))


def test_stop_request_waits_until_the_checkpoint_was_followed(tmp_path):
    class Stop(Callback):
        def on_fit_task_end(self, estimator, context):
            return True

    X, y = moons()
    walk(checkpoint=tmp_path / "file", n_draws=20).fit(X, y)
    model = walk(checkpoint=tmp_path / "file", n_draws=40).set_callbacks(Stop()).fit(X, y)
    assert_same_draws(model, walk(n_draws=20).fit(X, y))


def test_max_time_ends_after_a_round_and_keeps_its_draws(tmp_path, monkeypatch):
    X, y = moons()
    message = "max_time=100 seconds are over: sampling has ended after 10 of at most 14 draws"
    sample, late = chains._sample_more, time_limit.clock() + 1000.0

    def beginning_late(*arguments):
        monkeypatch.setattr(time_limit, "clock", lambda: late)
        return sample(*arguments)

    monkeypatch.setattr(chains, "_sample_more", beginning_late)
    with pytest.warns(UserWarning, match=message) as caught:
        model = walk(max_time=100.0, checkpoint=tmp_path / "file").fit(X, y)
    monkeypatch.undo()
    assert not [w for w in caught if "set-up was cut short" in str(w.message)]
    assert_same_draws(model, walk(n_draws=ROUND_LENGTH).fit(X, y))
    # The file goes on, and so does a warm start.
    later = walk(checkpoint=tmp_path / "file", max_time=1e6).fit(X, y)
    model.set_params(max_time=None, checkpoint=None, warm_start=True).fit(X, y)
    for other in (later, model):
        assert_same_draws(other, walk().fit(X, y))


def test_operations_of_draws_read_in_parts_are_counted_once():
    """A run with other rounds takes draws from the file in other parts."""
    counts = ChainCounts(Counter(walk=6), Counter(walk=2), 6.0)
    draws = np.arange(6.0)[:, None]
    segment = Segment(None, np.random.default_rng(0), draws, draws, counts, np.empty((6, 0, 1)))
    tape = checkpoint._Tape([segment])
    parts = [part for n in (2, 1, 9) for part in tape.read(n)]
    assert_array_equal(np.concatenate([part.theta for part in parts]), draws)
    total = sum_counts([part.counts for part in parts])
    assert (total.n_steps, total.n_accepted) == (counts.n_steps, counts.n_accepted)
    assert total.n_evaluations == 6.0
