"""The way from a start to the best estimate."""
