// The scope of attempts at work: marks in the explorer on files that one of them may write.
"use strict";

const path = require("node:path");
const vscode = require("vscode");
const command = require("./command");

const GATHER_MS = 50; // files that become visible together are asked for together
const MOST_FILES = 200; // of one question

/** Marks what running attempts may write; Corral itself decides it, by the rules that the box has. */
class ScopeMarks {
  constructor(runs) {
    this.runs = runs;
    this.known = new Map(); // file to the attempts that may write it
    this.waiting = new Map(); // file to those who asked for it
    this.changed = new vscode.EventEmitter();
    this.onDidChangeFileDecorations = this.changed.event;
    this.parts = [runs.onDidChange(() => this.look()), vscode.window.registerFileDecorationProvider(this), this.changed];
  }

  /** Forget everything when other attempts are at work than before. */
  look() {
    const now = this.runs.groups.running.filter((row) => row.status === "running").map((row) => row.run);
    const key = now.join(" ");
    if (key !== (this.key ?? "")) {
      this.key = key;
      this.known.clear();
      this.changed.fire(undefined);
    }
  }

  async provideFileDecoration(uri) {
    if (!this.key || uri.scheme !== "file" || /\/\.git(\/|$)/.test(uri.path)) {
      return undefined;
    }
    const folder = vscode.workspace.getWorkspaceFolder(uri)?.uri.fsPath;
    if (!folder || folder === uri.fsPath) {
      return undefined;
    }
    const writers = this.known.get(uri.fsPath) ?? (await this.ask(folder, uri.fsPath));
    if (writers.length === 0) {
      return undefined;
    }
    const tooltip = `may be written by ${writers.join(", ")}`;
    return { badge: "✎", tooltip, color: new vscode.ThemeColor("corral.writable"), propagate: true };
  }

  /** Return who may write a file; questions that come together are one. */
  ask(folder, file) {
    return new Promise((resolve) => {
      this.waiting.set(file, [...(this.waiting.get(file) ?? []), { folder, resolve }]);
      this.timer ??= setTimeout(() => this.send(), GATHER_MS);
    });
  }

  async send() {
    this.timer = undefined;
    const key = this.key;
    const asked = [...this.waiting];
    this.waiting.clear();
    for (const folder of new Set(asked.map(([, who]) => who[0].folder))) {
      const files = asked.filter(([, who]) => who[0].folder === folder).map(([file]) => file);
      for (let at = 0; at < files.length; at += MOST_FILES) {
        await this.learn(folder, files.slice(at, at + MOST_FILES), key);
      }
    }
    for (const [file, who] of asked) {
      who.forEach(({ resolve }) => resolve(this.known.get(file) ?? []));
    }
  }

  async learn(folder, files, key) {
    const names = files.map((file) => path.relative(folder, file));
    try {
      const found = await command.json(folder, "who", ...names.flatMap((name) => ["--file", name]));
      if (this.key !== key) {
        return; // others are at work by now: they ask again
      }
      for (const [place, name] of names.entries()) {
        const writers = found.attempts.filter((each) => each.writable.includes(name));
        this.known.set(files[place], writers.map((each) => `${each.agent} (${each.attempt})`));
      }
    } catch (error) {
      this.problem = error.message; // the view of runs reports why the command fails
    }
  }

  dispose() {
    clearTimeout(this.timer);
    this.parts.forEach((part) => part.dispose());
  }
}

module.exports = { ScopeMarks };
