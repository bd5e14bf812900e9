"""Samplers that update f and theta alternately: the schemes of the comparative evaluation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy import stats

from .. import parameterizations
from .._params import check_flag, check_in, check_integer
from ..chain.executor import Executor
from ..model.hyperpriors import parameters_of
from ..model.joint import GPState, LatentGP
from ..model.kernels import variance_position
from ..parameterizations.base import Parameterization
from ..setup.random_walk import set_up_sweep
from ..setup.request import PreparedChains, Request
from ..transitions.base import Transition
from ..transitions.compose import Sweep
from ..transitions.elliptical_slice import EllipticalSlice
from ..transitions.gibbs import (
    ConjugateVariance,
    CrankNicolson,
    CurvatureShape,
    HyperUpdate,
    LatentUpdate,
    MassShape,
    PriorShape,
)
from ..transitions.hmc import Trajectory
from ..transitions.joint_update import JointUpdate
from ..transitions.langevin import Langevin
from ..transitions.metropolis import RandomWalk
from ..transitions.operator import Operator
from ..transitions.riemannian import RiemannianTrajectory
from ..transitions.slice import UnivariateSlice
from .base import Sampler

OperatorT = TypeVar("OperatorT", bound=Operator)

#: First log scale relative to that for a standard normal target: cautious, as tuning enlarges it.
_LOG_FIRST_SCALE = float(np.log(0.5))


def make_latent_moves(dim: int, max_leapfrog: int) -> dict[str, Transition[GPState]]:
    """Return the named moves of f, with the scales from which tuning starts.

    `dim` is the length of f, and `max_leapfrog` the maximum number of leapfrog steps.
    """
    walk = _with_first_scale(RandomWalk(), dim)
    trajectory = _with_first_scale(Trajectory(max_steps=max_leapfrog), dim)
    return {
        "mh": LatentUpdate(walk, MassShape()),
        "mh_v1": LatentUpdate(walk, PriorShape()),
        "mh_v2": CrankNicolson(walk.log_scale),
        "smmala": LatentUpdate(_with_first_scale(Langevin(), dim)),
        "elliptical_slice": EllipticalSlice(),
        "hmc": LatentUpdate(trajectory, MassShape()),
        "hmc_v1": LatentUpdate(trajectory, CurvatureShape()),
        "hmc_v2": LatentUpdate(trajectory, PriorShape()),
        "rmhmc": LatentUpdate(_with_first_scale(RiemannianTrajectory(max_steps=max_leapfrog), dim)),
    }


def make_hyper_moves(dim: int, max_leapfrog: int) -> dict[str, Operator]:
    """Return the named moves of theta, with the scales from which tuning starts."""
    return {
        "mh": _with_first_scale(RandomWalk(), dim),
        "hmc": _with_first_scale(Trajectory(max_steps=max_leapfrog), dim),
        "smmala": _with_first_scale(Langevin(), dim),
        "slice": UnivariateSlice(),
    }


def make_operator(
    move: str | Operator, dim: int, max_leapfrog: int, target_acceptance: float | None
) -> Operator:
    """Return a named or a given move of theta, with the target acceptance rate if it has one."""
    operator = make_hyper_moves(dim, max_leapfrog)[move] if isinstance(move, str) else move
    if target_acceptance is None or operator.target_acceptance is None:
        return operator
    return operator.with_target(target_acceptance)


def _with_first_scale(operator: OperatorT, dim: int) -> OperatorT:
    return operator.with_log_scale(operator.typical_log_scale(dim) + _LOG_FIRST_SCALE)


@dataclass(eq=False)
class WithinGibbs(Sampler):
    """Base class of samplers that update f given theta, and theta given f or a transform of f.

    Parameters
    ----------
    target_acceptance : float in (0, 1) or None, default=None
        Acceptance rate to which warm-up tunes the moves of theta. None is the rate recommended for
        each kind of move: 0.25 for "mh", 0.7 for "hmc", 0.6 for "smmala". It has no effect on
        "slice", which always accepts. Moves of f are always tuned to the recommended rates.
    latent : str or Transition, default="hmc_v2"
        Move of f: "mh", "mh_v1", "mh_v2", "smmala", "elliptical_slice", "hmc", "hmc_v1", "hmc_v2",
        "rmhmc", or a transition that does not change theta.
    n_latent : int, default=5
        Number of moves of f in each iteration.
    max_leapfrog : int, default=10
        Maximum number of leapfrog steps of a trajectory of f or theta.
    learn_shape : bool, default=True
        Use the covariance of theta seen in the warm-up for the steps of theta. False, as in the
        papers, uses a multiple of the identity.
    """

    best_approximation: ClassVar[str | None] = None
    n_matrices: ClassVar[float] = 12.0
    # The moves of f are implemented for one factor of K only.
    many_functions: ClassVar[bool] = False
    #: Whether theta moves before f in an iteration; the first move starts the chains.
    _theta_first: ClassVar[bool] = False

    target_acceptance: float | None = None  # type: ignore[assignment]
    latent: Any = "hmc_v2"
    n_latent: int = 5
    max_leapfrog: int = 10
    learn_shape: bool = True

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        if self.target_acceptance is not None:
            super().check()
        for name in ("n_latent", "max_leapfrog"):
            check_integer(f"sampler: {name}", getattr(self, name), 1)
        check_flag("sampler: learn_shape", self.learn_shape)
        known = sorted(make_latent_moves(1, 1))
        if isinstance(self.latent, Transition):
            if self.latent.moves_theta:
                raise ValueError(
                    f"sampler: latent={self.latent.name!r} moves theta too, but f has to move "
                    f"given theta: use one of {known} or a transition that leaves theta alone."
                )
        elif self.latent not in known:
            raise ValueError(
                f"sampler: latent must be one of {known} or a Transition; got {self.latent!r}."
            )

    def set_up(self, request: Request, workers: Executor) -> PreparedChains:
        """Tune every move on the posterior itself; `n_importance` is not used."""
        model = request.model
        move = self.latent
        if not isinstance(move, Transition):
            move = make_latent_moves(model.n_inputs, self.max_leapfrog)[move]
        latent = [(move, self.n_latent)]
        moves = self._hyper_moves(request) if len(model.start) else []
        hyper = [(own, 1) for own in moves]
        both = hyper + latent if self._theta_first else latent + hyper
        sweep = Sweep(*zip(*both, strict=True))
        return set_up_sweep(request, sweep, workers, learns_shape=self.learn_shape)

    @abstractmethod
    def _hyper_moves(self, request: Request) -> Sequence[Transition[GPState]]:
        """Return the moves of theta in an iteration, in their order."""


@dataclass(eq=False)
class Augmented(WithinGibbs):
    """Base class of samplers that move theta under one or two parameterizations.

    Parameters
    ----------
    target_acceptance, latent, n_latent, max_leapfrog, learn_shape : as in `WithinGibbs`
        Moves of f, and their tuning.
    hyper : str or Operator, default="mh"
        Move of theta: "mh", "hmc", "smmala" or "slice", or a configured operator.
    """

    #: Parameterizations under which theta moves, in this order.
    _parameterizations: ClassVar[tuple[type[Parameterization], ...]]

    hyper: Any = "mh"

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        super().check()
        known = sorted(make_hyper_moves(1, 1))
        if not isinstance(self.hyper, Operator) and self.hyper not in known:
            raise ValueError(
                f"sampler: hyper must be one of {known} or an Operator; got {self.hyper!r}."
            )

    @property
    def follows_gradient(self) -> bool:
        """Whether the moves of theta use gradients, which the kernel must then provide."""
        return self._operator(1).follows_gradient

    def _operator(self, dim: int) -> Operator:
        return make_operator(self.hyper, dim, self.max_leapfrog, self.target_acceptance)

    def _hyper_moves(self, request: Request) -> Sequence[Transition[GPState]]:
        operator = self._operator(len(request.model.start))
        return [
            HyperUpdate(parameterization(), operator)
            for parameterization in self._parameterizations
        ]


@dataclass(eq=False)
class Ancillary(Augmented):
    """Alternating moves of f, and of theta given the whitened f (ancillary scheme, AA): exact.

    Parameters
    ----------
    target_acceptance, latent, n_latent, max_leapfrog, learn_shape, hyper : as in `Augmented`
        Moves of f and theta.

    References
    ----------
    Filippone, Zhong & Girolami (2013), sections 2.1 and 3.
    """

    _parameterizations = (parameterizations.AncillaryAugmentation,)


@dataclass(eq=False)
class _FixedLatentSampler(Augmented):
    """Base class of samplers that move theta at fixed f, which requires a density of f."""

    nugget: float = 1e-8

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        super().check()
        check_in("sampler: nugget", self.nugget, "[1e-10, 1]")

    def prepare_model(self, model: LatentGP) -> LatentGP:
        """Return the model with noise on f, so that f has a density whatever the kernel."""
        return model.with_nugget(self.nugget)


@dataclass(eq=False)
class Interweaving(_FixedLatentSampler):
    """Alternating moves of f, theta given f, and theta given the whitened f (ASIS): exact.

    Parameters
    ----------
    target_acceptance, latent, n_latent, max_leapfrog, learn_shape, hyper : as in `Augmented`
        Moves of f and theta.
    nugget : float in [1e-10, 1], default=1e-8
        Variance of independent noise on f at the training rows, as a share of the largest variance
        of f. It is part of the model that is sampled: f, while it stands still, must have a
        density.

    References
    ----------
    Yu & Meng (2011); Filippone, Zhong & Girolami (2013), (6).
    """

    _parameterizations = (
        parameterizations.SufficientAugmentation,
        parameterizations.AncillaryAugmentation,
    )


@dataclass(eq=False)
class Surrogate(Augmented):
    """Alternating moves of f, and of theta given surrogate data (SURR): exact.

    The surrogate data are f plus noise. While theta moves, they are held fixed, and so is f in
    standardized form given them.

    Parameters
    ----------
    target_acceptance, latent, n_latent, max_leapfrog, learn_shape, hyper : as in `Augmented`
        Moves of f and theta.

    References
    ----------
    Murray & Adams (2010); Filippone, Zhong & Girolami (2013), section 2.4.
    """

    _parameterizations = (parameterizations.SurrogateData,)


@dataclass(eq=False)
class Sufficient(_FixedLatentSampler):
    """Alternating moves of f, and of theta given f (sufficient scheme, SA): exact.

    It mixes slowly unless there are many data.

    Parameters
    ----------
    target_acceptance, latent, n_latent, max_leapfrog, learn_shape, hyper : as in `Augmented`
        Moves of f and theta.
    nugget : float in [1e-10, 1], default=1e-8
        See `Interweaving`.
    conjugate : bool, default=False
        Draw the constant factor of the kernel from its conditional distribution. This needs an
        inverse-gamma prior on it.

    References
    ----------
    Filippone, Zhong & Girolami (2013), sections 2.1 and 3.
    """

    _parameterizations = (parameterizations.SufficientAugmentation,)

    conjugate: bool = False

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        super().check()
        check_flag("sampler: conjugate", self.conjugate)

    def check_model(self, model: LatentGP) -> None:
        """Raise a ValueError if the prior or the kernel does not allow conjugate draws."""
        super().check_model(model)
        if self.conjugate:
            _conjugate_variance(model)

    def _hyper_moves(self, request: Request) -> Sequence[Transition[GPState]]:
        if not self.conjugate:
            return super()._hyper_moves(request)
        gibbs = _conjugate_variance(request.model)
        others = np.delete(np.arange(len(request.model.start)), gibbs.position)
        if len(others) == 0:
            return [gibbs]
        operator = self._operator(len(others))
        return [
            gibbs,
            HyperUpdate(parameterizations.SufficientAugmentation(), operator, free=others),
        ]


def _conjugate_variance(model: LatentGP) -> ConjugateVariance:
    """Return the Gibbs update of the variance; a ValueError says why there is none."""
    position = variance_position(model.covariance.kernel)
    if position is None:
        raise ValueError(
            "sampler: conjugate=True draws a constant that multiplies the whole kernel, and "
            f"kernel={model.covariance.kernel!r} has none that is free: use a kernel such as "
            "ConstantKernel() * RBF(), or conjugate=False."
        )
    name = model.hyperprior.names[position]
    prior = model.hyperprior.distributions[name]
    shapes, loc, scale = parameters_of(prior)
    if type(prior.dist) is not type(stats.invgamma) or loc != 0.0:
        raise ValueError(
            f"sampler: conjugate=True needs an inverse-gamma prior on {name!r}, and it has "
            f"{prior.dist.name}: use priors={{{name!r}: scipy.stats.invgamma(1.0)}}, or "
            "conjugate=False."
        )
    return ConjugateVariance(position, float(shapes[0]), float(scale))


@dataclass(eq=False)
class KnorrHeldRue(WithinGibbs):
    """Joint proposals of theta and f, with f from a Gaussian approximation at the new theta: exact.

    If the approximation is poor, few proposals are accepted; with a probit link,
    ``approximation="ep"`` helps.

    Parameters
    ----------
    target_acceptance, latent, n_latent, max_leapfrog, learn_shape : as in `WithinGibbs`
        Moves of f; the random walk of theta is tuned to an acceptance rate of 0.25 by default.
    defensive : float in [0, 1), default=0.05
        Probability with which f is proposed from the prior instead. It bounds the importance
        weights; with 0, as in the paper, chains can get stuck if the approximation is poor.

    References
    ----------
    Knorr-Held & Rue (2002); Filippone, Zhong & Girolami (2013), section 2.3.
    """

    best_approximation: ClassVar[str | None] = "laplace"
    _theta_first: ClassVar[bool] = True

    defensive: float = 0.05

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        super().check()
        check_in("sampler: defensive", self.defensive, "[0, 1)")

    def _hyper_moves(self, request: Request) -> Sequence[Transition[GPState]]:
        walk = _with_first_scale(RandomWalk(), len(request.model.start))
        if self.target_acceptance is not None:
            walk = walk.with_target(self.target_acceptance)
        return [JointUpdate(request.approximation, walk, self.defensive)]
