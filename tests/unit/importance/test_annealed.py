"""Annealed importance sampling: unbiased, its moves leave each temperature unchanged."""

from itertools import pairwise, product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skgpmcmc.approximations import EP, Exact, Sites
from skgpmcmc.approximations.whitened import gaussian_family
from skgpmcmc.importance import log_importance_weights
from skgpmcmc.importance.annealed import (
    AnnealedParticles,
    EllipticalKernel,
    TemperatureSchedule,
    TemperedLikelihood,
    annealed_evidence,
    find_schedule,
    geometric_temperatures,
    linear_temperatures,
)
from skgpmcmc.likelihoods import Gaussian
from skgpmcmc.parameterizations import LatentConditional
from skgpmcmc.run.annealed import AnnealedImportance
from skgpmcmc.transitions import Outcome, RiemannianTrajectory, Trajectory
from skgpmcmc.transitions.annealed import RiemannianKernel, TrajectoryKernel

from ...helpers import (
    NO_THETA,
    THREE_THETA,
    THREE_Y,
    finite_difference,
    given_model,
    in_one_test,
    make_model,
    orthant_probability,
    seeded,
    three_point_model,
    toy_classes,
)

STARTS = ["prior", "EP"]
KERNELS = {
    "elliptical_slice": EllipticalKernel(),
    "hmc": TrajectoryKernel(Trajectory(-0.3, max_steps=4)),
    "rmhmc": RiemannianKernel(RiemannianTrajectory(0.0, max_steps=2)),
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS)


def fixed(temperatures, log_scale=0.0):
    """The schedule with one scale at all temperatures."""
    return TemperatureSchedule(temperatures, np.full(len(temperatures), log_scale))


def particles_at(model, q, f):
    """Draws that are where f, (n, N), says."""
    delta = f - q.mean[:, None]
    observed = model.observations_at(q.prior.theta)
    particles = AnnealedParticles(q, observed, delta, np.empty(f.shape[1]))
    particles.place(np.full(f.shape[1], True), delta)
    return particles


def beginning(model, theta, start):
    if start == "EP":
        return EP().fit(model, theta).q
    prior = model.prior_at(theta)
    nothing = np.zeros(len(model.y))
    return gaussian_family(prior, True)(prior, Sites(nothing, nothing))


def wide_model():
    """A model, and a theta of a large variance."""
    model = make_model(*toy_classes(25, 2, 0))
    return model, np.log([81.0, 0.5])


@in_one_test("start", STARTS)
@in_one_test("n_temperatures", [1, 3, 8])
def test_mean_annealed_weight_equals_the_orthant_probability(start, n_temperatures):
    model = three_point_model()
    exact = orthant_probability(model.prior_at(THREE_THETA).K, THREE_Y)
    rng = np.random.default_rng(seeded())
    q = beginning(model, THREE_THETA, start)
    found = annealed_evidence(model, q, fixed(linear_temperatures(n_temperatures)), 4000, rng)
    weights = np.exp(found.log_weights)
    z = (weights.mean() - exact) / (weights.std() / np.sqrt(len(weights)))
    assert abs(z) < 4.0
    assert found.log_evidence == pytest.approx(np.log(weights.mean()))
    assert found.standard_error == pytest.approx(
        weights.std() / weights.mean() / np.sqrt(len(weights)), rel=1e-6
    )


def test_annealing_with_one_temperature_is_importance_sampling():
    model, theta = wide_model()
    q = beginning(model, theta, "EP")
    found = annealed_evidence(model, q, fixed(linear_temperatures(1)), 50, np.random.default_rng(0))
    assert_allclose(found.log_weights, log_importance_weights(model, q, found.particles))


def test_annealing_from_the_posterior_has_constant_weights():
    model = given_model(np.array([[2.5, 2.0], [2.0, 2.5]]), [0.3, -0.8], Gaussian(0.5, fixed=True))
    fit = Exact().fit(model, NO_THETA)
    schedule = fixed(linear_temperatures(4))
    found = annealed_evidence(model, fit.q, schedule, 20, np.random.default_rng(0))
    assert_allclose(found.log_weights, fit.log_evidence, rtol=1e-10)


def exact_particles(beta, size, rng):
    """Draws of q^(1 - beta) p^beta, made by rejection."""
    model = given_model(np.array([[4.0, 2.0], [2.0, 3.0]]), [1.0, -1.0])
    q = beginning(model, NO_THETA, "prior")
    drawn = AnnealedParticles.draw(model, q, size, rng)  # rho <= 0 for a probit from the prior
    kept = np.log(rng.uniform(size=size)) < beta * drawn.log_ratio
    return AnnealedParticles(q, drawn.observed, drawn.delta[:, kept], drawn.log_ratio[kept])


@every_kernel
@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_annealed_moves_keep_the_law_of_their_temperature(beta, kernel):
    rng = np.random.default_rng(seeded())
    moved = exact_particles(beta, 300 if kernel == "rmhmc" else 8000, rng)
    half = moved.delta.shape[1] // 2
    before = moved.delta[:, :half].copy()
    for _ in range(3):
        probability = KERNELS[kernel].move(moved, beta, -0.5, rng)
        assert 0.3 < probability <= 1.0
    assert (moved.delta[:, :half] != before).mean() > 0.8
    # The first half before against the second half after: they are independent. A temperature
    # pulls the two values apart: their difference sees it best.
    for g in ([1.0, 0.0], [0.0, 1.0], [1.0, -1.0]):
        after = g @ moved.delta[:, half:]
        assert stats.ks_2samp(g @ before, after, method="asymp").pvalue > 1e-4


@every_kernel
def test_law_test_notices_annealed_moves_at_another_temperature(kernel):
    """The test above must see a wrong beta."""
    rng = np.random.default_rng(seeded())
    particles = exact_particles(0.0, 100 if kernel == "rmhmc" else 4000, rng)
    before = particles.delta[0] - particles.delta[1]
    for _ in range(3):
        KERNELS[kernel].move(particles, 1.0, 0.0, rng)
    after = particles.delta[0] - particles.delta[1]
    assert stats.ks_2samp(before, after, method="asymp").pvalue < 1e-4


class Recorder:
    """An operator that stays where it is, and records the log density of its target there."""

    def __init__(self):
        self.log_densities = []

    def with_log_scale(self, log_scale):
        return self

    def move(self, conditional, begin, rng):
        self.log_densities.append(begin.log_density)
        return Outcome(begin, True, 1.0, 1)


def test_riemannian_trajectories_have_the_target_of_their_temperature():
    particles = exact_particles(0.3, 20, np.random.default_rng(0))
    q = particles.q
    f = particles.f.copy()
    log_q = stats.multivariate_normal(q.mean, q.prior.K).logpdf(f.T)  # q is the prior
    log_lik = particles.observed.totals(f)
    for beta in (0.3, 1.0):
        recorder = Recorder()
        RiemannianKernel(recorder).move(particles, beta, 0.0, np.random.default_rng(0))
        expected = log_q + beta * log_lik
        found = np.array(recorder.log_densities)
        assert_allclose(found - found[0], expected - expected[0], atol=1e-8)


# --- paths backwards ------------------------------------------------------------------------------


class Watched:
    """A generator that keeps what it was asked for, and gave, between bounds that are arrays."""

    def __init__(self, seed):
        self._rng, self.brackets = np.random.default_rng(seed), []

    def __getattr__(self, name):
        return getattr(self._rng, name)

    def uniform(self, low=0.0, high=1.0, size=None):
        found = self._rng.uniform(low, high, size)
        if np.ndim(low):
            self.brackets.append((low.copy(), high.copy(), found))
        return found


def test_brackets_of_elliptical_slices_shrink_to_rejected_angles():
    """Not to zero: that has a bias which shows only where slices are narrow."""
    model, theta = wide_model()
    rng = Watched(0)
    draws = AnnealedParticles.draw(model, beginning(model, theta, "prior"), 40, rng)
    EllipticalKernel().move(draws, 1.0, 0.0, rng)
    n_cut = 0
    for (low, high, angle), (new_low, new_high, _) in pairwise(rng.brackets):
        below = (angle < 0.0) & (new_low == angle) & (new_high == high)
        above = (angle >= 0.0) & (new_high == angle) & (new_low == low)
        still = (new_low == low) & (new_high == high)  # of a draw that has been moved
        assert (below | above | still).all()
        n_cut += (below | above).sum()
    assert n_cut > 40
    low, high, _ = rng.brackets[0]
    assert_allclose(high - low, 2.0 * np.pi)
    assert ((low <= 0.0) & (high >= 0.0)).all()


@in_one_test("start", STARTS)
def test_tempered_density_equals_that_of_the_annealing_path(start):
    """Over the prior it is that of the path, and its derivatives are those of differences."""
    model, theta = wide_model()
    q = beginning(model, theta, start)
    observed = model.observations_at(theta)
    tempered = TemperedLikelihood(observed, q, 0.3)
    f = model.prior_at(theta).sample(np.random.default_rng(0), 2)
    rho = observed.totals(f) - q.log_ratio_to_prior(f)
    path = 0.3 * rho + q.log_ratio_to_prior(f)
    total = tempered.totals(f)
    assert total[0] - total[1] == pytest.approx(path[0] - path[1])
    assert tempered.total(f[:, 0]) == pytest.approx(total[0])
    h = 1e-5
    up, here, down = (tempered.derivatives(f + shift) for shift in (h, 0.0, -h))
    assert_allclose(here.second, (up.first - down.first) / (2 * h), atol=1e-6)
    assert_allclose(here.third, (up.second - down.second) / (2 * h), atol=1e-6)
    slopes = finite_difference(lambda g: float(tempered.total(g)), f[:, 0])
    assert_allclose(here.first[:, 0], slopes, rtol=1e-6, atol=1e-6)
    one = tempered.derivatives(f[:, 1])
    assert_allclose(one.first, here.first[:, 1])
    precision, slope = tempered.curvature(f[:, 1])
    assert_allclose(precision, -one.second)
    assert_allclose(slope, -one.third)
    point = LatentConditional(tempered, q.prior).at(q.prior.whiten(f[:, 0]))
    v = point.position
    assert point.log_density == pytest.approx(total[0] - 0.5 * v @ v)


@in_one_test(
    ("kernel", "start", "size"),
    [
        *product(["elliptical_slice", "hmc"], ["ep", "laplace", "prior"], [400]),
        ("rmhmc", "prior", 100),  # dear, and like the others but for its moves
    ],
)
def test_annealing_by_every_kernel_estimates_the_orthant_probability(kernel, start, size):
    model = three_point_model()
    exact = orthant_probability(model.prior_at(THREE_THETA).K, THREE_Y)
    ais = AnnealedImportance(kernel, start, "geometric", 4, size, n_moves=1, max_leapfrog=3)
    found = ais.estimate(model, THREE_THETA, np.random.default_rng(seeded()))
    assert abs(found.log_evidence - np.log(exact)) < 4.0 * found.standard_error
    assert 0.0 < found.standard_error < 0.3
    assert 20.0 < found.effective_size <= size
    assert found.particles.shape == (3, size)


def test_number_of_workers_does_not_change_annealed_weights():
    model, theta = wide_model()
    ais = AnnealedImportance("hmc", "prior", "geometric", 5, 150)
    one, two = (
        ais.estimate(model, theta, np.random.default_rng(0), n_jobs=n).log_weights for n in (1, 2)
    )
    assert_allclose(one, two, rtol=0.0, atol=0.0)


def test_pilot_batch_shortens_steps_towards_the_posterior():
    """Where the posterior is much narrower than the prior, steps become shorter on the way."""
    model, theta = wide_model()
    q = beginning(model, theta, "prior")
    kernel = TrajectoryKernel(Trajectory(0.5))
    rng = np.random.default_rng(0)
    schedule = find_schedule(
        model, q, geometric_temperatures(20), rng, kernel=kernel, n_moves=3, n_pilot=24
    )

    def last_probabilities(log_scales):
        particles, found = AnnealedParticles.draw(model, q, 100, rng), []
        for beta, log_scale in zip(schedule.temperatures, log_scales, strict=True):
            found += [kernel.move(particles, beta, log_scale, rng) for _ in range(3)]
        return np.mean(found[15:])

    assert schedule.log_scales[0] == 0.5
    assert 0.35 < last_probabilities(schedule.log_scales) < 0.9
    assert last_probabilities(np.full(20, 0.5)) < 0.1


@in_one_test(
    ("settings", "message"),
    [
        ({"kernel": "gibbs"}, "kernel must be one of"),
        ({"start": "nowhere"}, "start must be one of"),
        ({"temperatures": "hot"}, "temperatures must be one of"),
        ({"n_particles": 1}, "n_particles must be an integer >= 2"),
        ({"n_moves": 0}, "n_moves must be an integer >= 1"),
    ],
)
def test_impossible_settings_of_annealing_are_refused(settings, message):
    model = three_point_model()
    with pytest.raises(ValueError, match=message):
        AnnealedImportance(**settings).estimate(model, THREE_THETA, np.random.default_rng(0))


def test_annealing_is_precise_where_importance_sampling_is_noisy():
    """At a variance of e^8 a few draws of EP's Gaussian have nearly all of the weight."""
    model, _ = wide_model()
    theta = np.log([3000.0, 0.5])
    q = beginning(model, theta, "EP")
    rng = np.random.default_rng(0)
    plain = annealed_evidence(model, q, fixed(linear_temperatures(1)), 500, rng)
    schedule = find_schedule(model, q, None, rng)
    annealed = annealed_evidence(model, q, schedule, 500, rng, n_moves=5)
    assert annealed.effective_size > 1.5 * plain.effective_size
    assert annealed.log_weights.std() < 0.2 * plain.log_weights.std()


def test_schedules_of_temperatures_increase_to_one():
    for temperatures in (geometric_temperatures(1), geometric_temperatures(7),
                         linear_temperatures(1), linear_temperatures(7)):  # fmt: skip
        assert temperatures[-1] == 1.0
        assert (np.diff(temperatures) > 0.0).all()
        assert len(temperatures) in (1, 7)


def test_temperatures_that_are_given_are_kept():
    model = three_point_model()
    q, wanted = beginning(model, THREE_THETA, "prior"), geometric_temperatures(1500)
    found = find_schedule(model, q, wanted, np.random.default_rng(0), n_pilot=2)
    assert_allclose(found.temperatures, wanted, rtol=0.0)
    assert found.log_scales.shape == (1500,)


def test_adaptive_schedule_is_longer_from_a_poorer_start():
    model, theta = wide_model()
    n = [
        len(find_schedule(model, beginning(model, theta, start), None, np.random.default_rng(0))[0])
        for start in STARTS
    ]
    assert n[0] > 2 * n[1] >= 2
