// Flow files: their mistakes where they are, and check and run from the title of the editor.
"use strict";

const vscode = require("vscode");
const command = require("./command");
const notices = require("./notices");

const NODES = /^(\s*"nodes"|nodes)\s*:/m;
const NAME = /\.(ya?ml|json)$/;

/** Tell whether a document is a flow file: YAML or JSON that has nodes. */
function isFlow(document) {
  return document?.uri.scheme === "file" && NAME.test(document.uri.path) && NODES.test(document.getText());
}

/** Return a mistake of `corral flow check` as the editor shows it: from its place to the end of that word. */
function diagnostic(document, mistake) {
  const line = Math.min(Math.max(0, mistake.line - 1), document.lineCount - 1);
  const start = new vscode.Position(line, Math.max(0, mistake.column - 1));
  const range = document.getWordRangeAtPosition(start) ?? new vscode.Range(start, start.translate(0, 1));
  const hint = mistake.hint ? `\nhint: ${mistake.hint}` : "";
  const shown = new vscode.Diagnostic(range, mistake.message + hint, vscode.DiagnosticSeverity.Error);
  shown.source = "corral";
  return shown;
}

class Flows {
  constructor(runs) {
    this.runs = runs;
    this.mistakes = vscode.languages.createDiagnosticCollection("corral");
    const { workspace, window } = vscode;
    this.parts = [
      this.mistakes,
      window.onDidChangeActiveTextEditor((editor) => this.see(editor?.document)),
      workspace.onDidSaveTextDocument((document) => this.see(document)),
      workspace.onDidCloseTextDocument((document) => this.mistakes.delete(document.uri)),
      vscode.commands.registerCommand("corral.flowCheck", (uri) => this.act(uri, (document) => this.report(document))),
      vscode.commands.registerCommand("corral.flowRun", (uri) => this.act(uri, (document) => this.run(document))),
    ];
    this.see(window.activeTextEditor?.document);
  }

  /** Offer check and run for a flow file that is looked at, and show its mistakes. */
  see(document) {
    const flow = isFlow(document);
    if (document === undefined || document === vscode.window.activeTextEditor?.document) {
      void vscode.commands.executeCommand("setContext", "corral.flowFile", flow);
    }
    if (flow) {
      this.check(document).catch((error) => notices.complain(error.message));
    } else if (document) {
      this.mistakes.delete(document.uri);
    }
  }

  folder(document) {
    return vscode.workspace.getWorkspaceFolder(document.uri)?.uri.fsPath ?? this.runs.folder();
  }

  /** Check a file as it is on the disk; return its mistakes. */
  async check(document) {
    const done = await command.start([...command.words(), "flow", "check", "--json", "--", document.uri.fsPath], { cwd: this.folder(document) });
    const printed = done.out.toString("utf8");
    if (printed === "") {
      throw new command.CommandError(done.err || `corral flow check ended with ${done.code}`);
    }
    const found = JSON.parse(printed);
    const mistakes = done.code === 0 ? [] : found.map((mistake) => diagnostic(document, mistake));
    this.mistakes.set(document.uri, mistakes);
    return { mistakes, nodes: done.code === 0 ? found.nodes.length : 0 };
  }

  async report(document) {
    const { mistakes, nodes } = await this.check(document);
    const name = vscode.workspace.asRelativePath(document.uri);
    if (mistakes.length > 0) {
      await vscode.commands.executeCommand("workbench.actions.view.problems");
      return `${name}: ${mistakes.length} ${mistakes.length === 1 ? "mistake" : "mistakes"}`;
    }
    return `${name} is right: ${nodes} nodes`;
  }

  /** Run a file that is right; one with mistakes starts nothing. */
  async run(document) {
    if ((await this.check(document)).mistakes.length > 0) {
      return this.report(document);
    }
    const said = await command.text(this.folder(document), "flow", "run", "--detach", "--json", "--", document.uri.fsPath);
    await this.runs.refresh();
    return JSON.parse(said).run;
  }

  async act(uri, work) {
    try {
      const document = uri ? await vscode.workspace.openTextDocument(uri) : vscode.window.activeTextEditor?.document;
      if (!isFlow(document)) {
        throw new command.CommandError("open a flow file first: YAML or JSON with `nodes`");
      }
      await document.save();
      const said = await work(document);
      vscode.window.setStatusBarMessage(`Corral: ${said}`, 10_000);
      return said;
    } catch (error) {
      if (!(error instanceof command.CommandError)) {
        throw error;
      }
      notices.complain(error.message);
      return undefined;
    }
  }

  dispose() {
    this.parts.forEach((part) => part.dispose());
  }
}

module.exports = { Flows, isFlow };
