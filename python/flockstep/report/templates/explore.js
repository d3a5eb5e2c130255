// What the page can do beyond being read: tell the value below the pointer or, by arrow keys, that of the next point; light
// up a series everywhere; hide one by its legend; sort a table by a column. Without a script the page has all the same content.
"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const made = (tag, name, ...inside) => {
    const element = document.createElement(tag);
    element.className = name;
    element.append(...inside);
    return element;
  };
  const readable = (value) => Math.abs(value) >= 1000 && Math.abs(value) < 1e9
    ? value.toFixed(0) : String(Number(value.toPrecision(4)));

  // Series, by name: light up one of them in every picture and table row that has it.
  const members = new Map();
  for (const element of all("[data-series]")) {
    const name = element.dataset.series;
    members.set(name, [...(members.get(name) || []), element]);
  }
  let lit = null;
  function light(name) {
    if (name === lit) return;
    for (const element of all(".lit, .lights")) element.classList.remove("lit", "lights");
    lit = name;
    for (const element of members.get(name) || []) {
      element.classList.add("lit");
      element.closest("svg.plot")?.classList.add("lights");
    }
  }
  for (const element of all(".legend [data-series], table [data-series], .panels [data-series]")) {
    element.addEventListener("pointerenter", () => light(element.dataset.series));
    element.addEventListener("pointerleave", () => light(null));
  }

  // Legends whose entries are buttons. A series is hidden in all pictures that have a legend with it.
  const hidden = new Set();
  const legends = all("figure").filter((figure) => figure.querySelector(".legend"));
  function toggle(name) {
    hidden.has(name) ? hidden.delete(name) : hidden.add(name);
    for (const figure of legends) {
      for (const element of all("svg [data-series]", figure))
        element.classList.toggle("off", hidden.has(element.dataset.series));
      for (const entry of all(".legend [data-series]", figure))
        entry.firstElementChild.setAttribute("aria-pressed", String(!hidden.has(entry.dataset.series)));
    }
  }
  for (const entry of all(".legend [data-series]")) {
    const button = made("button", "", ...entry.childNodes);
    button.type = "button";
    button.title = "hide or show";
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => toggle(entry.dataset.series));
    button.addEventListener("focus", () => light(entry.dataset.series));
    button.addEventListener("blur", () => light(null));
    entry.append(button);
  }

  // Values. A mark is a point of a line, a bar or a cell; x and y are its place within the picture's own coordinates.
  const tip = made("div", "tip");
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.append(tip);
  let leaveLast = () => {};  // the picture that was asked last
  document.addEventListener("pointerdown", (event) => event.target.closest("svg.plot") || leaveLast());

  function pointsOf(svg) {
    const [left, top, width, height] = svg.dataset.frame.split(" ").map(Number);
    const range = svg.dataset.range.split(" ").map(Number);
    const scales = svg.dataset.scales.split(" "), names = svg.dataset.xNames?.split("\n");
    const share = (value, axis) => {
      const scaled = scales[axis] === "log" ? Math.log : (each) => each;
      const [low, high] = range.slice(2 * axis, 2 * axis + 2).map(scaled);
      return (scaled(value) - low) / (high - low);
    };
    return all("[data-y]", svg).flatMap((series) => {
      const across = series.dataset.x.split(" ").map(Number);
      const up = series.dataset.y.split(" ").map(Number);
      return across.map((x, index) => ({
        series, x: left + width * share(x, 0), y: top + height * (1 - share(up[index], 1)),
        lines: [`${svg.dataset.yName}: ${readable(up[index])}`, `${svg.dataset.xName}: ${names ? names[x] : readable(x)}`],
      })).filter((mark) => mark.x >= left - 1 && mark.x <= left + width + 1 &&
        mark.y >= top - 1 && mark.y <= top + height + 1);
    });
  }
  function boxesOf(svg) {
    return all(".series > title", svg).map((title) => title.parentElement).filter((series) => !series.dataset.y)
      .map((series) => {
        const box = series.getBBox();
        return {series, box, x: box.x + box.width / 2, y: box.y + box.height / 2,
          lines: [series.querySelector("title").textContent]};
      });
  }
  function cellsOf(svg) {
    const cells = svg.querySelector("[data-cells]");
    if (!cells) return [];
    const values = cells.dataset.cells.split(" ");
    const size = Math.sqrt(values.length), box = cells.getBBox();
    return values.map((value, index) => ({value, row: Math.floor(index / size), column: index % size}))
      .filter((cell) => cell.value !== "-").map(({value, row, column}) => {
        const width = box.width / size, height = box.height / size;
        const place = {x: box.x + column * width, y: box.y + row * height, width, height};
        return {series: cells, box: place, x: place.x + width / 2, y: place.y + height / 2,
          lines: [`workers ${row} and ${column}`, `cosine: ${value}`]};
      });
  }
  const NEAR = 40, BESIDE = 5;  // how far from a point and from a bar the pointer may be
  function distance(mark, x, y) {
    if (!mark.box) return Math.hypot(mark.x - x, mark.y - y);
    const outside = (at, low, size) => Math.max(low - at, 0, at - low - size);
    return Math.hypot(outside(x, mark.box.x, mark.box.width), outside(y, mark.box.y, mark.box.height));
  }

  for (const svg of all("svg.plot")) {
    let marks = null, at = -1, dot = null;
    const visible = () => marks.filter((mark) => !mark.series.classList.contains("off"));
    function prepare() {
      if (marks) return;
      marks = [...(svg.dataset.frame ? pointsOf(svg) : []), ...boxesOf(svg), ...cellsOf(svg)];
      for (const title of all("title", svg)) title.remove();  // the browser would show it beside ours
      dot = document.createElementNS(svg.namespaceURI, "circle");
      dot.setAttribute("class", "dot");
      dot.setAttribute("r", "3.5");
      dot.style.display = "none";
      svg.append(dot);
    }
    function show(mark) {
      leaveLast();
      leaveLast = leave;
      at = marks.indexOf(mark);
      const point = new DOMPoint(mark.x, mark.y).matrixTransform(svg.getScreenCTM());
      dot.style.display = mark.box ? "none" : "";
      dot.setAttribute("cx", mark.x);
      dot.setAttribute("cy", mark.y);
      const name = mark.box ? "" : mark.series.dataset.series;
      tip.replaceChildren(...(name ? [made("b", "", name)] : []), ...mark.lines.map((line) => made("span", "", line)));
      tip.hidden = false;
      const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
      const above = point.y - tip.offsetHeight - 10;
      tip.style.left = `${scrollX + Math.max(8, Math.min(point.x - tip.offsetWidth / 2, room))}px`;
      tip.style.top = `${scrollY + (above >= 0 ? above : point.y + 14)}px`;
      light(mark.series.dataset.series || null);
    }
    function leave() {
      tip.hidden = true;
      if (dot) dot.style.display = "none";
      light(null);
    }
    function ask(event) {
      prepare();
      const {x, y} = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const away = (mark) => distance(mark, x, y);
      const near = visible().filter((mark) => away(mark) <= (mark.box ? BESIDE : NEAR));
      if (near.length) show(near.reduce((best, mark) => (away(mark) < away(best) ? mark : best)));
      else leave();
    }
    svg.addEventListener("pointermove", ask);
    svg.addEventListener("pointerdown", ask);
    svg.addEventListener("pointerleave", (event) => event.pointerType === "touch" || leave());  // a finger has left its tip

    // Left and right along a series, up and down to the next one.
    function next(step, between) {
      const shown = visible();
      const here = marks[at];
      if (!here || !shown.includes(here)) return shown[0];
      if (!between) {
        const own = shown.filter((mark) => mark.series === here.series);
        const place = own.indexOf(here) + step;
        if (own.length > 1) return own[Math.max(0, Math.min(place, own.length - 1))];
      }
      const others = [...new Set(shown.map((mark) => mark.series))];
      const series = others[(others.indexOf(here.series) + step + others.length) % others.length];
      return shown.filter((mark) => mark.series === series)
        .reduce((best, mark) => (!best || Math.abs(mark.x - here.x) < Math.abs(best.x - here.x) ? mark : best), null);
    }
    const KEYS = {ArrowRight: [1, false], ArrowLeft: [-1, false], ArrowDown: [1, true], ArrowUp: [-1, true]};
    svg.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return leave();
      if (!(event.key in KEYS)) return;
      prepare();
      const mark = next(...KEYS[event.key]);
      if (!mark) return;
      event.preventDefault();
      show(mark);
    });
    svg.addEventListener("blur", leave);
    svg.setAttribute("tabindex", "0");
  }

  // Tables. A first click sorts upwards, a second downwards, a third brings back the order in which they came.
  const UNITS = {us: 1e-6, "µs": 1e-6, ms: 1e-3, min: 60, h: 3600};
  const numberOf = (cell) => {
    const text = cell.replace(/^[[(]/, "");
    const found = text.match(/^[-−+]?[\d.]+(?:e[-+]?\d+)?/i);
    if (!found) return NaN;
    const unit = text.slice(found[0].length).trim().split(/\s/)[0];
    return parseFloat(found[0].replace("−", "-")) * (UNITS[unit] || 1);
  };
  for (const table of all("table.numbers")) {
    const heads = all("th", table), body = table.tBodies[0], rows = [...body.rows];
    heads.forEach((head, column) => {
      const textOf = (row) => row.cells[column].textContent.trim();
      const isNumeric = rows.filter((row) => !Number.isNaN(numberOf(textOf(row)))).length * 2 > rows.length;
      const button = made("button", "", ...head.childNodes);
      button.type = "button";
      head.append(button);
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const turn = before === "ascending" ? -1 : before === "descending" ? 0 : 1;
        for (const each of heads) each.removeAttribute("aria-sort");
        if (turn) head.setAttribute("aria-sort", turn > 0 ? "ascending" : "descending");
        const compare = (one, other) => {
          if (!isNumeric) return turn * textOf(one).localeCompare(textOf(other));
          const [a, b] = [one, other].map((row) => numberOf(textOf(row)));
          return Number.isNaN(a) || Number.isNaN(b) ? Number.isNaN(a) - Number.isNaN(b) : turn * (a - b);
        };
        body.append(...(turn ? [...rows].sort(compare) : rows));
      });
    });
  }
})();
