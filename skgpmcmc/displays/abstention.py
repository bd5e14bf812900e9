"""Abstention curves."""

from ..metrics import _capacity, abstention_curve
from ._drawing import choose_style, draw_legend_below, import_matplotlib

#: Names of the scores in the legend, by the values of `score`.
_SCORE_NAMES = {"accuracy": "accuracy", "auc": "AUC"}
#: Labels of the axis of scores, by the values of `score`.
_Y_LABELS = {"accuracy": "Accuracy", "auc": "AUC of the kept rows"}
#: Least span of the axis of scores. On a narrower one, a single row of a few hundred looks like a
#: difference.
_LEAST_SCORE_SPAN = 0.1


class AbstentionCurveDisplay:
    """Score of the kept rows against the degree of abstention.

    Build it with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    abstention : ndarray of shape (n_points,)
        Rejected fraction of the rows, nondecreasing.
    score_values : ndarray of shape (n_points,)
        Score of the kept rows.
    score : {"accuracy", "auc"}, default="accuracy"
        What `score_values` holds.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    capacity : float
        Area under the curve divided by its width. It favors underconfident probabilities; see
        `skgpmcmc.metrics.capacity_accuracy_score`.
    line_ : matplotlib.lines.Line2D
        The curve.
    ax_ : matplotlib.axes.Axes
        The axes that hold it.
    figure_ : matplotlib.figure.Figure
        The figure that holds the axes.

    See Also
    --------
    skgpmcmc.metrics.abstention_curve : The curve itself.
    skgpmcmc.metrics.selective_accuracy_score : To compare classifiers by a number.

    Notes
    -----
    Figure 5 of [1]_, with both capacity scores defined in section 5.3.

    References
    ----------
    .. [1] Filippone & Girolami (2014), Pseudo-marginal Bayesian inference for Gaussian processes,
       IEEE Transactions on Pattern Analysis and Machine Intelligence 36(11), section 5.3.

    Examples
    --------
    >>> from skgpmcmc.displays import AbstentionCurveDisplay
    >>> display = AbstentionCurveDisplay.from_predictions(
    ...     [1, 1, 0, 0], [0.9, 0.6, 0.55, 0.2], name="toy"
    ... )  # doctest: +SKIP
    """

    def __init__(self, abstention, score_values, *, score="accuracy", name=None):
        self.abstention = abstention
        self.score_values = score_values
        self.score = score
        self.name = name
        self.capacity = _capacity(abstention, score_values)

    @classmethod
    def from_estimator(
        cls, estimator, X, y, *, score="accuracy", pos_label=None, name=None, ax=None, **kwargs
    ):
        """Draw the curve of a fitted binary classifier.

        Parameters
        ----------
        estimator : classifier
            Fitted on two classes, with `predict_proba`; or a pipeline that ends in one.
        X : array-like of shape (n, n_features)
            Rows to predict.
        y : array-like of shape (n,)
            Their true labels.
        score : {"accuracy", "auc"}, default="accuracy"
            What to compute on the kept rows.
        pos_label : label, default=None
            The positive class; None is the last of `estimator.classes_`.
        name : str, default=None
            Name in the legend; None is the class name of the estimator.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None makes a new figure.
        **kwargs : dict
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        AbstentionCurveDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If the estimator has no `predict_proba` or is not fitted on two classes, or if
            `pos_label` is not one of them.
        """
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"{type(estimator).__name__} has no predict_proba: pass a classifier that predicts "
                "probabilities, for instance by wrapping it in CalibratedClassifierCV."
            )
        y_proba = estimator.predict_proba(X)  # first, as an unfitted estimator raises its own error
        pos_label, column = _find_positive_class(estimator, pos_label)
        return cls.from_predictions(
            y,
            y_proba[:, column],
            score=score,
            pos_label=pos_label,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls, y_true, y_proba, *, score="accuracy", pos_label=None, name=None, ax=None, **kwargs
    ):
        """Draw the curve of given predictive probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            True labels, of at most two classes.
        y_proba : array-like of shape (n,) or (n, 2)
            Predictive probabilities: of the positive class, or of both classes in sorted order.
        score : {"accuracy", "auc"}, default="accuracy"
            What to compute on the kept rows.
        pos_label : label, default=None
            The positive class; None is the greater label.
        name : str, default=None
            Name in the legend.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None makes a new figure.
        **kwargs : dict
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        AbstentionCurveDisplay
            The display, drawn.
        """
        abstention, score_values = abstention_curve(
            y_true, y_proba, score=score, pos_label=pos_label
        )
        display = cls(abstention, score_values, score=score, name=name)
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax=None, *, name=None, **kwargs):
        """Draw the curve, on its own or beside others on the same axes.

        The axis of scores ends at one, spans at least 0.1, and extends down far enough for the
        legend to be below all curves. You can set other limits afterwards.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None makes a new figure.
        name : str, default=None
            Name in the legend; None is the display's own.
        **kwargs : dict
            Passed to `matplotlib.axes.Axes.plot`. By default, color, line style and marker differ
            from those of the lines that are already in the axes.

        Returns
        -------
        AbstentionCurveDisplay
            Itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        plt, normalize_line_kwargs = import_matplotlib()
        if ax is None:
            _, ax = plt.subplots()
        style = choose_style(len(ax.get_lines()))
        name = self.name if name is None else name
        capacity = f"capacity {_SCORE_NAMES[self.score]} = {self.capacity:.3f}"
        style["label"] = capacity if name is None else f"{name} ({capacity})"
        style.update(normalize_line_kwargs(kwargs))
        (self.line_,) = ax.plot(self.abstention, self.score_values, **style)
        ax.set(
            xlabel="Degree of abstention",
            ylabel=_Y_LABELS[self.score],
            xlim=(-0.02, 1.02),  # the same in all figures, so that they can be compared
        )
        draw_legend_below(ax, top=1.0, least_span=_LEAST_SCORE_SPAN)
        self.ax_ = ax
        self.figure_ = ax.figure
        return self


def _find_positive_class(estimator, pos_label):
    """Return the positive class of a fitted binary classifier, and its column."""
    classes = estimator.classes_.tolist()
    if len(classes) != 2:
        raise ValueError(
            f"{type(estimator).__name__} is fitted on {len(classes)} classes, and abstention "
            "curves are defined for two: use from_predictions with one class against the rest."
        )
    if pos_label is None:
        pos_label = classes[1]
    if pos_label not in classes:
        raise ValueError(
            f"pos_label={pos_label!r} is not among the classes of {type(estimator).__name__}, "
            f"{classes}: pass one of them."
        )
    return pos_label, classes.index(pos_label)
