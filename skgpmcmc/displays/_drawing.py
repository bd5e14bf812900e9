"""What the displays share: matplotlib when it is needed, and the axes to draw on."""

import numpy as np

# Curves of good classifiers run into each other near a score of one: dashes and markers let the
# curve underneath show, also in print without color. 4 and 5 have no common factor: 20 styles.
_LINE_STYLES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v")

#: Space between a legend, the curves and the axes, as a share of the height of the axes.
_LEGEND_MARGIN = 0.04
#: The curves keep the rest, however long a legend is.
_MOST_LEGEND = 0.8


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


def axes_for(plt, ax, n_panels):
    """Axes of the panels, one below the other in a new figure unless given; (n_panels,)."""
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


def one_axes(ax):
    """Axes of a plot, those of a new figure unless given."""
    plt, _ = import_matplotlib()
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def distinct_style(n_lines):
    """Line style and marker for the next of several curves; colors cycle by themselves."""
    return {
        "linestyle": _LINE_STYLES[n_lines % len(_LINE_STYLES)],
        "marker": _MARKERS[n_lines % len(_MARKERS)],
        "markersize": 4,
        "alpha": 0.85,
    }


def legend_below(ax, *, top, least_span):
    """Draw the legend under the curves, on y axes that end at `top` and span `least_span` or more.

    The axes reach down as far as the legend needs: whatever the curves, none runs behind it.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Holds the curves.
    top : float
        The largest value that a curve can have.
    least_span : float
        Of the y axis, so that curves that hardly differ look so.
    """
    lowest = min(float(ax.dataLim.y0), top) if np.isfinite(ax.dataLim.y0) else top
    legend = ax.legend(loc="lower right", fontsize="small")
    height = legend.get_window_extent().height / ax.get_window_extent().height
    share = min(height + 2 * _LEGEND_MARGIN, _MOST_LEGEND)
    span = max((top - lowest) / (1.0 - share), least_span)
    ax.set_ylim(top - span, top + _LEGEND_MARGIN * span)


def draw_lines(display, ax, x, values, name, kwargs):
    """Draw a line against x for each of the names of a display, and set its attributes.

    Parameters
    ----------
    display : display
        Whose `lines_`, `ax_` and `figure_` are set.
    ax : matplotlib.axes.Axes
        Where to draw.
    x : ndarray of shape (n_points,)
        Where the values are.
    values : ndarray of shape (n_points, n_names)
        One column for each line.
    name : str or None
        Name of the chains in the legend; None is the display's own.
    kwargs : dict
        Properties of the lines.
    """
    _, normalize_line_kwargs = import_matplotlib()
    name = display.name if name is None else name
    lines = []
    for column, of in zip(values.T, display.names, strict=True):
        label = of if name is None else f"{name}: {of}"
        lines += ax.plot(x, column, **{"label": label} | normalize_line_kwargs(kwargs))
    display.lines_ = np.array(lines, dtype=object)
    display.ax_ = ax
    display.figure_ = ax.figure
