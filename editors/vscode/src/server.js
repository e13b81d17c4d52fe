// A running `corral serve`: where it is, what it answers, and the stream of its events.
"use strict";

const fs = require("node:fs");
const http = require("node:http");
const https = require("node:https");
const os = require("node:os");
const path = require("node:path");

/** Return the state folder of Corral. */
function home() {
  const state = process.env.XDG_STATE_HOME || path.join(os.homedir(), ".local", "state");
  return process.env.CORRAL_HOME || path.join(state, "corral");
}

/** Return what a server announces about itself (url, token, pid), or undefined. */
function find() {
  try {
    const announced = JSON.parse(fs.readFileSync(path.join(home(), "server.json"), "utf8"));
    return typeof announced.url === "string" && typeof announced.token === "string" ? announced : undefined;
  } catch {
    return undefined;
  }
}

const ANSWER_MS = 10_000;

/** Return what a server answers to a question about its state; an error where it does not answer well. */
function get(server, place) {
  const library = server.url.startsWith("https:") ? https : http;
  const headers = { Authorization: `Bearer ${server.token}`, Accept: "application/json" };
  return new Promise((resolve, reject) => {
    const request = library.get(new URL(place, server.url), { headers, timeout: ANSWER_MS }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("error", reject);
      answer.on("end", () => {
        try {
          const found = JSON.parse(Buffer.concat(parts).toString("utf8"));
          answer.statusCode === 200 ? resolve(found) : reject(new Error(found.message ?? `the server answers ${answer.statusCode}`));
        } catch (error) {
          reject(error);
        }
      });
    });
    request.on("timeout", () => request.destroy(new Error("the server does not answer")));
    request.on("error", reject);
  });
}

/** Return the events in a text of server-sent events, and the rest that is not whole yet. */
function readEvents(text) {
  const blocks = text.split("\n\n");
  const rest = blocks.pop();
  const found = [];
  for (const line of blocks.flatMap((block) => block.split("\n"))) {
    if (line.startsWith("data:")) {
      try {
        found.push(JSON.parse(line.slice(5)));
      } catch {
        found.push({}); // something happened, whatever it was
      }
    }
  }
  return { found, rest };
}

/** The stream of events of all runs; it calls back with those that come together, and once when it ends. */
class Events {
  constructor(server, onEvents, onEnd) {
    this.ended = false;
    let text = "";
    const end = () => {
      if (!this.ended) {
        this.ended = true;
        onEnd();
      }
    };
    const library = server.url.startsWith("https:") ? https : http;
    const headers = { Authorization: `Bearer ${server.token}`, Accept: "text/event-stream" };
    try {
      this.request = library.get(new URL("/api/v1/events", server.url), { headers }, (answer) => {
        if (answer.statusCode !== 200) {
          answer.destroy();
          return end();
        }
        onEvents([]); // what happened before the stream began
        answer.setEncoding("utf8");
        answer.on("data", (chunk) => {
          const read = readEvents(text + chunk);
          text = read.rest;
          if (read.found.length > 0) {
            onEvents(read.found);
          }
        });
        answer.on("close", end);
      });
      this.request.on("error", end);
    } catch {
      end();
    }
  }

  dispose() {
    this.ended = true;
    this.request?.destroy();
  }
}

module.exports = { find, get, readEvents, Events };
