"""What is said of a kernel before chains run: bounds, noise twice, classes that are not known."""

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from skgpmcmc import BayesianGPClassifier, BayesianGPCountRegressor, BayesianGPRegressor
from skgpmcmc.baselines import EPMLClassifier
from skgpmcmc.estimators._kernel_notes import warn_about_kernel
from skgpmcmc.likelihoods import Gaussian, Poisson, Probit, StudentT
from skgpmcmc.samplers import PseudoMarginal

from ...helpers import in_one_test, short_chains

X = np.random.default_rng(0).standard_normal((16, 2))
QUICK = {
    **{"n_chains": 2, "n_warmup": 2, "n_draws": 4, "n_importance": 2, "random_state": 0},
    **{"sampler": PseudoMarginal(moves="random_walk"), "approximation": "laplace"},
}


class OwnRBF(RBF):
    """A known kernel under another name."""


class Unknown(ConstantKernel):
    """A kernel whose hyper-parameter has another name than its parent's."""

    def __init__(self, size=1.0, size_bounds=(1e-5, 1e5)):
        self.size = size
        self.size_bounds = size_bounds
        super().__init__(size, "fixed")

    def get_params(self, deep=True):
        return {"size": self.size, "size_bounds": self.size_bounds}

    @property
    def hyperparameter_size(self):
        return PairwiseKernel(gamma_bounds=self.size_bounds).hyperparameter_gamma._replace(
            name="size"
        )


def said(kernel, priors=None, likelihood=None):
    """All that is said of a kernel."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_about_kernel(kernel, priors, likelihood or Probit())
    assert all(w.category is UserWarning and w.filename == __file__ for w in caught)
    return [str(w.message) for w in caught]


SILENT = [
    RBF(),
    2.0 * RBF(1.0, (1e-5, 1e5)),
    RBF([1.0, 1.0], [(1e-5, 1e5)] * 2),
    RBF(1.0, "fixed") + ConstantKernel(1.0, "fixed") * OwnRBF(),
    clone(ConstantKernel() * RationalQuadratic() ** 2),
    GaussianProcessRegressor(ConstantKernel() * Matern(), optimizer=None).fit(X, X[:, 0]).kernel_,
    PairwiseKernel(),
    WhiteKernel() + RBF(),
]


@in_one_test("kernel", SILENT)
def test_usual_kernels_cause_no_warning(kernel):
    assert said(kernel) == []


BOUNDED = [
    (RBF(1.0, (0.1, 10.0)), "'length_scale' has (0.1, 10)"),
    (ConstantKernel() * RBF([1.0, 1.0], (0.1, 10.0)), "'k2__length_scale' has (0.1, 10)"),
    (RBF([1.0, 1.0], [(0.1, 10.0), (0.1, 5.0)]), "'length_scale' has (0.1, 10) and (0.1, 5)"),
    (OwnRBF(1.0, (0.1, 10.0)) ** 2, "'kernel__length_scale' has (0.1, 10)"),
    (PairwiseKernel(gamma_bounds=(0.1, 10.0)), "'gamma' has (0.1, 10)"),
]


@in_one_test("kernel, expected", BOUNDED)
def test_bounds_set_by_the_user_cause_a_warning_with_a_prior_instead(kernel, expected):
    (message,) = said(kernel)
    name = expected.split("'")[1]
    assert expected in message
    assert f"priors={{{name!r}: scipy.stats.loguniform(0.1, 10)}}" in message
    assert '"fixed"' in message
    assert len(said(kernel, "paper")) == 1
    assert said(kernel, {name: stats.loguniform(0.1, 10.0)}) == []


def test_unknown_kernel_class_with_a_default_prior_causes_a_warning():
    (message,) = said(ConstantKernel() * Unknown())
    assert "'k2__size' is log-normal(0, 1) whatever the unit of X" in message
    assert "what it means in Unknown is not known" in message
    assert said(ConstantKernel() * Unknown(), {"k2__size": stats.lognorm(1.0)}) == []
    assert said(ConstantKernel() * Unknown(), "paper") == []


@in_one_test("likelihood", [Gaussian(), StudentT()])
def test_white_kernel_beside_inferred_noise_causes_a_warning(likelihood):
    (message,) = said(ConstantKernel() * RBF() + WhiteKernel(0.1, "fixed"), None, likelihood)
    assert "noise_scale is inferred" in message
    assert "leave it out" in message


@in_one_test("likelihood", [Gaussian(fixed=True), StudentT(fixed=True), Poisson(), Probit()])
def test_white_kernel_without_inferred_noise_causes_no_warning(likelihood):
    assert said(ConstantKernel() * RBF() + WhiteKernel(), None, likelihood) == []


@pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (BayesianGPClassifier, np.arange(16) % 3),
        (BayesianGPRegressor, X[:, 0]),
        (BayesianGPCountRegressor, np.arange(16) % 3),
    ],
)
@short_chains()
def test_kernel_warnings_come_once_at_the_line_of_fit(estimator, y):
    model = estimator(ConstantKernel() * RBF(1.0, (0.1, 10.0)), **QUICK)
    with pytest.warns(UserWarning, match="Bounds of kernel hyper-parameters") as caught:
        model.fit(X, y)
    assert [w.filename for w in caught if w.category is UserWarning] == [__file__]


@short_chains()
def test_regressor_with_white_kernel_and_noise_still_predicts():
    model = BayesianGPRegressor(ConstantKernel() * RBF() + WhiteKernel(), **QUICK)
    with pytest.warns(UserWarning, match="WhiteKernel counts as part of the function"):
        model.fit(X, X[:, 0])
    mean, sd = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (sd > 0.0).all()


def test_baseline_respects_kernel_bounds():
    kernel = ConstantKernel() * RBF(1.0, (0.5, 0.6))
    model = EPMLClassifier(kernel, n_restarts=0).fit(X, X[:, 0] > 0.0)
    assert 0.5 <= model.kernel_.k2.length_scale <= 0.6
