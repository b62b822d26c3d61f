"""Projections onto the rows of thousands of bodies, which only multiply by the rows and factor nothing."""
