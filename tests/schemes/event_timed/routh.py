"""One impact of one contact in a plane, in closed form."""

import numpy as np

# The moment of inertia of a rod of mass and length 1 about its centre.
ROD = 1 / 12


def routh(W, w, mu, e, law):
    """The impulse and the case by Wang and Mason's list, with the work by hand: triangles and trapezia under v_N(P).

    Of complex numbers, too: their imaginary parts are derivatives.
    """
    (A, c), (_, C) = W
    side, v = np.sign(np.real(w[1])), -w[0]
    k, x = side * c, side * w[1]
    slope, braking, stuck_slope = A - mu * k, mu * C - k, A - c * c / C
    sticks = np.abs(np.real(k)) <= np.real(mu * C)
    after = stuck_slope if sticks else A + mu * k
    stop = x / braking if np.real(braking) > 0 else np.inf
    compressed = v / slope if np.real(slope) > 0 else np.inf
    if np.real(compressed) < np.real(stop):
        work, P = v * v / (2 * slope), (1 + e) * compressed
        if law == "stronge" and np.real(P) > np.real(stop):
            speed = slope * (stop - compressed)
            P = stop + (np.sqrt(speed**2 + 2 * after * (e * e * work - speed**2 / (2 * slope))) - speed) / after
        case = "sliding" if np.real(P) <= np.real(stop) else "R-sticking" if sticks else "R-reversed"
    else:
        left = v - slope * stop
        work, compressed = stop * (v + left) / 2 + left**2 / (2 * after), stop + left / after
        P = (1 + e) * compressed if law == "poisson" else compressed + e * np.sqrt(2 * work / after)
        case = "C-sticking" if sticks else "C-reversed"
    if case == "sliding":
        return np.array([P, -side * mu * P]), case
    return np.array([P, -(w[1] + c * P) / C if sticks else side * mu * (P - 2 * stop)]), case
