"""What the densities of f near p(f | y, theta) are made of, at each draw of theta."""

from __future__ import annotations

import joblib
import numpy as np

from .._typing import FloatArray
from ..importance.density import ReferenceDensity
from ..model.joint import LatentGP
from ..parallel.threads import one_thread
from ..parallel.workers import Workers
from .groups import GROUPS_PER_TASK, group_equal_rows


def find_density_arrays(
    model: LatentGP,
    reference: ReferenceDensity | None,
    theta: FloatArray,
    n_jobs: int | None = None,
) -> tuple[FloatArray, ...]:
    """Return the arrays of the reference's densities at each row of theta (S, p); each (S, n).

    Equal rows share one evaluation. Without a reference there are no arrays.
    """
    if reference is None:
        return ()
    groups = group_equal_rows(theta)
    distinct = theta[[group[0] for group in groups]]
    rows = [distinct[i : i + GROUPS_PER_TASK] for i in range(0, len(groups), GROUPS_PER_TASK)]
    with Workers(n_jobs) as workers:
        done = workers.run(
            [joblib.delayed(_evaluate_densities)(model, reference, some) for some in rows]
        )
    which = np.empty(len(theta), dtype=np.intp)
    for position, group in enumerate(groups):
        which[group] = position
    stacked = zip(*(arrays for task in done for arrays in task), strict=True)
    return tuple(np.array(array)[which] for array in stacked)


def _evaluate_densities(
    model: LatentGP, reference: ReferenceDensity, theta: FloatArray
) -> list[tuple[FloatArray, ...]]:
    """Return the arrays of the density at each row of theta; the work of one task."""
    with one_thread():
        return [reference.arrays_at(model, row) for row in theta]
