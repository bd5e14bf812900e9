"""The gallery: the order of its examples, and how their figures look when pages are built."""

from __future__ import annotations

import warnings
from typing import Any

#: Sections: what to do with the estimators, what happens inside, what can be added.
SECTIONS = ["../examples/use", "../examples/understand", "../examples/extend"]
_ORDER = (
    "plot_averaging.py",
    "plot_regression.py",
    "plot_multiclass.py",
    "plot_coal_disasters.py",
    "plot_exposure.py",
    "plot_ordinal.py",
    "plot_volatility.py",
    "plot_abstention.py",
    "plot_kernel_comparison.py",
    "plot_latent_function.py",
    "plot_arviz.py",
    "plot_posterior_predictive.py",
    "plot_chains.py",
    "plot_parameterizations.py",
    "plot_estimate_spread.py",
)
#: Colors of Okabe and Ito, which people with color-blindness can distinguish.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")


class Order:
    """Sorts the files of a section by name: those of `_ORDER` first."""

    def __init__(self, src_dir: str) -> None:
        """Take the folder, which makes no difference."""

    def __call__(self, filename: str) -> tuple[int, str]:
        """Return the place of a file."""
        return _ORDER.index(filename) if filename in _ORDER else len(_ORDER), filename


def prepare(gallery_conf: dict[str, Any], fname: str) -> None:
    """Before a script runs: set the colors, and let chains that have not converged be an error."""
    import matplotlib.pyplot as plt
    from cycler import cycler
    from sklearn.exceptions import ConvergenceWarning

    plt.rcParams["axes.prop_cycle"] = cycler(color=_COLORS)
    warnings.filterwarnings("error", category=ConvergenceWarning)
