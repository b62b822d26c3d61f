"""Parameters with error bars from observed motion."""

from diffcontact.identify.assessment import Identifiability
from diffcontact.identify.comparison import Comparison, compare
from diffcontact.identify.fit import check, fit
from diffcontact.identify.impacts import Impacts
from diffcontact.identify.observations import Observations, Problem
from diffcontact.identify.parameters import Interval, Positive, Real, symmetric
from diffcontact.identify.posterior import Posterior, posterior
from diffcontact.identify.priors import Normal
from diffcontact.identify.profile import Profile, profile
from diffcontact.identify.replicas import Bootstrap, bootstrap, fit_replicas
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
