"""The approximation by inducing inputs, where a user asks for it."""

from __future__ import annotations

from collections.abc import Sequence

from .._warnings import warn
from ..approximations.base import Approximation
from ..approximations.ep import EP
from ..approximations.exact import Exact
from ..model.inducing import InducingGP, with_inducing_inputs
from ..model.joint import LatentGP
from ..samplers.base import Sampler

#: Values of the parameter `covariance`.
COVARIANCES = ("exact", "inducing")


def approximate_models(
    models: Sequence[LatentGP], n_inducing: int, sampler: Sampler, approximation: Approximation
) -> list[LatentGP]:
    """Return models with the same inducing inputs; a warning says where fewer may suffice.

    Raises
    ------
    ValueError
        If the sampler, the approximation or the likelihood does not work with them.
    """
    first = models[0]
    first.likelihood.check_single('covariance="inducing"', 'covariance="exact"')
    if sampler.n_roots is None:
        raise ValueError(
            f'covariance="inducing" does not work with sampler={type(sampler).__name__}, which '
            'needs f or K itself: use sampler="pm" or "marginal", or for regression "collapsed".'
        )
    if not isinstance(approximation, (EP, Exact)):
        raise ValueError(
            f'covariance="inducing" does not work with approximation={type(approximation).__name__}'
            ': use approximation="ep".'
        )
    inducing = with_inducing_inputs(first, n_inducing)
    rank = inducing.prior_at(first.start).rank
    if rank < len(inducing.rows):
        warn(
            f'covariance="inducing" is an approximation that may not be needed: {rank} inputs '
            "determine f at all others, up to rounding, at the values that the kernel was given. "
            "If this is so at plausible values (see skgpmcmc.kernels.effective_rank), a fit with "
            'covariance="exact" takes about as long.'
        )
    return [
        InducingGP(own.covariance, own.observations, own.hyperprior, inducing.rows)
        for own in models
    ]
