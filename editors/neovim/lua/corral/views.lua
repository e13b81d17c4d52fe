--- Buffers in which a run is looked at: texts, logs that grow, files before and after, the quickfix list.
local command = require("corral.command")
local patch = require("corral.patch")
local runs = require("corral.runs")
local M = {}

---@param name string
---@return integer buffer a scratch one, empty
local function scratch(name)
  local buffer = vim.fn.bufnr("^" .. vim.fn.escape(name, "[]*?{},\\") .. "$")
  if buffer < 0 then
    buffer = vim.api.nvim_create_buf(false, true)
    vim.api.nvim_buf_set_name(buffer, name)
  end
  vim.bo[buffer].bufhidden = "wipe"
  vim.bo[buffer].modifiable = true
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, {})
  return buffer
end

---@param buffer integer
---@param lines string[]
local function fill(buffer, lines)
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].modified = false
end

--- Name the language of a buffer; where its own plugins are broken, the text is shown all the same.
---@param buffer integer
---@param filetype string?
local function highlight(buffer, filetype)
  vim.api.nvim_buf_call(buffer, function()
    vim.cmd("silent! setlocal filetype=" .. (filetype or ""))
  end)
end

--- Show what a command prints.
---@param name string
---@param words string[]
---@param filetype string?
function M.print(name, words, filetype)
  command.text(words, function(text)
    local buffer = scratch("corral://" .. name)
    fill(buffer, vim.split(vim.trim(text), "\n", { plain = true }))
    vim.cmd("botright split")
    vim.api.nvim_win_set_buf(0, buffer)
    highlight(buffer, filetype)
  end)
end

--- Follow the logs of a run in a buffer; the process ends with the buffer.
---@param run string
function M.logs(run)
  local folder, rest = command.folder(), ""
  local buffer = scratch("corral://logs/" .. run)
  vim.cmd("botright split")
  vim.api.nvim_win_set_buf(0, buffer)
  local add = vim.schedule_wrap(function(text)
    if not vim.api.nvim_buf_is_valid(buffer) then
      return
    end
    local lines = vim.split(rest .. text, "\n", { plain = true })
    rest = table.remove(lines)
    local count = vim.api.nvim_buf_line_count(buffer)
    local empty = count == 1 and vim.api.nvim_buf_get_lines(buffer, 0, 1, false)[1] == ""
    vim.api.nvim_buf_set_lines(buffer, empty and 0 or count, -1, false, lines)
    for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
      vim.api.nvim_win_set_cursor(window, { vim.api.nvim_buf_line_count(buffer), 0 })
    end
  end)
  local process = command.start({ "logs", run, "-f" }, function(done)
    if done.code ~= 0 then
      command.complain(done)
    end
  end, {
    cwd = folder,
    stdout = function(_, text)
      if text then
        add(text)
      end
    end,
  })
  vim.api.nvim_create_autocmd("BufWipeout", {
    buffer = buffer,
    callback = function()
      if process then
        process:kill("sigterm")
      end
    end,
  })
end

---@param run table
---@param attempt table
---@param change corral.Change
local function compare(run, attempt, change)
  vim.cmd("tab split")
  for number, side in ipairs({ "old", "new" }) do
    local buffer = scratch(("corral://%s/%s/%s"):format(attempt.id, side, change.path))
    vim.b[buffer].corral = { run = run.run, attempt = attempt.id, file = change.path, side = side }
    fill(buffer, patch.lines(run.repo, change[side]))
    if number == 2 then
      vim.cmd("rightbelow vertical split")
    end
    vim.api.nvim_win_set_buf(0, buffer)
    highlight(buffer, vim.filetype.match({ filename = change.path, buf = buffer }))
    vim.cmd.diffthis()
  end
end

--- Compare a changed file with what it was; ask which one where there are several.
---@param name string?
---@param wanted string? attempt
---@param file string?
function M.diff(name, wanted, file)
  runs.find(name, function(run)
    local attempt = runs.attempt(run, wanted)
    if not attempt then
      return vim.notify(run.run .. " has changed nothing", vim.log.levels.WARN, { title = "Corral" })
    end
    patch.of(run.run, attempt.id, function(changes)
      local named = vim.tbl_filter(function(change)
        return not file or change.path == file
      end, changes)
      if #named == 1 then
        return compare(run, attempt, named[1])
      end
      vim.ui.select(#named > 0 and named or changes, {
        prompt = "Changed by " .. attempt.agent,
        format_item = function(change)
          return ("%s  +%d -%d"):format(change.path, change.added, change.removed)
        end,
      }, function(change)
        if change then
          compare(run, attempt, change)
        end
      end)
    end)
  end)
end

--- Put the changed files into the quickfix list.
---@param name string?
---@param wanted string? attempt
function M.files(name, wanted)
  runs.find(name, function(run)
    local attempt = runs.attempt(run, wanted)
    patch.of(run.run, attempt and attempt.id, function(changes)
      local items = vim.tbl_map(function(change)
        local text = ("+%d -%d"):format(change.added, change.removed)
        return { filename = vim.fs.joinpath(run.repo, change.path), lnum = change.line, text = text }
      end, changes)
      vim.fn.setqflist({}, " ", { title = "Corral " .. run.run, items = items })
      vim.cmd.copen()
    end)
  end)
end

return M
