"""Potential scale reduction factor as a function of the number of draws."""

from numbers import Integral

import numpy as np

from .._params import check_choice
from ..run.convergence import min_draws, rank_r_hat
from ..run.scale_reduction import gelman_rubin
from ._chains import ChainDisplay, check_chains
from ._drawing import draw_lines, get_axes

#: Factor below which chains are said to agree, by `method`: of Vehtari et al., and of the papers.
_AGREEMENT_THRESHOLDS = {"rank": 1.01, "gelman_rubin": 1.1}
#: Height of the axis above one, in distances of the threshold from one, if the chains agree.
_HEIGHTS_SHOWN = 8.0


class PSRFDisplay(ChainDisplay):
    """Potential scale reduction factor (R-hat) of the draws so far: one line per hyper-parameter.

    It compares the variance between the chains with that within them; one is ideal. If the lines
    fall below the threshold and stay there, the chains agree.

    Build it with `from_estimator` or `from_samples`.

    Parameters
    ----------
    iterations : ndarray of shape (n_checkpoints,)
        Number of draws per chain used for each value, counted from the first after the warm-up.
    r_hat : ndarray of shape (n_checkpoints, n_hyperparameters)
        The factor; infinite if there are too few draws, or a chain has not moved.
    names : list of str
        Names of the hyper-parameters.
    upper : ndarray of shape (n_checkpoints, n_hyperparameters), default=None
        Upper confidence limit, drawn dashed; None draws none.
    threshold : float, default=None
        Height of a horizontal line; None draws none.
    name : str, default=None
        Name of the chains in the legend, such as that of their sampler.

    Attributes
    ----------
    lines_ : ndarray of matplotlib.lines.Line2D, of shape (n_hyperparameters,)
        The lines of the factor.
    upper_lines_ : ndarray of matplotlib.lines.Line2D, of shape (n_hyperparameters,), or None
        The lines of its upper limit.
    threshold_line_ : matplotlib.lines.Line2D or None
        The horizontal line.
    ax_ : matplotlib.axes.Axes
        The axes that hold them.
    figure_ : matplotlib.figure.Figure
        The figure that holds the axes.

    See Also
    --------
    TraceDisplay : The chains themselves.
    skgpmcmc.run.rank_r_hat : The factor of ``method="rank"``.
    skgpmcmc.run.gelman_rubin : The factor of ``method="gelman_rubin"``, and its limit.

    Notes
    -----
    ``method="rank"`` is the R-hat of `diagnostics_`: split chains, rank-normalized [1]_, with 1.01
    as its threshold. ``method="gelman_rubin"`` is the factor of [2]_, with 1.1: not split, and with
    an upper limit. The right panels of figures 3 and 4 of [3]_ show the latter, as a median and a
    97.5 per cent percentile.

    References
    ----------
    .. [1] Vehtari, Gelman, Simpson, Carpenter & Burkner (2021), Rank-normalization, folding, and
       localization: an improved R-hat, Bayesian Analysis 16(2).
    .. [2] Gelman & Rubin (1992), Inference from iterative simulation using multiple sequences,
       Statistical Science 7(4).
    .. [3] Filippone & Girolami (2014), Pseudo-marginal Bayesian inference for Gaussian processes,
       IEEE Transactions on Pattern Analysis and Machine Intelligence 36(11), section 4.4.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpmcmc.displays import PSRFDisplay
    >>> samples = np.random.default_rng(0).standard_normal((4, 100, 1))
    >>> display = PSRFDisplay.from_samples(samples, ["noise"])  # doctest: +SKIP
    """

    def __init__(self, iterations, r_hat, names, *, upper=None, threshold=None, name=None):
        self.iterations = iterations
        self.r_hat = r_hat
        self.names = names
        self.upper = upper
        self.threshold = threshold
        self.name = name

    @classmethod
    def from_samples(
        cls,
        samples,
        names=None,
        *,
        method="rank",
        checkpoints=50,
        threshold="auto",
        name=None,
        ax=None,
        **kwargs,
    ):
        """Draw the factor of given chains.

        Parameters
        ----------
        samples : array-like of shape (n_chains, n_draws, n_hyperparameters)
            Draws of the hyper-parameters. A single chain is split, and its halves are compared.
        names : sequence of str, default=None
            Names of the hyper-parameters; None numbers them.
        method : {"rank", "gelman_rubin"}, default="rank"
            Which factor: see the notes of the class.
        checkpoints : int or sequence of int, default=50
            Number of evenly spaced points at which to compute the factor, or the numbers of draws
            themselves.
        threshold : float, "auto" or None, default="auto"
            Height of a horizontal line. "auto" is 1.01, and 1.1 for "gelman_rubin"; None draws
            none.
        name : str, default=None
            Name of the chains in the legend.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None makes a new figure.
        **kwargs : dict
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        PSRFDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If the chains are too short, or a parameter is invalid.
        """
        samples, names = check_chains(samples, names)
        check_choice("method", method, _AGREEMENT_THRESHOLDS)
        iterations = _choose_iterations(checkpoints, samples)
        so_far = [samples[:, :k] for k in iterations]
        upper = None
        if method == "rank":
            r_hat = np.array([rank_r_hat(draws) for draws in so_far])
        else:
            r_hat, upper = np.swapaxes([gelman_rubin(draws) for draws in so_far], 0, 1)
        if isinstance(threshold, str) and threshold == "auto":
            threshold = _AGREEMENT_THRESHOLDS[method]
        display = cls(iterations, r_hat, names, upper=upper, threshold=threshold, name=name)
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax=None, *, name=None, **kwargs):
        """Draw the lines, on their own or beside others on the same axes.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None makes a new figure.
        name : str, default=None
            Name of the chains in the legend; None is the display's own.
        **kwargs : dict
            Passed to `matplotlib.axes.Axes.plot`, for the lines of the factor.

        Returns
        -------
        PSRFDisplay
            Itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        ax = get_axes(ax)
        draw_lines(self, ax, self.iterations, self.r_hat, name, kwargs)
        self.upper_lines_ = self.threshold_line_ = None
        if self.upper is not None:
            lines = []
            dashed = {"linestyle": "--", "linewidth": 0.8}
            for values, line in zip(self.upper.T, self.lines_, strict=True):
                lines += ax.plot(self.iterations, values, color=line.get_color(), **dashed)
            self.upper_lines_ = np.array(lines, dtype=object)
        if self.threshold is not None:
            label = f"threshold {self.threshold:g}"
            if label in [line.get_label() for line in ax.get_lines()]:
                label = None  # once in the legend, however many displays share the axes
            dotted = {"color": "k", "linestyle": ":", "linewidth": 1.0}
            self.threshold_line_ = ax.axhline(self.threshold, label=label, **dotted)
        ax.set(xlabel="Draws per chain", ylabel="R-hat")
        ax.legend()
        _limit_height(ax, self.r_hat, self.threshold)
        return self


def _choose_iterations(checkpoints, samples):
    """Return the numbers of draws at which to compute the factor, as increasing integers."""
    n_chains, n_draws, _ = samples.shape
    least = min_draws(n_chains)
    if n_draws < least:
        raise ValueError(
            f"chains of {n_draws} draws are too short to be compared: {n_chains} of them need at "
            f"least {least} each."
        )
    if isinstance(checkpoints, Integral) and checkpoints >= 1:
        evenly = np.linspace(0.0, n_draws, int(checkpoints) + 1)[1:]
        return np.unique(np.maximum(np.rint(evenly).astype(int), least))
    iterations = np.asarray(checkpoints)
    if (
        iterations.ndim != 1
        or not np.issubdtype(iterations.dtype, np.integer)
        or not np.all((iterations >= 1) & (iterations <= n_draws))
        or not np.all(np.diff(iterations) > 0)
    ):
        raise ValueError(
            "checkpoints must be an integer >= 1, or increasing numbers of draws between 1 and "
            f"{n_draws}; got {checkpoints!r}."
        )
    return iterations


def _limit_height(ax, r_hat, threshold):
    """End the axis where the threshold can be told from one; early factors may be above it."""
    last = r_hat[-1]
    heights = [_HEIGHTS_SHOWN * ((threshold or 1.0) - 1.0)]
    heights += list(1.2 * (last[np.isfinite(last)] - 1.0))
    if not ax.get_autoscaley_on():  # those of another display, or of the user
        heights.append(ax.get_ylim()[1] - 1.0)
    height = max(heights)
    if height > 0.0:
        lowest = min(1.0, ax.dataLim.y0)
        ax.set_ylim(lowest - 0.05 * height, 1.0 + height)
