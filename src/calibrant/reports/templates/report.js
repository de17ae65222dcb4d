"use strict";
// The page can be read without this script. It adds three things: the numbers of the group that is
// pointed at, the switch between classes, and sorting of the class table.
(() => {
  const byId = (id) => document.getElementById(id);
  const curves = JSON.parse(byId("curves").textContent);
  const make = (tag, text) => {
    const node = document.createElement(tag);
    node.textContent = text;
    return node;
  };

  // Curves come with their paths and texts; this script only swaps them.
  const cellsOf = (row) => row.split("|").map((text) => text.replace("~", " to "));
  const svg = byId("diagram-svg");
  const part = (name) => svg.querySelector(`.${name}`);
  const heads = byId("bin-table").tHead.rows[0].cells;
  let curve = curves[0];
  let here = -1;
  const points = () =>
    [...curve.paths.points.matchAll(/M(\d+) (\d+)/g)].map(([, x, y]) => [Number(x), Number(y)]);

  function draw() {
    for (const [name, d] of Object.entries(curve.paths))
      for (const path of svg.querySelectorAll(`.${name}`)) path.setAttribute("d", d);
    curve.ticks.forEach((text, i) => {
      for (const tick of svg.querySelectorAll(`.tick-${i}`)) tick.textContent = text;
    });
    [heads[2].textContent, heads[3].textContent] = curve.words;
    part("axis-x").textContent = `${curve.words[0]} →`;
    part("axis-y").textContent = `${curve.words[1]} ↑`;
    [part("most-events").textContent, part("most-others").textContent] = curve.most;
    part("outcomes").textContent = curve.outcomes;
    byId("diagram-description").textContent = curve.description;
    byId("bin-table").tBodies[0].replaceChildren(
      ...curve.rows.map((cells) => {
        const row = document.createElement("tr");
        row.append(...cellsOf(cells).map((text, k) => make(k ? "td" : "th", text)));
        row.cells[0].scope = "row";
        return row;
      }),
    );
  }

  function point(i) {
    const next = Math.max(0, Math.min(i, curve.rows.length - 1));
    if (next === here) return;
    here = next;
    part("here").setAttribute("transform", `translate(${points()[here][0]})`);
    part("here").setAttribute("visibility", "visible");
    const list = document.createElement("dl");
    cellsOf(curve.rows[here]).forEach((text, k) => {
      const pair = document.createElement("div");
      pair.append(make("dt", heads[k].textContent), make("dd", text));
      list.append(pair);
    });
    const off = curve.beyond.includes(here);
    const verdict = off ? "Off by more than chance allows." : "Within what chance allows.";
    const worst = here === curve.worst ? "The group that matters most. " : "";
    byId("readout").replaceChildren(make("strong", worst + verdict), list);
  }

  function reset() {
    here = -1;
    point(curve.worst);
  }

  function nearest(event) {
    const spot = new DOMPoint(event.clientX, event.clientY).matrixTransform(
      svg.getScreenCTM().inverse(),
    );
    const isAmongCounts = spot.y > part("events").getBBox().y;
    let best = 0;
    let least = Infinity;
    points().forEach(([x, y], i) => {
      const rise = isAmongCounts ? 0 : y - spot.y;
      const distance = (x - spot.x) ** 2 + (rise / 3) ** 2;
      if (distance < least) [best, least] = [i, distance];
    });
    return best;
  }

  function show(i) {
    curve = curves[i];
    draw();
    reset();
    const option = byId("switch").options[i];
    byId("switch").value = String(i);
    byId("shown-name").textContent = option.textContent;
  }

  function addPointing() {
    svg.setAttribute("tabindex", "0");
    svg.addEventListener("pointermove", (event) => point(nearest(event)));
    svg.addEventListener("pointerdown", (event) => point(nearest(event)));
    svg.addEventListener("keydown", (event) => {
      const last = curve.rows.length - 1;
      const next = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: last }[event.key];
      if (next !== undefined) {
        event.preventDefault();
        point(next);
      } else if (event.key === "Escape") reset();
    });
  }

  function addSwitching() {
    const choice = byId("switch");
    if (!choice) return;
    choice.addEventListener("change", () => show(Number(choice.value)));
    const names = document.querySelectorAll("#class-table tbody th");
    names.forEach((cell, i) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = "Show this diagram";
      button.append(...cell.childNodes);
      button.addEventListener("click", () => {
        show(curves.length - names.length + i);
        byId("diagram").scrollIntoView();
        choice.focus({ preventScroll: true });
      });
      cell.append(button);
    });
  }

  function key(row, column, kind) {
    const text = row.cells[column].textContent;
    return kind === "number" ? parseFloat(text.replace(/[,<]/g, "")) : text;
  }

  const collator = new Intl.Collator("en", { numeric: true });

  function sort(table, column, kind, direction) {
    const body = table.tBodies[0];
    const sign = direction === "ascending" ? 1 : -1;
    const sorted = [...body.rows].map((row) => [key(row, column, kind), row]);
    sorted.sort(([a], [b]) => sign * (kind === "number" ? a - b : collator.compare(a, b)));
    body.append(...sorted.map(([, row]) => row));
    [...table.tHead.rows[0].cells].forEach((cell, i) => {
      if (i === column) cell.setAttribute("aria-sort", direction);
      else cell.removeAttribute("aria-sort");
    });
  }

  function addSorting() {
    const table = byId("class-table");
    if (!table) return;
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      const button = make("button", cell.textContent);
      button.type = "button";
      button.addEventListener("click", () => {
        const first = cell.dataset.sort === "number" ? "descending" : "ascending";
        const other = first === "ascending" ? "descending" : "ascending";
        const direction = cell.getAttribute("aria-sort") === first ? other : first;
        sort(table, column, cell.dataset.sort, direction);
      });
      cell.replaceChildren(button);
    });
    table.tHead.rows[0].cells[2].setAttribute("aria-sort", "descending");
  }

  document.documentElement.classList.add("scripted");
  addPointing();
  addSwitching();
  addSorting();
  reset();
})();
