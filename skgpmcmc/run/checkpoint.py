"""Checkpoint files, from which an interrupted run continues with the same draws.

A run is determined by its settings and by the results of its workers. The file contains the results
of all batches of work in their order. To continue, the same code runs again, but takes these
results from the file instead of computing them, as long as there are any.

Draws are stored by chain, with only the state after the last draw. So a run with rounds of other
lengths, such as one with more draws or a larger target, can use the file too.
"""

from __future__ import annotations

import copy
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from .._warnings import warn
from ..chain.counts import sum_counts
from ..chain.executor import TaskResult, perform
from ..chain.segment import Segment, join_segments, sample
from ..parallel.workers import Call
from ..storage.archive import Written, from_arrays, to_arrays
from ..storage.sealed import UnreadableError, read_sealed, write_sealed


@dataclass(eq=False)
class _Tape:
    """The draws of one chain, and how far they have been handed out."""

    segments: list[Segment] = field(default_factory=list)  # without states and streams
    end: Any = None  # state and stream after the last of them, as they are written
    position: int = 0  # draws that were handed out
    n_replayed: int = 0  # of these, those that were there before anybody asked
    stream: np.random.Generator | None = None  # what was handed out with them; tells chains apart

    @property
    def length(self) -> int:
        """Draws of the chain."""
        return sum(len(segment.theta) for segment in self.segments)

    @property
    def ahead(self) -> int:
        """Draws that nobody has asked for yet."""
        return self.length - self.position

    def take(self, n: int) -> list[Segment]:
        """Hand out the next n draws, or as many as there are; in parts, without their states.

        Counts go with the last draw of the segment that they are of.
        """
        found = []
        begin = 0
        stop = min(self.position + n, self.length)
        for segment in self.segments:
            end = begin + len(segment.theta)
            low = max(self.position, begin)
            high = min(stop, end)
            if low < high:
                rows = slice(low - begin, high - begin)
                theta = segment.theta[rows]
                f = segment.f[rows]
                marked = segment.marked[rows]
                counts = segment.counts if high == end else sum_counts([])
                found.append(segment._replace(theta=theta, f=f, counts=counts, marked=marked))
            begin = end
        self.position = stop
        return found


class Checkpoint:
    """The results of a run, stored in a file.

    Parameters
    ----------
    path : Path
        The file. If it exists, the run takes its results.
    about : mapping of str to str
        Settings and data that determine the run, by the names of the parameters; those in the file
        must be the same.
    seed : sequence of int
        Words of the seed.
    free_seed : bool
        Whether the seed of the file may be used, because the user has given none.
    shown : mapping of str to object
        Further information for readers of the file, in a form that JSON can hold.

    Raises
    ------
    ValueError
        If the file is damaged, belongs to another run, or cannot be written.
    """

    def __init__(
        self,
        path: Path,
        about: Mapping[str, str],
        seed: Sequence[int],
        free_seed: bool,
        shown: Mapping[str, Any],
    ) -> None:
        self.path = path
        self.seed = list(seed)
        self._about = dict(about)
        self._shown = dict(shown)
        #: Of set-up and burn-in: model and stage, and the results.
        self._batches: list[tuple[str, list[Written]]] = []
        self._tapes: list[_Tape] = []
        self._versions = _versions()
        self._next = 0  # batch to be handed out
        self._calls: list[Call] = []
        self._name = ""
        self._served: list[tuple[_Tape, list[Segment]]] = []
        self._warned = False
        if path.exists():
            self._take(read_checkpoint(path), free_seed)
        else:
            self._write(self._refuse)

    @property
    def replays(self) -> bool:
        """Whether the file still contains results that the run has not yet taken."""
        return self._next < len(self._batches) or any(tape.ahead > 0 for tape in self._tapes)

    @property
    def n_replayed(self) -> int:
        """Draws of a chain that the run has taken from the file."""
        return max((tape.n_replayed for tape in self._tapes), default=0)

    # --- the journal ------------------------------------------------------------------------------

    def missing(self, calls: list[Call], name: str) -> list[Call]:
        """Return those of a named batch of calls whose results are not in the file."""
        self._calls = calls
        self._name = name
        if self._next < len(self._batches):
            there, results = self._batches[self._next]
            self._check_replayed(there, len(results))
            return []
        if _is_round(calls):
            return self._missing_draws()
        return [(_call_and_write, (call, False), {}) for call in calls]

    def fill_in(self, done: list[Any]) -> list[Any]:
        """Store the results that were computed, and return those of all calls."""
        if _is_round(self._calls):
            results = self._fill_in_draws(done)
        else:
            is_new = self._next == len(self._batches)
            batch = (self._name, done) if is_new else self._batches[self._next]
            results = [
                _read(written, _unwritten_part(call))
                for written, call in zip(batch[1], self._calls, strict=True)
            ]
            if any(isinstance(result, TaskResult) and result.cut for result in results):
                return results  # of a run in a hurry, which nobody is to follow
            if is_new:
                self._batches.append(batch)
            self._next += 1
        if done:
            self._write(self._complain)
        return results

    def _check_replayed(self, there: str, n_there: int) -> None:
        """Refuse a file whose results are those of another batch of calls."""
        if (there, n_there) != (self._name, len(self._calls)):
            raise ValueError(
                f"checkpoint={str(self.path)!r} cannot be followed: its batch {self._next + 1} has "
                f"{n_there} results of {there!r}, and this fit needs {len(self._calls)} of "
                f"{self._name!r}. It was made with {self._versions}; here is {_versions()}. Delete "
                "the file, or choose another path."
            )

    def _missing_draws(self) -> list[Call]:
        if not self._tapes:
            self._tapes = [_Tape() for _ in self._calls]
        self._served = []
        calls: list[Call] = []
        for tape, (_, arguments, _) in zip(self._their_tapes(), self._calls, strict=True):
            model, transition, state, stream, n = arguments
            parts = tape.take(n)
            tape.n_replayed += sum(len(part.theta) for part in parts)
            self._served.append((tape, parts))
            left = n - sum(len(part.theta) for part in parts)
            if left and parts:  # the tape ends within this call
                state, stream = _read(tape.end, model)
            if left:
                own = (model, transition, state, stream, left)
                calls.append((_call_and_write, ((sample, own, {}), True), {}))
        return calls

    def _their_tapes(self) -> list[_Tape]:
        """Return the tape of each call: chains are known by their streams."""
        if all(tape.stream is None for tape in self._tapes):  # the first round of all chains
            if len(self._tapes) != len(self._calls):
                self._check_replayed(self._name, len(self._tapes))
            return self._tapes
        streams = [call[1][3] for call in self._calls]
        return [next(t for t in self._tapes if t.stream is stream) for stream in streams]

    def _fill_in_draws(self, done: list[Any]) -> list[Segment]:
        """Put what was computed on the tapes, and return the draws of each call."""
        new = iter(done)
        results = []
        for (tape, parts), call in zip(self._served, self._calls, strict=True):
            model, *_, n = call[1]
            if n > sum(len(part.theta) for part in parts):
                draws, tape.end = next(new)
                tape.segments.append(from_arrays(draws, model))
                parts = [*parts, *tape.take(n)]
            state = None
            stream = copy.deepcopy(call[1][3])
            if not tape.ahead:
                state, stream = _read(tape.end, model)
            tape.stream = stream
            results.append(join_segments(parts)._replace(state=state, rng=stream))
        return results

    # --- the file ---------------------------------------------------------------------------------

    def _take(self, content: Mapping[str, Any], free_seed: bool) -> None:
        """Go on from what a file has, if it is of this run."""
        if content["package"] != _package_version():
            raise ValueError(
                f"checkpoint={str(self.path)!r} was made with skgpmcmc {content['package']}, and "
                f"this is {_package_version()}: only the same version makes the same draws. Delete "
                "the file, choose another path, or install that version."
            )
        there = content["about"]
        changed = sorted(
            name
            for name in there.keys() | self._about.keys()
            if there.get(name) != self._about.get(name)
        )
        if not free_seed and content["seed"] != self.seed:
            changed.append("random_state")
        if changed:
            raise ValueError(
                f"checkpoint={str(self.path)!r} is the file of another fit: {', '.join(changed)} "
                f"differ{'s' * (len(changed) == 1)}. Delete the file, choose another path, or fit "
                "with what it was made with."
            )
        self.seed = list(content["seed"])
        self._versions = content["versions"]
        try:
            self._batches = [(name, list(results)) for name, results in content["batches"]]
            self._tapes = [
                _Tape([from_arrays(segment) for segment in tape["segments"]], tape["end"])
                for tape in content["tapes"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"checkpoint={str(self.path)!r} has invalid content ({error!r}). Delete the file, "
                "or choose another path."
            ) from error

    def _write(self, on_failure: Callable[[OSError], None]) -> None:
        content = {
            "package": _package_version(),
            "about": self._about,
            "shown": self._shown,
            "seed": self.seed,
            "versions": self._versions,
            "batches": self._batches,
            "tapes": [
                {"segments": [to_arrays(s) for s in tape.segments], "end": tape.end}
                for tape in self._tapes
            ],
        }
        try:
            write_sealed(self.path, content)
        except OSError as error:
            on_failure(error)

    def _refuse(self, error: OSError) -> None:
        raise ValueError(
            f"checkpoint={str(self.path)!r} cannot be written ({error}). Choose a path in a folder "
            "that is there, and writable."
        ) from error

    def _complain(self, error: OSError) -> None:
        if not self._warned:
            warn(
                f"checkpoint={str(self.path)!r} cannot be written ({error}): the fit goes on, and "
                "the file stays as it was. Make room, and later rounds are written again."
            )
        self._warned = True


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read the content of a checkpoint, and refuse one that is damaged.

    Raises
    ------
    ValueError
        If the file cannot be used; the message says why, and what to do.
    """
    try:
        content = read_sealed(path)
        missing = _PARTS - content.keys()
        if missing:
            raise UnreadableError(f"it has no {sorted(missing)}")
    except (UnreadableError, OSError) as error:
        raise ValueError(
            f"checkpoint={str(path)!r} cannot be used: {error}. Delete the file, or choose another "
            "path."
        ) from error
    return content


_PARTS = {"package", "about", "shown", "seed", "versions", "batches", "tapes"}


def _package_version() -> str:
    return str(sys.modules[__name__.partition(".")[0]].__version__)


def _versions() -> str:
    return f"Python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}"


def _is_round(calls: Sequence[Call]) -> bool:
    """Whether some calls sample draws that are kept."""
    return any(function is sample for function, *_ in calls)


def _unwritten_part(call: Call) -> Any:
    """Return the part of a call that its result is not written with: the model."""
    function, arguments, _ = call
    return arguments[1][0] if function is perform else arguments[0]


def _read(written: Written, given: Any) -> Any:
    """Return what was written, with arrays of its own, which who reads it may change."""
    return from_arrays(copy.deepcopy(written), given)


def _call_and_write(call: Call, draws: bool) -> Any:
    """Make a call where the worker is, and write its result there: only it has the same parts.

    Of draws the state and the stream at the end are apart.
    """
    function, arguments, _ = call
    result = function(*arguments)
    if draws:
        end = result.state, result.rng
        return to_arrays(result._replace(state=None, rng=None)), to_arrays(end, arguments[0])
    return to_arrays(result, _unwritten_part(call))
