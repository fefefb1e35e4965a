// Shortcut keys, measurement of visible time, page updates without a reload, and storage of answers while there is no
// connection. The site also works without this script.
"use strict";
const $ = (query, from = document) => from.querySelector(query);
const now = () => performance.now();
const say = (text) => { $("#status").textContent = text; };
const later = (seconds) => new Promise((done) => { setTimeout(done, seconds * 1000); addEventListener("online", done, { once: true }); });
let asked, shown = 0, since = 0, spent = 0, busy = false, timer;

function begin() {
  const ask = $("[data-assignment]")?.dataset.assignment, again = $("[data-refresh]")?.dataset.refresh;
  if (!ask || ask !== asked) { asked = ask; spent = 0; shown = since = now(); }
  clearTimeout(timer);
  if (again) timer = setTimeout(() => send(location.pathname), again * 1000);
}

function seconds() {
  if (!document.hidden) spent += now() - since;
  since = now();
  return (spent / 1000).toFixed(2);
}

async function send(address, options, stay) {
  if (busy) return;
  busy = true;
  for (let pause = 1; ; pause = Math.min(2 * pause, 30)) {
    const reply = await fetch(address, options).catch(() => 0);
    const text = reply && reply.status < 500 && ![408, 429].includes(reply.status) && await reply.text().catch(() => 0);
    const made = text && new DOMParser().parseFromString(text, "text/html");
    if (made && $("#status[data-kept]", made) && $("#page", made)) { // not the page of a proxy, or of a network that asks for a login
      swap(made, stay);
      break;
    }
    say($("#status").dataset[options ? "kept" : "offline"]);
    await later(pause);
  }
  busy = false;
}

function swap(made, stay) {
  say($("#status", made).textContent);
  if (stay) return;
  document.title = made.title;
  $("#page").replaceWith($("#page", made));
  begin();
  scrollTo(0, 0);
  $("h1").focus({ preventScroll: true });
}

// A double click must not answer a question that nobody has read. An answer that comes this soon is not sent, and a
// message says so.
function early() {
  if (!busy && now() - shown < 600) say($("#status").dataset.early);
  return busy || now() - shown < 600;
}

addEventListener("submit", (event) => {
  const form = event.target, how = form.dataset.swap, by = event.submitter;
  if (how === undefined) return;
  event.preventDefault();
  if (how === "ask" ? early() : busy) return;
  const body = new URLSearchParams(new FormData(form));
  if (by?.name) body.set(by.name, by.value);
  body.set("seconds", seconds());
  if (how === "stay") { form.reset(); form.parentNode.open = false; }
  by?.classList.add("sent");
  send(form.action, { method: "POST", body }, how === "stay");
});

addEventListener("keydown", (event) => {
  const on = event.target, digit = /^Digit(\d)$/.exec(event.code)?.[1] ?? event.key;
  if (event.repeat || event.ctrlKey || event.altKey || event.metaKey || $("#dialog").open) return;
  if (on.matches("textarea, input:not([type=radio], [type=checkbox])") || (/^Arrow/.test(digit) && on.matches("input, .context"))) return;
  const open = [...document.querySelectorAll(".bar fieldset")].filter((set) => !$(":checked", set));
  const choice = open[0] && $(`[data-key~="${CSS.escape(digit)}"]`, open[0]);
  if (!choice) return;
  event.preventDefault();
  if (early()) return;
  choice.click();
  if (choice.type === "radio") (open[1] ?? $(".next .main")).scrollIntoView({ block: "nearest" });
  if (choice.type === "radio" && !open[1]) $(".next .main").focus();
});

addEventListener("click", async (event) => {
  const link = event.target.closest("a"), copy = event.target.dataset?.copy;
  if (link?.dataset.swap !== undefined) { event.preventDefault(); send(link.href); }
  if (link?.dataset.dialog !== undefined) {
    event.preventDefault();
    const page = await fetch(link.href).then((reply) => reply.text()).catch(() => "");
    const how = $(".how", new DOMParser().parseFromString(page, "text/html"));
    if (!how) return location.assign(link.href);
    $("#inside").replaceChildren(how);
    $("#dialog").showModal();
  }
  if (copy) {
    const field = document.getElementById(copy);
    field.select();
    if (!document.execCommand("copy")) await navigator.clipboard.writeText(field.value);
    say($("#status").dataset.copied);
  }
});

addEventListener("input", ({ target }) => {
  if (target.type === "range") target.nextElementSibling.value = target.value;
  if (target.type === "number" && target.previousElementSibling) target.previousElementSibling.value = target.value;
});

const alive = () => asked && navigator.sendBeacon(`${location.pathname}/seen`, new URLSearchParams({ assignment: asked }));
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) { since = now(); return; }
  spent += now() - since;
  since = now();
  alive();
});
setInterval(() => document.hidden || alive(), 30000);
addEventListener("beforeunload", (event) => busy && event.preventDefault());
document.documentElement.classList.add("js");
begin();
