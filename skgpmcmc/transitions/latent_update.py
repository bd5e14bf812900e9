"""A move of f at fixed theta, by any operator in whitened coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .._typing import FloatArray
from ..model import GaussianPrior, GPState, LatentGP
from ..numerics.linalg import cholesky
from ..parameterizations import (
    FactorRoot,
    IdentityRoot,
    LatentConditional,
    LatentPoint,
    MassRoot,
    Root,
)
from .base import StepInfo
from .operator_update import OperatorUpdate
from .operators import Operator


class LatentShape(Protocol):
    """Gives the shape of steps and momenta of f at any theta."""

    def root(self, model: LatentGP, prior: GaussianPrior) -> Root:
        """Return the root in whitened coordinates, a function of theta and the data."""
        ...


@dataclass(frozen=True)
class PriorShape:
    """Steps like draws from the prior, B B' = K: the variants "MH v1" and "HMC v2"."""

    def root(self, model: LatentGP, prior: GaussianPrior) -> Root:
        """Return the identity."""
        return IdentityRoot()


@dataclass(frozen=True)
class CurvatureShape:
    """B B' = (K^-1 + C)^-1, C the Fisher information of f at the prior mean: "HMC v1".

    The factor of I + L'C L is made once for each theta. C may not depend on f.
    """

    def root(self, model: LatentGP, prior: GaussianPrior) -> Root:
        """Return the root of the inverse of I + L'C L."""

        def make() -> FactorRoot:
            nowhere = np.zeros(len(model.y))
            information = model.observations_at(prior.theta).fisher_information(nowhere)
            return FactorRoot(prior.whitened_factor(np.sqrt(information)))

        return prior.remember((type(self), model), make)


@dataclass(frozen=True, eq=False)
class MassShape:
    """B B' = M^-1 for a given mass matrix M of f.

    Attributes
    ----------
    mass : float, or ndarray of shape (n,) or (n, n)
        M: a multiple of the identity, its diagonal, or the whole of it.
    """

    mass: float | FloatArray = 1.0

    def root(self, model: LatentGP, prior: GaussianPrior) -> Root:
        """Return ``L^-1 M^-1/2``."""
        mass = np.asarray(self.mass, dtype=float)
        if mass.ndim == 2:
            root_mass = cholesky(np.asfortranarray(mass))
        else:
            root_mass = np.broadcast_to(np.sqrt(mass), len(model.y))
        return prior.remember((self, model), lambda: MassRoot(prior.chol, root_mass))


@dataclass(frozen=True)
class LatentUpdate(OperatorUpdate):
    """An operator on v = L^-1 f.

    **Invariant:** leaves p(f | y, theta) unchanged, as the operator does; does not touch theta.

    Attributes
    ----------
    operator : Operator
    shape : LatentShape
        Of its steps or momenta; a metric of the operator's own overrules it.
    """

    operator: Operator
    shape: LatentShape = PriorShape()
    moves_theta = False

    @property
    def name(self) -> str:  # type: ignore[override]
        """What diagnostics call it."""
        return f"{self.operator.name} on f"

    def step(
        self, model: LatentGP, state: GPState, rng: np.random.Generator
    ) -> tuple[GPState, StepInfo]:
        """Let the operator move v."""
        conditional = LatentConditional(model, state.prior)
        point = conditional.point_of(state)
        root = self.shape.root(model, state.prior)
        with np.errstate(over="ignore", invalid="ignore"):
            outcome = self.operator.move(conditional, point, root, rng)
        info = self._info(outcome, failed=False)
        assert isinstance(outcome.point, LatentPoint)  # of its own conditional distribution
        return outcome.point.state._replace(local=outcome.point), info
