"""Parameters with error bars from observed motion."""

from diffcontact.identify.assessment import Identifiability
from diffcontact.identify.comparison import Comparison, compare
from diffcontact.identify.fit import check, fit
from diffcontact.identify.observations import Observations, Problem
from diffcontact.identify.parameters import Interval, Positive, Real, symmetric
from diffcontact.identify.priors import Normal
from diffcontact.identify.result import FitResult

__all__ = [
    "Comparison",
    "FitResult",
    "Identifiability",
    "Interval",
    "Normal",
    "Observations",
    "Positive",
    "Problem",
    "Real",
    "check",
    "compare",
    "fit",
    "symmetric",
]
