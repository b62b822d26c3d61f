// What the residuals look like as noise, where the starts ended, and profiles that were computed.

const LAGS = 40;

function statistics(root, data, runs) {
  const measured = runs.filter((run) => run.samples && column(run.residual, 0).length > 20);
  if (measured.length) residualNoise(root, data, measured);
  if (data.starts.length > 1) startsOf(root, data.starts);
  if (data.profiles.length) profilesOf(root, data.profiles);
}

function section(root, title, text) {
  const details = document.createElement("details");
  const box = document.createElement("div");
  details.innerHTML = "<summary></summary><p class=small></p>";
  details.querySelector("summary").textContent = title;
  details.querySelector("p").textContent = text;
  box.className = "small-charts";
  details.append(box);
  root.append(details);
  return { details, box };
}

// Charts need their width, which they have once they are seen.
function whenOpen(details, box, draw) {
  const anew = () => {
    if (!details.open) return;
    box.replaceChildren();
    draw();
  };
  details.addEventListener("toggle", anew);
  looks.addEventListener("change", anew);
}

function residualNoise(root, data, runs) {
  const { details, box } = section(
    root,
    "Residuals as noise",
    "How large they are, in their own scatter, beside a normal distribution; and how alike residuals are that are so many samples apart: noise without memory stays within the lines.",
  );
  box.classList.add("pairs");
  whenOpen(details, box, () => {
    data.channels.forEach((channel, k) => {
      const series = runs.map((run) => scaled(column(run.residual, k))).filter((off) => off.some(Number.isFinite));
      if (series.length) {
        histogram(box, channel.name, series.flat().filter(Number.isFinite));
        correlogram(box, channel.name, series);
      }
    });
  });
}

function scaled(off) {
  const known = off.filter(Number.isFinite);
  const size = Math.sqrt(known.reduce((sum, x) => sum + x * x, 0) / known.length) || 1;
  return off.map((x) => x / size);
}

function histogram(box, name, values) {
  const width = 0.25;
  const edges = Array.from({ length: 33 }, (_, i) => -4 + width * i);
  const share = edges.map(
    (x) =>
      values.filter((v) => Math.abs(Math.min(Math.max(v, -4), 4) - x) <= width / 2).length / (values.length * width),
  );
  const normal = edges.map((x) => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI));
  small(box, `${name}, residuals / their scatter`, "share", [edges, share, normal], [bars(), line("normal")]);
}

// The mean over the runs of the correlation at each lag; few pairs are so far apart in a short run.
function correlogram(box, name, series) {
  const longest = Math.max(...series.map((off) => off.filter(Number.isFinite).length));
  const lags = Array.from({ length: Math.min(LAGS, Math.floor(longest / 4)) + 1 }, (_, lag) => lag);
  const mean = lags.map((lag) => {
    let [sum, count] = [0, 0];
    for (const off of series) {
      for (let i = lag; i < off.length; i++) {
        const product = off[i] * off[i - lag];
        if (Number.isFinite(product)) [sum, count] = [sum + product, count + 1];
      }
    }
    return count ? sum / count : null;
  });
  const bound = 1.96 / Math.sqrt(series.flat().filter(Number.isFinite).length);
  const flat = (x) => lags.map(() => x);
  small(
    box,
    `${name}, samples apart`,
    "correlation",
    [lags, mean, flat(bound), flat(-bound)],
    [bars(), line("95 %"), line("95 %")],
  );
}

function startsOf(root, starts) {
  const { details, box } = section(
    root,
    "Where the starts ended",
    "The final cost from every start, sorted: a level stretch at the left is one minimum that many found.",
  );
  const points = { label: "cost", stroke: paint().bodies[0], width: 1, points: { show: true, size: 5 } };
  whenOpen(details, box, () =>
    small(box, "start", "cost", [starts.map((_, i) => i + 1), starts], [points], { y: { distr: 3 } }),
  );
}

function profilesOf(root, profiles) {
  const { details, box } = section(
    root,
    "Profiles",
    "How much worse the fit gets, in squared standard errors, when one parameter is held and the others are fitted anew; a parabola where the curvature is right. The interval reaches up to the line.",
  );
  whenOpen(details, box, () => {
    for (const profile of profiles) {
      const [values, rise] = [column(unpacked(profile.values), 0), column(unpacked(profile.rise), 0)];
      // What is far above the line would flatten the rest.
      const near = (x, i) => rise[i] <= 4 * profile.level;
      const [x, y] = [values.filter(near), rise.filter(near)];
      const points = { show: true, size: 6 };
      const found = { label: "rise", stroke: paint().bodies[0], points, paths: uPlot.paths.spline() };
      small(box, profile.name, "rise", [x, y, x.map(() => profile.level)], [found, line("95 %")]);
    }
  });
}

function bars() {
  const colour = paint().bodies[0];
  return {
    label: "",
    stroke: colour,
    fill: `${colour}80`,
    paths: uPlot.paths.bars({ size: [0.8, 30] }),
    points: { show: false },
  };
}

function line(label) {
  return { label, stroke: paint().ink, width: 1.2, points: { show: false } };
}

function small(box, x, y, table, series, scales = {}) {
  const holder = document.createElement("div");
  holder.className = "chart";
  holder.dataset.last = table[0].at(-1);
  const cell = document.createElement("div");
  cell.className = "cell";
  cell.append(holder, numbersOf(x, y, table, series));
  box.append(cell);
  const options = chartOptions(holder, 220, y, x, series, { ...scales, xLabel: "" });
  options.legend = { show: false };
  options.cursor = { show: false };
  const plot = new uPlot(options, table, holder);
  new ResizeObserver(() =>
    requestAnimationFrame(() => holder.clientWidth && plot.setSize({ width: holder.clientWidth, height: 220 })),
  ).observe(holder);
}

// What a chart shows, as a table that unfolds.
function numbersOf(x, y, table, series) {
  const details = document.createElement("details");
  details.className = "values";
  details.innerHTML = "<summary></summary><div class=scroll tabindex=0 role=region><table></table></div>";
  details.querySelector("summary").textContent = `${y} by ${x}, as a table`;
  details.querySelector(".scroll").setAttribute("aria-label", `${y} by ${x}`);
  const rows = [[x, ...series.map((one) => one.label || y)], ...table[0].map((_, i) => table.map((values) => values[i]))];
  rows.forEach((row, i) => {
    const line = details.querySelector("table").insertRow();
    for (const value of row) {
      const cell = document.createElement(i ? "td" : "th");
      cell.textContent = i ? told(null, value) : value;
      line.append(cell);
    }
  });
  return details;
}
