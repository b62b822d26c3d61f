"""The rows of a projection: dense or between bodies, measured in the metric of the mass."""
