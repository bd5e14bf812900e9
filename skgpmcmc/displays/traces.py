"""Trace plots of chains."""

import numpy as np

from ._chains import ChainDisplay, check_chains
from ._drawing import import_matplotlib, make_panels


class TraceDisplay(ChainDisplay):
    """Traces of hyper-parameters: one panel for each, one line per chain.

    Chains that have converged all look like noise around the same level. A flat stretch is a chain
    that is stuck. Different levels mean that there are several modes, or that a chain has not yet
    converged.

    Build it with `from_estimator` or `from_samples`.

    Parameters
    ----------
    samples : ndarray of shape (n_chains, n_draws, n_hyperparameters)
        Draws of the hyper-parameters.
    names : list of str
        Names of the hyper-parameters.

    Attributes
    ----------
    lines_ : ndarray of matplotlib.lines.Line2D, of shape (n_hyperparameters, n_chains)
        The traces.
    axes_ : ndarray of matplotlib.axes.Axes, of shape (n_hyperparameters,)
        The axes that hold them.
    figure_ : matplotlib.figure.Figure
        The figure that holds the axes.

    See Also
    --------
    AutocorrelationDisplay : How fast the correlation of successive draws falls.
    PSRFDisplay : Whether the chains agree.

    Notes
    -----
    The left panels of figures 3 and 4 of [1]_.

    References
    ----------
    .. [1] Filippone & Girolami (2014), Pseudo-marginal Bayesian inference for Gaussian processes,
       IEEE Transactions on Pattern Analysis and Machine Intelligence 36(11), section 4.4.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpmcmc.displays import TraceDisplay
    >>> samples = np.random.default_rng(0).standard_normal((4, 100, 1))
    >>> display = TraceDisplay.from_samples(samples, ["noise"])  # doctest: +SKIP
    """

    def __init__(self, samples, names):
        self.samples = samples
        self.names = names

    @classmethod
    def from_samples(cls, samples, names=None, *, ax=None, **kwargs):
        """Draw the traces of given chains.

        Parameters
        ----------
        samples : array-like of shape (n_chains, n_draws, n_hyperparameters)
            Draws of the hyper-parameters.
        names : sequence of str, default=None
            Names of the hyper-parameters; None numbers them.
        ax : matplotlib.axes.Axes or array of them, default=None
            Where to draw, one for each hyper-parameter; None makes a new figure.
        **kwargs : dict
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        TraceDisplay
            The display, drawn.
        """
        return cls(*check_chains(samples, names)).plot(ax=ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw the traces.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or array of them, default=None
            Where to draw, one for each hyper-parameter; None makes a new figure.
        **kwargs : dict
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        TraceDisplay
            Itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If there are more or fewer axes than hyper-parameters.
        """
        plt, normalize_line_kwargs = import_matplotlib()
        axes = make_panels(plt, ax, len(self.names))
        style = {"linewidth": 0.6, "alpha": 0.8} | normalize_line_kwargs(kwargs)
        draws = np.arange(1, self.samples.shape[1] + 1)
        lines = []
        for j, (panel, name) in enumerate(zip(axes, self.names, strict=True)):
            lines.append(panel.plot(draws, self.samples[:, :, j].T, **style))
            panel.set_ylabel(_in_lines(name))
        axes[-1].set_xlabel("Draw")
        self.lines_ = np.array(lines, dtype=object)
        self.axes_ = axes
        self.figure_ = axes[0].figure
        return self


def _in_lines(name):
    """Break a name before its last part and its index, so that panels are as long as it is."""
    before, mark, last = name.rpartition("__")
    return f"{before}{mark}\n{last}".strip().replace("[", "\n[")
