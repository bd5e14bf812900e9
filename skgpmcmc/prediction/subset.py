"""Choice of the draws that predictions average over, and of their number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from .._typing import FloatArray, IntArray
from ..approximations.base import Approximation
from ..model.joint import LatentGP
from ..parallel.threads import one_thread
from .strategy import ImportanceLatent, LatentStrategy

#: Largest error of a predictive probability, over rows: root mean square and 99th percentile.
#: It leaves the second digit of a probability nearly as it is.
LARGEST_ERROR = np.array([0.005, 0.015])
#: Fewest draws of a subset whose size is found here; each of them stands for a cell of all draws.
FEWEST_DRAWS = 16
#: Most draws of a subset whose size is found here, to bound the time and memory of predictions.
MOST_DRAWS = 400
#: Value of `typical_values` for one posterior standard deviation of f, where f is drawn.
_PER_SD = 0.1
#: The same where f is integrated out: means have no noise of f, and chains know them well.
_PER_SD_OF_MEANS = 0.25
#: Fewest importance draws of f in a prediction, over all thetas: 48 for each of 100.
_N_IN_ALL = 4800
#: Sizes of subsets that are tried, in draws; each is the one before times the root of two.
_SIZES = tuple(round(FEWEST_DRAWS * 2.0 ** (k / 2)) for k in range(10))
#: Ratio of true errors to predicted ones, as a quadratic does not show all that varies.
_ERROR_MARGIN = 1.25
#: Draws for each term of the quadratic; with fewer it would fit noise.
_DRAWS_PER_TERM = 10
#: Relative difference of two widths that may be rounding, so that the first direction is taken.
_ROUNDING = 1e-9
#: Most draws by which errors are judged, to bound the time.
_MOST_DRAWS_JUDGED = 1000
#: Most training rows at which errors are judged, to bound the time.
_MOST_ROWS_JUDGED = 200


def choose_spread_subset(
    theta: FloatArray, n_wanted: int | None, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Choose `n_wanted` of the draws theta (n, p) so that they cover all; every one for None.

    Returns their positions (S,), and how many draws each stands for (S,).

    Draws are divided into cells of nearly equal size, by medians along the widest direction, and
    one draw of each cell is taken at random: a stratified sample, whose averages over theta vary
    far less than those of draws taken anywhere.
    """
    if n_wanted is None or n_wanted >= len(theta):
        return np.arange(len(theta)), np.ones(len(theta))
    cells = divide_into_cells(theta, n_wanted)
    chosen = np.array([rng.choice(cell) for cell in cells], dtype=np.intp)
    order = np.argsort(chosen)
    return chosen[order], np.array([len(cell) for cell in cells], dtype=float)[order]


def divide_into_cells(theta: FloatArray, n_cells: int) -> list[IntArray]:
    """Divide the rows of theta (n, p) into cells of nearly equal size."""
    return _bisect(_standardize(theta), np.arange(len(theta)), n_cells)


def _standardize(theta: FloatArray) -> FloatArray:
    spread = theta.std(axis=0)
    return np.asarray((theta - theta.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))


def _bisect(z: FloatArray, members: IntArray, n_cells: int) -> list[IntArray]:
    """Divide rows of z by a median along the widest direction, and each half again."""
    if n_cells == 1:
        return [members]
    left = n_cells // 2
    if z.shape[1]:
        spread = z[members].std(axis=0)
        widest = int(np.argmax(spread >= (1.0 - _ROUNDING) * spread.max()))
        members = members[np.argsort(z[members, widest], kind="stable")]
    cut = round(len(members) * left / n_cells)
    return _bisect(z, members[:cut], left) + _bisect(z, members[cut:], n_cells - left)


def typical_values(
    model: LatentGP,
    theta: FloatArray,
    f: FloatArray,
    *,
    labels: bool,
    conditional: Approximation | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return values like those of predictions, of some of the draws at some of the training rows.

    For labels a value is the probability of the label that was observed. For other targets it is f,
    multiplied by a tenth and divided by the posterior standard deviation of f: an error of 0.005 is
    then a twentieth of that deviation. Where f is integrated out, the mean of f takes the place of
    f, and a quarter that of a tenth: an error of 0.005 is then a fiftieth.

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
    some = _choose_evenly(len(theta), _MOST_DRAWS_JUDGED)
    theta = theta[some]
    f = f[some]
    if labels:
        # A weight is the number of copies of a row, and no part of its probability.
        model = model.with_observations(weight=None)
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
    return theta, values[:, _choose_evenly(values.shape[1], _MOST_ROWS_JUDGED)]


def _choose_evenly(n: int, most: int) -> IntArray:
    """Return at most `most` of n positions, spread evenly."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))


def adapt_to_draws(strategy: LatentStrategy, multiplicity: FloatArray) -> LatentStrategy:
    """Return the strategy for S thetas, each of which stands for `multiplicity` (S,) draws.

    Where thetas are few, each has more importance draws.
    """
    if not isinstance(strategy, ImportanceLatent):
        return strategy
    n = _n_columns(strategy, len(multiplicity)) // len(multiplicity)
    return replace(strategy, n=n, unit=float(multiplicity.mean()))


def _n_columns(strategy: LatentStrategy, n_thetas: int) -> int:
    """Return how many f a prediction averages over, or a number of f with the same noise."""
    if not isinstance(strategy, ImportanceLatent):
        return n_thetas
    return n_thetas * max(strategy.n, -(-_N_IN_ALL // n_thetas))


def count_enough_draws(theta: FloatArray, values: FloatArray, strategy: LatentStrategy) -> int:
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
        The least number of those tried whose error is at most `LARGEST_ERROR`, root mean square and
        99th percentile over the quantities; at most `MOST_DRAWS`.
    """
    typical, extreme = LARGEST_ERROR
    smooth = _fit_quadratic(theta, values)
    left = strategy.inefficiency * (values - smooth).var(axis=0)
    for n in _SIZES:
        if n >= len(theta):
            return len(theta)
        cells = divide_into_cells(theta, n)
        shares = np.array([len(cell) for cell in cells]) / len(theta)
        within = shares**2 @ np.array([smooth[cell].var(axis=0) for cell in cells])
        sd = _ERROR_MARGIN * np.sqrt(within + left / _n_columns(strategy, n))
        beyond = 2.0 * ndtr(-extreme / np.maximum(sd, np.finfo(float).tiny))
        if np.mean(sd**2) <= typical**2 and beyond.mean() <= 0.01:
            return n
    return MOST_DRAWS


def _fit_quadratic(theta: FloatArray, values: FloatArray) -> FloatArray:
    """Fit a quadratic to values (S, r) as a function of theta (S, p), or what S allows."""
    z = _standardize(theta)
    first, second = np.triu_indices(z.shape[1])
    columns = [np.ones((len(z), 1)), z, z[:, first] * z[:, second]]
    while len(columns) > 1 and _DRAWS_PER_TERM * sum(c.shape[1] for c in columns) > len(z):
        columns.pop()
    terms = np.hstack(columns)
    return np.asarray(terms @ np.linalg.lstsq(terms, values)[0])
