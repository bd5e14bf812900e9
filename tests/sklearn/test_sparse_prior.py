"""``priors="sparse"`` on the estimators: theta, what is made of it, and what a user is told."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.approximations import SubsetOfData
from skgpmcmc.samplers import Ancillary, DiscretizingChain, Marginal, Surrogate, TemperedTransitions

from ..helpers import in_one_test, short_chains
from .conftest import CASES, EXPOSURE, SETTINGS, X_NEW, X

WALK = {**SETTINGS["walk"], "ard": True, "priors": "sparse"}
SHORT = {"n_chains": 2, "n_draws": 15, "target_ess": None, "random_state": 0}
SHORT |= {"ard": True, "priors": "sparse", "max_predict_draws": 8}
OF_KERNEL = ["k1__constant_value", "k2__length_scale[0]", "k2__length_scale[1]"]
N_FEW = 12
FEW = X[:N_FEW]
CLASSES = FEW[:, 0] > FEW[:, 1]


def fitted(estimator, X, y, **arguments):
    with short_chains():
        return estimator.fit(X, y, **arguments)


@pytest.fixture(scope="module")
def counts():
    """A model whose likelihood has a parameter, between those of the kernel and the last one."""
    estimator, y = CASES["negative_binomial"]
    return fitted(clone(estimator).set_params(**WALK), X, y, exposure=EXPOSURE)


# --- every estimator and sampler ------------------------------------------------------------------


@in_one_test(
    ("name", "between"),
    [
        ("classifier", []),
        ("student_t", ["noise_scale"]),
        ("ordinal", ["threshold", "threshold_gap"]),
        ("volatility", []),
        ("softmax", []),
    ],
)
def test_shrinkage_is_the_last_entry_of_theta(name, between):
    estimator, y = CASES[name]
    model = fitted(clone(estimator).set_params(**WALK), X, y)
    names = [*OF_KERNEL, *between, "shrinkage"]
    assert model.hyperparameter_names_ == names
    assert model.theta_samples_.shape == (2, 19, len(names))
    assert list(model.priors_) == names
    assert len(model.kernel_.theta) == 3
    assert np.isfinite(model.log_predictive_density(X, y)).all()
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X_NEW), model.predict(X_NEW))


def test_kernels_of_all_classes_share_the_shrinkage():
    estimator, y = CASES["softmax_separate"]
    model = fitted(clone(estimator).set_params(**WALK), X, y)
    labels = model.classes_.tolist()
    by_class = [f"{name}[{label}]" for label in labels for name in OF_KERNEL]
    assert model.hyperparameter_names_ == [*by_class, "shrinkage"]
    assert model.theta_samples_.shape[2] == 10
    assert len(model.kernel_.kernels) == 3


def test_one_against_the_rest_has_a_shrinkage_for_each_model():
    estimator, y = CASES["one_vs_rest"]
    model = fitted(clone(estimator).set_params(**WALK), X, y)
    lasts = [binary.theta_samples_[..., -1] for binary in model.estimators_]
    assert [binary.hyperparameter_names_[-1] for binary in model.estimators_] == ["shrinkage"] * 3
    assert not np.array_equal(lasts[0], lasts[1])
    assert_allclose(model.predict_proba(X_NEW).sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("sampler", "approximation", "n_warmup"),
    [
        ("pm", "auto", "auto"),
        (Marginal(moves="random_walk"), "laplace", 40),
        ("sa", "auto", 40),
        ("asis", "auto", 40),
        ("khr", "auto", 40),
        (Ancillary(hyper="hmc"), "auto", 10),
        (Ancillary(hyper="slice"), "auto", 10),
        (Surrogate(hyper="smmala"), "auto", 10),
        (TemperedTransitions(n_updates=2, operator="mh"), SubsetOfData(6), 4),
        (DiscretizingChain(n_moves=2, operator="mh"), SubsetOfData(6), 4),
    ],
    ids=["pm", "marginal", "sa", "asis", "khr", "hmc", "slice", "smmala", "tempered", "steps"],
)
def test_every_sampler_moves_the_shrinkage(sampler, approximation, n_warmup):
    own = {"sampler": sampler, "approximation": approximation, "n_warmup": n_warmup}
    model = fitted(BayesianGPClassifier(**SHORT, **own), FEW, CLASSES)
    last = model.theta_samples_[..., -1]
    assert np.any(last.max(axis=1) > last.min(axis=1))
    assert np.isfinite(model.predict_proba(X_NEW)).all()


# --- what is made of theta ------------------------------------------------------------------------


def test_likelihood_parameter_stands_before_the_shrinkage(counts):
    theta = counts.theta_samples_[0, 3]
    model = counts._predictor.model
    assert counts.hyperparameter_names_[-2:] == ["shape", "shrinkage"]
    assert model.likelihood_at(theta).shape == pytest.approx(np.exp(theta[3]))


def test_the_arviz_tree_has_the_shrinkage_on_both_scales(counts):
    pytest.importorskip("arviz_base")
    tree = counts.to_arviz(posterior_predictive=True)
    posterior, theta = tree["posterior"], counts.theta_samples_
    assert_array_equal(posterior["log_shrinkage"], theta[..., -1])
    assert_allclose(posterior["shrinkage"], np.exp(theta[..., -1]))
    assert_allclose(posterior["shape"], np.exp(theta[..., 3]))
    assert_array_equal(posterior["log_k2__length_scale"], theta[..., 1:3])
    assert np.all(tree["posterior_predictive"]["y"] >= 0.0)


def test_evidence_given_theta_does_not_depend_on_the_shrinkage(counts):
    theta = [1.0, 0.5, 2.0, 0.3]
    given = [counts.log_evidence("ep", theta=[*theta, tau])[0] for tau in (1e-3, 10.0)]
    assert given[0] == given[1]
    assert np.isfinite(counts.loo().elpd)


def test_predictions_do_not_depend_on_the_units_of_the_columns():
    estimator, y = CASES["classifier"]
    unit = np.array([2.0**9, 2.0**-12])
    one, other = (
        fitted(clone(estimator).set_params(**WALK), X * scale, y) for scale in (1.0, unit)
    )
    shift = np.array([0.0, *np.log(unit), 0.0])
    assert_allclose(other.theta_samples_, one.theta_samples_ + shift, rtol=1e-9, atol=1e-9)
    assert_allclose(other.latent_samples_, one.latent_samples_, rtol=1e-7, atol=1e-9)


# --- what a user is told --------------------------------------------------------------------------


@in_one_test(
    ("settings", "match"),
    [
        ({"ard": False}, r'priors="?\'?sparse.*RBF\(length_scale=1\).*ard=True'),
        (
            {"ard": False, "kernel": ConstantKernel() * RBF([1.0, 1.0], "fixed")},
            r"kernel=1\*\*2 \* RBF\(length_scale=\[1, 1\]\) has none.*RBF\(np.ones\(2\)\)",
        ),
        ({"priors": {"shrinkage": stats.halfnorm()}}, "'shrinkage', which is not a sampled"),
        ({"priors": "spares"}, r'priors must be .* "paper", "sparse" or None; got \'spares\''),
    ],
)
def test_sparse_prior_is_refused_without_a_length_scale_per_feature(settings, match):
    estimator = BayesianGPClassifier(**{**SHORT, **settings})
    with pytest.raises(ValueError, match=match):
        estimator.fit(FEW, CLASSES)
    assert not hasattr(estimator, "theta_samples_")


def test_mapping_may_join_sparse_and_other_priors():
    own = {"length_scale": "sparse", "constant_value": stats.lognorm(0.5)}
    model = fitted(BayesianGPClassifier(**{**WALK, "priors": own}), FEW, CLASSES)
    assert model.hyperparameter_names_[-1] == "shrinkage"
    assert model.priors_.origins["k1__constant_value"] == "given"
    assert model.priors_.origins["shrinkage"].startswith("sparse")


def test_sparse_prior_does_not_warn_of_different_units():
    estimator, y = CASES["classifier"]
    with short_chains(), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", "Some hyper-parameters|Chains")
        clone(estimator).set_params(**WALK).fit(X * [1e3, 1e-3], y)
