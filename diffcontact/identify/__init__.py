"""Parameters with error bars from observed motion."""

from diffcontact.identify.comparison import Comparison, compare
from diffcontact.identify.fit import check, fit
from diffcontact.identify.identifiability.assessment import Identifiability
from diffcontact.identify.intervals.bootstrap import Bootstrap, bootstrap, fit_replicas
from diffcontact.identify.intervals.posterior import Posterior, posterior
from diffcontact.identify.intervals.profile import Profile, profile
from diffcontact.identify.problem.impacts import Impacts
from diffcontact.identify.problem.observations import Observations, Problem
from diffcontact.identify.problem.parameters import Interval, Positive, Real, symmetric
from diffcontact.identify.problem.priors import Normal
from diffcontact.identify.result import FitResult

__all__ = [
    "Bootstrap",
    "Comparison",
    "FitResult",
    "Identifiability",
    "Impacts",
    "Interval",
    "Normal",
    "Observations",
    "Positive",
    "Posterior",
    "Problem",
    "Profile",
    "Real",
    "bootstrap",
    "check",
    "compare",
    "fit",
    "fit_replicas",
    "posterior",
    "profile",
    "symmetric",
]
