"""Fixtures that several test files share; functions are in ``tests.helpers``."""

import pytest

from .helpers import DATA_VARIABLE, data_directory


@pytest.fixture(scope="session")
def find_data():
    """Path of a data set of the papers by file name; the test is skipped where it is missing."""

    def find(name):
        directory = data_directory()
        if directory is None or not (directory / name).is_file():
            pytest.skip(
                f"the data set {name} is not here: set {DATA_VARIABLE} to the directory that "
                "holds the papers' data sets"
            )
        return directory / name

    return find
