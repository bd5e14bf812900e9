"""Parallel work: threads of BLAS, and pools of workers."""
