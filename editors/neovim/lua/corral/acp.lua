--- Corral as an ACP agent of other plugins.
local M = {}

---@return string[]
local function words()
  return vim.list_extend(require("corral.command").words(), { "acp" })
end

--- Return an adapter of CodeCompanion: `adapters = { acp = { corral = require("corral.acp").codecompanion } }`.
function M.codecompanion()
  return require("codecompanion.adapters.acp").extend("opencode", {
    name = "corral",
    formatted_name = "Corral",
    commands = { default = words() },
  })
end

--- Return a provider of avante: `acp_providers = { corral = require("corral.acp").avante() }`.
function M.avante()
  local all = words()
  return { command = table.remove(all, 1), args = all, env = {} }
end

return M
