--- The change of an attempt: its files, the first changed line of each, and their contents before and after.
local command = require("corral.command")
local M = {}

---@class corral.Change
---@field path string
---@field old string? object of the content before; nil: there was none
---@field new string? object of the content after; nil: it is removed
---@field line integer first changed line
---@field added integer
---@field removed integer

--- Read a patch as `corral diff` prints it.
---@param text string
---@return corral.Change[]
function M.read(text)
  local found, change, left = {}, nil, { 0, 0 }
  for line in vim.gsplit(text, "\n", { plain = true }) do
    if change and (left[1] > 0 or left[2] > 0) and not vim.startswith(line, "\\") then
      local first = line:sub(1, 1)
      change.added = change.added + (first == "+" and 1 or 0)
      change.removed = change.removed + (first == "-" and 1 or 0)
      left = { left[1] - (first == "+" and 0 or 1), left[2] - (first == "-" and 0 or 1) }
    elseif vim.startswith(line, "diff --git ") then
      change = { line = 1, added = 0, removed = 0 }
      table.insert(found, change)
    elseif change then
      M._header(change, line, left)
    end
  end
  return vim.tbl_filter(function(each)
    return each.path ~= nil
  end, found)
end

---@param change corral.Change
---@param line string
---@param left integer[]
function M._header(change, line, left)
  local old, new = line:match("^index (%x+)%.%.(%x+)")
  if old then
    change.old = old:match("[^0]") and old or nil
    change.new = new:match("[^0]") and new or nil
  end
  local path = line:match("^%+%+%+ b/(.-)\t?$") or (not change.path and line:match("^%-%-%- a/(.-)\t?$"))
  change.path = path or change.path or line:match("^rename to (.+)$")
  local removed, start, added = line:match("^@@ %-%d+,?(%d*) %+(%d+),?(%d*) @@")
  if start then
    left[1], left[2] = tonumber(removed) or 1, tonumber(added) or 1
    change.line = change.seen and change.line or math.max(1, tonumber(start) or 1)
    change.seen = true
  end
end

--- Hand over the changes of an attempt.
---@param run string
---@param attempt string?
---@param use fun(changes: corral.Change[])
function M.of(run, attempt, use)
  command.text({ "diff", run, attempt }, function(text)
    use(M.read(text))
  end)
end

--- Return the lines of an object of a repository.
---@param repository string
---@param object string?
---@return string[]
function M.lines(repository, object)
  if not object then
    return {}
  end
  local done = vim.system({ "git", "-C", repository, "cat-file", "blob", object }):wait()
  assert(done.code == 0, done.stderr)
  return vim.split((done.stdout:gsub("\n$", "")), "\n", { plain = true })
end

return M
