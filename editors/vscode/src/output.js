// What agents say and do, followed live in a channel for each run or attempt.
"use strict";

const { spawn } = require("node:child_process");
const vscode = require("vscode");
const command = require("./command");

class Output {
  constructor(runs) {
    this.runs = runs;
    this.channels = new Map(); // name to its channel, and the process that fills it
    this.registered = vscode.commands.registerCommand("corral.logs", (node) => this.follow(node));
  }

  /** Follow an attempt, or all attempts of a run; a second call begins anew. */
  follow(node) {
    const run = node?.row?.run ?? node?.run?.run ?? node?.entry?.run ?? "@last";
    const attempt = node?.kind === "attempt" ? node.attempt.id : undefined;
    const name = `Corral ${attempt ?? run}`;
    const shown = this.channels.get(name) ?? { channel: vscode.window.createOutputChannel(name), heard: "" };
    this.channels.set(name, shown);
    shown.child?.kill();
    shown.heard = "";
    shown.channel.clear();
    shown.channel.show(true);
    const [program, ...words] = command.words();
    const asked = ["logs", "-f", ...(attempt ? ["--attempt", attempt] : []), run];
    shown.child = spawn(program, [...words, ...asked], { cwd: this.runs.folder(), stdio: ["ignore", "pipe", "pipe"] });
    shown.child.on("error", (error) => shown.channel.appendLine(error.message));
    for (const stream of [shown.child.stdout, shown.child.stderr]) {
      stream.setEncoding("utf8").on("data", (chunk) => {
        shown.heard = (shown.heard + chunk).slice(-10_000);
        shown.channel.append(chunk);
      });
    }
    return shown;
  }

  /** The processes end with the window. */
  dispose() {
    this.registered.dispose();
    for (const { channel, child } of this.channels.values()) {
      child?.kill();
      channel.dispose();
    }
  }
}

module.exports = { Output };
