"""The truth of a compliant contact: its springs and its slider, integrated in time."""

import numpy as np
from scipy.integrate import solve_ivp


def springs(slip, rho, friction, e, compliance):
    """v_T+ / v_T- by integration in time: masses, both springs and the slider, changes of stick and slip as events.

    Units: v_N- = -1, W_NN = 1, k_n = 1. State: penetration x, its rate, slip velocity, tangential force.
    """
    least = (1 - e**2) / 2  # where the unloading spring k_n / e^2 has no force: x_max - e^2 x_max, and x_max = 1
    load = lambda x, loading: x if loading else (x - 2 * least) / e**2  # noqa: E731

    def rates(t, z, loading, sign):
        x, v, y, f = z
        F = load(x, loading)
        rate = y / compliance
        if sign:
            f, rate = sign * friction * F, sign * friction * v / (1 if loading else e**2)
        return [v, -F, -rho * f, rate]

    def over(t, z, loading, sign):
        return friction * load(z[0], loading) - abs(z[3]) + 1e-14

    def stops(t, z, loading, sign):
        return sign * (z[2] - compliance * sign * friction * z[1] / (1 if loading else e**2))

    def ends(t, z, loading, sign):
        return z[1] if loading else load(z[0], loading)

    for event in (over, stops, ends):
        event.terminal, event.direction = True, -1
    z, loading, sign = np.array([0.0, 1.0, slip, 0.0]), True, int(slip > friction * compliance)
    for _ in range(60):
        change = stops if sign else over
        run = solve_ivp(rates, (0, 10), z, args=(loading, sign), events=(change, ends), rtol=1e-11, atol=1e-13)
        z = run.y[:, -1]
        if run.t_events[1].size:
            if not loading:
                break
            loading = False
        else:
            sign = 0 if sign else int(np.sign(z[3]))
            if sign:
                z[3] = sign * friction * load(z[0], loading)
    return z[2] / slip
