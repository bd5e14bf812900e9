"""Random estimators, kernels, priors, data and parameters: nothing odd may come out of odd things.

An outcome is sound if it is a finite result (probabilities sum to one), with warnings of the
documented kinds only, or an error that this package, or scikit-learn's validation, raises on
purpose, and whose message names an argument. Every case is legal but for one oddity at most, so
that most of them are sampled. Chains are of a few draws: what is odd comes out of the first ones.
The plain suite tries 8 cases of each estimator, with the samplers whose set-up is short; the
statistical one 30, with all of them.
"""

import re
import traceback
import warnings
from collections import Counter
from typing import Any, NamedTuple

import hypothesis
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.baselines import EPMLClassifier
from skgpmcmc.samplers import Ancillary, Marginal, PseudoMarginal, Sufficient

from ..helpers import REPOSITORY, in_one_test, seeded, short_chains

#: Where an error may be raised on purpose.
_OURS = str(REPOSITORY / "skgpmcmc")
_VALIDATION = re.compile(r"sklearn/(base|utils/(validation|multiclass|_\w+|metaestimators))\.py$")
_MEANT = (ValueError, TypeError, MemoryError, AttributeError)
_DOCUMENTED = (ConvergenceWarning, DataConversionWarning, UserWarning)
#: A message names one of these, or a parameter of the estimator.
_ARGUMENTS = (
    *("X", "y", "sample_weight", "exposure", "noise_variance", "counts", "return_quantiles"),
    *("n_samples", "n_draws", "row", "feature names", "Input", "array", "hyper-parameters"),
)


# --- what cases are made of -----------------------------------------------------------------------


class NoGradient(RBF):
    """A kernel that cannot be differentiated."""

    def __call__(self, X, Y=None, eval_gradient=False):
        if eval_gradient:
            raise NotImplementedError("no gradient")
        return super().__call__(X, Y)


class _Improper(stats.rv_continuous):
    """1 / x, of infinite mass."""

    def _pdf(self, x):
        return 1.0 / x


IMPROPER = _Improper(a=0.0, name="improper")

PRIORS = (
    stats.gamma(2.0),
    stats.invgamma(3.0, scale=3.0),
    stats.halfcauchy(),
    stats.lognorm(1.0),
    stats.pareto(1e-3),
    stats.uniform(0.5, 1.0),
    stats.lognorm(0.1, scale=1e6),
    stats.lognorm(0.1, scale=1e-6),
    stats.lognorm(1e-6),
    stats.lognorm(1e3),
)
ODD_PRIORS = (
    *(IMPROPER(), stats.norm(), stats.gamma(np.nan), stats.gamma(-1.0), stats.gamma),
    *(stats.poisson(3.0), "gamma", None),
)
LAWS = (None, None, "ep", "laplace")
QUICK_SAMPLERS = (
    *([PseudoMarginal(moves="random_walk")] * 3),
    *("marginal", "sa", "aa", "asis", "surr", "khr"),
    Ancillary(hyper="slice", latent="elliptical_slice"),
    Sufficient(hyper="hmc", target_acceptance=0.9),
)
#: Those that need neither one latent function nor a certain likelihood.
ANY_LIKELIHOOD = QUICK_SAMPLERS[:3]
SLOW_SAMPLERS = ("pm", "collapsed")
#: Those whose set-up makes tens of thousands of evaluations, whatever the likelihood.
MAPPED_SAMPLERS = ("discretizing", "tempered")
QUICK = {
    **{"n_chains": 2, "n_warmup": 2, "n_draws": 5, "target_ess": None, "max_predict_draws": 3},
    **{"n_importance": 4, "random_state": 0},
}
#: Kinds of targets, and values of the parameters that not all estimators have; the first is usual.
ESTIMATORS: dict[type, tuple[str, dict[str, tuple[Any, ...]]]] = {
    BayesianGPClassifier: (
        "classes",
        {"likelihood": ("probit", "logit"), "multi_class": ("one_vs_rest", "softmax")},
    ),
    BayesianGPRegressor: (
        "real",
        {
            "likelihood": ("gaussian", "student_t"),
            "alpha": (0.0, 0.1),
            "normalize_y": (True, False),
        },
    ),
    BayesianGPCountRegressor: (
        "counts",
        {"likelihood": ("poisson", "negative_binomial"), "center": (True, False)},
    ),
    BayesianGPOrdinalClassifier: ("ordered", {"class_order": (None, [0, 1, 2, 3])}),
    BayesianGPVolatilityRegressor: ("real", {"center": (True, True, False)}),
    EPMLClassifier: ("two", {"likelihood": ("probit", "logit")}),
}
ODD_VALUES = ("a", -1, 0, 1.5, np.nan, np.inf, None, True, [], {}, 10**30)
SCALES = (1.0, 1.0, 1.0, 1e-200, 1e-30, 1e-8, 1e8, 1e30, 1e150, 1e300)

numbers = st.sampled_from((1.0, 0.3, 5.0, 1e-3, 1e3))
bounds = st.sampled_from(((1e-5, 1e5), (1e-5, 1e5), "fixed"))


def kernels(d):
    lengths = numbers | st.just(np.full(d, 0.5))
    leaves = st.one_of(
        st.builds(RBF, lengths, bounds),
        st.builds(Matern, lengths, bounds, st.sampled_from((0.5, 1.5, 2.5, np.inf, 0.7))),
        st.builds(RationalQuadratic, numbers, numbers, bounds),
        st.builds(ExpSineSquared, numbers, numbers, bounds),
        st.builds(DotProduct, numbers, bounds),
        st.builds(WhiteKernel, numbers, bounds),
        st.builds(ConstantKernel, numbers, bounds),
        st.builds(PairwiseKernel, metric=st.sampled_from(("laplacian", "polynomial", "cosine"))),
        st.builds(NoGradient, numbers),
    )

    def more(kernel):
        pairs = st.tuples(kernel, kernel)
        return st.one_of(
            pairs.map(lambda two: two[0] + two[1]),
            pairs.map(lambda two: two[0] * two[1]),
            kernel.map(lambda one: one**2),
        )

    return st.recursive(leaves, more, max_leaves=3)


ODD_KERNELS = (
    *("RBF", RBF, CompoundKernel([RBF(), RBF()]), RBF(np.ones(7)), ConstantKernel(-1.0) * RBF()),
    *(RBF(1e-200), RBF(np.nan), ConstantKernel(1e200) * RBF(), ConstantKernel(0.0) * RBF()),
)

#: What may be done to a column, given the others.
TWISTS = (
    lambda X, rng: np.full(len(X), 3.0),
    lambda X, rng: X[:, 0],
    lambda X, rng: X.sum(axis=1),
    lambda X, rng: (X[:, -1] > 0.0).astype(float),
    lambda X, rng: 1e8 * X[:, -1],
    lambda X, rng: 1e-8 * X[:, -1] + 1.0,
    lambda X, rng: 1e150 * X[:, -1],
    lambda X, rng: 1e-250 * X[:, -1],
)


def names(X):
    return [f"x{j}" for j in range(X.shape[1])]


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def single(X):
    return np.clip(X, -1e38, 1e38).astype(np.float32)


def with_category(X):
    table = pd.DataFrame(X, columns=names(X))
    table["x0"] = pd.Categorical(["red", "blue"] * len(X))[: len(X)]
    return table


def with_missing(X):
    table = pd.DataFrame(X, columns=names(X)).convert_dtypes()
    table.iloc[0, 0] = pd.NA
    return table


#: The same table, differently held.
HOLDERS = (
    *(lambda X: X, lambda X: X, single, read_only, np.asfortranarray, np.ndarray.tolist),
    *(lambda X: np.clip(X, -1e9, 1e9).astype(int), lambda X: X > 0.0, lambda X: X.astype(object)),
    lambda X: pd.DataFrame(X, columns=names(X)),
    lambda X: pd.DataFrame(X, columns=names(X)).convert_dtypes(),
    lambda X: pl.DataFrame(X, schema=names(X)),
)
ODD_TABLES = (
    *(sparse.csr_array, with_category, with_missing, lambda X: X.astype(complex), lambda X: X[:0]),
    *(lambda X: X[:, 0], lambda X: X[None], lambda X: X[:, :0], lambda X: "a", lambda X: None),
    *(lambda X: np.where(X > 0, np.nan, X), lambda X: np.full_like(X, np.inf), lambda X: X[1:]),
    lambda X: pd.DataFrame(X, columns=["x"] * X.shape[1]),
    lambda X: pl.DataFrame(X, schema=names(X)).with_columns(x0=pl.lit(None)),
)
ODD_ROWS = (
    *(lambda n: ["a"] * n, lambda n: [None] * n, lambda n: np.full(n, np.nan)),
    *(lambda n: -np.ones(n), lambda n: np.ones(n + 1), lambda n: np.ones((n, 1))),
    *(lambda n: np.full(n, 1e300), lambda n: np.full(n, 1e-300), lambda n: 3.0, lambda n: "a"),
    *(lambda n: pd.array([1, pd.NA] * n, dtype="Int64")[:n], np.zeros, np.ones),
)


def classes_of(X, rng):
    """Labels: separable, alternating, with a single positive, of three and more; and their type."""
    first = X[:, 0] if np.ptp(X[:, 0] / 2.0) > 0.0 else np.arange(len(X))
    kinds = (
        (first > first.min()).astype(int),
        np.arange(len(X)) % 2,
        (np.arange(len(X)) == 0).astype(int),
        rng.permutation(np.arange(len(X)) % 3),
    )
    y = kinds[rng.integers(4)]
    held = (y, y, y.astype(float), y.astype(str), y > 0, pd.Series(y, dtype="category"))
    return held[rng.integers(6)]


TARGETS = {
    "classes": classes_of,
    "two": lambda X, rng: np.arange(len(X)) % 2,
    "ordered": lambda X, rng: np.arange(len(X)) % int(rng.integers(2, 5)),
    "counts": lambda X, rng: rng.poisson(
        rng.choice([0.0, 1e-3, 1.0, 1e3, 1e9], p=[0.1, 0.1, 0.5, 0.2, 0.1]), len(X)
    ),
    "real": lambda X, rng: (
        rng.choice(SCALES) * rng.standard_normal(len(X)) * rng.choice([0.0, 1.0], p=[0.1, 0.9])
        + rng.choice([0.0, 150.0, 1e8], p=[0.8, 0.1, 0.1])
    ),
}


class Case(NamedTuple):
    """What is fitted to what, and predicted."""

    estimator: Any
    X: Any
    y: Any
    arguments: dict[str, Any]
    X_new: Any


@st.composite
def cases(draw, kind, samplers):
    """Cases of an estimator; one in four has one thing that is odd."""
    targets, own = ESTIMATORS[kind]
    one = () if targets in ("classes", "two", "ordered") else (1,)
    n, d = draw(st.sampled_from((8, 12, 5, 2, *one))), draw(st.sampled_from((2, 1, 3, 15)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.standard_normal((n, d))
    for twist in draw(st.lists(st.sampled_from(TWISTS), max_size=2)):
        X[:, rng.integers(d)] = twist(X, rng)
    if draw(st.booleans()):
        X[: n // 3] = X[0]
    known = kind().get_params(deep=False)
    params = {name: draw(st.sampled_from(values)) for name, values in own.items()}
    if draw(st.booleans()):
        params["kernel"] = draw(kernels(d))
    elif draw(st.booleans()):
        names = ("constant_value", "length_scale")
        some = st.dictionaries(st.sampled_from(names), st.sampled_from(PRIORS), min_size=1)
        params["priors"] = draw(some)
    else:
        params["ard"] = draw(st.booleans())
    sampler, law = draw(st.sampled_from(samplers)), draw(st.sampled_from(LAWS))
    if params.get("multi_class") == "softmax" or params.get("likelihood") == "student_t":
        params |= {"sampler": draw(st.sampled_from(ANY_LIKELIHOOD)), "approximation": "laplace"}
        params |= {"alpha": 0.0}
    else:
        params |= {"sampler": sampler} | ({} if law is None else {"approximation": law})
    if sampler == "collapsed" and kind is not BayesianGPRegressor:
        params["sampler"] = "pm"
    X_new = np.clip(draw(st.sampled_from(SCALES)) * np.clip(X[:2], -1e8, 1e8), -1e300, 1e300)
    arguments, y = {}, TARGETS[targets](X, rng)
    if kind is not EPMLClassifier and draw(st.booleans()):
        arguments["sample_weight"] = rng.choice([rng.uniform(size=n), rng.integers(0, 3, n)])
    if kind is BayesianGPCountRegressor and draw(st.booleans()):
        arguments["exposure"] = rng.uniform(0.5, 2.0, n)
    if params.get("likelihood") == "gaussian" and draw(st.booleans()):
        arguments["noise_variance"] = rng.uniform(size=n)
    holder = draw(st.sampled_from(HOLDERS))
    X, X_new = holder(X), holder(X_new)
    if draw(st.integers(0, 3)) == 3:
        place = draw(st.sampled_from(("X", "y", "argument", "kernel", "prior", "value", "new")))
        rows = draw(st.sampled_from(ODD_ROWS))(n)
        if place == "X":
            X = draw(st.sampled_from(ODD_TABLES))(np.array(X, dtype=float))
        elif place == "y":
            y = rows
        elif place == "new":
            X_new = draw(st.sampled_from(ODD_TABLES))(np.array(X_new, dtype=float))
        elif place == "kernel":
            params["kernel"] = draw(st.sampled_from(ODD_KERNELS))
        elif place == "prior":
            at = draw(st.sampled_from(("length_scale", "k1__nothing", 3)))
            params["priors"] = {at: draw(st.sampled_from(ODD_PRIORS))}
        elif place == "argument" and arguments:
            arguments[sorted(arguments)[-1]] = rows
        else:
            # A checkpoint of an odd name would be a file of that name.
            odd = draw(st.sampled_from(sorted(known.keys() - {"checkpoint"})))
            params[odd] = draw(st.sampled_from(ODD_VALUES))
    params = {name: value for name, value in {**QUICK, **params}.items() if name in known}
    return Case(kind(**params), X, y, arguments, X_new)


# --- what is called, and what comes out -----------------------------------------------------------


def calls(estimator, X_new, y):
    """Names and arguments of the methods to call on a fitted estimator."""
    wanted = [("predict", (X_new,), {})]
    if hasattr(estimator, "predict_proba"):
        wanted.append(("predict_proba", (X_new,), {}))
    if isinstance(estimator, EPMLClassifier):
        return wanted
    wanted.append(("log_predictive_density", (X_new, y[:2]), {}))
    if not hasattr(estimator, "estimators_"):
        wanted.append(("latent_mean_and_variance", (X_new,), {}))
        wanted.append(("sample_latent", (X_new, 2), {"random_state": 0}))
    wanted.append(("loo", (), {}))
    if isinstance(estimator, BayesianGPRegressor):
        wanted.append(("predict", (X_new,), {"return_std": True, "return_quantiles": [0.1, 0.9]}))
        wanted.append(("sample_y", (X_new, 2), {"random_state": 0}))
    if isinstance(estimator, BayesianGPCountRegressor):
        wanted.append(("predict_count_proba", (X_new, [0, 1, 10**6]), {}))
    return wanted


def is_sound(method, result):
    """Whether a result consists of finite numbers, and probabilities are some."""
    if method == "loo":
        result = (result.elpd, result.elpd_i)
    for part in result if isinstance(result, tuple) else (result,):
        array = np.asarray(part)
        if array.dtype.kind not in "fiu":
            continue
        if method == "log_predictive_density":  # of which minus infinity is one
            array = np.where(np.isneginf(array), 0.0, array)
        if not np.isfinite(array).all():
            return False
        if method == "predict_count_proba" and not ((array >= 0.0) & (array <= 1 + 1e-9)).all():
            return False
        if method == "predict_proba":
            total = array.sum(axis=1)
            if not (array >= 0.0).all() or not np.allclose(total, 1.0, rtol=0.0, atol=1e-9):
                return False
    return True


def why_not_meant(error, parameters):
    """What is wrong with an error; None if it is raised on purpose, and says what is wrong."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}"
    if isinstance(error, RuntimeError) and str(error).startswith("No chain can start"):
        return None  # documented: it names the part of the model and theta
    meant = frames[-1].filename.startswith(_OURS) or _VALIDATION.search(frames[-1].filename)
    if not isinstance(error, _MEANT) or not meant:
        return f"a raw {type(error).__name__} from {where}: {error}"
    if not any(
        re.search(rf"(?<!\w){re.escape(n)}", str(error)) for n in (*_ARGUMENTS, *parameters)
    ):
        return f"an error that names no argument, from {where}: {error}"
    return None


def attempt(what, function, parameters, *arguments, **named):
    """Return the result of a call, or None after an error that is meant; what is not fails."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(*arguments, **named)
        except Exception as error:
            fault, result = why_not_meant(error, parameters), None
            if fault is not None:
                pytest.fail(f"{what}: {fault}")
    stray = [w for w in caught if not issubclass(w.category, _DOCUMENTED)]
    assert not stray, f"{what}: {[(str(w.message), w.filename, w.lineno) for w in stray]}"
    assert result is None or is_sound(what, result), f"{what}: {result}"
    return result


def examine(case):
    """Run a case; returns whether it was sampled."""
    parameters = sorted(case.estimator.get_params(deep=False))
    fitted = attempt("fit", case.estimator.fit, parameters, case.X, case.y, **case.arguments)
    if fitted is None:
        return False
    for method, arguments, named in calls(fitted, case.X_new, case.y):
        attempt(method, getattr(fitted, method), parameters, *arguments, **named)
    return True


def run(kind, n_cases, samplers, seed, least_share=0.5):
    """Examine so many cases; at least that share of them is sampled."""
    counts = Counter()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=n_cases,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=True,
    )
    @hypothesis.given(cases(kind, samplers))
    def sound(case):
        counts[examine(case)] += 1

    sound()
    assert counts[True] >= least_share * counts.total()


every_estimator = pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)


@every_estimator
def test_random_cases_give_finite_results_or_named_errors(kind):
    run(kind, 8, QUICK_SAMPLERS, seed=0, least_share=0.25)  # a half of so few might be missed


@every_estimator
@pytest.mark.statistical
def test_many_random_cases_give_finite_results_or_named_errors(kind):
    mapped = MAPPED_SAMPLERS if kind is BayesianGPClassifier else ()
    run(kind, 30, (*(QUICK_SAMPLERS * 2), *SLOW_SAMPLERS, *mapped), seed=seeded(0))


# --- by name --------------------------------------------------------------------------------------

PLAIN = np.random.default_rng(0).standard_normal((8, 2))
FIRST, HALVES = PLAIN[:, :1], np.arange(8) % 2


def beside(column):
    return np.column_stack([PLAIN, column])


def ramp(n):
    return np.linspace(0.0, 1.0, n)[:, None]


#: What is odd, and can be fitted all the same.
STRANGE = {
    "constant column": (BayesianGPClassifier, beside(np.full(8, 3.0)), HALVES),
    "duplicated column": (BayesianGPClassifier, beside(PLAIN[:, 0]), HALVES),
    "huge column": (BayesianGPClassifier, beside(1e30 * PLAIN[:, 0]), HALVES),
    "huge columns": (BayesianGPRegressor, 1e30 * PLAIN, PLAIN[:, 0]),
    "one huge value": (BayesianGPClassifier, beside(1e20 * (np.arange(8) == 3)), HALVES),
    "tiny column": (BayesianGPClassifier, beside(1e-200 * PLAIN[:, 0]), HALVES),
    "collinear columns": (BayesianGPRegressor, beside(PLAIN.sum(axis=1)), PLAIN[:, 0]),
    "one-hot columns": (BayesianGPRegressor, np.eye(8)[:, :4], PLAIN[:, 0]),
    "more columns than rows": (BayesianGPRegressor, np.tile(PLAIN, 20), PLAIN[:, 0]),
    "equal rows": (BayesianGPClassifier, np.zeros((8, 2)), HALVES),
    "one row": (BayesianGPRegressor, PLAIN[:1], [1.0]),
    "one count": (BayesianGPCountRegressor, PLAIN[:1], [3]),
    "two rows": (BayesianGPClassifier, PLAIN[:2], ["a", "b"]),
    "separable": (BayesianGPClassifier, FIRST, (FIRST[:, 0] > 0.0).astype(int)),
    "single positive": (BayesianGPClassifier, ramp(100), (np.arange(100) == 7).astype(int)),
    "large counts": (BayesianGPCountRegressor, PLAIN, np.full(8, 10**9) + np.arange(8)),
    "zero counts": (BayesianGPCountRegressor, PLAIN, np.zeros(8)),
    "constant targets": (BayesianGPRegressor, PLAIN, np.full(8, 1e8)),
    "two levels": (BayesianGPOrdinalClassifier, PLAIN, HALVES),
    "tiny returns": (BayesianGPVolatilityRegressor, PLAIN, 1e-150 * PLAIN[:, 0]),
}


def is_sampled(kind, X, y, **changes):
    settings = {**QUICK, "sampler": QUICK_SAMPLERS[0], **changes}
    return examine(Case(kind(**settings), X, np.asarray(y), {}, X[:2] if len(X) else X))


@in_one_test("name", STRANGE)
def test_strange_data_give_finite_results(name):
    assert is_sampled(*STRANGE[name])


@pytest.mark.statistical
@pytest.mark.parametrize(
    "sampler",
    [QUICK_SAMPLERS[0], Marginal(moves="random_walk"), "asis", "surr", "khr"],
    ids=["pm", "marginal", "asis", "surr", "khr"],
)
def test_single_positive_label_in_a_thousand_gives_finite_results(sampler):
    y = (np.arange(1000) == 7).astype(int)
    assert is_sampled(BayesianGPClassifier, ramp(1000), y, sampler=sampler, n_chains=1)


@in_one_test("prior", PRIORS, ids=[f"{p.dist.name}{p.args}" for p in PRIORS])
def test_strange_priors_give_finite_results(prior):
    priors = {"length_scale": prior}
    assert is_sampled(BayesianGPRegressor, PLAIN, PLAIN[:, 0], priors=priors)


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")  # SciPy's own, of draws
@short_chains()
def test_improper_prior_gives_draws_and_no_evidence():
    """The posterior may be proper all the same; the evidence is not."""
    settings = {**QUICK, "sampler": "asis", "priors": {"length_scale": IMPROPER()}}
    assert is_sampled(BayesianGPRegressor, PLAIN, PLAIN[:, 0], **settings)
    model = BayesianGPRegressor(**settings).fit(PLAIN, PLAIN[:, 0])
    message = r"priors\['k1__k2__length_scale'\] has a mass of 100 and not"
    with pytest.raises(ValueError, match=message):
        model.log_evidence()


@in_one_test("holder", HOLDERS, ids=[f"holder {i}" for i in range(len(HOLDERS))])
def test_tables_of_all_kinds_give_finite_results(holder):
    X = holder(PLAIN)
    assert examine(
        Case(BayesianGPRegressor(**QUICK, sampler="asis"), X, PLAIN[:, 0], {}, holder(PLAIN[:2]))
    )


@in_one_test("table", ODD_TABLES, ids=[f"table {i}" for i in range(len(ODD_TABLES))])
def test_tables_without_numbers_are_refused(table):
    case = Case(BayesianGPRegressor(**QUICK), table(PLAIN), PLAIN[:, 0], {}, PLAIN)
    assert not examine(case)


# --- that a fault would be noticed ----------------------------------------------------------------


def test_examination_finds_raw_errors_and_errors_without_argument():
    with pytest.raises(np.linalg.LinAlgError) as raw:
        np.linalg.cholesky(-np.eye(2))
    assert "raw LinAlgError" in why_not_meant(raw.value, [])
    with pytest.raises(ValueError, match="n_draws") as good:
        BayesianGPRegressor(n_draws=0).fit([[0.0], [1.0]], [0.0, 1.0])
    assert why_not_meant(good.value, ["n_draws"]) is None
    good.value.args = ("something is wrong, nobody knows what",)
    assert "names no argument" in why_not_meant(good.value, ["n_draws"])


@in_one_test(
    ("method", "result", "sound"),
    [
        ("predict", np.ones(3), True),
        ("predict", (np.ones(3), np.array([np.nan])), False),
        ("predict_proba", np.array([[0.25, 0.75]]), True),
        ("predict_proba", np.array([[0.25, 0.7]]), False),
        ("predict_proba", np.array([[-0.1, 1.1]]), False),
        ("log_predictive_density", np.array([-np.inf]), True),
        ("log_predictive_density", np.array([np.inf]), False),
    ],
)
def test_examination_finds_results_that_are_not_finite(method, result, sound):
    assert is_sound(method, result) is sound


def test_examination_finds_stray_warnings():
    with pytest.raises(AssertionError, match="divide by zero"):
        attempt("a call", lambda: np.log(np.zeros(1)), [])


# --- found by these tests -------------------------------------------------------------------------


def test_baseline_names_the_row_at_which_predictions_overflow():
    model = EPMLClassifier(ExpSineSquared()).fit(np.arange(4.0)[:, None], [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"at row 1 of X has mean nan .* check the units"):
        model.predict([[0.5], [1e300]])
