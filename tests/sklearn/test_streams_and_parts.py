"""Random streams that never meet, and classes that can be asked one by one."""

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.importance.left_out import DensityQuery, FittedPosterior
from skgpmcmc.model.observations import ExtraTargets
from skgpmcmc.run.leave_one_out import GivenRows, leave_one_out
from skgpmcmc.samplers import Marginal

from ..helpers import toy_classes

# A few draws are enough here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

QUICK = {"sampler": "marginal", "approximation": "laplace", "n_warmup": 2, "random_state": 0}
#: Nothing has to be learned by its set-up.
WALK = {**QUICK, "sampler": Marginal(moves="random_walk"), "n_chains": 2, "n_draws": 15}


def classes(n_classes):
    X, _ = toy_classes(20, 2, seed=0)
    return X, np.arange(20) % n_classes


@pytest.mark.parametrize(("n_classes", "n_chains"), [(2, 3), (3, 4)])
def test_no_two_random_streams_of_a_fit_are_the_same(n_classes, n_chains, monkeypatch):
    """Those of chains, set-ups and predictions, of every class."""
    made, default_rng = Counter(), np.random.default_rng

    def recording(seed=None):
        generator = default_rng(seed)
        source = generator.bit_generator.seed_seq
        made[str((source.entropy, source.spawn_key))] += 1
        return generator

    monkeypatch.setattr(np.random, "default_rng", recording)
    X, y = classes(n_classes)
    BayesianGPClassifier(**QUICK, n_chains=n_chains, n_draws=2).fit(X, y)
    n_models = 1 if n_classes == 2 else n_classes
    assert made.total() >= n_models * (n_chains + 2)
    assert made.most_common(1)[0][1] == 1


def test_loo_of_each_binary_estimator_equals_that_of_its_draws():
    X, y = classes(3)
    model = BayesianGPClassifier(**WALK).fit(X, y)
    outcomes = [binary.loo("psis") for binary in model.estimators_]
    for k, (binary, outcome) in enumerate(zip(model.estimators_, outcomes, strict=True)):
        own, given = model._sampling.run.models[k], GivenRows(binary._rows.row_of, np.ones(20))
        expected = leave_one_out(own.model, own.draws, given)
        assert_array_equal(outcome.elpd_i, expected.elpd_i)
        in_order = leave_one_out(own.model, own.draws, GivenRows(np.arange(20), np.ones(20)))
        assert_array_equal(outcome.elpd_i, in_order.elpd_i[binary._rows.row_of])
        assert np.isfinite(outcome.elpd)
        assert binary.theta_samples_ is binary._draws.theta
    assert len({outcome.elpd for outcome in outcomes}) == 3


@pytest.mark.parametrize("method", ["integrated", "psis"])
def test_loo_of_one_vs_rest_normalizes_the_binary_probabilities(method):
    """As in predictions the probabilities of each class against the rest are normalized."""
    X, y = classes(3)
    model = BayesianGPClassifier(**WALK).fit(X, y)
    outcomes = [binary.loo(method) for binary in model.estimators_]
    own = [np.exp(outcome.elpd_i) for outcome in outcomes]
    p = np.array([np.where(y == k, own[k], 1.0 - own[k]) for k in range(3)])
    result = model.loo(method)
    assert_allclose(result.elpd_i, np.log(p[y, np.arange(20)] / p.sum(axis=0)), atol=1e-8)
    assert_array_equal(result.pareto_k, np.max([o.pareto_k for o in outcomes], axis=0))
    assert result.elpd == pytest.approx(result.elpd_i.sum())
    assert result.p_loo > 0.0
    inside = model.log_predictive_density(X, y).sum()  # by fewer draws, and Laplace
    assert result.elpd + result.p_loo == pytest.approx(inside, abs=1.0)


def test_loo_of_one_vs_rest_multiplies_log_probabilities_by_weights():
    """A row of weight two is left out whole; its probability is that of one observation."""
    X, y = classes(3)
    weight = np.r_[2.0, np.ones(19)]
    weighted = BayesianGPClassifier(**WALK).fit(X, y, sample_weight=weight)
    result = weighted.loo()
    p = []
    for k, binary in enumerate(weighted.estimators_):
        own = binary._predictor.model
        (row,) = binary._rows.row_of[:1]
        theta = binary._draws.theta.reshape(-1, 3)
        log_p, log_square = np.transpose(
            [
                [
                    FittedPosterior.at(own, t, binary._reference).log_density_given(
                        DensityQuery(
                            np.array([row]), np.zeros(1), ExtraTargets(np.array([s]), np.array([w]))
                        )
                    )[0]
                    for s, w in ((1.0, 1.0), (1.0 if y[0] == k else -1.0, 2.0))
                ]
                for t in theta
            ]
        )
        p.append(np.sum(np.exp(log_p - log_square)) / np.sum(np.exp(-log_square)))
    # Weights of draws are not smoothed here.
    assert result.elpd_i[0] == pytest.approx(2.0 * np.log(p[y[0]] / np.sum(p)), abs=0.05)
