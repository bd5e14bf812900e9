"""The order of the examples: first models, then predictions, then what is underneath."""

from __future__ import annotations

_ORDER = (
    "plot_averaging.py",
    "plot_latent_function.py",
    "plot_regression.py",
    "plot_multiclass.py",
    "plot_coal_disasters.py",
    "plot_exposure.py",
    "plot_ordinal.py",
    "plot_volatility.py",
    "plot_abstention.py",
    "plot_kernel_comparison.py",
    "plot_posterior_predictive.py",
    "plot_arviz.py",
)
_LAST = (
    "plot_chains.py",
    "plot_parameterizations.py",
    "plot_estimate_spread.py",
    "plot_own_likelihood.py",
)


class Order:
    """Sorts files by name: those of `_ORDER` first, those of `_LAST` last."""

    def __init__(self, src_dir: str) -> None:
        """Take the folder, which makes no difference."""

    def __call__(self, filename: str) -> tuple[int, int, str]:
        """Return the place of a file."""
        if filename in _ORDER:
            return 0, _ORDER.index(filename), filename
        if filename in _LAST:
            return 2, _LAST.index(filename), filename
        return 1, 0, filename
