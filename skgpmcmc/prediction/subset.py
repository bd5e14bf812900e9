"""Choice of the draws that predictions average over, and of their number.

Also the parameters of the densities of f at these draws.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import joblib
import numpy as np
from scipy.special import ndtr

from .._typing import FloatArray, IntArray
from ..approximations.base import Approximation
from ..importance.density import ReferenceDensity
from ..model.joint import LatentGP
from ..parallel.threads import one_thread
from ..parallel.workers import Workers
from .groups import equal_rows
from .strategy import ImportanceLatent, LatentStrategy

#: Distinct thetas per task of a worker.
GROUPS_PER_TASK = 8
#: Largest error of a predictive probability, over rows: root mean square and 99th percentile.
LARGEST_ERROR = np.array([0.005, 0.015])
#: Fewest draws that a subset takes by itself.
FEWEST_DRAWS = 16
#: Most draws that a subset takes by itself.
MOST_DRAWS = 400
#: Error of a prediction that is allowed, as a share of the posterior standard deviation of f, where
#: f is drawn.
_PER_SD = 0.1
#: The same where f is integrated out: means have no noise of f, and chains know them well.
_PER_SD_OF_MEANS = 0.25
#: Fewest importance draws of f in a prediction.
_N_IN_ALL = 4800
#: Sizes that are tried.
_SIZES = tuple(round(FEWEST_DRAWS * 2.0 ** (k / 2)) for k in range(10))
#: Errors are larger than they are thought to be: a quadratic does not show all that varies.
_ERROR_MARGIN = 1.25
#: Draws for each term of the quadratic.
_DRAWS_PER_TERM = 10
#: Most draws by which errors are judged.
_MOST_DRAWS_JUDGED = 1000
#: Most training rows at which errors are judged.
_MOST_ROWS_JUDGED = 200


class Subset(NamedTuple):
    """A subset of the draws, each representing its neighborhood."""

    rows: IntArray  # (S,)
    multiplicity: FloatArray  # (S,), how many draws each stands for


def spread_subset(theta: FloatArray, n_wanted: int | None, rng: np.random.Generator) -> Subset:
    """Choose `n_wanted` of the draws theta (n, p) so that they cover all; every one for None.

    Draws are divided into cells of nearly equal size, by medians along the widest direction, and
    one draw of each cell is taken at random: a stratified sample, whose averages over theta vary
    far less than those of draws taken anywhere.
    """
    if n_wanted is None or n_wanted >= len(theta):
        return Subset(np.arange(len(theta)), np.ones(len(theta)))
    cells = spread_cells(theta, n_wanted)
    chosen = np.array([rng.choice(cell) for cell in cells], dtype=np.intp)
    order = np.argsort(chosen)
    return Subset(chosen[order], np.array([len(cell) for cell in cells], dtype=float)[order])


def spread_cells(theta: FloatArray, n_cells: int) -> list[IntArray]:
    """Divide the rows of theta (n, p) into cells of nearly equal size."""
    return _cells(_standardize(theta), np.arange(len(theta)), n_cells)


def _standardize(theta: FloatArray) -> FloatArray:
    spread = theta.std(axis=0)
    return np.asarray((theta - theta.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))


def _cells(z: FloatArray, members: IntArray, n_cells: int) -> list[IntArray]:
    if n_cells == 1:
        return [members]
    left = n_cells // 2
    if z.shape[1]:
        widest = int(np.argmax(z[members].std(axis=0)))
        members = members[np.argsort(z[members, widest], kind="stable")]
    cut = round(len(members) * left / n_cells)
    return _cells(z, members[:cut], left) + _cells(z, members[cut:], n_cells - left)


def typical_values(
    model: LatentGP,
    theta: FloatArray,
    f: FloatArray,
    *,
    labels: bool,
    conditional: Approximation | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return what predictions resemble, for some of the draws and at some of the training rows.

    Of labels the probability of the one that was observed. Of all else f, in tenths of its
    posterior standard deviation: an error of 0.005 is a twentieth of that. Where f is integrated
    out, its means in quarters: an error of 0.005 is a fiftieth.

    Parameters
    ----------
    model : LatentGP
        Of the draws.
    theta : ndarray of shape (S, p)
        Draws; natural logs.
    f : ndarray of shape (S, n)
        Draws; latent scale.
    labels : bool
        Whether targets are labels.
    conditional : Approximation, optional
        Has p(f | y, theta), if `f` holds means of it instead of draws. Its variance at the draw in
        the middle is then a part of the posterior variance.

    Returns
    -------
    theta : ndarray of shape (s, p)
        Some of the draws.
    values : ndarray of shape (s, r)
        Of each of them.
    """
    some = _evenly(len(theta), _MOST_DRAWS_JUDGED)
    theta = theta[some]
    f = f[some]
    if labels:
        # A weight is the number of copies of a row, and no part of its probability.
        model = model.observing(weight=None)
        values = np.array(
            [model.observations_at(t).log_prob(own) for t, own in zip(theta, f, strict=True)]
        )
        np.exp(values, out=values)
    else:
        variance = f.var(axis=0)
        unit = _PER_SD
        if conditional is not None:
            unit = _PER_SD_OF_MEANS
            middle = theta[np.argmin(np.sum(_standardize(theta) ** 2, axis=1))]
            with one_thread():
                variance += conditional.fit(model, middle).q.marginal_variance
        values = unit * f / np.sqrt(np.where(variance > 0.0, variance, 1.0))
    return theta, values[:, _evenly(values.shape[1], _MOST_ROWS_JUDGED)]


def _evenly(n: int, most: int) -> IntArray:
    """At most so many of n positions, spread evenly."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))


def for_draws(strategy: LatentStrategy, multiplicity: FloatArray) -> LatentStrategy:
    """Return the strategy for thetas that stand for so many draws each, (S,).

    Where thetas are few, each has more importance draws.
    """
    if not isinstance(strategy, ImportanceLatent):
        return strategy
    n = _n_columns(strategy, len(multiplicity)) // len(multiplicity)
    return replace(strategy, n=n, unit=float(multiplicity.mean()))


def _n_columns(strategy: LatentStrategy, n_thetas: int) -> int:
    """How many f a prediction averages over, or is noisy as if it did."""
    if not isinstance(strategy, ImportanceLatent):
        return n_thetas
    return n_thetas * max(strategy.n, -(-_N_IN_ALL // n_thetas))


def enough_draws(theta: FloatArray, values: FloatArray, strategy: LatentStrategy) -> int:
    """Return how many draws a subset needs for averages with a small Monte Carlo error.

    The error has two parts. What varies with theta does so within the cells of a stratified sample,
    and is smooth: a quadratic in theta, fitted to all draws. The rest is noise of f given theta, of
    which averages have a share.

    Parameters
    ----------
    theta : ndarray of shape (S, p)
        Draws; natural logs.
    values : ndarray of shape (S, r)
        Of r quantities that predictions resemble, for each draw; see `typical_values`.
    strategy : LatentStrategy
        How f is averaged.

    Returns
    -------
    int
        At which the error is at most `LARGEST_ERROR`, root mean square and 99th percentile over the
        quantities; at most `MOST_DRAWS`.
    """
    smooth = _smooth(theta, values)
    left = strategy.inefficiency * (values - smooth).var(axis=0)
    for n in _SIZES:
        if n >= len(theta):
            return len(theta)
        variance = _variance_within(spread_cells(theta, n), smooth) + left / _n_columns(strategy, n)
        if _is_small(_ERROR_MARGIN * np.sqrt(variance)):
            return n
    return MOST_DRAWS


def _is_small(sd: FloatArray) -> bool:
    """Whether errors with these standard deviations, (r,), are small enough."""
    typical, extreme = LARGEST_ERROR
    beyond = 2.0 * ndtr(-extreme / np.maximum(sd, np.finfo(float).tiny))
    return bool(np.mean(sd**2) <= typical**2 and beyond.mean() <= 0.01)


def _smooth(theta: FloatArray, values: FloatArray) -> FloatArray:
    """Fit a quadratic to values (S, r) as a function of theta (S, p), or what S allows."""
    z = _standardize(theta)
    first, second = np.triu_indices(z.shape[1])
    columns = [np.ones((len(z), 1)), z, z[:, first] * z[:, second]]
    while len(columns) > 1 and _DRAWS_PER_TERM * sum(c.shape[1] for c in columns) > len(z):
        columns.pop()
    terms = np.hstack(columns)
    return np.asarray(terms @ np.linalg.lstsq(terms, values)[0])


def _variance_within(cells: list[IntArray], values: FloatArray) -> FloatArray:
    """Variance of an average over one member of each cell, for each column of values (S, r)."""
    shares = np.array([len(cell) for cell in cells]) / len(values)
    return np.asarray(shares**2 @ np.array([values[cell].var(axis=0) for cell in cells]))


def density_arrays_at(
    model: LatentGP,
    reference: ReferenceDensity | None,
    theta: FloatArray,
    n_jobs: int | None = None,
) -> tuple[FloatArray, ...]:
    """Find what the reference's densities are made of at each row of theta (S, p); each (S, n).

    Equal rows share one evaluation. Without a reference there are none.
    """
    if reference is None:
        return ()
    groups = equal_rows(theta)
    distinct = theta[[group[0] for group in groups]]
    rows = [distinct[i : i + GROUPS_PER_TASK] for i in range(0, len(groups), GROUPS_PER_TASK)]
    with Workers(n_jobs) as workers:
        done = workers.run([joblib.delayed(_arrays_at)(model, reference, some) for some in rows])
    which = np.empty(len(theta), dtype=np.intp)
    for position, group in enumerate(groups):
        which[group] = position
    stacked = zip(*(arrays for task in done for arrays in task), strict=True)
    return tuple(np.array(array)[which] for array in stacked)


def _arrays_at(
    model: LatentGP, reference: ReferenceDensity, theta: FloatArray
) -> list[tuple[FloatArray, ...]]:
    with one_thread():
        return [reference.at(model, row).arrays for row in theta]
