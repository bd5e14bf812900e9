"""Displays of chains: what is drawn, of whose chains, under which name."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPClassifier, BayesianGPOrdinalClassifier
from skgpmcmc.displays import AutocorrelationDisplay, PSRFDisplay, TraceDisplay
from skgpmcmc.run import autocorrelation, gelman_rubin, rank_r_hat
from skgpmcmc.samplers import PseudoMarginal

from ...helpers import in_one_test, short_chains

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

DISPLAYS = [TraceDisplay, AutocorrelationDisplay, PSRFDisplay]
each_in_one = in_one_test("display_class", DISPLAYS)
SHORT = {"n_chains": 2, "n_warmup": 4, "n_draws": 16, "max_rhat": 10.0, "random_state": 0}
WALK = {"sampler": PseudoMarginal(moves="random_walk"), "n_importance": 2}
NAMES = ["k1__k1__constant_value", "k1__k2__length_scale", "k2__slope_variance"]
LABELS = [f"log {name}" for name in NAMES]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def chains(rng):
    return rng.standard_normal((4, 300, 2))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def data():
    X, y = make_blobs(24, centers=3, cluster_std=3.0, random_state=0)
    return StandardScaler().fit_transform(X), np.array(["ham", "eggs", "spam"])[y]


@pytest.fixture(scope="module")
@short_chains()
def binary(data):
    X, y = data
    return BayesianGPClassifier(**WALK, **SHORT).fit(X, y == "spam")


@pytest.fixture(scope="module")
@short_chains()
def several(data):
    return BayesianGPClassifier(**WALK, **SHORT).fit(*data)


def labels(display):
    return [line.get_label() for line in display.lines_]


def autoregression(rng, rho, shape):
    noise = rng.standard_normal(shape)
    chain = noise.copy()
    for k in range(1, shape[1]):
        chain[:, k] = rho * chain[:, k - 1] + np.sqrt(1.0 - rho**2) * noise[:, k]
    return chain


# --- traces ---------------------------------------------------------------------------------------


def test_trace_labels_fit_into_their_panels(chains):
    names = ["log k1__constant_value", "log k1__k2__length_scale[mean concave points]"]
    display = TraceDisplay.from_samples(chains, names)
    display.figure_.canvas.draw()
    for ax, name in zip(display.axes_, names, strict=True):
        assert ax.get_ylabel().replace("\n", "") == name
        label = ax.yaxis.label.get_window_extent()
        assert label.height < 1.1 * ax.get_window_extent().height


def test_traces_show_the_draws(chains):
    display = TraceDisplay.from_samples(chains, ["a", "b"])
    assert display.lines_.shape == (2, 4)
    for j, name in enumerate(["a", "b"]):
        assert display.axes_[j].get_ylabel() == name
        for c, line in enumerate(display.lines_[j]):
            assert_array_equal(line.get_xdata(), np.arange(1, 301))
            assert_array_equal(line.get_ydata(), chains[c, :, j])
            assert line.axes is display.axes_[j]
    assert display.figure_ is display.axes_[0].figure
    display.figure_.canvas.draw()


def test_traces_are_drawn_on_given_axes(chains):
    figure, axes = plt.subplots(1, 2)
    display = TraceDisplay.from_samples(chains, ax=axes)
    assert list(display.axes_) == list(axes)
    assert display.figure_ is figure
    one = TraceDisplay.from_samples(chains[:, :, :1], ax=axes[0])
    assert list(one.axes_) == [axes[0]]
    with pytest.raises(ValueError, match=r"holds 1 axes.*2 panels.*hyperparameters"):
        TraceDisplay.from_samples(chains, ax=axes[0])


# --- autocorrelation ------------------------------------------------------------------------------


def test_autocorrelation_is_that_of_its_definition_averaged_over_chains(chains):
    x = chains[..., 0] - chains[..., 0].mean(axis=1, keepdims=True)
    expected = [[c[: len(c) - k] @ c[k:] / (c @ c) for k in range(len(c))] for c in x]
    assert_allclose(autocorrelation(chains)[..., 0], expected, atol=1e-12)
    display = AutocorrelationDisplay.from_samples(chains)
    assert display.autocorrelation.shape == (101, 2)
    first = display.lines_[0]
    assert_array_equal(first.get_xdata(), np.arange(101))
    assert_allclose(first.get_ydata(), np.mean(expected, axis=0)[:101], atol=1e-12)
    display.figure_.canvas.draw()


def test_autocorrelation_of_a_chain_that_never_moves_is_one(chains):
    chains[0, :, 1] = 0.1
    values = autocorrelation(chains)
    assert_array_equal(values[0, :, 1], 1.0)
    assert np.all(values[:, 1:, 0] < 1.0)
    assert np.all(values[1:, 1:, 1] < 1.0)


def test_short_chains_have_fewer_lags_of_autocorrelation(chains):
    display = AutocorrelationDisplay.from_samples(chains[:, :30])
    assert len(display.autocorrelation) == 30
    with pytest.raises(ValueError, match="max_lag must be an integer >= 1; got 0"):
        AutocorrelationDisplay.from_samples(chains, max_lag=0)


# --- potential scale reduction --------------------------------------------------------------------


@pytest.mark.parametrize(("method", "threshold"), [("rank", 1.01), ("gelman_rubin", 1.1)])
def test_reduction_factor_is_large_only_for_separated_chains(chains, method, threshold):
    chains[..., 1] += [[-3.0], [-1.0], [1.0], [3.0]]
    display = PSRFDisplay.from_samples(chains, ["same", "apart"], method=method)
    same, apart = display.lines_
    assert_array_equal(same.get_xdata(), np.arange(6, 301, 6))
    assert 0.99 < same.get_ydata()[-1] < 1.02
    assert np.all(apart.get_ydata()[1:] > 1.3)
    assert_array_equal(display.threshold_line_.get_ydata(), threshold)
    assert labels(display) == ["same", "apart"]
    display.figure_.canvas.draw()


def test_reduction_factor_at_checkpoints_uses_the_draws_so_far(chains):
    display = PSRFDisplay.from_samples(chains, checkpoints=[10, 100, 300])
    expected = [rank_r_hat(chains[:, :k]) for k in (10, 100, 300)]
    assert_array_equal(np.stack([line.get_ydata() for line in display.lines_], axis=1), expected)
    assert display.upper_lines_ is None


def test_last_reduction_factor_equals_that_of_the_diagnostics(binary):
    display = PSRFDisplay.from_estimator(binary)
    assert_array_equal(display.r_hat[-1], binary.diagnostics_.r_hat)


def test_gelman_rubin_has_an_upper_limit(chains):
    display = PSRFDisplay.from_samples(chains, method="gelman_rubin", threshold=None)
    assert display.threshold_line_ is None
    assert np.all(display.upper >= display.r_hat)
    for line, upper, values in zip(
        display.lines_, display.upper_lines_, display.upper.T, strict=True
    ):
        assert_array_equal(upper.get_ydata(), values)
        assert upper.get_color() == line.get_color()
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == labels(display)


def test_threshold_of_the_reduction_factor_is_visibly_above_one(chains):
    """Whatever the first factors are; and the last ones are seen whatever they are."""
    chains[0, :20] += 5.0
    display = PSRFDisplay.from_samples(chains)
    pixels = display.ax_.transData.transform([(0.0, 1.0), (0.0, 1.01)])[:, 1]
    assert pixels[1] - pixels[0] > 10.0
    chains[0] += 50.0
    apart = PSRFDisplay.from_samples(chains, ax=display.ax_)
    assert apart.r_hat[-1].max() < display.ax_.get_ylim()[1]


def test_gelman_rubin_agrees_with_a_transcription_of_coda(rng):
    """As R's package coda has it, whose covariance of W and B is written in another way."""
    x = autoregression(rng, 0.9, (5, 40, 1))
    variance, mean = x.var(axis=1, ddof=1).ravel(), x.mean(axis=1).ravel()
    m, n = 5, 40
    W, B = variance.mean(), n * mean.var(ddof=1)
    V = (n - 1) * W / n + (1 + 1 / m) * B / n
    var_W, var_B = variance.var(ddof=1) / m, 2 * B**2 / (m - 1)
    cov = np.cov(variance, mean**2)[0, 1] - 2 * mean.mean() * np.cov(variance, mean)[0, 1]
    var_V = (n - 1) ** 2 * var_W + (1 + 1 / m) ** 2 * var_B
    var_V = (var_V + 2 * (n - 1) * (1 + 1 / m) * n / m * cov) / n**2
    d_V = 2 * V**2 / var_V
    between = (1 + 1 / m) / n * B / W
    inflated = stats.f.ppf(0.975, m - 1, 2 * W**2 / var_W) * between
    estimate, upper = gelman_rubin(x)
    assert_allclose(estimate, np.sqrt((d_V + 3) / (d_V + 1) * ((n - 1) / n + between)))
    assert_allclose(upper, np.sqrt((d_V + 3) / (d_V + 1) * ((n - 1) / n + inflated)))


def test_gelman_rubin_of_equal_variances_equals_a_hand_computation():
    # W = 5/3 in both chains, B = 2, V = 3/4 W + 3/2 B / 4 = 2; var V = (3/8)^2 2 B^2 = 9/8, so that
    # V has 64/9 degrees of freedom. W has no variance, so that F is chi-squared, with one degree.
    samples = np.array([[1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0]])[:, :, None]
    estimate, upper = gelman_rubin(samples)
    inflation = (64 / 9 + 3) / (64 / 9 + 1)
    assert_allclose(estimate, np.sqrt(inflation * 2.0 / (5 / 3)))
    assert_allclose(upper, np.sqrt(inflation * (0.75 + 5.023886187 * 0.375 * 1.2)))


@in_one_test("statistic", [rank_r_hat, lambda x: gelman_rubin(x).estimate])
def test_constant_or_too_short_chains_have_an_infinite_factor(chains, statistic):
    chains[2, :, 1] = 0.0
    assert_array_equal(np.isfinite(statistic(chains)), [True, False])
    assert not np.isfinite(statistic(chains[:, :3])).any()
    assert not np.isfinite(statistic(chains[:1, :7])).any()
    assert_allclose(statistic(chains[:1, :, :1]), 1.0, atol=0.1)  # half against half


def test_chains_that_jump_once_have_an_infinite_factor():
    steps = np.repeat([[0.0, 1.0], [1.0, 2.0]], 4, axis=1)[:, :, None]
    assert_array_equal(rank_r_hat(steps), np.inf)


def test_chain_that_sticks_leaves_a_gap_in_the_factor(chains):
    chains[0, :100] = 0.0
    display = PSRFDisplay.from_samples(chains, checkpoints=[50, 100, 200])
    assert_array_equal(np.isfinite(display.r_hat), [[False] * 2, [False] * 2, [True] * 2])
    display.figure_.canvas.draw()


@in_one_test("checkpoints", [0, 2.5, [10, 10], [10, 301], [0, 10], [[10, 20]], "many"])
def test_impossible_checkpoints_of_the_factor_are_refused(chains, checkpoints):
    with pytest.raises(ValueError, match="checkpoints must be an integer >= 1, or increasing"):
        PSRFDisplay.from_samples(chains, checkpoints=checkpoints)


def test_unknown_method_and_too_short_chains_are_refused_by_psrf(chains):
    with pytest.raises(ValueError, match=r"method must be one of .*'rank'.*got 'split'"):
        PSRFDisplay.from_samples(chains, method="split")
    with pytest.raises(ValueError, match=r"chains of 7 draws.*1 of them need at least 8"):
        PSRFDisplay.from_samples(chains[:1, :7])


# --- all of them ----------------------------------------------------------------------------------


def test_chain_displays_share_axes(chains):
    _, (left, right) = plt.subplots(1, 2)
    for name in ("first", "second"):
        AutocorrelationDisplay.from_samples(chains, ["a", "b"], name=name, ax=left)
        PSRFDisplay.from_samples(chains, ["a", "b"], name=name, ax=right)
    expected = ["first: a", "first: b", "second: a", "second: b"]
    for ax, more in ((left, []), (right, ["threshold 1.01"])):
        texts = [text.get_text() for text in ax.get_legend().get_texts()]
        assert sorted(texts) == sorted(expected + more)


@each_in_one
def test_line_properties_and_aliases_override_defaults_of_chain_displays(chains, display_class):
    display = display_class.from_samples(chains, lw=3, color="red")
    for line in display.lines_.flat:
        assert (line.get_linewidth(), line.get_color()) == (3, "red")


@each_in_one
def test_chain_displays_can_be_plotted_again_on_other_axes(chains, display_class):
    display = display_class.from_samples(chains[:, :, :1])
    _, ax = plt.subplots()
    assert display.plot(ax) is display
    assert display.lines_.flat[0].axes is ax


@each_in_one
def test_chains_without_names_are_numbered(chains, display_class):
    assert display_class.from_samples(chains).names == ["theta[0]", "theta[1]"]
    with pytest.raises(ValueError, match=r"names must have one entry for each of the 2"):
        display_class.from_samples(chains, ["a"])


BAD_SAMPLES = {
    "two axes": (np.zeros((4, 300)), r"samples must have the shape \(n_chains, n_draws"),
    "no draws": (np.zeros((4, 0, 2)), r"samples must have the shape \(n_chains, n_draws"),
    "no names": (np.zeros((4, 300, 0)), r"samples must have the shape \(n_chains, n_draws"),
    "a gap": (np.full((4, 300, 2), np.nan), "samples must be finite"),
}


@each_in_one
@in_one_test("samples, message", BAD_SAMPLES.values(), BAD_SAMPLES)
def test_impossible_samples_are_refused_by_chain_displays(display_class, samples, message):
    with pytest.raises(ValueError, match=message):
        display_class.from_samples(samples)


@each_in_one
def test_chain_displays_without_matplotlib_name_the_remedy(monkeypatch, chains, display_class):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "skgpmcmc\[plots\]"'):
        display_class.from_samples(chains)


# --- fitted estimators ----------------------------------------------------------------------------


@each_in_one
def test_chain_displays_of_an_estimator_show_its_draws(binary, display_class):
    assert binary.hyperparameter_names_ == NAMES
    display = display_class.from_estimator(binary)
    assert display.names == LABELS
    given = display_class.from_samples(binary.theta_samples_, LABELS)
    for line, other in zip(display.lines_.flat, given.lines_.flat, strict=True):
        assert_allclose(line.get_ydata(), other.get_ydata(), atol=1e-12)


@each_in_one
def test_chain_displays_show_the_chosen_hyperparameters(binary, display_class):
    for chosen in (NAMES[1], [NAMES[1]], "length_scale"):
        display = display_class.from_estimator(binary, hyperparameters=chosen)
        assert display.names == LABELS[1:2]
    given = display_class.from_samples(binary.theta_samples_[:, :, 1:2], LABELS[1:2])
    assert_allclose(
        display.lines_.flat[0].get_ydata(), given.lines_.flat[0].get_ydata(), atol=1e-12
    )
    with pytest.raises(ValueError, match=r"hyperparameters=\['alpha'\] are not.*k1__k1__constant"):
        display_class.from_estimator(binary, hyperparameters="alpha")


@short_chains()
def test_chain_displays_of_a_pipeline_show_no_logs_of_thresholds(data):
    X, y = data
    settings = {**SHORT, **WALK, "n_draws": 8}
    last = BayesianGPOrdinalClassifier(class_order=["ham", "eggs", "spam"], **settings)
    model = make_pipeline(StandardScaler(), last).fit(X, y)
    display = TraceDisplay.from_estimator(model)
    kernel = ["log k1__constant_value", "log k2__length_scale"]
    assert display.names == [*kernel, "threshold", "log threshold_gap"]
    assert_array_equal(display.samples, model[-1].theta_samples_)


@each_in_one
def test_chain_displays_show_one_class_of_one_vs_rest(several, display_class):
    assert several.classes_.tolist() == ["eggs", "ham", "spam"]
    display = display_class.from_estimator(several, class_label="ham")
    given = display_class.from_estimator(several.estimators_[1])
    for line, other in zip(display.lines_.flat, given.lines_.flat, strict=True):
        assert_allclose(line.get_ydata(), other.get_ydata(), atol=1e-12)
    for label in (None, "bacon"):
        with pytest.raises(ValueError, match=r"one of \['eggs', 'ham', 'spam'\] as class_label"):
            display_class.from_estimator(several, class_label=label)


@each_in_one
def test_chain_displays_refuse_estimators_without_chains(data, binary, display_class):
    with pytest.raises(NotFittedError):
        display_class.from_estimator(BayesianGPClassifier())
    with pytest.raises(ValueError, match="LogisticRegression has no chains"):
        display_class.from_estimator(LogisticRegression().fit(*data))
    with pytest.raises(ValueError, match="class_label='ham' has no effect"):
        display_class.from_estimator(binary, class_label="ham")


def test_trace_display_refuses_a_fit_with_all_hyperparameters_fixed(data):
    X, y = data
    model = BayesianGPClassifier(RBF(1.0, "fixed"), **WALK, **SHORT).fit(X, y == "ham")
    with pytest.raises(ValueError, match="none of them 0"):
        TraceDisplay.from_estimator(model)
