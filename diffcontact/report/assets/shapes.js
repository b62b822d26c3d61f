// How each kind of shape is drawn. A pose is what its fields are at one moment; a pen says how it looks.

const POINT = 8; // pixels: the radius of what has none of its own

function poseOf(shape, place) {
  const pose = {};
  for (const [name, track] of Object.entries(shape.fields)) {
    pose[name] = Array.from({ length: track.width }, (_, k) => at(track, place, k));
  }
  return pose;
}

// The pose displaced by what was measured at a sample, so many times as far; null where nothing was.
function measuredPose(shape, pose, sample, magnified) {
  const names = Object.keys(shape.offsets);
  if (!names.length) return null;
  const moved = { ...pose };
  for (const name of names) {
    const off = shape.offsets[name];
    moved[name] = pose[name].map((x, k) => (off[k] ? x + magnified * off[k](sample) : x));
  }
  return moved;
}

function ballRadius(view, pose, element) {
  const radius = pose.radius[element % pose.radius.length];
  return radius > 0 ? Math.max(view.scale * radius, 1.5) : POINT;
}

function centreOf(shape, pose, element, m) {
  const placed = pose.centre || pose.place;
  return placed ? placed.slice(element * m, element * m + m) : null;
}

function elementsOf(shape) {
  return shape.kind === "ball" ? shape.count : 1;
}

function outlined(context, pen) {
  context.globalAlpha = pen.alpha;
  if (pen.fill) {
    context.fillStyle = pen.fill;
    context.fill();
  }
  context.globalAlpha = 1;
  context.strokeStyle = pen.stroke;
  context.lineWidth = pen.width;
  context.setLineDash(pen.dash);
  context.stroke();
  context.setLineDash([]);
}

function polyline(context, points, closed) {
  context.beginPath();
  points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  if (closed) context.closePath();
}

const FLAT = {
  ball(context, view, shape, pose, pen, m) {
    for (let i = 0; i < shape.count; i++) {
      const [x, y] = view.place(pose.centre.slice(i * m, i * m + m));
      if (!Number.isFinite(x + y)) continue;
      const r = ballRadius(view, pose, i);
      context.beginPath();
      context.arc(x, y, r, 0, 2 * Math.PI);
      outlined(context, pen.of(i));
      if (pose.turn) {
        const angle = -view.flip * pose.turn[i % pose.turn.length];
        context.beginPath();
        context.moveTo(x, y);
        context.lineTo(x + r * Math.cos(angle), y + r * Math.sin(angle));
        context.stroke();
      }
    }
  },
  polygon(context, view, shape, pose, pen) {
    const [c, s] = [Math.cos(pose.turn[0]), Math.sin(pose.turn[0])];
    const points = [];
    for (let i = 0; i < pose.corners.length; i += 2) {
      const [x, y] = [pose.corners[i], pose.corners[i + 1]];
      points.push(view.place([pose.place[0] + c * x - s * y, pose.place[1] + s * x + c * y]));
    }
    if (points.some(([x, y]) => !Number.isFinite(x + y))) return;
    polyline(context, points, true);
    outlined(context, pen.of(0));
  },
  ellipse(context, view, shape, pose, pen) {
    const [x, y] = view.place(pose.centre);
    if (!Number.isFinite(x + y)) return;
    const angle = -view.flip * pose.turn[0];
    context.beginPath();
    context.ellipse(x, y, view.scale * pose.axes[0], view.scale * pose.axes[1], angle, 0, 2 * Math.PI);
    outlined(context, pen.of(0));
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + view.scale * pose.axes[0] * Math.cos(angle), y + view.scale * pose.axes[0] * Math.sin(angle));
    context.stroke();
  },
  line(context, view, shape, pose, pen, m) {
    const points = [];
    for (let i = 0; i < pose.points.length; i += m) points.push(view.place(pose.points.slice(i, i + m)));
    polyline(context, points, false);
    context.strokeStyle = pen.of(0).stroke;
    context.lineWidth = 2;
    context.stroke();
  },
  spring(context, view, shape, pose, pen) {
    zigzag(context, view.place(pose.start), view.place(pose.end), pen.of(0));
  },
  // The surface is a line, what is behind it hatched.
  wall(context, view, shape, pose, pen, m, shift) {
    if (!Number.isFinite(pose.offset[0])) return;
    const [x, y] = view.place(pose.normal.map((n) => n * pose.offset[0]));
    const [nx, ny] = view.direction(pose.normal);
    const [tx, ty] = [-ny, nx];
    const [px, py] = [x - shift * nx, y - shift * ny];
    const reach =
      view.flat && m === 1
        ? Math.min(view.width, view.height) * (view.upright ? 0.6 : 0.25)
        : 2 * (view.width + view.height);
    const along = m === 1 ? 0 : (view.width / 2 - px) * tx + (view.height / 2 - py) * ty;
    const [cx, cy] = [px + along * tx, py + along * ty];
    context.strokeStyle = pen.of(0).stroke;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(cx - reach * tx, cy - reach * ty);
    context.lineTo(cx + reach * tx, cy + reach * ty);
    context.stroke();
    context.lineWidth = 1;
    context.globalAlpha = 0.4;
    context.beginPath();
    for (let s = -reach; s <= reach; s += 9) {
      context.moveTo(cx + s * tx, cy + s * ty);
      context.lineTo(cx + (s - 7) * tx - 7 * nx, cy + (s - 7) * ty - 7 * ny);
    }
    context.stroke();
    context.globalAlpha = 1;
  },
};

const SPACE = {
  ball(context, view, shape, pose, pen) {
    const order = Array.from({ length: shape.count }, (_, i) => i)
      .map((i) => [i, view.place(pose.centre.slice(3 * i, 3 * i + 3))])
      .sort((a, b) => a[1][2] - b[1][2]);
    for (const [i, [x, y, , near]] of order) {
      if (!Number.isFinite(x + y)) continue;
      const r = ballRadius(view, pose, i) * (near || 1);
      const look = pen.of(i);
      context.beginPath();
      context.arc(x, y, r, 0, 2 * Math.PI);
      outlined(context, look.fill && !look.dash.length ? { ...look, fill: shaded(context, x, y, r, look.fill) } : look);
      if (pose.turn) {
        const width = pose.turn.length / shape.count;
        circlesOf(context, view, pose.turn.slice(width * i, width * i + 4), x, y, r, look.stroke);
      }
    }
  },
  polyhedron(context, view, shape, pose, pen) {
    const corners = [];
    for (let i = 0; i < pose.corners.length; i += 3) {
      const v = rotated(pose.turn, pose.corners.slice(i, i + 3));
      corners.push(view.place(v.map((x, k) => x + pose.place[k])));
    }
    if (corners.some(([x, y]) => !Number.isFinite(x + y))) return;
    const faces = shape.faces.map((face) => face.map((i) => corners[i]));
    faces.sort((a, b) => depth(a) - depth(b));
    for (const face of faces) {
      polyline(context, face, true);
      outlined(context, pen.of(0));
    }
  },
  line(context, view, shape, pose, pen) {
    FLAT.line(context, view, shape, pose, pen, 3);
  },
  spring: FLAT.spring,
  // A grid on the plane, about the middle of the picture.
  wall(context, view, shape, pose, pen, m, shift, bounds) {
    if (!Number.isFinite(pose.offset[0])) return;
    const n = pose.normal;
    const middle = bounds.low.map((x, k) => (x + bounds.high[k]) / 2);
    const off = pose.offset[0] - n.reduce((sum, x, k) => sum + x * middle[k], 0);
    const foot = middle.map((x, k) => x + off * n[k]);
    const other = Math.abs(n[0]) < 0.9 ? [1, 0, 0] : [0, 1, 0];
    const a = unit(cross(n, other));
    const b = cross(n, a);
    const reach = 0.75 * bounds.size;
    // Walls between the camera and the motion are left out.
    const facing = view.turned(n)[2];
    context.strokeStyle = pen.of(0).stroke;
    context.lineWidth = 1;
    context.globalAlpha = facing < -0.05 ? 0.1 : 0.5;
    context.beginPath();
    for (let i = -5; i <= 5; i++) {
      const s = (i / 5) * reach;
      for (const [u, v] of [
        [a, b],
        [b, a],
      ]) {
        const [x0, y0] = view.place(foot.map((x, k) => x + s * u[k] - reach * v[k]));
        const [x1, y1] = view.place(foot.map((x, k) => x + s * u[k] + reach * v[k]));
        context.moveTo(x0, y0);
        context.lineTo(x1, y1);
      }
    }
    context.stroke();
    context.globalAlpha = 1;
  },
};

// The shadows of balls on a floor, straight below them: how high they are shows in nothing else.
function shadows(context, view, wall, shape, pose, colour) {
  const n = wall.normal;
  const facing = view.turned(n)[2];
  if (Math.abs(n[view.axis]) < 0.99 || facing < 0.05 || !Number.isFinite(wall.offset[0])) return;
  context.fillStyle = colour;
  context.globalAlpha = 0.22;
  for (let i = 0; i < shape.count; i++) {
    const c = pose.centre.slice(3 * i, 3 * i + 3);
    const high = n.reduce((sum, x, k) => sum + x * c[k], -wall.offset[0]);
    const [x, y, , near] = view.place(c.map((x, k) => x - high * n[k]));
    if (!Number.isFinite(x + y)) continue;
    const r = ballRadius(view, pose, i) * near;
    context.beginPath();
    context.ellipse(x, y, r, r * facing, 0, 0, 2 * Math.PI);
    context.fill();
  }
  context.globalAlpha = 1;
}

function depth(points) {
  return points.reduce((sum, p) => sum + p[2], 0) / points.length;
}

function cross(a, b) {
  return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
}

function unit(v) {
  const length = Math.hypot(...v) || 1;
  return v.map((x) => x / length);
}

function shaded(context, x, y, r, colour) {
  const light = context.createRadialGradient(x - 0.35 * r, y - 0.4 * r, 0.1 * r, x, y, r);
  light.addColorStop(0, "#fff");
  light.addColorStop(0.35, colour);
  light.addColorStop(1, colour);
  return light;
}

// Three great circles that turn with a sphere, where they face the camera.
function circlesOf(context, view, turn, x, y, r, colour) {
  if (!turn.every(Number.isFinite)) return;
  const axes = [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ].map((e) => view.turned(rotated(turn, e)));
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  for (const [u, v] of [
    [axes[0], axes[1]],
    [axes[1], axes[2]],
    [axes[2], axes[0]],
  ]) {
    let down = false;
    for (let i = 0; i <= 32; i++) {
      const [c, s] = [Math.cos((i * Math.PI) / 16), Math.sin((i * Math.PI) / 16)];
      const p = [0, 1, 2].map((k) => c * u[k] + s * v[k]);
      if (p[2] < 0) down = false;
      else if (down) context.lineTo(x + r * p[0], y - r * p[1]);
      else {
        context.moveTo(x + r * p[0], y - r * p[1]);
        down = true;
      }
    }
  }
  context.stroke();
}

function zigzag(context, [x0, y0], [x1, y1], look) {
  if (!Number.isFinite(x0 + y0 + x1 + y1)) return;
  const length = Math.hypot(x1 - x0, y1 - y0) || 1;
  const [nx, ny] = [(-(y1 - y0) / length) * 6, ((x1 - x0) / length) * 6];
  const points = [[x0, y0]];
  for (let i = 0; i < 16; i++) {
    const part = 0.1 + (0.8 * (i + 0.5)) / 16;
    const side = i % 2 ? 1 : -1;
    points.push([x0 + part * (x1 - x0) + side * nx, y0 + part * (y1 - y0) + side * ny]);
  }
  points.push([x1, y1]);
  polyline(context, points, false);
  context.strokeStyle = look.stroke;
  context.lineWidth = 1.2;
  context.globalAlpha = 0.7;
  context.stroke();
  context.globalAlpha = 1;
}
