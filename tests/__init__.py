"""Tests of skgpmcmc."""

import pytest

# Assertions of the shared suites explain themselves only if pytest rewrites their module.
pytest.register_assert_rewrite("tests.helpers")
