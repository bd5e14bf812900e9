"""Kernels on columns and on categories: values, levels, and errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from skgpmcmc.kernels import Categorical, Linear, On
from skgpmcmc.kernels.columns import find_positions
from skgpmcmc.model.default_priors import default_priors, paper_prior
from skgpmcmc.model.kernels import check_kernel, variance_position
from skgpmcmc.model.lengths import length_bounds
from skgpmcmc.model.parts import complete_kernel, find_columns, label_elements

from ...helpers import in_one_test

NAMES = ["east", "north", "soil", "time"]
RNG = np.random.default_rng(0)
X = np.column_stack(
    [RNG.uniform(size=(12, 2)), np.arange(12) % 3, RNG.uniform(0.0, 100.0, size=12)]
)
TABLE = dict(zip(NAMES, X.T, strict=True))
SPACE_TIME = (
    ConstantKernel() * On(RBF([1.0, 1.0]), ["east", "north"])
    + ConstantKernel() * On(RBF(), "time")
    + ConstantKernel() * Categorical("soil")
)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_columns_of_a_data_frame_are_found_by_name_and_position(frame):
    table = frame(TABLE)
    expected = RBF()(X[:, [3, 0]])
    assert_array_equal(On(RBF(), ["time", "east"])(table), expected)
    assert_array_equal(On(RBF(), [3, 0])(table), expected)
    assert_array_equal(On(RBF(), [3, 0])(X.tolist()), expected)
    assert_array_equal(On(RBF(), ["time", "east"], NAMES)(X), expected)
    reordered = table[["soil", "time", "north", "east"]]
    assert_array_equal(On(RBF(), ["time", "east"])(reordered), expected)


def test_columns_may_have_names_that_are_no_text():
    table = pd.DataFrame(X, columns=[10, 11, 12, 13])
    assert_array_equal(On(RBF(), 3)(table), RBF()(X[:, [3]]))
    assert_array_equal(On(RBF(), "13")(table), RBF()(X[:, [3]]))


@in_one_test(
    "columns, message",
    [
        ([], "has no column"),
        ("soil", "X has no names"),
        (4, "from 0 to 3"),
        (-1, "from 0 to 3"),
        ([0, 0], "a column twice"),
        (1.5, "names, or positions"),
        (True, "names, or positions"),
    ],
)
def test_wrong_columns_are_refused(columns, message):
    with pytest.raises((ValueError, TypeError), match=message):
        find_positions([columns] if isinstance(columns, float) else columns, 4)


def test_name_that_is_no_column_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match=r"'est', which is not among the columns \['east'"):
        On(RBF(), "est")(pd.DataFrame(TABLE))
    with pytest.raises(ValueError, match="X must have two dimensions"):
        On(RBF(), 0)(X[:, 0])


# --- levels ---------------------------------------------------------------------------------------

LEVELS = ("clay", "peat", "sand")
SOIL = np.array(["sand", "clay", "peat", "sand"], dtype=object)[:, None]


def test_correlation_of_levels():
    u = np.array([0.1, 0.5, 2.0])
    kernel = Categorical(0, u, levels=LEVELS)
    K = kernel(SOIL)
    assert K[0, 3] == K[0, 0] == 1.0
    assert K[0, 1] == pytest.approx(np.exp(-2.1))
    assert K[1, 2] == pytest.approx(np.exp(-0.6))
    new = kernel(SOIL, np.array([["loam"], ["chalk"]], dtype=object))
    assert_allclose(new[:, 0], np.exp(-u)[[2, 0, 1, 2]] * np.mean(np.exp(-u)))
    assert_array_equal(new[:, 0], new[:, 1])
    two = kernel(np.array([["loam"], ["chalk"]], dtype=object))
    assert two[0, 1] == pytest.approx(np.mean(np.exp(-u)) ** 2)


def test_one_distance_for_all_levels_needs_no_levels():
    K = Categorical(0, 0.5)(SOIL)
    assert_allclose(K[0], [1.0, np.exp(-1.0), np.exp(-1.0), 1.0])
    several = Categorical([0, 1], 0.5)(np.array([[0.0, 1.0], [0.0, 2.0], [1.0, 2.0]]))
    assert_allclose(several[0], [1.0, np.exp(-1.0), np.exp(-2.0)])


def test_numbers_stand_for_positions_among_levels_of_text():
    kernel = Categorical(0, [0.1, 0.5, 2.0], levels=LEVELS)
    assert_array_equal(kernel(np.array([[2.0], [0.0], [1.0], [2.0]])), kernel(SOIL))
    with pytest.raises(ValueError, match="text in one table and numbers in the other"):
        kernel(SOIL, np.array([[0.0]]))


@in_one_test(
    "kernel, message",
    [
        (Categorical(0, [0.1, 0.2]), "2 distances and no levels"),
        (Categorical(0, [0.1, 0.2], levels=LEVELS), r"the levels \['clay', 'peat', 'sand'\]"),
        (Categorical([0, 1], [0.1, 0.2], levels=LEVELS), "one distance, or a single column"),
    ],
)
def test_number_of_distances_must_fit_the_levels(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel(X)


def test_gradient_is_for_one_set_of_rows():
    with pytest.raises(ValueError, match="leave Y out"):
        Categorical(0)(X, X, eval_gradient=True)
    _, gradient = Categorical(0, 0.5, "fixed")(X, eval_gradient=True)
    assert gradient.shape == (12, 12, 0)


# --- in a model -----------------------------------------------------------------------------------


def test_complete_kernel_has_names_and_levels_and_centers_of_its_columns():
    kernel = On(Linear(), ["north", "time"]) + Categorical("soil") + On(Categorical("soil"), [2, 0])
    complete_kernel(kernel, X, NAMES)
    linear = kernel.k1.k1
    assert linear.kernel.center.tolist() == X[:, [1, 3]].mean(axis=0).tolist()
    assert linear.feature_names == tuple(NAMES)
    assert kernel.k1.k2.levels == (0.0, 1.0, 2.0)
    inner = kernel.k2.kernel
    assert inner.feature_names == ("soil", "east")
    assert inner.levels == (0.0, 1.0, 2.0)
    text = complete_kernel(Categorical("soil"), X, NAMES, [(), (), LEVELS, ()])
    assert text.levels == LEVELS


def test_hyperparameters_belong_to_columns_and_have_their_labels():
    columns = find_columns(SPACE_TIME, 4, NAMES)
    assert columns["k1__k1__k2__kernel__length_scale"] == [0, 1]
    assert columns["k1__k1__k1__constant_value"] == [0, 1]
    assert columns["k1__k2__k2__kernel__length_scale"] == [3]
    assert columns["k2__k2__distance"] == [2]
    labels = label_elements(SPACE_TIME, 4, NAMES)
    assert labels["k1__k1__k2__kernel__length_scale"] == ["east", "north"]
    per_level = Categorical(2, np.ones(3), levels=LEVELS)
    assert label_elements(per_level, 4) == {"distance": list(LEVELS)}


def test_default_priors_come_from_the_columns_of_a_kernel():
    kernel = complete_kernel(SPACE_TIME, X, NAMES)
    table = default_priors(kernel, X)
    low, high = length_bounds(X[:, [3]])
    assert table["k1__k2__k2__kernel__length_scale"].median() == pytest.approx(np.sqrt(low * high))
    low, high = length_bounds(X[:, :2], per_feature=True)
    assert table["k1__k1__k2__kernel__length_scale"].median() == pytest.approx(np.sqrt(low * high))
    correlation = np.exp(-2.0 * table["k2__k2__distance"].median())
    assert correlation == pytest.approx(0.5, abs=0.01)
    assert "distance of levels" in table.origins["k2__k2__distance"]


def test_constant_of_a_linear_kernel_has_the_unit_of_its_columns():
    kernel = ConstantKernel() * On(DotProduct(), 3) + ConstantKernel() * On(DotProduct(), 0)
    table = default_priors(kernel, X)
    first, second = (table[f"k{k}__k1__constant_value"].median() for k in (1, 2))
    assert second / first > 1e3
    alone = default_priors(ConstantKernel() * DotProduct(), X[:, [3]])
    assert first == pytest.approx(alone["k1__constant_value"].median())


def test_papers_prior_of_a_length_scale_counts_its_columns():
    table = {d: paper_prior("length_scale", X[:, :d]).mean() for d in (1, 2)}
    assert table[2] == pytest.approx(np.sqrt(2.0) * table[1])


@in_one_test(
    "kernel, message",
    [
        (On(RBF(np.ones(3)), ["east", "north"]), "has 3 elements but its On.* selects 2 of the 4"),
        (On(RBF(), "est"), "not among the columns"),
        (On(RBF(-1.0), 0), "'kernel__length_scale' is -1.0"),
        (Categorical("soil", -1.0), "'distance' is -1.0"),
        (Categorical("soil", -1.0, "fixed"), "fixed at -1.0"),
    ],
)
def test_wrong_kernels_are_refused(kernel, message):
    with pytest.raises(ValueError, match=message):
        check_kernel(kernel, 4, NAMES)


def test_constant_on_columns_is_a_variance_of_the_whole_kernel():
    assert variance_position(On(ConstantKernel() * RBF(), 0)) == 0
    assert variance_position(On(RBF(), 0) * ConstantKernel()) == 1
    assert variance_position(Categorical(0)) is None
