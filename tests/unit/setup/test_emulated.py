"""What set-ups do where things go wrong, where chains are many, and what they say afterwards."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc.approximations import EP, Exact, Laplace, SubsetOfData
from skgpmcmc.chain import InProcessExecutor
from skgpmcmc.likelihoods import Gaussian, Probit
from skgpmcmc.model import HyperPrior, LatentGP, Observations, make_covariance, smooth_kernel
from skgpmcmc.model.nugget import NuggetCovariance
from skgpmcmc.run.chains import sample_chains
from skgpmcmc.samplers import (
    SAMPLERS,
    WITHIN_GIBBS,
    Ancillary,
    Collapsed,
    DiscretizingChain,
    Interweaving,
    PseudoMarginal,
    Sampler,
    Sufficient,
    TemperedTransitions,
)
from skgpmcmc.samplers import mapped as mapped_samplers
from skgpmcmc.setup import PreparedChains, Request, mapped
from skgpmcmc.setup.emulated import set_up_emulated
from skgpmcmc.setup.emulator.options import EmulatorOptions
from skgpmcmc.setup.report import EmulatorSettings
from skgpmcmc.transitions import RandomWalk, StepInfo, Transition
from skgpmcmc.transitions.mapping import Layer

from ...helpers import in_one_test, make_model, streams, toy_classes

STARTS = [np.array([1.0, -1.0]), np.array([1.5, -0.5])]

# --- many chains ----------------------------------------------------------------------------------


class Still(Transition):
    """Stays where it starts."""

    name = "still"

    def start(self, model, theta, rng):
        return SimpleNamespace(theta=theta, f=np.zeros(len(model.y)))

    def step(self, model, state, rng):
        return state, StepInfo(self.name, True, 1.0, 1.0, False)


class Recording(Sampler):
    """Puts every chain where it was told to begin, and remembers."""

    def set_up(self, request, workers):
        self.starts = np.array(request.starts)
        return PreparedChains(Still(), request.starts, request.rngs, 0)


def test_starts_of_chains_have_the_law_of_the_prior():
    model = make_model(*toy_classes(5, 2, 0))
    sampler, seed = Recording(), np.random.SeedSequence(0)
    run = sample_chains(
        [model, model], sampler, None, n_importance=None, n_chains=40, n_warmup=0, n_draws=1,
        seed=seed,
    )  # fmt: skip
    begun = np.concatenate([draws.theta[:, 0] for draws in (own.draws for own in run.models)])
    assert begun.shape == (80, 2)
    assert len(np.unique(begun, axis=0)) == 80
    np.testing.assert_array_equal(begun[40:], sampler.starts)
    for r, name in enumerate(model.hyperprior.names):
        law = model.hyperprior.distributions[name]
        assert stats.kstest(np.exp(begun[:, r]), law.cdf).pvalue > 1e-4


# --- K ill-conditioned ----------------------------------------------------------------------------


class Defective(type(make_covariance(smooth_kernel(2), np.zeros((2, 2))))):
    """Its matrices have a negative eigenvalue, -1e-12 of the variance, where theta[0] > 0."""

    def matrix(self, theta):
        K = super().matrix(theta)
        if theta[0] > 0.0:
            values, vectors = np.linalg.eigh(K)
            shift = values[0] + 1e-12 * K[0, 0]
            K = np.asfortranarray(K - shift * np.outer(vectors[:, 0], vectors[:, 0]))
        return K


class BelowZero(HyperPrior):
    """Its draws, where chains start, are not where most of it is."""

    def sample(self, rng):
        return np.array([-1.0, -0.5]) + 0.1 * rng.standard_normal(2)


def defective_model(likelihood, y):
    X = np.random.default_rng(5).uniform(size=(len(y), 2))
    covariance = Defective(smooth_kernel(2), X)
    laws = (stats.lognorm(0.4, scale=np.exp(1.0)), stats.lognorm(0.4, scale=0.6))
    names = covariance.names
    hyperprior = BelowZero(names, dict(zip(names, laws, strict=True)))
    return LatentGP(covariance, Observations(likelihood, y), hyperprior)


ALTERNATING = np.where(np.arange(10) % 3 == 0, 1.0, -1.0)
CASES = {
    "emulated": (PseudoMarginal(), EP(), Probit(), 2),
    "random walk": (PseudoMarginal(moves="random_walk"), Laplace(), Probit(), 60),
    "ancillary": (Ancillary(), None, Probit(), 60),
}
LONG_CASES = {"collapsed": (Collapsed(), Exact(), Gaussian(0.5, fixed=True), 2)}


@pytest.mark.parametrize("case", [*CASES, pytest.param("collapsed", marks=pytest.mark.statistical)])
def test_chains_reach_theta_at_which_K_is_singular(case):
    """K is singular where the posterior is, and not where chains start."""
    sampler, approximation, likelihood, n_warmup = (CASES | LONG_CASES)[case]
    model = defective_model(likelihood, ALTERNATING)
    run = sample_chains(
        [model], sampler, approximation, n_importance=4, n_chains=2, n_warmup=n_warmup,
        n_draws=20, seed=np.random.SeedSequence(1),
    )  # fmt: skip
    assert run.models[0].model.covariance is model.covariance
    assert np.mean(run.models[0].draws.theta[..., 0] > 0.0) > 0.5
    assert all(counts.n_failed == 0 for counts in run.models[0].draws.chain_counts)


# --- nugget ---------------------------------------------------------------------------------------


@in_one_test("name", WITHIN_GIBBS)
def test_samplers_that_hold_f_add_a_nugget(name):
    model, sampler = make_model(*toy_classes(8, 2, 0)), SAMPLERS[name](n_latent=1)
    run = sample_chains(
        [model], sampler, Laplace(), n_importance=None, n_chains=1, n_warmup=2, n_draws=2,
        seed=np.random.SeedSequence(1),
    )  # fmt: skip
    covariance = run.models[0].model.covariance
    if name in ("sa", "asis"):
        assert isinstance(covariance, NuggetCovariance)
        assert covariance.plain is model.covariance
        assert covariance.nugget == sampler.nugget == 1e-8
    else:
        assert covariance is model.covariance
        assert not hasattr(sampler, "nugget")


@in_one_test("sampler", [Sufficient(nugget=0.3), Interweaving(nugget=0.3)])
def test_prepared_model_has_the_given_nugget(sampler):
    model = make_model(*toy_classes(8, 2, 0))
    sampled = sampler.prepare_model(model)
    assert sampled.covariance.nugget == 0.3
    assert sampled.observations is model.observations
    assert sampled.hyperprior is model.hyperprior
    expected = model.prior_at(model.start).K + 0.3 * np.eye(8)
    np.testing.assert_allclose(sampled.prior_at(model.start).K, expected, rtol=1e-12)


@in_one_test("kind", [Sufficient, Interweaving])
@in_one_test("nugget", [0.0, -1e-8, 9e-11, 1.1, np.nan, np.inf, "1e-8", None])
def test_impossible_nugget_is_refused_by_name(kind, nugget):
    with pytest.raises(ValueError, match=r"sampler: nugget must be a number in \[1e-10, 1\]"):
        kind(nugget=nugget).check()


@in_one_test("nugget", [1e-10, 1e-8, 1, 1.0])
def test_possible_nuggets_are_accepted(nugget):
    Sufficient(nugget=nugget).check()


# --- reports --------------------------------------------------------------------------------------


def asked(model, approximation, starts, n_importance=None):
    return Request(
        model, approximation, starts, streams(2, 2), np.random.default_rng(3), n_importance, 0
    )


def test_report_of_the_set_up_states_the_number_of_draws_in_use():
    """The draws reported are those of the number used; without an emulator there is no report."""
    model, reports = make_model(*toy_classes(12, 2, 1)), []
    for emulates in (True, False):
        settings = EmulatorSettings(0.03, 0.05, None, emulates=emulates)
        prepared = set_up_emulated(asked(model, EP(), STARTS), InProcessExecutor(), settings)
        assert prepared.estimator.n_importance.target_sd == 0.03
        n_sequential = len(prepared.estimator.reference.sequential_rows)
        reports.append((prepared.report, n_sequential))
    (report, n_sequential), (nothing, n_then) = reports
    assert report.n_sequential == n_sequential == n_then
    assert nothing is None
    lowest, highest = report.n_importance
    assert EmulatorOptions().fewest_draws <= lowest <= highest <= EmulatorOptions().n_draws


# --- sequential rows ------------------------------------------------------------------------------


@in_one_test("likelihood", ["logit", "probit"])
def test_sequential_rows_leave_little_noise_for_separable_classes(likelihood):
    """Separable classes, priors that say that the variance is large, and Laplace's poor sites."""
    X = np.random.default_rng(0).uniform(size=(18, 2))
    y = np.where(X[:, 0] + 0.2 * X[:, 1] > 0.55, 1.0, -1.0)
    priors = {
        "k1__constant_value": stats.lognorm(0.3, scale=1e5),
        "k2__length_scale": stats.lognorm(0.3, scale=0.5),
    }
    model = make_model(X, y, likelihood, priors=priors)
    settings = EmulatorSettings(0.24, 0.05, None, emulates=True)
    starts = [np.array([11.5, -1.0]), np.array([11.0, -0.5])]
    prepared = set_up_emulated(asked(model, Laplace(), starts), InProcessExecutor(), settings)
    assert prepared.report.noise < 0.4
    assert prepared.report.n_sequential == 18
    estimator = replace(prepared.estimator, n_importance=16)
    plain = replace(estimator, reference=replace(estimator.reference, sequential_rows=np.arange(0)))
    sequential, gaussian = (
        part.log_likelihood_sd(model, starts[0], np.random.default_rng(0))
        for part in (estimator, plain)
    )
    assert sequential < 0.5 * gaussian


# --- shares of the prior --------------------------------------------------------------------------

SHARE = 0.37
FIXED = ConstantKernel(2.0, "fixed") * RBF(0.5, "fixed")


def estimating(transition):
    """All moves of a transition that estimate, or move particles, by their names."""
    if hasattr(transition, "defensive"):
        return [transition]
    parts = [*getattr(transition, "moves", ()), getattr(transition, "last", None)]
    parts += [getattr(transition, name, None) for name in ("exact", "ahead", "back")]
    return [move for part in parts if part is not None for move in estimating(part)]


def settled(kernel="free", **settings):
    """What the set-up of the emulated sampler prepares."""
    X, y = toy_classes(12, 2, 1)
    model = make_model(X, y, kernel=FIXED if kernel == "fixed" else None)
    request = asked(model, Laplace(), [model.start] * 2, 8)
    settings = EmulatorSettings(0.1, SHARE, 8, **settings)
    return set_up_emulated(request, InProcessExecutor(), settings)


def mapped_moves(maker):
    """What a mapped sampler makes of its move of theta, as its set-up does."""
    model = make_model(*toy_classes(12, 2, 1))
    request = Request(model, Laplace(), [], [], None, 8, 0, SubsetOfData(0.5))
    with mock.patch.object(mapped_samplers, "set_up_mapped", lambda _, wanted, workers: wanted):
        wanted = maker(defensive=SHARE).set_up(request, InProcessExecutor())
    move = wanted.move([Layer(None, RandomWalk())], 2)
    return SimpleNamespace(transition=mapped._add_moves(move, RandomWalk()))


@pytest.mark.parametrize(
    ("prepare", "names"),
    [
        (partial(settled, emulates=True), ["rotation", "random walk", "refresh"]),
        (partial(settled, emulates=False), ["trajectory", "random walk", "refresh"]),
        (partial(settled, "fixed", emulates=True), ["random walk", "refresh"]),
        (partial(mapped_moves, DiscretizingChain), ["not proposing", "random walk", "refresh"]),
        (
            partial(mapped_moves, TemperedTransitions),
            ["tempered transitions", "random walk", "refresh"],
        ),
    ],
    ids=["emulated", "trajectories", "fixed", "mapping", "tempered"],
)
def test_all_moves_of_a_chain_have_the_same_defensive_share(prepare, names):
    """With another share, particles that a move makes would be weighed by another density."""
    prepared = prepare()
    moves = estimating(prepared.transition)
    assert {move.defensive for move in moves} == {SHARE}
    assert {move.name for move in moves} == {"retained particle", *names}
    estimator = getattr(prepared, "estimator", None)
    assert estimator is None or estimator.defensive == SHARE
