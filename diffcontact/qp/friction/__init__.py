"""Solve Coulomb's dry friction as one nonlinear complementarity problem over all contacts, differentiably."""
