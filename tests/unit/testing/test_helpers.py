"""Helpers of the tests themselves: cases in one test, and coverings of pairs."""

from itertools import combinations, product

import pytest

from ...helpers import every_pair, in_one_test


def test_in_one_test_tries_all_cases_and_names_failures():
    tried = []

    @in_one_test("a, b", [(1, 2), (3, 4), (5, 6)])
    @in_one_test("c", ["x", "y"], ids=["first", "second"])
    def cases(a, b, c):
        tried.append((a, b, c))
        assert a != 3 or c != "y"
        if a == 5:
            pytest.fail("on purpose")

    with pytest.raises(AssertionError) as caught:
        cases()
    assert len(tried) == 6
    assert str(caught.value).count("on purpose") == 2
    assert "3, 4" in str(caught.value)
    assert "second" in str(caught.value)
    assert "1, 2" not in str(caught.value)


def test_every_pair_covers_all_pairs_of_settings():
    dimensions = ("abc", range(4), (None, True), "xyz")
    cases = every_pair(*dimensions)
    for i, j in combinations(range(4), 2):
        met = {(case[i], case[j]) for case in cases}
        assert met == set(product(dimensions[i], dimensions[j]))
    assert len(cases) < 20
