// The command `corral`, started and read.
"use strict";

const { spawn } = require("node:child_process");
const vscode = require("vscode");

const MOST_BYTES = 64 * 1024 * 1024; // of what one command may print

/** A command that failed, in its own words. */
class CommandError extends Error {}

/** Return the words that start Corral. Only settings of the user or the machine count: a repository cannot name a program. */
function words() {
  const chosen = vscode.workspace.getConfiguration("corral").get("command");
  return Array.isArray(chosen) && chosen.length > 0 ? chosen.map(String) : ["corral"];
}

/** Start a program; return its exit code and what it printed. */
function start(program, options) {
  return new Promise((resolve, reject) => {
    const child = spawn(program[0], program.slice(1), { cwd: options.cwd, stdio: ["ignore", "pipe", "pipe"] });
    const printed = { stdout: [], stderr: [] };
    let size = 0;
    for (const name of ["stdout", "stderr"]) {
      child[name].on("data", (chunk) => {
        size += chunk.length;
        if (size > MOST_BYTES) {
          child.kill();
        } else {
          printed[name].push(chunk);
        }
      });
    }
    child.on("error", (error) => {
      reject(new CommandError(`${program[0]} cannot be started: ${error.message}. Set corral.command in your settings`));
    });
    child.on("close", (code) => {
      if (size > MOST_BYTES) {
        return reject(new CommandError(`${program.join(" ")}: it printed more than ${MOST_BYTES >> 20} MB`));
      }
      resolve({ code, out: Buffer.concat(printed.stdout), err: Buffer.concat(printed.stderr).toString("utf8").trim() });
    });
  });
}

/** Run `corral` to its end and return what it printed; a failure without output is an error. */
async function text(cwd, ...words_) {
  const done = await start([...words(), ...words_], { cwd });
  const out = done.out.toString("utf8");
  if (done.code !== 0 && out === "") {
    throw new CommandError(done.err || `corral ended with ${done.code}`);
  }
  return out;
}

/** Run `corral` with --json and return the value; the option is placed before a `--`. */
async function json(cwd, subcommand, ...words_) {
  const out = await text(cwd, subcommand, "--json", ...words_);
  try {
    return JSON.parse(out);
  } catch {
    throw new CommandError(`corral ${subcommand} did not print JSON: ${out.slice(0, 200)}`);
  }
}

/** Run `corral` where only its success counts; every other exit code is an error. */
async function act(cwd, ...words_) {
  const done = await start([...words(), ...words_], { cwd });
  if (done.code !== 0) {
    throw new CommandError(done.err || done.out.toString("utf8").trim() || `corral ended with ${done.code}`);
  }
  return done.out.toString("utf8").trim();
}

/** Return the bytes of an object of a repository. */
async function blob(repository, object) {
  const done = await start(["git", "-C", repository, "cat-file", "blob", object], {});
  if (done.code !== 0) {
    throw new CommandError(done.err || `git has no object ${object}`);
  }
  return done.out;
}

module.exports = { CommandError, words, start, text, json, act, blob };
