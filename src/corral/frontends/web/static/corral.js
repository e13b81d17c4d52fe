// What every screen does: take in events, show errors, obey keys. No screen polls.
"use strict";

// --- what is kept while the rest of a screen is renewed: the log, what a user types, what they opened, what is under way
const kept = (node) => node.nodeType === Node.ELEMENT_NODE && ("keep" in node.dataset || "idle" in node.dataset || "problem" in node.dataset || (["INPUT", "TEXTAREA"].includes(node.tagName) && node.closest("[data-keep-values]")));
Object.assign(Idiomorph.defaults.callbacks, {
  beforeNodeMorphed: (old) => !kept(old),
  beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
});

// --- live: one stream of events; parts of a screen that show them ask for themselves anew (hx-trigger="corral:tick from:body")
const TICK_MS = 400;
const AGAIN_MS = 3000;
const corral = (window.corral = { listeners: [], onEvent: (listener) => corral.listeners.push(listener) });

function live(words, state) {
  const place = document.getElementById("live");
  place.textContent = words;
  place.dataset.state = state;
}

function listen(again = false) {
  const address = document.body.dataset.events;
  if (!address) return;
  const source = new EventSource(address);
  let due = null;
  const tick = () => {
    due = null;
    document.body.dispatchEvent(new CustomEvent("corral:tick"));
    countInbox();
  };
  const heard = () => { due ??= setTimeout(tick, TICK_MS); };
  let lost = again;
  source.onopen = () => {
    live("live: what happens is shown at once", "on");
    if (lost) heard(); // what was missed meanwhile
    lost = false;
  };
  source.onerror = async () => {
    lost = true;
    live("the server does not answer; trying again…", "off");
    if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    const answer = await fetch("/inbox/count").catch(() => null);
    if (answer?.status === 401) return login();
    setTimeout(() => listen(true), AGAIN_MS);
  };
  source.onmessage = (message) => {
    const event = JSON.parse(message.data);
    for (const listener of corral.listeners) listener(event);
    heard();
  };
  source.addEventListener("end", () => {
    source.close();
    live("this run is over", "over");
    heard();
  });
  window.addEventListener("pagehide", () => source.close());
}

function login() {
  location.href = "/login?then=" + encodeURIComponent(location.pathname + location.search);
}

async function countInbox() {
  const answer = await fetch("/inbox/count");
  if (!answer.ok) return;
  const count = Number(await answer.text());
  for (const place of document.querySelectorAll("[data-waiting]")) {
    place.hidden = !count;
    place.firstChild.textContent = count;
  }
}

// --- words for what went wrong: beside the form it belongs to, or as a note that stays until it is closed
function complain(form, title, hint) {
  const place = form?.querySelector("[data-problem]");
  const problem = document.createElement("div");
  problem.className = "problem";
  const words = document.createElement("p");
  words.textContent = title;
  problem.append(words);
  if (hint) {
    const more = document.createElement("p");
    more.className = "hint";
    more.textContent = "hint: " + hint;
    problem.append(more);
  }
  if (place?.isConnected) return place.replaceChildren(problem);
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "Close";
  close.onclick = () => problem.remove();
  problem.append(close);
  document.getElementById("toasts").replaceChildren(problem);
}
corral.complain = complain;

document.addEventListener("htmx:responseError", (event) => {
  const { xhr, elt } = event.detail;
  if (xhr.status === 401) return login();
  let problem = { detail: `the server said ${xhr.status}`, hint: "" };
  try { problem = JSON.parse(xhr.responseText); } catch { /* not ours: its status has to do */ }
  complain(elt.closest("form"), problem.detail, problem.hint);
});
document.addEventListener("htmx:sendError", (event) => complain(event.detail.elt.closest("form"), "the server does not answer", "is `corral serve` still running?"));
document.addEventListener("htmx:beforeRequest", (event) => event.detail.elt.closest("form")?.querySelector("[data-problem]")?.replaceChildren());

// A button that takes time says what it does: data-busy="merging…". A part of the screen that is renewed has pressed none.
function pressed(element, which) {
  return element.matches(which) ? [element] : element.matches("form") ? element.querySelectorAll(which) : [];
}
document.addEventListener("htmx:beforeSend", (event) => {
  for (const button of pressed(event.detail.elt, "[data-busy]:not([data-idle])")) {
    button.dataset.idle = button.textContent;
    button.textContent = button.dataset.busy;
    button.disabled = true;
  }
});
document.addEventListener("htmx:afterRequest", (event) => {
  for (const button of pressed(event.detail.elt, "[data-idle]")) {
    button.textContent = button.dataset.idle;
    delete button.dataset.idle;
    button.disabled = false;
  }
});

// --- keys
let before = "";
let row = -1;
corral.keys = {}; // screens add their own: corral.keys["s"] = () => …

function move(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return;
  rows[row]?.classList.remove("chosen");
  row = Math.max(0, Math.min(rows.length - 1, row + step));
  rows[row].classList.add("chosen");
  rows[row].scrollIntoView({ block: "nearest" });
  (rows[row].querySelector("a, button") ?? rows[row]).focus({ preventScroll: true });
}

function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("corral-theme", root.dataset.theme);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select") || document.querySelector("dialog[open]")) return;
  const key = event.key;
  const wanted = before === "g" ? document.querySelector(`nav [data-key="${CSS.escape(key)}"]`) : null;
  before = before === "g" ? "" : key;
  if (wanted) wanted.click();
  else if (key === "/") document.getElementById("find").focus();
  else if (key === "?") document.getElementById("keys-dialog").showModal();
  else if (key === "j") move(1);
  else if (key === "k") move(-1);
  else if (key === "t") theme();
  else if (corral.keys[key]) corral.keys[key](event);
  else if (document.querySelector(`[data-key-alone="${CSS.escape(key)}"]`)) document.querySelector(`[data-key-alone="${CSS.escape(key)}"]`).click();
  else return;
  event.preventDefault();
});
document.getElementById("theme").onclick = theme;
document.getElementById("keys").onclick = () => document.getElementById("keys-dialog").showModal();
for (const opener of document.querySelectorAll("[data-opens]")) opener.onclick = () => document.getElementById(opener.dataset.opens).showModal();

listen();
