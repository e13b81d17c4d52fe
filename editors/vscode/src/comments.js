// Comments on lines of a change: written beside a diff, kept with the run, sent to the agent by *Revise*.
"use strict";

const vscode = require("vscode");
const command = require("./command");
const { SCHEME, readAddress } = require("./changes");
const notices = require("./notices");

/** Return a comment as the editor shows it. */
function show(comment) {
  return {
    body: new vscode.MarkdownString(undefined).appendText(comment.text),
    mode: vscode.CommentMode.Preview,
    author: { name: comment.author },
    label: comment.state,
  };
}

class Comments {
  constructor(runs) {
    this.runs = runs;
    this.threads = new Map(); // of each open document
    this.controller = vscode.comments.createCommentController("corral", "Corral");
    this.controller.options = { prompt: "Comment for the agent", placeHolder: "Sent to the agent with the others by Corral: Revise" };
    this.controller.commentingRangeProvider = {
      provideCommentingRanges: (document) =>
        readAddress(document.uri)?.object ? [new vscode.Range(0, 0, Math.max(0, document.lineCount - 1), 0)] : [],
    };
    this.parts = [
      this.controller,
      vscode.workspace.onDidOpenTextDocument((document) => this.load(document.uri)),
      vscode.workspace.onDidCloseTextDocument((document) => this.forget(document.uri)),
      vscode.commands.registerCommand("corral.comment", (reply) => this.send(reply.thread, reply.text)),
    ];
  }

  /** Show the comments that a document has already. */
  async load(uri) {
    const at = uri.scheme === SCHEME ? readAddress(uri) : undefined;
    if (!at?.run) {
      return;
    }
    try {
      const all = await command.json(at.repo, "comment", at.run);
      const ours = all.filter((each) => each.attempt === at.attempt && each.file === at.path && each.side === at.side && !each.reply_to && each.line);
      this.forget(uri);
      this.threads.set(
        uri.toString(),
        ours.map((each) => {
          const range = new vscode.Range(each.line - 1, 0, (each.last_line ?? each.line) - 1, 0);
          const replies = all.filter((other) => other.reply_to === each.id);
          const thread = this.controller.createCommentThread(uri, range, [each, ...replies].map(show));
          thread.canReply = false;
          return thread;
        }),
      );
    } catch (error) {
      notices.complain(error.message);
    }
  }

  forget(uri) {
    for (const thread of this.threads.get(uri.toString()) ?? []) {
      thread.dispose();
    }
    this.threads.delete(uri.toString());
  }

  /** Keep a new comment with the run. */
  async send(thread, text) {
    const at = readAddress(thread.uri);
    const [first, last] = [thread.range.start.line + 1, thread.range.end.line + 1];
    const where = `${at.path}:${first}${last > first ? `-${last}` : ""}`;
    try {
      const kept = await command.json(at.repo, "comment", "--side", at.side, "--attempt", at.attempt, "--", at.run, where, text);
      thread.dispose();
      await this.load(thread.uri);
      return kept;
    } catch (error) {
      notices.complain(error.message);
      return undefined;
    }
  }

  dispose() {
    this.parts.forEach((part) => part.dispose());
  }
}

module.exports = { Comments };
