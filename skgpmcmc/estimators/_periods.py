"""Warning about chains of a periodic kernel that are at different multiples of a period."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import CompoundKernel, ExpSineSquared

from ..model.parts import owner_of

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
        free = [h for h in kernels[0].hyperparameters if not h.fixed]
        names = [h.name for h in free for _ in range(h.n_elements)] * len(kernels)
        for position, name in enumerate(names):
            owner, own_name = owner_of(kernels[0], name)
            is_period = isinstance(owner, ExpSineSquared) and own_name == "periodicity"
            if not (is_period and own_r_hat[position] > estimator.max_rhat):
                continue
            periods = np.exp(np.median(own.theta_samples_[:, :, position], axis=1))
            if np.max(periods) < _LEAST_RATIO * np.min(periods):
                continue
            shown = [f"{period:.3g}" for period in periods]
            return (
                f"The chains have the median periods {', '.join(shown[:-1])} and {shown[-1]} "
                f"({name!r}): a period and its multiples can explain the same data. Give the "
                "period a prior around the one that you expect, such as "
                f"priors={{{name!r}: scipy.stats.lognorm(0.1, scale={np.min(periods):.3g})}}, or "
                'keep that of the kernel by the bounds periodicity_bounds="fixed".'
            )
    return None
