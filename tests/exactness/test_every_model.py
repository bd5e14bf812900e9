"""Every model of the estimators: default samplers against quadrature, and joint distributions."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, ndtr
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from threadpoolctl import threadpool_limits

from skgpmcmc import (
    BayesianGPBinomialRegressor,
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPPoissonRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.approximations import EP, Exact, Laplace
from skgpmcmc.approximations.classwise import average_sites
from skgpmcmc.importance import importance_estimate
from skgpmcmc.likelihoods import (
    BetaBinomial,
    Binomial,
    CensoredGaussian,
    Gaussian,
    NegativeBinomial,
    OrdinalProbit,
    Poisson,
    PsychometricProbit,
    RepeatedTrials,
    Softmax,
    StudentT,
    Volatility,
    ZeroInflatedPoisson,
)
from skgpmcmc.likelihoods.binomial import decode, encode
from skgpmcmc.model import (
    ClasswiseGP,
    LatentGP,
    Observations,
    default_hyperprior,
    make_covariance,
    smooth_kernel,
)
from skgpmcmc.testing import Reference, start_with_particles
from skgpmcmc.transitions import RandomWalk
from skgpmcmc.transitions.metropolis import EvaluatedState, MarginalMetropolis
from skgpmcmc.transitions.pseudo_marginal import PseudoMarginalMetropolis

from ..helpers import OneByOne, seeded
from .test_grid_posterior import Grid, check_exact
from .test_joint import check, check_caught, examined, without_jacobian

LEAST_ESS = 400.0

# --- the default sampler against quadrature -------------------------------------------------------

X = np.sort(np.random.default_rng(0).uniform(0.0, 4.0, 32))[:, None]
F = 1.2 * np.sin(2.0 * X[:, 0])
ONE_SCALE = ConstantKernel(1.0, "fixed") * RBF(1.0)
NO_SCALE = ConstantKernel(1.5, "fixed") * RBF(0.7, "fixed")
TWO_SCALES = ConstantKernel(1.0) * RBF(1.0)
TRIALS = np.arange(1, 33)
#: Targets that are at most -0.2, or at least 0.5, are censored, in turn.
LEFT = np.arange(32) % 2 == 0
CENSORED = CensoredGaussian(
    0.3, low=np.where(LEFT, -np.inf, 0.5), high=np.where(LEFT, -0.2, np.inf)
)


def outliers(y):
    y[[4, 20]] += 6.0
    return y


#: Estimator, and how targets are drawn from F. What is inferred has two or three dimensions.
CASES = {
    "regression": (
        BayesianGPRegressor(priors="paper"),
        lambda rng: F + 0.4 * rng.standard_normal(32),
    ),
    "student-t": (
        BayesianGPRegressor(ONE_SCALE, likelihood="student_t"),
        lambda rng: outliers(F + 0.3 * rng.standard_normal(32)),
    ),
    "censored": (
        BayesianGPRegressor(ONE_SCALE, likelihood=CENSORED),
        lambda rng: F + 0.4 * rng.standard_normal(32),
    ),
    "degrees of freedom": (
        BayesianGPRegressor(NO_SCALE, likelihood=StudentT(infer_df=True)),
        lambda rng: F + 0.3 * rng.standard_t(3.0, 32),
    ),
    "poisson": (
        BayesianGPPoissonRegressor(priors="paper"),
        lambda rng: rng.poisson(np.exp(F)),
    ),
    "binomial": (
        BayesianGPBinomialRegressor(TWO_SCALES),
        lambda rng: rng.binomial(TRIALS, ndtr(F)),
    ),
    "binomial logit": (
        BayesianGPBinomialRegressor(TWO_SCALES, likelihood="binomial_logit"),
        lambda rng: rng.binomial(TRIALS, expit(F)),
    ),
    "beta-binomial": (
        BayesianGPBinomialRegressor(ONE_SCALE, likelihood="beta_binomial"),
        lambda rng: rng.binomial(TRIALS, rng.beta(20.0 * ndtr(F), 20.0 * ndtr(-F))),
    ),
    "negative binomial": (
        BayesianGPCountRegressor(ONE_SCALE),
        lambda rng: rng.poisson(np.exp(F) * rng.gamma(1.5, 1.0 / 1.5, 32)),
    ),
    "zero-inflated poisson": (
        BayesianGPPoissonRegressor(ONE_SCALE, likelihood="zero_inflated_poisson"),
        lambda rng: rng.poisson(np.exp(F)) * (rng.random(32) > 0.3),
    ),
    "zero-inflated negative binomial": (
        BayesianGPPoissonRegressor(NO_SCALE, likelihood="zero_inflated_negative_binomial"),
        lambda rng: (
            rng.poisson(np.exp(1.0 + F) * rng.gamma(4.0, 0.25, 32)) * (rng.random(32) > 0.3)
        ),
    ),
    "guesses and lapses": (
        BayesianGPClassifier(NO_SCALE, likelihood=PsychometricProbit(0.02, infer_guess=True)),
        lambda rng: rng.random(32) < 0.1 + 0.8 * (F > 0.0),
    ),
    "guesses and lapses of counts": (
        BayesianGPBinomialRegressor(
            NO_SCALE, likelihood=PsychometricProbit(0.02, infer_guess=True)
        ),
        lambda rng: rng.binomial(TRIALS, 0.1 + 0.8 * ndtr(2.0 * F)),
    ),
    "ordinal": (
        BayesianGPOrdinalClassifier(NO_SCALE),
        lambda rng: np.digitize(F + 0.5 * rng.standard_normal(32), [-0.5, 0.6]),
    ),
    "volatility": (
        BayesianGPVolatilityRegressor(priors="paper"),
        lambda rng: 0.01 * np.exp(F) * rng.standard_normal(32),
    ),
    # With a larger variance the importance weights of a softmax have so long tails that neither
    # chains nor the grid are sure to meet them: docs/correctness says so.
    "softmax": (
        BayesianGPClassifier(
            multi_class="softmax", priors={"k1__constant_value": stats.gamma(10, scale=0.15)}
        ),
        lambda rng: np.argmax(np.stack([F, -F, 0.3 + 0.0 * F]) + rng.gumbel(size=(3, 32)), axis=0),
    ),
}
N_BATCHES, N_DRAWS = 4, 128


def grid_reference(model, draws):
    """Means and quantiles by importance sampling on a grid that is wide enough to show it."""
    low, high, sd = draws.min(axis=(0, 1)), draws.max(axis=(0, 1)), draws.std(axis=(0, 1))
    joint = model.likelihood.n_functions > 1
    n_nodes = 27 if len(sd) == 3 else 35  # less than 0.7 sd from each other
    ends = zip(low - 8.0 * sd, high + 5.0 * sd, strict=True)  # gammas have long left tails in logs
    grid = Grid(tuple(np.linspace(*pair, n_nodes) for pair in ends))
    rng = np.random.default_rng(seeded(1))
    exact = model.likelihood.quadratic
    # The mode is a cheap center with few degrees of freedom, but a poor one if they may be one.
    by_mode = joint or (isinstance(model.likelihood, StudentT) and not model.likelihood.infer_df)
    approximation = Exact() if exact else Laplace(tol=1e-4) if by_mode else EP(tol=0.1)
    log_density = np.empty((len(grid.nodes), N_BATCHES))
    with threadpool_limits(1):
        for row, theta in enumerate(grid.nodes):
            fit = approximation.fit(model, theta)
            log_density[row] = fit.log_evidence + model.hyperprior.log_prob(theta)
            if not exact:
                q = average_sites(fit.q, model.observations, 5) if joint else fit.q
                estimate = importance_estimate(model, q, N_BATCHES * N_DRAWS, rng, defensive=0.02)
                weights = estimate.log_weights.reshape(N_BATCHES, N_DRAWS)
                log_density[row] += np.logaddexp.reduce(weights, axis=1) - np.log(N_DRAWS)
                log_density[row] -= fit.log_evidence
    whole = np.logaddexp.reduce(log_density, axis=1)
    if exact:
        return grid.reference(whole)
    return Reference.from_batches(
        grid.reference(whole), [grid.reference(batch) for batch in log_density.T]
    )


@pytest.mark.statistical
@pytest.mark.parametrize("case", CASES)
def test_default_sampler_of_every_estimator_agrees_with_quadrature(case):
    estimator, simulate = CASES[case]
    y = simulate(np.random.default_rng(1))
    # Errors of quantiles are known well enough from a thousand draws.
    length = {"n_draws": 4000, "target_ess": 2.5 * LEAST_ESS}
    of_rows = {"trials": TRIALS} if isinstance(estimator, BayesianGPBinomialRegressor) else {}
    estimator = estimator.set_params(**length, random_state=seeded()).fit(X, y, **of_rows)
    model = estimator._sampling.run.models[0].model
    draws = estimator.theta_samples_
    check_exact(draws, grid_reference(model, draws), LEAST_ESS)


# --- joint distributions --------------------------------------------------------------------------

MANY_TRIALS = np.array([4.0, 20.0, 60.0])
LIKELIHOODS = {
    "poisson": Poisson(),
    "binomial": Binomial(trials=MANY_TRIALS),
    "binomial logit": Binomial("logit", trials=MANY_TRIALS),
    "beta-binomial": BetaBinomial(5.0, trials=MANY_TRIALS),
    "negative binomial": NegativeBinomial(1.5),
    "volatility": Volatility(),
    "student-t": StudentT(0.5),
    "degrees of freedom": StudentT(0.5, 3.0, infer_df=True),
    "zero-inflated": ZeroInflatedPoisson(0.5),
    "guesses and lapses": PsychometricProbit(0.1, 0.2, infer_guess=True),
    "guesses and lapses of counts": RepeatedTrials(
        PsychometricProbit(0.1, 0.2, infer_guess=True), trials=MANY_TRIALS
    ),
    "ordinal": OrdinalProbit((-0.5, 0.7)),
    "gaussian": Gaussian(0.5),
    "censored": CensoredGaussian(
        0.5, low=np.array([-np.inf, -1.2, 0.5]), high=np.array([1.5, -0.2, np.inf])
    ),
    "softmax": Softmax(3),
}
PRIORS = {
    "k1__constant_value": stats.lognorm(0.4),
    "k2__length_scale": stats.lognorm(0.5),
    "noise_scale": stats.lognorm(0.8, scale=0.5),
    "shape": stats.lognorm(1.0, scale=1.5),
    "df": stats.gamma(2.0, scale=3.0),
    "zero_odds": stats.lognorm(1.0, scale=0.5),
    "guess_odds": stats.lognorm(1.0, scale=0.2),
    "lapse_odds": stats.lognorm(1.0, scale=0.2),
    "precision": stats.lognorm(0.8, scale=5.0),
    "threshold": stats.norm(-0.5, 2.0),  # wide, so that y says much of them
    "threshold_gap": stats.lognorm(1.0),
}
#: Of a real transition and of its wrong twins: at length, and in the plain run.
SIZES = {"n_replicates": 500, "n_steps": 12, "n_reference": 4000}
SHORT = {"n_replicates": 400, "n_steps": 6, "n_reference": 3000}
OFFSET = np.array([1.2, -0.8, 1.0])


def small_model(likelihood):
    covariance = make_covariance(smooth_kernel(1), np.array([[0.0], [0.6], [1.5]]))
    prior = default_hyperprior(covariance, likelihood, "paper")
    priors = {name: PRIORS[name] for name in prior.distributions}
    hyperprior = default_hyperprior(covariance, likelihood, priors)
    if likelihood.n_functions > 1:
        three = default_hyperprior(covariance, likelihood, priors, 3)
        return ClasswiseGP(covariance, Observations(likelihood, np.zeros(3)), three, separate=True)
    return LatentGP(covariance, Observations(likelihood, np.zeros(3), OFFSET), hyperprior)


def walk_of(model):
    return RandomWalk(np.log(0.4))


def particle_test(name, change=lambda transition: transition, sizes=SIZES):
    """Prior-invariance test of a pseudo-marginal random walk with two particles."""
    model = small_model(LIKELIHOODS[name])
    transition = change(PseudoMarginalMetropolis(Laplace(tol=1e-4), walk_of(model), 2, 0.1))
    rng = np.random.default_rng(seeded())
    return examined(model, lambda *_: transition, start_with_particles, rng, **sizes)


@pytest.mark.statistical
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_pseudo_marginal_walk_keeps_the_joint_law_of_every_likelihood(name):
    check(particle_test(name))


def collapsed_test(cls, sizes):
    """The same of a random walk with f integrated out, the class of its transition given."""
    model = small_model(LIKELIHOODS["gaussian"])

    def start(model, transition, theta, f, rng):
        state = transition.start(model, theta, rng)
        return state._replace(f=f)

    transition = cls(Exact(), walk_of(model))
    rng = np.random.default_rng(seeded())
    return examined(model, lambda *_: transition, start, rng, **sizes)


class WithoutJacobian(OneByOne, MarginalMetropolis):
    """Takes the prior density on the natural scale for that on the log scale."""

    def step_one(self, model, state, rng):
        wrong = without_jacobian(model.hyperprior)
        return super().step_one(replace(model, hyperprior=wrong), state, rng)


#: Without f to compare, it takes more to notice a wrong theta.
COLLAPSED_SHORT = {"n_replicates": 800, "n_steps": 8, "n_reference": 3200}


@pytest.mark.parametrize(
    "sizes", [COLLAPSED_SHORT, pytest.param(SIZES, marks=pytest.mark.statistical)]
)
def test_collapsed_walk_keeps_the_joint_law_of_a_regression(sizes):
    check(collapsed_test(MarginalMetropolis, sizes))


def test_joint_test_catches_a_collapsed_walk_without_jacobian():
    check_caught(collapsed_test(WithoutJacobian, COLLAPSED_SHORT))


class EvaluatesElsewhere(OneByOne, PseudoMarginalMetropolis):
    """Evaluates the likelihood at another theta than that of the state."""

    def evaluate_one(self, model, theta, rng, *retained):
        found = super().evaluate_one(model, self.elsewhere(model, theta), rng, *retained)
        log_hyperprior = model.hyperprior.log_prob(theta)
        if found is None or not np.isfinite(log_hyperprior):
            return None
        state = found.state._replace(theta=theta, log_hyperprior=log_hyperprior)
        return EvaluatedState(state, self.log_target(state))


class ForgetsParameters(EvaluatesElsewhere):
    """Evaluates the likelihood at the parameters it began with."""

    def elsewhere(self, model, theta):
        own = len(model.covariance.start)
        return np.concatenate([theta[:own], model.start[own:]])


class ForgetsTheConstant(EvaluatesElsewhere):
    """Takes every target for one that depends on f."""

    def elsewhere(self, model, theta):
        return np.append(theta[:-1], -20.0)


class ForgetsOverdispersion(EvaluatesElsewhere):
    """Takes overdispersed numbers of successes for binomial ones."""

    def elsewhere(self, model, theta):
        return np.append(theta[:-1], 12.0)


class ForgetsOffset(OneByOne, PseudoMarginalMetropolis):
    """Evaluates the likelihood without the offset."""

    def evaluate_one(self, model, theta, rng, *retained):
        unaware = model.with_observations(offset=None)
        return super().evaluate_one(unaware, theta, rng, *retained)


class ForgetsTrials(OneByOne, PseudoMarginalMetropolis):
    """Takes a half of the successes and of the trials for the data."""

    def evaluate_one(self, model, theta, rng, *retained):
        k, n = decode(model.y)
        fewer = model.with_observations(y=encode(np.floor(0.5 * k), np.floor(0.5 * n)))
        return super().evaluate_one(fewer, theta, rng, *retained)


class TakesCensoredForExact(OneByOne, PseudoMarginalMetropolis):
    """Evaluates the density at what is known of a target in its interval."""

    def evaluate_one(self, model, theta, rng, *retained):
        exact = model.with_observations(likelihood=Gaussian(0.5))
        return super().evaluate_one(exact, theta, rng, *retained)


class TakesTheOtherTail(OneByOne, PseudoMarginalMetropolis):
    """Takes targets above a limit for those below, and the other way round."""

    def evaluate_one(self, model, theta, rng, *retained):
        own = model.likelihood
        is_left, is_right = np.isinf(own.low), np.isinf(own.high)
        low = np.where(is_left, own.high, np.where(is_right, -np.inf, own.low))
        high = np.where(is_right, own.low, np.where(is_left, np.inf, own.high))
        turned = model.with_observations(likelihood=replace(own, low=low, high=high))
        return super().evaluate_one(turned, theta, rng, *retained)


class ForgetsClasses(EvaluatesElsewhere):
    """Evaluates all classes at the hyper-parameters of the first."""

    def elsewhere(self, model, theta):
        return np.tile(theta[: len(model.covariance.start)], 3)


def twin(cls):
    return lambda t: cls(t.reference, t.proposal, t.n_importance, t.defensive)


TWINS = [
    ("student-t", ForgetsParameters),
    ("zero-inflated", ForgetsTheConstant),
    ("ordinal", ForgetsParameters),
    ("poisson", ForgetsOffset),
    ("binomial", ForgetsTrials),
    ("beta-binomial", ForgetsOverdispersion),
    ("guesses and lapses of counts", ForgetsTheConstant),
    ("censored", TakesCensoredForExact),
    ("censored", TakesTheOtherTail),
    ("softmax", ForgetsClasses),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "cls"), TWINS)
def test_joint_test_catches_each_wrong_likelihood(name, cls):
    check_caught(particle_test(name, twin(cls)))


@pytest.mark.statistical
def test_short_joint_test_catches_forgotten_offsets():
    """The other twins show at length only."""
    check(particle_test("poisson", sizes=SHORT))
    check_caught(particle_test("poisson", twin(ForgetsOffset), SHORT))
