// What waits for an answer: an answer is sent after five seconds and can be taken back until then; y, n, 1 to 9 and a swipe answer a row.
"use strict";

const WAIT_MS = 5000;
const waiting = new Map(); // answers that are not sent yet, by entry

function mark() { // what is renewed meanwhile still says that an answer is under way
  for (const form of document.querySelectorAll("form[data-answer]")) {
    const under = waiting.has(form.dataset.answer);
    form.closest("[data-row]")?.classList.toggle("pending", under);
    for (const button of form.querySelectorAll("button[name=answer]")) button.toggleAttribute("aria-disabled", under);
  }
}

function send(entry) {
  const { timer, answer, bar } = waiting.get(entry);
  clearTimeout(timer);
  bar.remove();
  waiting.delete(entry);
  mark();
  const form = document.querySelector(`form[data-answer="${CSS.escape(entry)}"]`);
  if (!form) return;
  const target = form.getAttribute("hx-target");
  htmx.ajax("POST", `/inbox/${entry}`, { source: form, values: { answer }, target: target ?? form, swap: form.getAttribute("hx-swap") });
}
function takeBack(entry) {
  const { timer, bar } = waiting.get(entry);
  clearTimeout(timer);
  bar.remove();
  waiting.delete(entry);
  mark();
}

function begin(form, answer, words) {
  const entry = form.dataset.answer;
  if (waiting.has(entry)) takeBack(entry); // another answer takes the place of the first
  const bar = document.createElement("p"), said = document.createElement("span"), back = document.createElement("button");
  said.textContent = `“${words}” is sent in ${WAIT_MS / 1000} s.`;
  back.type = "button";
  back.textContent = "Take back";
  back.onclick = () => takeBack(entry);
  bar.append(said, back);
  document.getElementById("pending").append(bar);
  waiting.set(entry, { answer, bar, timer: setTimeout(send, WAIT_MS, entry) });
  mark();
}

document.addEventListener("submit", (event) => { // before htmx hears of it
  const form = event.target.closest("form[data-answer]");
  if (!form) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const button = event.submitter, text = form.elements.answer;
  const answer = button?.name === "answer" ? button.value : text.value;
  begin(form, answer, button?.name === "answer" ? button.textContent.trim() : answer);
}, true);
window.addEventListener("pagehide", () => { // who leaves has decided
  for (const [entry, { answer }] of waiting) {
    fetch(`/inbox/${entry}`, { method: "POST", keepalive: true, headers: { "X-CSRF-Token": document.body.dataset.csrf, "Content-Type": "application/x-www-form-urlencoded" }, body: new URLSearchParams({ answer }) });
  }
});
document.addEventListener("htmx:afterSettle", mark);

// --- keys and fingers
function answerRow(row, number) {
  const button = row?.querySelectorAll("button[name=answer]:not(:disabled)")[number];
  button?.form.requestSubmit(button);
}
const current = () => document.querySelector("[data-row].chosen:has(form[data-answer])") ?? document.querySelector("[data-row]:has(form[data-answer]):not(.pending)");
for (let number = 1; number <= 9; number++) corral.keys[number] = () => answerRow(current(), number - 1);
corral.keys["y"] = () => answerRow(current(), 0);
corral.keys["n"] = () => (current() ? answerRow(current(), 1) : document.querySelector("[data-key-alone=n]").click());
corral.keys["z"] = () => { const last = [...waiting.keys()].pop(); if (last) takeBack(last); };

const SWIPE = 90;
let start = null;
document.addEventListener("touchstart", (event) => {
  const row = event.target.closest("[data-row]:has(form[data-answer])");
  start = row && event.touches.length === 1 ? { row, x: event.touches[0].clientX, y: event.touches[0].clientY } : null;
}, { passive: true });
document.addEventListener("touchend", (event) => {
  if (!start) return;
  const across = event.changedTouches[0].clientX - start.x, down = event.changedTouches[0].clientY - start.y;
  if (Math.abs(across) > SWIPE && Math.abs(down) < SWIPE / 2) answerRow(start.row, across > 0 ? 0 : 1);
  start = null;
}, { passive: true });
