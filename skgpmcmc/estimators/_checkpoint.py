"""Fits with a checkpoint file, and the description of a fit by which its file is recognized."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..model.joint import LatentGP
from ..model.names import element_names
from ..model.observations import Observations
from ..run.chains import sample_chains
from ..run.checkpoint import Checkpoint
from ..run.records import SamplingRun
from ._callbacks import CallbackMonitor
from ._warm_start import FREE_TO_CHANGE, is_frozen_distribution


def sample_with_file(
    estimator: Any,
    X: np.ndarray,
    observed: Sequence[Observations],
    models: Sequence[LatentGP],
    *parts: Any,
    seed: np.random.SeedSequence,
    monitor: CallbackMonitor,
    **settings: Any,
) -> SamplingRun:
    """Sample as `sample_chains` does, with the results that the estimator's file contains.

    Raises
    ------
    ValueError
        If the file cannot be used, or belongs to another fit.
    """
    path = Path(estimator.checkpoint)
    free_seed = estimator.random_state is None
    words = [int(word) for word in np.atleast_1d(seed.entropy)]
    names = element_names(models[0].hyperprior.names)
    shown = {
        "estimator": type(estimator).__name__,
        "sampler": str(estimator.sampler),
        "names": names,
        "n_inputs": len(models[0].covariance.X),
        "positive": [bool(positive) for positive in models[0].hyperprior.positive],
        "n_chains": estimator.n_chains,
        "max_rhat": estimator.max_rhat,
        "target_ess": estimator.target_ess,
    }
    params = estimator.get_params(deep=False).items()
    about = {
        "estimator": type(estimator).__name__,
        **{name: _to_text(value) for name, value in params if name not in FREE_TO_CHANGE},
        "X": _to_text([X, *(own.first for own in observed)]),
        "y": _to_text([own.y for own in observed]),
        "sample_weight (or how often a row occurs)": _to_text([own.weight for own in observed]),
        "exposure": _to_text([own.offset for own in observed]),
        "noise_variance": _to_text(getattr(observed[0].likelihood, "row_variance", None)),
        # With y it tells where the interval ends.
        "censored_to": _to_text([getattr(own.likelihood, "low", None) for own in observed]),
    }
    journal = Checkpoint(path, about, words, free_seed, shown)
    seed = np.random.SeedSequence(journal.seed, spawn_key=seed.spawn_key)
    monitor.is_replaying = lambda: journal.replays
    run = sample_chains(
        models,
        *parts,
        seed=seed,
        monitor=monitor,
        journal=journal,
        **settings,
    )
    if journal.replays:
        raise ValueError(
            f"checkpoint={str(path)!r} has more draws than n_draws={estimator.n_draws} and "
            f"target_ess={estimator.target_ess}, max_rhat={estimator.max_rhat} ask for: use the "
            "values of the fit that made it, or stricter ones, or choose another path."
        )
    return replace(run, seed=tuple(journal.seed) if free_seed else None)


def _to_text(value: Any) -> str:
    """Return text that is the same in every process for values that mean the same."""
    return json.dumps(_to_json_value(value), sort_keys=True)


def _to_json_value(value: Any) -> Any:
    """Return a description of a value that JSON can hold; arrays are described by their digest."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return [value.dtype.str, list(value.shape), digest]
    if isinstance(value, Mapping):
        return {str(name): _to_json_value(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json_value(part) for part in value]
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    if is_frozen_distribution(value):
        contents = [value.dist.name, value.args, value.kwds]
    elif hasattr(value, "get_params"):
        contents = value.get_params(deep=False)
    else:
        contents = vars(value) if hasattr(value, "__dict__") else repr(value)
    return {type(value).__qualname__: _to_json_value(contents)}
