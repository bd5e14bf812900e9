"""Autocorrelation of chains."""

import numpy as np

from .._params import check_integer
from ..run.scale_reduction import autocorrelation
from ._chains import ChainDisplay, check_chains
from ._drawing import draw_lines, get_axes


class AutocorrelationDisplay(ChainDisplay):
    """Autocorrelation of chains against the lag: one line per hyper-parameter.

    The faster it falls to zero, the larger is the effective sample size. The autocorrelation is
    computed for each chain about its own mean, and averaged over the chains. It does not show
    whether the chains agree; for this see `PSRFDisplay`.

    Build it with `from_estimator` or `from_samples`.

    Parameters
    ----------
    autocorrelation : ndarray of shape (n_lags, n_hyperparameters)
        Autocorrelation at the lags 0, 1, ..., averaged over the chains.
    names : list of str
        Names of the hyper-parameters.
    name : str, default=None
        Name of the chains in the legend, such as that of their sampler.

    Attributes
    ----------
    lines_ : ndarray of matplotlib.lines.Line2D, of shape (n_hyperparameters,)
        The lines.
    ax_ : matplotlib.axes.Axes
        The axes that hold them.
    figure_ : matplotlib.figure.Figure
        The figure that holds the axes.

    See Also
    --------
    TraceDisplay : The chains themselves.
    skgpmcmc.run.autocorrelation : The numbers.

    Notes
    -----
    The middle panels of figures 3 and 4 of [1]_, which show a single chain, thinned by ten.

    References
    ----------
    .. [1] Filippone & Girolami (2014), Pseudo-marginal Bayesian inference for Gaussian processes,
       IEEE Transactions on Pattern Analysis and Machine Intelligence 36(11), section 4.4.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpmcmc.displays import AutocorrelationDisplay
    >>> samples = np.random.default_rng(0).standard_normal((4, 100, 1))
    >>> display = AutocorrelationDisplay.from_samples(samples, ["noise"])  # doctest: +SKIP
    """

    def __init__(self, autocorrelation, names, *, name=None):
        self.autocorrelation = autocorrelation
        self.names = names
        self.name = name

    @classmethod
    def from_samples(cls, samples, names=None, *, max_lag=100, name=None, ax=None, **kwargs):
        """Draw the autocorrelation of given chains.

        Parameters
        ----------
        samples : array-like of shape (n_chains, n_draws, n_hyperparameters)
            Draws of the hyper-parameters.
        names : sequence of str, default=None
            Names of the hyper-parameters; None numbers them.
        max_lag : int, default=100
            Largest lag; it is reduced for shorter chains.
        name : str, default=None
            Name of the chains in the legend.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None makes a new figure.
        **kwargs : dict
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        AutocorrelationDisplay
            The display, drawn.
        """
        samples, names = check_chains(samples, names)
        check_integer("max_lag", max_lag, 1)
        values = autocorrelation(samples)[:, : max_lag + 1].mean(axis=0)
        return cls(values, names, name=name).plot(ax=ax, **kwargs)

    def plot(self, ax=None, *, name=None, **kwargs):
        """Draw the lines, on their own or beside others on the same axes.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None makes a new figure.
        name : str, default=None
            Name of the chains in the legend; None is the display's own.
        **kwargs : dict
            Passed to `matplotlib.axes.Axes.plot`.

        Returns
        -------
        AutocorrelationDisplay
            Itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        ax = get_axes(ax)
        if not ax.get_lines():
            ax.axhline(0.0, color="0.6", linewidth=0.8)
        lags = np.arange(len(self.autocorrelation))
        draw_lines(self, ax, lags, self.autocorrelation, name, kwargs)
        ax.set(xlabel="Lag", ylabel="Autocorrelation")
        ax.legend()
        return self
