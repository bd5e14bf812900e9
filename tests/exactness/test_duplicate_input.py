"""scikit-learn's own `test_duplicate_input`, with our regressor in the place of theirs.

Two targets at one input, and at two inputs that differ by a rounding error: one fit has six
distinct inputs, and the other seven, of which two have the same value of f to within double
precision.
"""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.gaussian_process.kernels import ConstantKernel as C

from skgpmcmc import BayesianGPRegressor
from skgpmcmc.run import summarize_convergence

from ..helpers import in_one_test, seeded

#: Inputs, targets and kernels of scikit-learn's tests. Their last kernel differs from the last one
#: here only by the value of its constant, which is sampled.
X = np.atleast_2d([1.0, 3.0, 5.0, 6.0, 7.0, 8.0]).T
Y = (X * np.sin(X)).ravel()
KERNELS = [
    RBF(length_scale=1.0),
    RBF(length_scale=1.0, length_scale_bounds="fixed"),
    C(1.0, (1e-2, 1e2)) * RBF(length_scale=1.0),
    C(1.0, (1e-2, 1e2)) * RBF(length_scale=1.0) + C(1e-5, (1e-5, 1e2)),
]
X_TEST = np.linspace(0.0, 10.0, 100)[:, None]


def fitted(kernel, shift, **settings):
    """A fit of both targets, the second one at an input that is so far away."""
    inputs, targets = np.vstack((X, X[0] + shift)), np.hstack((Y, Y[0] + 1.0))
    reg = BayesianGPRegressor(kernel, alpha=1e-2, priors="paper", random_state=seeded(), **settings)
    return reg.fit(inputs, targets)


def test_equal_inputs_are_one_input_and_similar_inputs_share_a_value():
    kernel = KERNELS[1]  # nothing to be sampled but the noise
    equal, similar = (fitted(kernel, shift) for shift in (0.0, 1e-15))
    assert (len(equal._rows.X), len(similar._rows.X)) == (6, 7)
    assert equal._predictor.model.prior_at(equal.theta_samples_[0, 0]).rank == 6
    assert similar._predictor.model.prior_at(similar.theta_samples_[0, 0]).rank == 6
    f = similar.latent_samples_
    np.testing.assert_allclose(f[:, :, -1], f[:, :, 0], rtol=1e-9)


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore:Bounds of kernel hyper-parameters")  # scikit-learn's have some
@in_one_test("kernel", KERNELS)
def test_equal_and_similar_inputs_give_the_same_posterior(kernel):
    """All converge, or they would warn; means and variances agree within Monte Carlo error."""
    fits = [fitted(kernel, shift, target_ess=1000, n_draws=60_000) for shift in (0.0, 1e-15)]
    draws = [
        np.concatenate([fit.theta_samples_, fit.latent_samples_[:, :, :6]], axis=2) for fit in fits
    ]
    center = np.mean([own.mean(axis=(0, 1)) for own in draws], axis=0)
    for power in (1, 2):
        first, second = ((own - center) ** power for own in draws)
        gap = first.mean(axis=(0, 1)) - second.mean(axis=(0, 1))
        errors = [summarize_convergence(own).mcse_mean for own in (first, second)]
        assert (np.abs(gap) < 4.5 * np.hypot(*errors)).all()
    # Between the inputs and beyond them.
    (mean, sd), other = fits[0].predict(X_TEST, return_std=True), fits[1].predict(X_TEST)
    assert (np.abs(mean - other) < 0.2 * sd).all()
