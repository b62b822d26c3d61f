"""Intervals that do not trust the curvature: profile likelihood, bootstrap, posterior."""
