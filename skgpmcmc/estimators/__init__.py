"""The scikit-learn skin: validation, chains, fitted attributes; no mathematics."""
