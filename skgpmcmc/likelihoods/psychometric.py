"""Two classes, some of which are guesses or lapses: the probability does not reach zero or one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from .._typing import FloatArray
from ..numerics.quadrature import Cuts
from .base import Parameter
from .bernoulli import Bernoulli, Probit
from .mixed import MixedWithConstant

#: Largest absolute value of the log of odds, which are clipped there: beyond, 1 - g - l would be
#: all rounding.
_FARTHEST = 30.0
#: Ends of panels on the scale of f. Within, Phi changes; beyond, it is zero or one.
_NORMAL_PANEL_ENDS = np.array([-8.0, -5.5, -4.0, -2.5, -1.2, 0.0, 1.2, 2.5, 4.0, 5.5, 8.0])


@dataclass(frozen=True)
class PsychometricProbit(MixedWithConstant, Bernoulli):
    """Probit with guesses and lapses: y = 1 with probability g + (1 - g - l) Phi(f).

    A share g of the targets is +1, and a share l is -1, whatever f is. In experiments on perception
    these are correct guesses and lapses of attention; with labels that may be wrong, they are the
    wrong labels of both kinds.

    Parameters
    ----------
    guess : float, default=0.0
        The probability g, 0 <= g < 1; for instance 0.5 if there are two answers to choose from.
    lapse : float, default=0.02
        The probability l, 0 <= l < 1 - g.
    infer_guess : bool, default=False
        Infer g, which is then a positive starting value of the chains. The hyper-parameter is
        ``"guess_odds"``, g / (1 - g - l).
    infer_lapse : bool, default=True
        Infer l, which is then a positive starting value of the chains. The hyper-parameter is
        ``"lapse_odds"``, l / (1 - g - l).

    Notes
    -----
    The default prior of odds is log-normal with median 0.03 and standard deviation 1 of the log,
    which allows for probabilities like Beta(1, 19) does. Integrals over f are in closed form, as
    for `Probit`, which is the special case g = l = 0, for rows of weight one with inputs of their
    own; else they take quadrature.
    """

    guess: float = 0.0
    lapse: float = 0.02
    infer_guess: bool = False
    infer_lapse: bool = True

    name: ClassVar[str] = "psychometric_probit"

    def __post_init__(self) -> None:
        """Refuse probabilities that add up to one, and starting values of zero."""
        g = self.guess
        if not (g >= 0.0 and self.lapse >= 0.0 and g + self.lapse < 1.0):
            raise ValueError(
                "guess and lapse must be probabilities whose sum is below one; "
                f"got guess={g!r} and lapse={self.lapse!r}."
            )
        for name in self._inferred:
            if getattr(self, name) == 0.0:
                raise ValueError(
                    f"infer_{name}=True needs a positive starting value; got {name}=0.0: use "
                    f"{name}=0.02, or infer_{name}=False."
                )

    @property
    def _inferred(self) -> tuple[str, ...]:
        return ("guess",) * self.infer_guess + ("lapse",) * self.infer_lapse

    @property
    def part(self) -> Probit:
        """Targets that are neither guesses nor lapses."""
        return Probit()

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The odds of the probabilities that are inferred."""
        rest = 1.0 - self.guess - self.lapse
        return tuple(
            Parameter(f"{name}_odds", True, getattr(self, name) / rest) for name in self._inferred
        )

    def with_parameters(self, values: FloatArray) -> Self:
        """Return the likelihood with the odds exp(values)."""
        odds = np.exp(np.clip(values, -_FARTHEST, _FARTHEST))
        rest = self._to_share / (1.0 + odds.sum())
        given = dict(zip(self._inferred, (rest * odds).tolist(), strict=True))
        return replace(self, **given)

    @property
    def _to_share(self) -> float:
        """One minus the probability that is known."""
        known = {"guess", "lapse"}.difference(self._inferred)
        return 1.0 - sum(getattr(self, name) for name in known)

    def log_shares(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log g or log l, for +1 and -1, and log(1 - g - l)."""
        with np.errstate(divide="ignore"):
            of_guess, of_lapse = np.log([self.guess, self.lapse])
        rest = np.log1p(-self.guess - self.lapse)
        return np.where(np.greater(y, 0.0), of_guess, of_lapse), np.full(np.shape(y), rest)

    def share_slopes(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return derivatives of log g or log l, and of log(1 - g - l), in the logs of the odds."""
        inferred = np.array(self._inferred, dtype=str)
        rates = np.array([getattr(self, name) / self._to_share for name in inferred])
        slopes = [(inferred == name) - rates * (name in inferred) for name in ("guess", "lapse")]
        column = (slice(None), *(None,) * np.ndim(y))
        of_constant = np.where(np.greater(y, 0.0), slopes[0][column], slopes[1][column])
        of_share = np.broadcast_to(-rates[column], of_constant.shape)
        return of_constant, of_share

    def latent_value(self, probability: FloatArray) -> FloatArray:
        """Return f of a probability of +1.0, which lies between g and 1 - l."""
        rest = 1.0 - self.guess - self.lapse
        f = self.part.latent_value((np.asarray(probability) - self.guess) / rest)
        # Farther out, double precision does not tell the probability from a positive limit.
        low = _NORMAL_PANEL_ENDS[0] if self.guess > 0.0 else -np.inf
        return np.clip(f, low, _NORMAL_PANEL_ENDS[-1] if self.lapse > 0.0 else np.inf)

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return the mean over both classes of the squared first derivative."""
        total = np.zeros(np.shape(f))
        for y in (np.asarray(-1.0), np.asarray(1.0)):
            total += np.exp(self.log_prob(y, f)) * self.derivatives(y, f).first ** 2
        return total

    def probability_moments(
        self, mean: FloatArray, var: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """See `Bernoulli`; both follow from those of Phi(f)."""
        rest = 1.0 - self.guess - self.lapse
        first, square = self.part.probability_moments(mean, var)
        cross = 2.0 * self.guess * rest * first
        return self.guess + rest * first, self.guess**2 + cross + rest**2 * square

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw +1.0 with probability g + (1 - g - l) Phi(f), else -1.0."""
        p = np.exp(self.log_prob(np.asarray(1.0), f))
        return np.where(rng.random(np.shape(f)) < p, 1.0, -1.0)

    def bend(self, y: FloatArray) -> Cuts:
        """Return cuts where Phi changes."""
        return Cuts(np.broadcast_to(_NORMAL_PANEL_ENDS, (len(y), len(_NORMAL_PANEL_ENDS))))
