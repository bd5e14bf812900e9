"""Workers that are lost, and work on a cluster: the draws are the same."""

import functools
import os
import signal
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import joblib
import numpy as np
import pytest
from joblib.externals.loky.process_executor import TerminatedWorkerError
from numpy.testing import assert_array_equal
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.likelihoods import Probit
from skgpmcmc.parallel.workers import LostWorkersError, Workers, count_workers, make_pool
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import short_chains
from .conftest import assert_same_draws

# A few draws are enough here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N_DRAWS = 60  # two rounds


def moons():
    return make_moons(20, noise=0.2, random_state=0)


def quick(**changes):
    settings = {"n_chains": 2, "n_warmup": 15, "n_draws": N_DRAWS, "target_ess": None}
    sampler = PseudoMarginal(moves="random_walk")
    return BayesianGPClassifier(
        **{**settings, "sampler": sampler, "n_importance": 4, "random_state": 0, **changes}
    )


@functools.cache
@short_chains()
def wanted():
    return quick().fit(*moons())


def assert_same(model):
    assert_same_draws(model, wanted())
    assert_array_equal(model.predict_proba(moons()[0]), wanted().predict_proba(moons()[0]))


@dataclass(frozen=True, eq=False)
class Deadly(Probit):
    """A probit that kills its worker, now and then, as long as there are files in a folder."""

    folder: str = ""
    parent: int = 0
    every: int = 1  # evaluations in one process

    def log_prob(self, y, f):
        if os.getpid() != self.parent and next(_EVALUATIONS) % self.every == 0:
            for token in Path(self.folder).iterdir():
                token.unlink(missing_ok=True)
                os.kill(os.getpid(), signal.SIGKILL)
        return super().log_prob(y, f)


_EVALUATIONS = iter(range(1, 10**9))


def deadly(folder, n_losses, every=60, **changes):
    for i in range(n_losses):
        (folder / str(i)).touch()
    return quick(likelihood=Deadly(str(folder), os.getpid(), every), n_jobs=2, **changes)


# --- the pool -------------------------------------------------------------------------------------


def run(errors):
    """Calls of workers whose pools fail, one error after the other, and then make the calls."""

    def compute(calls):
        if errors:
            raise errors.pop(0)
        return [function(*arguments) for function, arguments, _ in calls]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joblib, "Parallel", lambda n_jobs: nullcontext(compute))
        with Workers(2) as workers:
            return workers.run([joblib.delayed(abs)(-x) for x in range(3)])


class KilledWorker(Exception):  # as dask calls it
    pass


CANCELLED = TypeError("'CancelledError' object is not iterable")


@pytest.mark.parametrize(
    "losses",
    [[TerminatedWorkerError()], [KilledWorker(), CANCELLED], [TerminatedWorkerError()] * 2],
)
def test_work_of_a_lost_worker_is_repeated(losses):
    with pytest.warns(UserWarning, match="A worker was lost") as caught:
        assert run(list(losses)) == [0, 1, 2]
    assert len(caught) == len(losses)


@pytest.mark.filterwarnings("ignore:A worker was lost")
def test_three_losses_in_a_row_are_an_error():
    with pytest.raises(LostWorkersError, match=r"lost 3 times in a row .* out of memory .Killed"):
        run([KilledWorker() for _ in range(3)])


@pytest.mark.parametrize(
    "error", [ZeroDivisionError(), TypeError("no number"), KeyboardInterrupt()]
)
def test_error_in_a_call_is_raised_without_repetition(error):
    with pytest.raises(type(error)):
        run([error])


# --- processes that are killed --------------------------------------------------------------------


@pytest.mark.statistical
def test_a_killed_process_changes_no_draw(tmp_path):
    with pytest.warns(UserWarning, match="A worker was lost"):
        model = deadly(tmp_path, 1).fit(*moons())
    assert not list(tmp_path.iterdir())
    assert_same(model)


@pytest.mark.statistical
def test_processes_killed_repeatedly_end_the_fit_with_an_error(tmp_path):
    model = deadly(tmp_path, 40, every=1)
    lost = pytest.warns(UserWarning, match="A worker was lost")
    with lost, pytest.raises(LostWorkersError, match="ran out of memory"):
        model.fit(*moons())
    assert not hasattr(model, "theta_samples_")


# --- a cluster ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    """Two processes of dask on this machine."""
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        local = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        )
        client = distributed.Client(local)
        yield client
        client.close()
        local.close()


@pytest.mark.statistical
def test_dask_cluster_makes_the_same_draws(cluster):
    with joblib.parallel_config(backend="dask"):
        model = quick().fit(*moons())
        assert_same(model)


@pytest.mark.statistical
def test_search_on_a_dask_cluster_has_the_same_scores(cluster):
    X, y = moons()
    grid = {"n_importance": [4, 8]}
    search = GridSearchCV(quick(n_draws=20), grid, cv=2, error_score="raise", refit=False)
    alone = search.fit(X, y).cv_results_["mean_test_score"]
    with joblib.parallel_config(backend="dask"):
        together = search.fit(X, y).cv_results_["mean_test_score"]
    assert_array_equal(together, alone)
    assert np.isfinite(alone).all()


def find_processes(n_jobs):
    """Number of workers that a fit would use here, this process, and those that make its calls."""
    calls = make_pool(n_jobs)(joblib.delayed(os.getpid)() for _ in range(3))
    return count_workers(n_jobs), os.getpid(), set(calls)


@pytest.mark.statistical
def test_fit_in_a_task_of_dask_stays_there_unless_it_asks_for_workers(cluster):
    with joblib.parallel_config(backend="dask"):
        outside, own, processes = find_processes(None)
        assert outside == 2
        assert own not in processes
        for n_jobs, wanted in ((None, 1), (1, 1), (2, 2)):
            (inside, own, processes), _ = joblib.Parallel()(
                joblib.delayed(find_processes)(n_jobs) for _ in range(2)
            )
            assert inside == wanted
            # Of calls to all workers this one may happen to make all.
            assert wanted == 2 or processes == {own}


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore:A worker was lost")
def test_killed_worker_of_a_dask_cluster_changes_no_draw(cluster, tmp_path):
    """With a checkpoint, which has to bear that calls are made again."""
    (tmp_path / "tokens").mkdir()
    file = tmp_path / "file"
    with joblib.parallel_config(backend="dask"):
        model = deadly(tmp_path / "tokens", 1, checkpoint=file).set_params(n_jobs=None)
        model.fit(*moons())
    assert not list((tmp_path / "tokens").iterdir())
    assert_same(model)
