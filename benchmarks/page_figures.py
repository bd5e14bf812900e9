"""Draw the figures of pages of the documentation, from the code that these pages show.

The code of a page runs as it stands, and the figure is drawn from its variables. For two pages
another sampler is run on the same data, for comparison. The figures of the recipes are from
`benchmarks.recipes`, and that of many rows is from the results of `benchmarks.many_rows`::

    python -m benchmarks.page_figures how_to_repeated how_to_time_series

Without names it draws all of them, in some minutes, to ``docs/_static``.
"""

import doctest
import sys
import warnings
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap
from scipy import stats
from sklearn.gaussian_process.kernels import RBF

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.displays import AutocorrelationDisplay
from skgpmcmc.samplers import PseudoMarginal

from .common import load_results
from .recipes import prevalence, season, threshold

DOCS = Path(__file__).parents[1] / "docs"
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"  # of Okabe and Ito
#: From one class, or model, to the other.
DIVERGING = LinearSegmentedColormap.from_list("two", [BLUE, "white", RED])


def variables_of(page):
    """Run the code of a page; returns its variables. What differs from the page is printed."""
    text = (DOCS / f"{page}.rst").read_text("utf-8")
    test = doctest.DocTestParser().get_doctest(text, {}, page, f"{page}.rst", 0)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=options).run(test, clear_globs=False)
    return test.globs


def save(name):
    """Write the current figure, and close it."""
    plt.savefig(DOCS / "_static" / f"{name}.png", dpi=120)
    plt.close("all")


def lengths(names, draws, prior, name):
    """Intervals of length-scales, those of the prior beside them."""
    _, ax = plt.subplots(figsize=(7, 0.6 + 0.5 * len(names)), layout="constrained")
    for k in range(len(names)):
        for shift, color, label, quantiles in (
            (-0.12, "black", "posterior", np.quantile(draws[:, k], [0.05, 0.5, 0.95])),
            (0.12, ORANGE, "prior", prior.ppf([0.05, 0.5, 0.95])),
        ):
            ax.plot(quantiles[[0, 2]], [k + shift] * 2, color=color, lw=3)
            ax.plot(quantiles[1], k + shift, "o", color=color, label=None if k else label)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xscale("log")
    ticks = [0.5, 1, 2, 5, 10, 20]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xlabel("length-scale, in standard deviations of the feature")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    save(name)


def interpreting_fit(page):
    """Length-scales, and simulated targets."""
    plt.close("all")  # the display of the page itself
    model = page["model"]
    prior = model.priors_["length_scale"]
    lengths(page["names"], page["draws"][:, 1:5], prior, "interpreting_lengths")
    _, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
    for k in range(50):
        label = None if k else "simulated"
        ax.ecdf(page["simulated"][:, k], color=BLUE, lw=0.7, alpha=0.4, label=label)
    ax.ecdf(page["y"], color="black", lw=2, label="observed")
    ax.set(xlabel="progression of diabetes after one year", ylabel="share of patients below")
    ax.legend(loc="lower right")
    save("interpreting_simulated")


def how_to_features(page):
    """Length-scales of three features."""
    prior = page["model"].priors_["length_scale"]
    names = ["first", "second", "third"]
    lengths(names, page["length_scales"], prior, "how_to_features")


def how_to_simulator(page):
    """Predictions against the truth, and where the first model is uncertain."""
    model, runs, places = page["model"], page["runs"][:-1], page["places"]
    fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.5), layout="constrained")
    truth = page["simulator"](places)
    style = {"fmt": "o", "ms": 3, "lw": 0.8, "color": BLUE}
    left.errorbar(truth, page["mean"], 2.0 * page["std"], **style)
    left.axline((0.0, 0.0), slope=1.0, color="black", lw=0.8)
    left.set(xlabel="true output", ylabel="predicted output")
    grid = np.linspace(0.0, 1.0, 30)
    first, second = np.meshgrid(grid, grid)
    _, std = model.predict(np.column_stack([first.ravel(), second.ravel()]), return_std=True)
    filled = right.contourf(grid, grid, std.reshape(30, 30), 12, cmap="cividis")
    right.plot(*runs.T, "o", color="white", mec="black", clip_on=False)
    right.set(xlabel="first input", ylabel="second input")
    fig.colorbar(filled, ax=right, label="standard deviation")
    save("how_to_simulator")


def how_to_repeated(page):
    """The mean response with two bands."""
    model = page["model"]
    grid = np.linspace(-0.3, 5.3, 57)[:, None]
    mean, (low, high) = model.predict(grid, return_quantiles=[0.05, 0.95])
    half = 1.645 * np.sqrt(model.latent_mean_and_variance(grid)[1])
    _, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
    x = grid[:, 0]
    ax.fill_between(x, low, high, color=BLUE, alpha=0.2, lw=0, label="new measurement, 90 %")
    ax.fill_between(x, mean - half, mean + half, color=BLUE, alpha=0.5, lw=0, label="mean, 90 %")
    ax.plot(x, mean, color=BLUE)
    ax.plot(page["dose"][:, 0], page["response"], "o", color="black", ms=4, label="measured")
    ax.set(xlabel="dose", ylabel="response")
    ax.legend(loc="upper left")
    save("how_to_repeated")


def how_to_time_series(page):
    """Four years and a forecast."""
    year, sales = page["year"][:, 0], page["sales"]
    _, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
    ax.plot(year[:48], sales[:48], "o", color="black", ms=4, label="seen")
    ax.fill_between(year[48:], page["low"], page["high"], color=BLUE, alpha=0.25, lw=0)
    ax.plot(year[48:], page["mean"], color=BLUE, label="forecast, 90 % interval")
    ax.plot(year[48:], sales[48:], "o", color=ORANGE, mec="black", ms=5, label="not seen")
    ax.set(xlabel="time in years", ylabel="sales")
    ax.legend(loc="upper left")
    save("how_to_time_series")


def moons(ax, X, y, **style):
    """Rows of two classes."""
    for label, color, marker in ((0, BLUE, "o"), (1, RED, "^")):
        ax.scatter(*X[y == label].T, color=color, marker=marker, edgecolor="white", s=24, **style)


def models(page):
    """Predictions for classes, real numbers and counts."""
    _, (left, middle, right) = plt.subplots(1, 3, figsize=(8, 2.9), layout="constrained")
    across, up = np.linspace(-1.8, 2.8, 60), np.linspace(-1.4, 1.9, 60)
    grid = np.stack(np.meshgrid(across, up), axis=-1)
    proba = page["model"].predict_proba(grid.reshape(-1, 2))[:, 1].reshape(60, 60)
    left.pcolormesh(across, up, proba, cmap=DIVERGING, vmin=0.0, vmax=1.0, shading="gouraud")
    moons(left, page["X"], page["y"])
    left.set(title="two classes", xlabel="first feature", ylabel="second feature")

    inputs, targets = page["inputs"][60:], page["targets"][60:]
    mean, (low, high) = page["regressor"].predict(inputs, return_quantiles=[0.05, 0.95])
    order = mean.argsort()[::4]
    rank = np.arange(len(order))
    middle.vlines(rank, low[order], high[order], color=BLUE, alpha=0.3, label="90 % interval")
    middle.plot(rank, targets[order], "o", color="black", ms=2.5, label="observed")
    middle.set(title="real numbers", xlabel="patient, by predicted mean")
    middle.set_ylabel("progression of diabetes")
    middle.legend(loc="upper left", fontsize="small")
    middle.set_ylim(top=450.0)

    times, hours, calls, counts = (page[name] for name in ("times", "hours", "calls", "counts"))
    at = np.linspace(0.0, 4.0, 81)[:, None]
    mean, (low, high) = counts.predict(at, return_quantiles=[0.05, 0.95])
    log_mean, log_variance = counts.latent_mean_and_variance(at)
    half = 1.645 * np.sqrt(log_variance)
    style = {"color": BLUE, "lw": 0.0}
    right.fill_between(at[:, 0], low, high, alpha=0.2, step="mid", label="calls, 90 %", **style)
    band = np.exp(log_mean - half), np.exp(log_mean + half)
    right.fill_between(at[:, 0], *band, alpha=0.5, label="rate, 90 %", **style)
    right.plot(at[:, 0], mean, color=BLUE)
    right.plot(times[:, 0], calls / hours, "o", color="black", ms=3, label="observed")
    right.set(title="counts", xlabel="time", ylabel="calls per hour", ylim=(0.0, 19.0))
    right.legend(loc="upper right", fontsize="small")
    save("models")


def other_chains(page, n_draws, **settings):
    """Chains of another sampler on the data of a page, which have not converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BayesianGPClassifier(
            n_draws=n_draws, target_ess=None, random_state=0, **settings
        ).fit(page["X"], page["y"])
    return model


def samplers(page):
    """Traces and autocorrelations of the default sampler and of a random walk."""
    walk = other_chains(page, 1000, sampler=PseudoMarginal(moves="random_walk"))
    _, axes = plt.subplot_mosaic(
        [["default", "both"], ["random walk", "both"]],
        figsize=(8, 3.4),
        width_ratios=(3, 2),
        layout="constrained",
    )
    for label, model, color in (("default", page["gp"], BLUE), ("random walk", walk, ORANGE)):
        axes[label].plot(model.theta_samples_[0, :100, 1], ".-", ms=4, lw=0.8, color=color)
        axes[label].set(title=label, ylabel="log length-scale")
        axes[label].sharey(axes["default"])
        lengths = {"hyperparameters": "length_scale", "max_lag": 40}
        AutocorrelationDisplay.from_estimator(
            model, **lengths, ax=axes["both"], color=color, label=label
        )
    axes["default"].tick_params(labelbottom=False)
    axes["random walk"].set_xlabel("iteration")
    axes["both"].set(xlabel="lag", ylabel="autocorrelation", title="both")
    save("samplers")


def choosing_priors(page):
    """The default prior of a length-scale, and functions under it."""
    X, prior = page["X"], page["prior"]
    low, high = page["length_bounds"](X)
    _, (left, right) = plt.subplots(1, 2, figsize=(8, 3.3), layout="constrained")
    lengths = np.geomspace(0.05, 40.0, 400)
    left.plot(lengths, prior.pdf(lengths) * lengths, color="black")  # the density of the log
    for end, words in ((low, "half the distance\nof neighbors"), (high, "three times\nthe width")):
        left.axvline(end, color="black", ls=":")
        left.annotate(words, (end, 0.5), ha="center", fontsize="small", backgroundcolor="white")
    draws = np.random.default_rng(3)
    grid = np.linspace(-2.0, 2.0, 201)[:, None]
    for probability, color in ((0.05, RED), (0.5, BLUE), (0.95, GREEN)):
        length = prior.ppf(probability)
        left.plot(length, prior.pdf(length) * length, "o", color=color)
        K = RBF(length)(grid) + 1e-9 * np.eye(len(grid))
        f = 2.0 * np.linalg.cholesky(K) @ draws.standard_normal(len(grid))
        right.plot(grid, f, color=color, label=f"length-scale {length:.1f}")
    right.plot(X, np.full(len(X), -6.0), "|", color="black")
    left.set(xscale="log", xlabel="length-scale", ylabel="density of the log", ylim=(0.0, 0.6))
    left.set_xticks([0.1, 1.0, 10.0], ["0.1", "1", "10"])
    right.set(xlabel="input", ylabel="function", ylim=(-6.4, 6.4))
    right.legend(loc=(0.55, 0.1), fontsize="small")
    save("choosing_priors")


def predictions(page):
    """The latent function and the probability on a line, with their draws."""
    model, gp = page["model"], page["gp"]
    up = np.linspace(-1.5, 2.0, 101)
    line = np.column_stack([np.full(101, 0.5), up])
    rows = model[:-1].transform(line)
    f = gp.sample_latent(rows, n_draws=20, random_state=0)
    mean, variance = gp.latent_mean_and_variance(rows)
    half = 2.0 * np.sqrt(variance)
    _, (left, right) = plt.subplots(1, 2, figsize=(8, 3.3), sharex=True, layout="constrained")
    left.fill_between(up, mean - half, mean + half, color=BLUE, alpha=0.15, lw=0)
    for ax, draws, average in (
        (left, f, mean),
        (right, stats.norm.cdf(f), model.predict_proba(line)[:, 1]),
    ):
        ax.plot(up, draws, color=BLUE, lw=0.6, alpha=0.6)
        ax.plot(up, average, color="black", lw=2)
        ax.set_xlabel("second feature (the first is 0.5)")
    left.set_ylabel("latent function")
    right.set_ylabel("probability of class 1")
    save("predictions")


def convergence(page):
    """Traces and ranks of chains that mix, and of chains that do not."""
    stuck = other_chains(
        page,
        300,
        sampler=PseudoMarginal(moves="random_walk"),
        approximation="laplace",
        n_importance=1,
    )
    _, axes = plt.subplots(
        2,
        2,
        figsize=(8, 4.6),
        sharex="row",
        sharey="row",
        height_ratios=(3, 2),
        layout="constrained",
    )
    colors = (BLUE, ORANGE, GREEN, RED)
    for column, (title, model) in zip(
        axes.T, {"chains that mix": page["gp"], "chains that are stuck": stuck}.items(), strict=True
    ):
        draws = model.theta_samples_[:, :300, 1]
        for chain, color in zip(draws, colors, strict=True):
            column[0].plot(chain, lw=0.8, color=color)
        ranks = stats.rankdata(draws).reshape(draws.shape)
        column[1].hist(list(ranks), bins=8, color=colors)
        column[0].set(title=title, xlabel="iteration")
        column[1].set_xlabel("rank among all draws")
    axes[0, 0].set_ylabel("log length-scale")
    axes[1, 0].set_ylabel("draws of a chain")
    save("convergence")


def model_comparison(page):
    """Differences of the leave-one-out densities of two models, row by row."""
    X, difference = page["X"], page["difference"]
    fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    most = np.abs(difference).max()
    style = {"cmap": DIVERGING, "vmin": -most, "vmax": most, "edgecolor": "0.4"}
    for label, marker in ((0, "o"), (1, "^")):
        rows = page["y"] == label
        points = left.scatter(*X[rows].T, c=difference[rows], marker=marker, **style)
    left.set(xlabel="first feature", ylabel="second feature")
    ordered = np.sort(difference)
    right.axhline(0.0, color="black", lw=0.8)
    right.scatter(np.arange(len(ordered)), ordered, c=ordered, s=20, **style)
    right.set(xlabel="row, in the order of the difference")
    right.set_ylabel("log predictive density,\nsmooth minus linear")
    fig.colorbar(points, ax=left, label="smooth minus linear")
    save("model_comparison")


def how_to_columns(page):
    """The three terms of a sum: a map, categories, and a line."""
    model, plots = page["model"], page["plots"]
    fig, (left, middle, right) = plt.subplots(1, 3, figsize=(8, 2.9), layout="constrained")
    grid = np.linspace(0.0, 1.0, 30)
    east, north = np.meshgrid(grid, grid)
    places = at_columns(900, east=east.ravel(), north=north.ravel())
    space = model.predict(places, terms=[0]).reshape(30, 30)
    filled = left.contourf(grid, grid, space, 12, cmap="cividis")
    left.plot(plots["east"], plots["north"], "o", ms=2.5, color="white", mec="black", mew=0.5)
    left.set(title="place", xlabel="east", ylabel="north")
    fig.colorbar(filled, ax=left)

    soils = ["clay", "peat", "sand"]
    mean, sd = model.predict(at_columns(3, soil=soils), return_std=True, terms=[1])
    middle.errorbar(range(3), mean, 1.645 * sd, fmt="o", color=BLUE)
    middle.set(title="soil", xlim=(-0.5, 2.5))
    middle.set_xticks(range(3), soils)

    amount = np.linspace(0.0, 3.0, 41)
    mean, sd = model.predict(at_columns(41, fertilizer=amount), return_std=True, terms=[2])
    right.fill_between(amount, mean - 1.645 * sd, mean + 1.645 * sd, color=BLUE, alpha=0.25, lw=0)
    right.plot(amount, mean, color=BLUE)
    right.plot(plots["fertilizer"], np.full(60, mean[0] - 0.35), "|", color="black")
    right.set(title="fertilizer", xlabel="amount")
    save("how_to_columns")


def at_columns(n_rows, **columns):
    """Rows for the plots' model with these columns; a term does not depend on the others."""
    others = {"east": 0.5, "north": 0.5, "soil": "clay", "fertilizer": 1.0}
    return pd.DataFrame({**others, **columns}, index=range(n_rows))


def how_to_imbalanced(page):
    """Predicted probabilities of both classes, with two thresholds."""
    probability = page["model"].predict_proba(page["X_test"])[:, 1]
    order = probability.argsort()
    rank = np.arange(len(order))
    rare = page["y_test"][order] == 1
    _, ax = plt.subplots(figsize=(7, 3.3), layout="constrained")
    ax.plot(rank[~rare], probability[order][~rare], "o", ms=3, color=BLUE, label="common class")
    ax.plot(rank[rare], probability[order][rare], "^", ms=5, color=RED, label="rare class")
    for threshold_of_cost in (0.1, 0.5):
        ax.axhline(threshold_of_cost, color="black", ls=":")
        words = f"threshold {threshold_of_cost}"
        ax.annotate(words, (0.0, threshold_of_cost + 0.01), fontsize="small")
    ax.set(xlabel="test row, by predicted probability", ylabel="probability of the rare class")
    ax.legend(loc="upper left", bbox_to_anchor=(0.0, 0.95))
    save("how_to_imbalanced")


def how_to_exposure(page):
    """Calls per hour with the hours that each point stands for, and the rate."""
    model, x = page["model"], page["x"]
    at = np.linspace(0.0, 4.0, 81)[:, None]
    rate, (low, high) = model.predict_rate(at, return_quantiles=[0.05, 0.95])
    _, ax = plt.subplots(figsize=(7, 3.3), layout="constrained")
    ax.fill_between(at[:, 0], low, high, color=BLUE, alpha=0.25, lw=0, label="rate, 90 %")
    ax.plot(at[:, 0], rate, color=BLUE)
    sizes = 18.0 * page["hours"]
    ax.scatter(x[:, 0], page["calls"] / page["hours"], sizes, color="black", label="observed")
    ax.set(xlabel="time", ylabel="calls per hour")
    ax.legend(title="areas of points: hours", loc="upper right")
    save("how_to_exposure")


def how_to_kernel(page):
    """Probabilities by a smooth and by a linear kernel."""
    fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
    across, up = np.linspace(-1.8, 2.8, 60), np.linspace(-1.4, 1.9, 60)
    grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    for ax, (name, model) in zip(axes, page["models"].items(), strict=True):
        proba = model.predict_proba(grid)[:, 1].reshape(60, 60)
        style = {"cmap": DIVERGING, "vmin": 0.0, "vmax": 1.0, "shading": "gouraud"}
        surface = ax.pcolormesh(across, up, proba, **style)
        moons(ax, page["X"], page["y"])
        ax.set(title=name, xlabel="first feature")
    axes[0].set_ylabel("second feature")
    fig.colorbar(surface, ax=axes, label="probability of class 1")
    save("how_to_kernel")


def how_to_large_n(page):
    """Ranks of smooth kernels by the number of rows."""
    ranks = load_results("many_rows")["ranks"]
    _, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
    styles = {"2.0": "-", "1.0": "--", "0.5": ":"}
    colors = {"1": BLUE, "2": ORANGE, "3": GREEN}
    for length, line in styles.items():
        for d, color in colors.items():
            found = {n: ranks.get(f"RBF, {length}, {d}, {n}") for n in (2000, 20000, 100000)}
            known = {n: of["rank"] for n, of in found.items() if of and of["rank"] is not None}
            if len(known) > 1:
                features = "1 feature" if d == "1" else f"{d} features"
                words = f"{features}, length-scale {length}"
                ax.plot(list(known), list(known.values()), f"o{line}", color=color, label=words)
    ax.axline((1000, 1000), slope=1, color="0.5", lw=0.8)
    ax.annotate(
        "rank = rows", (2000, 2500), color="0.5", rotation=30, fontsize="small", va="bottom"
    )
    ax.set(xscale="log", yscale="log", xlabel="rows", ylabel="rank", ylim=(10, 20_000))
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")
    save("how_to_large_n")


def recipes(page):
    """A map, a trend with its season, and the posterior of a threshold."""
    fig, axes = plt.subplot_mosaic(
        [["map", "trend"], ["map", "season"], ["psychometric", "threshold"]],
        figsize=(8, 7.5),
        height_ratios=(1, 1, 1.4),
        layout="constrained",
    )
    model, villages = prevalence()
    places = villages[["longitude", "latitude", "elevation"]]
    above = model.exceedance_proba(places, 0.2)
    points = axes["map"].scatter(
        places["longitude"],
        places["latitude"],
        c=above,
        cmap=DIVERGING,
        vmin=0.0,
        vmax=1.0,
        edgecolor="0.4",
        s=24,
    )
    axes["map"].set(title="Loa loa", xlabel="longitude", ylabel="latitude")
    fig.colorbar(points, ax=axes["map"], label="probability of a prevalence above 20 %")

    model, months = season()
    year = months["year"]
    for name, terms in (("trend", [0, 1]), ("season", [2])):
        mean, sd = model.predict(months, return_std=True, terms=terms)
        axes[name].fill_between(year, mean - 1.645 * sd, mean + 1.645 * sd, color=BLUE, alpha=0.25)
        axes[name].plot(year, mean, color=BLUE)
        axes[name].set_ylabel(f"{name}, ppm")
    axes["trend"].set_title("carbon dioxide on Hawaii")
    axes["trend"].tick_params(labelbottom=False)
    axes["season"].set_xlabel("year")

    model, levels = threshold()
    grid = pd.DataFrame({"Loud": np.linspace(35.0, 65.0, 301)})
    proba, (low, high) = model.predict(grid, return_quantiles=[0.05, 0.95])
    ax = axes["psychometric"]
    ax.fill_between(grid["Loud"], low, high, color=BLUE, alpha=0.25, lw=0)
    ax.plot(grid["Loud"], proba, color=BLUE)
    ax.plot(levels["Loud"], levels["Correct"] / levels["Trials"], "o", color="black")
    ax.set(title="children in noise", xlabel="loudness in dB", ylabel="share of right answers")
    ax.set_xlim(34.0, 57.0)
    f = model.sample_latent(grid, 1000, random_state=0)
    draws = grid["Loud"].to_numpy()[np.argmax(f > 0.0, axis=0)]
    axes["threshold"].hist(draws, bins=25, color=BLUE, density=True)
    axes["threshold"].set(title="their threshold", xlabel="loudness in dB", ylabel="density")
    save("recipes")


FIGURES = (
    how_to_columns,
    how_to_imbalanced,
    how_to_exposure,
    how_to_kernel,
    how_to_large_n,
    recipes,
    interpreting_fit,
    how_to_features,
    how_to_simulator,
    how_to_repeated,
    how_to_time_series,
    models,
    samplers,
    choosing_priors,
    predictions,
    convergence,
    model_comparison,
)


if __name__ == "__main__":
    for draw in FIGURES:
        if draw.__name__ in sys.argv[1:] or len(sys.argv) == 1:
            draw(variables_of(draw.__name__))
