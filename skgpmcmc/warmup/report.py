"""What a sampler asks of the emulated posterior, and what the set-up measured of it."""

from __future__ import annotations

from dataclasses import dataclass

from ..approximations.annealing import Annealing


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
    annealing : Annealing or None
        How draws are annealed, where importance sampling is too noisy.
    """

    noise: float
    defensive: float
    n_importance: int | None
    emulates: bool
    annealing: Annealing | None = None


@dataclass(frozen=True)
class EmulatorReport:
    """How good the emulator is, measured in the set-up.

    Attributes
    ----------
    n_design : int
        Design points in use.
    held_out_error : float
        Standard deviation of the approximate log evidence minus the emulated one at points of the
        emulated posterior, before they joined the design; natural log.
    probe_error : float
        Standard deviation of log p-hat, of many draws, minus the corrected emulator at the same
        points.
    predicted_acceptance : float
        Of the surrogate move, from the same points, without the noise of the estimates.
    n_sweeps : int
        Sweeps with which the interpolated sites are improved at every theta.
    skewness : float
        Share of the margins' skewness that the importance density has; 0 for a Gaussian.
    n_importance : tuple of int
        Smallest and largest number of importance draws at the same points.
    noise : float
        Standard deviation of the log estimate with these draws; the median at the same points.
    n_temperatures : int
        Through which the draws are annealed; 0 for importance sampling.
    """

    n_design: int
    held_out_error: float
    probe_error: float
    predicted_acceptance: float
    n_sweeps: int
    skewness: float
    n_importance: tuple[int, int]
    noise: float = 0.0
    n_temperatures: int = 0
