// New task: the equivalent command as it is typed, the checks of the repository that is picked, and Ctrl+Enter.
const task = document.getElementById("new-task");

// Images travel as base64 in hidden fields; together with the rest they must fit into one request.
const IMAGE = "image ", imagePicker = document.getElementById("images"), imageList = document.getElementById("chosen-images");
const imageFields = () => [...imageList.querySelectorAll("input")];

function addImage(name, data) {
  const chip = document.createElement("span"), field = document.createElement("input"), drop = document.createElement("button");
  chip.className = "chip-box";
  Object.assign(field, { type: "hidden", name: IMAGE + name, value: data });
  Object.assign(drop, { type: "button", className: "link", textContent: "remove" });
  drop.setAttribute("aria-label", `Remove ${name}`);
  drop.addEventListener("click", () => { chip.remove(); command(); });
  chip.append(name, " ", drop, field);
  imageList.append(chip);
}

function noteImage(words) {
  const line = document.createElement("span");
  line.className = "faint";
  line.textContent = words;
  imageList.append(line);
}

async function takeImages(files) {
  imageList.querySelectorAll(":scope > .faint").forEach((line) => line.remove());
  for (const file of files) {
    let text = "";
    for (const byte of new Uint8Array(await file.arrayBuffer())) text += String.fromCharCode(byte);
    const data = btoa(text), used = imageFields().reduce((sum, field) => sum + field.value.length, data.length);
    const names = imageFields().map((field) => field.name.slice(IMAGE.length));
    const name = names.includes(file.name) ? `${names.length + 1}-${file.name}` : file.name;
    if (used > 0.9 * Number(imagePicker.dataset.most)) noteImage(`${file.name} is too large: all images together have ${Math.floor(0.65 * imagePicker.dataset.most / 1000)} kB at most`);
    else addImage(name, data);
  }
  command();
}

imagePicker.addEventListener("change", async () => {
  await takeImages(imagePicker.files);
  imagePicker.value = "";
});
task.elements.task.addEventListener("paste", (event) => {
  if (event.clipboardData.files.length) {
    event.preventDefault();
    takeImages(event.clipboardData.files);
  }
});

function quoted(text) {
  return /^[\w@%+=:,.\/*-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function ticked(kind) {
  return [...task.querySelectorAll(`[data-${kind}]:checked`)].map((box) => box.dataset[kind]);
}

function command() {
  const value = (name) => task.elements[name]?.value.trim() ?? "";
  const words = ["corral", "run", quoted(value("task") || "…"), "--repo", quoted(value("other_repo") || value("repo") || ".")];
  const agents = [...ticked("agent"), ...value("agents").split(",").map((each) => each.trim()).filter(Boolean)];
  if (agents.length) words.push("--agent", quoted(agents.join(",")));
  const checks = [...ticked("check"), ...value("checks").split("\n").map((each) => each.trim()).filter(Boolean)];
  for (const check of checks) words.push("--check", quoted(check));
  if (value("strategy")) words.push("--strategy", value("strategy"));
  if (value("budget")) words.push("--budget", quoted(value("budget")));
  if (value("timeout")) words.push("--timeout", quoted(value("timeout")));
  if (value("name")) words.push("--name", quoted(value("name")));
  for (const label of value("labels").split(/\s+/).filter(Boolean)) words.push("--label", quoted(label));
  for (const field of imageFields()) words.push("--image", quoted(field.name.slice(IMAGE.length)));
  if (task.elements.merge.checked) words.push("--merge", "auto");
  document.getElementById("command").textContent = words.join(" ");
}

task.addEventListener("input", command);
task.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) task.requestSubmit();
});

// Another repository has other checks, so the screen is asked for anew; what the user entered is kept across that.
const OF_THE_REPOSITORY = ["repo", "other_repo"];
const entered = () => [...task.elements].filter((field) => field.name && !OF_THE_REPOSITORY.includes(field.name) && !("check" in field.dataset));

document.getElementById("repo").addEventListener("change", (event) => {
  sessionStorage.setItem("new-task", JSON.stringify(entered().map((field) => [field.name, field.type === "checkbox" ? field.checked : field.value])));
  location.search = new URLSearchParams({ repo: event.target.value });
});
for (const [name, value] of JSON.parse(sessionStorage.getItem("new-task") ?? "[]")) {
  const field = task.elements[name];
  if (name.startsWith(IMAGE)) addImage(name.slice(IMAGE.length), value);
  if (!field) continue; // an agent that is not offered any more
  if (field.type === "checkbox") field.checked = value;
  else field.value = value;
}
sessionStorage.removeItem("new-task");
command();
