// The editor: line numbers, marks where mistakes are, a jump to each, and saving the text as a file.
"use strict";
const text = document.getElementById("flow"), gutter = document.getElementById("gutter");

function number() {
  const wrong = new Set([...document.querySelectorAll("#checked [data-line]")].map((each) => Number(each.dataset.line)));
  const count = text.value.split("\n").length;
  gutter.replaceChildren(...Array.from({ length: count }, (_, place) => {
    const line = document.createElement("div");
    line.textContent = place + 1;
    if (wrong.has(place + 1)) line.className = "wrong";
    return line;
  }));
  gutter.scrollTop = text.scrollTop;
}
text.addEventListener("input", number);
text.addEventListener("scroll", () => { gutter.scrollTop = text.scrollTop; });
document.addEventListener("htmx:afterSwap", () => { number(); fit(); });
number();

// A graph that is a little too wide is shown whole; a much wider one would be too small to read, and scrolls.
function fit() {
  const frame = document.querySelector(".picture"), drawing = frame?.querySelector("svg"), zoom = document.getElementById("zoom");
  if (!drawing) return;
  const part = frame.clientWidth / drawing.viewBox.baseVal.width;
  zoom.hidden = part >= 1;
  frame.classList.toggle("whole", part >= 0.6);
  const name = () => { zoom.textContent = frame.classList.contains("whole") ? "Full size" : "Whole graph"; };
  zoom.onclick = () => { frame.classList.toggle("whole"); name(); };
  name();
}

document.addEventListener("click", (event) => {
  const place = event.target.closest("[data-line]");
  if (!place) return;
  const lines = text.value.split("\n"), line = Math.min(Number(place.dataset.line), lines.length) - 1;
  const start = lines.slice(0, line).reduce((sum, each) => sum + each.length + 1, 0) + Number(place.dataset.column) - 1;
  text.focus();
  text.setSelectionRange(start, Math.max(start, start - Number(place.dataset.column) + 1 + lines[line].length));
  text.scrollTop = Math.max(0, (line - 5) * parseFloat(getComputedStyle(text).lineHeight));
});

document.getElementById("download").onclick = () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text.value], { type: "application/yaml" }));
  link.download = "flow.yaml";
  link.click();
  URL.revokeObjectURL(link.href);
};
