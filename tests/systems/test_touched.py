"""A piston, a plane, a fixed ball and balls that grow, of different materials: closed forms, by one program."""

import jax
import jax.numpy as jnp
import numpy as np
import zoo

import diffcontact as dc
from diffcontact import Status

END = 0.6
DOWN = np.array([np.cos(0.5), -np.sin(0.5)])


def _closed_form(p):
    """Position and velocity at the end, of one impact each, and of the slider."""
    q0, fall, e, c = p["q0"], p["gravity"], p["restitution"], p["growth"][3]
    g, w, t = -fall[1], p["piston"], END
    # u+ = (1 + e) w - e u across the piston.
    hit = (q0[0] - p["radius"][0]) / (w + 0.5)
    away = (1 + e[0, 3]) * w + e[0, 3] * 0.5
    q = [np.array([q0[0] - 0.5 * hit + away * (t - hit), q0[1] - g * t**2 / 2])]
    u = [np.array([away, -g * t])]
    # Falls until the centres are a sum of radii apart, and is reflected there along the line between them.
    aside, both = q0[2] - p["fixed_centre"][0, 0], p["radius"][1] + p["fixed_radius"][0]
    above = np.sqrt(both**2 - aside**2)
    place = np.array([q0[2], p["fixed_centre"][0, 1] + above])
    hit = np.sqrt(2 * (q0[3] - place[1]) / g)
    normal, before = np.array([aside, above]) / both, hit * fall
    after = before - (1 + e[1, 2]) * (before @ normal) * normal
    q.append(place + (t - hit) * after + (t - hit) ** 2 / 2 * fall)
    u.append(after + (t - hit) * fall)
    # g sin, along the plane.
    q.append(q0[4:6] + t**2 / 2 * g * np.sin(0.5) * DOWN)
    u.append(t * g * np.sin(0.5) * DOWN)
    # Surfaces that meet at 2 c part at 2 e c; half of what changes is each one's.
    hit = (q0[8] - q0[6] - p["radius"][3] - p["radius"][4]) / (2 * c)
    for k, sign in ((6, -1), (8, 1)):
        apart = np.array([sign * (1 + e[0, 0]) * c, 0.0])
        q.append(q0[k : k + 2] + apart * (t - hit) + t**2 / 2 * fall)
        u.append(apart + t * fall)
    return np.concatenate([*q, *u])


def test_impacts_and_their_derivatives_are_the_closed_forms(rng):
    model, params = zoo.SURFACES, zoo.SURFACES.params
    # Along a direction that keeps the slider on its plane, those that grow alike, and the table symmetric.
    names = "radius", "growth", "gravity", "fixed_centre", "fixed_radius", "piston", "restitution"
    way = {name: rng.normal(size=np.shape(params[name])) for name in names}
    way["radius"][2], way["growth"][:3], way["gravity"][0] = 0.0, 0.0, 0.0
    way["growth"][4], way["restitution"] = way["growth"][3], way["restitution"] + way["restitution"].T
    ahead, back = (_closed_form(params | {x: params[x] + s * way[x] for x in names}) for s in (1e-6, -1e-6))

    def ended(changed):
        run = dc.simulate(model.system, params | changed, *model.start(params), np.linspace(0.0, END, 21))
        return jnp.concatenate([run.q[-1], run.u[-1]]), run

    given = {name: np.asarray(params[name], float) for name in names}
    way = {name: np.asarray(value, float) for name, value in way.items()}
    end, found, motion = jax.jit(lambda given: jax.jvp(ended, (given,), (way,), has_aux=True))(given)
    assert motion.status == Status.OK
    # Exact for constant forces: rounding, multiplied by an impact on a small ball.
    np.testing.assert_allclose(end, _closed_form(params), atol=1e-10)
    # Central differences: rounding of places of 30 m over 1e-6, and the curvature times 1e-12.
    np.testing.assert_allclose(found, (ahead - back) / 2e-6, atol=1e-7)
    # Each contact has pushed: the piston, the fixed ball, the plane for 0.6 s, and those that grow.
    pushed = np.sum(np.asarray(motion.impulse), axis=0)
    assert np.all(np.sort(pushed)[-4:] > 0.1)
    assert np.count_nonzero(pushed) == 4
