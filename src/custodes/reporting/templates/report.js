"use strict";
(async () => {
  const bytes = Uint8Array.from(atob(document.getElementById("data").textContent), (letter) => letter.charCodeAt(0));
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = await new Response(inflated).json();
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const choice = {};

  // ---- rows of a table, from columns
  const reader = (column) =>
    column.codes ? (i) => (column.codes[i] < 0 ? null : column.labels[column.codes[i]]) : (i) => column[i];

  const filled = (text) => text.replace(/\{(\w+)\}/g, (whole, name) => (name in choice ? choice[name] : whole));

  function rows(name, where, fields) {
    const { rows: length, columns } = data.tables[name];
    const conditions = Object.entries(where).map(([names, wanted]) => {
      const value = filled(wanted);
      const readers = names.split("|").map((column) => reader(columns[column]));
      return (i) => readers.some((read) => read(i) === value);
    });
    const entries = Object.keys(fields).length
      ? Object.entries(fields).map(([to, from]) => [to, columns[filled(from)]])
      : Object.entries(columns);
    const readers = entries.filter(([, column]) => column).map(([to, column]) => [to, reader(column)]);
    const found = [];
    for (let i = 0; i < length; i++) {
      if (conditions.every((holds) => holds(i))) {
        found.push(Object.fromEntries(readers.map(([to, read]) => [to, read(i)])));
      }
    }
    return found;
  }

  const dependsOn = (...parts) =>
    new Set([...JSON.stringify(parts).matchAll(/\{(\w+)\}/g)].map((match) => match[1]));

  // ---- labels that a picture can hold, as `plots/drawable.py` has them: Vega looks labels up in plain objects, where
  // some names are taken; a browser shows nothing for a control character.
  const taken = new RegExp(`(?<!\\w)(${Object.getOwnPropertyNames(Object.prototype).join("|")})(?![\\w\u200b(])`, "g");
  const unshown = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufdd0-\ufdef\ufffe\uffff]/g;
  function drawable(part) {
    if (typeof part !== "string") return part;
    return part.replace(unshown, (letter) => {
      const code = letter.charCodeAt(0);
      return { "\r": "\\r", "\t": "\\t" }[letter]
        || (code < 256 ? "\\x" + code.toString(16).padStart(2, "0") : "\\u" + code.toString(16).padStart(4, "0"));
    }).replace(taken, "$1\u200b");
  }

  // ---- pictures
  const figures = data.figures.map((figure) => ({
    ...figure,
    needs: dependsOn(figure.where, figure.fields, figure.title),
    element: document.querySelector(`[data-figure="${figure.id}"]`),
  }));

  async function draw(figure) {
    const values = rows(figure.table, figure.where, figure.fields).map((row) =>
      Object.fromEntries(Object.entries(row).map(([name, value]) => [name, drawable(value)])));
    const label = data.labels[choice.statistic] || "";
    const spec = JSON.parse(JSON.stringify(figure.spec, (key, part) => drawable(part === "{statistic}" ? label : part)));
    spec.datasets = { rows: values };
    if (spec.width === "container") {
      spec.width = Math.max(260, figure.element.parentElement.clientWidth);
      spec.autosize = { type: "fit-x", contains: "padding" };
      if (figure.lines.length) {
        // Vega-Lite fits no picture whose height is a step, so the rows are counted here.
        const lines = new Set(values.flatMap((row) => figure.lines.map((column) => row[column])));
        spec.height = spec.height.step * Math.max(1, lines.size);
      }
    }
    const narrow = window.innerWidth < 640;
    const config = { ...data.config, axisY: { ...data.config.axisY, labelLimit: narrow ? 110 : 220 } };
    if (figure.view) figure.view.finalize();
    const empty = figure.element.parentElement.querySelector(".empty");
    const drawn = await window.vegaEmbed(figure.element, spec, { config, actions: false, renderer: "svg" });
    figure.view = drawn.view;
    const marks = figure.element.querySelectorAll("svg .role-mark:is(.mark-symbol, .mark-rect, .mark-line) path");
    empty.hidden = marks.length > 0;
    figure.element.hidden = marks.length === 0;
    figure.element.dataset.drawn = String(values.length);
  }

  // ---- tables of chosen rows
  const minus = (text) => text.replace(/^-(?=0(\.0*)?$)/, "").replace("-", "−");
  const decimal = (value, digits) => (value === null ? "–" : minus(value.toFixed(digits)));
  const share = (value) =>
    value === null ? "–" : value > 0 && value <= 0.005 ? "under 1\u00a0%"
      : value >= 0.995 && value < 1 ? "over 99\u00a0%" : `${Math.round(100 * value)}\u00a0%`;

  function cell(row, column) {
    const value = row[column.field];
    if (value === null || value === undefined) return column.kind === "text" ? "" : "–";
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (column.kind === "text") return String(value);
    const whole = (v) => String(v).replace(/\B(?=(\d{3})+$)/g, "\u202f");
    const show = column.kind === "int" ? whole : column.kind === "percent" ? share
      : (v) => decimal(v, column.kind === "p" ? 3 : 2);
    const sd = column.sd ? row[`${column.field}_sd`] : null;
    if (sd !== null && sd !== undefined) return `${show(value)} ± ${show(sd)}`;
    const low = column.interval ? row[`${column.field}_low`] : null;
    return low === null || low === undefined ? show(value)
      : `${show(value)} [${show(low)}, ${show(row[`${column.field}_high`])}]`;
  }

  function element(name, text, attributes = {}) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) if (value) made.setAttribute(key, value);
    return made;
  }

  const tables = data.chosen.map((table) => ({
    ...table,
    needs: dependsOn(table.where),
    element: document.querySelector(`[data-chosen="${table.id}"]`),
  }));

  // A comparison is told from the side of the chosen metric, whichever side the table has it on.
  function turned(row) {
    if (!("metric_b" in row) || row.metric_b !== choice.metric) return row;
    const back = (value) => (value === null ? null : -value);
    return { ...row, metric_a: row.metric_b, metric_b: row.metric_a, difference: back(row.difference),
      difference_low: back(row.difference_high), difference_high: back(row.difference_low) };
  }

  function fill(table) {
    const head = element("tr");
    for (const [i, column] of table.columns.entries()) {
      const kind = i === 0 || column.kind === "text" ? "" : "n";
      const cellElement = element("th", undefined, { scope: "col", class: kind, title: column.title });
      cellElement.append(element("button", column.label, { type: "button" }));
      head.append(cellElement);
    }
    const body = element("tbody");
    const found = rows(table.table, table.where, {}).map(turned);
    if (table.columns.some((column) => column.field === "position")) found.sort((a, b) => (a.position ?? 1e9) - (b.position ?? 1e9));
    for (const row of found) {
      const line = element("tr");
      table.columns.forEach((column, i) => {
        const kind = column.kind === "text" ? "" : "n";
        const made = i ? element("td", cell(row, column), { class: kind }) : element("th", cell(row, column), { scope: "row" });
        made.dataset.value = row[column.field] ?? "";
        line.append(made);
      });
      body.append(line);
    }
    const top = element("thead");
    top.append(head);
    table.element.replaceChildren(top, body);
    sortable(table.element);
  }

  function sortable(table) {
    const headers = all("thead th", table);
    headers.forEach((header, column) => {
      header.firstElementChild.addEventListener("click", () => {
        const down = header.getAttribute("aria-sort") !== "descending";
        headers.forEach((other) => other.removeAttribute("aria-sort"));
        header.setAttribute("aria-sort", down ? "descending" : "ascending");
        const lines = all("tbody tr", table);
        const keyed = lines.map((line) => [line, line.children[column].dataset.value]);
        const numeric = keyed.every(([, key]) => key === "" || !Number.isNaN(Number(key)));
        keyed.sort(([, a], [, b]) => {
          if (a === "" || b === "") return (a === "") - (b === "");
          const order = numeric ? Number(a) - Number(b) : a.localeCompare(b);
          return down ? -order : order;
        });
        table.tBodies[0].append(...keyed.map(([line]) => line));
      });
    });
  }

  // ---- choices
  function read() {
    for (const select of all("select[data-choice]")) choice[select.dataset.choice] = select.value;
    const pair = document.querySelector('select[data-choice="pair"]').selectedOptions[0];
    if (pair) [choice.system_a, choice.system_b] = [pair.dataset.a, pair.dataset.b];
  }

  function applyWords() {
    for (const line of all("[data-aspect]")) line.hidden = line.dataset.aspect !== choice.aspect;
    for (const line of all("[data-text]")) line.textContent = filled(line.dataset.text);
    for (const line of all("table.sortable tbody tr")) {
      const own = line.firstElementChild.dataset.value === choice.metric;
      if (own) line.setAttribute("aria-current", "true");
      else line.removeAttribute("aria-current");
    }
  }

  // Pictures wait in a set, so that a choice made while others are drawn is never lost and none is drawn twice at once.
  // What is folded has no width: it waits until somebody opens it.
  const waiting = new Set();
  let drawing = false;
  async function drawOpen() {
    if (drawing) return;
    drawing = true;
    delete document.body.dataset.ready;
    const next = () => [...waiting].find((figure) => !figure.element.closest("details:not([open])"));
    for (let figure = next(); figure; figure = next()) {
      waiting.delete(figure);
      await draw(figure);
      await new Promise((resolve) => setTimeout(resolve));
    }
    drawing = false;
    document.body.dataset.ready = "true";
  }

  function show(changed) {
    read();
    applyWords();
    const stale = (part) => !changed || changed.some((name) => part.needs.has(name));
    tables.filter(stale).forEach(fill);
    figures.filter(stale).forEach((figure) => waiting.add(figure));
    drawOpen();
  }

  function download(name, text, type) {
    const link = element("a", "", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  const quoted = (value) => (/[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);

  function csv(name) {
    const names = Object.keys(data.tables[name].columns);
    const lines = rows(name, {}, {}).map((row) => names.map((key) => quoted(String(row[key] ?? ""))).join(","));
    return [names.map(quoted).join(","), ...lines].join("\n") + "\n";
  }

  choice.aspect = data.tables["agreement.metrics"].columns.aspect.labels[0];
  choice.metric = data.tables["agreement.metrics"].columns.metric.labels[0];
  for (const select of all("select[data-choice]")) {
    const name = select.dataset.choice;
    const names = name === "pair" ? ["system_a", "system_b"] : [name];
    select.addEventListener("change", () => show(names));
  }
  for (const box of all("[data-more]")) {
    box.addEventListener("change", () =>
      document.querySelector(`#table-${box.dataset.more} table`).classList.toggle("all", box.checked));
  }
  for (const button of all("[data-csv]")) {
    button.addEventListener("click", () => download(`${button.dataset.csv}.csv`, csv(button.dataset.csv), "text/csv"));
  }
  for (const button of all("[data-json]")) {
    button.addEventListener("click", () => {
      const found = Object.fromEntries(data.downloads.map((name) => [name, rows(name, {}, {})]));
      download("report.json", JSON.stringify({ provenance: data.provenance, ...found }), "application/json");
    });
  }
  for (const fold of all("details")) fold.addEventListener("toggle", drawOpen);
  for (const button of all("[data-fold]")) {
    button.addEventListener("click", () => {
      for (const fold of all("details.section")) fold.open = Boolean(button.dataset.fold);
    });
  }
  function openTarget() {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    for (let part = target || null; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    if (target) target.scrollIntoView();
  }
  window.addEventListener("hashchange", openTarget);
  // a link to a part that was opened by it and closed since
  for (const link of all("nav a")) link.addEventListener("click", () => setTimeout(openTarget));
  // what is open is printed whole, what is folded is not
  window.addEventListener("beforeprint", () => all("details[open] details").forEach((part) => { part.open = true; }));
  let width = window.innerWidth;
  let settled = 0;
  window.addEventListener("resize", () => {
    clearTimeout(settled);
    settled = setTimeout(() => {
      if (window.innerWidth !== width) show(null);
      width = window.innerWidth;
    }, 200);
  });
  all("table.sortable").forEach(sortable);
  openTarget();
  show(null);
})();
