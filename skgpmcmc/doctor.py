"""Examination of a checkpoint: whether chains have converged, what is wrong, and what to try.

``python -m skgpmcmc doctor FILE`` prints the findings and saves plots. Code in the file is never
executed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from ._typing import FloatArray
from .chain.counts import ChainCounts, sum_counts
from .run.advice import convergence_message, draws_wanted
from .run.checkpoint import read_checkpoint
from .run.diagnostics import Diagnostics, count_fields, summary_fields
from .storage.archive import from_arrays

#: Share of a chain's draws that it may stay at one place.
_LONGEST_STAY = 0.1
#: Distance of a chain from the others, in standard deviations within chains, that is reported.
_ELSEWHERE = 1.0
#: Distance of the halves of a chain, in the same unit, that is reported.
_DRIFT = 0.7
#: Acceptance rate below which a move is said to fail.
_LOW_RATE = 0.05
#: Times that a move must have been made before its rate is reported.
_OFTEN = 30
#: Latent values that are looked at where there are no hyper-parameters.
_N_LATENT_SHOWN = 5
#: Bars of a histogram of ranks.
_N_BARS = 20


class StoredChains(NamedTuple):
    """The chains of one model in a file."""

    samples: FloatArray  # (n_chains, n_draws, p)
    names: list[str]
    counts: list[ChainCounts]  # of each chain
    n_inputs: int
    sampler: str = "pm"


def chains_in(content: Mapping[str, Any]) -> list[StoredChains]:
    """Return the chains of every model in the content of a checkpoint; none before the first draws.

    Without hyper-parameters a few latent values take their place.
    """
    shown = content["shown"]
    tapes = content["tapes"]
    n_chains = int(shown["n_chains"])
    chains = [[from_arrays(segment) for segment in tape["segments"]] for tape in tapes]
    found = []
    for m in range(0, len(chains), n_chains):
        own = chains[m : m + n_chains]
        if not all(own):
            continue
        samples = _stack(own, "theta")
        names = _labels(shown)
        if not names:
            f = _stack(own, "f")
            rows = np.unique(np.linspace(0, f.shape[2] - 1, _N_LATENT_SHOWN).astype(int))
            samples = f[:, :, rows]
            names = [f"f[{row}]" for row in rows]
        counts = [sum_counts(segment.counts for segment in chain) for chain in own]
        found.append(StoredChains(samples, names, counts, shown["n_inputs"], shown["sampler"]))
    return found


def _stack(chains: Sequence[Sequence[Any]], name: str) -> FloatArray:
    """Draws of chains, which were perhaps cut off at different ones; (n_chains, n_draws, k)."""
    whole = [np.concatenate([getattr(s, name) for s in chain]) for chain in chains]
    least = min(map(len, whole))
    return np.stack([chain[:least] for chain in whole])


def _labels(shown: Mapping[str, Any]) -> list[str]:
    pairs = zip(shown["names"], shown["positive"], strict=True)
    return [f"log {name}" if positive else str(name) for name, positive in pairs]


def diagnosis(chains: StoredChains) -> Diagnostics:
    """Return the table of diagnostics, as far as the file contains it."""
    return Diagnostics(
        names=chains.names,
        classes=None,
        **summary_fields([chains.samples]),
        **count_fields(chains.counts, ChainCounts(), chains.n_inputs),
        log_likelihood_sd=np.array([np.nan]),
        emulators=[],
        seconds_warmup=np.nan,
        seconds_sampling=np.nan,
    )


def findings(chains: StoredChains, max_rhat: float, target_ess: float | None) -> list[str]:
    """Describe what is wrong with some chains and what to try; empty if nothing is wrong.

    Parameters
    ----------
    chains : Chains
        Chains of one model.
    max_rhat : float
        Largest R-hat of chains that count as converged.
    target_ess : float or None
        Effective sample size that is required.
    """
    table = diagnosis(chains)
    message = convergence_message(table, max_rhat, target_ess)
    if message is None:
        return []
    found = [
        message,
        *_stuck(chains),
        *_elsewhere(chains),
        *_drifting(chains),
        *_rejecting_moves(chains),
    ]
    if len(found) == 1:
        wanted = draws_wanted(table, chains.samples.shape[1], max_rhat, target_ess)
        found.append(
            "No single chain stands out: they agree as far as they go, and need more draws. "
            f"{'Increase n_draws' if wanted is None else f'Set n_draws={wanted}'}; the file is "
            "continued."
        )
    return found


def _stuck(chains: StoredChains) -> list[str]:
    """Chains that stay at one place."""
    remedy = (
        "The estimate of the likelihood is too noisy there: increase n_importance."
        if "pm" in chains.sampler or "PseudoMarginal" in chains.sampler
        else 'Try sampler="pm".'
    )
    found = []
    for c, chain in enumerate(chains.samples):
        ends = np.flatnonzero(np.r_[(chain[1:] != chain[:-1]).any(axis=1), True])
        longest = int(np.diff(np.r_[-1, ends]).max())
        if longest > max(_LONGEST_STAY * len(chain), 10):
            found.append(
                f"Chain {c + 1} sticks: it does not move for {longest} of {len(chain)} draws. "
                + remedy
            )
    return found


def _elsewhere(chains: StoredChains) -> list[str]:
    """Chains that are not where the others are."""
    if len(chains.samples) < 2:
        return []
    means = chains.samples.mean(axis=1)
    sd = _within(chains.samples)
    found = []
    for c, mean in enumerate(means):
        others = np.median(np.delete(means, c, axis=0), axis=0)
        distance = np.abs(mean - others) / sd
        j = int(distance.argmax())
        if distance[j] > _ELSEWHERE:
            found.append(
                f"Chain {c + 1} is elsewhere in {chains.names[j]}: its mean is {mean[j]:.3g}, and "
                f"that of the others {others[j]:.3g}. Either it has not arrived (increase n_warmup "
                "and n_draws), or the posterior has several modes (give this hyper-parameter a "
                'prior that says more, or try sampler="tempered").'
            )
    return found


def _drifting(chains: StoredChains) -> list[str]:
    """Hyper-parameters whose chains are still under way."""
    half = chains.samples.shape[1] // 2
    if half < 2:
        return []
    first, second = (
        part.mean(axis=(0, 1)) for part in np.split(chains.samples[:, -2 * half :], 2, 1)
    )
    drift = np.abs(second - first) / _within(chains.samples)
    return [
        f"{chains.names[j]} drifts: its mean is {first[j]:.3g} in the first half of the draws and "
        f"{second[j]:.3g} in the second. Increase n_warmup, and n_draws."
        for j in np.flatnonzero(drift > _DRIFT)
    ]


def _within(samples: FloatArray) -> FloatArray:
    """Typical standard deviation within a chain; (p,), positive."""
    sd = np.median(samples.std(axis=1), axis=0)
    return np.asarray(np.maximum(sd, 1e-12 * (1.0 + np.abs(samples).max(axis=(0, 1)))))


def _rejecting_moves(chains: StoredChains) -> list[str]:
    """Moves that are often proposed and hardly ever accepted."""
    found = []
    for move in sum_counts(chains.counts).n_steps:
        often = [(c + 1, own) for c, own in enumerate(chains.counts) if own.n_steps[move] >= _OFTEN]
        low = [c for c, own in often if own.n_accepted[move] < _LOW_RATE * own.n_steps[move]]
        if low:
            found.append(
                f"The move {move!r} is accepted in fewer than {100 * _LOW_RATE:.0f} of 100 "
                f"iterations of chains {low}. Give features one scale (StandardScaler), increase "
                "n_importance, or try another sampler."
            )
    return found


def report(path: Path) -> str:
    """Return the report on a checkpoint.

    Raises
    ------
    ValueError
        If the file cannot be used.
    """
    content = read_checkpoint(path)
    shown = content["shown"]
    lines = [f"{path}: {shown['estimator']}, made with {content['versions']}"]
    every = chains_in(content)
    if not every:
        n = len(content["batches"])
        lines.append(f"There are no draws yet: {n} batches of the set-up are done. Fit again.")
    for m, chains in enumerate(every):
        n_chains, n_draws, _ = chains.samples.shape
        of = f"class {m + 1} of {len(every)}: " if len(every) > 1 else ""
        lines += [
            "",
            f"{of}{n_chains} chains of {n_draws} draws",
            *str(diagnosis(chains)).split("\n")[:-1],
        ]
        found = findings(chains, shown["max_rhat"], shown["target_ess"])
        lines += [f"* {one}" for one in found] or ["* Nothing is wrong: the chains have converged."]
    return "\n".join(lines)


def save_plots(path: Path, prefix: str) -> list[Path]:
    """Save plots of traces, ranks and autocorrelations as PNG files; returns their paths.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    from .displays._drawing import import_matplotlib
    from .displays.autocorrelation import AutocorrelationDisplay
    from .displays.traces import TraceDisplay

    plt, _ = import_matplotlib()
    saved = []
    every = chains_in(read_checkpoint(path))
    for m, chains in enumerate(every):
        own = f"{prefix}_{m + 1}" if len(every) > 1 else prefix
        figures = {
            "trace": TraceDisplay.from_samples(chains.samples, chains.names).figure_,
            "ranks": _ranks(plt, chains),
            "autocorrelation": AutocorrelationDisplay.from_samples(
                chains.samples, chains.names
            ).figure_,
        }
        for kind, figure in figures.items():
            saved.append(Path(f"{own}_{kind}.png"))
            figure.savefig(saved[-1], bbox_inches="tight")
            plt.close(figure)
    return saved


def _ranks(plt: Any, chains: StoredChains) -> Any:
    """Draw how often each chain has which ranks among all: alike where chains agree."""
    from .displays._drawing import axes_for

    n_chains, n_draws, _ = chains.samples.shape
    panels = axes_for(plt, None, len(chains.names))
    for j, (panel, name) in enumerate(zip(panels, chains.names, strict=True)):
        ranks = stats.rankdata(chains.samples[:, :, j]).reshape(n_chains, n_draws)
        edges = np.linspace(0.5, ranks.size + 0.5, _N_BARS + 1)
        for own in ranks:
            panel.stairs(np.histogram(own, edges)[0], edges)
        panel.axhline(n_draws / _N_BARS, linestyle="--", linewidth=0.8, color="gray")
        panel.set_ylabel(name)
    panels[-1].set_xlabel("Rank among the draws of all chains")
    return panels[0].figure
