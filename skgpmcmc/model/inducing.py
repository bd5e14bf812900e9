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
from ..likelihoods.base import Derivatives, ParameterDerivatives, TiltedMoments
from ..numerics import linalg
from ..numerics.roots import PivotedRoot, leading_root
from .joint import LatentGP
from .low_rank import LowRankPrior, NystromGP, NystromPrior
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
        n, m = f.shape
        copies = self.plain.of_inputs(np.tile(np.arange(n), m))
        return copies.log_normalizers(f.T.ravel(), np.tile(self.blur, m)).reshape(m, n).T

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
        return self.plain.sample(f + self.draw_residuals(rng), rng)

    def draw_residuals(self, rng: np.random.Generator) -> FloatArray:
        """See `Observations`."""
        return np.sqrt(self.blur) * rng.standard_normal(len(self.blur))

    def derivatives(self, f: FloatArray) -> Derivatives:
        """Not available: there is no third derivative."""
        self._refuse("derivatives")

    def curvature(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Not available: there is no third derivative."""
        self._refuse("derivatives")

    def parameter_derivatives(self, f: FloatArray) -> ParameterDerivatives:
        """Not available; `tilted_parameter_gradient` has derivatives with g integrated out."""
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

    has_residuals = True

    def find_small_rank(self) -> int | None:
        """See `LatentGP`: the number of inducing inputs."""
        return len(self.rows)

    def of_inputs(self, inputs: IntArray) -> LatentGP:
        """See `LatentGP`. The inducing inputs stay those of the whole model."""
        others = np.setdiff1d(self.rows, inputs)
        every = np.concatenate([inputs, others])
        rows = np.flatnonzero(np.isin(every, self.rows))
        observed = self.observations.of_inputs(every)
        whole = InducingGP(self.covariance.of_inputs(every), observed, self.hyperprior, rows)
        return PartOfInducingGP.of(whole, len(inputs)) if len(others) else whole

    def prior_at(self, theta: FloatArray) -> NystromPrior:
        """p(g | theta)."""
        prior = super().prior_at(theta)
        self._keep_blur(prior)
        return prior

    def observations_at(self, theta: FloatArray) -> BlurredObservations:
        """Return p(y | g, theta) as a function of g."""
        return BlurredObservations.of(super().observations_at(theta), self.blur_at(theta))

    def blur_at(self, theta: FloatArray) -> FloatArray:
        """Return the variances of the residuals at theta, the diagonal of K - Q; (n,)."""
        known = self._blurs.get(theta.tobytes())
        return self._keep_blur(super().prior_at(theta)) if known is None else known

    def _keep_blur(self, prior: NystromPrior) -> FloatArray:
        """Compute and keep the variances of the residuals at the theta of a prior."""
        training = self.covariance.of_training
        variance = training.diagonal(prior.kernel_theta, training.X)
        root = prior.root.factor
        blur = np.maximum(variance - np.einsum("ij,ij->i", root, root), 0.0)
        blur[prior.root.pivots] = 0.0
        # Predictions in several threads may share this dictionary.
        n_too_many = max(len(self._blurs) - _MOST_KEPT + 1, 0)
        for oldest in list(self._blurs)[:n_too_many]:
            self._blurs.pop(oldest, None)
        self._blurs[prior.theta.tobytes()] = blur
        return blur

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


@dataclass(frozen=True, eq=False)
class PartOfPrior(LowRankPrior):
    """p(g | theta) at the first n of the inputs of a larger prior.

    Its root has no pivots: g at these inputs does not determine g at the inducing inputs.

    Attributes
    ----------
    whole : NystromPrior
        The prior of all inputs.
    """

    whole: NystromPrior = field(kw_only=True)

    @cached_property
    def root(self) -> PivotedRoot:
        """Rows of the root of the larger prior."""
        root = self.whole.root
        nowhere = np.full(root.rank, -1)
        return PivotedRoot(np.asfortranarray(root.factor[: self.size]), nowhere)

    def contract_root(self, A: FloatArray, B: FloatArray, S: FloatArray) -> FloatArray:
        """See `GaussianPrior`: G is zero at the other inputs."""
        n_others = self.whole.size - self.size
        return self.whole.contract_root(A, np.pad(B, ((0, 0), (0, n_others))), S)


@dataclass(frozen=True, eq=False)
class PartOfInducingGP(LatentGP):
    """The rows of a model with inducing inputs at some of its inputs, with the same prior of f.

    Attributes
    ----------
    whole : InducingGP
        The model of the rows at these inputs, which come first, and at the other inducing inputs.
    """

    whole: InducingGP

    has_residuals = True

    @classmethod
    def of(cls, whole: InducingGP, n: int) -> Self:
        """Return the model of the rows at the first n inputs."""
        first = np.arange(n)
        observed = whole.observations.of_inputs(first)
        return cls(whole.covariance.of_inputs(first), observed, whole.hyperprior, whole)

    def of_inputs(self, inputs: IntArray) -> LatentGP:
        """See `LatentGP`."""
        return self.whole.of_inputs(inputs)

    def find_small_rank(self) -> int | None:
        """See `LatentGP`: the number of inducing inputs."""
        return self.whole.find_small_rank()

    def prior_at(self, theta: FloatArray) -> PartOfPrior:
        """p(g | theta)."""
        return PartOfPrior(self.covariance, theta, whole=self.whole.prior_at(theta))

    def observations_at(self, theta: FloatArray) -> BlurredObservations:
        """Return p(y | g, theta) as a function of g."""
        blur = self.whole.blur_at(theta)[: self.n_inputs]
        return BlurredObservations.of(super().observations_at(theta), blur)

    def residual_gradient(self, prior: GaussianPrior, slopes: FloatArray) -> FloatArray:
        """See `LatentGP`."""
        assert isinstance(prior, PartOfPrior)
        n_others = self.whole.n_inputs - self.n_inputs
        return self.whole.residual_gradient(prior.whole, np.pad(slopes, (0, n_others)))


def with_inducing_inputs(model: LatentGP, n: int) -> InducingGP:
    """Return the approximation of a model by n of its inputs, the first pivots of K at `start`.

    These are inputs whose values leave little variance of f at the others. Where fewer than n
    determine f at all inputs, the first of the others are added: they are spread over all inputs if
    these are in an order that spreads them, and may be needed at other theta.
    """
    n = min(n, model.n_inputs)
    covariance = model.covariance
    K = MatrixOfInputs(covariance.of_training, model.start[: len(covariance.start)])
    pivots = leading_root(K, n).pivots
    others = np.setdiff1d(np.arange(model.n_inputs), pivots)
    rows = np.sort(np.concatenate([pivots, others[: n - len(pivots)]]))
    return InducingGP(covariance, model.observations, model.hyperprior, rows)
