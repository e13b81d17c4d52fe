// Screens of a change: from file to file by keys, side by side or in one column, and words that follow what is chosen.
"use strict";

const files = () => [...document.querySelectorAll("[data-file]")];
let at = -1;

function go(step) {
  const all = files();
  if (!all.length) return;
  all[at]?.classList.remove("at");
  document.querySelector(".tree a.at")?.classList.remove("at");
  at = Math.max(0, Math.min(all.length - 1, at + step));
  const file = all[at];
  file.open = true;
  file.classList.add("at");
  document.querySelector(`.tree a[href="#${file.id}"]`)?.classList.add("at");
  file.scrollIntoView({ block: "start" });
  file.querySelector("summary").focus({ preventScroll: true });
}
corral.keys["n"] = () => go(1);
corral.keys["p"] = () => go(-1);

// --- side by side, or in one column; kept for the next time
const root = document.documentElement;
function view(kind) {
  root.dataset.diff = kind;
  for (const button of document.querySelectorAll("[data-view]")) button.setAttribute("aria-pressed", String(kind === "one"));
}
function turn() {
  view(root.dataset.diff === "one" ? "split" : "one");
  localStorage.setItem("corral-diff", root.dataset.diff);
}
view(localStorage.getItem("corral-diff") === "one" ? "one" : "split");
corral.keys["u"] = turn;

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-view]")) turn();
  const leaf = event.target.closest(".tree a");
  if (!leaf) return;
  const file = document.getElementById(leaf.getAttribute("href").slice(1));
  if (file) file.open = true; // what is looked for is shown, not only its name
  at = files().indexOf(file) - 1;
  go(1);
  event.preventDefault();
});
for (const list of document.querySelectorAll("select[data-goes]")) list.onchange = () => list.form.submit();

// --- a file in conflict: its own text can be written only where that is chosen
document.addEventListener("change", (event) => {
  const choices = event.target.closest(".choices");
  if (!choices) return;
  const text = choices.querySelector("textarea");
  if (text) text.hidden = text.disabled = choices.querySelector("input:checked")?.value !== "text";
  choices.closest(".file").classList.toggle("settled", Boolean(choices.querySelector("input:checked")));
});
