// The picture that moves: fitted bodies solid, measured ones as ghosts, sticks between them.

class MotionView {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.camera = { yaw: 0.6, pitch: 0.35 };
    this.magnified = 1;
    this.turning();
  }

  show(run) {
    this.run = run;
    this.motion = run.motion;
    this.canvas.parentElement.hidden = !this.motion;
    if (!this.motion) return;
    this.bounds = this.motion.dimension ? extent(this.motion, run) : null;
    this.beadRange = this.motion.dimension ? null : beadRange(this.motion, run);
    this.kind = this.kindOf();
    this.canvas.dataset.kind = this.kind;
    this.canvas.style.height = this.tall();
    this.pointsOnly = this.motion.shapes.every((s) => s.kind !== "ball" || s.fields.radius.data.every((r) => !(r > 0)));
    this.resize();
  }

  // How the picture lies on the page: a plane that is long and low is shown like a line.
  kindOf() {
    const { dimension, up } = this.motion;
    const [width, height] = dimension === 2 ? this.bounds.high.map((x, k) => x - this.bounds.low[k]) : [1, 1];
    if (dimension === 2 && height < 0.3 * width) return "low";
    return ["beads", up ? "upright" : "line", "plane", "space"][dimension];
  }

  tall() {
    if (this.kind === "beads") {
      const rows = this.motion.shapes.reduce((n, shape) => Math.max(n, shape.fields.values.width), 0);
      return `${Math.min(36 + 36 * rows, 480)}px`;
    }
    if (this.kind !== "low") return "";
    const [width, height] = this.bounds.high.map((x, k) => x - this.bounds.low[k]);
    return `${Math.round(80 + (this.canvas.parentElement.clientWidth * height) / width)}px`;
  }

  resize() {
    const box = this.canvas.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    this.width = box.width;
    this.height = box.height;
    this.canvas.width = Math.round(box.width * ratio);
    this.canvas.height = Math.round(box.height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.colours = paint();
  }

  // Dragging turns the camera.
  turning() {
    let last = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      if (this.motion?.dimension !== 3) return;
      last = [event.clientX, event.clientY];
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!last) return;
      this.camera.yaw += (event.clientX - last[0]) * 0.01;
      this.camera.pitch = Math.min(Math.max(this.camera.pitch + (event.clientY - last[1]) * 0.01, -1.5), 1.5);
      last = [event.clientX, event.clientY];
      this.draw(this.time);
    });
    for (const name of ["pointerup", "pointercancel"]) this.canvas.addEventListener(name, () => (last = null));
  }

  view() {
    const { yaw, pitch } = this.camera;
    if (this.motion.dimension === 3) return spaceView(this.motion, this.bounds, this.width, this.height, yaw, pitch);
    return flatView(this.motion, this.bounds, this.width, this.height, 28);
  }

  draw(t) {
    this.time = t;
    if (!this.motion || !this.width) return;
    const { context } = this;
    context.clearRect(0, 0, this.width, this.height);
    const place = placeIn(this.run.times, t);
    const sample = this.run.samples ? nearest(this.run.samples, t) : -1;
    if (!this.motion.dimension) return drawBeads(this, place, sample);
    const view = this.view();
    const drawers = this.motion.dimension === 3 ? SPACE : FLAT;
    const m = this.motion.dimension;
    const shift = this.pointsOnly && m === 1 ? POINT : 0;
    let number = 0;
    const behind = (shape) => (shape.kind === "wall" ? 0 : shape.kind === "line" || shape.kind === "spring" ? 1 : 2);
    const shapes = this.motion.shapes.map((shape) => {
      const first = number;
      if (behind(shape) === 2) number += elementsOf(shape);
      return { shape, first, pose: poseOf(shape, place) };
    });
    // In space what is nearer is drawn later.
    const away = ({ shape, pose }) =>
      m === 3 && behind(shape) === 2 ? view.place(centreOf(shape, pose, 0, m))[2] || 0 : 0;
    shapes.sort((a, b) => behind(a.shape) - behind(b.shape) || away(a) - away(b));
    if (m === 3) this.shadows(view, shapes);
    if (m > 1 && this.kind !== "low") for (const { shape, first } of shapes) this.trail(view, shape, first, t);
    for (const { shape, pose, first } of shapes) {
      const pen = this.pen(shape, first, false);
      drawers[shape.kind]?.(context, view, shape, pose, pen, m, shift, this.bounds);
    }
    if (sample < 0) return this.scaleBar(view);
    for (const { shape, pose, first } of shapes) {
      const ghost = measuredPose(shape, pose, sample, this.magnified);
      if (!ghost) continue;
      drawers[shape.kind]?.(context, view, shape, ghost, this.pen(shape, first, true), m, shift, this.bounds);
      this.sticks(view, shape, pose, ghost, m);
    }
    this.scaleBar(view);
  }

  shadows(view, shapes) {
    const walls = shapes.filter(({ shape }) => shape.kind === "wall");
    const balls = shapes.filter(({ shape }) => shape.kind === "ball");
    for (const wall of walls)
      for (const { shape, pose } of balls) shadows(this.context, view, wall.pose, shape, pose, this.colours.quiet);
  }

  // How a shape looks: scenery plain, bodies coloured, what was measured dashed.
  pen(shape, first, ghost) {
    const { bodies, ink, quiet } = this.colours;
    const scenery = ["wall", "line", "spring"].includes(shape.kind);
    const still = Object.values(shape.fields).every((track) => track.rows === 1);
    return {
      of: (i) => {
        const colour = scenery || still ? quiet : bodies[(first + i) % bodies.length];
        if (ghost) return { fill: colour, stroke: ink, alpha: 0.12, width: 1.4, dash: [4, 3] };
        return { fill: colour, stroke: scenery ? quiet : ink, alpha: 0.85, width: 1, dash: [] };
      },
    };
  }

  sticks(view, shape, pose, ghost, m) {
    const { context } = this;
    context.strokeStyle = this.colours.alarm;
    context.lineWidth = 2;
    for (let i = 0; i < elementsOf(shape); i++) {
      const [a, b] = [centreOf(shape, pose, i, m), centreOf(shape, ghost, i, m)];
      if (!a) continue;
      const [[x0, y0], [x1, y1]] = [view.place(a), view.place(b)];
      if (!Number.isFinite(x0 + y0 + x1 + y1)) continue;
      context.beginPath();
      context.moveTo(x0, y0);
      context.lineTo(x1, y1);
      context.stroke();
    }
  }

  // Where a body has been: the fitted way as a line, what was measured as dots.
  trail(view, shape, first, t) {
    const m = this.motion.dimension;
    const track = shape.fields.centre || shape.fields.place;
    if (!track || track.rows === 1 || elementsOf(shape) > 12) return;
    const { context, run, colours } = this;
    const place = placeIn(run.times, t);
    for (let i = 0; i < elementsOf(shape); i++) {
      const point = (where) => view.place(Array.from({ length: m }, (_, k) => at(track, where, i * m + k)));
      const points = [];
      for (let row = 0; row <= place.row; row++) points.push(point({ row, part: 0 }));
      points.push(point(place));
      context.strokeStyle = colours.bodies[(first + i) % colours.bodies.length];
      context.globalAlpha = 0.55;
      context.lineWidth = 1.5;
      polyline(context, points, false);
      context.stroke();
      context.globalAlpha = 1;
      const off = shape.offsets.centre || shape.offsets.place;
      if (!off || !run.samples) continue;
      const away = (s, k) => (off[k] ? off[k](s) : 0);
      context.fillStyle = colours.ink;
      context.globalAlpha = 0.6;
      for (let s = 0; s < run.samples.length && run.samples[s] <= t; s++) {
        const where = placeIn(run.times, run.samples[s]);
        const p = Array.from({ length: m }, (_, k) => at(track, where, i * m + k) + away(s, i * m + k));
        const [x, y] = view.place(p);
        if (Number.isFinite(x + y)) context.fillRect(x - 1, y - 1, 2, 2);
      }
      context.globalAlpha = 1;
    }
  }

  // How long things are in the picture.
  scaleBar(view) {
    const { context } = this;
    const unit = this.run.unit;
    const rough = 90 / view.scale;
    if (!Number.isFinite(rough) || rough <= 0) return;
    const power = 10 ** Math.floor(Math.log10(rough * this.run.unitFactor));
    const length = [5, 2, 1].map((x) => x * power).find((x) => x <= rough * this.run.unitFactor) || power;
    const pixels = (length / this.run.unitFactor) * view.scale;
    const [x, y] = view.upright ? [14, 14 + pixels] : [14, 26];
    const label = `${Number(length.toPrecision(3))} ${unit}`;
    context.font = "12px system-ui, sans-serif";
    const room = context.measureText(label).width + 12;
    context.fillStyle = this.colours.soft;
    context.globalAlpha = 0.8;
    if (view.upright) context.fillRect(x - 5, y - pixels - 5, room + 5, pixels + 10);
    else context.fillRect(x - 5, y - 20, Math.max(pixels, room) + 10, 25);
    context.globalAlpha = 1;
    context.strokeStyle = context.fillStyle = this.colours.quiet;
    context.lineWidth = 1.5;
    context.beginPath();
    if (view.upright) {
      context.moveTo(x, y);
      context.lineTo(x, y - pixels);
    } else {
      context.moveTo(x, y);
      context.lineTo(x + pixels, y);
    }
    context.stroke();
    context.fillText(label, x + 6, view.upright ? y - pixels / 2 : y - 6);
  }
}

function beadRange(motion, run) {
  let [low, high] = [Infinity, -Infinity];
  for (const shape of motion.shapes) {
    for (const x of shape.fields.values.data) {
      if (Number.isFinite(x)) [low, high] = [Math.min(low, x), Math.max(high, x)];
    }
  }
  const far = high - low;
  const widen = (entry, x) => ([low, high] = [Math.min(low, x), Math.max(high, x)]);
  for (const shape of motion.shapes) measuredEntries(shape, run, far, widen);
  return high > low ? [low, high] : [low - 1, low + 1];
}

// Coordinates that are no places: beads on parallel wires.
function drawBeads(picture, place, sample) {
  const { context, width, height, motion, colours } = picture;
  const [low, high] = picture.beadRange;
  const x = (value) => 44 + ((value - low) / (high - low)) * (width - 88);
  for (const shape of motion.shapes) {
    const pose = poseOf(shape, place);
    const count = pose.values.length;
    const ghost = sample < 0 ? null : measuredPose(shape, pose, sample, picture.magnified);
    pose.values.forEach((value, i) => {
      const y = ((i + 0.5) * height) / count;
      context.strokeStyle = colours.quiet;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(8, y + 10);
      context.lineTo(width - 8, y + 10);
      if (pose.rest) {
        const at = x(pose.rest[i % pose.rest.length]);
        context.moveTo(at, y + 10);
        context.lineTo(at, y + 16);
      }
      context.stroke();
      if (shape.sprung && i) {
        // Of a chain: to the one before.
        const above = ((i - 0.5) * height) / count;
        zigzag(context, [x(pose.values[i - 1]), above + 10], [x(value), y - 10], { stroke: colours.quiet });
      } else if (shape.sprung) {
        context.fillStyle = colours.quiet;
        context.fillRect(4, y - 12, 4, 24);
        zigzag(context, [8, y], [x(value) - 14, y], { stroke: colours.quiet });
      }
      const block = (at, look) => {
        context.beginPath();
        context.rect(at - 14, y - 10, 28, 20);
        outlined(context, look);
      };
      const colour = colours.bodies[i % colours.bodies.length];
      block(x(value), { fill: colour, stroke: colours.ink, alpha: 0.85, width: 1, dash: [] });
      if (!ghost || !Number.isFinite(ghost.values[i])) return;
      block(x(ghost.values[i]), { fill: colour, stroke: colours.ink, alpha: 0.12, width: 1.4, dash: [4, 3] });
      context.strokeStyle = colours.alarm;
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(x(value), y);
      context.lineTo(x(ghost.values[i]), y);
      context.stroke();
    });
  }
}

// The colours of the page, which differ between dark and light.
function paint() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return {
    bodies: [0, 1, 2, 3, 4, 5].map((i) => of(`--c${i}`)),
    ink: of("--ink"),
    quiet: of("--quiet"),
    line: of("--line"),
    alarm: of("--alarm"),
    soft: of("--soft"),
  };
}
