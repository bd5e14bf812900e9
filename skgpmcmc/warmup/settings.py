"""What a sampler may set of the emulated sampler's set-up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EmulatorSettings:
    """What a sampler may set.

    Attributes
    ----------
    noise : float
        Standard deviation of the log-likelihood estimate that the number of draws aims at.
    defensive : float
        Share of importance draws from the prior.
    n_importance : int or None
        Draws per estimate; None for as many as `noise` needs.
    emulates : bool
        Whether an emulator may make the proposals, if it is good.
    """

    noise: float
    defensive: float
    n_importance: int | None
    emulates: bool
