"use strict";
// The page can be read without this script. It adds three things: the numbers of the group that is
// pointed at, the switch between classes, and sorting of the class table.
(() => {
  const byId = (id) => document.getElementById(id);
  const { geometry, pictures } = JSON.parse(byId("drawing").textContent);
  const make = (tag, text) => {
    const node = document.createElement(tag);
    node.textContent = text;
    return node;
  };

  // The same rounding as in diagram.py, so that both draw the same picture.
  const place = (value, limit, start, length) =>
    Math.floor(10 * (start + length * Math.min(value / limit, 1)) + 0.5) / 10;
  const digits = (value, n) => String(Number(value.toPrecision(n)));
  const percent = (share) => {
    const value = 100 * share;
    if (value > 0 && value < 0.001) return "<0.001%";
    return (value > 0 && value < 1 ? digits(value, 2) : value.toFixed(1).replace(/\.0$/, "")) + "%";
  };
  const range = (low, high) => `${percent(low)} to ${percent(high)}`;
  const rows = (count) => count.toLocaleString("en-US");

  let picture = pictures[0];
  let here = -1;
  const x = (i) => place(picture.said[i], picture.limit, geometry.left, geometry.side);
  const y = (value) => place(value, picture.limit, geometry.bottom, -geometry.side);
  const beyond = (i) =>
    picture.said[i] < picture.low_all[i] || picture.said[i] > picture.high_all[i];

  function paths() {
    const bins = [...picture.count.keys()];
    const largest = Math.max(...picture.count);
    const height = geometry.countsTop - geometry.countsBottom;
    const dot = (i) => `M${x(i)} ${y(picture.happened[i])}h0`;
    const edge = (values) => bins.map((i) => `${x(i)} ${y(values[i])}`);
    const outline = [...edge(picture.high_all), ...edge(picture.low_all).reverse()];
    const count = (i) => place(picture.count[i], largest, geometry.countsBottom, height);
    return {
      band: `M${outline.join("L")}Z`,
      bars: bins.map((i) => `M${x(i)} ${y(picture.low[i])}V${y(picture.high[i])}`).join(""),
      points: bins.map(dot).join(""),
      inner: bins.filter((i) => !beyond(i)).map(dot).join(""),
      counts: bins.map((i) => `M${x(i)} ${geometry.countsBottom}V${count(i)}`).join(""),
    };
  }

  function numbers(i) {
    return [
      ["predictions", `${picture.left[i]} to ${picture.right[i]}`],
      ["rows", rows(picture.count[i])],
      [picture.words[0], percent(picture.said[i])],
      [picture.words[1], percent(picture.happened[i])],
      ["range, by itself", range(picture.low[i], picture.high[i])],
      ["all at once", range(picture.low_all[i], picture.high_all[i])],
    ];
  }

  function draw() {
    for (const [id, d] of Object.entries(paths())) byId(id).setAttribute("d", d);
    for (let i = 0; i <= geometry.steps; i++) {
      const text = digits((100 * picture.limit * i) / geometry.steps, 3) + "%";
      for (const tick of document.querySelectorAll(`.tick-${i}`)) tick.textContent = text;
    }
    const [said, happened] = picture.words;
    byId("axis-said").textContent = `${said} →`;
    byId("axis-happened").textContent = `${happened} ↑`;
    const heads = byId("bin-table").tHead.rows[0].cells;
    [heads[2].textContent, heads[3].textContent] = picture.words;
    byId("largest-count").textContent = rows(Math.max(...picture.count));
    const off = [...picture.count.keys()].filter(beyond).length;
    byId("diagram-description").textContent =
      `Groups of rows: ${picture.count.length}; off by more than chance allows: ${off}.`;
    byId("bin-table").tBodies[0].replaceChildren(
      ...picture.count.map((_, i) => {
        const row = document.createElement("tr");
        row.append(...numbers(i).map(([, text], k) => make(k ? "td" : "th", text)));
        row.cells[0].scope = "row";
        return row;
      }),
    );
  }

  function point(i) {
    const next = Math.max(0, Math.min(i, picture.count.length - 1));
    if (next === here) return;
    here = next;
    const [top, bottom] = [geometry.bottom - geometry.side, geometry.countsBottom];
    byId("here").setAttribute("d", `M${x(here)} ${top}V${bottom}`);
    const list = document.createElement("dl");
    for (const [name, text] of numbers(here)) {
      const pair = document.createElement("div");
      pair.append(make("dt", name), make("dd", text));
      list.append(pair);
    }
    const verdict = beyond(here) ? "Off by more than chance allows." : "Within what chance allows.";
    byId("readout").replaceChildren(make("strong", verdict), list);
  }

  function clear() {
    here = -1;
    byId("here").setAttribute("d", "");
    const help = "Point at a group, or use the arrow keys on the diagram.";
    byId("readout").replaceChildren(help);
  }

  function nearest(event) {
    const svg = byId("diagram-svg");
    const spot = new DOMPoint(event.clientX, event.clientY).matrixTransform(
      svg.getScreenCTM().inverse(),
    );
    const above = spot.y <= geometry.bottom;
    let best = 0;
    let least = Infinity;
    for (let i = 0; i < picture.count.length; i++) {
      const rise = above ? y(picture.happened[i]) - spot.y : 0;
      const distance = (x(i) - spot.x) ** 2 + (rise / 3) ** 2;
      if (distance < least) [best, least] = [i, distance];
    }
    return best;
  }

  function show(i) {
    picture = pictures[i];
    draw();
    clear();
    const option = byId("switch").options[i];
    byId("switch").value = String(i);
    byId("shown-name").textContent = option.textContent;
  }

  function addPointing() {
    const svg = byId("diagram-svg");
    svg.setAttribute("tabindex", "0");
    svg.addEventListener("pointermove", (event) => point(nearest(event)));
    svg.addEventListener("pointerdown", (event) => point(nearest(event)));
    svg.addEventListener("keydown", (event) => {
      const last = picture.count.length - 1;
      const next = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: last }[event.key];
      if (next !== undefined) {
        event.preventDefault();
        point(next);
      } else if (event.key === "Escape") clear();
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
      button.title = "Show the diagram of this class";
      button.append(...cell.childNodes);
      button.addEventListener("click", () => {
        show(pictures.length - names.length + i);
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
})();
