"""The limit on BLAS threads: one for all who want it, whenever they come and leave."""

import multiprocessing
import threading

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from skgpmcmc.parallel.threads import one_thread


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    """A BLAS that has two threads before, and the limit of the test process afterwards."""
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("the number of threads of this BLAS cannot be set")
        yield


def contexts_in_two_threads(steps):
    """Two threads enter and leave; `steps` names whose turn it is. Returns what each step saw."""
    turns = {name: threading.Semaphore(0) for name in set(steps)}
    done = threading.Semaphore(0)

    def worker(name):
        turns[name].acquire()
        with one_thread():
            done.release()
            turns[name].acquire()
        done.release()

    threads = [threading.Thread(target=worker, args=(name,)) for name in turns]
    for thread in threads:
        thread.start()
    seen = []
    for name in steps:
        turns[name].release()
        assert done.acquire(timeout=10.0)
        seen.append(blas_threads())
    for thread in threads:
        thread.join(10.0)
    return seen


@pytest.mark.parametrize("steps", ["abab", "abba"], ids=["first in, first out", "nested"])
def test_blas_limit_holds_until_the_last_of_two_threads_leaves(steps, two_threads):
    """The first to leave must not lift the limit, nor the last restore that of the first."""
    assert contexts_in_two_threads(steps) == [{1}, {1}, {1}, {2}]


def test_blas_limit_is_lifted_after_an_error(two_threads):
    def fail():
        with one_thread(), one_thread():
            assert blas_threads() == {1}
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert blas_threads() == {2}


def _threads_of_a_context(connection):
    with one_thread():
        inside = blas_threads()
    connection.send((inside, blas_threads()))


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="processes cannot be forked here"
)
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_threads_that_it_does_not_have(two_threads):
    """Another thread has a context open, and even the lock, at the time of the fork."""
    from skgpmcmc.parallel import threads

    opened, close = threading.Event(), threading.Event()

    def holder():
        with one_thread():
            opened.set()
            close.wait(10.0)

    thread = threading.Thread(target=holder)
    thread.start()
    assert opened.wait(10.0)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_threads_of_a_context, args=(there,))
    with threads._SHARED_LIMIT.lock:
        process.start()
    try:
        assert here.poll(20.0), "the forked process is stuck"
        assert here.recv() == ({1}, {2})
    finally:
        process.terminate()
        process.join()
        close.set()
        thread.join()
    assert blas_threads() == {2}
