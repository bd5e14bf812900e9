"""Schedule of the warm-up that tunes a random walk.

Warm-up follows Filippone & Girolami (2014), section 4.4: chains run on the *deterministic*
approximate marginal, where an overestimated likelihood cannot trap them, while the proposal is
adapted to an acceptance rate of 20 to 30 %; then the proposal is frozen. Adaptation goes in
windows: within a window each chain tunes its own scale; between windows the chains are pooled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import FloatArray

#: Number of tuning windows: enough to learn the shape several times.
_N_WINDOWS = 10
#: Windows after which the shape is learned anew: not after the first, and long before the end.
_SHAPE_WINDOWS = range(1, 7)
#: Share of the warm-up in which the frozen transition burns in.
_BURN_IN_SHARE = 0.1


class Window(NamedTuple):
    """One tuning window of the warm-up."""

    n_steps: int
    first_gain: int  # steps since the shape last changed, which set the gain
    learns_shape: bool  # whether the covariance of all chains gives a new shape at its end


class WarmUpSchedule(NamedTuple):
    """Schedule of a warm-up: tuning windows, then the burn-in of the frozen transition."""

    windows: tuple[Window, ...]
    n_burn_in: int

    @classmethod
    def of_length(cls, n_warmup: int) -> WarmUpSchedule:
        """Split `n_warmup` iterations."""
        n_burn_in = int(np.ceil(_BURN_IN_SHARE * n_warmup))
        edges = np.linspace(0, n_warmup - n_burn_in, _N_WINDOWS + 1).round().astype(int)
        windows = []
        since_change = 0
        for index, n_steps in enumerate(np.diff(edges)):
            learns_shape = index in _SHAPE_WINDOWS
            if n_steps:
                windows.append(Window(int(n_steps), since_change, learns_shape))
            since_change = 0 if learns_shape else since_change + int(n_steps)
        return cls(tuple(windows), n_burn_in)


def pooled_covariance(history: FloatArray) -> FloatArray:
    """Covariance (p, p) of the later half of draws (n_chains, n_steps, p), all chains together."""
    dim = history.shape[2]
    recent = history[:, history.shape[1] // 2 :].reshape(-1, dim)
    n = len(recent)
    # The covariance is shrunk towards a small sphere, as few draws may be distinct.
    covariance = np.atleast_2d(np.cov(recent, rowvar=False)) if n > 1 else np.zeros((dim, dim))
    return np.asarray((n * covariance + 5.0 * 1e-2 * np.eye(dim)) / (n + 5.0))
