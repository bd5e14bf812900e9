"""The emulated posterior: how it is learned, examined and frozen."""
