# %% [markdown]
# # Carts: from CSV files to parameters, by a scene
#
# Two carts collide on a track, and a camera follows a marker on each. Three runs that never happened are simulated and
# written as CSV files, as motion capture does. The scene says what they are; `read_study` and `fit` do the rest, as
# `python -m diffcontact fit SCENE --data RUN.csv ...` does. From three runs on, error bars come from comparing them.
#
# Run it as a script, `python experiments/carts.py`, or open it as a notebook. It writes to out/carts.

# %%
from pathlib import Path

import jax
import numpy as np

import diffcontact as dc
from diffcontact.commands.demo import SCENE, TRUTH
from diffcontact.scene import read_study

jax.config.update("jax_enable_x64", True)

# %% [markdown]
# ## Three runs, as CSV files
#
# The carts start faster in each run. In the room's coordinates the track runs along (0.995, 0.1).

# %%
out = Path("out/carts")
out.mkdir(parents=True, exist_ok=True)
times, track, rng = np.linspace(0.0, 3.0, 151), np.array([0.995, 0.0998749]), np.random.default_rng(1)
files = []
for run, faster in enumerate((1.0, 1.2, 1.4)):
    motion = dc.simulate(dc.systems.carts(), TRUTH, [0.2, 0.9], [0.25 * faster, -0.15 * faster], times)
    points = 1e3 * np.asarray(motion.q)[:, :, None] * track + 0.1 * rng.normal(size=(times.size, 2, 2))
    rows = np.column_stack([times, points.reshape(times.size, 4)])
    files.append(out / f"run{run}.csv")
    np.savetxt(files[-1], rows, delimiter=",", header="time [s],x1 [mm],y1 [mm],x2 [mm],y2 [mm]", comments="")
print("wrote", *files)

# %% [markdown]
# ## The scene
#
# The same that `python -m diffcontact demo` writes. `python -m diffcontact scene` lists all that it could say.

# %%
scene = out / "carts.toml"
scene.write_text(SCENE)
print(SCENE)

# %% [markdown]
# ## The fit
#
# Restitution and mass ratio are shared by the runs; distance, tilt, drag and the beginning are every run's own.

# %%
result = read_study(scene, files).fit()
print(result)

# %%
for name in ("restitution", "mass_ratio"):
    low, high = result.interval95[name]
    print(f"{name}: truth {TRUTH[name]}, interval [{low:.5f}, {high:.5f}]")
result.plot().savefig(out / "carts.png")
