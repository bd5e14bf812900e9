"""EP-ML baseline: the maximum of the evidence alone, scikit-learn's own, and its probabilities."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc.approximations import EP
from skgpmcmc.baselines import EPMLClassifier
from skgpmcmc.likelihoods import Poisson

from ...helpers import make_model, toy_classes

KERNEL = ConstantKernel(2.0) * RBF(0.5)
X, SIGNS = toy_classes(40, 2, seed=8)
LABELS = np.where(SIGNS > 0.0, "yes", "no")
X_NEW = np.random.default_rng(9).uniform(size=(6, 2))


@pytest.fixture(scope="module")
def fitted():
    return EPMLClassifier(KERNEL, n_restarts=0).fit(X, LABELS)


def test_maximum_of_the_laplace_evidence_agrees_with_scikit_learn():
    """With the logit and Laplace, whose evidence scikit-learn maximizes too."""
    settings = {"likelihood": "logit", "approximation": "laplace", "n_restarts": 0}
    ours = EPMLClassifier(KERNEL, **settings).fit(X, LABELS)
    theirs = GaussianProcessClassifier(KERNEL).fit(X, LABELS)
    value = theirs.log_marginal_likelihood_value_
    assert ours.log_marginal_likelihood_value_ == pytest.approx(value, abs=1e-4)
    assert_allclose(ours.kernel_.theta, theirs.kernel_.theta, atol=0.02)


def test_maximum_is_a_stationary_point_of_the_evidence_alone(fitted):
    """No prior takes part, so that the gradient of log p(y | theta) by EP vanishes."""
    model, ep = make_model(X, SIGNS, kernel=KERNEL), EP().with_tolerance()
    best = ep.fit(model, fitted.kernel_.theta)
    assert best.log_evidence == pytest.approx(fitted.log_marginal_likelihood_value_, abs=1e-3)
    assert_allclose(ep.gradient(model, best), 0.0, atol=0.02)
    # The prior would move it: its own slope there is far from zero.
    assert np.abs(model.hyperprior.gradient(fitted.kernel_.theta)).max() > 0.2


def test_probabilities_are_averages_over_the_approximate_posterior(fitted):
    q = EP().with_tolerance().fit(make_model(X, SIGNS, kernel=KERNEL), fitted.kernel_.theta).q
    mean, var = q.conditional().predict(X_NEW)
    expected = norm.cdf(mean[:, 0] / np.sqrt(1.0 + var))
    assert_array_equal(fitted.classes_, ["no", "yes"])
    assert_allclose(fitted.predict_proba(X_NEW)[:, 1], expected, atol=1e-3)
    assert_allclose(fitted.predict_proba(X_NEW).sum(axis=1), 1.0, rtol=1e-12)
    assert_array_equal(fitted.predict(X_NEW), np.where(expected > 0.5, "yes", "no"))


def test_more_starts_find_no_lower_maximum(fitted):
    poor = ConstantKernel(1e-3) * RBF(100.0)  # where the slope leads away
    once, often = (
        EPMLClassifier(poor, n_restarts=n, random_state=0).fit(X, LABELS) for n in (0, 3)
    )
    best = fitted.log_marginal_likelihood_value_
    assert once.log_marginal_likelihood_value_ <= often.log_marginal_likelihood_value_ + 1e-6
    assert often.log_marginal_likelihood_value_ == pytest.approx(best, abs=1e-3)


def test_likelihood_of_counts_is_refused_by_name():
    with pytest.raises(ValueError, match="likelihood 'poisson' is for counts"):
        EPMLClassifier(KERNEL, likelihood=Poisson()).fit(X, LABELS)
