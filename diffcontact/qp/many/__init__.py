"""Project onto the rows of thousands of bodies, by products with the rows alone, without factors."""
