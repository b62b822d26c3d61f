// Play, step and speed; next impact, worst residual; keys.

const SPEEDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50];

class Player {
  constructor(root, data) {
    this.data = data;
    this.root = root;
    this.runs = [];
    this.playing = false;
    root.innerHTML = `
      <h2>${data.fitted ? "Measured and fitted" : "Motion"}</h2>
      <p class="runs"><label>run <select aria-label="run"></select></label> <span class="label"></span></p>
      <div class="stage">
        <div class="side">
          <div class="picture"><canvas tabindex="-1" role="img" aria-label="the motion"></canvas></div>
          <div class="controls" role="group" aria-label="player">
            <button class="play" title="play or pause (space)">▶</button>
            <button class="back" title="one step back (←)">◂</button>
            <button class="on" title="one step on (→)">▸</button>
            <input class="time" type="range" min="0" max="1000" value="0" aria-label="time">
            <output></output>
            <button class="impact" title="next impact (n)">next impact</button>
            <button class="worst" title="worst residual (w)">worst residual</button>
            <label>speed <select class="speed" aria-label="speed"></select></label>
            <label class="magnify">residuals × <input type="range" min="0" max="3" step="0.05" value="0" aria-label="residuals magnified"><output></output></label>
          </div>
        </div>
        <div class="charts"></div>
      </div>
      <p class="small legend"></p>`;
    const find = (selector) => root.querySelector(selector);
    this.parts = {
      run: find(".runs select"),
      runs: find(".runs"),
      label: find(".runs .label"),
      play: find(".play"),
      time: find(".time"),
      now: find(".controls > output"),
      impact: find(".impact"),
      worst: find(".worst"),
      speed: find(".speed"),
      magnify: find(".magnify"),
      magnified: find(".magnify output"),
      legend: find(".legend"),
    };
    this.view = new MotionView(find("canvas"));
    this.charts = new Charts(find(".charts"), data, (t) => this.go(t));
    this.listen(find);
  }

  listen(find) {
    const { parts } = this;
    this.data.runs.forEach((run, i) => parts.run.add(new Option(run.label, i)));
    parts.run.addEventListener("change", () => this.choose(Number(parts.run.value)));
    parts.play.addEventListener("click", () => this.toggle());
    find(".back").addEventListener("click", () => this.step(-1));
    find(".on").addEventListener("click", () => this.step(1));
    parts.impact.addEventListener("click", () => this.nextImpact());
    parts.worst.addEventListener("click", () => this.worst());
    parts.time.addEventListener("input", () => this.go(this.begin + (parts.time.value / 1000) * this.length));
    for (const speed of SPEEDS) parts.speed.add(new Option(`× ${speed}`, speed));
    parts.magnify.querySelector("input").addEventListener("input", (event) => {
      this.view.magnified = 10 ** Number(event.target.value);
      parts.magnified.textContent = short(Number(this.view.magnified.toPrecision(2)));
      this.view.draw(this.now);
    });
    parts.magnified.textContent = "1";
    document.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => requestAnimationFrame(() => this.repaint())).observe(this.view.canvas.parentElement);
    looks.addEventListener("change", () => {
      this.view.show(this.run);
      this.charts.show(this.run);
      this.go(this.now);
    });
  }

  repaint() {
    if (!this.run) return;
    this.view.resize();
    this.view.draw(this.now);
  }

  choose(i) {
    this.pause();
    this.run = this.decoded(i);
    const { parts, run } = this;
    parts.run.value = i;
    parts.runs.hidden = this.data.runs.length < 2;
    this.begin = run.times[0];
    this.end = run.times[run.times.length - 1];
    this.length = this.end - this.begin;
    // A second of the motion takes a second, a frame of a film a thirtieth.
    this.rate = this.data.time === "frame" ? 30 : this.data.time === "ms" ? 1000 : 1;
    const wanted = this.length / this.rate / 8;
    parts.speed.value = SPEEDS.reduce((a, b) =>
      Math.abs(Math.log(b / wanted)) < Math.abs(Math.log(a / wanted)) ? b : a,
    );
    this.impacts = run.events.filter(([, , kind]) => kind !== "heard").map(([time]) => time);
    parts.impact.hidden = !this.impacts.length;
    parts.impact.textContent = run.events.some(([, , kind]) => kind === "impact") ? "next impact" : "next change";
    parts.worst.hidden = parts.magnify.hidden = !run.samples;
    if (run.motion && run.samples) parts.magnify.hidden = !run.motion.shapes.some((s) => Object.keys(s.offsets).length);
    parts.legend.textContent = this.legend();
    this.view.show(run);
    this.root.dataset.kind = run.motion ? this.view.kind : "none";
    this.charts.show(run);
    this.go(this.begin);
  }

  decoded(i) {
    const { unit, factor } = this.data.length;
    return (this.runs[i] ??= { ...decodedRun(this.data.runs[i]), unit, unitFactor: factor });
  }

  legend() {
    const { run } = this;
    const parts = [];
    if (run.samples && run.motion)
      parts.push("Solid: fitted. Dashed: measured. Red sticks: what is between them, enlarged by the slider");
    else if (run.bands) parts.push("Lines: medians. Bands: half and nine tenths of the lanes");
    if (run.events.some(([, , kind]) => kind === "impact")) parts.push("red ticks: impacts");
    if (run.events.some(([, , kind]) => kind === "change")) parts.push("grey ticks: stick and slip");
    if (run.events.some(([, , kind]) => kind === "heard")) parts.push("ticks below: impacts that were heard");
    if (run.motion?.dimension === 3) parts.push("drag the picture to turn it");
    const keys = ["space plays", "← → step"];
    if (this.impacts.length) keys.push(`n ${this.parts.impact.textContent}`);
    if (run.samples) keys.push("w worst residual");
    parts.push(`keys: ${keys.join(", ")}; drag in a chart to zoom, double click to see all`);
    return `${parts.join("; ")}.`;
  }

  go(t) {
    this.now = Math.min(Math.max(t, this.begin), this.end);
    this.view.draw(this.now);
    this.charts.mark(this.now);
    this.parts.time.value = (1000 * (this.now - this.begin)) / (this.length || 1);
    const event = this.run.events.find(([time]) => Math.abs(time - this.now) < 1e-6 * this.length);
    this.parts.now.textContent = `${this.now.toPrecision(5)} ${this.data.time}${event ? `, ${event[1]}` : ""}`;
    this.root.dataset.now = this.now;
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    if (this.now >= this.end) this.go(this.begin);
    this.playing = true;
    this.parts.play.textContent = "❚❚";
    let before = null;
    const frame = (moment) => {
      if (!this.playing) return;
      if (before !== null) this.go(this.now + ((moment - before) / 1000) * this.rate * Number(this.parts.speed.value));
      before = moment;
      if (this.now >= this.end) this.pause();
      else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  pause() {
    this.playing = false;
    this.parts.play.textContent = "▶";
  }

  // To the next sample, or row of the course where nothing was measured.
  step(by) {
    this.pause();
    const times = this.run.samples || this.run.times;
    const { row, part } = placeIn(times, this.now);
    let next = by > 0 ? row + 1 : part > 1e-9 ? row : row - 1;
    while (times[next] === this.now) next += by;
    if (next >= 0 && next < times.length) this.go(times[next]);
  }

  nextImpact() {
    this.pause();
    const hair = 1e-9 * this.length;
    const next = this.impacts.find((time) => time > this.now + hair) ?? this.impacts[0];
    if (next !== undefined) this.go(next);
  }

  // Where the residual is largest, in the scatter of its channel.
  worst() {
    const { run } = this;
    if (!run.samples) return;
    this.pause();
    let [row, most] = [0, -1];
    for (let k = 0; k < run.residual.width; k++) {
      const off = column(run.residual, k);
      const known = off.filter(Number.isFinite);
      const size = Math.sqrt(known.reduce((sum, x) => sum + x * x, 0) / known.length) || 1;
      off.forEach((x, i) => {
        if (Math.abs(x) / size > most) [row, most] = [i, Math.abs(x) / size];
      });
    }
    this.go(run.samples[row]);
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (/^(select|textarea)$/i.test(event.target.tagName)) return;
    const range = event.target.type === "range";
    const does = {
      " ": () => this.toggle(),
      ArrowRight: range ? null : () => this.step(1),
      ArrowLeft: range ? null : () => this.step(-1),
      n: () => this.nextImpact(),
      w: () => this.worst(),
    }[event.key];
    if (!does) return;
    event.preventDefault();
    if (event.key === " " && event.target.tagName === "BUTTON") event.target.blur();
    does();
  }
}
