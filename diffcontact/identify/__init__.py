"""Parameters with error bars from observed motion."""

from diffcontact.identify.comparison import Comparison, LawComparison, compare, compare_laws
from diffcontact.identify.estimate import Estimate, Posterior
from diffcontact.identify.experiment.design import Candidate, Design, design
from diffcontact.identify.experiment.fisher import what_helps
from diffcontact.identify.fit import NOISES as NOISES
from diffcontact.identify.fit import check, fit
from diffcontact.identify.identifiable import Identifiability
from diffcontact.identify.impact_law import SpeedTest, law_of_impact, speed_test
from diffcontact.identify.intervals.bootstrap import Bootstrap, bootstrap, fit_replicas
from diffcontact.identify.intervals.posterior import posterior
from diffcontact.identify.intervals.profile import Profile, profile
from diffcontact.identify.observations import Impacts, Observations, Problem, runs
from diffcontact.identify.parameters import Interval, Normal, Positive, Real, symmetric
from diffcontact.identify.result import FitResult
from diffcontact.identify.spread import Spread, spread

__all__ = [
    "Bootstrap",
    "Candidate",
    "Comparison",
    "Design",
    "Estimate",
    "FitResult",
    "Identifiability",
    "Impacts",
    "Interval",
    "LawComparison",
    "Normal",
    "Observations",
    "Positive",
    "Posterior",
    "Problem",
    "Profile",
    "Real",
    "SpeedTest",
    "Spread",
    "bootstrap",
    "check",
    "compare",
    "compare_laws",
    "design",
    "fit",
    "fit_replicas",
    "law_of_impact",
    "posterior",
    "profile",
    "runs",
    "speed_test",
    "spread",
    "symmetric",
    "what_helps",
]
