"""A few draws that stand for all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import FloatArray, IntArray

__all__ = ["Subset", "spread_subset"]


class Subset(NamedTuple):
    """Some of many draws, each standing for its neighborhood."""

    rows: IntArray  # (S,)
    weight: FloatArray  # (S,), how many draws each stands for


def spread_subset(theta: FloatArray, n_wanted: int | None, rng: np.random.Generator) -> Subset:
    """Choose `n_wanted` of the draws theta (n, p) so that they cover all; every one for None.

    Draws are parted into cells of nearly equal size, by medians along the widest direction, and one
    of each cell is taken at random: a stratified sample, whose averages over theta vary far less
    than those of draws taken anywhere.
    """
    if n_wanted is None or n_wanted >= len(theta):
        return Subset(np.arange(len(theta)), np.ones(len(theta)))
    spread = theta.std(axis=0)
    z = theta / np.where(spread > 0.0, spread, 1.0)
    cells = _cells(z, np.arange(len(theta)), n_wanted)
    chosen = np.array([rng.choice(cell) for cell in cells], dtype=np.intp)
    order = np.argsort(chosen)
    return Subset(chosen[order], np.array([len(cell) for cell in cells], dtype=float)[order])


def _cells(z: FloatArray, members: IntArray, n_cells: int) -> list[IntArray]:
    if n_cells == 1:
        return [members]
    left = n_cells // 2
    if z.shape[1]:
        widest = int(np.argmax(z[members].std(axis=0)))
        members = members[np.argsort(z[members, widest], kind="stable")]
    cut = round(len(members) * left / n_cells)
    return _cells(z, members[:cut], left) + _cells(z, members[cut:], n_cells - left)
