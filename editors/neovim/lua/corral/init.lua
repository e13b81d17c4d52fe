--- What other plugins and configurations call.
local M = {}

--- Set options; `vim.g.corral` does the same. Calling this is not needed.
---@param options corral.Options?
function M.setup(options)
  vim.g.corral = vim.tbl_extend("force", vim.g.corral or {}, options or {})
end

--- Return the words for a statusline: "corral 2 running · 1 needs you · $0.83"; empty while nothing happens.
---@return string
function M.statusline()
  return require("corral.status").text()
end

--- Start a task in the background; return nothing. `on_done` gets the run's document.
---@param words string[] arguments of `corral run`
---@param on_done fun(run: table)?
function M.run(words, on_done)
  require("corral.runs").start(words, on_done)
end

return M
