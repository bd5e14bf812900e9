"""Options, markers and fixtures that several test files share; functions are in `tests.helpers`.

The process that hands out tests to workers reads this file too, and needs nothing of the package:
`helpers` is imported where a test begins.
"""

import os
import tempfile

import pytest
from threadpoolctl import threadpool_limits

# Hypothesis writes files of its own, which have no place in the tree.
os.environ.setdefault(
    "HYPOTHESIS_STORAGE_DIRECTORY", os.path.join(tempfile.gettempdir(), "hypothesis")
)


def pytest_addoption(parser):
    parser.addoption(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of every statistical test (default 0); the others keep theirs",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """`helpers.seeded` follows --seed in statistical tests, and in no others."""
    from . import helpers

    statistical = item.get_closest_marker("statistical") is not None
    helpers.set_seed(item.config.getoption("seed") if statistical else 0)


@pytest.fixture(scope="session", autouse=True)
def _one_blas_thread():
    """Small matrices, and a process for each core: more threads would wait for one another."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(scope="session")
def find_data():
    """Path of a data set of the papers by file name; the test is skipped where it is missing."""
    from . import helpers

    def find(name):
        directory = helpers.data_directory()
        if directory is None or not (directory / name).is_file():
            pytest.skip(
                f"the data set {name} is not here: set {helpers.DATA_VARIABLE} to the directory "
                "that holds the papers' data sets"
            )
        return directory / name

    return find
