// What a user does in one window, step by step, in the extension host of a real VS Code.
"use strict";

const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const vscode = require("vscode");

const MOST_MS = 120_000;
const folder = vscode.workspace.workspaceFolders[0].uri.fsPath;
const read = (name) => fs.readFileSync(path.join(folder, name), "utf8");
const open = (name, ...more) => vscode.commands.executeCommand(`corral.${name}`, ...more);
let corral; // what the extension exports

/** Wait until the views say so; they report every change. */
function until(what, fits) {
  return new Promise((resolve, reject) => {
    let listener;
    const limit = setTimeout(() => reject(new Error(`never: ${what}; ${JSON.stringify(corral.runs.groups)} ${corral.runs.problem}`)), MOST_MS);
    const look = () => {
      const found = fits(corral.runs.groups);
      if (found) {
        clearTimeout(limit);
        listener?.dispose();
        resolve(found);
      }
    };
    listener = corral.runs.onDidChange(look);
    look();
  });
}

/** Start `corral` beside the editor, as a user does in a terminal. */
function beside(...words) {
  const [program, ...first] = vscode.workspace.getConfiguration("corral").get("command");
  return spawn(program, [...first, ...words], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
}

/** Return the nodes of the tree below labels, as the view shows them. */
async function below(...labels) {
  let nodes = await corral.tree.getChildren();
  for (const label of labels) {
    const at = nodes.find((each) => corral.tree.getTreeItem(each).label === label);
    assert.ok(at, `${label} is not among ${nodes.map((each) => corral.tree.getTreeItem(each).label)}`);
    nodes = await corral.tree.getChildren(at);
  }
  return nodes;
}

/** Wait until the test outside has looked at what is shown. */
async function seen(name) {
  const begun = Date.now();
  while (!fs.existsSync(path.join(process.env.CORRAL_SEEN, name))) {
    assert.ok(Date.now() - begun < MOST_MS, `nobody saw ${name}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Wait until something else than the views says so. */
async function happens(what, fits) {
  const begun = Date.now();
  for (;;) {
    const found = await fits();
    if (found) {
      return found;
    }
    assert.ok(Date.now() - begun < MOST_MS, `never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const labels = (nodes) => nodes.map((each) => corral.tree.getTreeItem(each).label);
const find = (run) => (group) => group.find((row) => row.run === run);
const state = {};

const steps = {
  async "a task is run and becomes ready to merge"() {
    assert.deepEqual(await below(), []);
    state.run = await open("run", { task: "say it" });
    assert.match(state.run, /^[0-9a-z]{12}$/);
    const row = await until("ready", (groups) => find(state.run)(groups.ready));
    assert.equal(row.merge, "ready");
    assert.match(corral.bar.text, /\$0\.25/);
  },

  async "its attempts and files are below it"() {
    assert.deepEqual(labels(await below()), ["Ready to merge"]);
    const [attempt] = await below("Ready to merge", "say it");
    assert.equal(corral.tree.getTreeItem(attempt).label, "★ mine");
    const files = await below("Ready to merge", "say it", "★ mine");
    assert.deepEqual(labels(files), ["a.txt", "gone.txt", "long.txt", "said.txt"]);
    assert.deepEqual(files.map((each) => corral.tree.getTreeItem(each).description), ["+1 -0", "removed", "+2 -2", "+1 -0"]);
    [state.file, state.gone, state.long] = files;
    const hunks = await corral.tree.getChildren(state.long);
    assert.deepEqual(labels(hunks), ["-line 1", "-line 30"]);
    state.hunk = hunks[1];
    state.attempt = attempt;
  },

  async "a file is compared without a checkout"() {
    const { command, arguments: words } = corral.tree.getTreeItem(state.file).command;
    await vscode.commands.executeCommand(command, ...words);
    const { input } = vscode.window.tabGroups.activeTabGroup.activeTab;
    assert.ok(input instanceof vscode.TabInputTextDiff);
    const texts = await Promise.all([input.original, input.modified].map(async (uri) => (await vscode.workspace.openTextDocument(uri)).getText()));
    assert.deepEqual(texts, ["one\ntwo\nthree\n", "one\ntwo\nthree\nmore\n"]);
    assert.equal(read("a.txt"), "one\ntwo\nthree\n");
    state.right = input.modified;
    await open("openFile", state.gone);
    const removed = vscode.window.tabGroups.activeTabGroup.activeTab.input;
    assert.equal((await vscode.workspace.openTextDocument(removed.original)).getText(), "old\n");
    assert.equal((await vscode.workspace.openTextDocument(removed.modified)).getText(), "");
    await open("openChanges", state.attempt);
    assert.match(vscode.window.tabGroups.activeTabGroup.activeTab.label, /^Corral: mine/);
  },

  async "a comment on a line is kept with the run"() {
    const thread = corral.comments.controller.createCommentThread(state.right, new vscode.Range(3, 0, 3, 0), []);
    await open("comment", { thread, text: "-- too long" });
    const { comments } = await corral.runs.document(state.run).then(() => {
      corral.runs.documents.clear();
      return corral.runs.document(state.run);
    });
    const [kept] = comments;
    assert.deepEqual([kept.file, kept.line, kept.side, kept.text], ["a.txt", 4, "new", "-- too long"]);
    const [loaded] = corral.comments.threads.get(state.right.toString());
    assert.equal(loaded.comments.length, 1);
    assert.equal(loaded.range.start.line, 3);
  },

  async "the run is merged after a look at it, and the merge is taken back"() {
    const [node] = await below("Ready to merge");
    await open("merge", node); // the user chooses Merge
    assert.equal(read("said.txt"), "said\n");
    await until("merged", (groups) => find(state.run)(groups.done)?.merge === "merged");
    await open("undo", { row: { run: state.run } });
    assert.equal(fs.existsSync(path.join(folder, "said.txt")), false);
    await until("undone", (groups) => [...groups.ready, ...groups.done].find((row) => row.run === state.run)?.merge !== "merged");
  },

  async "one file alone is merged"() {
    await open("take", state.file); // the user chooses Merge
    assert.equal(read("a.txt"), "one\ntwo\nthree\nmore\n");
    assert.equal(fs.existsSync(path.join(folder, "said.txt")), false);
    await open("undo", { row: { run: state.run } });
    assert.equal(read("a.txt"), "one\ntwo\nthree\n");
  },

  async "one hunk alone is merged, of the line at the cursor"() {
    const { command, arguments: words } = corral.tree.getTreeItem(state.hunk).command;
    await vscode.commands.executeCommand(command, ...words);
    const editor = await happens("shown", () => {
      const shown = vscode.window.activeTextEditor;
      return shown?.document.uri.path === "/long.txt" ? shown : undefined;
    });
    editor.selection = new vscode.Selection(29, 0, 29, 0);
    await open("takeHunk"); // the user chooses Merge
    const merged = read("long.txt").split("\n");
    assert.deepEqual([merged[0], merged[29]], ["line 1", "line 30 last"]);
    await open("undo", { row: { run: state.run } });
    assert.equal(read("long.txt").split("\n")[29], "line 30");
    editor.selection = new vscode.Selection(14, 0, 14, 0);
    assert.equal(await open("takeHunk"), undefined);
  },

  async "a selection and its file are context"() {
    const editor = await vscode.window.showTextDocument(vscode.Uri.file(path.join(folder, "long.txt")));
    editor.selection = new vscode.Selection(1, 0, 2, 6);
    const run = await open("run", { task: "shorten" });
    await until("over", (groups) => find(run)(groups.ready));
    const { task } = await corral.runs.document(run);
    assert.ok(task.includes("shorten\n\n--- long.txt:2-3\nline 2\nline 3\n---"), task);
    await vscode.commands.executeCommand("workbench.action.closeActiveEditor");
  },

  async "the comments are sent to the agent"() {
    await open("revise", { row: { run: state.run } }, "and shorter");
    const { nodes, comments } = await corral.runs.document(state.run);
    assert.equal(nodes[0].attempts.length, 2);
    assert.notEqual(comments[0].state, "open");
  },

  async "agents are listed with their logins"() {
    const found = (await corral.agents.getChildren()).map((each) => corral.agents.getTreeItem(each));
    const mine = found.find((each) => each.label === "mine");
    assert.match(mine.description, /no login needed/);
    assert.equal(mine.iconPath.id, "pass");
    const missing = found.find((each) => each.iconPath.id === "circle-slash");
    assert.match(missing.description, /not installed/);
  },

  async "Corral is an MCP server of the editor"() {
    await vscode.commands.executeCommand("workbench.mcp.startServer", "*");
    const tool = await happens("tools", () => vscode.lm.tools.find((each) => each.name.endsWith("engine_status")));
    assert.match(tool.name, /corral/i);
  },

  async "a server reports what others do"() {
    state.server = beside("serve", "--port", "0", "--root", folder);
    const live = () => corral.runs.live;
    await until("live", live);
    state.other = beside("flow", "run", process.env.CORRAL_ASK, "--quiet");
    const entry = await until("asked", (groups) => groups.needs[0]);
    assert.equal(entry.text, "Land [it](command:corral.refresh)?");
    assert.equal(corral.view.badge.value, 1);
    assert.ok(corral.runs.live, "the server reported it");
    assert.deepEqual(labels(await below("Needs you", entry.text)), ["write", "ok"]);
    const page = await open("openPage", { row: { run: entry.run } });
    assert.match(page, new RegExp(`^http://127.0.0.1:[0-9]+/runs/${entry.run}$`));
    await vscode.commands.executeCommand("notifications.showList"); // where suites run, notices do not pop up
    await until("answered", (groups) => groups.needs.length === 0); // the user presses yes
    await until("over", (groups) => find(entry.run)([...groups.ready, ...groups.done]));
    assert.equal(corral.view.badge, undefined);
  },

  async "a hook that says no is reported"() {
    const run = await open("run", { task: "hook", agent: "hooked" });
    await until("over", (groups) => find(run)(groups.ready));
    await vscode.commands.executeCommand("notifications.showList");
    await seen("hook");
    await vscode.commands.executeCommand("notifications.clearAll");
  },

  async "what runs is marked, followed, steered and stopped"() {
    const run = await open("run", { task: "wait", agent: "slow" });
    await until("running", (groups) => find(run)(groups.running)?.status === "running");
    assert.ok(labels(await below()).includes("Running"));
    assert.match(corral.bar.text, /1 running/);
    const [attempt] = await below("Running", "wait");
    const shown = await open("logs", attempt);
    await happens("followed", () => shown.heard.includes("I wait"));
    assert.match(await open("steer", { row: { run } }, "faster"), /slow/);
    await vscode.commands.executeCommand("workbench.view.explorer");
    const mark = async (name) => corral.scope.provideFileDecoration(vscode.Uri.file(path.join(folder, name)));
    assert.match((await mark("a.txt")).tooltip, /may be written by slow/);
    assert.equal(await mark("plain.md"), undefined);
    await seen("scope");
    await vscode.commands.executeCommand("corral.runs.focus");
    await open("stop", { row: { run } });
    await until("stopped", (groups) => find(run)([...groups.ready, ...groups.done])?.status === "stopped");
  },

  async "agents race"() {
    const run = await open("race", { task: "race" }); // the user chooses mine and hooked
    await until("raced", (groups) => find(run)([...groups.ready, ...groups.done]));
    const { nodes } = await corral.runs.document(run);
    assert.deepEqual(nodes[0].attempts.map((each) => each.agent).sort(), ["hooked", "mine"]);
  },

  async "a flow file is checked and run from its editor"() {
    const file = vscode.Uri.file(path.join(folder, ".corral", "two.yaml"));
    fs.mkdirSync(path.dirname(file.fsPath), { recursive: true });
    fs.writeFileSync(file.fsPath, "nodes:\n  one: {run: echo one}\n  two: {run: echo two, neds: [one]}\n");
    await vscode.window.showTextDocument(file);
    const mistakes = () => vscode.languages.getDiagnostics(file).filter((each) => each.source === "corral");
    const [mistake] = await happens("mistake", () => mistakes().length > 0 && mistakes());
    assert.match(mistake.message, /neds/);
    assert.equal(mistake.range.start.line, 2);
    await seen("flow");
    assert.match(await open("flowRun"), /1 mistake/);
    const edit = new vscode.WorkspaceEdit();
    edit.replace(file, new vscode.Range(2, 0, 3, 0), "  two: {run: echo two, needs: [one]}\n");
    await vscode.workspace.applyEdit(edit);
    assert.match(await open("flowCheck"), /is right: 2 nodes/);
    assert.deepEqual(mistakes(), []);
    const run = await open("flowRun");
    const row = await until("over", (groups) => find(run)([...groups.ready, ...groups.done]));
    const nodes = await corral.tree.getChildren({ kind: "run", row, group: "done" });
    assert.deepEqual(nodes.map((each) => corral.tree.getTreeItem(each).description), ["done", "done · after one"]);
  },

  async "the schema of flows holds for JSON"() {
    const file = vscode.Uri.file(path.join(folder, ".corral", "three.json"));
    fs.writeFileSync(file.fsPath, '{"nodes": {"one": {"run": "echo one"}}, "knots": 1}\n');
    await vscode.window.showTextDocument(file);
    await happens("reported", () => vscode.languages.getDiagnostics(file).some((each) => each.source !== "corral" && /knots/.test(each.message)));
  },

  async "a plan waits for approval"() {
    const run = await open("plan", { task: "Greet", agent: "planner" });
    const entry = await until("asked", (groups) => groups.needs.find((each) => each.run === run));
    assert.match(entry.text, /Run this plan\? 2 nodes.*hello -> bye/);
    assert.deepEqual(labels(await below("Needs you", entry.text)).sort(), ["approve", "bye", "hello"]);
    await open("answer", { entry }, "yes");
    await until("done", (groups) => find(run)(groups.done)?.status === "done");
  },

  async "without the server it asks by itself"() {
    state.server.kill("SIGTERM");
    await new Promise((resolve) => state.server.once("close", resolve));
    const other = beside("run", "--quiet", "after all");
    await until("listed", (groups) => groups.ready.find((row) => row.task === "after all"));
    assert.equal(corral.runs.live, false);
    other.kill();
    corral.hooks.reported.clear();
    const run = await open("run", { task: "hook again", agent: "hooked" });
    await happens("reported", () => [...corral.hooks.reported].some((key) => key.startsWith(run)));
  },

  async "a command that fails does no harm"() {
    assert.equal(await open("merge", { row: { run: "nothing00000" } }), undefined);
    assert.equal(corral.runs.problem, undefined);
  },
};

exports.run = async () => {
  corral = await vscode.extensions.getExtension("corral.corral").activate();
  await vscode.commands.executeCommand("corral.runs.focus");
  try {
    for (const [name, step] of Object.entries(steps)) {
      const begun = Date.now();
      await step();
      console.log(`passed: ${name} (${Date.now() - begun} ms)`);
    }
    console.log("all steps passed");
  } catch (error) {
    console.error(`failed: ${error.stack}`);
    throw error;
  } finally {
    for (const child of [state.server, state.other]) {
      child?.kill("SIGTERM");
    }
  }
};
