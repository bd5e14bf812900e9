"""One of several transitions, chosen at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from .._typing import FloatArray
from ..model import LatentGP
from .base import ChainState, StepInfo, Transition

S = TypeVar("S", bound=ChainState)


@dataclass(frozen=True, eq=False)
class Mixture(Transition[S]):
    """At every step one part moves, chosen with fixed probabilities, and then the last one.

    **Invariant:** what all its parts leave unchanged, as the choice does not look at the state.

    Attributes
    ----------
    parts : sequence of Transition
        All on the same states; the first one starts chains.
    probabilities : sequence of float
        One per part, with sum 1.
    last : Transition or None
        Moves after every part, whichever it was.
    """

    parts: Sequence[Transition[S]]
    probabilities: Sequence[float]
    last: Transition[S] | None = None
    name = "mixture"

    def start(
        self,
        model: LatentGP,
        theta: FloatArray,
        rng: np.random.Generator,
        *,
        retained: FloatArray | None = None,
    ) -> S | None:
        """Return a state of the first part at theta; `retained` is handed on if given."""
        if retained is None:
            return self.parts[0].start(model, theta, rng)
        return self.parts[0].start(model, theta, rng, retained=retained)  # type: ignore[call-arg]

    def step(self, model: LatentGP, state: S, rng: np.random.Generator) -> tuple[S, StepInfo]:
        """Let one part move."""
        edges = np.cumsum(self.probabilities)
        index = int(np.searchsorted(edges, rng.uniform() * edges[-1], side="right"))
        state, info = self.parts[min(index, len(self.parts) - 1)].step(model, state, rng)
        if self.last is None:
            return state, info
        state, more = self.last.step(model, state, rng)
        return state, info._replace(n_evaluations=info.n_evaluations + more.n_evaluations)
