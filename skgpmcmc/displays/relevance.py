"""Length-scales of features, and how much predictions need each feature."""

import numpy as np
from sklearn.inspection import permutation_importance

from ..model.names import find_names
from ._chains import find_model
from ._drawing import import_matplotlib

#: Probabilities of the quantiles that are drawn: a line for the outer two, a bar for the next two,
#: a dot for the median.
_DRAWN_PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)
#: Height of a row of the figure, inches.
_ROW_HEIGHT = 0.32
#: Height of what stands around the rows, inches.
_MARGIN = 1.5


class RelevanceDisplay:
    """Posterior of the length-scales beside their prior, and importance of the features.

    The left panel has a row for each length-scale. The light bar is its prior, from the 5 % to the
    95 % quantile. The line on it is the same for the posterior, with a bar from quartile to
    quartile, and a dot at the median. Where prior and posterior agree, the data say nothing about
    the length-scale. The function hardly changes along a feature whose length-scale is much larger
    than the range of the data.

    A short length-scale alone does not make a feature important: the function may depend on it in a
    rough way and yet vary little, and features that are correlated can stand in for each other. The
    right panel therefore shows the permutation importance: how much the score decreases when the
    values of a feature are shuffled.

    Build it with `from_estimator`.

    Parameters
    ----------
    posterior, prior : ndarray of shape (5, n_length_scales)
        Quantiles of the length-scales, for the probabilities 0.05, 0.25, 0.5, 0.75 and 0.95.
    names : list of str
        Names of the length-scales.
    importances : ndarray of shape (n_features, n_repeats) or None
        Decreases of the score; None draws none.
    feature_names : list of str or None
        Names of the features.

    Attributes
    ----------
    axes_ : ndarray of matplotlib.axes.Axes, of shape (1,) or (2,)
        The axes of the length-scales, and of the importances.
    figure_ : matplotlib.figure.Figure
        The figure that holds the axes.

    See Also
    --------
    PredictionDisplay : Predictions along one feature.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpmcmc import BayesianGPRegressor
    >>> from skgpmcmc.displays import RelevanceDisplay
    >>> X = np.random.default_rng(0).standard_normal((40, 2))
    >>> reg = BayesianGPRegressor(ard=True).fit(X, np.sin(X[:, 0]))  # doctest: +SKIP
    >>> display = RelevanceDisplay.from_estimator(reg, X, np.sin(X[:, 0]))  # doctest: +SKIP
    """

    def __init__(self, posterior, prior, names, *, importances=None, feature_names=None):
        self.posterior = posterior
        self.prior = prior
        self.names = names
        self.importances = importances
        self.feature_names = feature_names

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X=None,
        y=None,
        *,
        class_label=None,
        scoring=None,
        n_repeats=10,
        random_state=0,
        ax=None,
    ):
        """Draw the length-scales of a fitted estimator, and with data the importances.

        Parameters
        ----------
        estimator : estimator of skgpmcmc
            A fitted estimator whose kernel has length-scales, or a pipeline that ends in one.
        X : array-like of shape (n, n_features), default=None
            Rows for the importances, best those that `fit` has not seen. None draws none.
        y : array-like of shape (n,), default=None
            Their targets.
        class_label : label, default=None
            The class whose length-scales to draw; only with one-vs-rest and more than two classes.
        scoring : str or callable, default=None
            The score that decreases, as in scikit-learn; None is that of the estimator. For counts
            with exposures pass ``lambda model, X, y: model.score(X, y, exposure=exposure)``.
        n_repeats : int, default=10
            Number of times that each feature is shuffled.
        random_state : int, RandomState instance or None, default=0
            Seed of the shuffles.
        ax : array of two matplotlib.axes.Axes, or one without data, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        RelevanceDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If the kernel has no length-scale that is sampled, or one of X and y is missing.
        """
        if (X is None) != (y is None):
            raise ValueError("X and y are both needed for importances: pass both, or none.")
        model = find_model(estimator, class_label)
        known = model.hyperparameter_names_
        names = find_names("length_scale", known)
        if not names:
            raise ValueError(
                f"{type(model).__name__} has no length-scale among its hyper-parameters, {known}: "
                "use a kernel with one, such as RBF, whose length-scale is not fixed."
            )
        at = [known.index(name) for name in names]
        draws = np.exp(model.theta_samples_[:, :, at]).reshape(-1, len(at))
        laws = [model._predictor.model.hyperprior.laws[j] for j in at]
        importances = features = None
        if X is not None:
            features = _name_features(estimator, X)
            importances = permutation_importance(
                estimator,
                X,
                y,
                scoring=scoring,
                n_repeats=n_repeats,
                random_state=random_state,
            ).importances
        return cls(
            np.quantile(draws, _DRAWN_PROBABILITIES, axis=0),
            np.transpose([law.ppf(_DRAWN_PROBABILITIES) for law in laws]),
            _shorten(names),
            importances=importances,
            feature_names=features,
        ).plot(ax=ax)

    def plot(self, ax=None):
        """Draw the panels.

        Parameters
        ----------
        ax : array of two matplotlib.axes.Axes, or one without importances, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        RelevanceDisplay
            Itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If there are more or fewer axes than panels.
        """
        plt, _ = import_matplotlib()
        n_panels = 1 if self.importances is None else 2
        if ax is None:
            n_rows = max(len(self.names), len(self.feature_names or ()))
            size = (4.0 * n_panels, _MARGIN + _ROW_HEIGHT * n_rows)
            _, ax = plt.subplots(1, n_panels, figsize=size, layout="constrained")
        axes = np.ravel(np.asarray(ax, dtype=object))
        if len(axes) != n_panels:
            raise ValueError(f"ax must have one axes for each of {n_panels} panels.")
        _draw_length_scales(axes[0], self.posterior, self.prior, self.names)
        if self.importances is not None:
            _draw_importances(axes[1], self.importances, self.feature_names)
            axes[1].tick_params(labelleft=self.names != self.feature_names)  # once is enough
        self.axes_ = axes
        self.figure_ = axes[0].figure
        return self


def _draw_length_scales(ax, posterior, prior, names):
    """Draw quantiles (5, n) of posterior and prior, a row for each length-scale."""
    rows = np.arange(len(names))
    ax.hlines(rows, prior[0], prior[-1], color="0.85", linewidth=11, label="prior, 90 %")
    ax.hlines(rows, posterior[0], posterior[-1], color="C0", linewidth=1.5, label="posterior, 90 %")
    ax.hlines(rows, posterior[1], posterior[3], color="C0", linewidth=5, label="posterior, 50 %")
    ax.plot(posterior[2], rows, "o", color="w", markeredgecolor="C0", markersize=5)
    ax.set_xscale("log")
    ax.set_xlabel("Length-scale")
    _label_rows(ax, names)
    ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)


def _draw_importances(ax, importances, names):
    """Draw the mean and the range of importances (n_features, n_repeats), a row for each."""
    rows = np.arange(len(names))
    ax.axvline(0.0, color="0.6", linewidth=0.8)
    ax.hlines(rows, importances.min(axis=1), importances.max(axis=1), color="C1", linewidth=1.5)
    ax.plot(importances.mean(axis=1), rows, "o", color="C1", markersize=5)
    ax.set_xlabel("Decrease of the score: mean, range")
    _label_rows(ax, names)


def _label_rows(ax, names):
    """Name the rows from above."""
    ax.set_yticks(np.arange(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)


def _name_features(estimator, X):
    """Return names of the columns of X."""
    names = getattr(X, "columns", None)
    if names is None:
        names = getattr(estimator, "feature_names_in_", None)
    return [f"feature {j}" for j in range(np.shape(X)[1])] if names is None else list(names)


def _shorten(names):
    """Return the features alone, if all names are of one vector with a length-scale for each."""
    if len({name.partition("[")[0] for name in names}) > 1:
        return names
    features = [name.partition("[")[2].rstrip("]") for name in names]
    if features == [""]:
        return ["length_scale"]
    return [f"feature {feature}" if feature.isdigit() else feature for feature in features]
