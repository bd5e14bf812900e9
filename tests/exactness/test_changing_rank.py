"""Chains keep the joint law of (theta, f, y) where the rank of K changes as theta moves.

Six inputs under a smooth kernel: short length-scales give all of them a value of their own, long
ones make three determine the others. `tests/planted_bugs` has a twin that forgets it.
"""

import numpy as np
import pytest
from scipy import stats

from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.model import LatentGP, Observations
from skgpmcmc.parameterizations import AncillaryAugmentation, SufficientAugmentation, SurrogateData
from skgpmcmc.testing import start_at_latent, start_with_particles
from skgpmcmc.transitions import (
    EllipticalSlice,
    HyperUpdate,
    Langevin,
    LatentUpdate,
    RandomWalk,
    RiemannianTrajectory,
    Sweep,
    Trajectory,
    UnivariateSlice,
)
from skgpmcmc.transitions.gibbs import CurvatureShape, MassShape
from skgpmcmc.transitions.joint_update import JointUpdate
from skgpmcmc.transitions.pseudo_marginal import PseudoMarginalMetropolis

from ..helpers import make_model, seeded
from .test_joint import check, examined

#: Largest size of a test, and that of the plain run.
SIZE = {"n_replicates": 1200, "n_steps": 3}
SHORT = {"n_replicates": 600, "n_steps": 2}


def changing_model(likelihood="probit", *, several=False):
    """Ranks of three to six; on request three of the inputs have a second row, of weight two."""
    X = np.linspace(0.0, 2.0, 6)[[0, 5, 2, 4, 1, 3], None]
    priors = {
        "k1__constant_value": stats.lognorm(0.7, scale=4.0),
        "k2__length_scale": stats.lognorm(1.5, scale=8.0),
    }
    model = make_model(X, np.ones(6), likelihood, priors=priors)
    if not several:
        return model
    first = np.array([0, 2, 3, 5, 6, 7])
    observations = Observations(model.likelihood, np.ones(9), first=first)
    return LatentGP(model.covariance, observations, model.hyperprior)


def conjugate_model():
    """The same with the prior that a conjugate draw of the variance wants, and mostly low ranks."""
    model = changing_model()
    priors = {
        "k1__constant_value": stats.invgamma(3.0, scale=8.0),
        "k2__length_scale": stats.lognorm(1.0, scale=60.0),
    }
    return make_model(model.covariance.X, np.ones(6), priors=priors)


#: Long enough for most of the steps to change the rank.
WALK = RandomWalk(0.6)
F_MOVES = EllipticalSlice()


def hyper(parameterization, operator=WALK):
    """Several moves of theta to one of f: what a change of the rank has lost is not drawn anew."""
    n_moves = 8 if operator is WALK else 2  # the others are long, and evaluate more
    return Sweep((F_MOVES, HyperUpdate(parameterization, operator)), (1, n_moves))


TRANSITIONS = {
    "ancillary": hyper(AncillaryAugmentation()),
    "ancillary, slice": hyper(AncillaryAugmentation(), UnivariateSlice()),
    "ancillary, hmc": hyper(AncillaryAugmentation(), Trajectory(-1.0, max_steps=3)),
    "ancillary, langevin": hyper(AncillaryAugmentation(), Langevin(0.0)),
    "surrogate": hyper(SurrogateData()),
    "surrogate, hmc": hyper(SurrogateData(), Trajectory(-1.0, max_steps=3)),
    "surrogate, langevin": hyper(SurrogateData(), Langevin(0.0)),
    "joint, ep": Sweep((JointUpdate(EP(), WALK, 0.2), F_MOVES), (1, 1)),
    "joint, laplace": Sweep((JointUpdate(Laplace(), WALK, 0.2), F_MOVES), (1, 1)),
    **{
        f"f by {name}": Sweep((HyperUpdate(AncillaryAugmentation(), WALK), move), (1, 1))
        for name, move in {
            "mass": LatentUpdate(Trajectory(-1.5, max_steps=3), MassShape(0.5)),
            "curvature": LatentUpdate(Trajectory(-0.5, max_steps=3), CurvatureShape()),
            "langevin": LatentUpdate(Langevin(-0.3)),
            "riemannian": LatentUpdate(RiemannianTrajectory(-0.7, max_steps=2)),
        }.items()
    },
    "pseudo-marginal, ep": PseudoMarginalMetropolis(EP(), WALK, 3, 0.2),
    "pseudo-marginal, laplace": PseudoMarginalMetropolis(Laplace(), WALK, 3, 0.0),
}
SOME = ["ancillary", "surrogate", "joint, ep", "pseudo-marginal, ep"]


def report_of(transition, size=SIZE, model=None):
    estimates = isinstance(transition, PseudoMarginalMetropolis)
    start = start_with_particles if estimates else start_at_latent
    model = changing_model() if model is None else model
    return examined(model, lambda *_: transition, start, np.random.default_rng(seeded()), **size)


def test_rank_of_K_varies_between_draws_of_theta():
    model, rng = changing_model(), np.random.default_rng(0)
    ranks = [model.prior_at(model.hyperprior.sample(rng)).rank for _ in range(200)]
    counts = np.bincount(ranks, minlength=7)
    assert (counts[3:7] > 5).all()


def test_moves_keep_the_joint_law_if_the_rank_changes_short_run():
    """Of the move whose twin shows at this size."""
    check(report_of(TRANSITIONS["ancillary"], SHORT))


@pytest.mark.statistical
@pytest.mark.parametrize("name", TRANSITIONS)
def test_moves_keep_the_joint_law_if_the_rank_changes(name):
    check(report_of(TRANSITIONS[name]))


@pytest.mark.statistical
@pytest.mark.parametrize("name", SOME)
def test_moves_keep_the_joint_law_with_several_rows_per_input(name):
    check(report_of(TRANSITIONS[name], model=changing_model(several=True)))


@pytest.mark.statistical
@pytest.mark.parametrize("parameterization", [SufficientAugmentation(), AncillaryAugmentation()])
def test_moves_keep_the_joint_law_with_a_nugget(parameterization):
    """What samplers that hold f state: then its rank is full."""
    model = changing_model().with_nugget(1e-8)
    assert model.prior_at(np.array([1.0, 4.0])).rank == 6
    sweep = Sweep((F_MOVES, HyperUpdate(parameterization, RandomWalk(-1.5))), (1, 2))
    check(report_of(sweep, model=model))
