"""Public modules are attributes of the package, which imports them when they are used."""

import subprocess
import sys

import pytest

import skgpmcmc

ESTIMATORS = [
    "BayesianGPBinomialRegressor",
    "BayesianGPClassifier",
    "BayesianGPCountRegressor",
    "BayesianGPOrdinalClassifier",
    "BayesianGPPoissonRegressor",
    "BayesianGPRegressor",
    "BayesianGPVolatilityRegressor",
]
MODULES = [
    "approximations",
    "baselines",
    "displays",
    "kernels",
    "likelihoods",
    "metrics",
    "model_selection",
    "samplers",
    "testing",
]

IN_A_NEW_PROCESS = f"""
import sys
import skgpmcmc

names = {MODULES}
early = [name for name in names if f"skgpmcmc.{{name}}" in sys.modules]
print(*early, "pyplot" * ("matplotlib.pyplot" in sys.modules))
for name in names:
    assert getattr(skgpmcmc, name) is sys.modules[f"skgpmcmc.{{name}}"]
print(skgpmcmc.displays.TraceDisplay.__name__, skgpmcmc.baselines.EPMLClassifier.__name__)
"""


def test_public_modules_are_attributes_imported_on_demand():
    """Those that estimators need are there at once; displays, and with them plots, are not."""
    command = [sys.executable, "-c", IN_A_NEW_PROCESS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    early, used = done.stdout.splitlines()
    assert set(early.split()) <= {"approximations", "kernels", "likelihoods", "metrics", "samplers"}
    assert used == "TraceDisplay EPMLClassifier"


def test_dir_of_the_package_has_public_names_only():
    assert dir(skgpmcmc) == sorted([*ESTIMATORS, "__version__", *MODULES])
    assert [name for name in dir(skgpmcmc) if not hasattr(skgpmcmc, name)] == []


def test_package_has_no_other_attributes():
    with pytest.raises(AttributeError, match="module 'skgpmcmc' has no attribute 'nonsense'"):
        _ = skgpmcmc.nonsense
