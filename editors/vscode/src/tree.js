// The tree: what needs you, what runs, what is ready to merge, what is done; nodes, attempts, files and hunks below.
"use strict";

const vscode = require("vscode");
const { AT_WORK } = require("./runs");
const { changesOf, hunksOf } = require("./changes");

const GROUPS = [
  ["needs", "Needs you", "bell-dot"],
  ["running", "Running", "sync"],
  ["ready", "Ready to merge", "git-merge"],
  ["done", "Done", "check-all"],
];
const ICONS = {
  done: "check",
  failed: "error",
  timed_out: "error",
  running: "sync~spin",
  queued: "clock",
  waiting: "bell",
  paused: "debug-pause",
  skipped: "debug-step-over",
};
const { Collapsed, Expanded, None } = vscode.TreeItemCollapsibleState;

function item(label, state, more) {
  return Object.assign(new vscode.TreeItem(label, state), more);
}

/** Return dollars as text, or nothing where they are unknown. */
function money(cost) {
  return typeof cost?.usd === "number" && cost.usd > 0 ? `$${cost.usd.toFixed(2)}` : "";
}

function join(...parts) {
  return parts.filter(Boolean).join(" · ");
}

const ITEMS = {
  group: ({ name, title, icon, members }) =>
    item(title, name === "done" ? Collapsed : Expanded, {
      id: name,
      description: String(members.length),
      iconPath: new vscode.ThemeIcon(icon),
      contextValue: "group",
    }),
  entry: ({ entry }) =>
    item(entry.text, entry.run ? Collapsed : None, {
      id: `entry/${entry.id}`,
      description: join(entry.choices?.join(" | "), entry.run),
      tooltip: entry.context || entry.text,
      iconPath: new vscode.ThemeIcon("question"),
      contextValue: "entry",
      command: { command: "corral.answer", title: "Answer", arguments: [{ kind: "entry", entry }] },
    }),
  run: ({ row, group, progress }) =>
    item(row.name || row.task || row.run, Collapsed, {
      id: `${group}/${row.run}`,
      description: join(row.status, progress && `${progress.over} of ${progress.all} nodes`, row.grade, row.merge && row.merge !== "none" ? row.merge : "", money(row.cost)),
      tooltip: join(row.run, row.agents?.join(", "), row.reason),
      iconPath: new vscode.ThemeIcon(ICONS[row.status] ?? "circle-outline"),
      contextValue: `run ${AT_WORK.has(row.status) ? "working" : "over"} ${row.merge ?? "none"}`,
    }),
  node: ({ run, node, group }) =>
    item(node.id, node.attempts.length === 0 ? None : AT_WORK.has(node.status) ? Expanded : Collapsed, {
      id: `${group}/${run.run}/${node.id}`,
      description: join(node.status, node.needs?.length ? `after ${node.needs.map((need) => need.node ?? need).join(", ")}` : ""),
      tooltip: join(node.id, node.why, node.reason),
      iconPath: new vscode.ThemeIcon(ICONS[node.status] ?? "circle-outline"),
      contextValue: "node",
    }),
  attempt: ({ attempt, node, group }) =>
    item(`${node.winner === attempt.id ? "★ " : ""}${attempt.agent}`, attempt.commit ? Collapsed : None, {
      id: `${group}/${attempt.id}`,
      description: join(
        attempt.status,
        attempt.evidence?.grade,
        attempt.commit ? `+${attempt.insertions} -${attempt.deletions}` : "",
        money(attempt.cost),
      ),
      tooltip: join(attempt.id, attempt.error?.message),
      iconPath: new vscode.ThemeIcon(ICONS[attempt.status] ?? "circle-outline"),
      contextValue: attempt.commit ? "attempt changed" : "attempt",
    }),
  file: ({ run, attempt, change, group }) =>
    item(change.path, change.hunks > 1 ? Collapsed : None, {
      id: `${group}/${attempt.id}/${change.path}`,
      description: change.new ? `+${change.added} -${change.removed}` : "removed",
      resourceUri: vscode.Uri.file(`${run.repo}/${change.path}`),
      iconPath: vscode.ThemeIcon.File,
      contextValue: "file",
      command: { command: "corral.openFile", title: "Open the change", arguments: [{ kind: "file", run, attempt, change }] },
    }),
  hunk: ({ run, attempt, change, hunk, group }) =>
    item(hunk.title, None, {
      id: `${group}/${attempt.id}/${change.path}#${hunk.number}`,
      description: hunk.head,
      tooltip: hunk.text,
      iconPath: new vscode.ThemeIcon("diff"),
      contextValue: "hunk",
      command: { command: "corral.openFile", title: "Open the change", arguments: [{ kind: "hunk", run, attempt, change, hunk }] },
    }),
};

/** Return the rows of a run: its nodes, or the attempts of the only one. */
function partsOf(run, group) {
  const attempts = (node) => node.attempts.map((attempt) => ({ kind: "attempt", run, node, attempt, group }));
  return run.nodes.length > 1 ? run.nodes.map((node) => ({ kind: "node", run, node, group })) : run.nodes.flatMap(attempts);
}

class Tree {
  constructor(runs) {
    this.runs = runs;
    this.emitter = new vscode.EventEmitter();
    this.onDidChangeTreeData = this.emitter.event;
    runs.onDidChange(() => this.emitter.fire());
  }

  getTreeItem(node) {
    return ITEMS[node.kind](node);
  }

  async getChildren(node) {
    if (!node) {
      const filled = GROUPS.map(([name, title, icon]) => ({ kind: "group", name, title, icon, members: this.runs.groups[name] }));
      return filled.filter((group) => group.members.length > 0);
    }
    if (node.kind === "group") {
      const name = node.name;
      const row = (each) => ({ kind: "run", row: each, group: name, progress: this.runs.progress.get(each.run) });
      return node.members.map((each) => (name === "needs" ? { kind: "entry", entry: each } : row(each)));
    }
    if (node.kind === "run" || node.kind === "entry") {
      return partsOf(await this.runs.document(node.row?.run ?? node.entry.run), node.group ?? `entry/${node.entry.id}`);
    }
    if (node.kind === "node") {
      return node.node.attempts.map((attempt) => ({ ...node, kind: "attempt", attempt }));
    }
    if (node.kind === "attempt") {
      const changes = await changesOf(node.run, node.attempt);
      return changes.map((change) => ({ ...node, kind: "file", change }));
    }
    if (node.kind === "file") {
      return (await hunksOf(node.run, node.attempt, node.change)).map((hunk) => ({ ...node, kind: "hunk", hunk }));
    }
    return [];
  }
}

module.exports = { Tree };
