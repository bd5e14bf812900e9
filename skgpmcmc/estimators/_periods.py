"""Warning about chains of a periodic kernel that are at different multiples of a period."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import CompoundKernel, ExpSineSquared, Kernel

from ..model.default_priors import owner_of

#: Ratio of median periods from which chains may be at different multiples of one period. Even the
#: fourth and fifth multiple have the ratio 1.25.
_LEAST_RATIO = 1.2


def periods_message(estimator: Any) -> str | None:
    """Return what a ConvergenceWarning says of periods; None if the chains agree in them."""
    fitted = vars(estimator).get("estimators_", [estimator])
    r_hat = estimator.diagnostics_.r_hat.reshape(len(fitted), -1)
    for own, own_r_hat in zip(fitted, r_hat, strict=True):
        stacked = isinstance(own.kernel_, CompoundKernel)
        kernels = own.kernel_.kernels if stacked else [own.kernel_]
        for position, name in enumerate(_component_names(kernels[0]) * len(kernels)):
            message = _period_message(kernels[0], name, own.theta_samples_[:, :, position])
            if message is not None and own_r_hat[position] > estimator.max_rhat:
                return message
    return None


def _component_names(kernel: Kernel) -> list[str]:
    """Return the name of each component of theta."""
    return [h.name for h in kernel.hyperparameters if not h.fixed for _ in range(h.n_elements)]


def _period_message(kernel: Kernel, name: str, draws: np.ndarray) -> str | None:
    """Return the message on one hyper-parameter with draws (n_chains, n_draws), natural logs."""
    owner, own_name = owner_of(kernel, name)
    if not (isinstance(owner, ExpSineSquared) and own_name == "periodicity"):
        return None
    periods = np.exp(np.median(draws, axis=1))
    if np.max(periods) < _LEAST_RATIO * np.min(periods):
        return None
    shown = [f"{period:.3g}" for period in periods]
    return (
        f"The chains have the median periods {', '.join(shown[:-1])} and {shown[-1]} ({name!r}): a "
        "period and its multiples can explain the same data. Give the period a prior around the "
        f"one that you expect, such as priors={{{name!r}: scipy.stats.lognorm(0.1, "
        f"scale={np.min(periods):.3g})}}, or keep that of the kernel by the bounds "
        'periodicity_bounds="fixed".'
    )
