// The page: what is hidden without JavaScript appears. "#run=1&t=0.5" opens it at a moment of a run.

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const watch = document.getElementById("watch");
  if (!data.runs.length) return;
  watch.hidden = false;
  // What is folded away is printed, too; paper is white and as wide as it is.
  const printing = (on) => {
    document.documentElement.classList.toggle("printed", on);
    if (on) for (const details of document.querySelectorAll("details:not(.values)")) details.open = true;
    looks.dispatchEvent(new Event("change"));
  };
  addEventListener("beforeprint", () => printing(true));
  addEventListener("afterprint", () => printing(false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => looks.dispatchEvent(new Event("change")));
  const player = new Player(watch, data);
  const asked = new URLSearchParams(location.hash.slice(1));
  const number = Math.min(Math.max(Number(asked.get("run")) || 0, 0), data.runs.length - 1);
  player.choose(number);
  if (asked.has("t")) player.go(Number(asked.get("t")));
  else if (asked.get("go") === "impact") player.nextImpact();
  else if (asked.get("go") === "worst") player.worst();
  const numbers = document.getElementById("statistics");
  if (numbers)
    statistics(
      numbers,
      data,
      data.runs.map((run, i) => player.decoded(i)),
    );
  if (asked.has("open")) for (const details of document.querySelectorAll("details:not(.values)")) details.open = true;
  document.documentElement.classList.add("ready");
}

start();
