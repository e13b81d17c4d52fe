--- Runs that this Neovim started or follows, and the event at their end.
local command = require("corral.command")
local M = {}

---@param run table the run's document
local function announce(run)
  local level = run.status == "done" and vim.log.levels.INFO or vim.log.levels.WARN
  vim.notify(("%s %s: %s"):format(run.run, run.status, run.task or ""), level, { title = "Corral" })
  vim.api.nvim_exec_autocmds("User", { pattern = "CorralRunDone", data = run })
  require("corral.status").refresh()
end

--- Follow a run to its end; then say so, and raise `User CorralRunDone` with its document as data.
---@param name string
---@param on_done fun(run: table)?
function M.follow(name, on_done)
  command.start({ "logs", name, "-f", "--json" }, function()
    command.json({ "show", name }, function(run)
      announce(run)
      if on_done then
        on_done(run)
      end
    end)
  end)
end

---@param words string[]
---@param on_done fun(run: table)?
function M.start(words, on_done)
  command.json(vim.list_extend({ "run", "--detach" }, words), function(run)
    M.last = run.run
    vim.notify(("%s started: :Corral logs %s"):format(run.run, run.run), vim.log.levels.INFO, { title = "Corral" })
    vim.api.nvim_exec_autocmds("User", { pattern = "CorralRunStarted", data = run })
    M.follow(run.run, on_done)
  end)
end

--- Work in the foreground of `corral` and the background of Neovim, as `revise` does.
---@param words string[]
function M.work(words)
  command.json(words, function(run)
    announce(run)
    vim.cmd.checktime()
  end)
end

--- Hand over the document of a run.
---@param name string?
---@param use fun(run: table)
function M.find(name, use)
  command.json({ "show", name or "@last" }, use)
end

--- Return the attempt that is meant: by its id or number, else the winner, else the last that changed something.
---@param run table
---@param wanted string?
---@return table?
function M.attempt(run, wanted)
  local found
  for _, node in ipairs(run.nodes) do
    for number, attempt in ipairs(node.attempts) do
      if wanted and (attempt.id == wanted or tostring(number) == wanted or vim.endswith(attempt.id, "-" .. wanted)) then
        return attempt
      end
      if not wanted and attempt.commit and (node.winner == attempt.id or not found) then
        found = attempt
      end
    end
  end
  return found
end

return M
