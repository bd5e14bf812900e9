"""Random streams that never meet, and classes that can be asked one by one."""

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.run import GivenRows, leave_one_out
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


@pytest.mark.parametrize(("n_classes", "n_chains"), [(2, 3), (3, 2), (4, 5)])
def test_no_two_streams_of_a_fit_are_the_same(n_classes, n_chains, monkeypatch):
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


def test_each_class_against_the_rest_can_be_left_one_out():
    X, y = classes(3)
    model = BayesianGPClassifier(**WALK).fit(X, y)
    with pytest.raises(ValueError, match=r"call estimators_\[k\].loo"):
        model.loo()
    outcomes = [binary.loo() for binary in model.estimators_]
    for k, (binary, outcome) in enumerate(zip(model.estimators_, outcomes, strict=True)):
        own, given = model._sampling.run.models[k], GivenRows(binary._rows.row_of, np.ones(20))
        expected = leave_one_out(own.model, own.draws, given)
        assert_array_equal(outcome.elpd_i, expected.elpd_i)
        in_order = leave_one_out(own.model, own.draws, GivenRows(np.arange(20), np.ones(20)))
        assert_array_equal(outcome.elpd_i, in_order.elpd_i[binary._rows.row_of])
        assert np.isfinite(outcome.elpd)
        assert binary.theta_samples_ is binary._draws.theta
    assert len({outcome.elpd for outcome in outcomes}) == 3


def test_a_refit_with_two_classes_leaves_nothing_of_three():
    X, y = classes(3)
    model = BayesianGPClassifier(**WALK).fit(X, y)
    model.fit(X, y == 0)
    assert len(model.loo().elpd_i) == 20
    model.fit(X, y)
    assert not hasattr(model, "_draws")
