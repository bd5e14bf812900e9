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
from skgpmcmc.likelihoods import Gaussian, Probit
from skgpmcmc.model import HyperPrior, LatentGP, Observations, default_kernel, make_covariance
from skgpmcmc.model.nugget import WithNugget
from skgpmcmc.run import sample_chains
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
from skgpmcmc.transitions import (
    Layer,
    PseudoMarginalMetropolis,
    RandomWalk,
    RetainedParticle,
    StepInfo,
    Transition,
)
from skgpmcmc.warmup import EmulatorSettings, Prepared, Request, emulated, mapped, set_up_emulated
from skgpmcmc.warmup.emulated import overdispersed_starts, tuned_trajectories
from skgpmcmc.warmup.emulator.learn import LEAST_ACCEPTANCE
from skgpmcmc.warmup.emulator.probe import Probed

from ..helpers import in_one_test, make_model, toy_classes
from .test_learner import begun
from .test_tuning import finished, streams

# --- many chains ----------------------------------------------------------------------------------

MANY = 70


@pytest.fixture(scope="module")
def crowded():
    """What is known after as many searches as there will be chains."""
    return begun(make_model(*toy_classes(10, 2, 0)), MANY).emulated()


def test_every_one_of_many_chains_has_a_start_of_its_own(crowded):
    starts = overdispersed_starts(crowded, crowded.target(), None, MANY)
    assert len(np.unique(starts, axis=0)) == MANY


def test_every_one_of_many_chains_tunes_a_trajectory_and_rehearses(crowded):
    assert len(next(tuned_trajectories(crowded, None))) == MANY
    report = SimpleNamespace(predicted_acceptance=0.95)
    probed = SimpleNamespace(
        reference=Laplace(), n_importance=4, target=crowded.target(), report=report
    )
    settings, request = (
        SimpleNamespace(defensive=0.05, annealing=None),
        SimpleNamespace(rngs=[None] * MANY),
    )
    assert len(next(emulated._rehearsed(crowded, probed, request, settings))) == MANY


class Still(Transition):
    """Stays where it starts."""

    name = "still"

    def start(self, model, theta, rng):
        return SimpleNamespace(theta=theta, f=np.zeros(len(model.y)))

    def step(self, model, state, rng):
        return state, StepInfo(self.name, True, 1.0, 1.0, False)


class Recording(Sampler):
    """Puts every chain where it was told to begin, and remembers."""

    def set_up(self, request):
        self.starts = np.array(request.starts)
        yield []
        return Prepared(Still(), request.starts, request.rngs, 0)


def test_chains_begin_where_draws_from_the_prior_are():
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


class Defective(type(make_covariance(default_kernel(2), np.zeros((2, 2))))):
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
    covariance = Defective(default_kernel(2), X)
    laws = (stats.lognorm(0.4, scale=np.exp(1.0)), stats.lognorm(0.4, scale=0.6))
    names = covariance.names
    hyperprior = BelowZero(names, dict(zip(names, laws, strict=True)))
    return LatentGP(covariance, Observations(likelihood, y), hyperprior)


ALTERNATING = np.where(np.arange(10) % 3 == 0, 1.0, -1.0)
CASES = {
    "emulated": (PseudoMarginal(), EP(), Probit(), 2),
    "random walk": (PseudoMarginal(moves="random_walk"), Laplace(), Probit(), 60),
    "collapsed": (Collapsed(), Exact(), Gaussian(0.5, fixed=True), 2),
    "ancillary": (Ancillary(), None, Probit(), 60),
}


@pytest.mark.parametrize(
    "case",
    [
        "emulated",
        "random walk",
        "ancillary",
        pytest.param("collapsed", marks=pytest.mark.statistical),
    ],
)
def test_rounding_errors_of_K_keep_chains_out_of_nowhere(case):
    """K is singular where the posterior is, and not where chains start."""
    sampler, approximation, likelihood, n_warmup = CASES[case]
    model = defective_model(likelihood, ALTERNATING)
    run = sample_chains(
        [model], sampler, approximation, n_importance=4, n_chains=2, n_warmup=n_warmup,
        n_draws=20, seed=np.random.SeedSequence(1),
    )  # fmt: skip
    assert run.models[0].model.covariance is model.covariance
    assert np.mean(run.models[0].draws.theta[..., 0] > 0.0) > 0.5
    assert run.models[0].draws.sampling_counts.n_failed == 0


# --- nugget ---------------------------------------------------------------------------------------


@in_one_test("name", WITHIN_GIBBS)
def test_samplers_that_hold_f_still_have_a_nugget(name):
    model, sampler = make_model(*toy_classes(8, 2, 0)), SAMPLERS[name](n_latent=1)
    run = sample_chains(
        [model], sampler, Laplace(), n_importance=None, n_chains=1, n_warmup=2, n_draws=2,
        seed=np.random.SeedSequence(1),
    )  # fmt: skip
    covariance = run.models[0].model.covariance
    if name in ("sa", "asis"):
        assert isinstance(covariance, WithNugget)
        assert covariance.plain is model.covariance
        assert covariance.nugget == sampler.nugget == 1e-8
    else:
        assert covariance is model.covariance
        assert not hasattr(sampler, "nugget")


@in_one_test("sampler", [Sufficient(nugget=0.3), Interweaving(nugget=0.3)])
def test_the_model_that_is_sampled_has_the_nugget_that_was_asked_for(sampler):
    model = make_model(*toy_classes(8, 2, 0))
    sampled = sampler.sampled(model)
    assert sampled.covariance.nugget == 0.3
    assert sampled.observations is model.observations
    assert sampled.hyperprior is model.hyperprior
    expected = model.prior_at(model.start).K + 0.3 * np.eye(8)
    np.testing.assert_allclose(sampled.prior_at(model.start).K, expected, rtol=1e-12)


@in_one_test("kind", [Sufficient, Interweaving])
@in_one_test("nugget", [0.0, -1e-8, 9e-11, 1.1, np.nan, np.inf, "1e-8", None])
def test_an_impossible_nugget_is_named(kind, nugget):
    with pytest.raises(ValueError, match=r"sampler: nugget must be a number in \[1e-10, 1\]"):
        kind(nugget=nugget).check()


@in_one_test("kind", [Sufficient, Interweaving])
@in_one_test("nugget", [1e-10, 1e-8, 1, 1.0])
def test_a_possible_nugget_passes(kind, nugget):
    kind(nugget=nugget).check()


# --- trust ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("acceptances", "expected"),
    [
        ([0.9, 0.9], ["refine", "probe", "rehearse", "probe"]),
        (
            [0.9, 0.5 * LEAST_ACCEPTANCE, 0.9],
            ["refine", "probe", "rehearse", "probe", "rehearse", "probe"],
        ),
        (
            [0.9, *[0.5 * LEAST_ACCEPTANCE] * 3, 0.9],
            ["refine", "probe", *["rehearse", "probe"] * 3, "trajectories", "probe"],
        ),
        ([*[0.1] * 4, 0.9], [*["refine", "probe"] * 4, "trajectories", "probe"]),
        ([0.1, 0.1, 0.9, 0.9], [*["refine", "probe"] * 3, "rehearse", "probe"]),
    ],
    ids=["good", "poor where chains went", "poor wherever they go", "poor", "mended"],
)
def test_the_emulator_is_trusted_only_while_it_deserves_it(acceptances, expected, monkeypatch):
    """Chains of a rehearsal may show that it is poor: then it learns, and there is another.

    Where that does not help, trajectories take its place, too.
    """
    done, left = [], iter(acceptances)
    trajectories = SimpleNamespace(
        visited=np.zeros((3, 5)), trajectory=None, corrected=lambda *_: trajectories
    )
    known = SimpleNamespace(few=False, dim=5, n_evaluations=0, posterior_pool=lambda: (known, None))

    def step(name, result):
        def act(*_, **__):
            if name:
                done.append(name)
            yield []
            return result()

        return act

    def probed():
        report = SimpleNamespace(predicted_acceptance=next(left), held_out_error=1.0)
        target = SimpleNamespace(correction=0)
        return known, Probed(None, None, target, report)

    class Made(SimpleNamespace):
        moves = (PseudoMarginalMetropolis(None, None, 4),)

    monkeypatch.setattr(emulated, "quarter", step("", lambda: None))
    for name in ("searched", "measured", "explored"):
        monkeypatch.setattr(emulated, name, step("", lambda: known))
    monkeypatch.setattr(emulated, "refined", step("refine", lambda: known))
    monkeypatch.setattr(emulated, "probe", step("probe", probed))
    monkeypatch.setattr(emulated, "_rehearsed", step("rehearse", lambda: (known, None, None)))
    monkeypatch.setattr(
        emulated, "tuned_trajectories", step("trajectories", lambda: (known, trajectories))
    )
    monkeypatch.setattr(emulated, "_transition", lambda *given: Made(by=given[3]))
    monkeypatch.setattr(emulated, "overdispersed_starts", lambda *_: [])
    settings = EmulatorSettings(0.1, 0.05, None, emulates=True)
    set_up = set_up_emulated(Request(None, None, [np.zeros(5)], [None], None, None, 0), settings)
    prepared = finished(set_up)
    assert (prepared.transition.by is trajectories) == ("trajectories" in expected)
    assert done == expected
    assert next(left, None) is None


# --- reports --------------------------------------------------------------------------------------


def test_the_reported_importance_draws_are_those_of_the_chains():
    """Trajectories aim at less noise: the report is of the number that is then used."""
    model = make_model(*toy_classes(12, 2, 1))
    settings = EmulatorSettings(0.03, 0.05, None, emulates=False)
    starts = [np.array([1.0, -1.0]), np.array([1.5, -0.5])]
    rng = np.random.default_rng(3)
    prepared = finished(
        set_up_emulated(Request(model, Laplace(), starts, streams(2, 2), rng, None, 0), settings)
    )
    count, report = prepared.estimator.n_importance, prepared.report
    sites = prepared.transition.moves[0].proposal.target.sites
    used = [count.at(theta) for theta in sites.center + sites.scale * sites.nodes]
    assert report.n_importance[0] <= np.median(used) <= report.n_importance[1]


# --- rows in turn ---------------------------------------------------------------------------------


@in_one_test("likelihood", ["logit", "probit"])
def test_rows_in_turn_leave_little_noise_where_no_gaussian_would_do(likelihood):
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
    request = Request(model, Laplace(), starts, streams(2, 2), np.random.default_rng(3), None, 0)
    prepared = finished(set_up_emulated(request, settings))
    assert prepared.report.noise < 0.4
    assert prepared.report.n_in_turn == 18
    assert prepared.estimator.n_importance.highest == 2_000_000 // 18  # numbers of the particles
    estimator = replace(prepared.estimator, n_importance=16)
    plain = replace(estimator, reference=replace(estimator.reference, turns=np.arange(0)))
    in_turn, gaussian = (
        part.log_likelihood_sd(model, starts[0], np.random.default_rng(0))
        for part in (estimator, plain)
    )
    assert in_turn < 0.5 * gaussian


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
    starts = [model.start] * 2
    request = Request(
        model, Laplace(), starts, streams(2, 2), np.random.default_rng(3), 8, n_warmup=0
    )
    return finished(set_up_emulated(request, EmulatorSettings(0.1, SHARE, 8, **settings)))


def mapped_moves(maker):
    """What a mapped sampler makes of its move of theta, as its set-up does."""
    model = make_model(*toy_classes(12, 2, 1))
    request = Request(model, Laplace(), [], [], None, 8, 0, SubsetOfData(0.5))
    with mock.patch.object(mapped_samplers, "set_up_mapped", lambda _, wanted: wanted):
        wanted = maker(defensive=SHARE).set_up(request)
    move = wanted.move([Layer(None, RandomWalk())], 2)
    evaluates = mapped._evaluating(move)
    return SimpleNamespace(transition=mapped._mixed(move, evaluates, RandomWalk(), evaluates))


@pytest.mark.parametrize(
    ("prepare", "names"),
    [
        (partial(settled, emulates=True), ["surrogate", "random walk", "refresh", "rotation"]),
        (partial(settled, emulates=False), ["trajectory", "surrogate", "random walk", "refresh"]),
        (partial(settled, "fixed", emulates=True), ["pseudo-marginal random walk", "refresh"]),
        (partial(mapped_moves, DiscretizingChain), ["not proposing", "random walk", "refresh"]),
        (
            partial(mapped_moves, TemperedTransitions),
            ["tempered transitions", "random walk", "refresh"],
        ),
    ],
    ids=["emulated", "trajectories", "fixed", "mapping", "tempered"],
)
def test_all_moves_of_a_chain_have_the_share_of_its_estimates(prepare, names):
    """With another share, particles that a move makes would be weighed by another density."""
    prepared = prepare()
    for transition in (prepared.transition, getattr(prepared, "settling", None)):
        if transition is not None:
            moves = estimating(transition)
            assert {move.defensive for move in moves} == {SHARE}
            found = [move.name for move in moves]
            assert "retained particle" in found
            assert set(found) - {"retained particle"} <= set(names)
    assert {move.name for move in estimating(prepared.transition)} >= set(names)
    estimator = getattr(prepared, "estimator", None)
    assert estimator is None or estimator.defensive == SHARE


# --- settling -------------------------------------------------------------------------------------


@in_one_test(
    ("accepted", "cautious", "settles", "expected"),
    [
        (0.9, False, True, 6),  # 0.1^3 = 0.001, twice
        (0.5, False, True, 20),
        (0.99, False, True, 5),
        (0.05, False, True, 50),
        (0.9, True, True, 50),
        (0.9, False, False, 50),
    ],
)
def test_chains_settle_for_as_long_as_they_need(accepted, cautious, settles, expected):
    request = Request(None, None, [], [], None, None, 50, settles=settles)
    report = SimpleNamespace(predicted_acceptance=accepted)
    assert emulated.to_settle(request, report, cautious) == expected


@pytest.mark.parametrize(
    ("few", "acceptance", "often"), [(True, 0.95, 0.25), (True, 0.85, 1.0), (False, 0.95, 1.0)]
)
def test_a_particle_always_moves_where_chains_may_stay(monkeypatch, few, acceptance, often):
    """Where estimates have surprised the emulator, and with many hyper-parameters."""
    monkeypatch.setattr(emulated, "proposals_by_name", lambda *_: {"walk": RandomWalk()})
    report = SimpleNamespace(predicted_acceptance=acceptance)
    probed = SimpleNamespace(reference=None, n_importance=16, target=None, report=report)
    settings = SimpleNamespace(defensive=0.05, annealing=None)
    known = SimpleNamespace(few=few, periods=[])
    mixture = emulated._transition(known, probed, None, None, settings)
    assert isinstance(mixture.last, RetainedParticle)
    assert mixture.often == often
    # With many, a chain may have to walk out of a corner where pi* is too small.
    assert mixture.probabilities == ((0.98, 0.01, 0.01) if few else (0.94, 0.05, 0.01))
