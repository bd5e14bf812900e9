"""Terms of a sum of kernels, and linear effects, against closed forms."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from skgpmcmc import BayesianGPClassifier, BayesianGPCountRegressor, BayesianGPRegressor
from skgpmcmc.kernels import Linear, On
from skgpmcmc.model.terms import is_linear
from skgpmcmc.samplers import Marginal

from ...helpers import in_one_test, short_chains

RNG = np.random.default_rng(0)
N = 25
X = pd.DataFrame(
    {
        "place": RNG.uniform(size=N),
        "age": RNG.normal(50.0, 10.0, size=N),
        "sex": np.arange(N) % 2,
    }
)
Y = np.sin(6.0 * X["place"]) + 0.05 * X["age"] - X["sex"] + 0.2 * RNG.standard_normal(N)
NEW = pd.DataFrame({"place": [0.1, 0.9], "age": [30.0, 70.0], "sex": [0, 1]})
NOISE = 0.2
LINEAR = ["age", "sex"]
SETTINGS = {"n_draws": 40, "target_ess": None, "n_chains": 2, "random_state": 0}

#: Kernels without free hyper-parameters, whose posterior is Gaussian.
SMOOTH = ConstantKernel(0.8, "fixed") * On(RBF(0.4, "fixed"), "place")
FIXED = {
    "Linear": On(Linear(2.0, "fixed", center=[45.0, 0.0], scale=[10.0, 1.0]), LINEAR),
    "DotProduct": ConstantKernel(0.01, "fixed") * On(DotProduct(3.0, "fixed"), LINEAR),
}


def gaussian(kernel, y=Y):
    """Regression with a known kernel and known noise."""
    with short_chains():
        return BayesianGPRegressor(
            kernel, noise="known", alpha=NOISE**2, normalize_y=False, **SETTINGS
        ).fit(X, y)


def posterior(kernel, term, rows):
    """Mean and covariance of a term at rows, given Y, by the formula of Gaussian regression."""
    A = kernel(X) + NOISE**2 * np.eye(N)
    cross = term(rows, X)
    return cross @ np.linalg.solve(A, Y), term(rows) - cross @ np.linalg.solve(A, cross.T)


@pytest.mark.parametrize("name", FIXED)
def test_terms_are_those_of_gaussian_regression(name):
    kernel = SMOOTH + FIXED[name]
    model = gaussian(kernel)
    completed = model.kernel_
    for k, term in enumerate((completed.k1, completed.k2)):
        mean, covariance = posterior(completed, term, NEW)
        own = model.latent_mean_and_variance(NEW, terms=[k])
        assert_allclose(own, (mean, covariance.diagonal()), rtol=1e-6, atol=1e-9)
        joint = model.latent_mean_and_variance(NEW, return_cov=True, terms=[k])
        assert_allclose(joint[1], covariance, rtol=1e-6, atol=1e-8)
        sd = np.sqrt(covariance.diagonal())
        found = model.predict(NEW, return_std=True, return_quantiles=[0.1, 0.9], terms=[k])
        assert_allclose(found[0], mean, rtol=1e-6)
        assert_allclose(found[1], sd, rtol=1e-6)
        assert_allclose(found[2], stats.norm(mean, sd).ppf([[0.1], [0.9]]), rtol=1e-5, atol=1e-8)
    both = model.latent_mean_and_variance(NEW, terms=[0, 1])
    assert_allclose(both, model.latent_mean_and_variance(NEW), rtol=1e-8)


@pytest.mark.parametrize("name", FIXED)
def test_effects_are_those_of_bayesian_linear_regression(name):
    kernel = SMOOTH + FIXED[name]
    model = gaussian(kernel)
    # The slopes have a normal prior, and the smooth term is correlated noise.
    Z = X[LINEAR].to_numpy(dtype=float)
    if name == "Linear":
        variance, intercept = 2.0 / np.array([10.0, 1.0]) ** 2, 0.0
        Z = Z - [45.0, 0.0]
    else:
        variance, intercept = np.full(2, 0.01), 0.01 * 9.0
    S = model.kernel_.k1(X) + NOISE**2 * np.eye(N) + intercept
    precision = Z.T @ np.linalg.solve(S, Z) + np.diag(1.0 / variance)
    covariance = np.linalg.inv(precision)
    mean = covariance @ (Z.T @ np.linalg.solve(S, Y))
    sd = np.sqrt(covariance.diagonal())
    table = model.linear_effects()
    assert table.index.tolist() == LINEAR
    assert_allclose(table["mean"], mean, rtol=1e-6)
    assert_allclose(table["sd"], sd, rtol=1e-6)
    assert_allclose(table["5%"], stats.norm(mean, sd).ppf(0.05), rtol=1e-5)
    assert_allclose(table["95%"], stats.norm(mean, sd).ppf(0.95), rtol=1e-5)
    per_sd = model.linear_effects(X)
    assert_allclose(per_sd["mean"], mean * X[LINEAR].std(ddof=0), rtol=1e-6)


def test_terms_of_a_sum_on_columns_are_those_of_the_sum_of_kernels_on_columns(model):
    """Also within one another, with positions that are relative to the outer columns."""
    linear = On(FIXED["Linear"].kernel, [1, 0])
    inside = On(On(SMOOTH + linear, ["sex", "age", "place"]), ["place", "age", "sex"])
    other = gaussian(On(inside, ["sex", "place", "age"]) + ConstantKernel(1e-12, "fixed"))
    for k in (0, 1):
        own = other.latent_mean_and_variance(NEW, terms=[k])
        assert_allclose(own, model.latent_mean_and_variance(NEW, terms=[k]), rtol=1e-6)
    assert_allclose(other.linear_effects().loc[LINEAR], model.linear_effects(), rtol=1e-6)
    with pytest.raises(ValueError, match=r"sum \{0: On\(.*, 1: On\(.*Linear.*, 2: 1e-06\*\*2\}"):
        other.latent_mean_and_variance(NEW, terms=[3])


def test_effects_are_in_the_units_of_y_when_it_is_normalized():
    kernel = ConstantKernel() * On(RBF(), "place") + On(Linear(), LINEAR)
    walk = {**SETTINGS, "n_warmup": 100, "sampler": Marginal(moves="random_walk")}
    with short_chains():
        one = BayesianGPRegressor(kernel, **walk).fit(X, Y)
        other = BayesianGPRegressor(kernel, **walk).fit(X, 1024.0 * Y)
    assert_allclose(other.linear_effects(), 1024.0 * one.linear_effects(), rtol=1e-9)
    assert one.linear_effects()["mean"]["sex"] == pytest.approx(-1.0, abs=0.3)
    parts = [one.latent_mean_and_variance(NEW, terms=[k])[0] for k in (0, 1)]
    whole, _ = one.latent_mean_and_variance(NEW)
    assert_allclose(sum(parts) + Y.mean(), whole, rtol=1e-9)
    assert_allclose(one.predict(NEW, terms=[0, 1]) + Y.mean(), whole, rtol=1e-9)


@pytest.mark.parametrize("kind", [BayesianGPClassifier, BayesianGPCountRegressor])
def test_terms_of_other_likelihoods_add_up_draw_by_draw(kind):
    counts = np.random.default_rng(0).poisson(np.exp(Y - Y.mean()))
    with short_chains():
        model = kind(SMOOTH + FIXED["Linear"], **SETTINGS).fit(
            X, counts > 1 if kind is BayesianGPClassifier else counts
        )
    parts = [model.latent_mean_and_variance(NEW, terms=[k])[0] for k in (0, 1)]
    shift = model._units[0]
    assert_allclose(sum(parts) + shift, model.latent_mean_and_variance(NEW)[0], rtol=1e-7)
    assert model.linear_effects().shape == (2, 4)


def test_terms_of_a_softmax():
    kernel = SMOOTH + FIXED["Linear"]
    with short_chains():
        model = BayesianGPClassifier(kernel, multi_class="softmax", **SETTINGS)
        model.fit(X, np.digitize(Y, [2.0, 3.0]))
    parts = [model.latent_mean_and_variance(NEW, terms=[k])[0] for k in (0, 1)]
    assert_allclose(sum(parts), model.latent_mean_and_variance(NEW)[0], rtol=1e-6, atol=1e-9)


@pytest.fixture(scope="module")
def model():
    return gaussian(SMOOTH + FIXED["Linear"])


@in_one_test("terms", [[2], [-1], [], "smooth", [0.5], [[0]]])
def test_terms_that_do_not_exist_are_refused_with_those_that_do(model, terms):
    with pytest.raises(ValueError, match=r"positions in the sum \{0: .*RBF.*, 1: On\(Linear"):
        model.latent_mean_and_variance(NEW, terms=terms)


def test_wrong_uses_are_refused(model):
    with pytest.raises(ValueError, match="a term twice"):
        model.predict(NEW, terms=[0, 0])
    with pytest.raises(ValueError, match=r"has no linear term: add skgpmcmc.kernels.Linear\(\)"):
        gaussian(SMOOTH).linear_effects()
    with short_chains():
        average = BayesianGPRegressor([SMOOTH, SMOOTH + Linear()], **SETTINGS).fit(X, Y)
    for call in (lambda: average.predict(NEW, terms=[0]), average.linear_effects):
        with pytest.raises(ValueError, match=r"call estimators_\[k\]"):
            call()


def test_effects_print_without_pandas(model, monkeypatch):
    expected = model.linear_effects()
    monkeypatch.setitem(sys.modules, "pandas", None)
    lines = str(model.linear_effects()).splitlines()
    assert lines[0].split() == ["mean", "sd", "5%", "95%"]
    assert [line.split()[0] for line in lines[1:]] == LINEAR
    assert float(lines[2].split()[1]) == pytest.approx(expected["mean"]["sex"], rel=1e-2)


def test_which_kernels_are_linear():
    linear = [
        Linear(),
        DotProduct(),
        2.0 * Linear(),
        On(2.0 * DotProduct(), 0),
        On(Linear(), 0) * 2,
    ]
    others = [RBF(), Linear() * RBF(), Linear() + RBF(), Linear() ** 2, ConstantKernel()]
    assert all(map(is_linear, linear))
    assert not any(map(is_linear, others))
