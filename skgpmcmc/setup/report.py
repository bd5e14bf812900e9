"""Settings of emulated samplers, and the report of their set-up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EmulatorSettings:
    """Settings of an emulated pseudo-marginal sampler.

    Attributes
    ----------
    noise : float
        Target standard deviation of the log-likelihood estimate, which determines the number of
        importance draws.
    defensive : float
        Proportion of importance draws from the prior.
    n_importance : int or None
        Number of draws per estimate; None for as many as `noise` requires.
    emulates : bool
        Whether proposals come from the emulator if it is good enough.
    """

    noise: float
    defensive: float
    n_importance: int | None
    emulates: bool


@dataclass(frozen=True)
class EmulatorReport:
    """Errors of the emulator, measured in the set-up.

    Attributes
    ----------
    n_design : int
        Number of design points.
    held_out_error : float
        Standard deviation of the approximate minus the emulated log evidence (natural log) at draws
        from the emulated posterior, before these joined the design.
    probe_error : float
        Standard deviation of the log-likelihood estimate with many importance draws minus the
        corrected emulated log evidence (natural log), at the same points.
    predicted_acceptance : float
        Acceptance rate of the main move predicted from the same points, without the noise of the
        estimates.
    n_importance : tuple of int
        Smallest and largest number of importance draws at the same points.
    noise : float
        Standard deviation of the log-likelihood estimate with these draws; median over the same
        points.
    n_sequential : int
        Number of rows whose latent values an importance draw takes sequentially.
    """

    n_design: int
    held_out_error: float
    probe_error: float
    predicted_acceptance: float
    n_importance: tuple[int, int] = (0, 0)
    noise: float = 0.0
    n_sequential: int = 0
