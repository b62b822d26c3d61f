"""Contact with Coulomb's dry friction: one nonlinear complementarity problem over all contacts, differentiable."""
