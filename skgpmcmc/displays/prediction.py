"""Predictions along one input."""

from inspect import signature

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from .._params import check_in, check_integer
from ..kernels import Categorical
from ..kernels.categorical import is_text, sort_levels
from ..kernels.columns import take_columns
from ..model.parts import find_category_columns, has_part
from ._drawing import get_axes, import_matplotlib

#: Widths of the lines that show the intervals of the function and of new targets at a level, pt.
_FUNCTION_WIDTH = 7.0
_TARGET_WIDTH = 3.0


class PredictionDisplay:
    """Predictions along one input, with the uncertainty of the function and of new targets.

    The line is the predictive mean. The inner band is the posterior interval of the function: of
    the latent function in regression, of the rate of counts, of the probability of a success or of
    a class. The outer band has the share `coverage` of new targets; class labels have none. Levels
    of an input of categories, which is text or belongs to a `Categorical` kernel, have dots, and
    bars in place of bands. All other inputs are held at their medians, or at their most frequent
    levels, so that observed targets of several inputs need not be within the bands.

    Build it with `from_estimator`.

    Parameters
    ----------
    grid : ndarray of shape (n_points,)
        Values of the input, or its levels.
    mean : ndarray of shape (n_points,)
        Predictive mean.
    function : ndarray of shape (2, n_points)
        Ends of the posterior interval of the function.
    targets : ndarray of shape (2, n_points) or None
        Ends of the interval of new targets; None draws none.
    observed : tuple of two ndarrays of shape (n_rows,), or None
        Inputs and targets of the data; None draws none.
    coverage : float, default=0.9
        Probability of both intervals.
    xlabel, ylabel : str
        Labels of the axes.
    categorical : bool, default=False
        Whether the values of the input are levels, which are drawn at 0, 1, 2 and so on.

    Attributes
    ----------
    line_ : matplotlib.lines.Line2D
        The mean.
    function_band_, target_band_ : matplotlib.collections.Collection
        The intervals, bands or bars; `target_band_` is None without one.
    points_ : matplotlib.lines.Line2D or None
        The data.
    ax_ : matplotlib.axes.Axes
        The axes that hold them.
    figure_ : matplotlib.figure.Figure
        The figure that holds the axes.

    See Also
    --------
    RelevanceDisplay : Which inputs matter.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpmcmc import BayesianGPRegressor
    >>> from skgpmcmc.displays import PredictionDisplay
    >>> X = np.linspace(0.0, 4.0, 20)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> reg = BayesianGPRegressor(random_state=0).fit(X, y)  # doctest: +SKIP
    >>> display = PredictionDisplay.from_estimator(reg, X, y)  # doctest: +SKIP
    """

    def __init__(
        self,
        grid,
        mean,
        function,
        targets=None,
        observed=None,
        *,
        coverage=0.9,
        xlabel,
        ylabel,
        categorical=False,
    ):
        self.grid = grid
        self.mean = mean
        self.function = function
        self.targets = targets
        self.observed = observed
        self.coverage = coverage
        self.xlabel = xlabel
        self.ylabel = ylabel
        self.categorical = categorical

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y=None,
        *,
        feature=0,
        coverage=0.9,
        grid_resolution=100,
        exposure=None,
        trials=None,
        ax=None,
        **kwargs,
    ):
        """Draw the predictions of a fitted estimator along one input.

        Parameters
        ----------
        estimator : estimator of skgpmcmc
            A fitted regressor of numbers, of counts or of successes in trials, or a classifier of
            two classes; or a pipeline that ends in one.
        X : array-like of shape (n, n_features)
            Rows whose range or levels of the input are drawn, and at whose medians or most frequent
            levels the others are held.
        y : array-like of shape (n,), default=None
            Their targets; None draws no data.
        feature : int or str, default=0
            The input along which to predict: its column, or its name.
        coverage : float, default=0.9
            Probability of both intervals, between 0 and 1. They leave out as much below as above.
        grid_resolution : int, default=100
            Number of values of the input, evenly spaced, if it has numbers.
        exposure : array-like of shape (n,), default=None
            Only for counts: the exposures of the rows. Counts are divided by them. The interval of
            new counts is that for their median.
        trials : array-like of shape (n,), default=None
            Only for successes in trials: the numbers of trials of the rows. Successes are divided
            by them. The interval of new shares is that for their median.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None makes a new figure.
        **kwargs : dict
            Passed to `matplotlib.axes.Axes.plot`, for the line of the mean.

        Returns
        -------
        PredictionDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If X has no such feature, or the estimator predicts neither numbers nor two classes.
        """
        names = getattr(X, "columns", None)
        if np.ndim(X) != 2:
            raise ValueError(
                f"X must be a table of shape (n, n_features); got shape {np.shape(X)}."
            )
        n_features = np.shape(X)[1]
        column = _find_column(feature, names, n_features)
        check_integer("grid_resolution", grid_resolution, 2)
        coverage = check_in("coverage", coverage, "(0, 1)")
        given = {"y": y, "exposure": exposure, "trials": trials}
        check_consistent_length(X, *(values for values in given.values() if values is not None))
        columns = take_columns(X, list(range(n_features)))
        categories = _find_categories(estimator, columns, names)
        categorical = column in categories
        along = columns[column]
        if categorical:
            grid = np.array(sort_levels(along))
            along = np.searchsorted(grid, along.astype(grid.dtype))
        else:
            along = along.astype(float)
            grid = np.linspace(along.min(), along.max(), grid_resolution)
        typical = [_find_typical(own, k in categories) for k, own in enumerate(columns)]
        table = [np.full(len(grid), value) for value in typical]
        table[column] = grid
        table = _make_table(X, table)
        model = estimator
        if isinstance(estimator, Pipeline):
            table, model = estimator[:-1].transform(table), estimator[-1]
        check_is_fitted(model)
        ends = [0.5 - 0.5 * coverage, 0.5 + 0.5 * coverage]
        amounts = {name: given[name] for name in ("exposure", "trials") if given[name] is not None}
        curve = _predict(model, table, ends, y, amounts)
        return cls(
            grid,
            curve.mean,
            curve.function,
            curve.targets,
            None if y is None else (along, curve.observed),
            coverage=coverage,
            xlabel=f"Feature {column}" if names is None else str(names[column]),
            ylabel=curve.label,
            categorical=categorical,
        ).plot(ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw the mean, the intervals and the data.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None makes a new figure.
        **kwargs : dict
            Passed to `matplotlib.axes.Axes.plot`, for the line of the mean.

        Returns
        -------
        PredictionDisplay
            Itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        _, normalize_line_kwargs = import_matplotlib()
        ax = get_axes(ax)
        style = {"label": "mean"} | normalize_line_kwargs(kwargs)
        if self.categorical:
            style = {"marker": "o", "linestyle": "none"} | style
        places = np.arange(len(self.grid)) if self.categorical else self.grid
        (self.line_,) = ax.plot(places, self.mean, **style)
        percent = f"{100.0 * self.coverage:g} %"
        self.function_band_ = self._draw_interval(
            ax, places, self.function, 0.35, _FUNCTION_WIDTH, f"{percent} of the function"
        )
        self.target_band_ = self.points_ = None
        if self.targets is not None:
            self.target_band_ = self._draw_interval(
                ax, places, self.targets, 0.15, _TARGET_WIDTH, f"{percent} of new targets"
            )
        if self.observed is not None:
            dots = {"color": "k", "markersize": 4, "linestyle": "none", "label": "data"}
            marker = "." if self.targets is not None else "|"
            (self.points_,) = ax.plot(*self.observed, marker=marker, **dots)
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel)
        if self.categorical:
            ax.set_xticks(places, [str(level) for level in self.grid])
        above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False}
        ax.legend(fontsize="small", ncols=2, **above)  # where it hides no data
        self.ax_ = ax
        self.figure_ = ax.figure
        return self

    def _draw_interval(self, ax, places, ends, alpha, width, label):
        """Draw a band, or a bar of this width at each level."""
        color = self.line_.get_color()
        if self.categorical:
            return ax.vlines(places, *ends, color=color, alpha=alpha, linewidth=width, label=label)
        return ax.fill_between(places, *ends, color=color, alpha=alpha, linewidth=0.0, label=label)


def _find_categories(estimator, columns, names):
    """Return the positions of columns of text, and of those that a kernel takes as categories."""
    found = {k for k, own in enumerate(columns) if is_text(own)}
    kernel = getattr(estimator, "kernel", None)
    labels = None if names is None else [str(name) for name in names]
    for own in kernel if isinstance(kernel, list) else [kernel]:
        if has_part(own, Categorical):
            found.update(find_category_columns(own, len(columns), labels))
    return found


def _find_typical(values, is_category):
    """Return the most frequent level of a column, or its median."""
    if not is_category:
        return np.median(values.astype(float))
    levels = np.array(sort_levels(values))
    counts = np.bincount(np.searchsorted(levels, values.astype(levels.dtype)))
    return levels[np.argmax(counts)]


def _make_table(X, columns):
    """Return columns as a table of the kind of X: an array, or a data frame of the same library."""
    names = getattr(X, "columns", None)
    if names is not None:
        return type(X)(dict(zip(names, columns, strict=True)))
    kind = object if any(is_text(own) for own in columns) else float
    return np.array(columns, dtype=kind).T


def _find_column(feature, names, n_features):
    """Return the position of a feature, given by its position or its name."""
    if isinstance(feature, str):
        known = [] if names is None else list(names)
        if feature not in known:
            raise ValueError(
                f"feature={feature!r} is no column of X: pass one of {known or 'its numbers'}."
            )
        return known.index(feature)
    column = check_integer("feature", feature, 0, " A column of X, or its name.")
    if column >= n_features:
        raise ValueError(f"feature={feature} is no column of X, which has {n_features} of them.")
    return column


def _predict(model, table, ends, y, amounts):
    """Return the curve of a model, or refuse what is none of this package or has no such rows."""
    if not hasattr(model, "_curve"):
        raise ValueError(
            f"{type(model).__name__} has no posterior to draw: pass a fitted estimator of "
            "skgpmcmc, or a pipeline that ends in one."
        )
    unknown = set(amounts) - set(signature(model.predict).parameters)
    if unknown:
        raise ValueError(
            f"{sorted(unknown)[0]} is not for {type(model).__name__}, whose predict does not take "
            "it: leave it out."
        )
    return model._curve(table, ends, y, **amounts)
