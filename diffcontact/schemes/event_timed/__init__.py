"""EventTimed: find the events, then differentiate the equations of the pieces between them.

contacts         gaps, rows and drifts of all contacts at a place, with k >= 0 slips each; coefficients; roundings
modes            what contacts do, and the reaction in given modes: the one linear system of everything here
motion           one piece in known modes: a jump and an explicit Runge-Kutta method; all that is differentiated
moment           what happens between two pieces: impacts and the choice of modes
flow             Poisson's and Stronge's law: the impact of one contact as a flow over its impulse
compliant        the law of one contact that springs sideways, too
search           the first event on a smooth way
step             the step, and its derivative
monitor          what a run may have missed, and an estimate of its error
events           what is listed of impacts and of changes of modes
"""

from diffcontact.schemes.event_timed.step import EventTimed as EventTimed
