"""Names of hyper-parameters: those of the components of vectors, and ends of names."""

import pytest
from scipy import stats

from skgpmcmc.model.names import element_names, find_names
from skgpmcmc.model.prior_table import PriorTable

from ...helpers import in_one_test

VECTOR = ["k1__k1__constant_value", "k1__k2__length_scale", "k1__k2__length_scale", "noise_scale"]
ELEMENTS = ["k1__k2__length_scale[0]", "k1__k2__length_scale[1]"]
NAMED = ["k1__k2__length_scale[east]", "k1__k2__length_scale[a__b[0]]"]
TWO = ["k1__length_scale", "k2__length_scale"]
NESTED = ["k1__k2__length_scale", "k2__length_scale"]


def test_components_of_a_vector_have_their_index_or_the_name_of_their_feature():
    first, *_, last = VECTOR
    assert element_names(VECTOR) == [first, *ELEMENTS, last]
    assert element_names(VECTOR, {VECTOR[1]: ["east", "a__b[0]"]}) == [first, *NAMED, last]
    assert element_names(VECTOR, {VECTOR[1]: ["a", "b", "c"]}) == [first, *ELEMENTS, last]


@in_one_test(
    "name, names, found",
    [
        ("noise_scale", VECTOR, ["noise_scale"]),
        ("constant_value", VECTOR, ["k1__k1__constant_value"]),
        ("k1__constant_value", VECTOR, ["k1__k1__constant_value"]),
        ("k1__k1__constant_value", VECTOR, ["k1__k1__constant_value"]),
        # A component, and all components of a vector.
        ("length_scale[1]", ELEMENTS, ELEMENTS[1:]),
        ("k2__length_scale[0]", ELEMENTS, ELEMENTS[:1]),
        ("length_scale", ELEMENTS, ELEMENTS),
        ("k1__k2__length_scale", ELEMENTS, ELEMENTS),
        ("length_scale", NAMED, NAMED),
        ("length_scale[east]", NAMED, NAMED[:1]),
        # Several, unless the name is one of them.
        ("length_scale", TWO, TWO),
        ("length_scale", NESTED, NESTED),
        ("k2__length_scale", NESTED, ["k2__length_scale"]),
    ],
)
def test_a_name_stands_for_itself_or_for_all_that_end_in_it(name, names, found):
    assert find_names(name, names) == found


@in_one_test(
    "name", ["scale", "_length_scale", "__length_scale", "length", "k3__length_scale", "[0]", ""]
)
def test_parts_of_words_and_other_names_stand_for_nothing(name):
    for names in (["k1__length_scale", "length_scale"], ELEMENTS, []):
        assert find_names(name, names) == []


def test_priors_are_found_by_the_end_of_a_name_that_no_other_name_shares():
    laws = {"k1__k2__length_scale": stats.gamma(2.0), "k2__slope_variance": stats.gamma(3.0)}
    table = PriorTable(laws, dict.fromkeys(laws, "given"))
    assert table["length_scale"] is table["k2__length_scale"] is laws["k1__k2__length_scale"]
    assert "slope_variance" in table
    assert list(table) == list(laws)
    shared = PriorTable(dict.fromkeys(TWO, stats.gamma(2.0)), dict.fromkeys(TWO, "given"))
    for name in ("length_scale", "scale", "noise_scale"):
        with pytest.raises(KeyError, match=name):
            shared[name]
