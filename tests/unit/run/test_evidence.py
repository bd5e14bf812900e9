"""The evidence at one theta and over all, and models compared by it."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.approximations import EP
from skgpmcmc.approximations.corrected import (
    second_order_correction,
    second_order_log_evidence,
)
from skgpmcmc.likelihoods import StudentT
from skgpmcmc.model_selection import compare_evidence
from skgpmcmc.run.annealed import AnnealedImportance
from skgpmcmc.run.evidence import _log_mean, conditional_evidence, integrated_evidence
from skgpmcmc.samplers import PseudoMarginal

from ...helpers import (
    NO_THETA,
    THREE_THETA,
    THREE_Y,
    Z_LIMIT,
    exact_posterior,
    given_model,
    in_one_test,
    make_model,
    orthant_probability,
    short_chains,
    three_point_model,
    toy_classes,
)

TWO = np.array([[2.5, 2.0], [2.0, 2.5]])
THREE = np.array([[2.5, 2.0, 1.0], [2.0, 2.5, 1.5], [1.0, 1.5, 2.5]])
#: Draws that are all but independent, and cheaper ones where a mean of them is all that is used.
GOOD = {"n_chains": 1, "n_draws": 50, "random_state": 0}
QUICK = {
    **{"n_chains": 1, "n_warmup": 100, "n_draws": 25, "n_importance": 2, "random_state": 0},
    **{"sampler": PseudoMarginal(moves="random_walk"), "approximation": "laplace"},
}
pytestmark = pytest.mark.filterwarnings("ignore:log_evidence.*Pareto")  # of chains this short


# --- second-order corrected EP --------------------------------------------------------------------


@in_one_test(("y", "expected"), [((1, -1), -1.8760465), ((1, 1), -1.0590192)])
def test_second_order_evidence_of_two_rows_agrees_with_the_printed_series(y, expected):
    found = second_order_log_evidence(given_model(TWO, y), NO_THETA)
    assert found == pytest.approx(expected, abs=5e-8)


def test_second_order_evidence_of_three_rows_agrees_with_the_orthant():
    model = three_point_model()
    exact = np.log(orthant_probability(model.prior_at(THREE_THETA).K, THREE_Y))
    assert second_order_log_evidence(model, THREE_THETA) == pytest.approx(exact, abs=5e-6)
    assert abs(EP().with_tolerance().fit(model, THREE_THETA).log_evidence - exact) > 5e-4


def test_second_order_evidence_of_weights_equals_that_of_repeated_rows():
    model = given_model(TWO, [1.0, -1.0])
    weighted = model.with_observations(weight=np.array([2.0, 1.0]))
    repeated = model.with_observations(y=np.array([1.0, 1.0, -1.0]), first=np.array([0, 2]))
    found = [second_order_log_evidence(model, NO_THETA) for model in (weighted, repeated)]
    assert found[0] == pytest.approx(found[1], abs=1e-6)


def test_second_order_evidence_with_an_offset_agrees_with_a_closed_form():
    """Under y = 1 for all an offset of b is a probit with b, which a closed form has."""
    shifted = given_model(TWO, [1.0, 1.0]).with_observations(offset=np.array([0.4, -0.3]))
    exact = stats.multivariate_normal(np.zeros(2), TWO + np.eye(2)).logcdf([0.4, -0.3])
    assert second_order_log_evidence(shifted, NO_THETA) == pytest.approx(exact, abs=1e-4)


@in_one_test("tol", [0.1, 1e-2])
def test_second_order_correction_makes_up_for_a_loose_tolerance(tol):
    model = given_model(TWO, [1.0, -1.0])
    fit = EP(tol=tol).fit(model, NO_THETA)
    found = fit.log_evidence + second_order_correction(model, fit.q)
    assert found == pytest.approx(second_order_log_evidence(model, NO_THETA), abs=1e-6)


def test_second_order_correction_halves_the_error_for_outliers():
    y = np.array([5.0, -5.0, 0.0])
    model = given_model(THREE, y, StudentT(0.3, fixed=True))
    exact = exact_posterior(THREE, y, StudentT(0.3, fixed=True), n_nodes=101)[0]
    plain = EP().with_tolerance().fit(model, NO_THETA).log_evidence
    assert abs(second_order_log_evidence(model, NO_THETA) - exact) < 0.5 * abs(plain - exact)


# --- at one theta ---------------------------------------------------------------------------------


def test_evidence_by_importance_sampling_agrees_with_the_orthant():
    model = three_point_model()
    exact = np.log(orthant_probability(model.prior_at(THREE_THETA).K, THREE_Y))
    value, error = conditional_evidence(model, THREE_THETA, "is", 0)
    assert 0.0 < error < 0.05
    assert abs(value - exact) < Z_LIMIT * error


def test_standard_error_of_the_evidence_is_that_of_a_log_of_a_mean():
    weights = np.tile([1.0, 2.0, 3.0, 2.0], 50)
    value, error = _log_mean(np.log(weights) - 500.0, "is")
    assert value == pytest.approx(np.log(2.0) - 500.0)
    assert error == pytest.approx(weights.std(ddof=1) / np.sqrt(200.0) / 2.0)


def test_heavy_weights_of_the_evidence_cause_a_warning():
    log_weights = -1.5 * np.log(np.random.default_rng(0).uniform(size=2000))  # k = 1.5
    with pytest.warns(UserWarning, match=r"method='is'\): the weights have a Pareto k of 1\.\d\d"):
        _log_mean(log_weights, "is")


def test_few_weights_cause_a_warning_only_if_one_is_far_above_the_mean():
    """The Pareto k of forty weights, for an average of kernels, is a matter of chance."""
    harmless = np.random.default_rng(69).lognormal(0.0, 0.5, size=40)  # k = 1.5
    assert harmless.max() < 4.0 * harmless.mean()
    assert _log_mean(np.log(harmless), "integrated").standard_error < 0.1
    log_weights = -1.5 * np.log(np.random.default_rng(0).uniform(size=40))
    with pytest.warns(UserWarning, match=r"the weights have a Pareto k of 1\.\d\d"):
        _log_mean(log_weights, "integrated")


def test_evidence_of_weights_that_are_all_zero_is_refused():
    with pytest.raises(ValueError, match="no draw has a finite evidence"):
        _log_mean(np.full(5, -np.inf), "integrated")


# --- estimators -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(1).uniform(size=(20, 1))
    return X, np.sin(5.0 * X[:, 0])


@pytest.fixture(scope="module")
def classifier():
    X, y = toy_classes(14, 1, seed=2)
    with short_chains():
        return BayesianGPClassifier(**GOOD).fit(X, y)


def fitted(kind, data, settings=QUICK):
    (X, f), rng = data, np.random.default_rng(2)
    with short_chains():
        if kind == "counts":
            y = rng.poisson(np.exp(f) * 2.0)
            return BayesianGPCountRegressor(**settings).fit(X, y, exposure=np.full(20, 2.0))
        if kind == "ordinal":
            return BayesianGPOrdinalClassifier(**settings).fit(X, np.digitize(f, [-0.5, 0.5]))
        if kind == "softmax":
            y = np.digitize(f, [-0.5, 0.5])
            return BayesianGPClassifier(multi_class="softmax", **settings).fit(X, y)
        noise = rng.standard_normal(20)
        if kind == "volatility":
            return BayesianGPVolatilityRegressor(**settings).fit(X, np.exp(f) * noise)
        return BayesianGPRegressor(likelihood="student_t", **settings).fit(X, f + 0.1 * noise)


@pytest.mark.parametrize("kind", ["counts", "ordinal", "volatility", "student_t"])
def test_evidence_methods_agree_for_every_likelihood(kind, data):
    model = fitted(kind, data)
    exact, error = model.log_evidence("is")
    for method, tolerance in (("laplace", 1.0), ("ep", 0.3), ("ep2", 0.1)):
        value, own = model.log_evidence(method)
        assert own == 0.0
        assert value == pytest.approx(exact, abs=tolerance + Z_LIMIT * error)
    for annealed in ("ais", AnnealedImportance("hmc", n_particles=256, n_moves=1)):
        value, own = model.log_evidence(annealed)
        assert value == pytest.approx(exact, abs=Z_LIMIT * np.hypot(own, error))


def test_integrated_evidence_is_below_that_of_a_good_theta(data):
    model = fitted("volatility", data, GOOD)
    value, error = model.log_evidence()
    assert value < model.log_evidence("is").value
    assert 0.0 < error < 0.2


def test_evidence_of_a_softmax_agrees_between_methods(data):
    model = fitted("softmax", data, GOOD)
    value, error = model.log_evidence()
    at_mean, own = model.log_evidence("is")
    assert -40.0 < value < at_mean
    assert error < 0.2
    annealed, more = model.log_evidence("ais")
    assert annealed == pytest.approx(at_mean, abs=Z_LIMIT * np.hypot(own, more))
    for settings in ({"kernel": "rmhmc"}, {"start": "ep"}, {"start": "prior"}):
        with pytest.raises(ValueError, match="one latent function"):
            model.log_evidence(AnnealedImportance(**settings))
    for method in ("ep", "ep2"):
        with pytest.raises(ValueError, match=f'method="{method}" works with one latent function'):
            model.log_evidence(method)


def test_one_vs_rest_refuses_log_evidence(data):
    X, f = data
    with short_chains():
        model = BayesianGPClassifier(**QUICK).fit(X, np.digitize(f, [-0.5, 0.5]))
    with pytest.raises(ValueError, match=r"call estimators_\[k\].log_evidence"):
        model.log_evidence()
    assert np.isfinite(model.estimators_[0].log_evidence("is")).all()


def test_log_evidence_is_reproducible_and_changes_no_prediction(classifier):
    X = np.linspace(0.0, 1.0, 5)[:, None]
    before = classifier.predict_proba(X)
    first = [classifier.log_evidence(), classifier.log_evidence("is")]
    assert [classifier.log_evidence(), classifier.log_evidence("is")] == first
    assert_array_equal(classifier.predict_proba(X), before)


def test_log_evidence_takes_natural_theta_and_defaults_to_the_mean_draw(classifier):
    mean = classifier.theta_samples_.mean(axis=(0, 1))
    assert classifier.log_evidence("ep", np.exp(mean)).value == pytest.approx(
        classifier.log_evidence("ep").value, abs=1e-10
    )
    other = classifier.log_evidence("ep", [100.0, 0.1, 1.0]).value
    model = classifier._predictor.model
    assert other == EP().with_tolerance().fit(model, np.log([100.0, 0.1, 1.0])).log_evidence


@in_one_test(
    ("arguments", "message"),
    [
        (("bridge",), "method must be one of .* got 'bridge'"),
        (("integrated", [1.0, 1.0]), "theta was given: leave it out"),
        (("is", [1.0]), r"theta must have shape \(3,\), one number for each of"),
        (("is", [1.0, -1.0, 1.0]), "got -1.0 for 'k1__k2__length_scale'"),
        (("is", [np.nan, 1.0, 1.0]), "got nan for 'k1__k1__constant_value'"),
    ],
)
def test_impossible_arguments_of_log_evidence_are_refused(classifier, arguments, message):
    with pytest.raises(ValueError, match=message):
        classifier.log_evidence(*arguments)


class Flat(stats.rv_continuous):
    def _pdf(self, x):
        return np.ones_like(x)

    def _argcheck(self):
        return True


def test_improper_prior_is_refused_by_log_evidence():
    priors = {"k1__constant_value": Flat(a=0.0)()}
    X, y = toy_classes(5, 1, seed=2)
    model = make_model(X, y, priors=priors)
    with pytest.raises(ValueError, match=r"priors\['k1__constant_value'\] has a mass of"):
        integrated_evidence(model, np.zeros((10, 2)), None, 0)


def test_log_evidence_is_a_density_per_unit_of_y(data):
    """Densities are per unit of y: 128 times the unit, 1/128 of the density for every row."""
    X, f = data
    y = 3.0 + f + 0.2 * np.random.default_rng(4).standard_normal(20)
    weight = np.where(X[:, 0] > 0.5, 2.0, 1.0)
    with short_chains():
        one, other = (
            BayesianGPRegressor(**QUICK).fit(X, unit * y, sample_weight=weight)
            for unit in (1.0, 128.0)
        )
    expected = -weight.sum() * np.log(128.0)
    for method in ("integrated", "is"):
        difference = other.log_evidence(method).value - one.log_evidence(method).value
        assert difference == pytest.approx(expected, rel=1e-6)


def test_log_evidence_of_fixed_hyperparameters_is_the_conditional_one():
    X, y = toy_classes(20, 1, seed=2)
    kernel = ConstantKernel(2.0, "fixed") * RBF(0.5, "fixed")
    with short_chains():
        model = BayesianGPClassifier(kernel, **QUICK).fit(X, y)
    assert model.log_evidence() == model.log_evidence("is")
    assert model.log_evidence().value == pytest.approx(model.log_evidence("ep2").value, abs=0.1)


# --- models side by side --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_models(data):
    X, f = data
    y = f + 0.1 * np.random.default_rng(3).standard_normal(20)
    with short_chains():
        return {
            name: BayesianGPRegressor(ConstantKernel() * kernel, **GOOD).fit(X, y)
            for name, kernel in (("rough", Matern(nu=0.5)), ("smooth", RBF()))
        }


@pytest.fixture(scope="module")
def table(two_models):
    return compare_evidence(two_models)


def test_evidence_table_has_probabilities_and_paired_differences(two_models, table):
    best, other = table.records
    assert (best.name, other.name) == ("smooth", "rough")
    odds = np.exp(two_models["smooth"].log_evidence()[0] - two_models["rough"].log_evidence()[0])
    assert best.probability == pytest.approx(odds / (1.0 + odds))
    assert best.probability + other.probability == pytest.approx(1.0)
    elpd = {name: model.loo().elpd_i for name, model in two_models.items()}
    foremost, last = sorted((best, other), key=lambda record: -record.elpd)
    assert (foremost.elpd_difference, foremost.elpd_difference_error) == (0.0, 0.0)
    gap = elpd[last.name] - elpd[foremost.name]
    assert last.elpd_difference == pytest.approx(gap.sum())
    assert last.elpd_difference_error == pytest.approx(np.sqrt(20.0) * gap.std())
    assert last.elpd_error == two_models[last.name].loo().se
    title, *lines = repr(table).split("\n")
    assert title.split() == ["model", "log", "evidence", "probability", "elpd", "difference"]
    assert [line.split()[0] for line in lines] == ["smooth", "rough"]


def test_evidence_comparison_refuses_other_targets(two_models, data):
    X, f = data
    with short_chains():
        other = BayesianGPRegressor(**QUICK).fit(X, np.exp(f))
    with pytest.raises(ValueError, match="'rough' and 'other' were fitted to different targets"):
        compare_evidence({"rough": two_models["rough"], "other": other})


@in_one_test("models", [{}, []])
def test_evidence_comparison_refuses_an_empty_mapping(models):
    with pytest.raises(ValueError, match="models must be a mapping of names"):
        compare_evidence(models)
