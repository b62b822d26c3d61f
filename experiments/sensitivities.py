# %% [markdown]
# # Sensitivities: how a collision answers to what it starts from
#
# Two balls on a line: one is struck, and strikes the other. How do their places depend on masses, restitution and first
# velocities? `dc.sensitivity` gives the derivatives at all times, through the impact.
#
# Run it as a script, `python experiments/sensitivities.py`, or open it as a notebook.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import diffcontact as dc

jax.config.update("jax_enable_x64", True)

# %%
balls = dc.systems.balls(2, 1)
params = {"mass": jnp.array([1.0, 0.8]), "radius": jnp.full(2, 0.05), "gravity": jnp.zeros(1), "restitution": 0.9}
start = [0.0, 0.4], [1.0, 0.0]
times = jnp.linspace(0.0, 1.0, 11)
found = dc.sensitivity(balls, params, *start, times, wrt=["mass", "restitution", "u0"])

# %% [markdown]
# ## What they say
#
# `dq["mass"]` is (times, coordinates, masses). Before the first impact nothing depends on a mass.

# %%
for name in ("mass", "restitution", "u0"):
    rows = np.asarray(found.dq[name])[-1].reshape(2, -1)
    print(f"places at the end by {name}:", *(np.array2string(row, precision=4, suppress_small=True) for row in rows))
print("largest entry before the first impact:", float(np.max(np.abs(np.asarray(found.dq["mass"])[:3]))))

# %% [markdown]
# ## Are they right?
#
# Two balls on a line have a closed form: the velocities behind the impact are u (m1 - e m2) and u (1 + e) m1 over
# m1 + m2. `dc.certify` says whether there is a derivative at all.

# %%
m1, m2 = params["mass"]
after = 0.7 * np.array([-m2, m1]) / (m1 + m2)
print("off by", float(np.max(np.abs(np.ravel(found.dq["restitution"][-1]) - after))))

# %% [markdown]
# ## The time of an impact is a number like any other
#
# The trajectory lists percussions where asked, and their times have derivatives: the first impact is earlier the faster
# the first ball is, by 0.3 m / u^2.

# %%


def first_impact(speed):
    motion = dc.simulate(balls, params, start[0], jnp.array([1.0, 0.0]) * speed, times, percussions=1)
    return motion.percussions.time[0]


time, slope = jax.jvp(first_impact, (1.0,), (1.0,))
print(f"first impact at {float(time):.3f} s, by the speed {float(slope):.3f} s per m/s")
