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
document.getElementById("repo").addEventListener("change", (event) => {
  sessionStorage.setItem("new-task", task.elements.task.value);
  location.search = new URLSearchParams({ repo: event.target.value });
});
task.elements.task.value ||= sessionStorage.getItem("new-task") ?? "";
sessionStorage.removeItem("new-task");
command();
