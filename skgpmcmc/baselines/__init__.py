"""Classifiers that the Bayesian estimators are compared with."""

from .epml import EPMLClassifier
from .svm import PlattSVC, svm_platt_classifier

__all__ = ["EPMLClassifier", "PlattSVC", "svm_platt_classifier"]
