-- The command :Corral and its <Plug> maps; everything else is loaded when it is used.
if vim.g.loaded_corral then
  return
end
vim.g.loaded_corral = true

vim.api.nvim_create_user_command("Corral", function(call)
  require("corral.commands").call(call)
end, {
  nargs = "*",
  range = true,
  bang = true,
  desc = "Corral: run agents on tasks",
  complete = function(lead, line)
    return require("corral.completion").complete(lead, line)
  end,
})

local function map(mode, name, line, description)
  vim.keymap.set(mode, "<Plug>(Corral" .. name .. ")", line, { desc = description })
end
map({ "n", "x" }, "Run", ":Corral run ", "Corral: type a task")
map("n", "List", "<Cmd>Corral ls<CR>", "Corral: list runs")
map("n", "Show", "<Cmd>Corral show<CR>", "Corral: show the last run")
map("n", "Logs", "<Cmd>Corral logs<CR>", "Corral: follow the last run")
map("n", "Diff", "<Cmd>Corral diff<CR>", "Corral: compare a changed file")
map("n", "Files", "<Cmd>Corral files<CR>", "Corral: changed files in the quickfix list")
map("n", "Merge", "<Cmd>Corral merge<CR>", "Corral: merge the last run")
map("n", "Inbox", "<Cmd>Corral inbox<CR>", "Corral: answer what waits")
map({ "n", "x" }, "Comment", ":Corral comment ", "Corral: comment on lines")
