// What the user can have done: each function is a command, called from a view, an editor or the palette.
"use strict";

const path = require("node:path");
const vscode = require("vscode");
const command = require("./command");
const server = require("./server");
const { changesOf, hunksOf, openAll, openFile, readAddress } = require("./changes");
const notices = require("./notices");
const { AT_WORK } = require("./runs");

const { window } = vscode;

/** Return the id of the run that a node of the tree is about; ask where there is none. */
async function pickRun(runs, node, fits, title) {
  const known = node?.row?.run ?? node?.run?.run ?? node?.run;
  if (known) {
    return known;
  }
  const rows = runs.rows.filter(fits);
  /** @type {(vscode.QuickPickItem & { run: string })[]} */
  const items = rows.map((row) => ({ label: row.name || row.task, description: `${row.run} ${row.status}`, run: row.run }));
  if (items.length === 0) {
    void notices.inform(`there is no run to choose. ${title}`);
    return undefined;
  }
  return (await window.showQuickPick(items, { title }))?.run;
}

/** Return a file and what is selected in it, as options and text of a task: a chosen file, else that of a selection. */
function context(folder, chosen) {
  const editor = window.activeTextEditor;
  const shown = editor?.document.uri.scheme === "file" && !editor.selection.isEmpty ? editor.document.uri : undefined;
  const uri = chosen ?? shown;
  const file = uri ? path.relative(folder, uri.fsPath) : "";
  if (file === "" || file.startsWith("..")) {
    return { options: [], below: "" };
  }
  if (uri.toString() !== shown?.toString()) {
    return { options: ["--file", file], below: "" };
  }
  const where = `${file}:${editor.selection.start.line + 1}-${editor.selection.end.line + 1}`;
  return { options: ["--file", file], below: `\n\n--- ${where}\n${editor.document.getText(editor.selection)}\n---` };
}

async function submit(runs, task, options, file) {
  const folder = runs.folder();
  if (!folder) {
    throw new command.CommandError("open the folder of a repository first");
  }
  const words = task ?? (await window.showInputBox({ title: "Corral: task", prompt: "What is to be done?", ignoreFocusOut: true }));
  if (!words) {
    return undefined;
  }
  const more = context(folder, file);
  return command.json(folder, "run", "--detach", ...options, ...more.options, "--", words + more.below);
}

/** Run a task; `node` is a file of the explorer, or says the task and the agent. */
async function run(runs, node) {
  const file = node instanceof vscode.Uri ? node : node?.file;
  return (await submit(runs, node?.task, node?.agent ? ["--agent", node.agent] : [], file))?.run;
}

/** Have an agent write a flow for a task; it waits in the inbox, with its nodes below, until the user approves it. */
async function plan(runs, node) {
  const folder = runs.folder();
  const task = node?.task ?? (await window.showInputBox({ title: "Corral: plan", prompt: "What is to be planned?", ignoreFocusOut: true }));
  if (!folder || !task) {
    return undefined;
  }
  const options = { location: vscode.ProgressLocation.Notification, title: "Corral: an agent plans" };
  const agent = node?.agent ? ["--agent", node.agent] : [];
  const planned = await window.withProgress(options, () => command.json(folder, "plan", "--run", ...agent, "--", task));
  return planned.run.run;
}

async function race(runs, node) {
  const known = await command.json(runs.folder(), "agents");
  /** @type {vscode.QuickPickItem[]} */
  const names = known.filter((each) => each.program).map((each) => ({ label: each.name, description: each.version ?? "" }));
  const chosen = await window.showQuickPick(names, { title: "Corral: agents that race", canPickMany: true });
  return chosen?.length ? submit(runs, node?.task, ["--agent", chosen.map((each) => each.label).join(",")]) : undefined;
}

async function answer(runs, node, words) {
  /** @type {(vscode.QuickPickItem & { entry: any })[]} */
  const items = runs.groups.needs.map((entry) => ({ label: entry.text, description: entry.run, entry }));
  const entry = node?.entry ?? (items.length > 1 ? (await window.showQuickPick(items, { title: "Corral: inbox" }))?.entry : items[0]?.entry);
  if (!entry) {
    return undefined;
  }
  const choose = () =>
    entry.choices?.length ? window.showQuickPick(entry.choices, { title: entry.text }) : window.showInputBox({ title: entry.text, ignoreFocusOut: true });
  const chosen = words ?? (await choose());
  return chosen ? command.act(runs.folder(), "answer", "--resume", "--", entry.id, chosen) : undefined;
}

/** Return the options of a merge that takes no more than a node of the tree stands for. */
function picks(node) {
  switch (node?.kind) {
    case "attempt":
      return ["--pick", node.attempt.id];
    case "file":
      return ["--take", `${node.change.path}=${node.attempt.id}`];
    case "hunk":
      return ["--take", `${node.change.path}#${node.hunk.number}=${node.attempt.id}`];
    default:
      return [];
  }
}

/** Take the hunk at the cursor of a comparison. */
async function takeHunk(runs) {
  const editor = window.activeTextEditor;
  const at = editor ? readAddress(editor.document.uri) : undefined;
  if (!at?.run) {
    throw new command.CommandError("put the cursor into a change that Corral shows");
  }
  const document = await runs.document(at.run);
  const attempt = document.nodes.flatMap((node) => node.attempts).find((each) => each.id === at.attempt);
  const change = { path: at.path };
  const line = editor.selection.active.line + 1;
  const hunk = (await hunksOf(document, attempt, change)).find((each) => each[at.side][0] <= line && line <= each[at.side][1]);
  if (!hunk) {
    throw new command.CommandError(`line ${line} of ${at.path} is in no hunk that can be taken alone`);
  }
  return merge(runs, { kind: "hunk", run: document, attempt, change, hunk });
}

/** Show what a merge would change, ask, and merge: a run, one of its attempts, or one file or hunk of an attempt. */
async function merge(runs, node) {
  const run = await pickRun(runs, node, (row) => ["ready", "undone"].includes(row.merge), "Merge");
  if (!run) {
    return undefined;
  }
  const pick = picks(node);
  const preview = await command.json(runs.folder(), "merge", run, "--preview", ...pick);
  const conflicts = preview.conflicts?.length ? `  Conflicts: ${preview.conflicts.map((each) => each.path ?? each).join(", ")}` : "";
  const detail = `${preview.files.join(", ")}  +${preview.insertions} -${preview.deletions}${conflicts}`;
  const choices = [{ label: "Merge", detail }, { label: "Show the change" }, { label: "Not now" }];
  const options = { title: `Merge ${run} into ${preview.into}?`, ignoreFocusOut: true };
  const chosen = (await window.showQuickPick(choices, options))?.label;
  if (chosen === "Show the change") {
    await openChanges(runs, { run, attempt: node?.attempt });
  }
  return chosen === "Merge" ? command.act(runs.folder(), "merge", run, ...pick) : undefined;
}

async function stop(runs, node) {
  const run = await pickRun(runs, node, (row) => AT_WORK.has(row.status), "Stop");
  return run ? command.json(runs.folder(), "stop", run).then(() => `${run} is stopped; its work is kept`) : undefined;
}

async function steer(runs, node, words) {
  const run = await pickRun(runs, node, (row) => AT_WORK.has(row.status), "Steer");
  const text = run && (words ?? (await window.showInputBox({ title: `Message to the agents of ${run}`, ignoreFocusOut: true })));
  return text ? command.act(runs.folder(), "steer", "--", run, text) : undefined;
}

async function undo(runs, node) {
  const run = await pickRun(runs, node, (row) => row.merge === "merged", "Undo a merge");
  return run ? command.act(runs.folder(), "undo", run) : undefined;
}

async function revise(runs, node, words) {
  const run = await pickRun(runs, node, (row) => !AT_WORK.has(row.status), "Send the open comments to the agent");
  if (!run) {
    return undefined;
  }
  const options = { location: vscode.ProgressLocation.Notification, title: `Corral: the agent of ${run} revises its work` };
  return window.withProgress(options, () => command.act(runs.folder(), "revise", "--quiet", run, ...(words ? [words] : [])));
}

/** Return the attempt that a node is about: its own, else the winner, else the last with a change. */
async function findAttempt(runs, node) {
  const name = await pickRun(runs, node, () => true, "Show the change");
  const run = name && (await runs.document(name));
  const all = (run?.nodes ?? []).flatMap((each) => each.attempts).filter((each) => each.commit);
  const wanted = node?.attempt?.id ?? node?.attempt;
  const winners = new Set((run?.nodes ?? []).map((each) => each.winner));
  const last = (each) => each[each.length - 1];
  return { run, attempt: wanted ? all.find((each) => each.id === wanted) : (last(all.filter((each) => winners.has(each.id))) ?? last(all)) };
}

async function openChanges(runs, node) {
  const { run, attempt } = await findAttempt(runs, node);
  if (run && !attempt) {
    throw new command.CommandError(`${run.run} has changed nothing`);
  }
  return run ? openAll(run, attempt, await changesOf(run, attempt)) : undefined;
}

async function openPage(_runs, node) {
  const found = server.find();
  if (!found) {
    throw new command.CommandError("no server runs: start one with `corral serve`");
  }
  const run = node?.row?.run ?? node?.run?.run;
  const page = run ? `${found.url}/runs/${run}` : found.url;
  await vscode.env.openExternal(vscode.Uri.parse(page));
  return page;
}

/**
 * Each command by its name: whether it changes something, and what it does.
 * @type {Record<string, [boolean, (runs: any, ...more: any[]) => any]>}
 */
const ACTIONS = {
  run: [true, run],
  plan: [true, plan],
  race: [true, async (runs, node) => (await race(runs, node))?.run],
  answer: [true, answer],
  stop: [true, stop],
  steer: [true, steer],
  merge: [true, merge],
  take: [true, merge],
  takeHunk: [true, takeHunk],
  undo: [true, undo],
  revise: [true, revise],
  openChanges: [false, openChanges],
  openFile: [false, (_runs, node) => openFile(node.run, node.attempt, node.change, node.hunk)],
  openPage: [false, openPage],
  refresh: [false, (runs) => runs.refresh()],
};

/** Register the commands; what fails is shown in the words of `corral`. */
function register(runs) {
  return Object.entries(ACTIONS).map(([name, [changes, act]]) =>
    vscode.commands.registerCommand(`corral.${name}`, async (...arguments_) => {
      try {
        const result = await act(runs, ...arguments_);
        if (changes && result !== undefined) {
          await runs.refresh();
          window.setStatusBarMessage(`Corral: ${String(result).split("\n")[0]}`, 10_000);
        }
        return result;
      } catch (error) {
        if (!(error instanceof command.CommandError)) {
          throw error;
        }
        notices.complain(error.message);
        return undefined;
      }
    }),
  );
}

module.exports = { ACTIONS, register };
