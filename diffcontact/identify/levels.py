"""Levels of false alarms, and sizes below which a finding changes nobody's mind: one table for all checks of a fit."""

# Of a fit whose model is right: some twenty checks together raise one false alarm in a hundred fits.
LEVELS = {
    "pattern": 1e-3,
    # A model that is wrong leaves residuals that follow each other: counted as few, they would be believed too easily.
    "correlated misfit": 1e-2,
    # Of two ratios, above one and below.
    "noise ratios": 5e-4,
    # Shared by terms of the model, a resistance that it has not, impacts, jumps of the clock, and all others: the
    # model's own terms are few, and are not to pay for the many places where a clock may jump.
    "explanation": 1e-3,
    "outsider": 1e-4,
    "contradiction": 1e-4,
    "same recording": 1e-4,
    "law of impact": 1e-2,
}
# Squares of residuals over those of the noise: no noise at all; mostly none, where they have a shape; noise overstated.
GROSS, MISFIT, OVERSTATED = 20.0, 4.0, 0.25
# Ratio of two mean squares, or of two sizes, that is worth a word.
RATIO = 2.0
# Independent samples of which a mean square is worth having.
FEWEST = 3
# Standard deviations of a prior, or beyond a bound: once in 400 fits, and never.
UNUSUAL, IMPOSSIBLE = 3.0, 5.0
# From so many runs on their scatter gives the error bars.
RUNS_TO_COMPARE = 3
# Things that a sentence names, at most, or that are tried where several are nearly as likely.
NAMED = 3
# Numbers, places or parameters that are looked at one by one, at most: each costs a simulation or a fit.
LOOKED_AT = 24
# A thousandth of a thing is none of it: what parameters leave of a column, a part of an error, of a spacing.
SLIGHT = 1e-3
# What other columns leave of one, below which it is rounding.
OF_A_COLUMN = 1e-6
# Steps of a difference are this power of machine epsilon: between rounding and what is no derivative any more.
DIFFERENCE = 0.4
