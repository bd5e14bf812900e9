"""All numbers that the learning of an emulator depends on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EmulatorOptions:
    """Numbers of a set-up that learns an emulator; none of them changes what is sampled.

    Distances of theta are in standard deviations of the posterior, densities in natural logs. What
    each number brings is shown in the documentation, by `benchmarks/default.py`.
    """

    # The search for modes
    search_tolerance: float = 1e-4  # relative change of the density at which a search ends
    site_tolerance: float = 1e-3  # of an approximation at a design point
    fewest_rows: int = 400  # from which a search begins at the modes of a quarter of the rows
    step: float = 0.25  # of the gradients whose difference gives a first scale

    # What is kept
    depth: float = 30.0  # points lower than the best by more than this plus 2 p are of no use
    gap: float = 0.1  # points nearer than this to a better one say nothing new
    most_values: int = 2500  # values and derivatives that an emulator is conditioned on
    most_sites: int = 500  # points between which sites are interpolated
    valley: float = 1.0  # depth below the lower of two points that makes them two modes

    # The emulator
    span: float = 4.0  # log evidences are compressed below the largest by more than this plus p
    ceiling: float = 2.0  # the emulator is not believed above the best value by more than this
    floor: float = 12.0  # what is lower than this hardly matters: other modes, and the prior alone

    # Learning
    worth: float = 170.0  # a third of the evaluations of a run whose proposals are all accepted
    usable: float = 0.48  # acceptance rate from which an emulator may lead chains
    most_rounds: int = 12  # batches of points
    lift: float = 0.21  # pi* to the power 1 / (1 + lift / sqrt(p)) bounds its ratio to the target

    def batch(self, dim: int) -> int:
        """Return the points of a batch, half of them typical and half from wider tails."""
        return 8 + 2 * dim

    def enough(self, dim: int) -> float:
        """Return the acceptance to be learned: perfection would save less than three batches."""
        return 1.0 / (1.0 + self.batch(dim) / self.worth)

    def temperature(self, dim: int) -> float:
        """Return T: points of wider tails come from pi* to the power 1 / T."""
        return 1.0 + 1.5 / dim

    def lifted(self, dim: int) -> float:
        """Return the power of pi* from which proposals come."""
        return 1.0 / (1.0 + self.lift / dim**0.5)
