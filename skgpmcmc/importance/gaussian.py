"""The Gaussian near p(f | y, theta) on which importance densities are based."""

from __future__ import annotations

from functools import singledispatch

from ..approximations.base import GaussianApproximation, Sites
from ..approximations.classwise import ClasswiseApproximation, average_sites
from ..model.joint import LatentGP

#: Factor of the precision of averaged sites: wider tails than KL(q || p) gives.
KEPT_PRECISION = 0.85


@singledispatch
def importance_gaussian(
    q: GaussianApproximation, model: LatentGP, start: Sites | None = None
) -> GaussianApproximation:
    """Return the Gaussian of an importance density: q itself, except for a softmax.

    For a softmax, averaging begins at the sites `start` instead of the sites of q.
    """
    return q


@importance_gaussian.register(ClasswiseApproximation)
def _average_and_widen(
    q: ClasswiseApproximation, model: LatentGP, start: Sites | None = None
) -> GaussianApproximation:
    """Average the sites of a softmax, and widen the Gaussian.

    The Gaussian at the mode is a poor importance density. The Gaussian with averaged sites
    minimizes KL(q || p), and is therefore too narrow.
    """
    if start is not None:
        q = ClasswiseApproximation(q.prior, start)
    q = average_sites(q, model.observations_at(q.prior.theta))
    return q.widen(KEPT_PRECISION)
