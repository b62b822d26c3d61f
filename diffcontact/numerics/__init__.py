"""Compile, keep programs, solve small systems in batches, and choose precision and batch sizes: no mechanics."""
