// From places in metres to pixels of the canvas: lines and planes to scale, space through a camera that turns.

// The extent of all that moves or has a size, fitted or measured, over the whole motion; walls have none.
function extent(motion, run) {
  const m = motion.dimension;
  const low = Array(m).fill(Infinity);
  const high = Array(m).fill(-Infinity);
  const widen = (k, x, by) => {
    if (!Number.isFinite(x)) return;
    low[k] = Math.min(low[k], x - by);
    high[k] = Math.max(high[k], x + by);
  };
  for (const shape of motion.shapes) {
    if (shape.kind === "wall") continue;
    const f = shape.fields;
    const reach = reachOf(shape);
    const placed = f.centre || f.place || f.points || null;
    const tracks = placed ? [placed] : [f.start, f.end];
    for (const track of tracks) {
      for (let i = 0; i < track.data.length; i++) {
        const entry = i % track.width;
        widen(entry % m, track.data[i], reach(Math.floor(entry / m)));
      }
    }
  }
  // What was measured farther off than the whole motion is large is a false reading, which would shrink the rest.
  const far = Math.max(...high.map((x, k) => x - low[k]));
  for (const shape of motion.shapes) {
    const reach = reachOf(shape);
    measuredEntries(shape, run, far, (entry, x) => widen(entry % m, x, reach(Math.floor(entry / m))));
  }
  for (let k = 0; k < m; k++) {
    if (!(high[k] >= low[k])) [low[k], high[k]] = [-1, 1];
  }
  const size = Math.max(...high.map((x, k) => x - low[k])) || Math.max(...high.map(Math.abs), 1) * 0.1;
  for (let k = 0; k < m; k++) {
    if (high[k] - low[k] < 1e-3 * size) [low[k], high[k]] = [low[k] - 0.05 * size, high[k] + 0.05 * size];
  }
  return { low, high, size };
}

// Tells every entry of a shape's place as it was measured, and where, unless that is farther off than so much.
function measuredEntries(shape, run, far, tell) {
  for (const name of ["centre", "place", "values"]) {
    const off = shape.offsets[name];
    if (!off || !run.samples) continue;
    for (let sample = 0; sample < run.samples.length; sample++) {
      const where = placeIn(run.times, run.samples[sample]);
      for (const entry in off) {
        const by = off[entry](sample);
        if (Math.abs(by) <= far) tell(Number(entry), at(shape.fields[name], where, Number(entry)) + by);
      }
    }
  }
}

// How far a shape reaches about the place of its element.
function reachOf(shape) {
  const f = shape.fields;
  if (f.radius) return (element) => f.radius.data[element % f.radius.width] || 0;
  if (f.axes) return () => Math.max(...f.axes.data);
  if (f.corners) {
    const m = shape.kind === "polygon" ? 2 : 3;
    let far = 0;
    for (let i = 0; i + m <= f.corners.width; i += m) {
      far = Math.max(far, Math.hypot(...Array.from({ length: m }, (_, k) => f.corners.data[i + k])));
    }
    return () => far;
  }
  return () => 0;
}

// A view of a line or a plane: equal scales, up as the motion says.
function flatView(motion, bounds, width, height, margin) {
  const m = motion.dimension;
  const upright = m === 1 && motion.up;
  const flip = motion.up ? Math.sign(motion.up[m - 1]) || 1 : 1;
  const spans = bounds.high.map((x, k) => x - bounds.low[k]);
  const across = m === 2 ? spans[0] : upright ? 0 : spans[0];
  const along = m === 2 ? spans[1] : upright ? spans[0] : 0;
  const scale = Math.min(
    across > 0 ? (width - 2 * margin) / across : Infinity,
    along > 0 ? (height - 2 * margin) / along : Infinity,
  );
  const middle = bounds.low.map((x, k) => (x + bounds.high[k]) / 2);
  return {
    flat: true,
    upright,
    flip,
    scale,
    width,
    height,
    place(p) {
      if (m === 1) {
        const off = scale * (p[0] - middle[0]);
        return upright ? [width / 2, height / 2 - flip * off] : [width / 2 + off, height / 2];
      }
      return [width / 2 + scale * (p[0] - middle[0]), height / 2 - flip * scale * (p[1] - middle[1])];
    },
    // A direction in the picture: y down.
    direction(n) {
      if (m === 1) return upright ? [0, -flip * n[0]] : [n[0], 0];
      return [n[0], -flip * n[1]];
    },
  };
}

// A view of space: a camera far away, turned by yaw about what is up and then tilted by pitch.
function spaceView(motion, bounds, width, height, yaw, pitch) {
  const up = motion.up || [0, 0, 1];
  const axis = up.findIndex((x) => Math.abs(x) > 0.5);
  const sign = Math.sign(up[axis]) || 1;
  const [right, ahead] = [(axis + 1) % 3, (axis + 2) % 3];
  const middle = bounds.low.map((x, k) => (x + bounds.high[k]) / 2);
  const radius = Math.hypot(...bounds.high.map((x, k) => (x - bounds.low[k]) / 2)) || 1;
  const far = 5 * radius;
  const [cy, sy, cp, sp] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
  const turned = (v) => {
    const x = cy * v[right] - sy * v[ahead] * sign;
    const y = sy * v[right] + cy * v[ahead] * sign;
    const z = sign * v[axis];
    return [x, cp * z + sp * y, sp * z - cp * y]; // right, up, towards the camera
  };
  // As large as all of the motion's box is to be seen, whichever way it is turned.
  let scale = Infinity;
  for (let corner = 0; corner < 8; corner++) {
    const [x, y, z] = turned(middle.map((c, k) => ((corner >> k) & 1 ? bounds.high[k] : bounds.low[k]) - c));
    const near = far / (far - z);
    const [across, along] = [Math.abs(near * x), Math.abs(near * y)];
    scale = Math.min(scale, (width / 2 - 16) / (across || 1e-9), (height / 2 - 16) / (along || 1e-9));
  }
  return {
    scale,
    width,
    height,
    axis,
    sign,
    turned,
    place(p) {
      const [x, y, z] = turned(p.map((c, k) => c - middle[k]));
      const near = far / (far - z);
      return [width / 2 + scale * near * x, height / 2 - scale * near * y, z, near];
    },
  };
}

function rotated(q, v) {
  const [w, x, y, z] = q;
  const n = w * w + x * x + y * y + z * z || 1;
  const s = 2 / n;
  return [
    (1 - s * (y * y + z * z)) * v[0] + s * (x * y - w * z) * v[1] + s * (x * z + w * y) * v[2],
    s * (x * y + w * z) * v[0] + (1 - s * (x * x + z * z)) * v[1] + s * (y * z - w * x) * v[2],
    s * (x * z - w * y) * v[0] + s * (y * z + w * x) * v[1] + (1 - s * (x * x + y * y)) * v[2],
  ];
}
