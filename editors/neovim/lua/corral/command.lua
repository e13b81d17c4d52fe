--- The command `corral`, started and read.
local M = {}

---@class corral.Options
---@field command string|string[]|nil the command, with a path if it is not on PATH
---@field refresh_seconds number|nil how old what the statusline shows may be

---@return string[]
function M.words()
  local command = (vim.g.corral or {}).command or "corral"
  return type(command) == "table" and vim.deepcopy(command) or { command }
end

--- Return the folder whose repository is meant: that of the file at hand, else the current one.
---@return string
function M.folder()
  local name = vim.api.nvim_buf_get_name(0)
  local folder = name ~= "" and vim.bo.buftype == "" and vim.fs.dirname(name) or nil
  return folder and vim.fn.isdirectory(folder) == 1 and folder or vim.fn.getcwd()
end

---@param arguments string[]
---@return string[]
local function line(arguments)
  return vim.list_extend(M.words(), arguments)
end

--- Say what went wrong, in the command's own words.
---@param done vim.SystemCompleted
function M.complain(done)
  local words = vim.trim((done.stderr or "") ~= "" and done.stderr or done.stdout or "")
  vim.notify(words ~= "" and words or ("corral ended with " .. done.code), vim.log.levels.ERROR, { title = "Corral" })
end

---@param arguments string[]
---@param on_exit fun(done: vim.SystemCompleted) called in the main loop
---@param options table? as of vim.system
---@return vim.SystemObj?
function M.start(arguments, on_exit, options)
  options = vim.tbl_extend("keep", options or {}, { cwd = M.folder(), text = true, stdin = false })
  local started, process = pcall(vim.system, line(arguments), options, vim.schedule_wrap(on_exit))
  if started then
    return process
  end
  M.complain({ code = 127, signal = 0, stdout = "", stderr = "corral cannot be started: " .. tostring(process) })
end

--- Run to the end and hand over what it printed; what fails is said.
---@param arguments string[]
---@param use fun(text: string, done: vim.SystemCompleted)
function M.text(arguments, use)
  M.start(arguments, function(done)
    if done.code ~= 0 and (done.stdout or "") == "" then
      return M.complain(done)
    end
    use(done.stdout or "", done)
  end)
end

--- Put --json behind the subcommand: what follows `--` is no option.
---@param arguments string[]
---@return string[]
local function with_json(arguments)
  return vim.list_extend({ arguments[1], "--json" }, vim.list_slice(arguments, 2))
end

--- Run with --json and hand over the value.
---@param arguments string[]
---@param use fun(value: any, done: vim.SystemCompleted)
function M.json(arguments, use)
  M.text(with_json(arguments), function(text, done)
    local read, value = pcall(vim.json.decode, text, { luanil = { object = true, array = true } })
    if not read then
      return M.complain(done)
    end
    use(value, done)
  end)
end

--- Run with --json and wait for the value, for completion; nil where that takes too long.
---@param arguments string[]
---@return any?
function M.wait(arguments)
  local started, process = pcall(vim.system, line(with_json(arguments)), { cwd = M.folder(), text = true })
  local done = started and process:wait(5000)
  if not done or done.code ~= 0 then
    return nil
  end
  local read, value = pcall(vim.json.decode, done.stdout, { luanil = { object = true, array = true } })
  return read and value or nil
end

return M
