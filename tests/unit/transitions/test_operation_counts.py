"""What one step costs in operations of order n^3, kind by kind: a formula for every move.

The formulas stand in `docs/methods.rst`, beside table 1 of Filippone, Zhong & Girolami (2013).
`Cost` counts in units of 1 / n, so that matrix-vector products and solves with one right-hand side
are ones, and operations on matrices are ns.
"""

from typing import NamedTuple

import numpy as np
import pytest

from skgpmcmc.approximations import Laplace
from skgpmcmc.model import smooth_kernel
from skgpmcmc.numerics.linalg import count_operations
from skgpmcmc.parameterizations import AncillaryAugmentation, SufficientAugmentation, SurrogateData
from skgpmcmc.transitions import (
    CrankNicolson,
    EllipticalSlice,
    HyperUpdate,
    Langevin,
    LatentUpdate,
    RandomWalk,
    RiemannianTrajectory,
    Trajectory,
    UnivariateSlice,
)
from skgpmcmc.transitions.gibbs import ConjugateVariance, CurvatureShape, MassShape
from skgpmcmc.transitions.joint_update import JointUpdate

from ...helpers import in_one_test, make_model, toy_classes

N = 12
THETA = np.array([0.8, -0.3, -0.1])
P = len(THETA)


class Cost(NamedTuple):
    """Operations, by kind."""

    cholesky: int = 0  # all of these on whole matrices
    inverse: int = 0
    derivative: int = 0
    products: int = 0
    solves: int = 0
    vector_products: int = 0  # and these with one column
    vector_solves: int = 0

    def __add__(self, other):
        return Cost(*(a + b for a, b in zip(self, other, strict=True)))

    def __mul__(self, times):
        return Cost(*(times * a for a in self))

    def check(self, count):
        count = count.per(N)
        assert count.cholesky == self.cholesky
        assert count.inverse == self.inverse
        assert count.cholesky_derivative == self.derivative
        assert count.product * N == pytest.approx(self.products * N + self.vector_products)
        assert count.triangular_solve * N == pytest.approx(self.solves * N + self.vector_solves)


@pytest.fixture(scope="module")
def model():
    X, y = toy_classes(N, 2, seed=1)
    return make_model(X, y, kernel=smooth_kernel(2, ard=True), nugget=1e-6)


def one_step(model, transition, state, seed=0):
    """The state after a step, its report, and what it cost."""
    with count_operations() as count:
        state, info = transition.step(model, state, np.random.default_rng(seed))
    return state, info, count


def begun(model, *, factored=True):
    """A state whose prior has its factor, or has it not."""
    state = model.state_at(THETA, model.prior_at(THETA).sample(np.random.default_rng(2)))
    if factored:
        _ = state.prior.chol
    return state


# --- f given theta --------------------------------------------------------------------------------

WHITEN = Cost(vector_solves=1)  # where the last move was one of theta
MOVE = Cost(vector_products=1)  # f = L v
SLOPE = Cost(vector_products=1)  # L' d log p(y | f) / df
METRIC = Cost(cholesky=1, products=1)  # I + L'C L and its factor
TRAJECTORY = Trajectory(-1.0, max_steps=6)


def leapfrog(steps, of_root):
    """`steps` moves and steps + 1 gradients; the root is applied once for each of them."""
    return WHITEN + MOVE * steps + SLOPE * (steps + 1) + of_root * (2 * steps + 1)


LATENT = {
    "mh": (LatentUpdate(RandomWalk(-3.0), MassShape()), lambda k: WHITEN + MOVE + WHITEN),
    "mh_v1": (LatentUpdate(RandomWalk(-3.0)), lambda k: WHITEN + MOVE),
    "mh_v2": (CrankNicolson(-3.0), lambda k: MOVE),
    "elliptical_slice": (EllipticalSlice(), lambda k: MOVE),
    "smmala": (
        LatentUpdate(Langevin(-1.0)),
        # Two metrics, two drifts, a draw and the way back.
        lambda k: WHITEN + MOVE + (METRIC + SLOPE) * 2 + Cost(vector_products=1, vector_solves=5),
    ),
    "hmc": (LatentUpdate(TRAJECTORY, MassShape()), lambda k: leapfrog(k, Cost(vector_solves=1))),
    "hmc_v1": (
        LatentUpdate(TRAJECTORY, CurvatureShape()),
        lambda k: METRIC + leapfrog(k, Cost(vector_solves=1)),
    ),
    "hmc_v2": (LatentUpdate(TRAJECTORY), lambda k: leapfrog(k, Cost())),
}


@in_one_test("name", LATENT)
@in_one_test("seed", range(4))
def test_operations_of_a_move_of_f_match_the_documented_cost(model, name, seed):
    transition, cost = LATENT[name]
    _, info, count = one_step(model, transition, begun(model), seed)
    cost(int(info.n_evaluations)).check(count)


@in_one_test("name", LATENT)
def test_the_factor_of_K_is_made_once_for_a_theta(model, name):
    transition, cost = LATENT[name]
    _, info, count = one_step(model, transition, begun(model, factored=False))
    (cost(int(info.n_evaluations)) + Cost(cholesky=1)).check(count)


def test_moves_at_fixed_theta_reuse_factors_of_their_point(model):
    """At fixed theta SMMALA costs one factorization a move, and HMC v1 none after the first."""
    for name, per_move in {"smmala": METRIC, "hmc_v1": Cost()}.items():
        transition, _ = LATENT[name]
        state, _, _ = one_step(model, transition, begun(model))
        _, _, count = one_step(model, transition, state, seed=5)
        assert count.per(N).cholesky == per_move.cholesky


def test_operations_of_a_riemannian_trajectory_match_the_documented_cost(model):
    """And, where it begins and where a step ends, the variances of f that its gradient asks for."""
    update = LatentUpdate(RiemannianTrajectory(-1.0, max_steps=1))
    _, info, count = one_step(model, update, begun(model))
    count, metrics = count.per(N), info.n_evaluations / N + 1.0  # the one where it begins
    assert count.cholesky == metrics
    assert count.inverse == count.cholesky_derivative == 0
    assert 0.0 < count.product * N - metrics * METRIC.products * N < 10.0 * metrics
    assert 0.0 < count.triangular_solve * N - 2.0 * N < 20.0 * metrics


# --- theta ----------------------------------------------------------------------------------------

#: What stands still; a relocation, the factor of K included; a gradient; a metric.
VERBS = {
    "sa": (
        SufficientAugmentation(),
        Cost(),
        Cost(cholesky=1, vector_solves=1),
        Cost(inverse=1, vector_solves=2),
        Cost(products=P),  # with the inverse that the gradient has
    ),
    "aa": (
        AncillaryAugmentation(),
        Cost(vector_solves=1),
        Cost(cholesky=1, vector_products=1),
        Cost(derivative=1),
        Cost(solves=2 * P, vector_products=P),
    ),
    "surr": (
        SurrogateData(),
        METRIC + Cost(vector_products=2, vector_solves=2),
        METRIC + Cost(cholesky=1, vector_products=2, vector_solves=2),
        Cost(derivative=2, products=1, vector_products=2, vector_solves=2),
        Cost(
            products=1 + P * (1 + 1 + 1 + 1 + 1),
            solves=1 + 4 * P,
            vector_products=2 * P,
            vector_solves=2 * P,
        ),
    ),
}


def here(name):
    """Cost of the point where a move begins, which has its factors."""
    _, auxiliary, relocation, _, _ = VERBS[name]
    free = Cost(vector_products=relocation.vector_products, vector_solves=relocation.vector_solves)
    return auxiliary + free


@in_one_test("name", VERBS)
@in_one_test("seed", range(3))
def test_operations_of_a_move_of_theta_match_the_documented_cost(model, name, seed):
    parameterization, _, relocation, gradient, metric = VERBS[name]
    walk = HyperUpdate(parameterization, RandomWalk(-3.0))
    _, _, count = one_step(model, walk, begun(model), seed)
    (here(name) + relocation).check(count)

    trajectory = HyperUpdate(parameterization, Trajectory(-4.0, max_steps=4))
    _, info, count = one_step(model, trajectory, begun(model), seed)
    steps = int(info.n_evaluations)
    (here(name) + relocation * steps + gradient * (steps + 1)).check(count)

    langevin = HyperUpdate(parameterization, Langevin(-4.0))
    _, _, count = one_step(model, langevin, begun(model), seed)
    (here(name) + relocation + (gradient + metric) * 2).check(count)

    slices = HyperUpdate(parameterization, UnivariateSlice())
    _, info, count = one_step(model, slices, begun(model), seed)
    assert not info.failed
    (here(name) + relocation * int(info.n_evaluations)).check(count)


def test_operations_of_a_conjugate_draw_match_the_documented_cost(model):
    _, _, count = one_step(model, ConjugateVariance(0, 2.0, 2.0), begun(model))
    Cost(cholesky=1, vector_solves=1).check(count)


def test_operations_of_a_joint_update_match_the_documented_cost(model):
    """The Newton steps of Laplace, a factor of B at the mode, and one of K for the draw."""
    update = JointUpdate(Laplace(), RandomWalk(-3.0))
    state = update.start(model, THETA, np.random.default_rng(3))
    after, info, count = one_step(model, update, state, seed=1)
    assert info.accepted
    newton_steps = Laplace().fit(model, after.theta).n_iterations
    assert count.per(N).cholesky == newton_steps + 2
    assert (count.inverse, count.cholesky_derivative) == (0, 0)
