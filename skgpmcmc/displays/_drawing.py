"""What the displays share: matplotlib when it is needed, and the axes to draw on."""

import numpy as np


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


def legend_label(name, line_name):
    """Legend text of one line of a display that may have a name."""
    return line_name if name is None else f"{name}: {line_name}"
