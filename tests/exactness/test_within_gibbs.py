"""Moves of f, of theta, and alternating moves of both: exact answers and joint distributions.

`JOINT` has the size of every joint test. The wrong twins in `tests/planted_bugs` have the size of
the same table, so that wrong moves are caught at the size at which the right ones pass.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.likelihoods import Gaussian, Poisson
from skgpmcmc.model import (
    LatentGP,
    Observations,
    default_hyperprior,
    make_covariance,
    smooth_kernel,
)
from skgpmcmc.model.kernels import variance_position
from skgpmcmc.parameterizations import (
    AncillaryAugmentation,
    DenseRoot,
    SufficientAugmentation,
    SurrogateData,
)
from skgpmcmc.testing import PROBABILITIES, Reference, exact_answer_test, start_at_latent
from skgpmcmc.transitions import (
    CrankNicolson,
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
from skgpmcmc.transitions.gibbs import ConjugateVariance, CurvatureShape, MassShape
from skgpmcmc.transitions.joint_update import JointUpdate

from ..helpers import Z_LIMIT, given_model, make_model, seeded
from . import test_every_model as every
from .test_grid_posterior import Grid, check_exact
from .test_joint import LEAST_ACCEPTANCE, LEVEL, check, examined, small_model

TRAJECTORY = Trajectory(-0.5, max_steps=4)

#: Moves of f, by the names that samplers give them.
LATENT = {
    "mh": LatentUpdate(RandomWalk(-0.9), MassShape()),
    "mh_v1": LatentUpdate(RandomWalk(-0.5)),
    "mh_v2": CrankNicolson(0.0),
    "smmala": LatentUpdate(Langevin(0.0)),
    "elliptical_slice": EllipticalSlice(),
    "hmc": LatentUpdate(TRAJECTORY, MassShape()),
    "hmc with a mass matrix": LatentUpdate(TRAJECTORY, MassShape(0.5 * np.eye(4) + 0.5)),
    "hmc_v1": LatentUpdate(TRAJECTORY, CurvatureShape()),
    "hmc_v2": LatentUpdate(TRAJECTORY),
    "rmhmc": LatentUpdate(RiemannianTrajectory(0.0, max_steps=2)),
}
PARAMETERIZATIONS = {
    "sa": SufficientAugmentation(),
    "aa": AncillaryAugmentation(),
    "surr": SurrogateData(),
}
OPERATORS = {
    "mh": RandomWalk(-0.5),
    "hmc": Trajectory(-1.2, max_steps=3),
    "smmala": Langevin(0.3),
    "slice": UnivariateSlice(),
}
HYPER = {
    f"{name} {operator}": HyperUpdate(PARAMETERIZATIONS[name], OPERATORS[operator])
    for name in PARAMETERIZATIONS
    for operator in OPERATORS
}


def sweep(*parts):
    return Sweep(parts, (1,) * len(parts))


#: What moves theta and f together, or several times.
WHOLE = {
    "asis": sweep(LATENT["hmc_v2"], HYPER["sa mh"], HYPER["aa mh"]),
    "surr": sweep(LATENT["smmala"], HYPER["surr slice"]),
    "khr": JointUpdate(Laplace(), RandomWalk(-0.3)),
    "khr, defensive": JointUpdate(EP(), RandomWalk(-0.3), defensive=0.3),
    "khr and f": sweep(JointUpdate(Laplace(), RandomWalk(-0.3)), LATENT["hmc_v1"], LATENT["mh_v2"]),
    "some of theta": sweep(
        HyperUpdate(SufficientAugmentation(), Trajectory(-0.7, max_steps=3), free=np.array([1])),
        HyperUpdate(AncillaryAugmentation(), Langevin(0.3), free=np.array([0])),
    ),
}

# --- operators on a density that is known ---------------------------------------------------------


class Bent:
    """x_0 is the log of a Gamma(2) variable and x_1 ~ N(x_0^2 / 2, 1): skewed and curved."""

    def at(self, position):
        return BentPoint(position)

    @staticmethod
    def draw(rng):
        first = np.log(rng.gamma(2.0))
        return np.array([first, 0.5 * first**2 + rng.standard_normal()])


@dataclass(frozen=True, eq=False)
class BentPoint:
    """A metric that changes from place to place, and suits the density."""

    position: np.ndarray

    @property
    def log_density(self):
        x, y = np.clip(self.position, -40.0, 40.0)
        return 2.0 * x - np.exp(x) - 0.5 * (y - 0.5 * x**2) ** 2

    @property
    def gradient(self):
        x, y = np.clip(self.position, -40.0, 40.0)
        return np.array([2.0 - np.exp(x) + x * (y - 0.5 * x**2), 0.5 * x**2 - y])

    @property
    def metric(self):
        x = np.clip(self.position[0], -40.0, 40.0)
        return np.array([[0.5 + np.exp(x) + x**2, -x], [-x, 1.0]])

    @property
    def metric_root(self):
        return DenseRoot.of_precision(self.metric)


OPERATOR_SIZE = (1200, 8)


def operator_test(operator, size=OPERATOR_SIZE):
    """Smallest p-value, Bonferroni: exact draws are moved, and must have kept their law."""
    n_replicates, n_steps = size
    rng = np.random.default_rng(seeded())
    operator = operator.with_root(DenseRoot(np.array([[0.8, 0.0], [0.3, 1.2]])))
    ends, n_accepted = [], 0
    for _ in range(n_replicates):
        point = BentPoint(Bent.draw(rng))
        for _ in range(n_steps):
            outcome = operator.move(Bent(), point, rng)
            point = outcome.point
            n_accepted += outcome.accepted
        ends.append(point.position)
    x, y = np.transpose(ends)
    residual = y - 0.5 * x**2
    p_values = [
        stats.kstest(np.exp(np.minimum(x, 50.0)), stats.gamma(2.0).cdf).pvalue,
        stats.kstest(residual, "norm").pvalue,
        stats.pearsonr(x, residual).pvalue,
        stats.pearsonr(np.abs(x - x.mean()), np.abs(residual)).pvalue,
    ]
    return len(p_values) * min(p_values), n_accepted / (n_replicates * n_steps)


ON_BENT = {
    "mh": RandomWalk(0.0),
    "hmc": Trajectory(0.1, max_steps=4),
    "smmala": Langevin(0.3),
    "slice": UnivariateSlice(),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", ON_BENT)
def test_an_operator_keeps_a_known_density(name):
    p_value, acceptance_rate = operator_test(ON_BENT[name])
    assert p_value > LEVEL
    assert acceptance_rate > LEAST_ACCEPTANCE


# --- joint distributions --------------------------------------------------------------------------


#: Some of the moves hold f still while theta moves: they need a density of f at every theta.
NUGGET = 1e-8


def classes():
    """Four points that say little of f."""
    return small_model(4, 4.0).with_nugget(NUGGET)


def numbers():
    """Five points that say much of f, under wide priors; the noise belongs to theta."""
    priors = {
        "k1__constant_value": stats.lognorm(1.2, scale=2.0),
        "k2__length_scale": stats.lognorm(1.0),
        "noise_scale": stats.lognorm(0.3, scale=0.5),
    }
    covariance = make_covariance(smooth_kernel(1), np.linspace(0.0, 2.0, 5)[:, None])
    likelihood = Gaussian(0.5)
    hyperprior = default_hyperprior(covariance, likelihood, priors)
    model = LatentGP(covariance, Observations(likelihood, np.zeros(5)), hyperprior)
    return model.with_nugget(NUGGET)


def conjugate_model():
    """The classes, with a prior on the variance that is conjugate given f."""
    model = small_model(4, 4.0)
    priors = {
        **model.hyperprior.distributions,
        "k1__constant_value": stats.invgamma(3.0, scale=4.0),
    }
    return make_model(model.covariance.X, model.y, priors=priors)


def conjugate(model):
    return ConjugateVariance(variance_position(model.covariance.kernel), 3.0, 4.0)


def wide(likelihood="probit", variance=9.0):
    """Two points whose curvature changes much where f is."""
    return given_model(variance * np.array([[1.0, 0.6], [0.6, 1.0]]), np.ones(2), likelihood)


class JointTest(NamedTuple):
    """A prior-invariance test of a transition on (theta, f), and its size."""

    transition: object
    model: Callable
    n_replicates: int
    n_steps: int

    def report(self, twin=None):
        """Of the transition, or of a wrong twin of it, at the same size."""
        transition = twin or self.transition
        return examined(
            self.model(),
            lambda *_: transition,
            start_at_latent,
            np.random.default_rng(seeded()),
            n_replicates=self.n_replicates,
            n_steps=self.n_steps,
            n_reference=max(2000, 4 * self.n_replicates),
        )


ASIS = sweep(HYPER["sa mh"], HYPER["aa mh"])
#: Moves whose twins show in many replicates only.
LONG = {
    "f: hmc": 1500,
    "f: hmc_v1": 1500,
    "theta: sa mh": 600,
    "theta: aa mh": 600,
    "theta: surr mh": 3000,
    "both: khr": 1000,
}
#: Every joint test at length, by the kind of the move and its name, with its largest size, which is
#: that of the twin in `tests/planted_bugs` that is hardest to see: its p-value is below 1e-8 with
#: most seeds. Correct moves mostly take half of the replicates.
JOINT = (
    {f"f: {name}": JointTest(move, classes, 400, 5) for name, move in LATENT.items()}
    | {f"theta: {name}": JointTest(move, numbers, 400, 8) for name, move in HYPER.items()}
    | {f"both: {name}": JointTest(move, classes, 400, 8) for name, move in WHOLE.items()}
    | {
        "theta: asis mh": JointTest(ASIS, numbers, 600, 8),
        "conjugate draw": JointTest(conjugate(conjugate_model()), conjugate_model, 2000, 5),
        "wide rmhmc": JointTest(LATENT["rmhmc"], wide, 1000, 6),
        "rmhmc of counts": JointTest(LATENT["rmhmc"], lambda: wide(Poisson(), 1.0), 400, 4),
    }
)
JOINT |= {name: JOINT[name]._replace(n_replicates=n, n_steps=8) for name, n in LONG.items()}

#: Transitions in short: each at a size at which its twin is caught. Twins of khr and of the moves
#: by surrogate data show at length only, and exact tests of the parts catch those of rmhmc
#: (`tests/unit/transitions/test_riemannian.py`).
QUICK = {
    "f: mh": JointTest(LATENT["mh"], classes, 200, 4),
    "f: mh_v2": JointTest(LATENT["mh_v2"], classes, 200, 4),
    "f: hmc": JointTest(LATENT["hmc"], classes, 400, 4),
    "f: smmala": JointTest(LATENT["smmala"], classes, 400, 4),
    "theta: sa mh": JointTest(HYPER["sa mh"], numbers, 300, 6),
    "theta: aa mh": JointTest(HYPER["aa mh"], numbers, 300, 6),
    "theta: asis mh": JointTest(ASIS, numbers, 500, 6),
    "conjugate draw": JointTest(conjugate(conjugate_model()), conjugate_model, 300, 3),
}


@pytest.mark.parametrize("name", QUICK)
def test_alternating_moves_keep_the_joint_law_short_run(name):
    check(QUICK[name].report())


@pytest.mark.statistical
@pytest.mark.parametrize("name", JOINT)
def test_alternating_moves_keep_the_joint_law(name):
    check(JOINT[name].report())


#: Moves that the table has on one model, on the other: each operator, each parameterization, and
#: what moves f and theta together.
OTHER_MODEL = {
    name: JOINT[name]._replace(model=other, n_replicates=400)
    for other, names in (
        (classes, ("theta: sa hmc", "theta: aa smmala", "theta: surr slice", "theta: aa mh")),
        (numbers, ("both: asis", "both: khr, defensive", "both: some of theta")),
    )
    for name in names
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", OTHER_MODEL)
def test_alternating_moves_keep_the_joint_law_of_a_second_model(name):
    check(OTHER_MODEL[name].report())


#: On likelihoods whose parameters belong to theta, with offsets of rows: each with moves of theta
#: by gradients in two parameterizations. Tests of the parameterizations compare these
#: gradients with finite differences, for every likelihood.
PARAMETRIC = {
    "volatility": (CurvatureShape(), "aa smmala", "surr hmc"),
    "ordinal": (None, "aa hmc", "surr smmala"),
    "poisson": (None, "aa smmala", "surr slice"),
    "negative binomial": (None, "aa hmc", "surr hmc"),
    "student-t": (None, "aa smmala", "surr smmala"),
    "gaussian": (CurvatureShape(), "sa smmala", "aa hmc"),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", PARAMETRIC)
def test_moves_by_gradients_keep_the_joint_law_of_every_likelihood(name):
    """The moves of a sweep in a row: an error of any of them shows in its end."""
    shape, *moves = PARAMETRIC[name]
    latent = LatentUpdate(Langevin(0.0)) if shape is None else LatentUpdate(TRAJECTORY, shape)
    transition = sweep(latent, *(HYPER[move] for move in moves))
    model = every.small_model(every.LIKELIHOODS[name]).with_nugget(NUGGET)
    check(JointTest(transition, lambda: model, 400, 4).report())


# --- exact answers under Gaussian noise -----------------------------------------------------------

NOISE_VAR = 0.4


def gaussian_model():
    priors = {
        "k1__constant_value": stats.lognorm(0.7, scale=2.0),
        "k2__length_scale": stats.lognorm(0.5),
    }
    y = np.array([1.4, 0.9, -0.6, -0.2])
    X = np.array([[0.0], [0.4], [1.1], [2.0]])
    likelihood = Gaussian(np.sqrt(NOISE_VAR), fixed=True)
    return make_model(X, y, likelihood, priors=priors, nugget=NUGGET)


def latent_posterior(model, theta):
    """Mean and covariance of f given y and theta, and log p(y, theta)."""
    K = model.prior_at(theta).K
    C = K + NOISE_VAR * np.eye(len(K))
    mean, covariance = K @ np.linalg.solve(C, model.y), K - K @ np.linalg.solve(C, K)
    evidence = stats.multivariate_normal(np.zeros(len(K)), C).logpdf(model.y)
    return mean, covariance, evidence + model.hyperprior.log_prob(theta)


def chains(transition, model, theta, n_draws, n_chains=4):
    """Draws of theta and f; (n_chains, n_draws, p) and (n_chains, n_draws, n)."""
    thetas, latents = [], []
    for rng in np.random.default_rng(seeded(3)).spawn(n_chains):
        state = transition.start(model, theta, rng)
        for i in range(n_draws + 100):
            state, _ = transition.step(model, state, rng)
            if i >= 100:
                thetas.append(state.theta)
                latents.append(state.f)
    return (np.reshape(x, (n_chains, n_draws, -1)) for x in (thetas, latents))


@pytest.mark.statistical
@pytest.mark.parametrize("name", LATENT)
def test_moves_of_f_have_the_exact_gaussian_posterior(name):
    model, theta = gaussian_model(), np.array([0.8, -1.0])
    _, f = chains(LATENT[name], model, theta, 4000 if name.startswith("mh") else 1500)
    mean, covariance, _ = latent_posterior(model, theta)
    sd = np.sqrt(covariance.diagonal())
    quantiles = mean[:, None] + np.outer(sd, stats.norm.ppf(PROBABILITIES))
    check_exact(f, Reference(mean, quantiles))
    products = f[..., :1] * f
    second = covariance[0] + mean[0] * mean
    assert exact_answer_test(products, Reference(second)).worst < Z_LIMIT


#: Each operator and each parameterization, and enough draws for the effective sample size.
AT_LENGTH = {
    "sa slice": (sweep(LATENT["hmc_v1"], HYPER["sa slice"]), 2000),
    "sa hmc": (sweep(LATENT["hmc_v1"], HYPER["sa hmc"]), 1500),
    "aa mh": (sweep(LATENT["hmc_v1"], HYPER["aa mh"]), 3000),
    "surr smmala": (sweep(LATENT["hmc_v1"], HYPER["surr smmala"]), 750),
    "asis": (sweep(LATENT["hmc_v1"], HYPER["sa smmala"], HYPER["aa smmala"]), 700),
    "khr mh": (WHOLE["khr and f"], 2000),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", AT_LENGTH)
def test_alternating_moves_have_the_exact_posterior_of_theta_and_f(name):
    """Means and quantiles of theta, and means of f and of theta times f."""
    model, (transition, n_draws) = gaussian_model(), AT_LENGTH[name]
    grid = Grid((np.arange(-3.0, 4.3, 0.15), np.arange(-2.6, 2.7, 0.12)))
    means, _, log_density = zip(*(latent_posterior(model, t) for t in grid.nodes), strict=True)
    means, log_density = np.array(means), np.array(log_density)
    mass = np.exp(log_density - log_density.max())
    theta, f = chains(transition, model, np.array([0.7, 0.0]), n_draws)
    check_exact(theta, grid.reference(log_density))
    ones = np.ones((*theta.shape[:2], 1)), np.ones((len(grid.nodes), 1))
    for factor, at_nodes in [ones, *((theta[..., [j]], grid.nodes[:, [j]]) for j in (0, 1))]:
        expected = mass @ (at_nodes * means) / mass.sum()
        assert exact_answer_test(factor * f, Reference(expected)).worst < Z_LIMIT
