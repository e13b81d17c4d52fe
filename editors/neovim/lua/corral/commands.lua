--- The subcommands of :Corral.
local command = require("corral.command")
local runs = require("corral.runs")
local views = require("corral.views")
local M = {}

---@class corral.Call
---@field words string[] what follows the subcommand
---@field bang boolean
---@field range integer[]? first and last line

local function say(text)
  local words = vim.trim(text)
  vim.notify(words ~= "" and words or "done", vim.log.levels.INFO, { title = "Corral" })
end

--- Run a command, and say what it prints.
---@param words string[]
local function tell(words)
  command.text(words, function(text, done)
    if done.code ~= 0 then
      return command.complain(done)
    end
    say(text)
    require("corral.status").refresh()
  end)
end

--- Return the path of the file at hand within the repository; nil: it is no file of one.
---@return string?
local function file_at_hand()
  local name = vim.api.nvim_buf_get_name(0)
  local root = vim.bo.buftype == "" and name ~= "" and vim.fs.root(0, ".git")
  return root and name:sub(#root + 2) or nil
end

---@param call corral.Call
---@return string[] arguments of `corral run`
local function with_selection(call)
  local words, file = vim.deepcopy(call.words), file_at_hand()
  if not call.range then
    return words
  end
  local lines = vim.api.nvim_buf_get_lines(0, call.range[1] - 1, call.range[2], false)
  local where = ("--- %s:%d-%d"):format(file or "selection", call.range[1], call.range[2])
  words[#words] = table.concat({ words[#words], "", where, table.concat(lines, "\n"), "---" }, "\n")
  return file and vim.list_extend({ "--file", file }, words) or words
end

--- Join the words of a task; options stay as they are. `--agent a fix it` is { "--agent", "a", "--", "fix it" }.
---@param words string[]
---@return string[]
local function with_task(words)
  local options, task = {}, {}
  local flags = require("corral.completion").FLAGS
  local index = 1
  while index <= #words do
    local word = words[index]
    if #task == 0 and vim.startswith(word, "--") and word ~= "--" then
      table.insert(options, word)
      if not flags[word] and not word:find("=", 1, true) then
        index = index + 1
        table.insert(options, words[index])
      end
    elseif word ~= "--" or #task > 0 then
      table.insert(task, word)
    end
    index = index + 1
  end
  return vim.list_extend(options, { "--", table.concat(task, " ") })
end

local function run(call)
  call.words = with_task(call.words)
  if call.words[#call.words] ~= "" then
    return runs.start(with_selection(call))
  end
  vim.ui.input({ prompt = "Task: " }, function(task)
    if task and task ~= "" then
      call.words[#call.words] = task
      runs.start(with_selection(call))
    end
  end)
end

local function list()
  command.json({ "ls" }, function(rows)
    vim.ui.select(rows, {
      prompt = "Runs",
      format_item = function(row)
        return ("%s  %-9s %s"):format(row.run, row.status, row.name or row.task)
      end,
    }, function(row)
      if row then
        views.print("show/" .. row.run, { "show", row.run })
      end
    end)
  end)
end

local function merge(call)
  local name = call.words[1] or "@last"
  local words = vim.list_extend({ "merge", name }, vim.list_slice(call.words, 2))
  local function work()
    command.text(words, function(text, done)
      if done.code ~= 0 then
        return command.complain(done)
      end
      say(text)
      vim.cmd.checktime()
      vim.api.nvim_exec_autocmds("User", { pattern = "CorralMerged", data = { run = name } })
    end)
  end
  if call.bang then
    return work()
  end
  command.json(vim.list_extend(vim.deepcopy(words), { "--preview" }), function(preview)
    local files = table.concat(preview.files or {}, ", ")
    local prompt = ("Merge %s into %s?  %s  +%d -%d"):format(
      preview.run, preview.into, files, preview.insertions or 0, preview.deletions or 0
    )
    vim.ui.select({ "Merge", "Not now" }, { prompt = prompt }, function(chosen)
      if chosen == "Merge" then
        work()
      end
    end)
  end)
end

---@param entry table
local function ask(entry)
  local function answer(words)
    if words and words ~= "" then
      tell({ "answer", entry.id, words, "--resume" })
    end
  end
  if #(entry.choices or {}) > 0 then
    vim.ui.select(entry.choices, { prompt = entry.text }, answer)
  else
    vim.ui.input({ prompt = entry.text .. " " }, answer)
  end
end

local function inbox()
  command.json({ "inbox" }, function(entries)
    if #entries <= 1 then
      return entries[1] and ask(entries[1]) or say("nothing waits for you")
    end
    vim.ui.select(entries, {
      prompt = "Inbox",
      format_item = function(entry)
        return entry.id .. "  " .. entry.text
      end,
    }, function(entry)
      if entry then
        ask(entry)
      end
    end)
  end)
end

--- Comment on the line or the lines at hand, of a file or of a comparison.
local function comment(call)
  local at = vim.b.corral or {}
  local first, last = unpack(call.range or { vim.fn.line("."), vim.fn.line(".") })
  local file = at.file or file_at_hand()
  local words = vim.deepcopy(call.words)
  local name = at.run or (#words > 1 and M.is_run(words[1]) and table.remove(words, 1)) or "@last"
  if not file then
    return vim.notify("a comment is about a file of the repository", vim.log.levels.ERROR, { title = "Corral" })
  end
  local where = ("%s:%d%s"):format(file, first, last > first and "-" .. last or "")
  local options = at.side and { "--side", at.side, "--attempt", at.attempt } or {}
  local function send(text)
    if text and text ~= "" then
      tell(vim.list_extend(vim.list_extend({ "comment" }, options), { "--", name, where, text }))
    end
  end
  if #words > 0 then
    return send(table.concat(words, " "))
  end
  vim.ui.input({ prompt = "Comment on " .. where .. ": " }, send)
end

--- Return whether a word names a run: an id, a prefix of one, or @last.
function M.is_run(word)
  return word == "@last" or word:match("^%x%w%w%w+$") ~= nil and word:match("%d") ~= nil
end

--- Take the first word for a run, and join the others.
local function with_text(call, subcommand, options)
  local words = vim.deepcopy(call.words)
  local name = words[1] and M.is_run(words[1]) and table.remove(words, 1)
  local line = vim.list_extend({ subcommand }, options or {})
  if name then
    table.insert(line, name)
  end
  return #words > 0 and vim.list_extend(line, { table.concat(words, " ") }) or line
end

---@type table<string, fun(call: corral.Call)>
M.known = {
  run = run,
  ls = list,
  show = function(call)
    views.print("show/" .. (call.words[1] or "last"), vim.list_extend({ "show" }, call.words))
  end,
  logs = function(call)
    views.logs(call.words[1] or runs.last or "@last")
  end,
  diff = function(call)
    if call.bang then
      return views.print("diff/" .. (call.words[1] or "last"), vim.list_extend({ "diff" }, call.words), "diff")
    end
    views.diff(unpack(call.words, 1, 3))
  end,
  files = function(call)
    views.files(call.words[1], call.words[2])
  end,
  merge = merge,
  undo = function(call)
    command.text(vim.list_extend({ "undo" }, call.words), function(text, done)
      if done.code ~= 0 then
        return command.complain(done)
      end
      say(text)
      vim.cmd.checktime()
    end)
  end,
  inbox = inbox,
  answer = function(call)
    tell({ "answer", call.words[1] or "", table.concat(call.words, " ", 2), "--resume" })
  end,
  stop = function(call)
    tell(vim.list_extend({ "stop" }, call.words))
  end,
  steer = function(call)
    tell(with_text(call, "steer"))
  end,
  comment = comment,
  revise = function(call)
    runs.work(with_text(call, "revise", { "--quiet" }))
  end,
  acp = function()
    views.print("acp", { "editors", "neovim" }, "lua")
  end,
}

---@param call vim.api.keyset.create_user_command.command_args
function M.call(call)
  local words = vim.deepcopy(call.fargs)
  local name = table.remove(words, 1) or "ls"
  local known = M.known[name]
  if not known then
    local names = table.concat(vim.fn.sort(vim.tbl_keys(M.known)), ", ")
    return vim.notify(("Corral: no subcommand `%s`; there are %s"):format(name, names), vim.log.levels.ERROR)
  end
  known({ words = words, bang = call.bang, range = call.range > 0 and { call.line1, call.line2 } or nil })
end

return M
