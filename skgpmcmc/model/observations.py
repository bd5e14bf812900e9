"""The observations: log p(y | f) as a function of the latent values at distinct inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .._typing import FloatArray, IntArray
from ..likelihoods.base import Derivatives, Likelihood, ParameterDerivatives, TiltedMoments
from ..numerics import quadrature

#: Most cuts of an integral: with more rows per input, only some of their cuts are used.
_MOST_CUTS = 128


class _Rows(NamedTuple):
    """The rows of some inputs, one input after the other."""

    numbers: IntArray  # (m,), positions of the rows among all rows
    input: IntArray  # (m,), position of each row's input among the k inputs
    first: IntArray  # (k,), position of the first row of each input among the m rows


class ExtraTargets(NamedTuple):
    """Additional targets, one for each of some rows."""

    y: FloatArray  # (m,), as the likelihood encodes them
    weight: FloatArray  # (m,), positive


@dataclass(frozen=True, eq=False)
class Observations:
    """The function f -> log p(y | f) of some rows, at given parameters of the likelihood.

    Row j contributes weight_j log p(y_j | f_i + offset_j), with f_i the latent value at its input
    i. Several rows may have the same input; they then follow one another. Derivatives and moments
    belong to an input: those of log p(y_i | f_i), the sum over the rows of input i.

    Attributes
    ----------
    likelihood : Likelihood
        The likelihood, its parameters at their values.
    y : ndarray of shape (n_rows,)
        Targets as the likelihood encodes them (classes are -1.0 and +1.0).
    offset : ndarray of shape (n_rows,) or None
        Added to f, such as the log of an exposure; latent scale. None is zero.
    weight : ndarray of shape (n_rows,) or None
        Positive; multiplies log p(y | f). None is one.
    first : ndarray of int of shape (n,) or None
        Position of the first row of each input, increasing from 0. None is one row for each.
    """

    likelihood: Likelihood
    y: FloatArray
    offset: FloatArray | None = None
    weight: FloatArray | None = None
    first: IntArray | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_inputs(self) -> int:
        """Number of distinct inputs n."""
        return len(self.y) if self.first is None else len(self.first)

    @property
    def has_repeats(self) -> bool:
        """Whether some input has several rows, or a row whose weight counts it several times."""
        return self.first is not None or self.weight is not None

    @cached_property
    def input_of_row(self) -> IntArray:
        """Position of the input of each row; (n_rows,)."""
        if self.first is None:
            return np.arange(len(self.y))
        return np.repeat(np.arange(self.n_inputs), np.diff(np.append(self.first, len(self.y))))

    def with_parameters(self, values: FloatArray) -> Observations:
        """Return the same observations with other parameters of the likelihood."""
        likelihood = self.likelihood.with_parameters(values)
        return Observations(likelihood, self.y, self.offset, self.weight, self.first)

    def of_inputs(self, inputs: IntArray) -> Observations:
        """Return the observations at some inputs, given by their positions."""
        rows = self._find_rows(inputs)
        return Observations(
            self.likelihood.of_rows(rows.numbers),
            self.y[rows.numbers],
            None if self.offset is None else self.offset[rows.numbers],
            None if self.weight is None else self.weight[rows.numbers],
            None if len(rows.numbers) == len(inputs) else rows.first,
        )

    def reduce_each_weight(
        self, rows: IntArray, kept: FloatArray, further: ExtraTargets | None = None
    ) -> tuple[Observations, IntArray]:
        """Return the observations at the inputs of some rows, each row with a smaller weight.

        For every entry the weights of all other rows are unchanged.

        Parameters
        ----------
        rows : ndarray of int of shape (m,)
            Positions of rows. They may repeat: each entry has an input of its own in the result.
        kept : ndarray of shape (m,)
            New weight of each row; zero leaves the row out.
        further : ExtraTargets, optional
            One more target for each entry, with the data (such as the offset) of its row.

        Returns
        -------
        observed : Observations
            The observations of all entries at whose input a row is left.
        places : ndarray of int
            Positions of these entries.
        """
        numbers, entry, _ = self._find_rows(self.input_of_row[rows])
        weight = self._weights()[numbers]
        weight = np.where(numbers == rows[entry], kept[entry], weight)
        return self._select_rows(numbers, entry, weight, rows, np.arange(len(rows)), further)

    def reduce_weight(
        self, row: int, kept: float, further: ExtraTargets | None = None
    ) -> tuple[Observations, IntArray]:
        """Return the observations at all inputs, one row with a smaller weight.

        Arguments are those of `reduce_each_weight` for one row. Returns the observations at the
        inputs where a row is left, and the positions of these inputs.
        """
        weight = self._weights()
        weight[row] = kept
        inputs = self.input_of_row
        numbers = np.arange(len(self))
        return self._select_rows(numbers, inputs, weight, np.array([row]), inputs[[row]], further)

    def _weights(self) -> FloatArray:
        return np.ones(len(self)) if self.weight is None else self.weight.copy()

    def _select_rows(
        self,
        numbers: IntArray,
        entry: IntArray,
        weight: FloatArray,
        rows: IntArray,
        entry_of_row: IntArray,
        further: ExtraTargets | None,
    ) -> tuple[Observations, IntArray]:
        """Return rows of positive weight, and further targets, grouped by their entries.

        Entries without any row are left out; the second result has the positions of the others.
        """
        y = self.y[numbers]
        if further is not None:
            numbers = np.concatenate([numbers, rows])
            entry = np.concatenate([entry, entry_of_row])
            y = np.concatenate([y, further.y])
            weight = np.concatenate([weight, further.weight])
        left = np.flatnonzero(weight > 0.0)
        order = left[np.argsort(entry[left], kind="stable")]
        places, first = np.unique(entry[order], return_index=True)
        numbers = numbers[order]
        weight = weight[order]
        observed = Observations(
            self.likelihood.of_rows(numbers),
            y[order],
            None if self.offset is None else self.offset[numbers],
            None if np.all(weight == 1.0) else weight,
            None if len(places) == len(order) else first,
        )
        return observed, places

    # --- at given f -----------------------------------------------------------------------------

    def log_prob(self, f: FloatArray) -> FloatArray:
        """Weighted log p of each row, (n_rows,) or (n_rows, m), for f of shape (n,) or (n, m)."""
        at_rows = self._at_rows(f)
        values = self.likelihood.log_prob(self._column(self.y, at_rows), at_rows)
        return self._weigh_values(values)

    def total(self, f: FloatArray) -> float:
        """Log p(y | f) for f of shape (n,), natural log."""
        return float(self.log_prob(f).sum())

    def totals(self, f: FloatArray) -> FloatArray:
        """Log p(y | f) for each column of f of shape (n, m); (m,)."""
        return np.asarray(self.log_prob(f).sum(axis=0))

    def by_input(self, f: FloatArray) -> FloatArray:
        """Log p(y_i | f_i) of each input, (n,) or (n, m), for f of shape (n,) or (n, m)."""
        at_rows = self._at_rows(f)
        return self._by_input(self.likelihood.log_prob(self._column(self.y, at_rows), at_rows))

    def derivatives(self, f: FloatArray) -> Derivatives:
        """Return derivatives in f of shape (n,) or (n, m), input by input."""
        at_rows = self._at_rows(f)
        parts = self.likelihood.derivatives(self._column(self.y, at_rows), at_rows)
        return Derivatives(*(self._by_input(part) for part in parts))

    def slope_and_precision(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the derivative in f, and a nonnegative precision: minus the second derivative.

        Where log p(y | f) of an input is not concave, the precision is zero.
        """
        if self.first is None or self.likelihood.log_concave:
            slope, precision = self.likelihood.slope_and_precision(self.y, self._at_rows(f))
            return self._by_input(slope), self._by_input(precision)
        slope, second, _ = self.derivatives(f)
        return slope, np.maximum(-second, 0.0)

    def curvature(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a precision that depends on f, and its derivative in f; all of shape (n,)."""
        precision, slope = self.likelihood.curvature(self.y, self._at_rows(f))
        return self._by_input(precision), self._by_input(slope)

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Mean over y of minus the second derivative, for f of shape (n,)."""
        return self._by_input(self.likelihood.fisher_information(self._at_rows(f)))

    def parameter_derivatives(self, f: FloatArray) -> ParameterDerivatives:
        """Return derivatives in the k parameters of the likelihood; each (k, n)."""
        parts = self.likelihood.parameter_derivatives(self.y, self._at_rows(f))
        return ParameterDerivatives(*(self._by_input(part.T).T for part in parts))

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw targets of all rows for f of shape (n,); weights do not enter."""
        return self.likelihood.sample(self._at_rows(f), rng)

    def draw_residuals(self, rng: np.random.Generator) -> FloatArray:
        """Draw what the latent values of inputs have beyond f, which here is nothing; (n,)."""
        return np.zeros(self.n_inputs)

    def _at_rows(self, f: FloatArray) -> FloatArray:
        """Return f + offset row by row, for f of shape (n,) or (n, m).

        Where an input has several latent values, they are stacked function after function.
        """
        if self.first is not None:
            by_function = f.reshape(-1, self.n_inputs, *f.shape[1:])
            f = by_function[:, self.input_of_row].reshape(-1, *f.shape[1:])
        return f if self.offset is None else f + self._column(self.offset, f)

    def _by_input(self, values: FloatArray) -> FloatArray:
        """Sum weighted values of rows, (n_rows,) or (n_rows, m), input by input."""
        values = self._weigh_values(values)
        if self.first is None:
            return values
        n_functions = self.likelihood.n_functions
        by_function = values.reshape(n_functions, len(self), *values.shape[1:])
        sums = np.add.reduceat(by_function, self.first, axis=1)
        return np.asarray(sums.reshape(n_functions * self.n_inputs, *values.shape[1:]))

    def _weigh_values(self, values: FloatArray) -> FloatArray:
        if self.weight is None:
            return values
        weight = np.tile(self.weight, len(values) // len(self.weight))
        return self._column(weight, values) * values

    @staticmethod
    def _column(values: FloatArray, like: FloatArray) -> FloatArray:
        """Return values of shape (n,) so that they broadcast with an array, (n,) or (n, m)."""
        return values if like.ndim == 1 else values[:, None]

    # --- f integrated out -----------------------------------------------------------------------

    def tilted_moments(self, mean: FloatArray, var: FloatArray) -> TiltedMoments:
        """Log normalizers of p(y_i | f) N(f; mean, var) and their derivatives; each (n,).

        p(y_i | f) is the product over the rows of an input, to the powers of their weights. The
        moments are computed in closed form if the likelihood has one, else by quadrature.
        """
        if self.likelihood.quadratic and self.first is not None:
            return self._gaussian_moments(mean, var)
        if not self.has_repeats:
            return self.likelihood.tilted_moments(self.y, self._at_rows(mean), var)
        moments = np.empty((3, self.n_inputs))
        own, others = self._split_inputs()
        if len(own):
            plain = replace(self.of_inputs(own), weight=None)
            moments[:, own] = plain.tilted_moments(mean[own], var[own])
        if len(others):
            rest = self.of_inputs(others)
            mean = mean[others]
            var = var[others]
            if rest.first is None:
                at = rest.y, rest.weight, rest._at_rows(mean), var
                moments[:, others] = rest.likelihood.weighted_tilted_moments(*at)
            else:
                moments[:, others] = rest._tilt(mean, var).moments()
        return TiltedMoments(*moments)

    def log_normalizers(self, mean: FloatArray, var: FloatArray) -> FloatArray:
        """Return `tilted_moments().log_z` alone, which takes less time; (n,)."""
        if self.likelihood.quadratic:
            return self.tilted_moments(mean, var).log_z
        if not self.has_repeats:
            return self.likelihood.log_predictive(self.y, self._at_rows(mean), var)
        log_z = np.empty(self.n_inputs)
        own, others = self._split_inputs()
        if len(own):
            plain = replace(self.of_inputs(own), weight=None)
            log_z[own] = plain.log_normalizers(mean[own], var[own])
        if len(others):
            rest = self.of_inputs(others)
            log_z[others] = rest._tilt(mean[others], var[others]).log_normalizer()
        return log_z

    def _split_inputs(self) -> tuple[IntArray, IntArray]:
        """Return the positions of inputs with one row of weight one, and those of the others."""
        alone = self._weights()[slice(None) if self.first is None else self.first] == 1.0
        if self.first is not None:
            alone &= np.diff(np.append(self.first, len(self))) == 1
        return np.flatnonzero(alone), np.flatnonzero(~alone)

    def _gaussian_moments(self, mean: FloatArray, var: FloatArray) -> TiltedMoments:
        """Return `tilted_moments` for Gaussian noise: the rows of an input act as their mean."""
        nowhere = np.zeros(self.n_inputs)
        slope, precision = self.slope_and_precision(nowhere)
        target = slope / precision
        rest = np.bincount(self.input_of_row, self.log_prob(target), self.n_inputs)
        beta = np.where(var >= 0.0, precision, np.nan) / (1.0 + precision * var)
        alpha = beta * (target - mean)
        log_z = rest - 0.5 * np.log1p(precision * var) - 0.5 * alpha * (target - mean)
        return TiltedMoments(log_z, alpha, beta)

    def tilted_powers(
        self, cavities: tuple[FloatArray, FloatArray], mean: FloatArray, sd: FloatArray, degree: int
    ) -> FloatArray:
        """Return means of ((f - mean) / sd)^k, k = 1 to `degree`, under the tilted densities.

        `cavities` are the means and variances of their Gaussian factors; (degree, n).
        """
        return self._tilt(*cavities).powers(mean, sd, degree)

    def tilted_parameter_gradient(self, mean: FloatArray, var: FloatArray) -> FloatArray:
        """Return derivatives of `tilted_moments().log_z` in the parameters; (k, n)."""
        if self.first is None:
            shifted = self._at_rows(mean)
            return self.likelihood.tilted_parameter_gradient(self.y, self.weight, shifted, var)
        if self.likelihood.quadratic:
            _, alpha, beta = self.tilted_moments(mean, var)
            derivatives = self.parameter_derivatives(mean + var * alpha)
            return derivatives.log_prob + 0.5 * var * (1.0 - var * beta) * derivatives.second
        slopes = self._sum_over_rows(lambda own, y, f: own.parameter_slopes(y, f))
        return self._tilt(mean, var).average(slopes)

    def probit_signs(self) -> FloatArray | None:
        """Return s of shape (n,) if p(y_i | f) = Phi(s (f + offset)), else None."""
        return None if self.has_repeats else self.likelihood.probit_signs(self.y)

    def _tilt(self, mean: FloatArray, var: FloatArray) -> quadrature.TiltedDensities:
        """Return the tilted densities of all inputs, whose positions take the place of y."""
        slopes = self._sum_over_rows(lambda own, y, f: np.array(own.slopes(y, f)))
        density = quadrature.LogDensity(
            self._sum_over_rows(lambda own, y, f: own.log_prob(y, f)),
            lambda inputs, f: tuple(slopes(inputs, f)),
            self.likelihood.log_concave,
        )
        inputs = np.arange(self.n_inputs)
        return quadrature.TiltedDensities(density, self._combine_bends(), inputs, mean, var)

    def _sum_over_rows(
        self, function: Callable[[Likelihood, FloatArray, FloatArray], FloatArray]
    ) -> Callable[[IntArray, FloatArray], FloatArray]:
        """Turn a function of a likelihood, y and f into its sum over the rows of an input.

        The sum is a function of inputs of shape (m,) or (m, 1), and of f that broadcasts with them.
        """

        def sums(inputs: IntArray, f: FloatArray) -> FloatArray:
            """Return the weighted sums, of the shape of f after the axes that `function` stacks."""
            axis = -inputs.ndim
            rows = self._find_rows(inputs.ravel())
            column = (slice(None),) + (None,) * (inputs.ndim - 1)
            at_rows = np.take(f, rows.input, axis=axis)
            if self.offset is not None:
                at_rows = at_rows + self.offset[rows.numbers][column]
            own = self.likelihood.of_rows(rows.numbers)
            values = function(own, self.y[rows.numbers][column], at_rows)
            if self.weight is not None:
                values = values * self.weight[rows.numbers][column]
            return np.asarray(np.add.reduceat(values, rows.first, axis=axis))

        return sums

    def _combine_bends(self) -> quadrature.Shape:
        """Return the shape of log p(y_i | f_i) of all inputs, from those of the rows."""
        first = np.arange(len(self.y)) if self.first is None else self.first
        shape = self.likelihood.bend(self.y)
        offset = np.zeros(len(self.y)) if self.offset is None else self.offset
        count = np.diff(np.append(first, len(self.y)))
        if not isinstance(shape, quadrature.Cuts):
            center = np.broadcast_to(shape.center, offset.shape) - offset
            low, high = (ends.reduceat(center, first) for ends in (np.minimum, np.maximum))
            middle = 0.5 * (low + high)
            width = np.minimum.reduceat(np.broadcast_to(shape.width, offset.shape), first)
            if isinstance(shape, quadrature.Bend):
                return quadrature.Bend(middle, width, 0.5 * (high - low))
            top, precision = (
                np.add.reduceat(self._weights() * part, first)
                for part in (shape.top, shape.precision)
            )
            # A sum of terms may have several maxima.
            return quadrature.Ceiling(top, middle, width, np.where(count == 1, precision, 0.0))
        places = shape.places - offset[:, None]
        # Inputs with fewer rows than others repeat their last row.
        numbers = first[:, None] + np.minimum(np.arange(count.max()), count[:, None] - 1)
        places = np.sort(places[numbers].reshape(len(first), -1), axis=1)
        some = np.linspace(0, places.shape[1] - 1, min(places.shape[1], _MOST_CUTS))
        return quadrature.Cuts(places[:, some.round().astype(np.intp)])

    def _find_rows(self, inputs: IntArray) -> _Rows:
        """Return the rows of some inputs."""
        if self.first is None:
            return _Rows(inputs, np.arange(len(inputs)), np.arange(len(inputs)))
        begin = self.first[inputs]
        count = np.append(self.first, len(self.y))[inputs + 1] - begin
        first = np.cumsum(count) - count
        input_of_row = np.repeat(np.arange(len(inputs)), count)
        numbers = np.arange(len(input_of_row)) - (first - begin)[input_of_row]
        return _Rows(numbers, input_of_row, first)
