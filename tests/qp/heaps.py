"""Many rows between bodies, as arrays, and heaps of balls that rub."""

import numpy as np

from diffcontact import qp


def chain(rng, count=20, dtype=float):
    """Rows between random pairs of bodies and walls; feasible, since u = 0 is, and with redundant ones."""
    rows = 40
    bodies = np.array([rng.choice(count, 2, replace=False) for _ in range(rows)])
    normals = rng.normal(size=(rows, 2, 3))
    normals[:, 0] = -normals[:, 1]
    bodies[:5, 1] = -1
    bodies[5], normals[5] = bodies[6], normals[6]
    b = np.where(rng.uniform(size=rows) < 0.9, rng.uniform(0.0, 0.3, rows), np.inf)
    mass = np.repeat(rng.uniform(0.5, 5.0, count), 3)
    b[5] = b[6]
    given = [x.astype(dtype) for x in (normals, b, mass, rng.normal(size=3 * count))]
    normals, b, mass, v = given
    return mass, qp.BodyRows(bodies, normals, count), b, v


def heap(rng, count=12, k=2, dtype=float):
    """Balls among each other and on the ground, with all components of their velocities: 6 in space, 3 in a plane."""
    dimension, contacts = k + 1, 2 * count
    m = 6 if k == 2 else 3
    bodies = np.array([rng.choice(count, 2, replace=False) for _ in range(contacts)])
    bodies[:count, 0], bodies[:count, 1] = -1, np.arange(count)
    frames = np.stack([np.linalg.qr(rng.normal(size=(dimension, dimension)))[0] for _ in range(contacts)])
    rows = []
    for number in range(dimension):
        direction = frames[:, :, number]
        moment = np.cross(frames[:, :, 0], direction) if k == 2 else (number * np.ones((contacts, 1)))
        sides = np.stack([np.concatenate([-direction, moment], axis=1), np.concatenate([direction, moment], axis=1)], 1)
        rows.append(qp.BodyRows(bodies, sides[:, :, :m].astype(dtype), count))
    mass = np.repeat(rng.uniform(0.5, 5.0, count), m)
    b = np.where(rng.uniform(size=contacts) < 0.9, rng.uniform(0.0, 0.3, contacts), np.inf)
    s = np.zeros((contacts, k))
    friction, v = rng.uniform(0.0, 0.8, contacts), rng.normal(size=count * m)
    mass, b, s, friction, v = (x.astype(dtype) for x in (mass, b, s, friction, v))
    return mass, rows[0], tuple(rows[1:]), b, s, friction, v


def spread(G):
    """(c, d) the rows, in numpy; of one normal the first body has the opposite."""
    bodies, normals = np.asarray(G.bodies), np.asarray(G.normals)
    normals = np.concatenate([-normals, normals], axis=1) if normals.shape[1] == 1 else normals
    whole = np.zeros((len(bodies), G.count + 1, normals.shape[2]), normals.dtype)
    for side in (0, 1):
        np.add.at(whole, (np.arange(len(bodies)), bodies[:, side]), normals[:, side])
    # The last one is none: -1.
    return whole[:, :-1].reshape(len(bodies), -1)


def exactly(mass, normals, tangents, b, s, friction, v):
    """The problem of friction with dense rows."""
    return mass, spread(normals), np.stack([spread(one) for one in tangents], axis=1), b, s, friction, v
