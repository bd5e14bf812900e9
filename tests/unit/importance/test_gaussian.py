"""The Gaussian of an importance density: wider than the approximation where this helps."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.importance.gaussian import KEPT_PRECISION, importance_gaussian
from skgpmcmc.likelihoods import Logit, Probit, StudentT

from ...helpers import make_model

X = np.random.default_rng(0).standard_normal((8, 2))
CLASSES = np.where(X[:, 0] > 0.0, 1.0, -1.0)


@pytest.mark.parametrize("likelihood", [Probit(), Logit()])
def test_a_log_concave_likelihood_has_a_wider_gaussian_with_the_same_mean(likelihood):
    model = make_model(X, CLASSES, likelihood)
    q = EP(tol=1e-8).fit(model, model.start).q
    wide = importance_gaussian(q, model)
    assert_allclose(wide.mean, q.mean, atol=1e-9)
    assert_allclose(wide.precision, KEPT_PRECISION * q.precision)
    assert np.all(wide.marginal_variance > q.marginal_variance)


def test_the_gaussian_of_a_likelihood_that_is_not_log_concave_stays_as_it_is():
    model = make_model(X, 3.0 * X[:, 0], StudentT())
    q = Laplace().fit(model, model.start).q
    assert importance_gaussian(q, model) is q
