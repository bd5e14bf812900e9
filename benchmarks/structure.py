"""How heavy the package is to read: files and depth of a fit, lines of code, longest functions.

``python -m benchmarks.structure`` prints the figures; ``--output FILE`` keeps them as JSON, and
``--package DIR`` measures the package in another working tree, so that two versions are measured by
the same script. Files are those in which a function runs, ``__init__`` apart; rooms are the
packages and the modules beside them; depth counts the frames of this package on the stack, an
estimator's own method being the first. Code lines are those with something on them that is neither
a comment nor part of a docstring; a function's body begins after its signature and docstring.

The set-up of the default sampler is counted by itself, in the files `SET_UP`. A *tuned number* is a
numeric literal other than 0 in a constant (a name in capitals) of a module or of a class there, and
in a field of a class whose name ends in "Options"; in methods of such a class those other than 1,
too. Numbers within other functions do not count, nor do defaults of other records. A *branch on p*
is a comparison of the number of hyper-parameters (`dim`, `p`, or a length of theta), and every use
of a name that such a comparison has defined (a variable, a property or a function), in its place.
*Generators* are functions of the rooms ``chain`` and ``setup`` that yield. *Record types* are the
classes with fields, of the rooms `ROOMS`, of which a default fit makes objects.

*Functions* of a call are those with a name that run in it; its *generators* are those of them that
yield, but for context managers. The names of all classes and module constants are counted too, and
those that several files define are listed: each of them has two meanings, or is a copy.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import io
import json
import sys
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from sklearn.datasets import make_moons

#: Rooms whose code lines are counted together, and whose records are counted.
ROOMS = (
    "chain",
    "setup",
    "transitions",
    "hyperposterior",
    "importance",
    "approximations",
    "run",
)
#: Files of the set-up of the default sampler, as patterns.
SET_UP = (
    "setup/emulated.py",
    "setup/estimates.py",
    "setup/proposals.py",
    "setup/hamiltonian.py",
    "setup/emulator/*.py",
    "transitions/rotation.py",
    "transitions/surrogate.py",
    "transitions/pseudo_marginal.py",
    "importance/gaussian.py",
)
#: What has as many entries as there are hyper-parameters.
_AS_LONG_AS_THETA = {"root", "start", "theta", "scale"}

_BLANK = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> set[int]:
    """Numbers of the lines that hold code: no docstrings, comments or blanks."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _BLANK:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        lines.difference_update(_docstring_lines(node))
    return lines


def _docstring_lines(node: ast.AST) -> range:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return range(0)
    if ast.get_docstring(node, clean=False) is None:
        return range(0)
    first = node.body[0]
    return range(first.lineno, (first.end_lineno or first.lineno) + 1)


def body_lengths(source: str) -> Iterator[tuple[int, str]]:
    """Code lines and name of every function's body, signature and docstring apart."""
    code = code_lines(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
            yield len(code.intersection(lines)), node.name


def tuned_numbers(source: str) -> list[str]:
    """Name and value of every tuned number of a file."""
    tree = ast.parse(source)
    found = []
    for scope in ast.walk(tree):
        if not isinstance(scope, ast.Module | ast.ClassDef):
            continue
        is_options = isinstance(scope, ast.ClassDef) and scope.name.endswith("Options")
        for node in scope.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
                if is_options or all(name.strip("_").isupper() for name in names):
                    numbers = _numbers(node.value, but={0})
                    found += [f"{', '.join(names)}: {number}" for number in numbers]
            elif is_options and isinstance(node, ast.FunctionDef):
                found += [f"{node.name}: {number}" for number in _numbers(node, but={0, 1})]
    return found


def _numbers(tree: ast.AST, but: set[int]) -> list[float]:
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
        and node.value not in but
    ]


def branches_on_size(sources: dict[str, str]) -> list[str]:
    """Place of every branch on the number of hyper-parameters in some files."""
    trees = {name: ast.parse(source) for name, source in sources.items()}
    flags: set[str] = set()
    definitions: set[int] = set()  # ids of nodes in the values of such names
    for node in (node for tree in trees.values() for node in ast.walk(tree)):
        values = []
        if isinstance(node, ast.Assign) and _is_comparison(node.value):
            flags.update(t.id for t in node.targets if isinstance(t, ast.Name))
            values = [node.value]
        elif isinstance(node, ast.FunctionDef):
            returned = [part.value for part in ast.walk(node) if isinstance(part, ast.Return)]
            values = [value for value in returned if _is_comparison(value)]
            flags.update([node.name] if values else [])
        definitions.update(id(part) for value in values for part in ast.walk(value))
    found = [
        (name, node.lineno)
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if id(node) not in definitions
        and (
            (isinstance(node, ast.Compare) and any(map(_is_size, ast.walk(node))))
            or (
                isinstance(node, ast.Name | ast.Attribute)
                and isinstance(node.ctx, ast.Load)
                and _name(node) in flags
            )
        )
    ]
    return [f"{name}:{line}" for name, line in sorted(found)]


def _name(node: ast.AST) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def _is_size(node: ast.AST) -> bool:
    """Whether an expression is the number of hyper-parameters."""
    if isinstance(node, ast.Call) and _name(node.func) == "len" and node.args:
        (of,) = node.args
        first = isinstance(of, ast.Subscript) and _name(of.value) == "starts"
        return first or _name(of) in _AS_LONG_AS_THETA
    return _name(node) in ("dim", "p")


def _is_comparison(value: ast.AST | None) -> bool:
    """Whether a value is a comparison of that number, or made of some."""
    if isinstance(value, ast.BoolOp):
        return any(_is_comparison(part) for part in value.values)
    return isinstance(value, ast.Compare) and any(map(_is_size, ast.walk(value)))


def generators(source: str) -> list[str]:
    """Names of the functions of a file that yield, but for context managers."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
        and not any("contextmanager" in ast.unparse(d) for d in node.decorator_list)
        and _yields(node)
    ]


def _yields(function: ast.FunctionDef) -> bool:
    """Whether a function yields itself, rather than one within it."""
    parts: list[ast.AST] = list(function.body)
    while parts:
        part = parts.pop()
        if isinstance(part, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(part, ast.FunctionDef | ast.Lambda | ast.GeneratorExp):
            parts += ast.iter_child_nodes(part)
    return False


class _Watch:
    """What a call runs through: files, and the deepest stack of the package's own frames."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.files: set[str] = set()
        self.functions: set[str] = set()
        self.generators: set[str] = set()
        self.deepest: list[str] = []
        self._stack: list[str] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Profile a call or a return, see `sys.setprofile`."""
        name = frame.f_code.co_filename
        if event not in ("call", "return") or not name.startswith(self.root):
            return
        where = f"{name[len(self.root) + 1 :]}:{frame.f_code.co_qualname}"
        if event == "return":
            if self._stack and self._stack[-1] == where:
                self._stack.pop()
            return
        self._stack.append(where)
        if not where.endswith(">"):  # no comprehension, generator expression or lambda
            self.functions.add(where)
            if frame.f_code.co_flags & inspect.CO_GENERATOR and not _manages(frame):
                self.generators.add(where)
        if not name.endswith("__init__.py"):
            self.files.add(name[len(self.root) + 1 :])
        if len(self._stack) > len(self.deepest):
            self.deepest = list(self._stack)


def _manages(frame: FrameType) -> bool:
    """Whether a generator is the body of a context manager."""
    return frame.f_back is not None and frame.f_back.f_code.co_filename.endswith("contextlib.py")


def watched(root: Path, function: Callable[[], object]) -> dict[str, Any]:
    """Files, rooms and depth of a call."""
    watch = _Watch(root)
    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(None)
    rooms = {str(Path(file).parent) if "/" in file else file for file in watch.files}
    return {
        "files": len(watch.files),
        "rooms": len(rooms),
        "functions": len(watch.functions),
        "generators": sorted(watch.generators),
        "depth": len(watch.deepest),
        "names": sorted(watch.files),
        "deepest": watch.deepest,
    }


def measure(root: Path) -> dict[str, Any]:
    """All figures of the package in a directory, which must be the one that is imported."""
    sources = {str(p.relative_to(root)): p.read_text("utf-8") for p in sorted(root.rglob("*.py"))}
    code = {name: len(code_lines(source)) for name, source in sources.items()}
    lengths = sorted(
        (
            (n, f"{name}:{function}")
            for name, source in sources.items()
            for n, function in body_lengths(source)
        ),
        reverse=True,
    )
    lines = {name: source.count("\n") for name, source in sources.items()}
    in_rooms = {room: sum(code[name] for name in code if _room(name) == room) for room in ROOMS}
    return {
        "files": len(sources),
        "lines": sum(lines.values()),
        "code_lines": sum(code.values()),
        "longest_files": dict(sorted(lines.items(), key=lambda item: -item[1])[:10]),
        "longest_functions": {name: n for n, name in lengths[:10]},
        "function_median": float(np.median([n for n, _ in lengths])),
        "function_90th_percentile": float(np.quantile([n for n, _ in lengths], 0.9)),
        "rooms": in_rooms,
        "set_up": _of_the_set_up(sources),
        "names": _of_names(sources),
        **_of_a_fit(root),
    }


def _room(name: str) -> str:
    return name.partition("/")[0]


def names_of(source: str) -> list[str]:
    """Names of the classes and of the constants of a module."""
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in ast.walk(target)]
            names = [part for part in parts if isinstance(part, ast.Name)]
            found += [name.id for name in names if isinstance(name.ctx, ast.Store)]
    return [name for name in found if name != "__all__" and not name.startswith("__")]


def _of_names(sources: dict[str, str]) -> dict[str, Any]:
    """Number of the names of classes and constants, and those that several files define."""
    places: dict[str, list[str]] = {}
    for file, source in sources.items():
        for name in names_of(source):
            places.setdefault(name, []).append(file)
    several = {name: files for name, files in sorted(places.items()) if len(set(files)) > 1}
    return {"number": len(places), "in_several_files": several}


def _of_the_set_up(sources: dict[str, str]) -> dict[str, Any]:
    """Counts of what the set-up of the default sampler is made of; see the top."""
    files = {n: s for n, s in sources.items() if any(Path(n).match(own) for own in SET_UP)}
    warmup = {n: s for n, s in sources.items() if _room(n) in ("chain", "setup")}
    return {
        "tuned_numbers": [f"{n}: {own}" for n, s in files.items() for own in tuned_numbers(s)],
        "branches_on_size": branches_on_size(files),
        "generators": [f"{n}: {own}" for n, s in warmup.items() for own in generators(s)],
    }


def _of_a_fit(root: Path) -> dict[str, Any]:
    """Run a binary classifier as it is by default, in one process."""
    X, y = make_moons(60, noise=0.3, random_state=0)
    model = importlib.import_module(root.name).BayesianGPClassifier(n_draws=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = watched(root, lambda: model.fit(X, y))
        predict = watched(root, lambda: model.predict_proba(X))
        with _records_made(root.name) as records:
            model.fit(X, y)
    return {"fit": fit, "predict_proba": predict, "record_types": sorted(records)}


@contextmanager
def _records_made(package: str) -> Iterator[set[str]]:
    """Names of the classes with fields of which objects are made meanwhile.

    Yields
    ------
    set of str
        Grows.
    """
    made: set[str] = set()
    with ExitStack() as stack:
        for module in [m for n, m in sys.modules.items() if n.startswith(f"{package}.")]:
            for kind in [k for k in vars(module).values() if isinstance(k, type)]:
                if kind.__module__ == module.__name__ and _is_record(kind):
                    how = "__new__" if issubclass(kind, tuple) else "__init__"
                    if how in vars(kind):
                        stack.enter_context(_noticed(kind, how, made))
        yield made


def _is_record(kind: type) -> bool:
    room = kind.__module__.split(".")[1]
    return room in ROOMS and (hasattr(kind, "_fields") or is_dataclass(kind))


@contextmanager
def _noticed(kind: type, how: str, made: set[str]) -> Iterator[None]:
    """Note the class of each object that is made by a method."""
    before = vars(kind)[how]
    method = getattr(kind, how)

    def noticing(first: Any, *args: Any, **kwargs: Any) -> Any:
        own = first if isinstance(first, type) else type(first)
        made.add(f"{own.__module__}.{own.__qualname__}")
        return method(first, *args, **kwargs)

    setattr(kind, how, noticing)
    try:
        yield
    finally:
        setattr(kind, how, before)


def _print(result: dict[str, Any]) -> None:
    for name in ("files", "lines", "code_lines", "function_median", "function_90th_percentile"):
        print(f"{name.replace('_', ' '):26s} {result[name]:g}")
    for name in ("longest_files", "longest_functions"):
        print(name.replace("_", " "))
        for where, n in result[name].items():
            print(f"{n:8d}  {where}")
    print("code lines:", ", ".join(f"{room} {n}" for room, n in result["rooms"].items()), end=", ")
    print(f"together {sum(result['rooms'].values())}")
    for name, found in result["set_up"].items():
        print(f"set-up, {name.replace('_', ' ')}: {len(found)}")
    kinds = Counter(kind.split(".")[1] for kind in result["record_types"])
    by_room = ", ".join(f"{room} {kinds[room]}" for room in ROOMS)
    print(f"record types of a default fit: {by_room}, together {kinds.total()}")
    for name in ("fit", "predict_proba"):
        call = result[name]
        print(
            f"{name}: {call['files']} files, {call['rooms']} rooms, {call['functions']} functions, "
            f"{len(call['generators'])} generators, {call['depth']} deep"
        )
    print(f"names of classes and constants: {result['names']['number']}")
    for own, where in result["names"]["in_several_files"].items():
        print(f"  {own}: {', '.join(where)}")


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--package", type=Path, default=Path(__file__).parents[1] / "skgpmcmc")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    root = args.package.resolve()
    sys.path.insert(0, str(root.parent))
    result = measure(root)
    _print(result)
    if args.output:
        args.output.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
