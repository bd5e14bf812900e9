"""The Gaussian near p(f | y, theta) that importance densities are made of."""

from __future__ import annotations

from functools import singledispatch

from ..approximations.base import GaussianApproximation, Sites
from ..approximations.classwise import ClasswiseApproximation, average_sites
from ..model.joint import LatentGP

#: Share of the precision of averaged sites that is kept, for wider tails.
KEPT_PRECISION = 0.85


@singledispatch
def importance_gaussian(
    q: GaussianApproximation, model: LatentGP, start: Sites | None = None
) -> GaussianApproximation:
    """Return the Gaussian that importance densities are made of: q itself, but for a softmax.

    With a softmax, `start` replaces the sites at which averaging begins.
    """
    return q


@importance_gaussian.register(ClasswiseApproximation)
def _of_softmax(
    q: ClasswiseApproximation, model: LatentGP, start: Sites | None = None
) -> GaussianApproximation:
    """Average the sites, and widen them.

    The Gaussian at the mode is a poor one. With averaged sites it is the nearest in the sense of
    KL(q || p), and thus too narrow.
    """
    if start is not None:
        q = ClasswiseApproximation(q.prior, start)
    q = average_sites(q, model.observations_at(q.prior.theta))
    return q.widen(KEPT_PRECISION)
