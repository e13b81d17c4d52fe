// What the views show: runs and inbox entries, asked for again when something has happened.
"use strict";

const vscode = require("vscode");
const command = require("./command");
const server = require("./server");

const MOST_DONE = 20; // runs that need nothing any more
const AT_WORK = new Set(["queued", "running", "paused", "limited", "waiting"]);
const MOST_LISTED = 500;
const MOST_COUNTED = 5; // flows whose nodes are counted at each look
const ONE_NODE = new Set(["single", "race"]);
const GATHER_MS = 150; // events that come together are one change

/** Divide runs and inbox entries into the groups of the tree. */
function divide(rows, entries) {
  const asked = new Set(entries.map((entry) => entry.run));
  const quiet = rows.filter((row) => !asked.has(row.run));
  const running = quiet.filter((row) => AT_WORK.has(row.status));
  const ready = rows.filter((row) => row.merge === "ready" && !AT_WORK.has(row.status));
  const others = quiet.filter((row) => !running.includes(row) && !ready.includes(row));
  return { needs: entries, running, ready, done: others.slice(0, MOST_DONE) };
}

/** Return the words of the status bar: `2 running · 1 needs you · $0.83`. */
function summarize(groups, rows, today) {
  const parts = [];
  if (groups.running.length > 0) {
    parts.push(`${groups.running.length} running`);
  }
  if (groups.needs.length > 0) {
    parts.push(`${groups.needs.length} ${groups.needs.length === 1 ? "needs" : "need"} you`);
  }
  const spent = rows.filter((row) => row.started?.startsWith(today)).reduce((sum, row) => sum + (row.cost?.usd ?? 0), 0);
  if (spent > 0) {
    parts.push(`$${spent.toFixed(2)}`);
  }
  return parts.join(" · ");
}

/** Return runs, entries or a document from a server that answers; undefined: ask the command. */
async function fromServer(found, place) {
  try {
    return await server.get(found, place);
  } catch {
    return undefined; // it is just going away, or serves other folders
  }
}

class Runs {
  constructor() {
    this.rows = [];
    this.progress = new Map(); // of a flow at work: its nodes, and how many of them are over
    this.happened = new vscode.EventEmitter(); // single events, while a server reports them
    this.onDidHappen = this.happened.event;
    this.groups = divide([], []);
    this.problem = undefined; // why nothing can be shown
    this.live = false; // a server reports what happens
    this.changed = new vscode.EventEmitter();
    this.onDidChange = this.changed.event;
    this.documents = new Map();
  }

  /** Return the folders whose runs are shown. */
  folders() {
    return (vscode.workspace.workspaceFolders ?? []).filter((each) => each.uri.scheme === "file").map((each) => each.uri.fsPath);
  }

  /** Return the folder that a new task is about: that of the file at hand, else the first. */
  folder() {
    const open = vscode.window.activeTextEditor?.document.uri;
    const around = open?.scheme === "file" ? vscode.workspace.getWorkspaceFolder(open)?.uri.fsPath : undefined;
    return around ?? this.folders()[0];
  }

  /** Ask again; calls that come while one is under way share the next one. */
  refresh() {
    if (this.asking) {
      this.again ??= this.asking.then(() => {
        this.again = undefined;
        return this.refresh();
      });
      return this.again;
    }
    this.asking = this.ask().finally(() => {
      this.asking = undefined;
    });
    return this.asking;
  }

  async ask() {
    const folders = this.folders();
    try {
      const listed = await Promise.all(folders.map((folder) => this.list(folder)));
      const entries = folders.length > 0 ? await this.get("/api/v1/inbox", () => command.json(folders[0], "inbox")) : [];
      const unique = new Map(listed.flat().map((row) => [row.run, row]));
      this.rows = [...unique.values()].sort((a, b) => b.started.localeCompare(a.started));
      this.groups = divide(this.rows, entries);
      this.problem = undefined;
    } catch (error) {
      this.problem = error.message;
    }
    this.documents.clear();
    await this.count();
    const seen = JSON.stringify([this.rows, this.groups.needs, this.problem, this.live]);
    if (seen !== this.seen || this.groups.running.length > 0) {
      this.seen = seen;
      this.changed.fire();
    }
  }

  /** Ask the server that reports to us, else the command. */
  async get(place, otherwise) {
    const found = this.live ? server.find() : undefined;
    return (found && (await fromServer(found, place))) ?? otherwise();
  }

  async list(folder) {
    const page = await this.get(`/api/v1/runs?limit=${MOST_LISTED}&repo=${encodeURIComponent(folder)}`, async () => ({
      runs: await command.json(folder, "ls", "-n", String(MOST_LISTED), "--repo", folder),
    }));
    return page.runs;
  }

  /** Return the run document; what was read is kept until the next refresh. */
  document(run) {
    if (!this.documents.has(run)) {
      this.documents.set(run, this.get(`/api/v1/runs/${run}`, () => command.json(this.folders()[0], "show", run)));
    }
    return this.documents.get(run);
  }

  /** Count the nodes of flows at work. */
  async count() {
    this.progress.clear();
    const several = this.groups.running.filter((row) => !ONE_NODE.has(row.strategy)).slice(0, MOST_COUNTED);
    for (const row of several) {
      try {
        const { nodes } = await this.document(row.run);
        if (nodes.length > 1) {
          const over = nodes.filter((node) => !AT_WORK.has(node.status)).length;
          this.progress.set(row.run, { over, all: nodes.length });
        }
      } catch (error) {
        this.problem = error.message;
      }
    }
  }

  summary() {
    return summarize(this.groups, this.rows, new Date().toISOString().slice(0, 10));
  }

  /** Follow a server where there is one, else ask every few seconds, until disposed. */
  follow() {
    const wait = () => 1000 * Math.max(1, vscode.workspace.getConfiguration("corral").get("refreshSeconds") ?? 5);
    const gather = () => {
      clearTimeout(this.gathering);
      this.gathering = setTimeout(() => this.refresh(), GATHER_MS);
    };
    const turn = async () => {
      const found = this.live ? undefined : server.find();
      if (found) {
        this.events?.dispose();
        const begin = (events) => {
          this.live = true;
          events.forEach((event) => this.happened.fire(event));
          gather();
        };
        this.events = new server.Events(found, begin, () => {
          this.live = false;
        });
      }
      if (!this.live) {
        await this.refresh();
      }
      if (!this.closed) {
        this.timer = setTimeout(turn, wait());
      }
    };
    void turn();
  }

  dispose() {
    this.closed = true;
    clearTimeout(this.timer);
    clearTimeout(this.gathering);
    this.events?.dispose();
    this.changed.dispose();
    this.happened.dispose();
  }
}

module.exports = { Runs, divide, summarize, AT_WORK };
