// Corral in VS Code: a tree of runs, their changes, and what can be done with them.
"use strict";

const vscode = require("vscode");
const actions = require("./actions");
const agents = require("./agents");
const { SCHEME, contents } = require("./changes");
const command = require("./command");
const { Comments } = require("./comments");
const { Flows } = require("./flows");
const mcp = require("./mcp");
const notices = require("./notices");
const { Output } = require("./output");
const { Runs } = require("./runs");
const { ScopeMarks } = require("./scope");
const { Tree } = require("./tree");

/** Keep the badge, the message and the status bar as the runs are. */
function keepShown(runs, view, bar) {
  return runs.onDidChange(() => {
    const waiting = runs.groups.needs.length;
    view.badge = waiting > 0 ? { value: waiting, tooltip: `${waiting} need you` } : undefined;
    view.message = runs.problem;
    const summary = runs.summary();
    bar.text = `$(layers) ${runs.problem ? "Corral: see the view" : `Corral${summary ? `: ${summary}` : ""}`}`;
    bar.show();
  });
}

/** Ask each new question once, with its answers as buttons; what waited before the window opened has the badge alone. */
function askQuestions(runs) {
  let known;
  return runs.onDidChange(async () => {
    const entries = runs.problem ? [] : runs.groups.needs;
    const fresh = known ? entries.filter((entry) => !known.has(entry.id)) : [];
    known = runs.problem ? known : new Set([...(known ?? []), ...entries.map((entry) => entry.id)]);
    for (const entry of fresh) {
      const buttons = entry.choices?.length ? entry.choices.slice(0, 3) : ["Answer"];
      void notices.inform(entry.text, ...buttons).then((chosen) => {
        if (chosen) {
          void vscode.commands.executeCommand("corral.answer", { entry }, entry.choices?.length ? chosen : undefined);
        }
      });
    }
  });
}

function activate(context) {
  const runs = new Runs();
  const tree = new Tree(runs);
  const comments = new Comments(runs);
  const output = new Output(runs);
  const scope = new ScopeMarks(runs);
  const flows = new Flows(runs);
  const known = agents.show(runs);
  const hooks = notices.tellHooks(runs, command);
  const view = vscode.window.createTreeView("corral.runs", { treeDataProvider: tree, showCollapseAll: true });
  const bar = vscode.window.createStatusBarItem("corral.status", vscode.StatusBarAlignment.Left);
  bar.name = "Corral";
  bar.command = "corral.runs.focus";
  context.subscriptions.push(
    runs,
    view,
    bar,
    comments,
    keepShown(runs, view, bar),
    askQuestions(runs),
    output,
    scope,
    flows,
    ...known.parts,
    hooks,
    ...mcp.offer(runs, context.extension.packageJSON.version),
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, contents),
    ...actions.register(runs),
  );
  runs.follow();
  return { runs, tree, view, bar, comments, output, scope, flows, hooks, agents: known.agents };
}

module.exports = { activate };
