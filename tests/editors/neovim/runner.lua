-- One spec in one Neovim: `nvim -l runner.lua PLUGIN SPEC`; says `passed`, or what is wrong and exits with 1.
local plugin, name = arg[1], arg[2]
vim.opt.runtimepath:prepend(plugin)
vim.cmd.runtime("plugin/corral.lua")
vim.g.corral = { command = vim.json.decode(vim.env.CORRAL_WORDS), refresh_seconds = 0 }
vim.o.swapfile = false

local M = { notes = {}, asked = {} }

-- what users see and choose
vim.notify = function(text, level)
  table.insert(M.notes, { text = text, level = level })
end
function M.chooses(answer)
  vim.ui.select = function(items, options, use)
    local shown = vim.tbl_map(options.format_item or tostring, items)
    table.insert(M.asked, { prompt = options.prompt, shown = shown })
    for index, text in ipairs(shown) do
      if text:find(answer, 1, true) then
        return use(items[index], index)
      end
    end
    error(("%s is none of %s"):format(answer, vim.inspect(shown)))
  end
end
function M.types(answer)
  vim.ui.input = function(options, use)
    table.insert(M.asked, options)
    use(answer)
  end
end

function M.until_(happened, what)
  local value
  local seen = vim.wait(20000, function()
    for _, note in ipairs(M.may_fail and {} or M.notes) do
      assert(note.level ~= vim.log.levels.ERROR, "an error that nobody expected: " .. note.text)
    end
    value = happened()
    return value and true or false
  end, 10)
  assert(seen, ("waited for %s; notes: %s; messages: %s"):format(what, vim.inspect(M.notes), vim.fn.execute("messages")))
  return value
end
function M.same(found, expected)
  assert(vim.deep_equal(found, expected), ("%s, not %s"):format(vim.inspect(found), vim.inspect(expected)))
end
function M.noted(text)
  return M.until_(function()
    for _, note in ipairs(M.notes) do
      if note.text:find(text, 1, true) then
        return note
      end
    end
  end, "a note: " .. text)
end
--- Do something that ends with `User CorralRunDone`; return the run.
function M.done(line, pattern)
  local run
  vim.api.nvim_create_autocmd("User", {
    pattern = pattern or "CorralRunDone",
    once = true,
    callback = function(event)
      run = event.data
    end,
  })
  vim.cmd(line)
  return M.until_(function()
    return run
  end, line)
end
function M.corral(...)
  local done = vim.system(vim.list_extend(vim.deepcopy(vim.g.corral.command), { ... }), { text = true }):wait()
  assert(done.code == 0, done.stderr)
  return done.stdout
end
function M.json(...)
  return vim.json.decode(M.corral(..., "--json"))
end
function M.buffer(text)
  return M.until_(function()
    for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
      if vim.api.nvim_buf_get_name(buffer):find(text, 1, true) and vim.api.nvim_buf_is_loaded(buffer) then
        return buffer
      end
    end
  end, "a buffer: " .. text)
end
function M.lines(buffer)
  return vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
end

package.loaded.rig = M
local specs = dofile(vim.fs.joinpath(vim.fs.dirname(arg[0]), "specs.lua"))
local passed, words = xpcall(specs[name], debug.traceback)
if passed then
  io.stdout:write("passed\n")
else
  io.stderr:write(tostring(words) .. "\n")
end
os.exit(passed and 0 or 1)
