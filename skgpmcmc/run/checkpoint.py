"""Checkpoint files, from which an interrupted run continues with the same draws.

A run is determined by its settings and by the results of its workers. The file contains the results
of all batches of work in their order. To continue a run, the same code runs again, but takes the
results from the file instead of computing them, until the file has no more.

Draws are stored by chain, with the state after the last draw and no other. So a run with rounds of
other lengths, such as one with more draws or a larger target, can use the file too.
"""

from __future__ import annotations

import copy
import platform
import sys
from collections.abc import Mapping, Sequence
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
from ..storage.archive import StoredRecord, from_arrays, to_arrays
from ..storage.sealed import UnreadableError, read_sealed, write_sealed


@dataclass(eq=False)
class _Tape:
    """The recorded draws of one chain, which a run reads in their order."""

    segments: list[Segment] = field(default_factory=list)  # without states and streams
    end: Any = None  # the state and the stream after the last draw, in written form
    position: int = 0  # draws that the run has read
    n_replayed: int = 0  # draws that the run has read and not computed
    # The stream last returned, which identifies the chain.
    stream: np.random.Generator | None = None

    @property
    def length(self) -> int:
        """Number of recorded draws."""
        return sum(len(segment.theta) for segment in self.segments)

    @property
    def n_unread(self) -> int:
        """Number of recorded draws that the run has not read."""
        return self.length - self.position

    def read(self, n: int) -> list[Segment]:
        """Read the next n draws, or as many as there are, as segments without states.

        The counts of a recorded segment are returned with its last draw.
        """
        parts = []
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
                parts.append(segment._replace(theta=theta, f=f, counts=counts, marked=marked))
            begin = end
        self.position = stop
        return parts


class Checkpoint:
    """The results of a run, stored in a file.

    Parameters
    ----------
    path : Path
        The file. If it exists, the run takes its results from there.
    about : mapping of str to str
        Settings and data that determine the run, by the names of the parameters. They must equal
        those in the file.
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
        #: Each batch of set-ups and burn-in: its model and stage, and its results.
        self._batches: list[tuple[str, list[StoredRecord]]] = []
        self._tapes: list[_Tape] = []
        self._versions = _describe_versions()
        self._next = 0  # position of the batch that the run needs next
        # The batch in progress: its calls, its name, and the draws of each call that are recorded.
        self._calls: list[Call] = []
        self._name = ""
        self._parts_read: list[tuple[_Tape, list[Segment]]] = []
        self._has_warned = False
        if path.exists():
            self._restore(read_checkpoint(path), free_seed)
        else:
            try:
                self._write()
            except OSError as error:
                raise ValueError(
                    f"checkpoint={str(path)!r} cannot be written ({error}). Choose a path in a "
                    "folder that is there, and writable."
                ) from error

    @property
    def replays(self) -> bool:
        """Whether the file still contains results that the run has not yet taken."""
        return self._next < len(self._batches) or any(tape.n_unread > 0 for tape in self._tapes)

    @property
    def n_replayed(self) -> int:
        """Draws of a chain that the run has taken from the file."""
        return max((tape.n_replayed for tape in self._tapes), default=0)

    # --- the journal ------------------------------------------------------------------------------

    def find_missing(self, calls: list[Call], name: str) -> list[Call]:
        """Return calls that make the results of a named batch that are not in the file."""
        self._calls = calls
        self._name = name
        if self._next < len(self._batches):
            name_in_file, results = self._batches[self._next]
            self._check_replayed(name_in_file, len(results))
            return []
        if _is_round(calls):
            return self._calls_for_missing_draws()
        return [(_call_and_write, (call, False), {}) for call in calls]

    def fill_in(self, done: list[Any]) -> list[Any]:
        """Store the results that were computed, and return those of all calls."""
        if _is_round(self._calls):
            results = self._fill_in_draws(done)
        else:
            is_new = self._next == len(self._batches)
            batch = (self._name, done) if is_new else self._batches[self._next]
            results = [
                _read_result(written, _unwritten_part(call))
                for written, call in zip(batch[1], self._calls, strict=True)
            ]
            if any(isinstance(result, TaskResult) and result.cut for result in results):
                return results  # not stored: another run would not be cut short at the same place
            if is_new:
                self._batches.append(batch)
            self._next += 1
        if done:
            try:
                self._write()
            except OSError as error:
                if not self._has_warned:
                    warn(
                        f"checkpoint={str(self.path)!r} cannot be written ({error}): the fit goes "
                        "on, and the file stays as it was. Make room, and later rounds are written "
                        "again."
                    )
                self._has_warned = True
        return results

    def _check_replayed(self, name_in_file: str, n_in_file: int) -> None:
        """Refuse a file whose next results belong to another batch of calls."""
        if (name_in_file, n_in_file) != (self._name, len(self._calls)):
            raise ValueError(
                f"checkpoint={str(self.path)!r} cannot be followed: its batch {self._next + 1} has "
                f"{n_in_file} results of {name_in_file!r}, and this fit needs "
                f"{len(self._calls)} of {self._name!r}. It was made with {self._versions}; here is "
                f"{_describe_versions()}. Delete the file, or choose another path."
            )

    def _calls_for_missing_draws(self) -> list[Call]:
        """Read the draws of each call that are recorded, and return calls that make the rest."""
        if not self._tapes:
            self._tapes = [_Tape() for _ in self._calls]
        tapes = self._tapes
        if any(tape.stream is not None for tape in tapes):  # not the first round of all chains
            streams = [call[1][3] for call in self._calls]
            tapes = [next(t for t in tapes if t.stream is stream) for stream in streams]
        elif len(tapes) != len(self._calls):
            self._check_replayed(self._name, len(tapes))
        self._parts_read = []
        calls: list[Call] = []
        for tape, (_, arguments, _) in zip(tapes, self._calls, strict=True):
            model, transition, state, stream, n = arguments
            parts = tape.read(n)
            tape.n_replayed += sum(len(part.theta) for part in parts)
            self._parts_read.append((tape, parts))
            left = n - sum(len(part.theta) for part in parts)
            if left and parts:  # the tape ends within this call
                state, stream = _read_result(tape.end, model)
            if left:
                own = (model, transition, state, stream, left)
                calls.append((_call_and_write, ((sample, own, {}), True), {}))
        return calls

    def _fill_in_draws(self, done: list[Any]) -> list[Segment]:
        """Append the computed draws to the tapes, and return the draws of each call."""
        new = iter(done)
        results = []
        for (tape, parts), call in zip(self._parts_read, self._calls, strict=True):
            model, *_, n = call[1]
            if n > sum(len(part.theta) for part in parts):
                draws, tape.end = next(new)
                tape.segments.append(from_arrays(draws, model))
                parts = [*parts, *tape.read(n)]
            state = None
            stream = copy.deepcopy(call[1][3])
            if not tape.n_unread:
                state, stream = _read_result(tape.end, model)
            tape.stream = stream
            results.append(join_segments(parts)._replace(state=state, rng=stream))
        return results

    # --- the file ---------------------------------------------------------------------------------

    def _restore(self, content: Mapping[str, Any], free_seed: bool) -> None:
        """Take over the content of a file, or refuse a file of another run."""
        if content["package"] != _package_version():
            raise ValueError(
                f"checkpoint={str(self.path)!r} was made with skgpmcmc {content['package']}, and "
                f"this is {_package_version()}: only the same version makes the same draws. Delete "
                "the file, choose another path, or install that version."
            )
        about = content["about"]
        changed = sorted(
            name
            for name in about.keys() | self._about.keys()
            if about.get(name) != self._about.get(name)
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

    def _write(self) -> None:
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
        write_sealed(self.path, content)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read the content of a checkpoint, and refuse one that is damaged.

    Raises
    ------
    ValueError
        If the file cannot be used; the message says why, and what to do.
    """
    try:
        content = read_sealed(path)
        missing = _CONTENT_KEYS - content.keys()
        if missing:
            raise UnreadableError(f"it has no {sorted(missing)}")
    except (UnreadableError, OSError) as error:
        raise ValueError(
            f"checkpoint={str(path)!r} cannot be used: {error}. Delete the file, or choose another "
            "path."
        ) from error
    return content


#: Entries of a checkpoint file.
_CONTENT_KEYS = {"package", "about", "shown", "seed", "versions", "batches", "tapes"}


def _package_version() -> str:
    return str(sys.modules[__name__.partition(".")[0]].__version__)


def _describe_versions() -> str:
    return f"Python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}"


def _is_round(calls: Sequence[Call]) -> bool:
    """Whether some calls make draws that are kept."""
    return any(function is sample for function, *_ in calls)


def _unwritten_part(call: Call) -> Any:
    """Return the model of a call, which its written result refers to and does not contain."""
    function, arguments, _ = call
    return arguments[1][0] if function is perform else arguments[0]


def _read_result(written: StoredRecord, given: Any) -> Any:
    """Return a result whose arrays are copies, so that its user may change them."""
    return from_arrays(copy.deepcopy(written), given)


def _call_and_write(call: Call, draws: bool) -> Any:
    """Make a call in a worker, and return the result in written form.

    The worker writes, because its result refers to parts of its own copy of the model. Of `draws`
    the state and the stream at their end are written separately.
    """
    function, arguments, _ = call
    result = function(*arguments)
    if draws:
        end = result.state, result.rng
        return to_arrays(result._replace(state=None, rng=None)), to_arrays(end, arguments[0])
    return to_arrays(result, _unwritten_part(call))
