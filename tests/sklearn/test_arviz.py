"""The tree for ArviZ: names, shapes and scales, and that ArviZ finds in it what we report."""

import sys

import arviz_stats
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.approximations import SubsetOfData
from skgpmcmc.samplers import DiscretizingChain, PseudoMarginal

N, N_DRAWS = 16, 40
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 2))
F = np.sin(2.0 * X[:, 0])
LABELS = np.array(["a", "b", "c"])[np.digitize(F, [-0.5, 0.5])]
EXPOSURE = RNG.uniform(0.5, 2.0, N)
QUICK = {"sampler": "aa", "n_chains": 2, "n_warmup": 10, "n_draws": N_DRAWS, "random_state": 0}
SMOOTH, SMOOTH_ARD = ConstantKernel() * RBF(), ConstantKernel() * RBF(np.ones(2))
CASES = {
    "classes": (BayesianGPClassifier(SMOOTH_ARD), LABELS == "a", {}),
    "softmax": (BayesianGPClassifier(multi_class="softmax"), LABELS, {}),
    "separate": (BayesianGPClassifier(SMOOTH_ARD, multi_class="softmax_separate"), LABELS, {}),
    "regression": (
        BayesianGPRegressor(),
        9.0 + 3.0 * F + 0.1 * RNG.standard_normal(N),
        {"sample_weight": RNG.uniform(0.5, 2.0, N)},
    ),
    "counts": (BayesianGPCountRegressor(), RNG.poisson(EXPOSURE * 3.0), {"exposure": EXPOSURE}),
    "ordered": (BayesianGPOrdinalClassifier(class_order=["a", "b", "c"]), LABELS, {}),
    "volatility": (BayesianGPVolatilityRegressor(), 0.1 * RNG.standard_normal(N), {}),
    "discretizing": (BayesianGPClassifier(SMOOTH), LABELS == "a", {}),
}
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto"),
    pytest.mark.filterwarnings("ignore:The inplace keyword"),  # of what ArviZ takes from pandas
]


@pytest.fixture(scope="module")
def fitted():
    found = {}
    for name, (est, y, more) in CASES.items():
        est.set_params(**QUICK)
        if name in ("softmax", "separate"):
            est.set_params(sampler=PseudoMarginal(moves="random_walk"), n_importance=4)
        if name == "discretizing":
            est.set_params(
                sampler=DiscretizingChain(operator="mh"), approximation=SubsetOfData(0.5), n_draws=8
            )
        found[name] = est.fit(X, y, **more)
    return found


@pytest.fixture(scope="module")
def trees(fitted):
    return {name: est.to_arviz(posterior_predictive=True) for name, est in fitted.items()}


@pytest.mark.parametrize("name", list(CASES))
def test_arviz_tree_has_its_groups_and_the_latent_draws(fitted, trees, name):
    est, tree = fitted[name], trees[name]
    groups = {"posterior", "log_likelihood", "observed_data", "posterior_predictive"}
    extra = {"discretizing": {"marked_samples"}}.get(name, set())
    assert set(tree.children) == groups | {"sample_stats"} | extra
    assert_array_equal(tree["posterior"]["f"], est.latent_samples_)
    dims = ["chain", "draw", "row", *(["class"] if name in ("softmax", "separate") else [])]
    assert list(tree["posterior"]["f"].dims) == dims
    assert list(tree["posterior_predictive"]["y"].dims) == ["chain", "draw", "row"]
    rates = est.diagnostics_.acceptance_rate
    found = tree["sample_stats"]["acceptance_rate"]
    assert found.dims == ("chain", "transition")
    for move, rate in rates.items():
        assert_array_equal(found.sel(transition=move), rate)
    assert set(est.to_arviz().children) == set(tree.children) - {"posterior_predictive"}


@pytest.mark.parametrize("name", list(CASES))
def test_arviz_tree_has_targets_as_given_and_reproducible_predictive_draws(fitted, trees, name):
    observed, y = trees[name]["observed_data"]["y"].values, CASES[name][1]
    if y.dtype.kind == "f":
        assert_allclose(observed, y, rtol=1e-12)
    else:
        assert_array_equal(observed, y)
    repeated = trees[name]["posterior_predictive"]["y"].values
    again = fitted[name].to_arviz(posterior_predictive=True)
    assert_array_equal(again["posterior_predictive"]["y"], repeated)
    if y.dtype.kind in "Ub":
        assert set(np.unique(repeated)) <= set(y)
    elif name == "counts":
        assert_array_equal(repeated, np.floor(repeated))


@pytest.mark.parametrize("name", list(CASES))
def test_arviz_summary_equals_the_diagnostics(fitted, trees, name):
    """Of what chains move on; arviz takes the names and we the positions."""
    est, posterior = fitted[name], trees[name]["posterior"]
    theta = []
    for var in posterior.data_vars:
        real = f"log_{var}" not in posterior.data_vars and not str(var).startswith("log_")
        if str(var).startswith("log_") or (real and var != "f"):
            theta.append(str(var))
    summary = arviz_stats.summary(trees[name], var_names=theta, round_to="none")
    assert len(summary) == len(est.hyperparameter_names_)
    assert sorted(summary["r_hat"]) == pytest.approx(sorted(est.diagnostics_.r_hat))
    assert sorted(summary["ess_bulk"]) == pytest.approx(sorted(est.diagnostics_.ess_bulk))
    # The tails of the summary are those of its own interval.
    tails = arviz_stats.ess(trees[name], var_names=theta, method="tail", prob=(0.05, 0.95))
    found = np.concatenate([np.ravel(tails[var]) for var in theta])
    assert sorted(found) == pytest.approx(sorted(est.diagnostics_.ess_tail))


def test_arviz_tree_has_hyper_parameters_with_names_scales_and_dimensions(fitted, trees):
    classes = trees["classes"]["posterior"]
    assert classes["k2__length_scale"].dims == ("chain", "draw", "feature")
    theta = fitted["classes"].theta_samples_
    assert_array_equal(classes["log_k1__constant_value"], theta[..., 0])
    assert_array_equal(classes["log_k2__length_scale"], theta[..., 1:])
    assert_allclose(classes["k2__length_scale"], np.exp(theta[..., 1:]))
    separate, own = trees["separate"]["posterior"], fitted["separate"].theta_samples_
    assert separate["k2__length_scale"].dims == ("chain", "draw", "class", "feature")
    second = separate["log_k2__length_scale"].sel({"class": "b"})
    assert_array_equal(second, own[..., 4:6])
    assert fitted["separate"].hyperparameter_names_[4] == "k2__length_scale[0][b]"
    ordered, steps = trees["ordered"]["posterior"], fitted["ordered"].theta_samples_
    assert_array_equal(ordered["threshold"], steps[..., 2])
    assert "log_threshold" not in ordered
    assert_array_equal(ordered["log_threshold_gap"], steps[..., 3])
    marked = trees["discretizing"]["marked_samples"]
    expected = fitted["discretizing"].marked_samples_
    assert_array_equal(marked["log_k1__constant_value"], expected.theta[..., 0])
    assert_array_equal(marked["weight"], expected.weights)


def test_arviz_tree_has_the_names_of_features():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["width", "height"])
    few = {**QUICK, "n_draws": 4}
    est = BayesianGPRegressor(ard=True, **few).fit(frame, CASES["regression"][1])
    tree = est.to_arviz()
    lengths = tree["posterior"]["k2__length_scale"]
    assert lengths.coords["feature"].values.tolist() == ["width", "height"]
    assert tree["posterior"]["k1__constant_value"].dims == ("chain", "draw")


def test_arviz_tree_serves_several_thresholds_and_no_hyperparameters():
    few = {**QUICK, "n_draws": 4}
    four = BayesianGPOrdinalClassifier(**few).fit(X, np.arange(N) % 4)
    posterior = four.to_arviz()["posterior"]
    gaps = np.exp(four.theta_samples_[..., 3:])
    assert posterior["threshold_gap"].dims == ("chain", "draw", "threshold_gap_index")
    assert_allclose(posterior["threshold_gap"], gaps)
    kernel = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
    none = BayesianGPClassifier(kernel, **few).fit(X, LABELS == "a").to_arviz()
    assert list(none["posterior"].data_vars) == ["f"]


def test_arviz_plots_draw_the_tree(trees):
    arviz_plots = pytest.importorskip("arviz_plots")
    import matplotlib.pyplot as plt

    tree, names = trees["classes"], ["k1__constant_value", "log_k2__length_scale"]
    traces = arviz_plots.plot_trace_dist(tree, var_names=names)
    drawn = [line for ax in plt.gcf().axes for line in ax.get_lines()]
    shown = [np.asarray(line.get_ydata()) for line in drawn]
    draws = tree["posterior"]["k1__constant_value"].values
    assert all(any(np.array_equal(chain, line) for line in shown) for chain in draws)
    assert set(traces.viz["dist"].data_vars) == set(names)
    arviz_plots.plot_rank_dist(tree, var_names=names)
    arviz_plots.plot_forest(tree, var_names=names)
    arviz_plots.plot_ppc_dist(trees["counts"])
    plt.close("all")


def test_arviz_tree_has_latent_draws_if_chains_integrate_f_out(models):
    est = models("regressor", "default").model
    tree = est.to_arviz()
    assert_array_equal(tree["posterior"]["f"], est.latent_samples_)
    assert arviz_stats.loo(tree).elpd == pytest.approx(est.loo("psis").elpd, abs=0.5)


def test_one_vs_rest_has_an_arviz_tree_for_each_class(models):
    own = models("one_vs_rest")
    with pytest.raises(ValueError, match=r"estimators_\[k\]\.to_arviz"):
        own.model.to_arviz()
    tree = own.model.estimators_[2].to_arviz()
    expected = (own.y == own.model.classes_[2]).astype(int)
    assert_array_equal(tree["observed_data"]["y"], expected)


def test_without_arviz_the_error_says_what_to_install(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    with pytest.raises(ImportError, match=r'pip install "skgpmcmc\[arviz\]"'):
        fitted["classes"].to_arviz()
