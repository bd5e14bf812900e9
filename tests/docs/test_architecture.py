"""Imports run one way: from the skin down to the mathematics, never back."""

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "skgpmcmc"

# A room may import rooms on earlier lines.
ORDER = (
    ("_caches", "_typing", "_version", "_warnings"),
    ("_params", "_table_repr", "numerics", "parallel", "storage"),
    ("kernels",),
    ("likelihoods",),
    ("model",),
    ("approximations",),
    ("importance",),
    ("hyperposterior",),
    ("parameterizations",),
    ("transitions",),
    ("chain",),
    ("setup",),
    ("samplers",),
    ("run",),
    ("prediction",),
    ("metrics",),
    ("displays",),
    ("check_chains",),
    ("estimators",),
    ("baselines",),
    ("model_selection",),
    ("compare",),
    ("__init__",),
    ("__main__",),
    ("testing",),
)
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}

# scikit-learn belongs to the skin, and to the file that adapts its kernels.
MAY_IMPORT_SKLEARN = {
    "kernels",
    "model/categorical.py",
    "model/composite.py",
    "model/covariance.py",
    "model/default_priors.py",
    "model/fixed.py",
    "model/kernels.py",
    "model/linear.py",
    "model/parts.py",
    "model/periodic.py",
    "model/terms.py",
    "metrics",
    "displays",
    "estimators",
    "baselines",
    "compare",
}
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def tree_of(path):
    """Syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def sklearn_imports(path):
    """Modules of scikit-learn that a file imports, wherever that stands."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        else:
            names = []
        yield from (name for name in names if name.split(".")[0] == "sklearn")


#: The file of every module, by its path within the package.
MODULES = {
    path.relative_to(PACKAGE).with_suffix("").parts: path
    for path in FILES
    if path.name != "__init__.py"
} | {path.parent.relative_to(PACKAGE).parts: path for path in FILES if path.name == "__init__.py"}


@cache
def imported_files(path):
    """Files of the package that a file imports, wherever that stands: also for types only."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
            found.update(name[1:] for name in names if name[0] == "skgpmcmc")
        elif isinstance(node, ast.ImportFrom):
            module = tuple(node.module.split(".")) if node.module else ()
            if node.level:
                module = path.relative_to(PACKAGE).parts[: -node.level] + module
            elif module[0] == "skgpmcmc":
                module = module[1:]
            else:
                continue
            # A name is a module, or else something that the module before it has.
            inner = [(*module, alias.name) for alias in node.names]
            found.update(name if name in MODULES else module for name in inner)
    return {MODULES[module] for module in found}


def reachable_files(path, room):
    """Files of a room that a file leads to, one import after the other."""
    found = set()
    todo = [path]
    while todo:
        for other in imported_files(todo.pop()):
            if room_of(other) == room and other not in found:
                found.add(other)
                todo.append(other)
    return found


#: Public names of another room, which are looked up on demand.
FACADES = {("approximations/__init__.py", "hyperposterior")}


def test_imports_go_only_to_lower_subpackages():
    wrong = []
    for path in FILES:
        own = room_of(path)
        assert own in LEVEL, f"{own} has no place in ORDER yet"
        wrong += [
            f"{path.relative_to(PACKAGE)}: {own} must not import {room}"
            for room in {room_of(other) for other in imported_files(path)} - {own}
            if LEVEL[room] >= LEVEL[own] and (str(path.relative_to(PACKAGE)), room) not in FACADES
        ]
    assert wrong == []


def test_import_finder_sees_imports_of_every_kind():
    """The tests above would pass if none were."""
    within = PACKAGE / "prediction"
    assert within / "groups.py" in imported_files(within / "strategy.py")
    assert PACKAGE / "model" / "joint.py" in imported_files(within / "groups.py")
    assert within / "quantiles.py" in imported_files(within / "predictor.py")  # in a method
    model = PACKAGE / "model"
    assert model / "joint.py" in imported_files(model / "__init__.py")
    samplers = PACKAGE / "samplers" / "within_gibbs.py"
    assert PACKAGE / "parameterizations" / "__init__.py" in imported_files(samplers)


def test_no_file_imports_itself_through_files_of_its_subpackage():
    """No file leads back to itself, not even by imports for types only."""
    circles = [
        str(path.relative_to(PACKAGE))
        for path in FILES
        if path in reachable_files(path, room_of(path))
    ]
    assert circles == []


def test_no_file_imports_the_init_of_its_own_subpackage():
    """An `__init__` gathers the names of its files, which are to be imported from there."""
    wrong = []
    for path in FILES:
        own = [folder / "__init__.py" for folder in path.parents if folder != PACKAGE]
        wrong += [
            f"{path.relative_to(PACKAGE)} imports {other.relative_to(PACKAGE)}"
            for other in imported_files(path)
            if other in own and other != path
        ]
    assert wrong == []


def test_only_the_interface_and_kernel_adapter_import_scikit_learn():
    assert [
        (str(path.relative_to(PACKAGE)), module)
        for path in FILES
        if not {room_of(path), str(path.relative_to(PACKAGE))} & MAY_IMPORT_SKLEARN
        for module in sklearn_imports(path)
    ] == []


def attributes(*rooms):
    """(file, line) and node of every attribute that is looked up outside some rooms."""
    for path in FILES:
        if room_of(path) not in rooms:
            for node in ast.walk(tree_of(path)):
                if isinstance(node, ast.Attribute):
                    yield (str(path.relative_to(PACKAGE)), node.lineno), node


def test_only_model_and_numerics_read_K_and_its_factor():
    """A prior is what it does, so that one of low rank or with structure can take its place."""
    found = attributes("model", "numerics")
    assert [place for place, node in found if node.attr in ("K", "chol")] == []


def test_no_private_module_of_scikit_learn_is_imported():
    """Modules with a leading underscore are scikit-learn's own business."""
    found = [(path.name, module) for path in FILES for module in sklearn_imports(path)]
    assert [own for own in found if "._" in own[1]] == []


def test_only_the_module_of_warnings_calls_warnings_warn():
    """`warn` of `_warnings` finds the line of the user; `warnings.warn` needs a number of calls."""
    found = attributes("_warnings")
    assert [place for place, node in found if ast.unparse(node) == "warnings.warn"] == []
