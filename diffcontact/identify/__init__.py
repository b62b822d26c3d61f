"""Parameters with error bars from observed motion."""

from diffcontact.identify.fit import fit
from diffcontact.identify.observations import Observations, Problem
from diffcontact.identify.parameters import Interval, Positive, Real
from diffcontact.identify.result import FitResult

__all__ = ["FitResult", "Interval", "Observations", "Positive", "Problem", "Real", "fit"]
