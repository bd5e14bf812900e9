"""Bad input gets an error that names it, before anything is sampled, and leaves an earlier fit."""

import copy
import dataclasses
import inspect
import re
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from scipy import stats
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
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
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.approximations import EP, Nystrom, SubsetOfData
from skgpmcmc.baselines import EPMLClassifier, svm_platt_classifier
from skgpmcmc.chain.segment import no_density_message
from skgpmcmc.estimators import _base
from skgpmcmc.kernels import Linear
from skgpmcmc.likelihoods import Poisson, Probit
from skgpmcmc.model import default_hyperprior
from skgpmcmc.numerics.linalg import NotPositiveDefiniteError
from skgpmcmc.samplers import (
    Ancillary,
    DiscretizingChain,
    Interweaving,
    KnorrHeldRue,
    Marginal,
    PseudoMarginal,
    Sufficient,
    TemperedTransitions,
)

from ..helpers import every_pair, in_one_test, make_model, short_chains
from .conftest import unchanged

N = 30
X, Y = make_moons(N, noise=0.15, random_state=0)
QUICK = {"sampler": "asis", "n_chains": 2, "n_warmup": 5, "n_draws": 5, "random_state": 0}
SMOOTH, SMOOTH_ARD = ConstantKernel() * RBF(), ConstantKernel() * RBF([1.0, 1.0])
ESTIMATORS = {
    cls.__name__: cls
    for cls in (
        BayesianGPClassifier,
        BayesianGPOrdinalClassifier,
        BayesianGPCountRegressor,
        BayesianGPRegressor,
        BayesianGPVolatilityRegressor,
    )
}
WALK = PseudoMarginal(moves="random_walk")


@short_chains()
def fit_quietly(model, *args, **kwargs):
    return model.fit(*args, **kwargs)


@pytest.fixture(scope="module")
def fits():
    """One fit of each estimator, all with the same kernel."""
    return {
        name: fit_quietly(cls(SMOOTH, **QUICK), X, targets_of(name))
        for name, cls in ESTIMATORS.items()
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
        with unchanged(model), pytest.raises(ValueError, match=message):
            model.fit(*data, **(fit or {}))

    return check


# --- parameters -----------------------------------------------------------------------------------

AT_LEAST_ONE = "an integer >= 1"
POSITIVE = r"a number in \(0, inf\)"
SHARE = r"a number in \[0, 1\)"
INSIDE = r"a number in \(0, 1\)"
BOOLEAN = "True or False"

#: What parameters must be, and values that they cannot have.
IMPOSSIBLE_VALUES = {
    "n_importance": (AT_LEAST_ONE, [0, "many", 8.0]),
    "n_chains": (AT_LEAST_ONE, [0, 2.0, True, None]),
    "n_draws": (AT_LEAST_ONE, [0, 1e3]),
    "max_predict_draws": (AT_LEAST_ONE, [0, "all"]),
    "n_warmup": ("an integer >= 0", [-1, "500"]),
    "verbose": ("an integer >= 0", ["a", -1, 1.5, None]),
    "predict_cache_bytes": ("an integer >= 0", [-1, 1e9, None]),
    "target_ess": (POSITIVE, [0.0, -400, np.nan, np.inf, "400", True]),
    "max_time": (POSITIVE, [0, -1.0, "long", np.inf, True]),
    "max_rhat": (r"a number in \(1, inf\)", [1.0, "1.01", np.nan, None]),
    "ard": (BOOLEAN, ["yes", 1]),
    "warm_start": (BOOLEAN, ["yes", 1]),
    "n_jobs": ("None or an integer other than 0", [0, 1.5, "a", True]),
    "random_state": (r"None, an integer from 0 to 2\*\*32 - 1", [-1, 1.5, "seed"]),
    "checkpoint": ("None or the path of a file", [3, "", b""]),
    "multi_class": (r"one of \[.*\]", ["one_vs_one"]),
    "priors": (
        'a mapping from hyper-parameter name .*"paper", "sparse" or None',
        [stats.gamma(2.0), "papers", 3.0, ["k1__constant_value"]],
    ),
    "likelihood": (r"one of \['logit', 'probit'\] or a Likelihood", ["cauchit", None, Probit]),
    "sampler": (
        r"one of \[.*'marginal', .*'pm'.*\] or a Sampler",
        ["nuts", WALK.__class__, ["pm"]],
    ),
    "approximation": (r"one of \['auto', 'ep', 'laplace'\] or a Approx", ["variational", EP]),
    "kernel": ("a scalar-valued covariance", ["rbf", 1.0, RBF, CompoundKernel([RBF(), RBF()])]),
}


@in_one_test("name", IMPOSSIBLE_VALUES)
def test_impossible_parameters_are_refused_by_name_and_value(name, refused):
    wanted, values = IMPOSSIBLE_VALUES[name]
    for value in values:
        shown = re.escape(repr(value))
        refused(f"{name} must be {wanted}.*got {shown}", **{name: value})


#: The same of fields of samplers and approximations.
IMPOSSIBLE_FIELDS = [
    (PseudoMarginal, "target_acceptance", INSIDE, [1.0]),
    (PseudoMarginal, "defensive", SHARE, [1.0, -0.1, "a"]),
    (PseudoMarginal, "noise", POSITIVE, [0.0, None]),
    (PseudoMarginal, "moves", r"one of \['emulated', 'trajectories', 'random_walk'\]", ["hmc"]),
    (Marginal, "target_acceptance", INSIDE, [0.0, np.nan]),
    (Sufficient, "nugget", r"a number in \[1e-10, 1\]", [0.0]),
    (Sufficient, "conjugate", BOOLEAN, ["a"]),
    (Ancillary, "learn_shape", BOOLEAN, ["a"]),
    (Ancillary, "hyper", "one of .*'slice'", [[], "gibbs"]),
    (Ancillary, "latent", "one of .*'hmc_v2'", ["nuts"]),
    (Ancillary, "n_latent", AT_LEAST_ONE, [0]),
    (Ancillary, "max_leapfrog", AT_LEAST_ONE, [2.5]),
    (Ancillary, "target_acceptance", INSIDE, [1.5]),
    (KnorrHeldRue, "defensive", SHARE, [1.0]),
    (DiscretizingChain, "n_moves", AT_LEAST_ONE, [0]),
    (DiscretizingChain, "jump", AT_LEAST_ONE, [0]),
    (DiscretizingChain, "operator", "one of ", ["nuts"]),
    (DiscretizingChain, "defensive", SHARE, [1.0]),
    (TemperedTransitions, "n_updates", AT_LEAST_ONE, [0]),
    (EP, "tol", POSITIVE, [0.0, np.nan, "a"]),
    (EP, "max_sweeps", AT_LEAST_ONE, [0]),
    (EP, "damping", r"a number in \(0, 1\]", [0.0]),
]


@in_one_test("kind, field, wanted, values", IMPOSSIBLE_FIELDS)
def test_impossible_fields_of_objects_are_refused_by_name_and_value(
    kind, field, wanted, values, refused
):
    of = "approximation" if kind is EP else "sampler"
    for value in values:
        shown = re.escape(repr(value))
        refused(f"{of}: {field} must be {wanted}.*got {shown}", **{of: kind(**{field: value})})


@in_one_test("approximation, field", [(SubsetOfData(1.5), INSIDE), (Nystrom(0), AT_LEAST_ONE)])
def test_impossible_sizes_of_a_cheap_posterior_are_refused_by_name(approximation, field, refused):
    settings = {"sampler": "discretizing", "approximation": approximation}
    refused(f"approximation: m must be {field}", **settings)


class OfNoLogConcavity(Probit):
    name = "odd"
    log_concave = False


class NoDensity(stats.rv_continuous):
    """A distribution whose density somebody got wrong."""

    def _pdf(self, x):
        return np.full_like(x, np.nan)


def of_length_scale(prior):
    return {"priors": {"k2__length_scale": prior}}


LENGTH_SCALE = r"priors\['k2__length_scale'\]"
NAMES = r"it has \['k1__constant_value', 'k2__length_scale'\]"


@in_one_test(
    "parameters, message",
    [
        ({"n_importance": 0}, 'Use "auto" for as'),
        ({"n_warmup": "500"}, 'Use "auto" for the'),
        ({"max_predict_draws": 0}, "Use None for"),
        ({"target_ess": 0.0}, "Use None for"),
        (
            {"kernel": ConstantKernel() * RBF([1.0, 1.0, 1.0])},
            "'k2__length_scale' has 3 elements but X has 2 features: give it one element, or one",
        ),
        (
            {"kernel": ConstantKernel() * RBF(np.ones(4), "fixed")},
            "'k2__length_scale' has 4 elements but X has 2 features",
        ),
        ({"kernel": RBF(), "ard": True}, "ard=True only concerns the default kernel.*ard=False"),
        (
            {"priors": {"k2__length_scale[0]": stats.gamma(2.0)}, "kernel": SMOOTH_ARD},
            rf"'k2__length_scale\[0\]', which is not.*{NAMES}",
        ),
        (
            {**of_length_scale(stats.gamma(2.0)), "kernel": ConstantKernel() * RBF(1.0, "fixed")},
            r"'k2__length_scale', which is not a sampled.*it has \['k1__constant_value'\]",
        ),
        (
            of_length_scale(stats.norm(1.0, 1.0)),
            rf"{LENGTH_SCALE} has support \(-inf, inf\).*use a distribution on \(0, inf\)",
        ),
        (
            {"priors": {"k1__constant_value": stats.uniform(-1.0, 3.0)}},
            r"'k1__constant_value'\] has support \(-1.0, 2.0\).*positive",
        ),
        (
            of_length_scale(stats.uniform(2.0, 3.0)),
            rf"{LENGTH_SCALE} has support \(2.0, 5.0\), which excludes the kernel's start value "
            "1: widen the prior or start the kernel inside it",
        ),
        *(
            (of_length_scale(prior), f"{LENGTH_SCALE} must be a frozen continuous scipy.stats")
            for prior in (3.0, None, stats.gamma, stats.poisson(3.0))
        ),
        (of_length_scale(stats.gamma(np.nan)), f"{LENGTH_SCALE} has an invalid parameter.*nan"),
        (
            of_length_scale(stats.gamma(2.0, scale=-1.0)),
            f"{LENGTH_SCALE} has an invalid parameter.*'scale': -1.0",
        ),
        (
            of_length_scale(NoDensity(a=0.0, name="odd")()),
            f"{LENGTH_SCALE} has a density of NaN at the start value 1",
        ),
        *(
            (
                of_length_scale(stats.lognorm(1.0, scale=median)),
                "prior of 'k2__length_scale' has its median at 1e.300 and nearly",
            )
            for median in (1e-300, 1e300)
        ),
        ({"likelihood": OfNoLogConcavity()}, "likelihood 'odd' is not log-concave, and integrals"),
        (
            {"likelihood": Poisson()},
            "likelihood 'poisson' is for counts: integers >= 0, and the targets of a classifier "
            r"are -1.0 and \+1.0, .*: use one of \['logit', 'probit'\], .* another estimator",
        ),
    ],
)
def test_contradictory_parameters_are_refused_with_a_remedy(parameters, message, refused):
    refused(message, **parameters)


def test_bad_priors_of_defaults_and_other_estimators_are_refused_by_name(refused):
    message = "prior of 'k1__constant_value' .* by priors, or by other units of X"
    refused(message, data=(1e9 * X, Y), kernel=ConstantKernel() * DotProduct() ** 2)
    message = r"priors\['threshold'\] has an invalid parameter"  # which may be negative
    priors = {"threshold": stats.norm(np.nan)}
    refused(message, name="BayesianGPOrdinalClassifier", priors=priors)


# --- short names of priors ------------------------------------------------------------------------


PER_FEATURE = ConstantKernel() * RBF(np.ones(2)) + RBF(2.0, "fixed")


@in_one_test("kernel", [None, PER_FEATURE])
def test_an_end_of_a_name_gives_the_draws_of_the_whole_name(kernel):
    law = stats.gamma(2.0)
    names = ("length_scale", "k2__length_scale", "k1__k2__length_scale")
    own = {**QUICK, "kernel": kernel}
    end, longer, whole = (
        fit_quietly(BayesianGPClassifier(**own, priors={name: law}), X, Y) for name in names
    )
    assert_array_equal(end.theta_samples_, whole.theta_samples_)
    assert_array_equal(longer.theta_samples_, whole.theta_samples_)
    assert end.priors == {"length_scale": law}
    assert list(end.priors_) == list(whole.priors_)
    assert end.priors_["k1__k2__length_scale"] is law
    default = fit_quietly(BayesianGPClassifier(**own), X, Y)
    assert not np.array_equal(default.theta_samples_, whole.theta_samples_)


def test_a_whole_name_is_not_taken_for_the_end_of_another():
    kernel = ConstantKernel() * RBF() + RBF(2.0)
    own, other = stats.gamma(2.0), stats.gamma(3.0)
    priors = {"k2__length_scale": own, "k1__k2__length_scale": other}
    model = fit_quietly(BayesianGPClassifier(kernel, **QUICK, priors=priors), X, Y)
    assert model.priors_["k2__length_scale"] is own
    assert model.priors_["k1__k2__length_scale"] is other


@in_one_test(
    "kernel, names, message",
    [
        (
            RBF() + RBF(2.0),
            ["length_scale"],
            r"'length_scale', which may be each of \['k1__length_scale', 'k2__length_scale'\]: use",
        ),
        (
            SMOOTH,
            ["length_scale", "k2__length_scale"],
            "two distributions for 'k2__length_scale', one by a shorter name: leave one out",
        ),
        *(
            (SMOOTH, [name], f"{name!r}, which is not a sampled hyper-parameter of.*; {NAMES}")
            for name in ("lengthscale", "scale", "_length_scale", "k1__length_scale", "", 3)
        ),
        (
            None,
            ["noise_scale"],
            "it has .'k1__k1__constant_value', 'k1__k2__length_scale', 'k2__slope_variance'.",
        ),
    ],
)
def test_names_of_no_or_several_hyper_parameters_are_refused(kernel, names, message, refused):
    refused(message, kernel=kernel, priors=dict.fromkeys(names, stats.gamma(2.0)))


# --- numbers that are nearly of the right type ----------------------------------------------------


@in_one_test("parameters", [{"n_jobs": np.int64(1)}, {"verbose": False}])
def test_integer_like_parameters_are_accepted(parameters):
    fit_quietly(BayesianGPClassifier(**QUICK, **parameters), X, Y)


@in_one_test("n_jobs", [1.5, 10**30])
def test_predictions_refuse_an_impossible_n_jobs(fits, n_jobs):
    model = copy.copy(fits["BayesianGPClassifier"]).set_params(n_jobs=n_jobs)
    with pytest.raises(ValueError, match="n_jobs must be None or an integer other than 0"):
        model.predict(X)


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
NO_LOG = "start value that is not positive and finite.*"
BAD_KERNELS = [
    (Matern(nu=0), "'nu' must be positive; got 0"),
    (ConstantKernel() * Matern(nu=np.nan), "'k2__nu' must be positive; got nan"),
    (Matern(nu="a"), "'nu' must be a number; got 'a'"),
    (Matern(nu=1000), r"Matern\(.*\) is not finite in row 0 of X"),
    (RBF(np.ones((2, 1))), r"'length_scale' must be one number per feature; .*shape \(2, 1\)"),
    (RBF(np.ones((1, 2))), r"'length_scale' must be one number; .*shape \(1, 2\)"),
    (RBF("a"), "'length_scale' must be a number; got 'a'"),
    (RBF([]), r"'length_scale' must be a number; got \[\]"),
    (RBF([1.0, "a"]), "'length_scale' must be a number"),
    (RBF(np.nan), f"{NO_LOG}'length_scale' is nan"),
    (ConstantKernel() * RBF(np.inf), f"{NO_LOG}'k2__length_scale' is inf"),
    (ConstantKernel() * RBF([1.0, 0.0]), rf"{NO_LOG}'k2__length_scale' is \[1.0, 0.0\]"),
    (RBF(np.nan, "fixed"), "'length_scale' is fixed at nan"),
    (ConstantKernel() * RBF(0.0, "fixed"), "not finite in row 0 of X"),
    (RationalQuadratic(ONES), "'length_scale' must be one number; got "),
    (RationalQuadratic(1.0, ONES), "'alpha' must be one number"),
    (ExpSineSquared(1.0, -1.0), "not positive and finite.*'periodicity' is -1.0"),
    (
        ExpSineSquared(1.0, 0.0, periodicity_bounds="fixed"),
        "ExpSineSquared.* cannot be evaluated at the training rows|is not finite in row 0",
    ),
    (ConstantKernel("a"), "'constant_value' must be a number; got 'a'"),
    (ConstantKernel(ONES) * RBF(), "'k1__constant_value' must be one number"),
    (ConstantKernel(-1.0, "fixed") * RBF(), "'k1__constant_value' is fixed at -1.0"),
    (RBF() + WhiteKernel(-1.0, "fixed"), "'k2__noise_level' is fixed at -1.0"),
    (PairwiseKernel(metric="foo"), "metric=foo.* cannot be evaluated at the training rows"),
    (PairwiseKernel(gamma="a"), "'gamma' must be a number; got 'a'"),
    (PairwiseKernel(metric="chi2"), "metric=chi2.*cannot be evaluated.*X contains negative values"),
    (Exponentiation(RBF(), "a"), "'exponent' must be a number; got 'a'"),
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
    (ConstantKernel(0.0) * RBF(), f"{NO_LOG}'k1__constant_value' is 0.0"),
    (ConstantKernel(-1.0) * RBF(), f"{NO_LOG}'k1__constant_value' is -1.0"),
    (DotProduct(0.0), "start value that is not positive.*'sigma_0'"),
    (ConstantKernel(0.0, "fixed") * RBF(), "no variance at any training row"),
]


@in_one_test("kernel, message", BAD_KERNELS)
def test_unusable_kernels_are_refused_with_the_reason(kernel, message, refused):
    refused(message, kernel=kernel)


def test_kernel_that_fails_at_a_late_row_is_refused(refused):
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
def test_unusual_kernels_can_be_fitted(kernel):
    fit_quietly(BayesianGPClassifier(**QUICK, kernel=kernel), X, Y)


FOLLOW_A_GRADIENT = ["pm", "marginal", Ancillary(hyper="hmc"), Interweaving(hyper="smmala")]
WALKS = [WALK, Marginal(moves="random_walk")]
FOLLOW_NONE = [*WALKS, "asis", Ancillary(hyper="slice")]


@in_one_test(
    "kernel, sampler",
    product([OwnKernel(), ConstantKernel() * OwnKernel(), TwoDerivatives()], FOLLOW_A_GRADIENT),
)
def test_gradient_samplers_refuse_a_kernel_without_gradient(kernel, sampler, refused):
    message = r"has no gradient in its hyper-parameters.*eval_gradient=True.*moves='random_walk'"
    refused(message, kernel=kernel, sampler=sampler, priors="paper")


def test_regression_and_baseline_refuse_a_kernel_without_gradient(refused):
    own = {"kernel": OwnKernel(), "priors": "paper"}
    refused("no gradient", name="BayesianGPRegressor", sampler="collapsed", **own)
    with pytest.raises(ValueError, match=r"no gradient.*or fix its hyper-parameters"):
        EPMLClassifier(kernel=OwnKernel()).fit(X, Y)


@in_one_test("sampler", FOLLOW_NONE)
def test_other_samplers_accept_a_kernel_without_gradient(sampler):
    own = {"kernel": OwnKernel(), "priors": {"length_scale": stats.lognorm(1.0)}}
    model = BayesianGPClassifier(**{**QUICK, "sampler": sampler}, **own)
    fit_quietly(model, X[:10], Y[:10])
    assert np.isfinite(model.predict_proba(X)).all()


def test_fixed_kernel_without_gradient_is_accepted():
    kernel = OwnKernel(1.0, "fixed")
    model = BayesianGPClassifier(n_draws=5, n_warmup=0, n_importance=4, kernel=kernel)
    assert fit_quietly(model, X, Y).theta_samples_.shape[2] == 0


# --- data in fit ----------------------------------------------------------------------------------


def with_value(value):
    changed = X.copy()
    changed[3, 1] = value
    return changed


BAD_DATA = {
    "nan": (with_value(np.nan), Y, "Input X contains NaN"),
    "inf": (with_value(np.inf), Y, "Input X contains infinity"),
    "one_dimension": (X[:, 0], Y, "Expected 2D array, got 1D array"),
    "three_dimensions": (X[:, :, None], Y, "Found array with dim 3"),
    "no_columns": (X[:, :0], Y, r"0 feature\(s\)"),
    "no_rows": (X[:0], Y[:0], r"0 sample\(s\)"),
    "lengths": (X, Y[:-1], r"inconsistent numbers of samples: \[30, 29\]"),
    "one_class": (X, ["spam"] * N, "y has only one class, 'spam': .* needs at least two"),
    "one_class of other columns": (np.ones((4, 3)), [1, 1, 1, 1], "only one class"),
    "continuous": (X, Y + 0.5 * X[:, 0], "Unknown label type: continuous"),
    "nan_in_y": (X, np.where(Y == 1, np.nan, 0.0), "Input y contains NaN"),
    "two_columns_in_y": (X, np.stack([Y, 1 - Y], axis=1), "y should be a 1d array"),
    "no_y": (X, None, "requires y to be passed, but the target y is None"),
}


@in_one_test("case", BAD_DATA)
def test_bad_data_is_refused_with_the_reason(case, refused):
    X, y, message = BAD_DATA[case]
    refused(message, data=(X, y))


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
def test_table_of_text_is_refused_with_the_reason(table, kind, why):
    with pytest.raises(kind, match=f"^X must be a table of real numbers .*{why}.*Encode text"):
        BayesianGPClassifier(**QUICK).fit(table, Y)


class WithoutFactor(EP):
    """An approximation that finds K singular everywhere."""

    def fit(self, model, theta, start=None):
        raise NotPositiveDefiniteError("on purpose")


class StartAlone(stats.rv_continuous):
    """A distribution whose density is zero everywhere but at the start value of the kernel."""

    def _pdf(self, x):
        return np.where(x == 1.0, 1.0, 0.0)

    def _cdf(self, x):
        return np.clip(x - 2.0, 0.0, 1.0)

    def _ppf(self, q):
        return 2.0 + q


@pytest.mark.parametrize(
    ("moves", "failing"),
    [
        ("random_walk", {"approximation": WithoutFactor()}),
        ("emulated", {"approximation": WithoutFactor()}),
        ("emulated", of_length_scale(StartAlone(a=0.0, name="odd")())),
    ],
    ids=["random walk, no factor", "no factor", "no prior mass"],
)
def test_failing_chain_names_theta_and_leaves_the_earlier_fit(moves, failing, fits):
    model = copy.copy(fits["BayesianGPClassifier"])
    model.set_params(sampler=PseudoMarginal(moves=moves), **{"approximation": "ep", **failing})
    message = r"No chain can start.*\{.*'k2__length_scale': .*\}"
    with unchanged(model), pytest.raises(RuntimeError, match=message):
        model.fit(X, Y)


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
    ("BayesianGPCountRegressor", "exposure"),
    ("BayesianGPRegressor", "noise_variance"),
]


@in_one_test("name, argument", ROW_ARGUMENTS)
def test_arguments_for_each_row_must_be_numbers(name, argument, refused):
    for given, message in NOT_NUMBERS.values():
        refused(f"{argument} .*{message}", name=name, fit={argument: given})


@in_one_test(
    "name", ["BayesianGPRegressor", "BayesianGPCountRegressor", "BayesianGPVolatilityRegressor"]
)
def test_targets_must_be_numbers(name, refused):
    for given, message in (NOT_NUMBERS[case] for case in ("text", "NA", "None")):
        refused(f"y {message}", name=name, data=(X, given))


def test_predictions_refuse_text_and_nan(fits):
    regressor, poisson = fits["BayesianGPRegressor"], fits["BayesianGPCountRegressor"]
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
def test_labels_that_cannot_be_sorted_are_refused_by_name(name, case, refused, fits):
    labels, message = BAD_LABELS[case]
    refused(message, name=name, data=(X, labels))
    with pytest.raises(ValueError, match=message):
        fits[name].log_predictive_density(X, labels)


def test_numbers_in_an_array_of_objects_are_accepted(fits):
    model = fit_quietly(BayesianGPClassifier(SMOOTH, **QUICK), X, Y.astype(object))
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
def test_wrong_thresholds_and_orders_of_classes_are_refused(parameters, message, refused):
    refused(message, name="BayesianGPOrdinalClassifier", **parameters)


def test_columns_of_the_same_name_are_refused(refused, fits):
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
def test_dates_are_refused_with_the_columns_and_a_remedy(case, refused, fits):
    table, named = TABLES_WITH_DATES[case]
    message = rf"X has dates or durations in column {named}.*\(t - start\) / pd.Timedelta\(days=1\)"
    for name, model in fits.items():
        refused(message, name=name, data=(table, targets_of(name)))
        with pytest.raises(ValueError, match=message):
            model.predict(table)
    for baseline in (EPMLClassifier(), svm_platt_classifier()):
        with pytest.raises(ValueError, match=message):
            baseline.fit(table, Y)


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
def test_likelihood_with_wrong_derivatives_is_refused_by_fit(likelihood, message, refused):
    refused(f"likelihood 'probit' has {message}", likelihood=likelihood)


def test_trial_of_a_likelihood_accepts_targets_of_any_size():
    y = 1e140 * (X[:, 0] + 0.1)
    fit_quietly(BayesianGPVolatilityRegressor(**QUICK), X[:10], y[:10])


def test_message_names_the_part_of_the_model_without_density():
    theta = np.zeros(2)
    model = make_model(X, 2.0 * Y - 1.0, Undefined())
    assert "the log-likelihood at f = 0 is nan" in no_density_message(model, theta)
    model = make_model(X, 2.0 * Y - 1.0, kernel=ConstantKernel() * Indefinite())
    assert "K of the training rows is no covariance" in no_density_message(model, theta)
    prior = default_hyperprior(model.covariance, Probit(), {"k1__constant_value": stats.uniform(2)})
    model = dataclasses.replace(model, hyperprior=prior)
    assert "the log density of the priors is -inf" in no_density_message(model, theta)


# --- data in prediction ---------------------------------------------------------------------------

METHODS = [
    "predict",
    "predict_proba",
    "predict_log_proba",
    "latent_mean_and_variance",
    "sample_latent",
    "sample_y",
]


@in_one_test("method", METHODS)
def test_prediction_from_bad_data_is_refused_with_the_reason(method, fits):
    predict = getattr(fits["BayesianGPClassifier"], method)
    for bad, message in [
        (X[:, :1], "X has 1 features, but BayesianGPClassifier is expecting 2"),
        (X[0], "Expected 2D array, got 1D array"),
        (with_value(np.nan), "Input X contains NaN"),
        (with_value(-np.inf), "Input X contains infinity"),
    ]:
        with pytest.raises(ValueError, match=message):
            predict(bad)


@in_one_test("method", METHODS)
def test_prediction_before_fit_is_refused(method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(BayesianGPClassifier(), method)(X)


def test_labels_not_seen_in_fit_are_refused_by_name(fits):
    model = fits["BayesianGPClassifier"]
    message = r"y has labels \['eggs'\] that were not seen in fit; classes_ is \[0, 1\]"
    with pytest.raises(ValueError, match=message):
        model.log_predictive_density(X, ["eggs"] * N)
    with pytest.raises(ValueError, match=r"labels \[2\] that were not seen"):
        model.log_predictive_density(X, Y + 1)
    with pytest.raises(ValueError, match="X has 30 rows but y has 29 labels"):
        model.log_predictive_density(X, Y[1:])


@in_one_test("n_draws", [0, -1, 1.5, "3", None])
def test_sample_latent_refuses_an_impossible_n_draws(n_draws, fits):
    with pytest.raises(ValueError, match="n_draws must be an integer >= 1; got"):
        fits["BayesianGPClassifier"].sample_latent(X, n_draws)


@in_one_test("schedule", [(1, 1), (1, 10), (2, 3), (4, 5), (8, 3)])
def test_leave_one_out_refuses_too_few_draws(schedule):
    n_chains, n_draws = schedule
    model = BayesianGPClassifier(**{**QUICK, "n_chains": n_chains, "n_draws": n_draws})
    fit_quietly(model, X, Y)
    message = rf"at least 25 draws, and [48] in each chain; n_chains={n_chains} with {n_draws}"
    with pytest.raises(ValueError, match=f"{message} draws each.*increase n_draws"):
        model.loo()


@in_one_test("schedule", [(1, 25), (4, 7)])
def test_leave_one_out_accepts_just_enough_draws(schedule):
    n_chains, n_draws = schedule
    model = BayesianGPClassifier(**{**QUICK, "n_chains": n_chains, "n_draws": n_draws})
    assert np.isfinite(fit_quietly(model, X, Y).loo().elpd)


# --- input that is odd but legal ------------------------------------------------------------------


def quick(**changes):
    settings = {"n_chains": 2, "n_warmup": 10, "n_draws": 5, "n_importance": 8, "random_state": 0}
    return BayesianGPClassifier(**{**settings, **changes})


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
def test_equal_rows_have_equal_values_whatever_the_rank_of_K(sampler, kernel):
    X, y = make_moons(10, noise=0.15, random_state=0)
    X = np.column_stack([np.tile(X, (3, 1)), np.full(30, 3.3), np.zeros(30)])
    X[-10:, :2] = 0.0  # rows of zeros: DotProduct has no variance there beside sigma_0
    model = quick(sampler=sampler, kernel=kernel).fit(X, np.tile(y, 3))
    proba = model.predict_proba(X)
    assert np.isfinite(proba).all()
    assert np.isfinite(model.latent_samples_).all()
    # Equal rows have equal values.
    scale = np.abs(model.latent_samples_).max()
    gap = np.abs(model.latent_samples_[:, :, :10] - model.latent_samples_[:, :, 10:20]).max()
    assert gap < 1e-8 * scale
    assert_array_equal(proba[:10], proba[10:20])


@pytest.mark.filterwarnings("ignore:The default priors expect features with similar scales")
@in_one_test(
    "inputs, kernel, kind",
    every_pair(
        [
            *(scale * X for scale in (1e10, 1e80, 1e-80)),
            np.column_stack([X, 1e16 * Y]),
            *(with_value(outlier) for outlier in (1e7, 1e30)),
        ],
        [None, ConstantKernel() * RBF() + Linear()],
        [BayesianGPClassifier, BayesianGPRegressor],
    ),
)
def test_linear_part_of_a_kernel_allows_for_inputs_of_any_size(inputs, kernel, kind):
    """Slopes count per scale of the inputs, so that their variance is in the range of theta."""
    model = fit_quietly(kind(kernel, **QUICK), inputs, Y)
    assert np.isfinite(model.predict(inputs)).all()
    assert np.isfinite(model.theta_samples_).all()


@short_chains()
def test_identical_rows_have_one_probability():
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
def test_the_smallest_schedules_make_all_their_draws(sampler, schedule):
    n_chains, n_warmup, n_draws = schedule
    X, y = make_moons(12, noise=0.15, random_state=0)
    model = quick(sampler=sampler, n_chains=n_chains, n_warmup=n_warmup, n_draws=n_draws)
    with pytest.warns(ConvergenceWarning, match="R-hat inf"):
        model.fit(X, y)
    assert model.theta_samples_.shape == (n_chains, n_draws, 3)
    assert model.n_iter_ == n_warmup + n_draws
    assert np.isfinite(model.predict_proba(X)).all()
    assert "k2__slope_variance" in str(model.diagnostics_)


@short_chains()
def test_two_rows_can_be_fitted_with_one_importance_draw():
    model = quick(n_importance=1).fit([[0.0], [1.0]], ["a", "b"])
    assert_array_equal(model.predict([[0.0], [1.0]]), ["a", "b"])


def test_integers_lists_and_single_precision_give_the_same_fit():
    X = np.arange(-10, 10).reshape(-1, 1)
    y = (X[:, 0] > 0).astype(int)

    def predicted(X, y):
        return fit_quietly(BayesianGPClassifier(**QUICK), X, y).predict_proba(X)

    expected = predicted(X.astype(float), y)
    for same in (X, X.tolist(), X.astype(np.float32), X.astype(object)):
        assert_array_equal(predicted(same, y), expected)
    assert_array_equal(predicted(X, y.tolist()), expected)


# --- what a fit leaves alone ----------------------------------------------------------------------


@short_chains()
def test_fit_changes_no_parameter():
    given = {
        "kernel": ConstantKernel(2.0, "fixed") * RBF([0.5, 2.0]),
        "priors": {"k2__length_scale": stats.gamma(2.0)},
        "likelihood": Probit(),
        "sampler": PseudoMarginal(defensive=0.1, moves="random_walk"),
        "approximation": EP(tol=1e-3),
        "random_state": 3,
    }
    model = quick(**given)
    before, texts = model.get_params(), {k: repr(v) for k, v in model.get_params().items()}
    model.fit(X, Y).predict_proba(X)
    after = model.get_params()
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in given)
    assert {name: repr(value) for name, value in after.items()} == texts
    assert model.kernel_ is not model.kernel
    assert list(given["priors"]) == ["k2__length_scale"]
    assert model.priors_ is not model.priors


def test_changing_the_given_data_later_does_not_change_predictions():
    own, y = X.copy(), Y.copy()
    model = fit_quietly(BayesianGPClassifier(**QUICK), own, y)
    expected = model.predict_proba(X)
    own += 100.0
    y[:] = 0
    assert_array_equal(model.predict_proba(X), expected)


# --- names ----------------------------------------------------------------------------------------


def test_kernel_without_repr_is_named_by_its_class():
    with pytest.raises(ValueError, match=r"ard=True only .* but a DotProduct was given as kernel"):
        BayesianGPClassifier(DotProduct("a"), ard=True).fit(X, Y)


@pytest.mark.parametrize("cls", [*ESTIMATORS.values(), EPMLClassifier])
def test_argument_errors_name_the_class_of_the_user(cls):
    """As Python says when an argument is wrong: nobody has heard of the class that defines them."""
    methods = [name for name in dir(cls) if not name.startswith(("_", "set_", "get_"))]
    found = {name: getattr(cls, name) for name in methods}
    functions = {name: method for name, method in found.items() if inspect.isfunction(method)}
    assert {"fit", "predict", "score"} <= functions.keys()
    for name, method in functions.items():
        expected = rf"{cls.__name__}\.{name}\(\) got an unexpected keyword argument 'nonsense'"
        with pytest.raises(TypeError, match=expected):
            method(cls(), nonsense=1)
