// Corral as an MCP server for the agents of VS Code, without a file in the repository.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const vscode = require("vscode");
const command = require("./command");

/** Tell whether the repository's own file names Corral: then it is not offered twice. */
function isNamed(folder) {
  try {
    const file = JSON.parse(fs.readFileSync(path.join(folder, ".vscode", "mcp.json"), "utf8"));
    return file.servers?.corral !== undefined;
  } catch {
    return false; // no such file, or one with comments, which VS Code reads by itself
  }
}

/** Offer `corral mcp` for the folder at hand. Editors before 1.101 know no such offer. */
function offer(runs, version) {
  if (!vscode.lm?.registerMcpServerDefinitionProvider) {
    return [];
  }
  const provider = {
    provideMcpServerDefinitions() {
      const folder = runs.folder();
      if (!folder || isNamed(folder)) {
        return [];
      }
      const [program, ...words] = command.words();
      const server = new vscode.McpStdioServerDefinition("Corral", program, [...words, "mcp"], {}, version);
      server.cwd = vscode.Uri.file(folder);
      return [server];
    },
  };
  return [vscode.lm.registerMcpServerDefinitionProvider("corral", provider)];
}

module.exports = { offer };
