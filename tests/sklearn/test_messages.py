"""Errors that name argument, value and remedy, before anything is sampled; an earlier fit stays."""

import copy
import dataclasses
import inspect
import warnings
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Hyperparameter,
    Kernel,
    Matern,
    NormalizedKernelMixin,
    PairwiseKernel,
    Product,
    RationalQuadratic,
    StationaryKernelMixin,
    Sum,
    WhiteKernel,
)

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPOrdinalClassifier,
    BayesianGPPoissonRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.baselines import EPMLClassifier, svm_platt_classifier
from skgpmcmc.chain.segment import no_density_message
from skgpmcmc.estimators import _base
from skgpmcmc.estimators._data import LogProbabilityClassifierMixin
from skgpmcmc.likelihoods import Probit
from skgpmcmc.model import default_hyperprior
from skgpmcmc.run import set_ups
from skgpmcmc.samplers import Ancillary, Interweaving, Marginal, PseudoMarginal, Sufficient

from ..helpers import in_one_test, make_model

N = 30
X, Y = make_moons(N, noise=0.15, random_state=0)
QUICK = {"sampler": "asis", "n_chains": 2, "n_warmup": 5, "n_draws": 5, "random_state": 0}
ESTIMATORS = {
    cls.__name__: cls
    for cls in (
        BayesianGPClassifier,
        BayesianGPOrdinalClassifier,
        BayesianGPPoissonRegressor,
        BayesianGPRegressor,
        BayesianGPVolatilityRegressor,
    )
}


def fit_quietly(model, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a few draws are enough here
        return model.fit(*args, **kwargs)


@pytest.fixture(scope="module")
def fits():
    """One fit of each estimator."""
    return {
        name: fit_quietly(cls(**QUICK), X, targets_of(name)) for name, cls in ESTIMATORS.items()
    }


def targets_of(name):
    """What an estimator can take; a mean is remarked by the model of volatility."""
    return Y - 0.5 if name == "BayesianGPVolatilityRegressor" else Y


@pytest.fixture
def refused(fits, monkeypatch):
    """Assert that a fit is refused before any sampling, and leaves an earlier one as it was."""

    def no_sampling(*args, **kwargs):
        raise AssertionError("sampling began")

    monkeypatch.setattr(_base, "sample_chains", no_sampling)

    def check(message, name="BayesianGPClassifier", data=(X, Y), fit=None, **parameters):
        model = copy.copy(fits[name]).set_params(**parameters)
        before = dict(vars(model))
        with pytest.raises(ValueError, match=message):
            model.fit(*data, **(fit or {}))
        assert list(vars(model)) == list(before)
        assert all(vars(model)[key] is value for key, value in before.items())

    return check


# --- kernels --------------------------------------------------------------------------------------


class OwnKernel(StationaryKernelMixin, NormalizedKernelMixin, Kernel):
    """An RBF kernel that somebody wrote, without a gradient."""

    def __init__(self, length_scale=1.0, length_scale_bounds=(1e-5, 1e5)):
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds

    @property
    def hyperparameter_length_scale(self):
        return Hyperparameter("length_scale", "numeric", self.length_scale_bounds)

    def __repr__(self):
        return f"{type(self).__name__}()"

    def __call__(self, X, Y=None, eval_gradient=False):
        if eval_gradient:
            raise NotImplementedError
        return self.changed(RBF(self.length_scale)(X, Y))

    def changed(self, K):
        return K


class TooShort(OwnKernel):
    def changed(self, K):
        return K[:-1]


class NotANumber(OwnKernel):
    def changed(self, K):
        return np.nan * K


class Indefinite(OwnKernel):
    def changed(self, K):
        return -K


class Failing(OwnKernel):
    def changed(self, K):
        raise RuntimeError("on purpose")


class TwoDerivatives(OwnKernel):
    def __call__(self, X, Y=None, eval_gradient=False):
        if not eval_gradient:
            return super().__call__(X, Y)
        K, slope = RBF(self.length_scale)(X, eval_gradient=True)
        return K, np.concatenate([slope, slope], axis=2)


class WithoutPrefix(OwnKernel):
    """A compound whose hyper-parameters have the names that they have in its part."""

    def __init__(self, part):
        self.part = part

    @property
    def hyperparameters(self):
        return self.part.hyperparameters


ONES = np.ones(2)
BAD_KERNELS = [
    (Matern(nu=0), "'nu' must be positive; got 0"),
    (Matern(nu=-1), "'nu' must be positive; got -1"),
    (ConstantKernel() * Matern(nu=np.nan), "'k2__nu' must be positive; got nan"),
    (Matern(nu="a"), "'nu' must be a number; got 'a'"),
    (Matern(nu=1000), r"Matern\(.*\) is not finite in row 0 of X"),
    (RBF(np.ones((2, 1))), r"'length_scale' must be one number per feature; .*shape \(2, 1\)"),
    (RBF(np.ones((1, 2))), r"'length_scale' must be one number; .*shape \(1, 2\)"),
    (RBF("a"), "'length_scale' must be a number; got 'a'"),
    (RBF(None), "'length_scale' must be a number; got None"),
    (RBF([]), r"'length_scale' must be a number; got \[\]"),
    (RBF([1.0, "a"]), "'length_scale' must be a number"),
    (RBF(np.nan), "start value that is not positive and finite.*'length_scale' is nan"),
    (RBF([1.0, np.inf]), "start value that is not positive and finite.*'length_scale'"),
    (RBF(np.nan, "fixed"), "'length_scale' is fixed at nan"),
    (RBF(-1.0, "fixed"), "'length_scale' is fixed at -1.0"),
    (ConstantKernel() * RBF(0.0, "fixed"), "not finite in row 0 of X"),
    (RationalQuadratic(ONES), "'length_scale' must be one number; got "),
    (RationalQuadratic(1.0, ONES), "'alpha' must be one number"),
    (RationalQuadratic(ONES, length_scale_bounds="fixed"), "'length_scale' must be one number"),
    (ExpSineSquared(ONES), "'length_scale' must be one number"),
    (ExpSineSquared(1.0, -1.0), "not positive and finite.*'periodicity' is -1.0"),
    (
        ExpSineSquared(1.0, 0.0, periodicity_bounds="fixed"),
        "ExpSineSquared.* cannot be evaluated at the training rows|is not finite in row 0",
    ),
    (ConstantKernel("a"), "'constant_value' must be a number; got 'a'"),
    (ConstantKernel(ONES) * RBF(), "'k1__constant_value' must be one number"),
    (ConstantKernel(-1.0, "fixed") * RBF(), "'k1__constant_value' is fixed at -1.0"),
    (RBF() + WhiteKernel(-1.0, "fixed"), "'k2__noise_level' is fixed at -1.0"),
    (DotProduct(ONES), "'sigma_0' must be one number"),
    (PairwiseKernel(metric="foo"), "metric=foo.* cannot be evaluated at the training rows"),
    (PairwiseKernel(gamma="a"), "'gamma' must be a number; got 'a'"),
    (PairwiseKernel(metric="chi2"), "metric=chi2.*cannot be evaluated.*X contains negative values"),
    (Exponentiation(RBF(), "a"), "'exponent' must be a number; got 'a'"),
    (Exponentiation(RBF(), -1), "'exponent' must be positive; got -1"),
    (Sum(RBF(), None), "kernel must be a scalar-valued covariance"),
    (Product(CompoundKernel([RBF()]), RBF()), "kernel must be a scalar-valued covariance"),
    (Exponentiation(None, 2), "kernel must be a scalar-valued covariance"),
    (
        WithoutPrefix(ConstantKernel()),
        r"'constant_value', which is not among the names of its get_params, \['part'",
    ),
    (CompoundKernel(0), "scalar-valued covariance.*got a CompoundKernel with invalid arguments"),
    (CompoundKernel([RBF("a")]), "scalar-valued covariance.*got a CompoundKernel with invalid"),
    (Sum(CompoundKernel(0), RBF()), "scalar-valued covariance.*got a Sum with invalid arguments"),
    (TooShort(), r"TooShort\(\) gives arrays of shapes"),
    (NotANumber(), r"NotANumber\(\) is not finite in row 0 of X"),
    (Indefinite(), r"Indefinite\(\) is no covariance.*positive semidefinite"),
    (Failing(), r"Failing\(\) cannot be evaluated.*RuntimeError: on purpose"),
]


@in_one_test("kernel, message", BAD_KERNELS)
def test_a_kernel_that_cannot_serve(kernel, message, refused):
    refused(message, kernel=kernel)


def test_a_row_far_down_that_the_kernel_does_not_take(refused):
    rows = np.vstack([np.abs(X), np.abs(X), [[-1.0, 1.0]]])
    message = "cannot be evaluated at the training rows.*negative"
    refused(message, data=(rows, np.append(np.tile(Y, 2), 0)), kernel=PairwiseKernel(metric="chi2"))


@in_one_test(
    "kernel",
    [
        ConstantKernel(0.0, "fixed") + RBF(),
        DotProduct(0.0, "fixed"),
        Matern([1.0, 2.0], nu=0.7),
        Matern(nu=np.inf),
        RBF([1.0]),
        RBF(1e-300),
    ],
)
def test_unusual_kernels_that_can_serve(kernel):
    fit_quietly(BayesianGPClassifier(**QUICK, kernel=kernel), X, Y)


FOLLOW_A_GRADIENT = ["pm", "marginal", Ancillary(hyper="hmc"), Interweaving(hyper="smmala")]
WALKS = [PseudoMarginal(moves="random_walk"), Marginal(moves="random_walk")]
FOLLOW_NONE = [*WALKS, "asis", Ancillary(hyper="slice")]


@in_one_test(
    "kernel, sampler",
    product([OwnKernel(), ConstantKernel() * OwnKernel(), TwoDerivatives()], FOLLOW_A_GRADIENT),
)
def test_a_kernel_without_a_gradient_where_the_sampler_follows_it(kernel, sampler, refused):
    message = r"has no gradient in its hyper-parameters.*eval_gradient=True.*moves='random_walk'"
    refused(message, kernel=kernel, sampler=sampler, priors="paper")


def test_a_kernel_without_a_gradient_in_regression_and_in_the_baseline(refused):
    own = {"kernel": OwnKernel(), "priors": "paper"}
    refused("no gradient", name="BayesianGPRegressor", sampler="collapsed", **own)
    with pytest.raises(ValueError, match=r"no gradient.*or fix its hyper-parameters"):
        EPMLClassifier(kernel=OwnKernel()).fit(X, Y)


@in_one_test("sampler", FOLLOW_NONE)
def test_a_kernel_without_a_gradient_is_enough_for_the_others(sampler):
    own = {"kernel": OwnKernel(), "priors": {"length_scale": stats.lognorm(1.0)}}
    model = BayesianGPClassifier(**{**QUICK, "sampler": sampler}, **own)
    fit_quietly(model, X[:10], Y[:10])
    assert np.isfinite(model.predict_proba(X)).all()


def test_nobody_is_advised_to_use_a_sampler_that_the_kernel_does_not_allow():
    own = {"kernel": OwnKernel(), "priors": {"length_scale": stats.lognorm(1.0)}}
    with pytest.warns(ConvergenceWarning, match="do better, increase n_draws") as caught:
        BayesianGPClassifier(**QUICK, **own).fit(X[:10], Y[:10])
    assert "sampler=" not in str(caught[0].message)
    with pytest.warns(ConvergenceWarning, match="use sampler='auto', which needs far fewer"):
        BayesianGPRegressor(**QUICK).fit(X[:10], Y[:10])


def test_a_fixed_kernel_without_a_gradient_is_enough_for_all():
    kernel = OwnKernel(1.0, "fixed")
    model = BayesianGPClassifier(n_draws=5, n_warmup=0, n_importance=4, kernel=kernel)
    assert fit_quietly(model, X, Y).theta_samples_.shape[2] == 0


# --- numbers that go with the rows ----------------------------------------------------------------

NOT_NUMBERS = {
    "text": (["a"] * N, "must consist of real numbers; got 'a' in row 0"),
    "digits": (["1"] * N, "must consist of real numbers; got '1' in row 0"),
    "None": ([1.0] * 29 + [None], "must consist of real numbers; got None in row 29"),
    "NA": (pd.Series([1] * 29 + [pd.NA], dtype=object), "must consist of .*; got <NA> in row 29"),
    "Int64": (pd.Series([1] * 29 + [pd.NA], dtype="Int64"), "got (nan|<NA>) in row 29"),
    "NaN": ([1.0] * 29 + [np.nan], "must be finite and .*; got nan in row 29"),
    "complex": (np.ones(N) * 1j, "must consist of real numbers"),
    "dates": (np.array(["2020-01-01"] * N, dtype="datetime64[D]"), "must consist of real numbers"),
    "ragged": ([[1.0], [1.0, 2.0]], "must be an array of numbers; got rows of different lengths"),
    "mapping": ({}, r"must consist of real numbers; got \{\}"),
    "one word": ("balanced", "must consist of real numbers; got 'balanced'"),
}
ROW_ARGUMENTS = [
    *((name, "sample_weight") for name in ESTIMATORS),
    ("BayesianGPPoissonRegressor", "exposure"),
    ("BayesianGPRegressor", "noise_variance"),
]


@in_one_test("name, argument", ROW_ARGUMENTS)
def test_what_goes_with_the_rows_must_be_numbers(name, argument, refused):
    for given, message in NOT_NUMBERS.values():
        refused(f"{argument} .*{message}", name=name, fit={argument: given})


@in_one_test(
    "name", ["BayesianGPRegressor", "BayesianGPPoissonRegressor", "BayesianGPVolatilityRegressor"]
)
def test_targets_must_be_numbers(name, refused):
    for given, message in (NOT_NUMBERS[case] for case in ("text", "NA", "None")):
        refused(f"y {message}", name=name, data=(X, given))


def test_numbers_given_to_predictions(fits):
    regressor, poisson = fits["BayesianGPRegressor"], fits["BayesianGPPoissonRegressor"]
    with pytest.raises(ValueError, match="y must consist of real numbers; got 'a' in row 0"):
        regressor.log_predictive_density(X, ["a"] * N)
    with pytest.raises(ValueError, match=r"y must be finite; got nan in row 1"):
        regressor.log_predictive_density(X[:2], [0.0, np.nan])
    with pytest.raises(ValueError, match="return_quantiles must consist of real numbers; got 'a'"):
        regressor.predict(X, return_quantiles=["a"])
    with pytest.raises(ValueError, match="counts must consist of real numbers; got 'a' in row 0"):
        poisson.predict_count_proba(X, ["a"])
    with pytest.raises(ValueError, match=r"counts must consist of counts.*got nan in row 0"):
        poisson.predict_count_proba(X, [np.nan])
    with pytest.raises(ValueError, match="sample_weight must consist of real numbers; got 'a'"):
        fits["BayesianGPVolatilityRegressor"].score(X, Y + 1.0, sample_weight=["a"] * N)


# --- labels, thresholds, columns ------------------------------------------------------------------

MIXED = "mixes text and other labels, such as 'a' and 0.*make all of them text, or none"
BAD_LABELS = {
    "mixed array": (np.array([0, "a"] * 15, dtype=object), f"y {MIXED}"),
    "mixed list": ([0, "a"] * 15, f"y {MIXED}"),
    "None": ([0, 1] * 14 + [0, None], "y has None in row 29, which is no label"),
    "None among text": (["a", "b"] * 14 + ["a", None], "y has None in row 29"),
    "NaN among text": (pd.Series(["a", "b"] * 14 + ["a", np.nan], dtype=object), "nan in row 29"),
    "NA among text": (pd.Series(["a", "b"] * 14 + ["a", pd.NA], dtype="string"), "NA> in row 29"),
    "NA among numbers": (pd.Series([0, 1] * 14 + [0, pd.NA], dtype="Int64"), "NA> in row 29"),
}


@in_one_test(
    "name, case", product(["BayesianGPClassifier", "BayesianGPOrdinalClassifier"], BAD_LABELS)
)
def test_labels_that_cannot_be_sorted(name, case, refused, fits):
    labels, message = BAD_LABELS[case]
    refused(message, name=name, data=(X, labels))
    with pytest.raises(ValueError, match=message):
        fits[name].log_predictive_density(X, labels)


def test_numbers_in_an_array_of_objects_are_numbers(fits):
    model = fit_quietly(BayesianGPClassifier(**QUICK), X, Y.astype(object))
    expected = fits["BayesianGPClassifier"]
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert model.classes_.dtype.kind == "i"


@in_one_test(
    "parameters, message",
    [
        ({"thresholds": [np.nan]}, r"1 increasing numbers, all finite.*got \[nan\]"),
        ({"thresholds": [np.inf]}, r"1 increasing numbers, all finite.*got \[inf\]"),
        ({"thresholds": [None]}, "thresholds must consist of real numbers; got None in row 0"),
        ({"thresholds": ["a"]}, "thresholds must consist of real numbers; got 'a' in row 0"),
        ({"thresholds": [[1.0], [2.0, 3.0]]}, "thresholds must be an array of numbers"),
        ({"class_order": [0, "a"]}, f"class_order {MIXED}"),
        ({"class_order": [0, None, 1]}, "class_order has None in row 1, which is no label"),
        ({"class_order": [0, 1, np.nan]}, "class_order has nan in row 2, which is no label"),
        ({"class_order": [[0], [1, 2]]}, r"class_order has \[0\] in row 0, which is no label"),
    ],
)
def test_thresholds_and_the_order_of_classes(parameters, message, refused):
    refused(message, name="BayesianGPOrdinalClassifier", **parameters)


def test_columns_of_the_same_name(refused, fits):
    table = pd.DataFrame(X, columns=["a", "a"])
    message = "X has several columns of the name 'a': rename them"
    refused(message, data=(table, Y))
    with pytest.raises(ValueError, match=message):
        fits["BayesianGPClassifier"].predict(table)


DAYS = pd.Series(pd.date_range("2020-01-01", periods=N))
FRAME = pd.DataFrame({"x": X[:, 0], "t": DAYS})
TABLES_WITH_DATES = {
    "pandas alone": (FRAME[["t"]], r"'t' \(datetime64"),
    "pandas": (FRAME, r"'t' \(datetime64"),
    "pandas with a zone": (FRAME.assign(t=DAYS.dt.tz_localize("UTC")), r"'t' \(datetime64.*UTC"),
    "pandas durations": (FRAME.assign(t=DAYS - DAYS[0], u=DAYS), r"'t' \(timedelta.*'u' \(date"),
    "pandas periods": (FRAME.assign(t=DAYS.dt.to_period("M")), r"'t' \(period"),
    "pandas objects": (FRAME.assign(t=DAYS.astype(object)), r"'t' \(Timestamp"),
    "polars": (pl.DataFrame({"x": X[:, 0], "t": DAYS.to_list()}), r"'t' \(Datetime"),
    "polars dates": (pl.DataFrame({"t": DAYS.dt.date.to_list()}), r"'t' \(Date\)"),
    "polars durations": (pl.DataFrame({"t": (DAYS - DAYS[0]).to_list()}), r"'t' \(Duration"),
    "numpy": (DAYS.to_numpy("datetime64[D]")[:, None], r"0 \(datetime64\[D\]"),
    "numpy durations": ((DAYS - DAYS[0]).to_numpy()[:, None], r"0 \(timedelta64"),
    "objects": ([[1.0, day] for day in DAYS], r"1 \(Timestamp"),
    "list": ([[day] for day in DAYS.to_numpy()], r"0 \(datetime64"),
}


@in_one_test("case", TABLES_WITH_DATES)
def test_dates_have_no_unit(case, refused, fits):
    table, named = TABLES_WITH_DATES[case]
    message = rf"X has dates or durations in column {named}.*\(t - start\) / pd.Timedelta\(days=1\)"
    for name, model in fits.items():
        refused(message, name=name, data=(table, targets_of(name)))
        with pytest.raises(ValueError, match=message):
            model.predict(table)
    for baseline in (EPMLClassifier(), svm_platt_classifier()):
        with pytest.raises(ValueError, match=message):
            baseline.fit(table, Y)


# --- parameters -----------------------------------------------------------------------------------

RANDOM_STATE = r"random_state must be None, an integer from 0 to 2\*\*32 - 1"


@in_one_test(
    "parameters, message",
    [
        *(
            ({"n_jobs": value}, f"n_jobs must be None or an integer other than 0; got {value!r}")
            for value in (1.5, 0, "a", True)
        ),
        *(
            ({"verbose": value}, f"verbose must be an integer >= 0; got {value!r}")
            for value in ("a", -1, 1.5, None)
        ),
        ({"random_state": -1}, f"{RANDOM_STATE}.*got -1"),
        ({"random_state": 1.5}, f"{RANDOM_STATE}.*got 1.5"),
        ({"random_state": "seed"}, f"{RANDOM_STATE}.*got 'seed'"),
        ({"sampler": Ancillary(hyper=[])}, r"hyper must be one of .*; got \[\]"),
        ({"sampler": Ancillary(learn_shape="a")}, "learn_shape must be True or False; got 'a'"),
        ({"sampler": Sufficient(conjugate="a")}, "conjugate must be True or False; got 'a'"),
    ],
)
def test_parameters_of_the_wrong_kind(parameters, message, refused):
    refused(message, **parameters)


@in_one_test("parameters", [{"n_jobs": np.int64(1)}, {"verbose": False}])
def test_parameters_of_the_right_kind(parameters):
    fit_quietly(BayesianGPClassifier(**QUICK, **parameters), X, Y)


@in_one_test("n_jobs", [1.5, 10**30])
def test_workers_of_a_prediction(fits, n_jobs):
    model = copy.copy(fits["BayesianGPClassifier"]).set_params(n_jobs=n_jobs)
    with pytest.raises(ValueError, match="n_jobs must be None or an integer other than 0"):
        model.predict(X)


class NoDensity(stats.rv_continuous):
    """A distribution whose density somebody got wrong."""

    def _pdf(self, x):
        return np.full_like(x, np.nan)


@in_one_test(
    "prior, message",
    [
        (stats.gamma(np.nan), "has an invalid parameter.*nan"),
        (stats.gamma(2.0, scale=-1.0), "has an invalid parameter.*'scale': -1.0"),
        (NoDensity(a=0.0, name="odd")(), "has a density of NaN at the start value 1"),
    ],
)
def test_priors_that_are_no_distributions(prior, message, refused):
    refused(rf"priors\['k2__length_scale'\] {message}", priors={"k2__length_scale": prior})


@in_one_test("median", [1e-300, 1e300])
def test_a_prior_of_values_that_are_not_sampled(median, refused):
    priors = {"k2__length_scale": stats.lognorm(1.0, scale=median)}
    refused("prior of 'k2__length_scale' has its median at 1e.300 and nearly", priors=priors)


def test_a_default_prior_of_values_that_are_not_sampled(refused):
    message = "prior of 'k1__constant_value' .* by priors, or by other units of X"
    refused(message, data=(1e9 * X, Y), kernel=ConstantKernel() * DotProduct() ** 2)


def test_a_bad_prior_of_a_parameter_that_may_be_negative(refused):
    priors = {"threshold": stats.norm(np.nan)}
    message = r"priors\['threshold'\] has an invalid parameter"
    refused(message, name="BayesianGPOrdinalClassifier", priors=priors)


# --- what is left for the moment when chains begin ------------------------------------------------


class NotConcave(Probit):
    def derivatives(self, y, f):
        found = super().derivatives(y, f)
        return found._replace(second=-found.second)


class NoSlope(Probit):
    def derivatives(self, y, f):
        found = super().derivatives(y, f)
        return found._replace(first=np.nan * found.first)


class Undefined(Probit):
    def log_prob(self, y, f):
        return np.full(np.broadcast_shapes(np.shape(y), np.shape(f)), np.nan)


@in_one_test(
    "likelihood, message",
    [
        (NotConcave(), "log_concave = True, but a second derivative of 0"),
        (NoSlope(), r"a derivative of log p\(y \| f\) of nan at y = .*, f = -3"),
        (Undefined(), r"log p\(y \| f\) of nan at y = .*, f = -3"),
    ],
)
def test_a_likelihood_that_is_wrong_where_it_is_tried(likelihood, message, refused):
    refused(f"likelihood 'probit' has {message}", likelihood=likelihood)


def test_targets_of_any_size_are_tried_where_they_are():
    y = 1e140 * (X[:, 0] + 0.1)
    fit_quietly(BayesianGPVolatilityRegressor(**QUICK), X[:10], y[:10])


def test_no_start_says_which_part_of_the_model_has_no_density():
    theta = np.zeros(2)
    model = make_model(X, 2.0 * Y - 1.0, Undefined())
    assert "the log-likelihood at f = 0 is nan" in no_density_message(model, theta)
    model = make_model(X, 2.0 * Y - 1.0, kernel=ConstantKernel() * Indefinite())
    assert "K of the training rows is no covariance" in no_density_message(model, theta)
    prior = default_hyperprior(model.covariance, Probit(), {"k1__constant_value": stats.uniform(2)})
    model = dataclasses.replace(model, hyperprior=prior)
    assert "the log density of the priors is -inf" in no_density_message(model, theta)


# --- after fit ------------------------------------------------------------------------------------


@in_one_test("schedule", [(1, 1), (1, 10), (2, 3), (4, 5), (8, 3)])
def test_leave_one_out_of_too_few_draws(schedule):
    n_chains, n_draws = schedule
    model = BayesianGPClassifier(**{**QUICK, "n_chains": n_chains, "n_draws": n_draws})
    fit_quietly(model, X, Y)
    message = rf"at least 25 draws, and [48] in each chain; n_chains={n_chains} with {n_draws}"
    with pytest.raises(ValueError, match=f"{message} draws each.*increase n_draws"):
        model.loo()


@in_one_test("schedule", [(1, 25), (4, 7)])
def test_leave_one_out_of_just_enough_draws(schedule):
    n_chains, n_draws = schedule
    model = BayesianGPClassifier(**{**QUICK, "n_chains": n_chains, "n_draws": n_draws})
    assert np.isfinite(fit_quietly(model, X, Y).loo().elpd)


THREE = np.arange(N) % 3


@pytest.mark.parametrize("y", [Y, THREE], ids=["two classes", "three classes"])
def test_draws_of_predictions_are_chosen_in_fit(y):
    model = fit_quietly(BayesianGPClassifier(**QUICK, max_predict_draws=4), X, y)
    expected = model.predict_proba(X)
    model.set_params(max_predict_draws=7)
    message = "max_predict_draws=7 has no effect before the next fit.*max_predict_draws=4"
    with pytest.warns(UserWarning, match=message) as caught:
        np.testing.assert_array_equal(model.predict_proba(X), expected)
    assert len(caught) == 1
    model.set_params(max_predict_draws=4).predict_proba(X)  # no warning: that is an error here
    message = "predict_cache_bytes=0 has no effect before the next fit"
    with pytest.warns(UserWarning, match=message) as caught:
        model.set_params(predict_cache_bytes=0).predict_proba(X)
    assert len(caught) == 1
    for binary in getattr(model, "estimators_", []):
        binary.predict_proba(X)


def test_a_warm_start_chooses_the_draws_of_predictions_anew():
    model = fit_quietly(BayesianGPClassifier(**QUICK, max_predict_draws=4, warm_start=True), X, Y)
    fit_quietly(model.set_params(max_predict_draws=7, n_draws=6), X, Y)
    model.predict_proba(X)


@pytest.mark.parametrize("y", [Y, THREE], ids=["two classes", "three classes"])
def test_one_warning_about_convergence_per_fit(y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        BayesianGPClassifier(**QUICK).fit(X, y)
    assert [w.category for w in caught] == [ConvergenceWarning]


@in_one_test(
    "table, kind, why",
    [
        (np.full((N, 2), "a"), ValueError, "could not convert string to float"),
        (np.full((N, 2), 1j), ValueError, "Complex data not supported"),
        (pd.DataFrame({"a": [pd.NA] * N}, dtype=object), TypeError, "NAType"),
        (pd.DataFrame({"a": [[1.0]] * N}), ValueError, "sequence"),
        (np.ones((N + 1, 2)), ValueError, "inconsistent numbers of samples"),
    ],
    ids=["text", "complex", "NA", "lists", "rows"],
)
def test_a_table_that_is_not_of_numbers(table, kind, why):
    with pytest.raises(kind, match=f"^X must be a table of real numbers .*{why}.*Encode text"):
        BayesianGPClassifier(**QUICK).fit(table, Y)


def test_a_kernel_that_cannot_be_shown_is_named_by_its_kind():
    with pytest.raises(ValueError, match=r"ard=True only .* but a DotProduct was given as kernel"):
        BayesianGPClassifier(DotProduct("a"), ard=True).fit(X, Y)


# --- names and warnings ---------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [*ESTIMATORS.values(), EPMLClassifier])
def test_methods_are_named_by_the_class_that_the_user_has(cls):
    """As Python says when an argument is wrong: nobody has heard of the class that defines them."""
    methods = [name for name in dir(cls) if not name.startswith(("_", "set_", "get_"))]
    found = {name: getattr(cls, name) for name in methods}
    functions = {name: method for name, method in found.items() if inspect.isfunction(method)}
    assert {"fit", "predict", "score"} <= functions.keys()
    for name, method in functions.items():
        expected = rf"{cls.__name__}\.{name}\(\) got an unexpected keyword argument 'nonsense'"
        with pytest.raises(TypeError, match=expected):
            method(cls(), nonsense=1)


def test_a_method_that_is_inherited_is_the_same_but_for_its_name():
    own, inherited = BayesianGPClassifier.predict, LogProbabilityClassifierMixin.predict
    assert own.__code__ is inherited.__code__
    assert own.__doc__ == inherited.__doc__
    assert inspect.signature(own) == inspect.signature(inherited)
    assert inherited.__qualname__ == "LogProbabilityClassifierMixin.predict"


MANY = _base._MANY_LENGTH_SCALES + 1


@pytest.mark.parametrize(
    "settings",
    [
        {"ard": True},
        {"ard": True, "priors": "sparse"},
        {"kernel": ConstantKernel() * RBF(np.ones(MANY))},
    ],
    ids=["default kernel", "sparse prior", "kernel of the user"],
)
@pytest.mark.parametrize("sampler", ["pm", "asis"])
def test_many_length_scales_are_warned_of_before_anything_is_evaluated(
    settings, sampler, monkeypatch
):
    """The warning is an error here. It names the sparse prior, where that is not the one."""
    monkeypatch.setattr(set_ups, "perform", None)
    wide = np.random.default_rng(0).standard_normal((N, MANY))
    match = rf"The kernel has {MANY} length-scales to be sampled.*ard=False.*PCA"
    with pytest.raises(UserWarning, match=match) as caught:
        BayesianGPClassifier(sampler=sampler, **settings).fit(wide, Y)
    assert ('priors="sparse"' in str(caught.value)) == ("priors" not in settings)


def test_as_many_length_scales_as_are_usual_are_not_warned_of():
    kernels = [RBF(np.ones(MANY - 1)), RBF(np.ones(MANY), "fixed"), RBF()]
    for kernel in kernels:
        width = max(np.size(kernel.length_scale), 2)
        _base._warn_about_length_scales(make_model(np.zeros((3, width)), np.ones(3), kernel=kernel))
