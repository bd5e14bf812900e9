"""Helpers of all displays: the import of matplotlib, axes, styles of lines and legends."""

import numpy as np

#: Dashes of successive curves. Curves of good classifiers overlap near a score of one: dashes and
#: markers keep the curve underneath visible, also in print without color.
_LINE_STYLES = ("-", "--", "-.", ":")
#: Markers of successive curves. 4 dashes and 5 markers make 20 different styles.
_MARKERS = ("o", "s", "^", "D", "v")
#: Space between a legend, the curves and the axes, as a share of the height of the axes.
_LEGEND_MARGIN = 0.04
#: Largest share of the height that a legend takes, so that some is left for the curves.
_MOST_LEGEND_SHARE = 0.8


def import_matplotlib():
    """Return pyplot and a function that resolves the aliases of line properties (lw, ls, ...)."""
    try:
        import matplotlib.pyplot as plt
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D
    except ImportError as error:
        raise ImportError(
            'plots need matplotlib, which is not installed: pip install "skgpmcmc[plots]"'
        ) from error
    return plt, lambda kwargs: normalize_kwargs(kwargs, Line2D)


def make_panels(plt, ax, n_panels):
    """Return one axes per panel, (n_panels,): those given, or new ones, one below the other."""
    if ax is None:
        size = (7.0, 0.8 + 1.6 * n_panels)
        _, ax = plt.subplots(n_panels, 1, figsize=size, sharex=True, layout="constrained")
    axes = np.ravel(np.asarray(ax, dtype=object))
    if len(axes) != n_panels:
        raise ValueError(
            f"ax holds {len(axes)} axes, and there are {n_panels} panels to draw: pass one axes "
            "for each, or choose among them by hyperparameters=[...]."
        )
    return axes


def get_axes(ax):
    """Return the axes to draw on: those given, or those of a new figure."""
    plt, _ = import_matplotlib()
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def choose_style(n_lines):
    """Return the line style and marker of the curve after `n_lines` others; colors cycle anyway."""
    return {
        "linestyle": _LINE_STYLES[n_lines % len(_LINE_STYLES)],
        "marker": _MARKERS[n_lines % len(_MARKERS)],
        "markersize": 4,
        "alpha": 0.85,
    }


def draw_legend_below(ax, *, top, least_span):
    """Draw the legend under the curves, on a y axis that ends at `top`, of `least_span` or more.

    The axis reaches down far enough for the legend to be below all curves.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Axes with the curves.
    top : float
        The largest value that a curve can have.
    least_span : float
        Least span of the y axis, so that small differences between curves look small.
    """
    lowest = min(float(ax.dataLim.y0), top) if np.isfinite(ax.dataLim.y0) else top
    legend = ax.legend(loc="lower right", fontsize="small")
    height = legend.get_window_extent().height / ax.get_window_extent().height
    share = min(height + 2 * _LEGEND_MARGIN, _MOST_LEGEND_SHARE)
    span = max((top - lowest) / (1.0 - share), least_span)
    ax.set_ylim(top - span, top + _LEGEND_MARGIN * span)


def draw_lines(display, ax, x, values, name, kwargs):
    """Draw a line against x for each of the names of a display, and set its attributes.

    Parameters
    ----------
    display : display
        The display whose `lines_`, `ax_` and `figure_` are set.
    ax : matplotlib.axes.Axes
        Where to draw.
    x : ndarray of shape (n_points,)
        Positions of the values.
    values : ndarray of shape (n_points, n_names)
        One column for each line.
    name : str or None
        Name of the chains in the legend; None is that of the display.
    kwargs : dict
        Properties of the lines.
    """
    _, normalize_line_kwargs = import_matplotlib()
    name = display.name if name is None else name
    lines = []
    for column, hyperparameter in zip(values.T, display.names, strict=True):
        label = hyperparameter if name is None else f"{name}: {hyperparameter}"
        lines += ax.plot(x, column, **{"label": label} | normalize_line_kwargs(kwargs))
    display.lines_ = np.array(lines, dtype=object)
    display.ax_ = ax
    display.figure_ = ax.figure
