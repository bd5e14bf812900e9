"""The emulated posterior of the default sampler as a cheap posterior of theta."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...chain.executor import Executor, InProcessExecutor
from ...hyperposterior.cheap import CheapApproximation
from ...model.joint import LatentGP
from ..request import Request
from .learn import learn_emulator
from .options import EmulatorOptions
from .posterior import EmulatedPosterior


@dataclass(eq=False)
class Emulated(CheapApproximation):
    """Cheap posterior from an emulator of the log evidence of all rows, times the prior of theta.

    The emulator is a Gaussian process over theta that interpolates an approximate log evidence.

    Parameters
    ----------
    inner : {"auto", "ep", "laplace"}, default="auto"
        Approximation whose log evidence is emulated; see `CheapApproximation`.
    """

    def posterior(self, model: LatentGP, rng: np.random.Generator) -> EmulatedPosterior:
        """Learn the emulator; this takes about 100 p evaluations for p hyper-parameters."""
        return self.learn(model, rng, InProcessExecutor())

    def learn(
        self, model: LatentGP, rng: np.random.Generator, workers: Executor
    ) -> EmulatedPosterior:
        """Learn the emulator, with evaluations by `workers`."""
        starts = [model.start, *(model.hyperprior.sample(rng) for _ in range(3))]
        request = Request(model, self.approximation(model.likelihood), starts, [], rng, None, 0)
        return learn_emulator(request, workers, EmulatorOptions()).posterior
