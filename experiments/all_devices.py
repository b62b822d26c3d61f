# %% [markdown]
# # An ensemble on all devices
#
# One function of the parameters, a batch of them: `dc.ensemble` runs it chunk by chunk on every device that JAX sees,
# brings the results to the host, and keeps them in a file from which an interrupted run goes on (h5py).
#
# Run it as a script, `python experiments/all_devices.py`, or open it as a notebook. It writes to out/all_devices.

# %%
import os
from pathlib import Path

# A CPU counts as one device unless told otherwise, before JAX starts; GPUs are seen without being told.
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")

import jax
import jax.numpy as jnp
import numpy as np

import diffcontact as dc
from diffcontact.host.progress import shown

jax.config.update("jax_enable_x64", True)
print(f"{jax.local_device_count()} devices: {', '.join(map(str, jax.local_devices()))}")

# %% [markdown]
# ## One run
#
# A ball falls from a height onto a floor. What comes back: how high it is after 1.5 s, and the status, for each lane.

# %%
ball = dc.systems.balls(1, 1, box=(0.0, jnp.inf))
fixed = {"mass": jnp.ones(1), "radius": jnp.zeros(1), "gravity": jnp.array([-9.81])}
times = jnp.linspace(0.0, 1.5, 31)


def run(params):
    everything = {**fixed, "restitution": params["restitution"]}
    motion = dc.simulate(ball, everything, params["height"], [0.0], times)
    return {"height": motion.q[-1, 0], "status": motion.status}


# %% [markdown]
# ## Twenty thousand of them
#
# 200 restitutions times 100 heights, in chunks. At the end it says how many lanes are fine,
# and what is wrong with the others.

# %%
restitution, height = np.meshgrid(np.linspace(0.5, 0.95, 200), np.linspace(0.5, 1.5, 100), indexing="ij")
batch = {"restitution": restitution.ravel(), "height": height.reshape(-1, 1)}
out = Path("out/all_devices")
out.mkdir(parents=True, exist_ok=True)
with shown():
    found = dc.ensemble(run, batch, chunk=2000, progress=True, store=out / "heights.h5")
print(f"between {found['height'].min():.3f} m and {found['height'].max():.3f} m, {found['height'].size} lanes")

# %% [markdown]
# ## Again
#
# The file holds all of it, with a checksum for each chunk: the same call has nothing left to do.

# %%
again = dc.ensemble(run, batch, chunk=2000, store=out / "heights.h5")
print("the same, bit for bit:", np.array_equal(again["height"], found["height"]))
