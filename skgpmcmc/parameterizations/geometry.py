"""A metric of v that depends on f, and the terms of Hamilton's equations that depend on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._typing import FloatArray
from ..model.prior import GaussianPrior
from ..numerics.dynamics import FactorRoot
from ..numerics.linalg import lower_product


@dataclass(frozen=True, eq=False)
class Geometry:
    """The metric G = I + R'P R of v, f = R v, with a diagonal P that is a function of f.

    Attributes
    ----------
    prior : GaussianPrior
        p(f | theta), with its root R.
    root : FactorRoot
        Root T'^-1 of the inverse of G, where G = T T'.
    slope : ndarray of shape (n,)
        Derivative of each P_i in its f_i.

    References
    ----------
    Paquet & Fraccaro, (10) to (12) and algorithms 2 and 3, in whitened coordinates, where K^-1 and
    log|K| do not appear.
    """

    prior: GaussianPrior
    root: FactorRoot
    slope: FloatArray

    @classmethod
    def of(cls, prior: GaussianPrior, precision: FloatArray, slope: FloatArray) -> Geometry:
        """Return the metric of a precision P of shape (n,); one product and one factor.

        Raises
        ------
        NotPositiveDefiniteError
            If G has no factor in double precision.
        """
        return cls(prior, FactorRoot(prior.whitened_factor(np.sqrt(precision))), slope)

    def momentum(self, z: FloatArray) -> FloatArray:
        """``T z``: a momentum with covariance G if z is standard normal; (r,)."""
        return lower_product(self.root.factor, z)

    def velocity(self, momentum: FloatArray) -> FloatArray:
        """``G^-1 p``; (r,)."""
        return self.root.apply(self.root.apply_transpose(momentum))

    def energy(self, momentum: FloatArray) -> float:
        """``1/2 p'G^-1 p + 1/2 log|G|``: minus the log density of a momentum, up to a constant."""
        z = self.root.apply_transpose(momentum)
        return 0.5 * float(z @ z) - self.root.log_det

    def gradient(self, momentum: FloatArray) -> FloatArray:
        """Gradient of `energy` in v; (r,)."""
        speed = self.prior.unwhiten(self.velocity(momentum))
        return self.prior.root.apply_transpose(0.5 * self.slope * (self._variance - speed * speed))

    @cached_property
    def _variance(self) -> FloatArray:
        """Diagonal of ``R G^-1 R'``."""
        return self.prior.variance_given(self.root.factor)
