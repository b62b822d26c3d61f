// Charts of a run against time, by uPlot: fitted curves as lines, measurements as dots on top, one time cursor.

// Says when all is to be drawn anew: in the dark, on paper.
const looks = new EventTarget();
const SYNC = uPlot.sync("time");
const ROOM = 64; // pixels for the numbers of a vertical axis: charts above each other begin at the same place

// Columns on their own times as one table, as uPlot wants it; gaps of one are filled by the others' times.
function joined(tables) {
  return uPlot.join(
    tables,
    tables.map((table) => table.slice(1).map(() => 0)),
  );
}

// uPlot tells rows apart by their time: the second of two at one time is moved by a hair.
function apart(times) {
  const moved = Array.from(times);
  const hair = (moved[moved.length - 1] - moved[0]) * 1e-10;
  for (let i = 1; i < moved.length; i++) if (moved[i] <= moved[i - 1]) moved[i] = moved[i - 1] + hair;
  return moved;
}

function finite(values) {
  return values.map((x) => (Number.isFinite(x) ? x : null));
}

function chartOptions(box, height, title, time, series, options) {
  const colours = paint();
  const axis = {
    stroke: colours.ink,
    grid: { stroke: colours.line, width: 1 },
    ticks: { stroke: colours.line, width: 1 },
  };
  return {
    width: Math.max(box.clientWidth, 200),
    height,
    scales: { x: { time: false, ...options.x }, y: { dir: options.down ? -1 : 1, ...options.y } },
    axes: [
      { ...axis, label: time, labelSize: 18, labelGap: 0, size: 34, values: rounded },
      { ...axis, label: title, labelSize: 20, labelGap: 0, space: height < 200 ? 22 : 40, size: ROOM, values: rounded },
    ],
    series: [{ label: options.xLabel ?? "time", value: told }, ...series],
    bands: options.bands,
    cursor: { drag: { x: true, y: false }, ...(options.timed ? { sync: { key: SYNC.key, setSeries: false } } : {}) },
    legend: { live: true },
    hooks: options.hooks || {},
  };
}

// A value in the legend.
function told(u, x) {
  return x === null || x === undefined || Number.isNaN(x) ? "–" : short(x);
}

function short(x) {
  return Number(x.toPrecision(5)).toString();
}

function rounded(u, splits) {
  const numbers = splits.map((x) => (x === null ? null : Number(x.toPrecision(9))));
  // There is room for six figures.
  const long = numbers.some((x) => x !== null && x.toString().length > 6);
  return numbers.map((x) => {
    if (x === null) return "";
    const [plain, exponent] = [x.toString(), x.toExponential()];
    return long && exponent.length < plain.length ? exponent : plain;
  });
}

// Ticks of impacts and of changes between stick and slip, at the top and through the chart.
function eventTicks(run) {
  return (u) => {
    const { ctx, bbox } = u;
    const colours = paint();
    const scale = window.devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const crowded = run.events.length > 150;
    for (const [time, , kind] of run.events) {
      const x = Math.round(u.valToPos(time, "x", true));
      ctx.strokeStyle = ctx.fillStyle =
        kind === "heard" ? colours.ink : kind === "change" ? colours.quiet : colours.alarm;
      ctx.lineWidth = scale;
      ctx.globalAlpha = 0.35;
      ctx.setLineDash([3 * scale, 3 * scale]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + (crowded ? 8 * scale : bbox.height));
      ctx.stroke();
      ctx.setLineDash([]);
      ctx.globalAlpha = 1;
      // What was heard is below, what was simulated above.
      const [edge, way] = kind === "heard" ? [bbox.top + bbox.height, -1] : [bbox.top, 1];
      ctx.beginPath();
      ctx.moveTo(x - 4 * scale, edge);
      ctx.lineTo(x + 4 * scale, edge);
      ctx.lineTo(x, edge + 6 * scale * way);
      ctx.fill();
    }
    ctx.restore();
  };
}

// Of each series the row with a value that is nearest to time t.
function nearestOf(table, t) {
  const row = nearest(table[0], t);
  return table.map((values) => {
    for (let off = 0; off < values.length; off++) {
      const [before, behind] = [row - off, row + off];
      if (before >= 0 && values[before] != null) return before;
      if (behind < values.length && values[behind] != null) return behind;
    }
    return row;
  });
}

// Standard deviations of the noise: once for channels that have the same.
function noises(run, group, channels) {
  const found = [];
  for (const k of group.channels) {
    const sigma = finite(column(run.noise, k));
    const size = Math.max(...sigma.map((x) => x ?? 0));
    const same = found.find((one) => one.sigma.every((x, i) => Math.abs((x ?? sigma[i]) - (sigma[i] ?? x)) <= 1e-3 * size));
    if (!same) found.push({ sigma, name: `${channels[k].name}, ` });
    else same.sigma = same.sigma.map((x, i) => x ?? sigma[i]);
  }
  if (found.length === 1) found[0].name = "";
  return found;
}

function markColour(number) {
  const { alarm, bodies } = paint();
  return number ? bodies[(2 + number) % 6] : alarm;
}

// Stretches as bars at the bottom, one line for each complaint; single samples as rings.
function drawMarks(u, run, group, marks) {
  const { ctx, bbox } = u;
  const scale = window.devicePixelRatio || 1;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  marks.forEach((mark, number) => {
    ctx.strokeStyle = ctx.fillStyle = markColour(number);
    ctx.lineWidth = 1.5 * scale;
    const y = bbox.top + bbox.height - 5 * scale * (number + 1);
    for (const k of group.channels) {
      for (const [first, last] of mark.places[k]) {
        if (mark.stretch) {
          const [left, right] = [first, last].map((i) => u.valToPos(run.samples[i], "x", true));
          ctx.fillRect(left - scale, y, right - left + 2 * scale, 4 * scale);
          continue;
        }
        for (let i = first; i <= last; i++) {
          const off = run.residual.data[i * run.residual.width + k];
          ctx.beginPath();
          ctx.arc(u.valToPos(run.samples[i], "x", true), u.valToPos(off, "y", true), 5 * scale, 0, 2 * Math.PI);
          ctx.stroke();
        }
      }
    }
  });
  ctx.restore();
}

// The complaints in words, with the times of what is marked.
function complaints(run, group, marks, unit) {
  const list = document.createElement("ul");
  list.className = "complaints";
  marks.forEach((mark, number) => {
    const all = group.channels.flatMap((k) => mark.places[k]).sort((a, b) => a[0] - b[0]);
    // Stretches of several channels that overlap are one.
    const joint = [];
    for (const [first, last] of all) {
      if (joint.length && first <= joint.at(-1)[1]) joint.at(-1)[1] = Math.max(joint.at(-1)[1], last);
      else joint.push([first, last]);
    }
    const places = joint.map((ends) => [...new Set(ends.map((i) => short(run.samples[i])))].join(" to "));
    const more = places.length > 6 ? ` and ${places.length - 6} more` : "";
    const line = document.createElement("li");
    const sign = document.createElement("b");
    sign.textContent = mark.stretch ? "▬" : "○";
    sign.style.color = markColour(number);
    line.append(sign, `${mark.text} (at ${places.slice(0, 6).join(", ")}${more} ${unit})`);
    list.append(line);
  });
  return list;
}

class Charts {
  constructor(box, data, chosen) {
    this.box = box;
    this.data = data;
    this.chosen = chosen;
    this.plots = [];
    this.width = 0;
    // In the next frame: charts must not change their size while sizes are being told.
    new ResizeObserver(() => requestAnimationFrame(() => box.clientWidth !== this.width && this.fit())).observe(box);
  }

  show(run) {
    for (const plot of this.plots) plot.destroy();
    this.box.replaceChildren();
    this.plots = [];
    this.run = run;
    this.width = this.box.clientWidth;
    for (const group of this.data.groups) {
      this.values(run, group);
      if (run.samples && group.channels.some((k) => column(run.residual, k).some(Number.isFinite)))
        this.residuals(run, group);
    }
    this.mark(this.time ?? run.times[0]);
    // A new chart empties its legend at the end of this turn.
    requestAnimationFrame(() => this.mark(this.time));
  }

  // Measurements first: the fitted line runs over their dots, and neither hides the other.
  values(run, group) {
    const parts = [run.samples && this.dots(run, group), this.lines(run, group)].filter(
      (part) => part && part.series.length,
    );
    const series = parts.flatMap((part) => part.series);
    const bands = run.bands && this.fans(run, group, parts.at(-1), series);
    this.add(
      260,
      group.title,
      parts.map((part) => part.table),
      series,
      { down: group.down, bands, run },
    );
    if (group.channels.length > 8) this.box.lastElementChild.classList.add("many");
  }

  dots(run, group) {
    const seen = group.channels.filter((k) => column(run.measured, k).some(Number.isFinite));
    const size = run.samples.length > 1000 ? 4 : run.samples.length > 200 ? 5 : 6.5;
    const series = seen.map((k) => {
      const colour = `${paint().bodies[k % 6]}b0`;
      const points = { show: true, size, fill: colour, stroke: colour, width: 0 };
      return {
        label: `${this.data.channels[k].name}, measured`,
        stroke: colour,
        paths: () => null,
        points,
        value: told,
      };
    });
    return { table: [apart(run.samples), ...seen.map((k) => finite(column(run.measured, k)))], series };
  }

  lines(run, group) {
    const { ink, bodies } = paint();
    const series = group.channels.map((k) => ({
      label: this.data.channels[k].name + (run.samples ? ", fitted" : ""),
      class: run.samples ? "fit" : undefined,
      stroke: run.samples ? ink : bodies[k % 6],
      width: 1.3,
      pxAlign: 0,
      spanGaps: true,
      points: { show: false },
      // Between its rows, too, which are few where it is straight.
      value: (u) => {
        const t = u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : this.time;
        return told(u, t === undefined ? null : at(run.curve, placeIn(run.times, t), k));
      },
    }));
    return { table: [apart(run.times), ...group.channels.map((k) => finite(column(run.curve, k)))], series };
  }

  // Bands between edges that are no lines themselves; the edges are added to the table and to the series.
  fans(run, group, { table }, series) {
    return group.channels.flatMap((k) => {
      const first = series.length + 1;
      for (const band of run.bands) {
        table.push(finite(column(band, k)));
        series.push({ label: "", stroke: "transparent", points: { show: false }, spanGaps: true, class: "edge" });
      }
      const fill = paint().bodies[k % 6];
      return [
        { series: [first + 3, first], fill: `${fill}26` },
        { series: [first + 2, first + 1], fill: `${fill}40` },
      ];
    });
  }

  // Residuals over the band of the noise, and what the verdict complains of.
  residuals(run, group) {
    const colours = paint();
    const tables = [[apart(run.samples), ...group.channels.map((k) => finite(column(run.residual, k)))]];
    const marks = (run.marks || []).filter((mark) => group.channels.some((k) => mark.places[k].length));
    const bands = [];
    const series = group.channels.map((k) => ({
      label: `${this.data.channels[k].name}, measured − fitted`,
      stroke: colours.bodies[k % 6],
      width: 1,
      pxAlign: 0,
      points: { show: run.samples.length <= 400, size: 4 },
      value: told,
    }));
    for (const { sigma, name } of run.noise ? noises(run, group, this.data.channels) : []) {
      const edge = { stroke: colours.quiet, width: 0.8, dash: [4, 4], points: { show: false }, value: told };
      const fill = `${colours.quiet}26`;
      const last = series.length;
      tables[0].push(
        sigma.map((x) => (x === null ? null : 2 * x)),
        sigma.map((x) => (x === null ? null : -2 * x)),
      );
      series.push(
        { ...edge, spanGaps: true, class: "noise", label: `${name}± 2 standard deviations of the noise` },
        { ...edge, spanGaps: true, class: "edge", label: "" },
      );
      bands.push({ series: [last + 1, last + 2], fill });
    }
    const title = `off by${group.unit ? ` [${group.unit}]` : ""}`;
    const draw = [(u) => drawMarks(u, run, group, marks)];
    this.add(170 + 8 * marks.length, title, tables, series, { down: group.down, run, bands, draw });
    if (marks.length) this.box.lastElementChild.append(complaints(run, group, marks, this.data.time));
  }

  add(height, title, tables, series, { down, bands, run, draw = [] }) {
    const holder = document.createElement("div");
    holder.className = "chart";
    this.box.append(holder);
    const whole = [run.times[0], run.times[run.times.length - 1]];
    const options = chartOptions(this.box, height, title, `time [${this.data.time}]`, series, {
      down,
      bands,
      timed: true,
      x: { range: (u, low, high) => (low === high ? whole : [low, high]) },
      hooks: { drawClear: [eventTicks(run)], draw, setScale: [(u, key) => key === "x" && this.zoomed(u)] },
    });
    const plot = new uPlot(options, tables.length > 1 ? joined(tables) : tables[0], holder);
    plot.root.setAttribute("aria-label", `${title} against time; its legend has the values at the time shown`);
    plot.root.setAttribute("role", "group");
    const line = document.createElement("div");
    line.className = "now";
    plot.over.append(line);
    plot.now = line;
    plot.over.addEventListener("click", () => {
      if (plot.select.width < 3 && plot.cursor.left >= 0) this.chosen(plot.posToVal(plot.cursor.left, "x"));
    });
    this.plots.push(plot);
  }

  // Charts of one run show the same times.
  zoomed(from) {
    if (this.zooming) return;
    this.zooming = true;
    const { min, max } = from.scales.x;
    for (const plot of this.plots)
      if (plot !== from && (plot.scales.x.min !== min || plot.scales.x.max !== max)) plot.setScale("x", { min, max });
    this.zooming = false;
    this.mark(this.time);
  }

  mark(t) {
    this.time = t;
    for (const plot of this.plots) {
      const { min, max } = plot.scales.x;
      const part = (t - (min ?? this.run.times[0])) / ((max ?? this.run.times.at(-1)) - (min ?? this.run.times[0]));
      // Moved without painting the chart anew; its own width is the chart's.
      plot.now.style.transform = `translateX(${100 * part}%)`;
      plot.now.hidden = !(part >= 0 && part <= 1);
      // The legend has the values there, for whoever has no pointer: a series' own nearest sample.
      const shown = !plot.root.parentElement.classList.contains("many") && !(plot.cursor.left >= 0);
      if (shown) plot.setLegend({ idxs: nearestOf(plot.data, t) });
    }
  }

  fit() {
    this.width = this.box.clientWidth;
    for (const plot of this.plots) plot.setSize({ width: this.width, height: plot.height });
    this.mark(this.time);
  }
}
