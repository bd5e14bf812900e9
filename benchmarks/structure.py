"""How heavy the package is to read: files and depth of a fit, lines of code, longest functions.

``python -m benchmarks.structure`` prints the figures; ``--output FILE`` keeps them as JSON, and
``--package DIR`` measures the package in another working tree, so that two versions are measured by
the same script. Files are those in which a function runs, ``__init__`` apart; rooms are the
packages and the modules beside them; depth counts the frames of this package on the stack, an
estimator's own method being the first. Code lines are those with something on them that is neither
a comment nor part of a docstring; a function's body begins after its signature and docstring.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import io
import json
import sys
import tokenize
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from sklearn.datasets import make_moons

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


class _Watch:
    """What a call runs through: files, and the deepest stack of the package's own frames."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.files: set[str] = set()
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
        if not name.endswith("__init__.py"):
            self.files.add(name[len(self.root) + 1 :])
        if len(self._stack) > len(self.deepest):
            self.deepest = list(self._stack)


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
    return {
        "files": len(sources),
        "lines": sum(lines.values()),
        "code_lines": sum(code.values()),
        "longest_files": dict(sorted(lines.items(), key=lambda item: -item[1])[:10]),
        "longest_functions": {name: n for n, name in lengths[:10]},
        "function_median": float(np.median([n for n, _ in lengths])),
        "function_90th_percentile": float(np.quantile([n for n, _ in lengths], 0.9)),
        **_of_a_fit(root),
    }


def _of_a_fit(root: Path) -> dict[str, Any]:
    """Run a binary classifier as it is by default, in one process."""
    X, y = make_moons(60, noise=0.3, random_state=0)
    model = importlib.import_module(root.name).BayesianGPClassifier(n_draws=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = watched(root, lambda: model.fit(X, y))
        predict = watched(root, lambda: model.predict_proba(X))
    return {"fit": fit, "predict_proba": predict}


def _print(result: dict[str, Any]) -> None:
    for name in ("files", "lines", "code_lines", "function_median", "function_90th_percentile"):
        print(f"{name.replace('_', ' '):26s} {result[name]:g}")
    for name in ("longest_files", "longest_functions"):
        print(name.replace("_", " "))
        for where, n in result[name].items():
            print(f"{n:8d}  {where}")
    for name in ("fit", "predict_proba"):
        call = result[name]
        print(f"{name}: {call['files']} files, {call['rooms']} rooms, {call['depth']} deep")


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
