// The agents of this machine: which can run, and whether a login or a key of each is seen.
"use strict";

const vscode = require("vscode");
const command = require("./command");
const notices = require("./notices");

const { None } = vscode.TreeItemCollapsibleState;

const LOGINS = { "-": "no login needed", "none needed": "no login needed", "not seen": "no login seen" };

/** Return the icon of an agent: missing, without a login, or ready. */
function icon(agent) {
  if (!agent.program) {
    return "circle-slash";
  }
  return agent.login === "not seen" ? "warning" : "pass";
}

class Agents {
  constructor(runs) {
    this.runs = runs;
    this.changed = new vscode.EventEmitter();
    this.onDidChangeTreeData = this.changed.event;
  }

  getTreeItem(agent) {
    const item = new vscode.TreeItem(agent.name, None);
    const login = agent.program ? LOGINS[agent.login] ?? agent.login : "not installed";
    item.id = agent.name;
    item.description = [login, agent.version].filter(Boolean).join(" · ");
    item.tooltip = [agent.program, agent.remedy].filter(Boolean).join("\n");
    item.iconPath = new vscode.ThemeIcon(icon(agent));
    item.contextValue = "agent";
    return item;
  }

  /** Ask when the view is opened or refreshed: each look starts the programs for their versions. */
  async getChildren(agent) {
    const folder = this.runs.folder();
    if (agent || !folder) {
      return [];
    }
    try {
      const found = await command.json(folder, "agents");
      return [...found].sort((a, b) => Number(Boolean(b.program)) - Number(Boolean(a.program)));
    } catch (error) {
      notices.complain(error.message);
      return [];
    }
  }

  refresh() {
    this.changed.fire();
  }
}

/** Show the agents in a view; its refresh asks again. */
function show(runs) {
  const agents = new Agents(runs);
  const view = vscode.window.createTreeView("corral.agents", { treeDataProvider: agents });
  return { agents, parts: [view, vscode.commands.registerCommand("corral.refreshAgents", () => agents.refresh())] };
}

module.exports = { show };
