// Notices: what an agent wrote is shown in them as text, never as a link that does something.
"use strict";

const { commands, window } = require("vscode");

const MOST_LETTERS = 500;

/** Return a text in which VS Code finds no link: in a notice, `[yes](command:...)` would be one. */
function plain(text) {
  const short = text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS)}…` : text;
  return short.replace(/\]\(/g, "] (");
}

/** Show a text with buttons; return the one that was pressed. */
function inform(text, ...buttons) {
  return window.showInformationMessage(plain(`Corral: ${text}`), ...buttons);
}

/** Show what went wrong. */
function complain(text) {
  void window.showErrorMessage(plain(`Corral: ${text}`));
}

/** Tell what hooks of the user said no to: from the events of a server, else from the log of a run that has ended. */
function tellHooks(runs, command) {
  const reported = new Set();
  const working = new Map();
  const tell = (run, event) => {
    const key = `${run}/${event.seq}`;
    if (event.type === "noted" && event.hook && !reported.has(key)) {
      reported.add(key);
      void inform(`${run}: ${event.text}`, "Follow the Log").then((chosen) => {
        if (chosen) {
          void commands.executeCommand("corral.logs", { row: { run } });
        }
      });
    }
  };
  const look = async (row) => {
    try {
      const lines = (await command.text(row.repo, "logs", "--json", row.run)).split("\n").filter((line) => line.includes('"hook"'));
      lines.forEach((line) => tell(row.run, JSON.parse(line)));
    } catch (error) {
      complain(error.message);
    }
  };
  const seen = runs.onDidChange(() => {
    const now = new Map(runs.groups.running.map((row) => [row.run, row]));
    const over = runs.live ? [] : [...working.values()].filter((row) => !now.has(row.run));
    working.clear();
    now.forEach((row, run) => working.set(run, row));
    over.forEach((row) => void look(row));
  });
  const heard = runs.onDidHappen((event) => tell(event.run, event));
  return { reported, dispose: () => [seen, heard].forEach((each) => each.dispose()) };
}

module.exports = { plain, inform, complain, tellHooks };
