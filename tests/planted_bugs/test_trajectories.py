"""Wrong twins of what leads chains on the exact evidence, each of which quadrature must catch.

Trajectories have one step that is twice as long as the one that is tuned, so that errors of the
leapfrog method, which the acceptance probability corrects, are large. The right transition passes
with such steps, too.
"""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from skgpmcmc.numerics.dynamics import DenseRoot, LeapfrogPath
from skgpmcmc.setup.emulator.options import EmulatorOptions
from skgpmcmc.transitions import Trajectory, hmc
from skgpmcmc.transitions.compose import DirectedPair
from skgpmcmc.transitions.rotation import Rotation

from ..exactness.test_trajectories import worst
from ..helpers import Z_LIMIT
from .test_planted_bugs import UnliftedRotation, twin_of

#: By how much steps are longer, in logs, and the draws of each chain: more than right ones need.
_LONGER, _N_DRAWS = 0.8, 3000


def twin(cls, **changes):
    """Trajectories of a class, of one long step, in place of those of a transition."""

    def made(transition):
        right = transition.trajectory
        longer = {"log_scale": right.log_scale + _LONGER, "max_steps": 1, "fewest_steps": 1}
        return replace(transition, trajectory=twin_of(right, cls, **longer, **changes))

    return made


class HalfStepMissing(Trajectory):
    """The last step of the momentum is a whole one."""

    def integrate(self, at, point, rng):
        right = hmc.leapfrog

        def without_half_step(at, begin, momentum, step, root, n_steps):
            path = right(at, begin, momentum, step, root, n_steps)
            if path.end is None:
                return path
            momentum = path.momentum + 0.5 * step * root.apply_transpose(path.end.gradient)
            return LeapfrogPath(path.end, momentum, path.n_evaluations, path.position)

        with mock.patch.object(hmc, "leapfrog", without_half_step):
            return super().integrate(at, point, rng)


class ShapedByThePoint(Trajectory):
    """A metric that goes on being learned: from where the chain is."""

    def move(self, conditional, point, rng):
        stretch = np.exp(0.8 * np.tanh(point.position[-1] + 1.5))
        fixed = twin_of(self, Trajectory, root=DenseRoot(stretch * self.root.matrix))
        return fixed.move(conditional, point, rng)


class StepByThePoint(Trajectory):
    """A step size that fits the place where the trajectory begins."""

    def move(self, conditional, point, rng):
        log_scale = self.log_scale + 0.8 * np.tanh(point.position[0])
        return twin_of(self, Trajectory, log_scale=log_scale).move(conditional, point, rng)


class EnergyInTheMetricOfAnother(Trajectory):
    """Momenta have the covariance of this chain's metric, their energy that of another's."""

    def integrate(self, at, point, rng):
        path, log_ratio = super().integrate(at, point, rng)
        return path, log_ratio - 0.25 * path.momentum @ path.momentum + 0.25 * 3


WRONG = [HalfStepMissing, ShapedByThePoint, StepByThePoint, EnergyInTheMetricOfAnother]


@pytest.mark.statistical
def test_right_trajectories_agree_with_quadrature():
    assert worst("trajectory", twin(Trajectory), _N_DRAWS) < Z_LIMIT


@pytest.mark.statistical
@pytest.mark.parametrize("cls", WRONG, ids=lambda cls: cls.__name__)
def test_quadrature_catches_wrong_trajectories(cls):
    assert worst("trajectory", twin(cls), _N_DRAWS) > Z_LIMIT


# --- the tails of rotations, as wide as they are by default ---------------------------------------


class Unlifted(UnliftedRotation):
    lift = EmulatorOptions().lift


def rotations(cls):
    """Rotations of a class alone, in place of those of a transition."""

    def made(transition):
        rotation = transition.moves[0]
        parts = (rotation.ahead, rotation.back)
        return DirectedPair(
            *(replace(p, proposal=cls(p.proposal.density, p.proposal.sign)) for p in parts)
        )

    return made


@pytest.mark.statistical
@pytest.mark.parametrize("cls", [Rotation, Unlifted])
def test_quadrature_catches_rotations_without_lifted_tails(cls):
    assert (worst("rotation", rotations(cls)) < Z_LIMIT) == (cls is Rotation)
