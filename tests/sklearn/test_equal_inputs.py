"""Rows with equal inputs: however they are given, a fit is the same, and answers row by row.

One data set in several forms: rows repeated, each of them once with a weight, weights split over
equal rows, and all of these in another order, with rows of weight zero among them.
"""

import pickle
from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.model_selection import compare_evidence
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import in_one_test, short_chains

_RNG = np.random.default_rng(0)
PLACES = _RNG.uniform(-2.0, 2.0, size=(9, 2))
#: Rows that differ in something; four inputs have two of them.
PLACE = np.concatenate([np.arange(9), np.arange(4)])
N = len(PLACE)
X = PLACES[PLACE]
#: How often each of them is given; not all alike.
TIMES = np.resize([2, 1, 3], N)
X_NEW = np.array([[0.2, 0.1], [-1.3, 1.1], [9.0, 9.0]])
EXPOSURE = np.linspace(0.5, 2.0, N)
_SIDE = np.where(np.arange(N) < 9, PLACES[PLACE, 0] > 0.0, PLACES[PLACE, 0] <= 0.0).astype(int)
TARGETS = {
    "classifier": (BayesianGPClassifier(), np.array(["no", "yes"])[_SIDE]),
    "softmax": (BayesianGPClassifier(multi_class="softmax"), np.array(["a", "b"])[_SIDE]),
    "regressor": (BayesianGPRegressor(), 20.0 + 4.0 * np.sin(X[:, 0]) + _RNG.standard_normal(N)),
    "student_t": (BayesianGPRegressor(likelihood="student_t"), X[:, 0] + _RNG.standard_t(3.0, N)),
    "counts": (BayesianGPCountRegressor(), _RNG.poisson(4.0 * EXPOSURE)),
    "ordinal": (BayesianGPOrdinalClassifier(), np.where(_SIDE, 1 + np.arange(N) % 2, 0)),
    "volatility": (BayesianGPVolatilityRegressor(), 0.01 * _RNG.standard_normal(N)),
}
BRIEF = {"n_chains": 1, "n_warmup": 2, "n_draws": 3, "random_state": 0}
WALK = {
    "sampler": PseudoMarginal(moves="random_walk"),
    "approximation": "laplace",
    "n_importance": 4,
    "priors": "paper",
}
#: Enough draws for leaving rows out, where f follows.
LONGER = {"n_chains": 2, "n_warmup": 10, "n_draws": 20, "random_state": 0}


def _forms():
    """Positions among the rows that differ, and weights."""
    rng = np.random.default_rng(1)
    repeated, split = np.repeat(np.arange(N), TIMES), np.tile(np.arange(N), 3)
    shares = np.outer([0.25, 0.5, 0.25], TIMES).ravel()
    order, of_split = rng.permutation(len(repeated)), rng.permutation(len(split))
    # Two rows of weight zero: where others are, and with a target of another.
    backward, times = np.arange(N)[::-1], 1.0 * TIMES[::-1]
    return {
        "repeated": (repeated, None),
        "repeated, in another order": (repeated[order], None),
        "split, in another order": (split[of_split], shares[of_split]),
        "weighted": (np.insert(backward, 5, [3, 8]), np.insert(times, 5, [0.0, 0.0])),
    }


FORMS = _forms()


def given(name, form):
    """Arguments of `fit`."""
    rows, weight = FORMS[form]
    more = {"exposure": EXPOSURE[rows]} if name == "counts" else {}
    return {"X": X[rows], "y": TARGETS[name][1][rows], "sample_weight": weight, **more}


@cache
def fitted(name, form, **settings):
    """A fit that nobody may change."""
    with short_chains():
        model = clone(TARGETS[name][0]).set_params(**settings)
        return model.fit(**given(name, form))


def of_walk(name, form):
    return fitted(name, form, **WALK, **LONGER)


def collapsed(form):
    """Regression without draws of f, until somebody asks for them."""
    return fitted("regressor", form, **BRIEF, sampler="collapsed")


def first_of_each(form):
    """Position of the first row at each place."""
    return np.unique(PLACE[FORMS[form][0]], return_index=True)[1]


# --- one fit --------------------------------------------------------------------------------------


def check_forms(name, *methods, forms=tuple(FORMS), **settings):
    """Draws, predictions and estimates of the evidence are those of every other form."""
    first, *others = (fitted(name, form, **BRIEF, **settings) for form in forms)
    for other in others:
        assert_array_equal(other.theta_samples_, first.theta_samples_)
        assert_array_equal(other.predict(X_NEW), first.predict(X_NEW))
        if hasattr(first, "predict_proba"):
            assert_array_equal(other.predict_proba(X_NEW), first.predict_proba(X_NEW))
        both = (model.latent_mean_and_variance(X_NEW) for model in (other, first))
        assert_array_equal(*map(np.stack, both))
        assert_array_equal(other.sample_y(X_NEW, 5), first.sample_y(X_NEW, 5))
        for method in methods:
            assert other.log_evidence(method) == first.log_evidence(method)


SET_UPS = [("classifier", "pm"), ("regressor", "collapsed")]
LONG_SET_UPS = [(name, "pm") for name in TARGETS if name != "classifier"]


@pytest.mark.parametrize(
    ("name", "sampler"),
    [*SET_UPS, *(pytest.param(*case, marks=pytest.mark.statistical) for case in LONG_SET_UPS)],
)
def test_repeated_or_weighted_rows_give_the_same_default_fit(name, sampler):
    """In two forms, as set-ups are long; the walks below have all of them."""
    check_forms(name, "laplace", forms=("repeated", "weighted"), sampler=sampler)


@pytest.mark.parametrize("name", TARGETS)
def test_repeated_or_weighted_rows_give_the_same_random_walk(name):
    # EP knows no softmax.
    check_forms(name, "laplace", *["ep"][: name != "softmax"], **WALK)


@in_one_test(
    ("name", "sampler"),
    product([n for n in TARGETS if n != "softmax"], ["aa", "surr", "sa", "khr"]),
)
def test_repeated_or_weighted_rows_give_the_same_alternating_moves(name, sampler):
    check_forms(name, sampler=sampler)


@short_chains()
def test_repeated_or_weighted_rows_give_the_same_one_vs_rest_fit():
    y = np.array(["a", "b", "c"])[np.arange(N) % 3]
    model = BayesianGPClassifier(**BRIEF, **WALK)
    first, *others = (clone(model).fit(X[rows], y[rows], own) for rows, own in FORMS.values())
    assert len(first.estimators_) == 3
    for other in others:
        assert_array_equal(other.predict_proba(X_NEW), first.predict_proba(X_NEW))
        for part, own in zip(other.estimators_, first.estimators_, strict=True):
            assert_array_equal(part.theta_samples_, own.theta_samples_)


@short_chains()
def test_repeated_rows_keep_their_own_noise_variances():
    """Rows that differ in their noise alone are not one, in whatever order they come."""
    _, y = TARGETS["regressor"]
    variance = np.linspace(0.1, 1.0, N)
    draws = []
    for rows, weight in FORMS.values():
        # Of one target: what tells the two rows of an input apart is their variance.
        more = {"sample_weight": weight, "noise_variance": variance[rows]}
        model = BayesianGPRegressor(**BRIEF, sampler="aa").fit(X[rows], y[PLACE[rows]], **more)
        assert len(model._predictor.model.observations) == N
        draws.append(model.theta_samples_)
    for other in draws[1:]:
        assert_array_equal(other, draws[0])


# --- latent values --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "form"),
    [("classifier", "repeated"), ("regressor", "weighted"), ("softmax", "weighted")],
)
def test_rows_with_equal_inputs_have_one_latent_value(name, form):
    rows, _ = FORMS[form]
    model = collapsed(form) if name == "regressor" else of_walk(name, form)
    f = model.latent_samples_
    assert f.shape[2] == len(rows)
    for i, place in enumerate(PLACE[rows]):
        first = PLACE[rows].tolist().index(place)
        assert_array_equal(f[:, :, i], f[:, :, first])
    assert len(np.unique(f[0, 0, first_of_each(form)], axis=0)) == len(PLACES)


@short_chains()
@pytest.mark.filterwarnings("ignore:The kernel has a WhiteKernel:UserWarning")
@pytest.mark.parametrize("name", ["classifier", "regressor"])
def test_with_white_noise_every_row_has_a_latent_value_of_its_own(name):
    kernel = ConstantKernel() * RBF() + WhiteKernel(0.1)
    estimator, y = TARGETS[name]
    rows, weight = FORMS["weighted"]
    model = clone(estimator).set_params(kernel=kernel, **BRIEF, sampler="aa")
    for draw in model.fit(X[rows], y[rows], weight).latent_samples_[0]:
        assert len(np.unique(draw)) == len(rows)  # of weight zero too


# --- leaving rows out -----------------------------------------------------------------------------


def test_loo_leaves_out_a_weighted_row_whole_and_repeated_rows_singly():
    repeated, weighted = (of_walk("classifier", form).loo() for form in ("repeated", "weighted"))
    (rows, _), (differ, weight) = FORMS["repeated"], FORMS["weighted"]
    differ = differ[weight > 0.0]
    assert len(repeated.elpd_i) == len(rows)
    assert len(weighted.elpd_i) == len(differ) == N
    assert np.isfinite([*repeated.elpd_i, *weighted.elpd_i]).all()
    first = np.unique(rows, return_index=True)[1]
    assert_array_equal(repeated.elpd_i, repeated.elpd_i[first][rows])  # equal rows are alike
    alone = weight[weight > 0.0] == 1.0
    same = repeated.elpd_i[first][differ]
    assert_allclose(weighted.elpd_i[alone], same[alone], rtol=1e-9)
    # The others predict a row less well where its copies are not among them; for weights that are
    # not smoothed this is Jensen's inequality.
    assert np.all(weighted.elpd_i[~alone] < (weight[weight > 0.0] * same)[~alone])
    assert weighted.elpd < repeated.elpd


@pytest.mark.filterwarnings("ignore:log_evidence.*Pareto k")
@short_chains()
def test_evidence_comparison_accepts_models_of_other_columns():
    """Their inputs are other ones, fewer or more, in orders of their own."""
    rows, _ = FORMS["repeated, in another order"]
    y = TARGETS["regressor"][1][rows]
    steps = np.round(X[rows, :1])
    columns = {"both": X[rows], "steps": steps, "place": 1.0 * rows[:, None]}
    models = {
        name: BayesianGPRegressor(**LONGER, sampler="aa", priors="paper").fit(own, y)
        for name, own in columns.items()
    }
    sizes = [len(model._rows.X) for model in models.values()]
    assert sizes == [9, len(np.unique(steps)), N]
    gaps = models["steps"].loo().elpd_i - models["both"].loo().elpd_i
    by_name = {record.name: record for record in compare_evidence(models).records}
    found = by_name["steps"].elpd_difference - by_name["both"].elpd_difference
    assert found == pytest.approx(gaps.sum())
    for name, model in models.items():
        assert by_name[name].log_evidence == model.log_evidence().value
    backward = BayesianGPRegressor(**LONGER, sampler="aa", priors="paper")
    backward.fit(X[rows[::-1]], y[::-1])
    with pytest.raises(ValueError, match="'both' and 'backward' were fitted to different targets"):
        compare_evidence({"both": models["both"], "backward": backward})


# --- fits that go on ------------------------------------------------------------------------------

MORE = {"n_draws": 5}
CONTINUED = [
    ("classifier", WALK),
    ("counts", {"sampler": "aa"}),
    ("regressor", {"sampler": "surr"}),
]


def moved(name):
    """The rows that are repeated, the first at another input that some of them have."""
    data = given(name, "repeated")
    data["X"] = data["X"].copy()
    data["X"][0] = PLACES[5]
    return data


@pytest.mark.parametrize(("name", "settings"), CONTINUED)
@short_chains()
def test_warm_start_accepts_repeated_or_weighted_rows(name, settings):
    whole = fitted(name, "repeated", **BRIEF | settings | MORE)
    for form, (rows, _) in FORMS.items():
        model = pickle.loads(pickle.dumps(fitted(name, "repeated", **BRIEF | settings)))
        model.set_params(warm_start=True, **MORE).fit(**given(name, form))
        assert_array_equal(model.theta_samples_, whole.theta_samples_)
        assert_array_equal(model.predict(X_NEW), whole.predict(X_NEW))
        # Rows are now those of the later call.
        f = model.latent_samples_
        assert f.shape == (1, 5, len(rows))
        expected = whole.latent_samples_[:, :, first_of_each("repeated")]
        assert_array_equal(f[:, :, first_of_each(form)], expected)


@in_one_test(("name", "settings"), CONTINUED)
def test_a_warm_start_refuses_a_row_at_another_input(name, settings):
    model = pickle.loads(pickle.dumps(fitted(name, "repeated", **BRIEF | settings)))
    with pytest.raises(ValueError, match="X or y differ from its data"):
        model.set_params(warm_start=True, **MORE).fit(**moved(name))


@pytest.mark.parametrize(("name", "settings"), CONTINUED)
@short_chains()
def test_checkpoint_accepts_repeated_or_weighted_rows(name, settings, tmp_path):
    path = tmp_path / "file"
    estimator = clone(TARGETS[name][0]).set_params(**BRIEF | settings, checkpoint=path)
    first = clone(estimator).fit(**given(name, "repeated"))
    complete = path.read_bytes()
    for form in FORMS:
        again = clone(estimator).fit(**given(name, form))
        assert_array_equal(again.theta_samples_, first.theta_samples_)
        assert path.read_bytes() == complete  # nothing was drawn
    with pytest.raises(ValueError, match=r"is the file of another fit: .*differ"):
        clone(estimator).fit(**moved(name))
    fewer = given(name, "repeated")
    fewer = {key: own if own is None else own[1:] for key, own in fewer.items()}
    with pytest.raises(ValueError, match=r"another fit: .*sample_weight.*row occurs.* differ"):
        clone(estimator).fit(**fewer)
    assert path.read_bytes() == complete


# --- ArviZ ----------------------------------------------------------------------------------------


@in_one_test(("name", "form"), product(["classifier", "softmax", "counts", "regressor"], FORMS))
def test_arviz_tree_has_the_given_rows_of_positive_weight(name, form):
    pytest.importorskip("arviz_base")
    model = collapsed(form) if name == "regressor" else of_walk(name, form)
    rows, weight = FORMS[form]
    weight = np.ones(len(rows)) if weight is None else weight
    rows, kept, weight = rows[weight > 0.0], weight > 0.0, weight[weight > 0.0]
    tree = model.to_arviz(posterior_predictive=True)
    y = TARGETS[name][1][rows]
    observed = tree["observed_data"]["y"].values
    if y.dtype.kind == "f":
        assert_allclose(observed, y, rtol=1e-12)
    else:
        assert_array_equal(observed, y)
    assert_array_equal(tree["posterior"]["f"], model.latent_samples_[:, :, kept])
    assert tree["posterior_predictive"]["y"].shape[2] == len(rows)
    log_lik = tree["log_likelihood"]["y"].values
    per_unit = log_lik / weight
    if name == "regressor":
        noise = model._units[1] * tree["posterior"]["noise_scale"].values[..., None]
        expected = stats.norm.logpdf(y, model.latent_samples_[:, :, kept], noise)
        assert_allclose(per_unit, expected, rtol=1e-9)
    elif name == "counts":
        rate = EXPOSURE[rows] * np.exp(model.latent_samples_[:, :, kept])
        k = tree["posterior"][model.hyperparameter_names_[-1]].values[..., None]
        assert_allclose(per_unit, stats.nbinom.logpmf(y, k, k / (k + rate)), rtol=1e-7)
    else:
        _, first = np.unique(rows, return_index=True)
        of_differ = per_unit[:, :, first]
        assert_allclose(per_unit, of_differ[:, :, rows], rtol=1e-12)
        assert len(np.unique(of_differ[0, 0])) == N
