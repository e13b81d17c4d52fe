--- What the statusline shows, asked for at most once in a while.
local command = require("corral.command")
local M = { shown = "" }

local asked_at, asking = 0, false

---@param runs table[]
---@param entries table[]
---@return string
local function words(runs, entries)
  local running, today, spent = 0, os.date("!%Y-%m-%d"), 0
  for _, run in ipairs(runs) do
    running = running + ((run.status == "running" or run.status == "queued") and 1 or 0)
    if vim.startswith(run.started or "", today) then
      spent = spent + (run.cost and run.cost.usd or 0)
    end
  end
  local parts = {}
  if running > 0 then
    table.insert(parts, running .. " running")
  end
  if #entries > 0 then
    table.insert(parts, #entries .. (#entries == 1 and " needs you" or " need you"))
  end
  if #parts > 0 and spent > 0 then
    table.insert(parts, ("$%.2f"):format(spent))
  end
  return #parts > 0 and "corral " .. table.concat(parts, " · ") or ""
end

--- Ask again, and redraw where the words have changed.
---@param on_done fun()?
function M.refresh(on_done)
  if asking then
    return
  end
  asking, asked_at = true, vim.uv.now()
  local function finish(text)
    asking = false
    if text and text ~= M.shown then
      M.shown = text
      vim.cmd.redrawstatus()
    end
    if on_done then
      on_done()
    end
  end
  local function read(done)
    local ok, value = pcall(vim.json.decode, done.stdout, { luanil = { object = true, array = true } })
    return done.code == 0 and ok and value or nil
  end
  local started = command.start({ "ls", "--json" }, function(listed)
    command.start({ "inbox", "--json" }, function(waiting)
      local rows, entries = read(listed), read(waiting)
      finish(rows and entries and words(rows, entries))
    end)
  end)
  asking = started ~= nil
end

---@return string
function M.text()
  local seconds = (vim.g.corral or {}).refresh_seconds or 5
  if asked_at == 0 or vim.uv.now() - asked_at > seconds * 1000 then
    M.refresh()
  end
  return M.shown
end

return M
