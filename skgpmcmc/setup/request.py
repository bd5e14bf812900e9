"""The arguments of a set-up, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._typing import FloatArray
from ..approximations.base import Approximation
from ..hyperposterior.cheap import CheapApproximation
from ..importance.density import ReferenceDensity
from ..model.joint import LatentGP
from ..transitions.base import ChainState, Transition
from ..transitions.pseudo_marginal import PseudoMarginalMetropolis
from .report import EmulatorReport

#: Default number of importance draws of a sampler that does not measure their noise.
N_IMPORTANCE = 64


class Request(NamedTuple):
    """Arguments of a set-up of the chains of one model."""

    model: LatentGP
    approximation: Approximation  # of the evidence or of p(f | y, theta)
    starts: Sequence[FloatArray]  # theta at which each chain begins; (p,), natural logs
    rngs: Sequence[np.random.Generator]  # the random stream of each chain
    rng: np.random.Generator  # the random stream of the set-up itself
    n_importance: int | None  # draws per likelihood estimate; None leaves the choice to the sampler
    n_warmup: int  # discarded iterations per chain
    cheap: CheapApproximation | None = None  # proposes, for mapped samplers


class PreparedChains(NamedTuple):
    """Result of a set-up: the chains of one model, ready to be sampled."""

    transition: Transition[Any]  # frozen
    thetas: Sequence[FloatArray]  # theta at which each chain begins; (p,), natural logs
    rngs: Sequence[np.random.Generator]  # one per chain
    n_burn_in: int  # iterations of the frozen transition that are discarded first
    n_evaluations: float = 0.0  # evaluations of a (marginal) likelihood in the set-up
    n_tuned: int = 0  # iterations that each chain has made in the set-up
    reference: ReferenceDensity | None = None  # q(f) of the transition at any theta, if any
    estimator: PseudoMarginalMetropolis | None = None  # estimates p(y | theta), if estimated
    report: EmulatorReport | None = None
    states: Sequence[ChainState] | None = None  # first states; None to start afresh
    draws_latent: bool = True  # whether f of the chains is a draw, and not a mean
