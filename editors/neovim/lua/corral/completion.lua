--- Completion of :Corral: subcommands, runs, agents, attempts, options and files.
local command = require("corral.command")
local M = {}

--- Options of `corral run` that take no value.
M.FLAGS = {
  ["--read-only"] = true,
  ["--review"] = true,
  ["--with-changes"] = true,
  ["--allow-unsandboxed"] = true,
  ["--trust"] = true,
  ["--yes"] = true,
}
local RUN_OPTIONS = {
  "--agent", "--budget", "--check", "--file", "--model", "--name", "--read-only", "--retries", "--role", "--strategy",
  "--timeout", "--type", "--write",
}
local VALUES = {
  ["--strategy"] = { "single", "multi", "race", "auto" },
  ["--type"] = { "feature", "bugfix", "refactor", "test", "documentation", "architecture" },
}
local TAKE_RUN = { "show", "logs", "diff", "files", "merge", "undo", "stop", "steer", "revise", "comment" }
local ENDED = { done = true, failed = true, stopped = true, partial = true, timed_out = true, over_budget = true }

---@param values string[]
---@param lead string
---@return string[]
local function beginning(values, lead)
  return vim.tbl_filter(function(value)
    return vim.startswith(value, lead)
  end, values)
end

---@param only_open boolean
---@return string[]
local function run_names(only_open)
  local names = only_open and {} or { "@last" }
  for _, row in ipairs(command.wait({ "ls" }) or {}) do
    if not only_open or not ENDED[row.status] then
      table.insert(names, row.run)
    end
  end
  return names
end

---@return string[]
local function agents()
  return vim.tbl_map(function(agent)
    return agent.name
  end, command.wait({ "agents" }) or {})
end

---@param run string
---@return string[] attempts, and the files that they changed
local function inside(run, with_files)
  local found, seen = {}, {}
  for _, node in ipairs((command.wait({ "show", run }) or { nodes = {} }).nodes) do
    for _, attempt in ipairs(node.attempts) do
      table.insert(found, attempt.id)
      for _, file in ipairs(with_files and attempt.files_changed or {}) do
        seen[file] = true
      end
    end
  end
  return with_files and vim.fn.sort(vim.tbl_keys(seen)) or found
end

---@param words string[] whole ones after the subcommand
---@param lead string
local function for_run(words, lead)
  local before = words[#words]
  if before == "--agent" then
    return beginning(agents(), lead)
  elseif before == "--file" or before == "--write" or before == "--read" then
    return vim.fn.getcompletion(lead, "file")
  elseif VALUES[before] then
    return beginning(VALUES[before], lead)
  end
  return vim.startswith(lead, "-") and beginning(RUN_OPTIONS, lead) or {}
end

---@param lead string
---@param line string up to the end
---@return string[]
function M.complete(lead, line)
  local words = vim.split(line:gsub("^.-Corral!?%s*", ""), "%s+", { trimempty = true })
  if lead ~= "" then
    table.remove(words)
  end
  local name = table.remove(words, 1)
  if not name then
    return beginning(vim.fn.sort(vim.tbl_keys(require("corral.commands").known)), lead)
  elseif name == "run" then
    return for_run(words, lead)
  elseif name == "answer" and #words == 0 then
    return beginning(vim.tbl_map(function(entry)
      return entry.id
    end, command.wait({ "inbox" }) or {}), lead)
  elseif vim.list_contains(TAKE_RUN, name) and #words == 0 then
    return beginning(run_names(name == "stop" or name == "steer"), lead)
  elseif (name == "diff" or name == "files") and #words == 1 then
    return beginning(inside(words[1], false), lead)
  elseif name == "diff" and #words == 2 then
    return beginning(inside(words[1], true), lead)
  end
  return {}
end

return M
