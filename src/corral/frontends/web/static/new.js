// New task: the equivalent command as it is typed, the checks of the repository that is picked, and Ctrl+Enter.
const task = document.getElementById("new-task");

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
  if (!field) continue; // an agent that is not offered any more
  if (field.type === "checkbox") field.checked = value;
  else field.value = value;
}
sessionStorage.removeItem("new-task");
command();
