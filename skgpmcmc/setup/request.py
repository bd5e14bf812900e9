"""What a set-up is asked for, and what it leaves to the chains."""

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

#: Importance draws where a request leaves the choice to a sampler that learns nothing of them.
N_IMPORTANCE = 64


class Request(NamedTuple):
    """What a set-up is asked for: the chains of one model."""

    model: LatentGP
    approximation: Approximation  # what the sampler builds on
    starts: Sequence[FloatArray]  # where each chain begins; (p,), natural logs
    rngs: Sequence[np.random.Generator]  # the random stream of each chain
    rng: np.random.Generator  # of the set-up itself
    n_importance: int | None  # draws per likelihood estimate; None leaves the choice to the sampler
    n_warmup: int  # discarded iterations per chain
    cheap: CheapApproximation | None = None  # what proposes, for samplers that want it


class PreparedChains(NamedTuple):
    """What a set-up leaves to the chains of one model."""

    transition: Transition[Any]  # frozen
    thetas: Sequence[FloatArray]  # where each chain begins; (p,), natural logs
    rngs: Sequence[np.random.Generator]  # one per chain
    n_burn_in: int  # iterations to be discarded first
    n_evaluations: float = 0.0  # of a (marginal) likelihood, in the set-up
    n_tuned: int = 0  # iterations that each chain has made in the set-up
    reference: ReferenceDensity | None = None  # q(f) of the transition at any theta, if any
    estimator: PseudoMarginalMetropolis | None = None  # what estimates p(y | theta), if anything
    report: EmulatorReport | None = None
    states: Sequence[ChainState] | None = None  # where chains begin, if not afresh at their theta
    draws_latent: bool = True  # whether f of the chains is a draw, and not a mean
