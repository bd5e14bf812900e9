"""The scikit-learn skin: validation, chains, fitted attributes; no mathematics."""

from .classification import BayesianGPClassifier

__all__ = ["BayesianGPClassifier"]
