"""A fuzzer: random estimators, kernels, priors, data and parameters; nothing odd may come out.

``python -m tests.fuzz --runs 1000`` prints every fault with the case that shows it, and, for
reading, the messages of all errors that count as good ones. ``--case K`` runs one case again.

An outcome is good if it is a finite result, with warnings of the documented kinds only, or an error
that this package (or scikit-learn's validation) raises on purpose, and whose message names an
argument.
"""

import argparse
import collections
import re
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPOrdinalClassifier,
    BayesianGPPoissonRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.baselines import EPMLClassifier
from skgpmcmc.samplers import Ancillary, PseudoMarginal, Sufficient

#: Seconds after which a case counts as one that hangs.
TIME_LIMIT = 120
#: Where an error may be raised on purpose.
_OURS = (f"{Path(__file__).resolve().parents[1] / 'skgpmcmc'}",)
_VALIDATION = (
    "sklearn/utils/validation.py",
    "sklearn/utils/multiclass.py",
    "sklearn/utils/_array_api.py",
    "sklearn/utils/_param_validation.py",
    "sklearn/base.py",
    "sklearn/utils/metaestimators.py",
)
_MEANT = (ValueError, TypeError, MemoryError, AttributeError, NotFittedError)
_DOCUMENTED = (ConvergenceWarning, DataConversionWarning, UserWarning, FutureWarning)
#: A message names one of these, or a parameter of the estimator.
_ARGUMENTS = (
    *("X", "y", "sample_weight", "exposure", "noise_variance", "counts", "return_quantiles"),
    *("sampler", "likelihood", "thresholds", "n_samples", "n_draws", "rows", "row", "fit", "loo"),
    *("feature names", "Input", "kernel", "hyper-parameters", "classes", "array", "sample(s)"),
)


class Fault(NamedTuple):
    """What must not happen."""

    case: int
    kind: str
    text: str


# --- what cases are made of -----------------------------------------------------------------------

ODD_VALUES = ("a", "", -1, 0, 1.5, np.nan, np.inf, -np.inf, None, True, [], {}, (1, 2), 10**30)
ODD_ROWS = (
    lambda n, rng: ["a"] * n,
    lambda n, rng: [None] * n,
    lambda n, rng: pd.array([1, pd.NA] * n, dtype="Int64")[:n],
    lambda n, rng: np.full(n, np.nan),
    lambda n, rng: np.zeros(n),
    lambda n, rng: -np.ones(n),
    lambda n, rng: np.ones(n + 1),
    lambda n, rng: np.ones((n, 1)),
    lambda n, rng: np.full(n, 1e300),
    lambda n, rng: np.full(n, 1e-300),
    lambda n, rng: 3.0,
    lambda n, rng: "a",
)
SCALES = (1e-300, 1e-200, 1e-30, 1e-8, 1.0, 1.0, 1.0, 1.0, 1e3, 1e8, 1e30, 1e150, 1e200, 1e300)
DISTRIBUTIONS = (
    stats.gamma(2.0),
    stats.invgamma(3.0, scale=3.0),
    stats.halfcauchy(),
    stats.lognorm(1.0),
    stats.pareto(0.1),
    stats.pareto(1e-3),
    stats.uniform(0.5, 1.0),
    stats.norm(),
    stats.gamma(np.nan),
    stats.gamma(-1.0),
    stats.lognorm(1e3),
    stats.lognorm(1e-6),
    stats.gamma,
    stats.poisson(3.0),
    "gamma",
    None,
)


def pick(rng, items):
    return items[int(rng.integers(len(items)))]


def make_kernel(rng, d, tame):
    def number():
        usual = (1.0, 1.0, 0.3, 5.0, 1e-3, 1e3)
        return pick(
            rng, usual if tame else (*usual, 1e-8, 1e8, 1e-200, 1e200, 0.0, -1.0, np.nan, "a")
        )

    def bounds():
        return pick(rng, ((1e-5, 1e5), (1e-5, 1e5), "fixed"))

    def lengths():
        usual = (number(), np.ones(d), np.full(d, 0.5))
        return pick(rng, usual if tame else (*usual, np.ones(d + 1), np.ones((d, 1))))

    def one():
        kind = int(rng.integers(7))
        if kind == 0:
            return RBF(lengths(), bounds())
        if kind == 1:
            return Matern(
                lengths(), bounds(), nu=pick(rng, (0.5, 1.5, 2.5, np.inf, 0.7) if tame else (0, -1))
            )
        if kind == 2:
            return RationalQuadratic(number(), number(), bounds())
        if kind == 3:
            return ExpSineSquared(number(), number(), bounds())
        if kind == 4:
            return DotProduct(number(), bounds())
        if kind == 5:
            return WhiteKernel(number(), bounds())
        return ConstantKernel(number(), bounds()) * RBF(lengths(), bounds())

    kernel = one()
    for _ in range(int(rng.integers(0, 3))):
        kernel = kernel + one() if rng.uniform() < 0.5 else kernel * one()
    return pick(rng, (kernel, kernel, kernel**2) if tame else (kernel, kernel, "RBF", RBF))


def make_priors(rng, names, tame):
    if tame:  # of the default kernel, and legal
        return {pick(rng, names[:2]): pick(rng, DISTRIBUTIONS[:7])}
    keys = [*names, *names, "k1__nothing", 3]
    return {pick(rng, keys): pick(rng, DISTRIBUTIONS) for _ in range(int(rng.integers(1, 3)))}


def make_X(rng, n, d, tame):
    X = rng.standard_normal((n, d))
    if tame and rng.uniform() < 0.5:
        X *= pick(rng, (1e-8, 1e-3, 1e3, 1e8))
    if tame:
        X[:, 0] = pick(rng, (X[:, 0], X[:, 0], X[:, 0], 1.0))
        X[: n // 3] = X[0]
        return pick(rng, (X, pd.DataFrame(X, columns=[f"x{j}" for j in range(d)])))
    if rng.uniform() < 0.3:
        X *= pick(rng, SCALES)
    if rng.uniform() < 0.1:
        X += pick(rng, (1e3, 1e8, 1e16, 1e300))
    if rng.uniform() < 0.15:
        X[:, 0] = pick(rng, (0.0, 1.0, 1e10))
    if rng.uniform() < 0.15:
        X[: n // 2] = X[0]
    if rng.uniform() < 0.05:
        X[0, 0] = pick(rng, (np.nan, np.inf, 1e308, -1e308))
    if rng.uniform() < 0.15:
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(d)])
        if rng.uniform() < 0.3:
            frame.columns = ["x"] * d
        if rng.uniform() < 0.2:
            frame = frame.astype(object)
            frame.iloc[0, 0] = pick(rng, ("a", None, pd.NA, [1.0]))
        return frame
    if rng.uniform() < 0.05:
        return pick(
            rng, (X.tolist(), X.astype(np.float32), X[:, 0], X[None], X.astype(complex), "a")
        )
    return X


def make_y(rng, kind, n, tame):
    f = rng.standard_normal(n)
    if kind == "classes":
        k = int(pick(rng, (2, 2, 2, 3, 4)))
        y = np.arange(n) % k
        rng.shuffle(y)
        y = pick(
            rng,
            (y, y, y, y.astype(float), y.astype(str), y > 0, np.array(["b", 1] * n, object)[:n]),
        )
    elif kind == "counts":
        sizes = (1, 1, 1000) if tame else (1, 0, 1000, 10**9)
        y = rng.poisson(np.exp(f)).astype(float) * pick(rng, sizes)
    else:
        y = f * pick(rng, SCALES) + pick(rng, (0.0, 0.0, 0.0, 150.0, 1e8, 1e200))
    if not tame and rng.uniform() < 0.12:
        y = pick(rng, (*ODD_ROWS, lambda n, rng: np.where(np.arange(n) < 1, np.nan, 1.0)))(n, rng)
    return y


QUICK = {"n_chains": 2, "n_warmup": 4, "n_draws": 24, "random_state": 0}
LEGAL_SAMPLERS = (
    *("pm", "marginal", "sa", "aa", "asis", "surr", "khr"),
    *([PseudoMarginal(moves="random_walk")] * 4),
    PseudoMarginal(moves="trajectories"),
    Ancillary(hyper="slice", latent="elliptical_slice"),
    Sufficient(hyper="hmc", target_acceptance=0.9),
)
SAMPLERS = (*LEGAL_SAMPLERS, "collapsed", Sufficient(conjugate=True), PseudoMarginal(defensive=2.0))
#: Estimator, its kind of targets, and values of the parameters that not all of them have.
ESTIMATORS = (
    (
        BayesianGPClassifier,
        "classes",
        {
            "likelihood": ("probit", "logit", "poisson"),
            "multi_class": ("one_vs_rest", "softmax", "softmax_separate"),
        },
    ),
    (
        BayesianGPRegressor,
        "real",
        {
            "likelihood": ("gaussian", "student_t", "probit"),
            "alpha": (0.0, 0.1, 1e-300, 1e300, -1.0, np.nan),
            "normalize_y": (True, False),
        },
    ),
    (
        BayesianGPPoissonRegressor,
        "counts",
        {
            "likelihood": ("poisson", "negative_binomial", "logit"),
            "center": (True, False),
            "fractional_counts": ("error", "allow"),
        },
    ),
    (
        BayesianGPOrdinalClassifier,
        "classes",
        {
            "class_order": (None, [0, 1], [2, 1, 0], ["0", "1"]),
            "thresholds": (None, [0.0], [np.nan], [1.0, 0.0], "a"),
        },
    ),
    (BayesianGPVolatilityRegressor, "real", {"center": (True, False)}),
    (EPMLClassifier, "classes", {}),
)
NAMES = ("k1__constant_value", "k2__length_scale", "noise_scale", "shape", "length_scale")


def make_estimator(rng, d, tame):
    kind, targets, own = pick(rng, ESTIMATORS)
    known = kind().get_params(deep=False)
    params = {name: value for name, value in QUICK.items() if name in known}
    if rng.uniform() < 0.35:
        params["kernel"] = make_kernel(rng, d, tame)
    if rng.uniform() < 0.25 and not (tame and "kernel" in params):
        params["priors"] = make_priors(rng, NAMES, tame)
    for name, values in own.items():
        if rng.uniform() < 0.4:
            params[name] = pick(rng, values[:2] if tame else values)
    if rng.uniform() < 0.6:
        params["sampler"] = pick(rng, LEGAL_SAMPLERS if tame else SAMPLERS)
    if rng.uniform() < 0.3:
        legal = ("ep", "laplace", "auto")
        params["approximation"] = pick(rng, legal if tame else (*legal, EP(), Laplace(), "sod"))
    if rng.uniform() < 0.3:
        params["n_importance"] = pick(rng, (1, 2, 16, "auto"))
    if rng.uniform() < 0.2:
        params["target_ess"] = pick(rng, (5.0, 1e9))
    if rng.uniform() < 0.2:
        params["max_predict_draws"] = pick(rng, (1, 3, None))
    if rng.uniform() < 0.1:
        params["ard"] = not (tame and "kernel" in params)
    if not tame and rng.uniform() < 0.15:
        # A checkpoint of an odd name would be a file of that name.
        params[pick(rng, sorted(known.keys() - {"checkpoint"}))] = pick(rng, ODD_VALUES)
    return kind(**{k: v for k, v in params.items() if k in known}), targets


def fit_arguments(rng, estimator, n, tame):
    arguments, odd = {}, () if tame else ODD_ROWS
    if isinstance(estimator, EPMLClassifier):
        return arguments
    if rng.uniform() < 0.2:
        weights = (lambda n, rng: rng.integers(0, 3, n), lambda n, rng: rng.uniform(size=n))
        arguments["sample_weight"] = pick(rng, (*weights, *weights, *odd))(n, rng)
    for kind, name in (
        (BayesianGPPoissonRegressor, "exposure"),
        (BayesianGPRegressor, "noise_variance"),
    ):
        if isinstance(estimator, kind) and rng.uniform() < 0.25:
            usual = (lambda n, rng: rng.uniform(0.5, 2.0, n),) * 4
            arguments[name] = pick(rng, (*usual, *odd))(n, rng)
    return arguments


def make_X_new(rng, X, d, tame):
    m = int(rng.integers(1, 4))
    if rng.uniform() < 0.2 and isinstance(X, np.ndarray) and X.ndim == 2:
        return X[:m]
    X_new = rng.standard_normal((m, d))
    if rng.uniform() < 0.4:
        X_new *= pick(rng, SCALES)
    if not tame and rng.uniform() < 0.05:
        X_new[0, 0] = pick(rng, (np.nan, np.inf))
    if not tame and rng.uniform() < 0.05:
        X_new = pick(rng, (X_new[:, :-1], X_new[0], X_new[:0], "a"))
    return (
        pd.DataFrame(X_new, columns=X.columns)
        if (
            isinstance(X, pd.DataFrame)
            and isinstance(X_new, np.ndarray)
            and X_new.shape[1:] == (d,)
        )
        else X_new
    )


# --- what is called, and what comes out -----------------------------------------------------------


def calls(rng, estimator, X_new, y):
    """Names and arguments of the methods to call on a fitted estimator."""
    wanted = [("predict", (X_new,), {})]
    if hasattr(estimator, "predict_proba"):
        wanted.append(("predict_proba", (X_new,), {}))
    if isinstance(estimator, EPMLClassifier):
        return wanted
    m = len(X_new)
    wanted += [
        ("latent_mean_and_variance", (X_new,), {}),
        ("sample_latent", (X_new, pick(rng, (1, 2, 0, "a", 1.5))), {"random_state": 0}),
        ("log_predictive_density", (X_new, y[:m] if hasattr(y, "__getitem__") else y), {}),
        ("loo", (), {}),
    ]
    if isinstance(estimator, BayesianGPRegressor):
        wanted += [
            ("predict", (X_new,), {"return_std": True}),
            (
                "predict",
                (X_new,),
                {"return_quantiles": pick(rng, ([0.1, 0.9], [0.0], [2.0], "a", 0.5))},
            ),
            ("sample_y", (X_new, 2), {"random_state": 0}),
        ]
    if isinstance(estimator, BayesianGPPoissonRegressor):
        counts = pick(rng, ([0, 1, 2], [10**6], [-1], [0.5], "a", [np.nan], [10**300]))
        wanted.append(("predict_count_proba", (X_new, counts), {}))
    return wanted


def finite(result, method):
    """Whether a result consists of finite numbers; a log density may be minus infinity."""
    parts = result if isinstance(result, tuple) else (result,)
    if method == "loo":
        parts = (result.elpd, result.elpd_i)
    for part in parts:
        array = np.asarray(part)
        if array.dtype.kind not in "fiu":
            continue
        if method == "log_predictive_density":
            if np.isnan(array).any() or np.isposinf(array).any():
                return False
        elif not np.isfinite(array).all():
            return False
        if method in ("predict_proba", "predict_count_proba") and (array > 1.0 + 1e-9).any():
            return False
    return True


def judged_error(case, what, error, parameters):
    """A fault, or None for an error raised on purpose that says what is wrong."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1].filename
    text = f"{what}: {type(error).__name__}: {error}"
    meant = last.startswith(_OURS) or last.endswith(_VALIDATION)
    if isinstance(error, RuntimeError) and str(error).startswith("No chain can start"):
        return None  # documented: it names the part of the model and theta
    if not isinstance(error, _MEANT) or not meant:
        where = f"{frames[-1].filename}:{frames[-1].lineno}"
        ours = [f for f in frames if f.filename.startswith(_OURS)]
        via = f" via {Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""
        return Fault(case, "raw error", f"{text} ({where}{via})")
    names = [*_ARGUMENTS, *parameters]
    if len(str(error)) < 20 or not any(
        re.search(rf"(?<!\w){re.escape(n)}", str(error)) for n in names
    ):
        return Fault(case, "unhelpful message", text)
    return None


def described(estimator, **arguments):
    """A case in words; scikit-learn's kernels cannot always show themselves."""
    lines = [type(estimator).__name__]
    for name, value in {**estimator.get_params(deep=False), **arguments}.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of kernels with negative constants
                lines.append(f"  {name} = {value!r}")
        except (ValueError, TypeError):
            lines.append(f"  {name}: a {type(value).__name__} that cannot be shown")
    return "\n".join(lines)


class _TooLong(BaseException):
    pass


def _alarm(*_):
    raise _TooLong


def run_case(seed, case, report=None):
    """Run one case; returns its faults, and says to `report` what was good."""
    rng = np.random.default_rng([seed, case])
    n, d = int(pick(rng, (1, 2, 5, 8, 12, 20))), int(rng.integers(1, 4))
    tame = rng.uniform() < 0.6  # legal as far as can be told, and at most large or small
    faults = []
    say = report or (lambda *_: None)

    def attempt(what, function, *arguments, **named):
        """Outcome of a call, or None if it raised."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = function(*arguments, **named)
            except Exception as error:
                fault = judged_error(case, what, error, parameters)
                if fault:
                    faults.append(fault)
                else:
                    say("error", what, f"{type(error).__name__}: {error}")
                return None
            finally:
                for w in {(w.category, str(w.message), w.filename, w.lineno) for w in caught}:
                    category, message, filename, line = w
                    text = f"{category.__name__}: {message}"
                    if issubclass(category, _DOCUMENTED):
                        say("warning", what, text)
                    else:
                        where = f"{what}: {text} ({filename}:{line})"
                        faults.append(Fault(case, "stray warning", where))
        return result

    parameters = sorted(QUICK)
    try:
        estimator, targets = make_estimator(rng, d, tame)
    except (ValueError, TypeError, AttributeError):  # a kernel that scikit-learn refuses to make
        return faults
    parameters = sorted(estimator.get_params(deep=False))
    X, y = make_X(rng, n, d, tame), make_y(rng, targets, n, tame)
    arguments = fit_arguments(rng, estimator, n, tame)
    X_new = make_X_new(rng, X, d, tame)
    say("case", case, described(estimator, X=X, y=y, X_new=X_new, **arguments))
    before = signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(TIME_LIMIT)
    try:
        if attempt("fit", estimator.fit, X, y, **arguments) is None:
            return faults
        for method, positional, named in calls(rng, estimator, X_new, y):
            result = attempt(method, getattr(estimator, method), *positional, **named)
            if result is not None and not finite(result, method):
                faults.append(Fault(case, "not finite", f"{method}{named}: {result!r}"))
    except _TooLong:
        where = "".join(traceback.format_exc().splitlines(keepends=True)[-6:])
        faults.append(Fault(case, "too long", f"more than {TIME_LIMIT} s in\n{where}"))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return faults


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="run this one, and print all that happens")
    args = parser.parse_args(argv)
    if args.case is not None:
        for fault in run_case(args.seed, args.case, report=lambda *parts: print(*parts, sep=": ")):
            print(f"FAULT {fault.kind}: {fault.text}")
        return 0
    messages, clock, n_faults = collections.Counter(), time.perf_counter(), 0
    outcomes = collections.Counter()
    for case in range(args.first, args.first + args.runs):
        told = []
        faults = run_case(args.seed, case, report=lambda *parts, told=told: told.append(parts))
        refused = any(parts[:2] == ("error", "fit") for parts in told)
        outcomes["fault" if faults else "refused by fit" if refused else "fitted"] += 1
        for kind, _, text in told:
            if kind != "case":
                messages[f"{kind}: " + re.sub(r"-?\d[\d.]*(e[-+]?\d+)?", "#", text)[:200]] += 1
        for fault in faults:
            n_faults += 1
            print(f"[{fault.case}] {fault.kind}: {fault.text}", flush=True)
    print(f"\n{args.runs} cases in {time.perf_counter() - clock:.0f} s: {dict(outcomes)}")
    print("\nErrors and warnings that count as good ones:")
    for message, count in sorted(messages.items()):
        print(f"{count:5d}  {message}")
    return 1 if n_faults else 0


if __name__ == "__main__":
    sys.exit(main())
