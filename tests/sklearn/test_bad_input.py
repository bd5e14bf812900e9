"""Bad input gets a message that names it, and leaves an earlier fit alone; where warnings point."""

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, ConstantKernel, DotProduct, Matern
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.likelihoods import Probit
from skgpmcmc.model import HyperPrior
from skgpmcmc.numerics.linalg import NotPositiveDefiniteError
from skgpmcmc.samplers import Marginal, PseudoMarginal, Sufficient
from skgpmcmc.transitions.metropolis import MarginalMetropolis

from ..helpers import in_one_test, short_chains


def quick(**changes):
    settings = {"n_chains": 2, "n_warmup": 10, "n_draws": 10, "n_importance": 8, "random_state": 0}
    return BayesianGPClassifier(**{**settings, **changes})


def quickest(**changes):
    """A few draws of the sampler whose set-up takes no time."""
    settings = {"sampler": PseudoMarginal(moves="random_walk"), "approximation": "laplace"}
    return quick(**{**settings, "n_warmup": 2, "n_draws": 3, "n_importance": 2, **changes})


def moons(n=30):
    return make_moons(n, noise=0.15, random_state=0)


def frame(n=30):
    X, y = moons(n)
    return pd.DataFrame(X, columns=["east", "north"]), y


@pytest.fixture(scope="module")
@short_chains()
def fitted_on_frame():
    return quickest().fit(*frame())


def assert_untouched(estimator, before):
    """Every attribute is the very object it was, apart from constructor parameters."""
    parameters = estimator.get_params(deep=False)
    after = {name: value for name, value in vars(estimator).items() if name not in parameters}
    before = {name: value for name, value in before.items() if name not in parameters}
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in before)


# --- parameters -----------------------------------------------------------------------------------


class NotConcave(Probit):
    name = "odd"
    log_concave = False


HYPERPARAMETERS = r"\['k1__constant_value', 'k2__length_scale'\]"

BAD_PARAMETERS = [
    ({"kernel": "rbf"}, "kernel must be a scalar-valued covariance.*got 'rbf'"),
    ({"kernel": RBF}, "kernel must be a scalar-valued covariance"),
    ({"kernel": CompoundKernel([RBF(), RBF()])}, "kernel must be a scalar-valued covariance"),
    (
        {"kernel": ConstantKernel() * RBF([1.0, 1.0, 1.0])},
        "'k2__length_scale' has 3 elements but X has 2 features: give it one element, or one per",
    ),
    ({"kernel": ConstantKernel(0.0) * RBF()}, "start value that is not positive and finite"),
    ({"kernel": ConstantKernel(-1.0) * RBF()}, "start value that is not positive and finite"),
    ({"kernel": DotProduct(0.0)}, "start value that is not positive.*'sigma_0'"),
    ({"kernel": RBF(), "ard": True}, "ard=True only concerns the default kernel.*ard=False"),
    ({"ard": "yes"}, "ard must be True or False; got 'yes'"),
    ({"ard": 1}, "ard must be True or False; got 1"),
    ({"priors": stats.gamma(2.0)}, "priors must be a mapping from hyper-parameter name"),
    ({"priors": "gamma"}, "priors must be a mapping.*got 'gamma'"),
    (
        {"priors": {"length_scale": stats.gamma(2.0)}},
        f"'length_scale', which is not a sampled hyper-parameter of the kernel; it has "
        f"{HYPERPARAMETERS}",
    ),
    (
        {"priors": {"k2__length_scale[0]": stats.gamma(2.0)}, "ard": True},
        rf"'k2__length_scale\[0\]', which is not.*it has {HYPERPARAMETERS}",
    ),
    (
        {
            "priors": {"k2__length_scale": stats.gamma(2.0)},
            "kernel": ConstantKernel() * RBF(1.0, "fixed"),
        },
        r"'k2__length_scale', which is not a sampled.*it has \['k1__constant_value'\]",
    ),
    (
        {"priors": {"k2__length_scale": stats.norm(1.0, 1.0)}},
        r"'k2__length_scale'\] has support \(-inf, inf\).*use a distribution on \(0, inf\)",
    ),
    (
        {"priors": {"k1__constant_value": stats.uniform(-1.0, 3.0)}},
        r"'k1__constant_value'\] has support \(-1.0, 2.0\).*positive",
    ),
    (
        {"priors": {"k2__length_scale": stats.uniform(2.0, 3.0)}},
        r"'k2__length_scale'\] has support \(2.0, 5.0\), which excludes the kernel's start value "
        "1: widen the prior or start the kernel inside it",
    ),
    (
        {"priors": {"k2__length_scale": 3.0}},
        r"'k2__length_scale'\] must be a frozen continuous scipy.stats distribution.*got 3.0",
    ),
    ({"priors": {"k2__length_scale": None}}, "must be a frozen continuous scipy.stats"),
    ({"priors": {"k2__length_scale": stats.gamma}}, "must be a frozen continuous scipy.stats"),
    ({"priors": {"k2__length_scale": stats.poisson(3.0)}}, "must be a frozen continuous scipy"),
    ({"likelihood": "cauchit"}, r"likelihood must be one of \['logit', 'probit'\].*'cauchit'"),
    ({"likelihood": None}, "likelihood must be one of.*got None"),
    ({"likelihood": Probit}, "likelihood must be one of.*or a Likelihood object"),
    ({"likelihood": NotConcave()}, "likelihood 'odd' is not log-concave, and integrals"),
    ({"kernel": ConstantKernel(0.0, "fixed") * RBF()}, "no variance at any training row"),
    ({"sampler": PseudoMarginal(defensive="a")}, "defensive must be a number in.*got 'a'"),
    ({"approximation": EP(tol="a")}, "tol must be a number in.*got 'a'"),
    ({"sampler": "nuts"}, r"sampler must be one of \[.*'marginal', .*'pm'.*\].*got 'nuts'"),
    ({"sampler": PseudoMarginal}, "sampler must be one of.*or a Sampler object"),
    ({"sampler": ["pm"]}, "sampler must be one of"),
    (
        {"sampler": PseudoMarginal(target_acceptance=1.0)},
        r"target_acceptance must be a number in \(0, 1\); got 1.0",
    ),
    (
        {"sampler": Marginal(target_acceptance=0.0)},
        r"target_acceptance must be a number in \(0, 1\); got 0.0",
    ),
    (
        {"sampler": Marginal(target_acceptance=np.nan)},
        r"target_acceptance must be a number in \(0, 1\); got nan",
    ),
    (
        {"sampler": PseudoMarginal(defensive=1.0)},
        r"defensive must be a number in \[0, 1\); got 1.0",
    ),
    (
        {"sampler": PseudoMarginal(defensive=-0.1)},
        r"defensive must be a number in \[0, 1\); got -0.1",
    ),
    (
        {"sampler": Sufficient(nugget=0.0)},
        r"sampler: nugget must be a number in \[1e-10, 1\]; got 0.0",
    ),
    (
        {"approximation": "variational"},
        r"approximation must be one of \['auto', 'ep', 'laplace'\].*got 'variational'",
    ),
    ({"approximation": EP}, "approximation must be one of.*or a Approximation object"),
    ({"approximation": EP(tol=0.0)}, r"tol must be a number in \(0, inf\); got 0.0"),
    ({"approximation": EP(tol=np.nan)}, r"tol must be a number in \(0, inf\); got nan"),
    ({"approximation": Laplace(tol=-1.0)}, r"tol must be a number in \(0, inf\); got -1.0"),
    ({"approximation": EP(max_sweeps=0)}, "max_sweeps must be an integer >= 1; got 0"),
    ({"approximation": EP(damping=0.0)}, r"damping must be a number in \(0, 1\]; got 0.0"),
    ({"multi_class": "one_vs_one"}, r"multi_class must be one of \[.*\]; got 'one_vs_one'"),
    ({"n_importance": 0}, 'n_importance must be an integer >= 1; got 0. Use "auto" for as'),
    ({"n_importance": "many"}, "n_importance must be an integer >= 1; got 'many'"),
    ({"n_importance": 8.0}, "n_importance must be an integer >= 1; got 8.0"),
    ({"n_chains": 0}, "n_chains must be an integer >= 1; got 0"),
    ({"n_chains": 2.0}, "n_chains must be an integer >= 1; got 2.0"),
    ({"n_chains": True}, "n_chains must be an integer >= 1; got True"),
    ({"n_chains": None}, "n_chains must be an integer >= 1; got None"),
    ({"n_warmup": -1}, "n_warmup must be an integer >= 0; got -1"),
    ({"n_warmup": "500"}, "n_warmup must be an integer >= 0; got '500'. Use \"auto\" for the"),
    ({"n_draws": 0}, "n_draws must be an integer >= 1; got 0"),
    ({"n_draws": 1e3}, "n_draws must be an integer >= 1; got 1000.0"),
    ({"max_predict_draws": 0}, "max_predict_draws must be an integer >= 1; got 0. Use None for"),
    ({"max_predict_draws": 0}, "max_predict_draws must be an integer >= 1; got 0. Use None for"),
    ({"max_predict_draws": "all"}, "max_predict_draws must be an integer >= 1; got 'all'"),
    ({"predict_cache_bytes": -1}, "predict_cache_bytes must be an integer >= 0; got -1"),
    ({"predict_cache_bytes": 1e9}, "predict_cache_bytes must be an integer >= 0; got 1000000000.0"),
    ({"predict_cache_bytes": None}, "predict_cache_bytes must be an integer >= 0; got None"),
    ({"target_ess": 0.0}, r"target_ess must be a number in \(0, inf\); got 0.0. Use None for"),
    ({"target_ess": -400}, r"target_ess must be a number in \(0, inf\); got -400"),
    ({"target_ess": np.nan}, r"target_ess must be a number in \(0, inf\); got nan"),
    ({"target_ess": np.inf}, r"target_ess must be a number in \(0, inf\); got inf"),
    ({"target_ess": "400"}, r"target_ess must be a number in \(0, inf\); got '400'"),
    ({"target_ess": True}, r"target_ess must be a number in \(0, inf\); got True"),
    ({"warm_start": "yes"}, "warm_start must be True or False; got 'yes'"),
    ({"warm_start": 1}, "warm_start must be True or False; got 1"),
    (
        {"sampler": PseudoMarginal(moves="hmc")},
        r"sampler: moves must be one of \['emulated', 'trajectories', 'random_walk'\]; got 'hmc'",
    ),
    ({"sampler": PseudoMarginal(noise=0.0)}, r"noise must be a number in \(0, inf\); got 0.0"),
    ({"sampler": PseudoMarginal(noise=None)}, r"noise must be a number in \(0, inf\); got None"),
    ({"max_rhat": 1.0}, r"max_rhat must be a number in \(1, inf\); got 1.0"),
    ({"max_rhat": "1.01"}, r"max_rhat must be a number in \(1, inf\); got '1.01'"),
    ({"max_rhat": np.nan}, r"max_rhat must be a number in \(1, inf\); got nan"),
    ({"max_rhat": None}, r"max_rhat must be a number in \(1, inf\); got None"),
    ({"random_state": "seed"}, "random_state must be None, an integer .*'seed'"),
    ({"n_jobs": 0}, "n_jobs must be None or an integer other than 0; got 0"),
]


def names_of(cases):
    return [f"{i}-{'-'.join(parameters)}" for i, (parameters, _) in enumerate(cases)]


@in_one_test("parameters, message", BAD_PARAMETERS, ids=names_of(BAD_PARAMETERS))
def test_bad_parameters(parameters, message, fitted_on_frame):
    estimator = copy.copy(fitted_on_frame)
    before = dict(vars(estimator))
    estimator.set_params(**parameters)
    X, y = moons(40)  # an array of another length, without names
    with pytest.raises(ValueError, match=message):
        estimator.fit(X[:, ::-1], 1 - y)
    assert_untouched(estimator, before)


def test_bad_parameters_are_found_in_fit_and_not_before():
    parameters = {"n_chains": -1, "sampler": "nuts", "kernel": "rbf"}
    estimator = BayesianGPClassifier(**parameters)
    assert estimator.get_params()["n_chains"] == -1
    clone(estimator).set_params(n_draws="x")


# --- data in fit ----------------------------------------------------------------------------------


def with_value(value):
    X, y = moons()
    X[3, 1] = value
    return X, y


def bad_data():
    X, y = moons()
    return {
        "nan": (*with_value(np.nan), "Input X contains NaN"),
        "inf": (*with_value(np.inf), "Input X contains infinity"),
        "one_dimension": (X[:, 0], y, "Expected 2D array, got 1D array"),
        "three_dimensions": (X[:, :, None], y, "Found array with dim 3"),
        "text": ([["a", "b"]] * 30, y, "could not convert string to float|dtype"),
        "no_columns": (X[:, :0], y, r"0 feature\(s\)"),
        "no_rows": (X[:0], y[:0], r"0 sample\(s\)"),
        "lengths": (X, y[:-1], r"inconsistent numbers of samples: \[30, 29\]"),
        "one_class": (X, ["spam"] * 30, "y has only one class, 'spam': .* needs at least two"),
        "continuous": (X, y + 0.5 * X[:, 0], "Unknown label type: continuous"),
        "nan_in_y": (X, np.where(y == 1, np.nan, 0.0), "Input y contains NaN"),
        "two_columns_in_y": (X, np.stack([y, 1 - y], axis=1), "y should be a 1d array"),
        "no_y": (X, None, "requires y to be passed, but the target y is None"),
    }


@in_one_test("case", bad_data())
def test_bad_data(case, fitted_on_frame):
    X, y, message = bad_data()[case]
    estimator = copy.copy(fitted_on_frame)
    before = dict(vars(estimator))
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, y)
    assert_untouched(estimator, before)
    assert estimator.n_features_in_ == 2
    assert_array_equal(estimator.feature_names_in_, ["east", "north"])
    frame_X, _ = frame()
    assert estimator.predict_proba(frame_X).shape == (30, 2)


def test_data_with_other_features_that_fails_leaves_the_features_alone(fitted_on_frame):
    estimator = copy.copy(fitted_on_frame)
    before = dict(vars(estimator))
    other = pd.DataFrame(np.ones((4, 3)), columns=["a", "b", "c"])
    with pytest.raises(ValueError, match="only one class"):
        estimator.fit(other, [1, 1, 1, 1])
    assert_untouched(estimator, before)


def no_state(*arguments):
    return None


def no_factor(*arguments):
    raise NotPositiveDefiniteError("on purpose")


def no_prior_mass(self, theta):
    return -np.inf


@pytest.mark.parametrize(
    ("moves", "owner", "name", "failing"),
    [
        ("random_walk", MarginalMetropolis, "start", no_state),
        ("random_walk", EP, "fit", no_factor),
        ("emulated", EP, "fit", no_factor),
        ("emulated", HyperPrior, "log_prob", no_prior_mass),
    ],
)
def test_a_failure_in_a_chain_names_theta_and_leaves_an_earlier_fit(
    moves, owner, name, failing, fitted_on_frame, monkeypatch
):
    estimator = copy.copy(fitted_on_frame)
    estimator.set_params(sampler=PseudoMarginal(moves=moves), approximation="ep")
    before = dict(vars(estimator))
    monkeypatch.setattr(owner, name, failing)
    with pytest.raises(RuntimeError, match=r"No chain can start.*\{.*'k2__length_scale': .*\}"):
        estimator.fit(*moons())
    assert_untouched(estimator, before)


# --- data in prediction ---------------------------------------------------------------------------

METHODS = [
    "predict",
    "predict_proba",
    "predict_log_proba",
    "latent_mean_and_variance",
    "sample_latent",
    "sample_y",
]


@pytest.fixture(scope="module")
@short_chains()
def fitted():
    X, y = moons()
    return quickest().fit(X, np.array(["ham", "spam"])[y])


@in_one_test("method", METHODS)
def test_prediction_from_bad_data(method, fitted):
    X, _ = moons()
    predict = getattr(fitted, method)
    with pytest.raises(
        ValueError, match="X has 1 features, but BayesianGPClassifier is expecting 2"
    ):
        predict(X[:, :1])
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        predict(X[0])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        predict(with_value(np.nan)[0])
    with pytest.raises(ValueError, match="Input X contains infinity"):
        predict(with_value(-np.inf)[0])


@in_one_test("method", METHODS)
def test_prediction_before_fit(method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(quickest(), method)(moons()[0])


def test_labels_outside_the_fitted_classes(fitted):
    X, y = moons()
    y = np.array(["ham", "eggs"])[y]
    message = r"y has labels \['eggs'\] that were not seen in fit; classes_ is \['ham', 'spam'\]"
    with pytest.raises(ValueError, match=message):
        fitted.log_predictive_density(X, y)
    with pytest.raises(ValueError, match=r"labels \[0, 1\] that were not seen"):
        fitted.log_predictive_density(X, moons()[1])


def test_labels_of_another_length(fitted):
    with pytest.raises(ValueError, match="X has 30 rows but y has 29 labels"):
        fitted.log_predictive_density(moons()[0], ["ham"] * 29)


@in_one_test("n_draws", [0, -1, 1.5, "3", None])
def test_bad_number_of_latent_draws(n_draws, fitted):
    with pytest.raises(ValueError, match="n_draws must be an integer >= 1; got"):
        fitted.sample_latent(moons()[0], n_draws)


# --- input that is odd but legal ------------------------------------------------------------------

WALK = PseudoMarginal(moves="random_walk")


@pytest.mark.parametrize(
    ("sampler", "kernel"),
    [
        ("pm", None),
        ("marginal", DotProduct()),
        (WALK, DotProduct()),
        (WALK, ConstantKernel() * Matern(nu=0.5)),
    ],
)
@short_chains()
def test_singular_covariances(sampler, kernel):
    X, y = moons(10)
    X = np.column_stack([np.tile(X, (3, 1)), np.full(30, 3.3), np.zeros(30)])
    X[-10:, :2] = 0.0  # rows of zeros: DotProduct has no variance there beside sigma_0
    model = quick(sampler=sampler, kernel=kernel, n_draws=5).fit(X, np.tile(y, 3))
    proba = model.predict_proba(X)
    assert np.isfinite(proba).all()
    assert np.isfinite(model.latent_samples_).all()
    # Equal rows have equal values.
    scale = np.abs(model.latent_samples_).max()
    gap = np.abs(model.latent_samples_[:, :, :10] - model.latent_samples_[:, :, 10:20]).max()
    assert gap < 1e-8 * scale
    assert_array_equal(proba[:10], proba[10:20])


@short_chains()
def test_rows_that_are_all_the_same():
    X, y = np.full((12, 2), 0.1), np.arange(12) % 3 > 0
    proba = quick().fit(X, y).predict_proba(X)
    assert 0.4 < proba[0, 1] < 0.9
    assert_array_equal(proba, np.tile(proba[:1], (12, 1)))


@pytest.mark.parametrize(
    ("sampler", "schedule"),
    [
        ("pm", (1, 0, 1)),
        ("pm", (1, 1, 2)),
        ("marginal", (1, 0, 1)),
        ("marginal", (2, 0, 1)),
        (WALK, (1, 0, 1)),
        (WALK, (3, 3, 3)),
    ],
)
def test_smallest_schedules(sampler, schedule):
    n_chains, n_warmup, n_draws = schedule
    X, y = moons(12)
    model = quick(sampler=sampler, n_chains=n_chains, n_warmup=n_warmup, n_draws=n_draws)
    with pytest.warns(ConvergenceWarning, match="R-hat inf"):
        model.fit(X, y)
    assert model.theta_samples_.shape == (n_chains, n_draws, 2)
    assert model.n_iter_ == n_warmup + n_draws
    assert np.isfinite(model.predict_proba(X)).all()
    assert "k2__length_scale" in str(model.diagnostics_)


@short_chains()
def test_one_importance_draw_and_two_rows():
    model = quick(n_importance=1).fit([[0.0], [1.0]], ["a", "b"])
    assert_array_equal(model.predict([[0.0], [1.0]]), ["a", "b"])


@short_chains()
def test_integers_lists_and_single_precision():
    X = np.arange(-10, 10).reshape(-1, 1)
    y = (X[:, 0] > 0).astype(int)
    expected = quickest().fit(X.astype(float), y).predict_proba(X)
    for same in (X, X.tolist(), X.astype(np.float32), X.astype(object)):
        assert_array_equal(quickest().fit(same, y).predict_proba(same), expected)
    assert_array_equal(quickest().fit(X, y.tolist()).predict_proba(X), expected)


# --- constructor parameters are never changed -----------------------------------------------------


@short_chains()
def test_fit_changes_no_parameter():
    X, y = moons()
    given = {
        "kernel": ConstantKernel(2.0, "fixed") * RBF([0.5, 2.0]),
        "priors": {"k2__length_scale": stats.gamma(2.0)},
        "likelihood": Probit(),
        "sampler": PseudoMarginal(defensive=0.1, moves="random_walk"),
        "approximation": EP(tol=1e-3),
        "random_state": 3,
    }
    model = quick(**given, n_draws=3)
    before, texts = model.get_params(), {k: repr(v) for k, v in model.get_params().items()}
    model.fit(X, y).predict_proba(X)
    after = model.get_params()
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in given)
    assert {name: repr(value) for name, value in after.items()} == texts
    assert model.kernel_ is not model.kernel
    assert list(given["priors"]) == ["k2__length_scale"]
    assert model.priors_ is not model.priors


@short_chains()
def test_changing_the_given_data_later_does_not_change_predictions():
    X, y = moons()
    model = quickest().fit(X, y)
    grid = X.copy()
    expected = model.predict_proba(grid)
    X += 100.0
    y[:] = 0
    assert_array_equal(model.predict_proba(grid), expected)


# --- the warning about scales ---------------------------------------------------------------------


def scaled(*scales):
    X = np.random.default_rng(0).standard_normal((40, len(scales)))
    y = (X[:, 0] > 0.0).astype(int)
    return X / X.std(axis=0) * np.array(scales), y


def scale_warnings(model, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [w for w in caught if w.category is UserWarning]


@pytest.mark.parametrize("ard", [False, True])
@short_chains()
def test_scales_that_the_default_priors_do_not_expect(ard):
    X, y = scaled(1.0, 31.0, 1e-3, 29.0)
    (warning,) = scale_warnings(quickest(ard=ard), X, y)
    message = str(warning.message)
    assert "columns [1, 2] " in message
    assert "make_pipeline(StandardScaler(), BayesianGPClassifier(...))" in message
    assert "[1/30, 30]" in message


@short_chains()
def test_scales_of_named_columns():
    X, y = scaled(1.0, 1e4)
    X = pd.DataFrame(X, columns=["age", "income"])
    (warning,) = scale_warnings(quickest(), X, y)
    assert "columns ['income'] " in str(warning.message)


@short_chains()
def test_a_scale_that_features_share_suits_the_default_priors():
    X, y = scaled(1e3, 2e4)
    assert not scale_warnings(quickest(), X, y)
    (warning,) = scale_warnings(quickest(priors="paper"), X, y)
    assert "columns [0, 1] " in str(warning.message)


@short_chains()
def test_scales_warning_points_at_the_call():
    X, y = scaled(1.0, 1e3)
    with pytest.warns(UserWarning, match="StandardScaler") as caught:
        quickest().fit(X, y)
    assert caught[0].filename == __file__


@short_chains()
def test_scales_warning_of_one_vs_rest_comes_once():
    X, y = scaled(1.0, 1e3)
    y[:10] = 2
    assert len(scale_warnings(quickest(), X, y)) == 1


@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel": ConstantKernel() * RBF()},
        {"priors": {"k2__length_scale": stats.gamma(1.0, scale=100.0)}},
    ],
)
@short_chains()
def test_an_explicit_kernel_or_prior_may_have_any_scale(parameters):
    X, y = scaled(1.0, 100.0)
    assert scale_warnings(quickest(**parameters), X, y) == []


@short_chains()
def test_no_prior_is_not_an_explicit_prior():
    X, y = scaled(1.0, 100.0)
    assert len(scale_warnings(quickest(priors={}), X, y)) == 1


@short_chains()
def test_usual_scales_and_constant_columns_are_fine():
    X, y = scaled(1.0, 29.0, 1.0 / 29.0)
    # The standard deviation of many a constant column is not zero but rounding error.
    constants = np.tile([0.0, 0.1, 1e5 + 0.1, -7.0, 1e-9], (40, 1))
    assert constants.std(axis=0).max() > 0.0
    assert scale_warnings(quickest(), np.hstack([X, constants]), y) == []


@short_chains()
def test_a_scaler_in_front_helps():
    X, y = scaled(1.0, 1e4)
    assert scale_warnings(make_pipeline(StandardScaler(), quickest()), X, y) == []


# --- the warning about convergence ----------------------------------------------------------------


def test_convergence_warning_names_the_hyper_parameter_and_the_remedy():
    X, y = moons()
    with pytest.warns(ConvergenceWarning) as caught:
        model = quickest(n_warmup=20, n_draws=20).fit(X, y)
    (warning,) = caught
    assert warning.filename == __file__
    message = str(warning.message)
    worst = np.argmax(model.diagnostics_.r_hat)
    row = model.hyperparameter_names_[worst]
    assert (
        f"R-hat {model.diagnostics_.r_hat[worst]:.3f} (wanted: at most 1.01) of {row!r}" in message
    )
    assert "k1__constant_value" in message
    assert "use sampler='pm'" in message
    assert "diagnostics_" in message


@pytest.mark.statistical
def test_convergence_warning_of_one_vs_rest_names_the_class():
    X, y = scaled(1.0, 1.0)
    y[:10] = 2
    with pytest.warns(ConvergenceWarning, match=r"k2__length_scale \(class 2\)") as caught:
        quick().fit(X, np.array(y))
    assert len(caught) == 1


def test_convergence_warning_mentions_n_importance_where_the_estimate_is_noisy():
    X, y = make_moons(100, noise=0.3, random_state=0)
    kernel = ConstantKernel(1e4, "fixed") * RBF([0.02, 0.02])
    priors = {"k2__length_scale": stats.uniform(0.01, 0.02)}
    # Around Laplace's own Gaussian, not around one that the set-up has chosen with care.
    sampler = PseudoMarginal(moves="random_walk")
    model = quick(
        kernel=kernel, priors=priors, sampler=sampler, n_importance=1, approximation="laplace"
    )
    with pytest.warns(ConvergenceWarning, match="n_importance: the log-likelihood noise is"):
        model.fit(X, y)
    assert model.diagnostics_.log_likelihood_sd > 2.0


@short_chains()
def test_chains_that_converge_are_silent():
    X, y = moons()
    priors = {"k1__constant_value": stats.lognorm(0.3), "k2__length_scale": stats.lognorm(0.3)}
    model = quick(priors=priors, n_draws=300, max_rhat=1.05, n_importance="auto")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
    assert model.diagnostics_.converged(1.05)
