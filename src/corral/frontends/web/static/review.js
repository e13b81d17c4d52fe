// Comments on a change: a press on a line's number opens a form below it, a drag or a second press widens it, `c` does so by keys.
"use strict";

const REVIEW = () => document.getElementById("review");
const canComment = document.querySelector("template#comment-form") !== null;
const DRAFTS = "corral-drafts-" + (REVIEW()?.dataset.run ?? "");

const drafts = () => JSON.parse(localStorage.getItem(DRAFTS) ?? "{}");
function keepDraft(form, text) {
  const all = drafts(), key = [form.elements.file.value, form.elements.side.value, form.dataset.line].join("\n");
  if (text) all[key] = { file: form.elements.file.value, side: form.elements.side.value, line: form.dataset.line, lines: form.elements.lines.value, text };
  else delete all[key];
  localStorage.setItem(DRAFTS, JSON.stringify(all));
}

// --- places: the cell of a line, and where something below it belongs
function sectionOf(file) {
  return [...document.querySelectorAll("[data-file][data-path]")].find((each) => each.dataset.path === file);
}
function cellOf(file, side, line) {
  return sectionOf(file)?.querySelector(side === "old" ? `.bk > .l.del[data-n="${line}"]` : `.bk > .r[data-n="${line}"]`);
}
function putBelow(cell, part) {
  const last = cell.matches(".l") ? cell.nextElementSibling ?? cell : cell;
  part.classList.toggle("late", cell.matches(".ch > .ins"));
  last.after(part);
}

function placeThreads() {
  for (const thread of document.querySelectorAll("#review .threads > [data-thread]")) {
    const section = sectionOf(thread.dataset.about), line = thread.dataset.line;
    const cell = line && cellOf(thread.dataset.about, thread.dataset.side, line);
    if (!section || (line && !cell) || document.querySelector(`.at-line[data-of="${thread.id}"]`)) continue;
    const note = document.createElement("div");
    note.className = "at-line";
    note.dataset.of = thread.id;
    const copy = thread.cloneNode(true);
    copy.removeAttribute("id");
    note.append(copy);
    if (cell) putBelow(cell, note);
    else section.querySelector(".lines").before(note);
    htmx.process(note);
  }
}
function renew() { // the threads were answered anew: what lies in the lines is of before
  for (const note of document.querySelectorAll(".at-line")) note.remove();
  placeThreads();
}

// --- the form
function openForm(section, cell) {
  if (!canComment || !section) return null;
  const form = document.querySelector("template#comment-form").content.firstElementChild.cloneNode(true);
  form.elements.file.value = section.dataset.path;
  form.elements.side.value = cell?.matches(".l.del") ? "old" : "new";
  form.dataset.line = form.elements.lines.value = cell?.dataset.n ?? "";
  const already = [...document.querySelectorAll("form.comment")].find((each) => each.elements.file.value === form.elements.file.value && each.dataset.line === form.dataset.line);
  if (already) return already;
  if (cell) putBelow(cell, form);
  else section.querySelector(".lines").before(form);
  htmx.process(form);
  return form;
}
function widen(form, line) {
  const numbers = [Number(form.dataset.line), Number(line)].sort((one, other) => one - other);
  form.elements.lines.value = numbers[0] === numbers[1] ? String(numbers[0]) : numbers.join("-");
  if (form.elements.text.value) keepDraft(form, form.elements.text.value);
}
function close(form) {
  keepDraft(form, "");
  form.remove();
}

// --- mouse and touch: the number of a line is its handle
const HANDLE = 78; // as wide as the numbers and the signs
let from = null;
function cellAt(event) {
  const cell = document.elementFromPoint(event.clientX, event.clientY)?.closest(".files .bk > [data-n]");
  return cell && event.clientX - cell.getBoundingClientRect().left < HANDLE ? cell : null;
}
document.addEventListener("pointerdown", (event) => { from = event.button === 0 ? cellAt(event) : null; });
document.addEventListener("pointerup", (event) => {
  const to = cellAt(event), began = from;
  from = null;
  if (!began || !to || began.closest("[data-file]") !== to.closest("[data-file]")) return;
  const section = began.closest("[data-file]");
  const near = section.querySelector("form.comment");
  if (event.shiftKey && near) return widen(near, to.dataset.n);
  const side = (cell) => cell.matches(".l.del") ? "old" : "new";
  const last = side(began) === side(to) && Number(to.dataset.n) > Number(began.dataset.n) ? to : began;
  const form = openForm(section, last);
  if (!form) return;
  if (side(began) === side(to)) widen(form, last === began ? to.dataset.n : began.dataset.n);
  form.elements.text.focus();
});

// --- keys: `c` comments on the file one is at, with its lines typed; `v` marks it as viewed
corral.keys["c"] = () => {
  const section = document.querySelector("[data-file].at") ?? document.querySelector("[data-file]");
  if (section) section.open = true;
  openForm(section, null)?.elements.text.focus();
};
const VIEWED = DRAFTS.replace("drafts", "viewed");
const viewed = () => new Set(JSON.parse(localStorage.getItem(VIEWED) ?? "[]"));
function countViewed() {
  const all = [...document.querySelectorAll("[data-viewed]")], known = viewed();
  for (const box of all) {
    box.checked = known.has(box.dataset.viewed);
    box.closest("[data-file]").classList.toggle("is-viewed", box.checked);
  }
  const place = document.getElementById("viewed-count");
  if (place) place.textContent = `${all.filter((box) => box.checked).length} of ${all.length} viewed`;
}
document.addEventListener("change", (event) => {
  const box = event.target.closest("[data-viewed]");
  if (!box) return;
  const known = viewed();
  if (box.checked) known.add(box.dataset.viewed); else known.delete(box.dataset.viewed);
  localStorage.setItem(VIEWED, JSON.stringify([...known].slice(-5000)));
  box.closest("[data-file]").open = !box.checked;
  countViewed();
});
corral.keys["v"] = () => document.querySelector("[data-file].at [data-viewed]")?.click();

document.addEventListener("input", (event) => {
  const form = event.target.closest("form.comment");
  if (form) keepDraft(form, form.elements.text.value);
});
document.addEventListener("click", (event) => {
  const cancel = event.target.closest("[data-cancel]");
  if (cancel) close(cancel.closest("form"));
});
document.addEventListener("keydown", (event) => {
  const form = event.target.closest("form.comment");
  if (!form) return;
  if (event.key === "Escape") close(form);
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.successful && event.detail.elt.matches("form.comment")) close(event.detail.elt);
});
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target.id === "review" || event.detail.elt.id === "review") return renew();
  placeThreads();
  const section = event.detail.target.closest?.("[data-file][data-path]");
  for (const draft of Object.values(drafts()).filter((each) => each.file === section?.dataset.path)) {
    const form = openForm(section, draft.line ? cellOf(draft.file, draft.side, draft.line) : null);
    if (!form) continue;
    form.elements.lines.value = draft.lines;
    form.elements.text.value = draft.text;
  }
});
countViewed();

// --- what came since the last look: this browser remembers which version it showed, and the one before that
const LOOKED = DRAFTS.replace("drafts", "looked");
function sinceLook() {
  const link = document.getElementById("since-look");
  if (!link) return;
  const shown = link.dataset.version;
  let { version, before } = JSON.parse(localStorage.getItem(LOOKED) ?? "{}");
  if (version !== shown) {
    [version, before] = [shown, version];
    localStorage.setItem(LOOKED, JSON.stringify({ version, before }));
  }
  if (!before || before === shown || !link.dataset.versions.split(" ").includes(before)) return;
  link.href = `?${new URLSearchParams({ attempt: shown, against: before })}`;
  link.hidden = false;
}
sinceLook();
