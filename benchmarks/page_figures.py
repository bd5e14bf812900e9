"""Draw the figures of pages of the documentation, from the code that these pages show.

The code of a page runs as it stands, and the figure is drawn from its variables::

    python -m benchmarks.page_figures how_to_repeated how_to_time_series

Without names it draws all of them, in some minutes, to ``docs/_static``.
"""

import doctest
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

DOCS = Path(__file__).parents[1] / "docs"
BLUE, ORANGE = "#0072B2", "#E69F00"  # of Okabe and Ito


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
    prior = model.priors_["k2__length_scale"]
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
    prior = page["model"].priors_["k2__length_scale"]
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


FIGURES = (interpreting_fit, how_to_features, how_to_simulator, how_to_repeated, how_to_time_series)


if __name__ == "__main__":
    for draw in FIGURES:
        if draw.__name__ in sys.argv[1:] or len(sys.argv) == 1:
            draw(variables_of(draw.__name__))
