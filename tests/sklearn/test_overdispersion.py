"""Counts that vary more than Poisson counts do: who says so, of which data."""

import numpy as np
import pytest

from skgpmcmc import BayesianGPCountRegressor, BayesianGPPoissonRegressor
from skgpmcmc.estimators import _dispersion
from skgpmcmc.estimators._dispersion import compare_with_poisson
from skgpmcmc.likelihoods import Poisson
from skgpmcmc.model.inducing import with_inducing_inputs
from skgpmcmc.model.observations import Observations
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import in_one_test, short_chains

QUICK = {
    **{"n_chains": 1, "n_warmup": 2, "n_draws": 10, "n_importance": 4, "random_state": 0},
    **{"sampler": PseudoMarginal(moves="random_walk"), "approximation": "laplace"},
}
X = np.linspace(0.0, 4.0, 40)[:, None]
RATE = np.exp(1.2 + np.sin(1.5 * X[:, 0]))


def counts(seed, shape=None, rate=RATE):
    """Poisson counts, or negative binomial ones."""
    rng = np.random.default_rng(seed)
    factor = 1.0 if shape is None else rng.gamma(shape, 1.0 / shape, len(rate))
    return rng.poisson(rate * factor)


def warnings_of(estimator, y, recwarn, X=X, **arguments):
    with short_chains():
        estimator.fit(X, y, **arguments)
    return [w for w in recwarn if "overdispersion" in str(w.message)]


@pytest.mark.filterwarnings("always")
def test_only_the_poisson_regressor_warns_and_names_the_remedy(recwarn):
    y = counts(0, shape=1.0)
    settings = [
        BayesianGPCountRegressor(**QUICK),
        BayesianGPCountRegressor(likelihood="poisson", **QUICK),
        BayesianGPPoissonRegressor(likelihood="negative_binomial", **QUICK),
    ]
    for estimator in settings:
        assert warnings_of(estimator, y, recwarn) == []
    (said,) = warnings_of(BayesianGPPoissonRegressor(**QUICK), y, recwarn)
    assert said.filename == __file__
    assert "use BayesianGPCountRegressor" in str(said.message)


@pytest.mark.filterwarnings("always")
@in_one_test("exposed", [False, True])
def test_poisson_counts_cause_no_warning(exposed, recwarn):
    exposure = np.linspace(0.5, 3.0, 40) if exposed else np.ones(40)
    y = counts(1, rate=RATE * exposure)
    assert warnings_of(BayesianGPPoissonRegressor(**QUICK), y, recwarn, exposure=exposure) == []


@pytest.mark.filterwarnings("always")
def test_equal_inputs_and_fractional_counts_are_examined(recwarn):
    places = np.repeat(X[::4], 4, axis=0)
    y = counts(2, shape=1.0, rate=np.repeat(RATE[::4], 4)) + 0.5
    estimator = BayesianGPPoissonRegressor(fractional_counts="allow", **QUICK)
    assert len(warnings_of(estimator, y, recwarn, X=places)) == 1


def poisson_model(y):
    observed = Observations(Poisson(), y.astype(float), np.full(len(y), np.log(y.mean())))
    estimator = BayesianGPPoissonRegressor()
    kernel = estimator._resolve_kernel(X, {})
    return estimator._models(kernel, X, [observed], False)[0]


def test_few_false_alarms_and_few_misses():
    """Of each kind four data sets; one in a thousand Poisson ones would be beyond the limit."""
    gains = {}
    for shape in (None, 1.5):
        models = [poisson_model(counts(seed, shape)) for seed in range(4)]
        gains[shape] = [compare_with_poisson(model, np.zeros(2))[0] for model in models]
    assert max(gains[None]) < _dispersion._LEAST_GAIN
    assert sum(gain > _dispersion._LEAST_GAIN for gain in gains[1.5]) >= 3


def test_gain_is_that_of_the_inputs_that_are_examined(monkeypatch):
    model = poisson_model(counts(3, shape=0.7))
    whole, _ = compare_with_poisson(model, np.zeros(2))
    monkeypatch.setattr(_dispersion, "_MOST_INPUTS", 20)
    half, shape = compare_with_poisson(model, np.zeros(2))
    assert 0.0 < half < whole
    assert shape in _dispersion._SHAPES


def test_inducing_inputs_take_no_part_in_the_comparison():
    model = poisson_model(counts(0))
    theta = model.start
    assert compare_with_poisson(with_inducing_inputs(model, 3), theta) == compare_with_poisson(
        model, theta
    )


@pytest.mark.filterwarnings("always")
def test_kernels_without_a_gradient_are_not_examined(recwarn, monkeypatch):
    def refuse(covariance, remedy):
        raise ValueError("no gradient")

    monkeypatch.setattr(_dispersion, "check_gradient", refuse)
    y = counts(0, shape=1.0)
    assert warnings_of(BayesianGPPoissonRegressor(**QUICK), y, recwarn) == []
