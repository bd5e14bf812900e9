"""Skewness of the margins of f given y, from the tilted distributions of an approximation."""

import numpy as np
import pytest
from scipy import integrate, stats

from skgpmcmc.approximations import EP, Laplace

from ...helpers import both_links, make_model, toy_classes


@both_links
def test_skewness_of_a_single_site_agrees_with_quadrature(likelihood):
    """With one point the tilted distribution is the posterior: its third moment by quadrature."""
    model = make_model(np.array([[0.3]]), np.array([1.0]), likelihood)
    q = EP(tol=1e-10).fit(model, np.array([2.0, 0.0])).q
    (skewness,) = q.skewness(model)
    prior = stats.norm(0.0, np.sqrt(q.prior.K[0, 0]))

    def density(f):
        return prior.pdf(f) * np.exp(model.observations.total(np.array([f])))

    def moment(k, mean=0.0):
        return integrate.quad(lambda f: (f - mean) ** k * density(f), -80.0, 80.0, limit=500)[0]

    mass = moment(0)
    mean = moment(1) / mass
    var = moment(2, mean) / mass
    assert skewness == pytest.approx(moment(3, mean) / mass / var**1.5, abs=1e-4)


def test_skewness_of_laplace_is_on_the_side_of_the_class():
    model = make_model(*toy_classes(6, 2, seed=3))
    skewness = Laplace().fit(model, np.array([1.4, -0.7])).q.skewness(model)
    assert np.isfinite(skewness).all()
    assert np.all(skewness * model.y > 0.0)  # the tail is on the side of the class
