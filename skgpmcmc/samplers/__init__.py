"""Samplers: named combinations of transitions.

A sampler is a configuration object, which scikit-learn can clone and tune by a grid search. Its
method `set_up` prepares the chains of a model.
"""

from collections.abc import Mapping
from typing import Any

from ..approximations import APPROXIMATIONS
from ..approximations.base import Approximation
from ..approximations.exact import Exact
from ..hyperposterior.cheap import CHEAP_APPROXIMATIONS, CheapApproximation
from .base import Collapsed, Marginal, PseudoMarginal, Sampler
from .mapped import DiscretizingChain, MappedSampler, TemperedTransitions
from .within_gibbs import (
    Ancillary,
    Augmented,
    Interweaving,
    KnorrHeldRue,
    Sufficient,
    Surrogate,
    WithinGibbs,
)

__all__ = [
    "MAPPED",
    "SAMPLERS",
    "WITHIN_GIBBS",
    "Ancillary",
    "Augmented",
    "Collapsed",
    "DiscretizingChain",
    "Interweaving",
    "KnorrHeldRue",
    "MappedSampler",
    "Marginal",
    "PseudoMarginal",
    "Sampler",
    "Sufficient",
    "Surrogate",
    "TemperedTransitions",
    "WithinGibbs",
]

#: The samplers that have a name in the estimators.
SAMPLERS: dict[str, type[Sampler]] = {
    "pm": PseudoMarginal,
    "marginal": Marginal,
    "collapsed": Collapsed,
    "sa": Sufficient,
    "aa": Ancillary,
    "asis": Interweaving,
    "surr": Surrogate,
    "khr": KnorrHeldRue,
    "discretizing": DiscretizingChain,
    "tempered": TemperedTransitions,
}


def find_settings_in_use(
    sampler: Sampler,
    approximation: Approximation,
    n_importance: int | None,
    cheap: CheapApproximation | None = None,
) -> dict[str, str]:
    """Return the settings of a fit that have an effect, by the name of the parameter."""
    used = {"sampler": _name_of(sampler, SAMPLERS)}
    if cheap is not None:
        used["approximation"] = _name_of(cheap, CHEAP_APPROXIMATIONS)
    elif sampler.approximates:
        used["approximation"] = _name_of(approximation, APPROXIMATIONS)
    if sampler.estimates and not isinstance(approximation, Exact):
        used["n_importance"] = "auto" if n_importance is None else str(n_importance)
    return used


def _name_of(part: Any, known: Mapping[str, type]) -> str:
    """Return the name of a part in the estimators; a user's own part has the name of its class."""
    names = [name for name, kind in known.items() if type(part) is kind]
    return names[0] if names else type(part).__name__


#: Samplers with alternating moves of f and theta, for any likelihood with one latent function.
WITHIN_GIBBS = ("sa", "aa", "asis", "surr", "khr")
#: Samplers that propose theta from a cheap posterior, for any likelihood.
MAPPED = ("discretizing", "tempered")
