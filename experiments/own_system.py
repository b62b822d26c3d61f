# %% [markdown]
# # A system of one's own: a pendulum that hits a wall
#
# Nothing but functions: how far apart things are, what forces act, how heavy they are, how they rebound. Then
# everything works as for a ready-made system: simulation, derivatives, certificates, fits.
#
# Run it as a script, `python experiments/own_system.py`, or open it as a notebook.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import diffcontact as dc

jax.config.update("jax_enable_x64", True)

# %% [markdown]
# ## Four functions
#
# The coordinate is the angle q [rad], the velocity u [rad/s]; the wall stands at an angle of -0.2 rad. A positive gap
# is open. Forces and masses go with the coordinate: a torque and a moment of inertia.

# %%
pendulum = dc.System(
    gap=lambda t, q, p: q + p["wall"],
    force=lambda t, q, u, p: -9.81 * p["length"] * jnp.sin(q) - p["drag"] * u,
    mass=lambda q, p: p["length"] ** 2 * jnp.ones(1),
    restitution=lambda p: p["restitution"],
)
truth = {"wall": 0.2, "length": 0.5, "drag": 0.01, "restitution": 0.7}
times = np.linspace(0.0, 4.0, 101)


def initial(params):
    return jnp.array([1.0]), jnp.zeros(1)


motion = dc.simulate(pendulum, truth, *initial(truth), times, substeps="auto", tolerance=1e-5)
print(f"status {int(motion.status)}; halving the steps last changed the motion by {float(motion.error):.1e}")

# %% [markdown]
# ## Is there a derivative?
#
# Where a body only grazes a wall, or two impacts fall together, there is none. `certify` looks at every event.

# %%
certificate = dc.certify(pendulum, truth, *initial(truth), times)
print(certificate)

# %% [markdown]
# ## Fit it
#
# An angle encoder, 1 mrad. What is known besides, here the length of the string to 1 mm, is a prior.

# %%
noise = 1e-3
measured = np.asarray(motion.q) + noise * np.random.default_rng(0).normal(size=motion.q.shape)
seen = dc.Observations(times, measured, noise, lambda trajectory, params: trajectory.q)
start = {"wall": 0.25, "length": 0.49, "drag": 0.02, "restitution": 0.6}
result = dc.fit(
    dc.Problem(pendulum, seen, initial),
    start,
    {"wall": dc.Real(), "length": dc.Positive(), "drag": dc.Positive(), "restitution": dc.Interval(0.0, 1.0)},
    priors={"length": dc.identify.Normal(0.5, 1e-3)},
)
print(result)
