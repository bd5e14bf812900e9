"""Nothing of our own arithmetic overflows, is divided by zero, or becomes NaN, on ordinary data.

In the tails of wide priors it may, where it is looked for: `tests/properties/test_strange_data.py`
examines what comes out then.
"""

import numpy as np
import pytest
from sklearn.base import clone

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPPoissonRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.chain import segment as work
from skgpmcmc.samplers import DiscretizingChain, Marginal, PseudoMarginal, TemperedTransitions

from ..helpers import seeded, short_chains

RNG = np.random.default_rng(0)
X = RNG.standard_normal((10, 2))
REAL, COUNTS, LABELS = X[:, 0] + 0.1 * RNG.standard_normal(10), RNG.poisson(3, 10), np.arange(10)
CASES = {
    "probit": (BayesianGPClassifier(), LABELS % 2),
    "logit": (BayesianGPClassifier(likelihood="logit"), LABELS % 2),
    "softmax": (BayesianGPClassifier(multi_class="softmax"), LABELS % 3),
    "gaussian": (BayesianGPRegressor(), REAL),
    "student_t": (BayesianGPRegressor(likelihood="student_t"), REAL),
    "poisson": (BayesianGPPoissonRegressor(), COUNTS),
    "negative_binomial": (BayesianGPCountRegressor(), COUNTS),
    "ordinal": (BayesianGPOrdinalClassifier(), LABELS % 3),
    "volatility": (BayesianGPVolatilityRegressor(), REAL),
}
WALK = PseudoMarginal(moves="random_walk")
TRAJECTORIES = PseudoMarginal(moves="trajectories")
#: Every likelihood in predictions from importance draws, and in both parameterizations of f; every
#: other sampler with two likelihoods, and every likelihood with one of them at least.
PAIRS = [
    *((name, WALK) for name in CASES),
    *((name, "asis") for name in CASES if name != "softmax"),
    *(("probit", "marginal"), ("volatility", "marginal")),
    *(("logit", "surr"), ("student_t", "surr")),
    *(("gaussian", "khr"), ("ordinal", "khr")),
    *(("poisson", "sa"), ("student_t", "sa")),
    *(("negative_binomial", "aa"), ("logit", "aa")),
]
#: The other pairs, and samplers whose set-up is long, for those who ask for it.
SLOW_PAIRS = [
    *((name, "pm") for name in CASES),
    *((name, TRAJECTORIES) for name in ("logit", "softmax", "volatility")),
    *((name, "marginal") for name in ("logit", "gaussian", "negative_binomial", "ordinal")),
    ("student_t", Marginal(moves="random_walk")),
    *(("gaussian", sampler) for sampler in ("collapsed", "discretizing", "tempered")),
    ("probit", DiscretizingChain(operator="mh")),
    ("probit", TemperedTransitions(operator="mh")),
    *(
        (name, sampler)
        for name in CASES
        for sampler in ("sa", "aa", "surr", "khr")
        if name != "softmax" and (name, sampler) not in PAIRS
    ),
]


@pytest.fixture
def nothing_is_hidden(monkeypatch):
    """Chains and set-ups stop at the first number that leaves double precision, too."""
    monkeypatch.setattr(work, "_IGNORED_ERRORS", {"over": "raise", "invalid": "raise"})


@short_chains()
def run(name, sampler, seed):
    estimator, y = CASES[name]
    n_draws = 13 if sampler is WALK else 5  # so many does leaving one out ask for
    settings = {"n_chains": 2, "n_warmup": 4, "n_draws": n_draws, "target_ess": None}
    estimator = clone(estimator).set_params(**settings, n_importance=4, max_predict_draws=3)
    estimator.set_params(sampler=sampler, random_state=seed)
    with np.errstate(divide="raise", over="raise", invalid="raise"):  # underflow is harmless
        model = estimator.fit(X, y)
        results = [model.predict(X[:5]), *model.latent_mean_and_variance(X)]
        results += [model.score(X[:5], y[:5]), model.log_predictive_density(X[5:], y[5:])]
        results.append(model.sample_latent(X, 2, random_state=0))
        if name != "softmax" and sampler is WALK:
            results.append(model.loo().elpd_i)
    assert all(np.isfinite(result).all() for result in results)


def naming(value):
    return value if isinstance(value, str) else getattr(value, "moves", type(value).__name__)


@pytest.mark.parametrize(("name", "sampler"), PAIRS, ids=naming)
def test_fit_and_predictions_never_overflow_or_divide_by_zero(name, sampler, nothing_is_hidden):
    run(name, sampler, 0)


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "sampler"), SLOW_PAIRS, ids=naming)
def test_no_sampler_overflows_or_divides_by_zero(name, sampler, nothing_is_hidden):
    run(name, sampler, seeded(1))


def test_overflow_within_counted_work_raises_an_error(nothing_is_hidden):
    with pytest.raises(FloatingPointError), work.count_work():
        np.exp(np.full(1, 1e3))
