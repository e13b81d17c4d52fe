--- `:checkhealth corral`
local M = {}

function M.check()
  local health = vim.health
  health.start("corral")
  if vim.fn.has("nvim-0.10") == 0 then
    return health.error("Neovim 0.10 or later is needed")
  end
  local words = require("corral.command").words()
  if vim.fn.executable(words[1]) == 0 then
    return health.error(("`%s` is not found"):format(words[1]), {
      "install Corral, or name it: vim.g.corral = { command = \"/path/to/corral\" }",
      "`corral editors neovim --write` does that",
    })
  end
  local version = vim.system(vim.list_extend(vim.deepcopy(words), { "--version" }), { text = true }):wait()
  if version.code ~= 0 then
    return health.error("the command does not start", { vim.trim(version.stderr or "") })
  end
  health.ok(vim.trim(version.stdout) .. " (" .. table.concat(words, " ") .. ")")
  local doctor = vim.system(vim.list_extend(vim.deepcopy(words), { "doctor", "--json" }), { text = true }):wait()
  local read, found = pcall(vim.json.decode, doctor.stdout or "")
  if not read then
    return health.error("`corral doctor` says nothing that can be read", { vim.trim(doctor.stderr or "") })
  end
  if doctor.code == 0 then
    health.ok("agents can run here")
  else
    health.warn("`corral doctor` finds something missing", { found.next or "corral doctor" })
  end
end

return M
