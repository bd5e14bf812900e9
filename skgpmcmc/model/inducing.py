"""The approximation of a model by inducing inputs: FITC, with a target of its own.

f is the sum of g, which its values at some inducing inputs determine, and of independent residuals:
``f = g + e`` with ``g ~ N(0, Q)``, ``Q = K[:, I] K[I, I]^-1 K[I, :]`` and e ~ N(0, diag(K - Q)).
The residuals are integrated out: chains move g, whose prior has few columns, and the targets of an
input are averaged over its residual. With more inducing inputs the posterior tends to that of K.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn, Self

import numpy as np

from .._typing import FloatArray, IntArray
from ..likelihoods.base import Derivatives, TiltedMoments
from ..numerics import linalg
from ..numerics.roots import leading_root
from .joint import LatentGP
from .low_rank import NystromGP, NystromPrior
from .observations import ExtraTargets, Observations
from .prior import GaussianPrior, MatrixOfInputs

#: Values of theta whose residual variances are kept, for chains that move in turn.
_MOST_KEPT = 16


@dataclass(frozen=True, eq=False)
class BlurredObservations(Observations):
    """The function g -> log p(y | g), where the latent value of an input is g plus a residual.

    Attributes
    ----------
    blur : ndarray of shape (n,)
        Variance of the residual of each input, which all of its rows share.
    """

    blur: FloatArray = field(kw_only=True)

    @classmethod
    def of(cls, plain: Observations, blur: FloatArray) -> Self:
        """Add residuals to the latent values of some observations."""
        own = plain.likelihood, plain.y, plain.offset, plain.weight, plain.first
        return cls(*own, blur=blur)

    @cached_property
    def plain(self) -> Observations:
        """The observations as a function of the latent values with their residuals."""
        return Observations(self.likelihood, self.y, self.offset, self.weight, self.first)

    def with_parameters(self, values: FloatArray) -> BlurredObservations:
        """See `Observations`."""
        return self.of(self.plain.with_parameters(values), self.blur)

    def of_inputs(self, inputs: IntArray) -> BlurredObservations:
        """See `Observations`."""
        return self.of(self.plain.of_inputs(inputs), self.blur[inputs])

    def reduce_each_weight(
        self, rows: IntArray, kept: FloatArray, further: ExtraTargets | None = None
    ) -> tuple[Observations, IntArray]:
        """See `Observations`."""
        reduced, places = self.plain.reduce_each_weight(rows, kept, further)
        return self.of(reduced, self.blur[self.input_of_row[rows]][places]), places

    def reduce_weight(
        self, row: int, kept: float, further: ExtraTargets | None = None
    ) -> tuple[Observations, IntArray]:
        """See `Observations`."""
        reduced, places = self.plain.reduce_weight(row, kept, further)
        return self.of(reduced, self.blur[places]), places

    # --- at given g -----------------------------------------------------------------------------

    def log_prob(self, f: FloatArray) -> FloatArray:
        """Weighted log p of each row given g alone, (n_rows,) or (n_rows, m).

        The sum over rows is `total` only where every input has one row of weight one.
        """
        at_rows = self._at_rows(f)
        blur = self._column(self.blur[self.input_of_row], at_rows)
        values = self.likelihood.log_predictive(self._column(self.y, at_rows), at_rows, blur)
        return self._weigh_values(values)

    def by_input(self, f: FloatArray) -> FloatArray:
        """See `Observations`."""
        if f.ndim == 1:
            return self.plain.log_normalizers(f, self.blur)
        if not self.has_repeats:
            return self.log_prob(f)
        return np.column_stack([self.plain.log_normalizers(own, self.blur) for own in f.T])

    def total(self, f: FloatArray) -> float:
        """See `Observations`."""
        return float(self.by_input(f).sum())

    def totals(self, f: FloatArray) -> FloatArray:
        """See `Observations`."""
        return np.asarray(self.by_input(f).sum(axis=0))

    def slope_and_precision(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See `Observations`."""
        _, slope, precision = self.plain.tilted_moments(f, self.blur)
        return slope, np.maximum(precision, 0.0)

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """See `Observations`."""
        residual = np.sqrt(self.blur) * rng.standard_normal(len(self.blur))
        return self.plain.sample(f + residual, rng)

    def derivatives(self, f: FloatArray) -> Derivatives:
        """Not available: there is no third derivative."""
        self._refuse("derivatives")

    def _refuse(self, what: str) -> NoReturn:
        raise NotImplementedError(
            f'With covariance="inducing" there are no {what} of log p(y | f): use '
            'approximation="ep", or the evidence by importance sampling.'
        )

    # --- g integrated out -----------------------------------------------------------------------

    def tilted_moments(self, mean: FloatArray, var: FloatArray) -> TiltedMoments:
        """See `Observations`."""
        return self.plain.tilted_moments(mean, var + self.blur)

    def log_normalizers(self, mean: FloatArray, var: FloatArray) -> FloatArray:
        """See `Observations`."""
        return self.plain.log_normalizers(mean, var + self.blur)

    def tilted_parameter_gradient(self, mean: FloatArray, var: FloatArray) -> FloatArray:
        """See `Observations`."""
        return self.plain.tilted_parameter_gradient(mean, var + self.blur)

    def tilted_powers(
        self, cavities: tuple[FloatArray, FloatArray], mean: FloatArray, sd: FloatArray, degree: int
    ) -> FloatArray:
        """Not available."""
        self._refuse("moments")

    def probit_signs(self) -> None:
        """Return None: the scale of a probit differs between inputs."""


@dataclass(frozen=True, eq=False)
class InducingGP(NystromGP):
    """A model whose latent function is determined by some inputs, up to independent residuals.

    The state of a chain has g in place of f. Attributes are those of `NystromGP`; `rows` are the
    positions of the inducing inputs.

    References
    ----------
    Snelson & Ghahramani (2006), *Sparse Gaussian processes using pseudo-inputs*; Quinonero-Candela
    & Rasmussen (2005), section 6, FITC.
    """

    def __getstate__(self) -> dict[str, Any]:
        # Residual variances are quicker to compute again than to send.
        left_out = ("_blocks", "_blurs")
        return {name: value for name, value in vars(self).items() if name not in left_out}

    @cached_property
    def _blurs(self) -> dict[bytes, FloatArray]:
        return {}

    def of_inputs(self, inputs: IntArray) -> Self:
        """See `LatentGP`. Inducing inputs are those that are left, or else the first input."""
        own = super().of_inputs(inputs)
        rows = np.flatnonzero(np.isin(inputs, self.rows))
        object.__setattr__(own, "rows", rows if len(rows) else np.zeros(1, dtype=np.intp))
        return own

    has_residuals = True

    def find_small_rank(self) -> int | None:
        """See `LatentGP`: the number of inducing inputs."""
        return len(self.rows)

    def prior_at(self, theta: FloatArray) -> NystromPrior:
        """p(g | theta)."""
        prior = super().prior_at(theta)
        self._keep_blur(prior)
        return prior

    def observations_at(self, theta: FloatArray) -> BlurredObservations:
        """Return p(y | g, theta) as a function of g."""
        key = theta.tobytes()
        if key not in self._blurs:
            self.prior_at(theta)
        return BlurredObservations.of(super().observations_at(theta), self._blurs[key])

    def _keep_blur(self, prior: GaussianPrior) -> None:
        """Keep the residual variances, K - Q, of a theta."""
        training = self.covariance.of_training
        variance = training.diagonal(prior.kernel_theta, training.X)
        root = prior.root.factor
        blur = np.maximum(variance - np.einsum("ij,ij->i", root, root), 0.0)
        blur[prior.root.pivots] = 0.0
        blurs = self._blurs
        while len(blurs) >= _MOST_KEPT:
            blurs.pop(next(iter(blurs)))
        blurs[prior.theta.tobytes()] = blur

    def residual_gradient(self, prior: GaussianPrior, slopes: FloatArray) -> FloatArray:
        """See `LatentGP`: the variances are the diagonal of K - Q."""
        theta = prior.kernel_theta
        of_K = np.zeros(len(theta))
        for some in linalg.split_entries(prior.size, prior.size):
            own = self.covariance.of_inputs(np.arange(prior.size)[some])
            of_K += own.contract(theta, np.asfortranarray(np.diag(slopes[some])), overwrite=True)
        root = prior.root
        weighted = root.factor.T * slopes
        of_Q = prior.contract_root(np.eye(root.rank), weighted, weighted @ root.factor)
        return of_K - of_Q


def with_inducing_inputs(model: LatentGP, n: int) -> InducingGP:
    """Return the approximation of a model by n of its inputs, the first pivots of K at `start`.

    These are inputs whose values leave little variance of f at the others. There are fewer than n
    if fewer determine f at all inputs.
    """
    covariance = model.covariance
    K = MatrixOfInputs(covariance.of_training, model.start[: len(covariance.start)])
    rows = np.sort(leading_root(K, min(n, model.n_inputs)).pivots)
    return InducingGP(covariance, model.observations, model.hyperprior, rows)
