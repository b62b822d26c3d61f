"""EventTimed anew: find the events, then differentiate the equations of the pieces between them.

contacts    gaps, rows and drifts of all contacts at a place, with k >= 0 slips each; coefficients; roundings
modes       what contacts do, and the reaction in given modes: the one linear system of everything here
motion      one piece in known modes: a jump and an explicit Runge-Kutta method; all that is differentiated
moment      what happens between two pieces: impacts and the choice of modes
search      the first event on a smooth way
step        the step, and its derivative
"""

from diffcontact.schemes.event.step import EventTimed as EventTimed
