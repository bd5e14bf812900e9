"""The experiments of the papers, made again."""
