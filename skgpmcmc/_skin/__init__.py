"""What estimators and baselines share in their dealings with scikit-learn and its users."""
