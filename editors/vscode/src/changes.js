// The change of an attempt: its files, and their contents before and after, out of git without a checkout.
"use strict";

const vscode = require("vscode");
const command = require("./command");

const SCHEME = "corral";
const ESCAPES = { n: "\n", t: "\t", r: "\r", '"': '"', "\\": "\\", a: "\x07", b: "\b", f: "\f", v: "\v" };

/** Read a path of a patch; git quotes those with unusual letters. */
function unquote(name) {
  const plain = name.replace(/\t$/, "");
  if (!plain.startsWith('"')) {
    return plain;
  }
  const bytes = plain.slice(1, -1).replace(/\\([0-7]{3}|.)/g, (_, code) => (code.length === 3 ? String.fromCharCode(parseInt(code, 8)) : ESCAPES[code]));
  return Buffer.from(bytes, "latin1").toString("utf8");
}

/** Read a line of a file's header in a patch. */
function readHeader(change, line) {
  const objects = /^index ([0-9a-f]+)\.\.([0-9a-f]+)/.exec(line);
  const span = /^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
  if (objects) {
    [change.old, change.new] = objects.slice(1).map((each) => (/[^0]/.test(each) ? each : undefined));
  } else if (line.startsWith("--- ") && line !== "--- /dev/null") {
    change.path ??= unquote(line.slice(4)).slice(2);
  } else if (line.startsWith("+++ ") && line !== "+++ /dev/null") {
    change.path = unquote(line.slice(4)).slice(2);
  } else if (line.startsWith("rename to ")) {
    change.path = unquote(line.slice("rename to ".length));
  } else if (span) {
    change.hunks += 1;
    return [Number(span[1] ?? 1), Number(span[3] ?? 1)];
  }
  return undefined;
}

/** Read a patch as `corral diff` prints it; what follows a header is counted, so that no content is taken for one. */
function readPatch(text) {
  /** @type {{added: number, removed: number, hunks: number, path?: string, fallback?: string, old?: string, new?: string}[]} */
  const found = [];
  /** @type {typeof found[0] | undefined} */
  let change;
  let left = [0, 0];
  for (const line of text.split("\n")) {
    if (change && (left[0] > 0 || left[1] > 0)) {
      if (!line.startsWith("\\")) {
        change.added += line[0] === "+" ? 1 : 0;
        change.removed += line[0] === "-" ? 1 : 0;
        left = [left[0] - (line[0] === "+" ? 0 : 1), left[1] - (line[0] === "-" ? 0 : 1)];
      }
    } else if (line.startsWith("diff --git ")) {
      change = { added: 0, removed: 0, hunks: 0 };
      const name = / b\/(.*)$/.exec(line);
      change.fallback = name ? name[1] : undefined;
      found.push(change);
    } else if (change) {
      left = readHeader(change, line) ?? left;
    }
  }
  for (const each of found) {
    each.path ??= each.fallback; // a binary or empty file has no names of its own
  }
  return found.filter((each) => each.path);
}

/** Return the changes of an attempt. */
async function changesOf(run, attempt) {
  return readPatch(await command.text(run.repo, "diff", run.run, attempt.id));
}

/** Return a hunk with the lines that it spans on both sides, and a title: the first line that it changes. */
function readHunk(hunk) {
  const span = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(hunk.head);
  const [old, oldCount, new_, newCount] = span.slice(1).map((each) => Number(each ?? 1));
  const title = hunk.text.split("\n").find((line) => /^[+-]/.test(line)) ?? hunk.head;
  return { ...hunk, title, old: [old, old + oldCount - 1], new: [new_, new_ + newCount - 1] };
}

/** Return the hunks of a changed file, numbered as a merge takes them; none where it can only be taken whole. */
async function hunksOf(run, attempt, change) {
  const found = await command.json(run.repo, "diff", "--hunks", run.run, attempt.id);
  const files = found.find((each) => each.attempt === attempt.id)?.files ?? [];
  return (files.find((file) => file.path === change.path)?.hunks ?? []).map(readHunk);
}

/** Return the address of one side of a change. */
function address(run, attempt, change, side) {
  const query = { repo: run.repo, run: run.run, attempt: attempt.id, side, object: change[side] };
  return vscode.Uri.from({ scheme: SCHEME, path: `/${change.path}`, query: JSON.stringify(query) });
}

/** Return what an address of ours is about, or undefined. */
function readAddress(uri) {
  if (uri.scheme !== SCHEME) {
    return undefined;
  }
  try {
    return { ...JSON.parse(uri.query), path: uri.path.slice(1) };
  } catch {
    return undefined;
  }
}

/** The contents of `corral:` addresses. */
const contents = {
  async provideTextDocumentContent(uri) {
    const at = readAddress(uri);
    if (!at?.object) {
      return "";
    }
    if (!/^[0-9a-f]{40,64}$/.test(at.object)) {
      throw new Error(`${at.object} is not an object of git`);
    }
    return (await command.blob(at.repo, at.object)).toString("utf8");
  },
};

/** Open one changed file beside what it was, at a hunk of it. */
function openFile(run, attempt, change, hunk) {
  const [left, right] = ["old", "new"].map((side) => address(run, attempt, change, side));
  const shown = hunk && { selection: new vscode.Range(Math.max(0, hunk.new[0] - 1), 0, Math.max(0, hunk.new[1] - 1), 0) };
  return vscode.commands.executeCommand("vscode.diff", left, right, `${change.path} (${attempt.agent}, ${attempt.id})`, shown);
}

/** Open all changed files of an attempt in one editor. */
function openAll(run, attempt, changes) {
  const triples = changes.map((change) => {
    const [left, right] = ["old", "new"].map((side) => address(run, attempt, change, side));
    return [right, change.old ? left : undefined, change.new ? right : undefined];
  });
  return vscode.commands.executeCommand("vscode.changes", `Corral: ${attempt.agent}, ${attempt.id}`, triples);
}

module.exports = { SCHEME, readPatch, changesOf, hunksOf, address, readAddress, contents, openFile, openAll };
