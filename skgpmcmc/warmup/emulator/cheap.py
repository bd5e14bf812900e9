"""The emulator of the default sampler as a cheap posterior of theta."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...approximations import CheapApproximation
from ...model import LatentGP
from ..work import Request, perform
from .fit import EmulatedPosterior
from .learn import Step, explored, measured, refined, searched

#: Searches for a mode.
_N_SEARCHES = 4


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
        learning, results = self.learned(model, rng), None
        while True:
            try:
                tasks = learning.send(results) if results else next(learning)
            except StopIteration as end:
                posterior: EmulatedPosterior = end.value
                return posterior
            results = [perform(task).value for task in tasks]

    def learned(self, model: LatentGP, rng: np.random.Generator) -> Step[EmulatedPosterior]:
        """Learn the emulator, with the evaluations done by workers.

        Yields
        ------
        sequence of Task
            Work whose results are to be sent back.
        """
        starts = [model.start, *(model.hyperprior.sample(rng) for _ in range(_N_SEARCHES - 1))]
        approximation = self.approximation(model.likelihood)
        known = yield from searched(Request(model, approximation, starts, [], rng, None, 0))
        known = yield from measured(known)
        known = yield from explored(known)
        known = yield from refined(known)
        return known.emulated().target()
