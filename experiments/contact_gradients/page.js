"use strict";
// Four charts of the problem that is chosen: errors of state and Jacobian, over the step and over the time it took.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const choice = document.getElementById("problem");
  const LEAST = 1e-17; // what is exact stands here
  const CHARTS = [
    ["h", "state", "step [s]", "error of the state"],
    ["h", "jacobian", "step [s]", "error of the Jacobian"],
    ["seconds", "state", "time [s]", "error of the state"],
    ["seconds", "jacobian", "time [s]", "error of the Jacobian"],
  ];

  function paint(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  // One row per x, one column per engine: its better way to a derivative at each step.
  function table(rows, x, y) {
    const engines = data.engines.filter((engine) => rows.some((row) => row.peer === engine));
    const points = rows.filter((row) => row[y] !== null && row[x] > 0);
    const xs = [...new Set(points.map((row) => row[x]))].sort((a, b) => a - b);
    const columns = engines.map((engine) =>
      xs.map((at) => {
        const found = points.filter((row) => row.peer === engine && row[x] === at).map((row) => row[y]);
        return found.length ? Math.max(Math.min(...found), LEAST) : null;
      }),
    );
    return { engines, columns: [xs, ...columns] };
  }

  function chart(box, rows, [x, y, across, up]) {
    const { engines, columns } = table(rows, x, y);
    const power = (s) => s && Math.abs(Math.log10(s) - Math.round(Math.log10(s))) < 1e-6;
    const line = { stroke: paint("--line"), width: 1, filter: (u, splits) => splits.map((s) => (power(s) ? s : null)) };
    const axis = { stroke: paint("--ink"), grid: line, ticks: line };
    const powers = (u, splits) => splits.map((s) => (power(s) ? s.toExponential(0) : ""));
    const series = engines.map((engine) => {
      const number = data.engines.indexOf(engine);
      return {
        label: engine,
        stroke: paint(`--c${number % 6}`),
        width: 1.6,
        dash: number < 6 ? [] : number < 12 ? [7, 4] : [2, 3],
        points: { show: true, size: 7 },
        spanGaps: true,
        value: (u, v) => (v === null ? "–" : v.toExponential(1)),
      };
    });
    return new uPlot(
      {
        width: Math.max(box.clientWidth, 200),
        height: 300,
        scales: { x: { time: false, distr: 3 }, y: { distr: 3 } },
        axes: [
          { ...axis, label: across, values: powers, size: 34, labelSize: 20 },
          { ...axis, label: up, values: powers, size: 64, labelSize: 20 },
        ],
        series: [{ label: across, value: (u, v) => (v === null ? "–" : v.toPrecision(2)) }, ...series],
      },
      columns,
      box,
    );
  }

  function draw() {
    const problem = data.problems.find((one) => one.name === choice.value);
    const rows = data.rows.filter((row) => row.problem === problem.name);
    document.getElementById("about").textContent = problem.about;
    const place = document.getElementById("charts");
    place.replaceChildren();
    for (const kind of CHARTS) {
      const box = place.appendChild(document.createElement("div"));
      box.className = "chart";
      if (rows.length) chart(box, rows, kind);
    }
  }

  for (const { name, title } of data.problems) choice.add(new Option(title, name));
  choice.addEventListener("change", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("resize", draw);
  draw();
})();
