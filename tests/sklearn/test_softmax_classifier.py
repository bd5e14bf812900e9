"""BayesianGPClassifier(multi_class="softmax"): one model of all classes."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, ConstantKernel
from sklearn.metrics import log_loss

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import in_one_test
from .conftest import assert_same_draws

# A few draws are enough here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

CENTERS = np.array([[-1.5, 0.0], [1.5, 0.0], [0.0, 2.0]])
X, CODES = make_blobs(36, centers=CENTERS, cluster_std=0.9, random_state=0)
LABELS = np.array(["apple", "fig", "pear"])
Y = LABELS[CODES]
X_NEW, CODES_NEW = make_blobs(80, centers=CENTERS, cluster_std=0.9, random_state=1)
#: Hyper-parameters of the default kernel.
NAMES = ["k1__k1__constant_value", "k1__k2__length_scale", "k2__slope_variance"]
QUICK = {"n_chains": 2, "n_warmup": 10, "n_draws": 40, "random_state": 0}
# The default sampler, that of the fixtures, spends seconds on its set-up.
WALK = {
    **QUICK,
    "n_warmup": 20,
    "n_draws": 20,
    "sampler": PseudoMarginal(moves="random_walk"),
    "approximation": "laplace",
    "n_importance": 4,
}


@pytest.fixture(scope="module")
def shared():
    return BayesianGPClassifier(multi_class="softmax", **QUICK).fit(X, Y)


@pytest.fixture(scope="module")
def walk():
    return BayesianGPClassifier(multi_class="softmax", **WALK).fit(X, Y)


@pytest.fixture(scope="module")
def separate():
    priors = {"length_scale": stats.lognorm(0.5)}
    return BayesianGPClassifier(multi_class="softmax_separate", priors=priors, **WALK).fit(X, Y)


@pytest.fixture(params=["shared", "separate", "walk"])
def fitted(request):
    return request.getfixturevalue(request.param)


def test_softmax_with_a_shared_kernel_has_one_theta(shared):
    assert shared.classes_.tolist() == LABELS.tolist()
    assert shared.hyperparameter_names_ == NAMES
    assert shared.theta_samples_.shape == (2, 40, 3)
    assert_allclose(shared.kernel_.theta, shared.theta_samples_.mean(axis=(0, 1)))
    assert not hasattr(shared, "estimators_")


def test_softmax_with_separate_kernels_has_theta_for_each_class(separate):
    names = [f"{n}[{k}]" for k in LABELS for n in NAMES]
    assert separate.hyperparameter_names_ == names
    assert separate.theta_samples_.shape == (2, 20, 9)
    assert isinstance(separate.kernel_, CompoundKernel)
    assert_allclose(separate.kernel_.theta, separate.theta_samples_.mean(axis=(0, 1)))
    assert list(separate.priors_) == NAMES
    assert separate.priors_["k2__length_scale"].args == (0.5,)


def test_softmax_probabilities_labels_and_densities_agree(fitted):
    proba = fitted.predict_proba(X_NEW)
    assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    assert_array_equal(fitted.predict(X_NEW), LABELS[proba.argmax(axis=1)])
    assert fitted.score(X_NEW, LABELS[CODES_NEW]) > 0.8
    assert log_loss(CODES_NEW, proba) < 0.5
    density = fitted.log_predictive_density(X_NEW, LABELS[CODES_NEW])
    assert_allclose(density, np.log(proba[np.arange(80), CODES_NEW]), rtol=1e-12)


def test_softmax_latent_moments_agree_with_draws(fitted):
    draws = fitted.latent_samples_
    assert draws.shape == (2, fitted.n_draws, 36, 3)
    # The function of a row's class is the largest one, on average.
    assert np.mean(draws.mean(axis=(0, 1)).argmax(axis=1) == CODES) > 0.7
    mean, var = fitted.latent_mean_and_variance(X_NEW)
    assert mean.shape == var.shape == (80, 3)
    sample = fitted.sample_latent(X_NEW[:5], 4000, random_state=0)
    assert sample.shape == (5, 4000, 3)
    # A sample continues the few draws of f only, the moments average over many more.
    assert_allclose(sample.mean(axis=1), mean[:5], atol=0.5 * np.sqrt(var[:5]).max())
    assert_allclose(sample.std(axis=1), np.sqrt(var[:5]), rtol=0.4)


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.statistical)])
def test_workers_and_warm_start_change_no_draw_of_a_softmax(n_jobs, walk):
    again = clone(walk).set_params(n_jobs=n_jobs, n_draws=10, warm_start=True).fit(X, Y)
    again = pickle.loads(pickle.dumps(again)).set_params(n_draws=20).fit(X, Y)
    assert_same_draws(again, walk)
    assert_array_equal(again.predict_proba(X_NEW), walk.predict_proba(X_NEW))


def test_softmax_of_two_classes_agrees_with_the_logit():
    two = CODES < 2
    smooth = ConstantKernel() * RBF()
    joint = BayesianGPClassifier(smooth, multi_class="softmax", **WALK).fit(X[two], CODES[two])
    binary = BayesianGPClassifier(smooth, likelihood="logit", **WALK).fit(X[two], CODES[two])
    assert joint.latent_samples_.shape[-1] == 2
    proba = joint.predict_proba(X_NEW)
    assert proba.shape == (80, 2)
    # Priors differ (a difference of two functions has twice the variance), the data rule.
    assert np.abs(proba - binary.predict_proba(X_NEW)).max() < 0.15


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("multi_class", "moves"), [("softmax", "trajectories"), ("softmax_separate", "emulated")]
)
def test_softmax_scores_well_with_samplers_that_have_a_long_set_up(multi_class, moves):
    few = {**QUICK, "n_warmup": 4, "n_draws": 13, "sampler": PseudoMarginal(moves=moves)}
    fitted = BayesianGPClassifier(multi_class=multi_class, **few).fit(X[::3], Y[::3])
    assert fitted.score(X_NEW, LABELS[CODES_NEW]) > 0.7


def test_softmax_with_all_hyperparameters_fixed_has_no_theta_and_scores_well():
    kernel = ConstantKernel(4.0, "fixed") * RBF(1.0, "fixed")
    fitted = BayesianGPClassifier(kernel, multi_class="softmax", **WALK).fit(X, Y)
    assert fitted.theta_samples_.shape == (2, 20, 0)
    assert fitted.score(X_NEW, LABELS[CODES_NEW]) > 0.7


@in_one_test(
    "params, message",
    [
        ({"approximation": "ep"}, 'approximation=EP .*"laplace"'),
        ({"sampler": "marginal"}, 'sampler=Marginal .*sampler="pm"'),
        ({"sampler": "aa"}, 'sampler=.* one latent function.*sampler="pm"'),
        ({"likelihood": 3}, "multi_class='softmax' has a likelihood of its own"),
    ],
)
def test_softmax_refuses_impossible_settings(params, message):
    with pytest.raises(ValueError, match=message):
        BayesianGPClassifier(multi_class="softmax", **QUICK).set_params(**params).fit(X, Y)
