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

  // ---- labels that a figure can display, as in `plots/drawable.py`: Vega uses labels as keys of plain objects, where
  // some names exist already, and a browser displays nothing for a control character.
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

  // ---- figures
  const figures = data.figures.map((figure) => ({
    ...figure,
    needs: dependsOn(figure.where, figure.fields, figure.title, figure.spec.params || []),
    element: document.querySelector(`[data-figure="${figure.id}"]`),
  }));

  // The title of an axis is broken into lines if it is longer than the plot. On a narrow screen, a
  // legend has one column.
  const LETTER = 6.6;
  function lines(title, room) {
    const most = Math.max(12, Math.floor(room / LETTER));
    const made = [""];
    for (const word of title.split(" ")) {
      const last = made[made.length - 1];
      if (last && last.length + 1 + word.length > most) made.push(word);
      else made[made.length - 1] = last ? `${last} ${word}` : word;
    }
    return made.length > 1 ? made : title;
  }

  function fitted(part, across, up, narrow) {
    if (Array.isArray(part)) return part.map((own) => fitted(own, across, up, narrow));
    if (part === null || typeof part !== "object") return part;
    const made = Object.fromEntries(Object.entries(part).map(([key, own]) => [key, fitted(own, across, up, narrow)]));
    for (const [channel, room] of [["x", across], ["y", up]]) {
      for (const own of [made[channel], made[channel] && made[channel].axis]) {
        if (own && typeof own.title === "string") own.title = lines(own.title, room);
      }
    }
    if (made.legend && narrow) Object.assign(made.legend, { columns: 1, labelLimit: across - 30 });
    return made;
  }

  async function draw(figure) {
    const values = rows(figure.table, figure.where, figure.fields).map((row) =>
      Object.fromEntries(Object.entries(row).map(([name, value]) => [name, drawable(value)])));
    const words = { "{statistic}": data.labels[choice.statistic] || "", "{metric}": choice.metric };
    const spec = JSON.parse(JSON.stringify(figure.spec, (key, part) =>
      drawable(Object.hasOwn(words, part) ? words[part] : part)));
    spec.datasets = { rows: values };
    if (spec.width === "container") {
      spec.width = Math.max(260, figure.element.parentElement.clientWidth);
      spec.autosize = { type: "fit-x", contains: "padding" };
      if (figure.lines.length) {
        // Vega-Lite cannot fit a figure with a height per row (a step), so the whole height is computed here.
        const lines = new Set(values.flatMap((row) => figure.lines.map((column) => row[column])));
        spec.height = spec.height.step * Math.max(1, lines.size);
      }
    }
    const narrow = window.innerWidth < 640;
    const wide = typeof spec.width === "number" ? spec.width : 1000;
    const axis = figure.lines.length ? (narrow ? 170 : 260) : 60;
    const shaped = fitted(spec, wide - axis, typeof spec.height === "number" ? spec.height : 1000, narrow);
    const config = { ...data.config, axisY: { ...data.config.axisY, labelLimit: narrow ? 165 : 220 },
      legend: { ...data.config.legend, ...(narrow ? { columns: 2 } : {}) } };
    if (figure.view) figure.view.finalize();
    const empty = figure.element.parentElement.querySelector(".empty");
    const drawn = await window.vegaEmbed(figure.element, shaped, { config, actions: false, renderer: "svg" });
    figure.view = drawn.view;
    const marks = figure.element.querySelectorAll("svg .role-mark:is(.mark-symbol, .mark-rect, .mark-line) path");
    empty.hidden = marks.length > 0;
    figure.element.hidden = marks.length === 0;
    figure.element.dataset.drawn = String(values.length);
  }

  // ---- tables of chosen rows
  const minus = (text) => text.replace(/^-(?=0(\.0*)?$)/, "").replace("-", "−");
  // as in `column_digits` in `answers/wording.py`: two significant digits of the width of the narrowest interval
  const behind = (size, least) => Math.min(10, Math.max(least, 1 - Math.floor(Math.log10(size))));
  const isNumber = (value) => typeof value === "number";
  function columnDigits(found, column) {
    const ends = column.interval ? ["_low", "_high"] : column.sd ? ["_sd"] : [];
    const fields = ["", ...ends].map((end) => column.field + end);
    const sizes = found.flatMap((row) => fields.map((field) => row[field])).filter(isNumber).map(Math.abs);
    if (sizes.every((size) => size % 1 === 0)) return 0;
    const largest = sizes.reduce((a, b) => Math.max(a, b));
    const least = largest >= 1000 ? 0 : largest >= 10 ? 1 : 2;
    const intervals = column.interval ? found.map((row) => fields.map((field) => row[field])).filter((row) => row.every(isNumber)) : [];
    const widths = intervals.map(([, low, high]) => {
      const width = Number((high - low).toPrecision(3));
      return width > 1e-9 * Math.max(Math.abs(low), Math.abs(high)) ? width : 0;
    }).filter((width) => width > 0).sort((a, b) => a - b);
    if (!widths.length) return least;
    const digits = Math.min(behind(widths[0], least), behind(widths[(widths.length - 1) >> 1], least) + 1);
    const readsAsZero = ([, low, high]) => low * high > 0 && Math.min(Math.abs(low), Math.abs(high)) < 0.5 * 10 ** -digits;
    return digits + (intervals.some(readsAsZero) ? 1 : 0);
  }
  const decimal = (value, digits) => {
    if (value === null) return "–";
    const size = Math.abs(value);
    return minus(value.toFixed(size >= 1e-9 && size < 0.5 * 10 ** -digits ? behind(size, digits) : digits));
  };
  const share = (value, digits) => {
    if (value === null) return "–";
    const after = Math.max(0, digits - 2);
    const step = 10 ** -after;
    return value > 0 && value <= step / 200 ? `under ${step.toFixed(after)}\u00a0%`
      : value >= 1 - step / 200 && value < 1 ? `over ${(100 - step).toFixed(after)}\u00a0%`
        : `${(100 * value).toFixed(after)}\u00a0%`;
  };
  const pValue = (value) => (value <= 0.001 ? "≤ .001" : value.toFixed(3).replace(/^0/, ""));

  function cell(row, column, digits) {
    const value = row[column.field];
    if (value === null || value === undefined) return column.kind === "text" ? "" : "–";
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (column.kind === "text") return String(value);
    const whole = (v) => String(v).replace(/\B(?=(\d{3})+$)/g, "\u202f");
    const show = { int: whole, percent: share, p: pValue }[column.kind] || decimal;
    const sd = column.sd ? row[`${column.field}_sd`] : null;
    if (isNumber(sd)) return `${show(value, digits)}\u00a0±\u00a0${show(sd, digits)}`;
    const [low, high] = column.interval ? [row[`${column.field}_low`], row[`${column.field}_high`]] : [];
    if (!isNumber(low) || !isNumber(high)) return show(value, digits);
    const rounded = (number) => (low < 0 && high > 0 ? Number(number.toFixed(digits)) : number);
    const [estimate, from, to] = [value, low, high].map((number) => show(rounded(number), digits));
    return `${estimate} [${from},\u00a0${to}]`;
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

  // If the chosen metric is the second metric of a comparison, the two metrics are exchanged.
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
    const digits = table.columns.map((column) => columnDigits(found, column));
    for (const row of found) {
      const line = element("tr");
      table.columns.forEach((column, i) => {
        const kind = column.kind === "text" ? "" : "n";
        const text = cell(row, column, digits[i]);
        const made = i ? element("td", text, { class: kind }) : element("th", text, { scope: "row" });
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

  // The number of visible rows is displayed next to the caption of a table, since a selection may hide some rows.
  function count(section) {
    const shown = all("tbody tr", section).filter((line) => !line.hidden).length;
    section.querySelector(".count").textContent = shown === 1 ? "1 row" : `${shown} rows`;
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
    const pair = document.querySelector('select[data-choice="pair"]')?.selectedOptions[0];
    if (pair) [choice.system_a, choice.system_b] = [pair.dataset.a, pair.dataset.b];
  }

  function applyWords() {
    for (const line of all("[data-aspect]")) line.hidden = line.dataset.aspect !== choice.aspect;
    for (const line of all("[data-text]")) line.textContent = filled(line.dataset.text);
    for (const table of all("table.sortable")) {
      const lines = all("tbody tr", table);
      const chosen = lines.filter((line) => line.firstElementChild.dataset.value === choice.metric);
      for (const line of lines) line.removeAttribute("aria-current");
      if (chosen.length < lines.length) for (const line of chosen) line.setAttribute("aria-current", "true");
    }
  }

  // Figures wait in a set, so that a selection during drawing is not lost, and no figure is drawn twice at a time. A
  // figure in a closed section has no width, so it waits until the section is opened.
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
    all("section.table").forEach(count);
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

  choice.aspect = data.aspects[0];
  choice.metric = data.metrics[0] || "";
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
  // A link opens its section again if the section was closed, although the hash of the page does not change.
  for (const link of all("nav a")) link.addEventListener("click", () => setTimeout(openTarget));
  // Open sections are printed with all their details. Closed sections are not opened.
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
