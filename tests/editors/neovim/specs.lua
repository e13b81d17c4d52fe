-- What the plugin does, in a real Neovim with the real command; the agent `mine` writes its prompt to said.txt.
local rig = require("rig")
local M = {}

function M.run_and_events()
  rig.same(vim.fn.exists(":Corral"), 2)
  rig.same(rig.done("Corral run --agent mine say it", "CorralRunStarted").status, "queued")
  rig.noted("started: :Corral logs")
  rig.noted("done: say it")
  local run = rig.json("show", "@last")
  rig.same({ run.status, run.task, run.nodes[1].attempts[1].agent }, { "done", "say it", "mine" })
  rig.types("typed task")
  run = rig.done("Corral run")
  rig.same(run.task, "typed task")
  rig.same(rig.asked[1].prompt, "Task: ")
end

function M.selection_is_context()
  vim.cmd.edit("a.txt")
  local run = rig.done("2,3Corral run change this")
  assert(run.task:find("change this\n\n--- a.txt:2-3\ntwo\nthree\n---", 1, true), run.task)
  rig.same(run.nodes[1].attempts[1].status, "done")
end

function M.files_and_diff()
  local run = rig.done("Corral run say it")
  vim.cmd("Corral files")
  local list = rig.until_(function()
    local found = vim.fn.getqflist({ items = true, title = true })
    return #found.items == 2 and found
  end, "a quickfix list")
  rig.same(list.title, "Corral " .. run.run)
  local shown = vim.tbl_map(function(item)
    return { vim.fs.basename(vim.api.nvim_buf_get_name(item.bufnr)), item.lnum, item.text }
  end, list.items)
  rig.same(shown, { { "a.txt", 1, "+1 -0" }, { "said.txt", 1, "+1 -0" } })
  vim.cmd.cclose()

  rig.chooses("a.txt")
  vim.cmd("Corral diff " .. run.run)
  rig.same(rig.lines(rig.buffer("/new/a.txt")), { "one", "two", "three", "more" })
  rig.same(rig.lines(rig.buffer("/old/a.txt")), { "one", "two", "three" })
  rig.same(rig.asked[1].shown, { "a.txt  +1 -0", "said.txt  +1 -0" })
  local windows = vim.api.nvim_tabpage_list_wins(0)
  rig.same({ #windows, vim.wo[windows[1]].diff, vim.wo[windows[2]].diff }, { 2, true, true })

  vim.cmd(("Corral diff %s 1 said.txt"):format(run.run))
  rig.same(rig.lines(rig.buffer("/new/said.txt")), { "say it" })
  rig.same(rig.lines(rig.buffer("/old/said.txt")), { "" })
  vim.cmd("Corral! diff")
  assert(vim.list_contains(rig.lines(rig.buffer("corral://diff/")), "+say it"))
end

function M.comment_and_revise()
  local run = rig.done("Corral run say it")
  vim.cmd(("Corral diff %s 1 said.txt"):format(run.run))
  rig.buffer("/new/said.txt")
  vim.cmd("Corral comment much too short")
  rig.noted("said.txt:1")
  local comment = rig.json("comment", run.run)[1]
  rig.same(
    { comment.file, comment.line, comment.side, comment.text, comment.attempt },
    { "said.txt", 1, "new", "much too short", run.run .. "-1" }
  )
  vim.cmd("tabclose | edit a.txt")
  vim.cmd(("2,3Corral comment %s these two"):format(run.run))
  rig.noted("a.txt:2-3")
  local revised = rig.done(("Corral revise %s and mind the rest"):format(run.run))
  local attempts = revised.nodes[1].attempts
  rig.same({ #attempts, attempts[2].revises, revised.nodes[1].winner }, { 2, attempts[1].id, attempts[2].id })
end

function M.merge_and_undo()
  vim.cmd.edit("a.txt")
  local run = rig.done("Corral run say it")
  rig.chooses("Not now")
  vim.cmd("Corral merge")
  rig.until_(function()
    return #rig.asked == 1
  end, "a question")
  assert(rig.asked[1].prompt:find("a.txt, said.txt  +2 -0", 1, true), rig.asked[1].prompt)
  rig.same(vim.fn.filereadable("said.txt"), 0)
  rig.chooses("Merge")
  vim.o.autoread = true
  rig.same(rig.done("Corral merge " .. run.run, "CorralMerged").run, run.run)
  rig.same(vim.fn.readfile("said.txt"), { "say it" })
  rig.same(rig.lines(0), { "one", "two", "three", "more" })
  vim.cmd("Corral undo")
  rig.until_(function()
    return vim.fn.filereadable("said.txt") == 0
  end, "the merge undone")
end

function M.logs_steer_and_stop()
  rig.done("Corral run --agent slow wait", "CorralRunStarted")
  vim.cmd("Corral logs")
  local buffer = rig.buffer("corral://logs/")
  rig.until_(function()
    return table.concat(rig.lines(buffer), "\n"):find("I wait")
  end, "what the agent says")
  local status = require("corral").statusline
  rig.until_(function()
    return status() == "corral 1 running"
  end, "the statusline")
  rig.same(require("corral.completion").complete("", "Corral stop "), { require("corral.runs").last })
  vim.cmd("Corral stop")
  rig.noted("stopped: wait")
  rig.until_(function()
    return table.concat(rig.lines(buffer), "\n"):find("stopped")
  end, "the end in the logs")
  rig.until_(function()
    return status() == ""
  end, "an empty statusline")
end

function M.inbox()
  local flow = "nodes: {a: {run: 'true'}, ok: {gate: 'Land it?', needs: [a]}}"
  vim.fn.writefile({ flow }, "../gate.yaml")
  local waiting = vim.system(
    vim.list_extend(vim.deepcopy(vim.g.corral.command), { "flow", "run", "../gate.yaml", "--json" }),
    { text = true }
  ):wait()
  rig.same(waiting.code, 3)
  rig.until_(function()
    return require("corral").statusline() == "corral 1 needs you"
  end, "the statusline")
  rig.chooses("yes")
  vim.cmd("Corral inbox")
  rig.until_(function()
    return rig.json("show", "@last").status == "done"
  end, "the answer taken")
  assert(rig.asked[1].prompt:find("Land it?", 1, true))
  rig.same(rig.json("inbox"), {})
  vim.cmd("Corral inbox")
  rig.noted("nothing waits for you")
end

function M.lists_and_completion()
  local run = rig.done("Corral run say it").run
  local function complete(line)
    return vim.fn.getcompletion(line, "cmdline")
  end
  rig.same(complete("Corral st"), { "steer", "stop" })
  rig.same(complete("Corral show "), { "@last", run })
  rig.same(complete("Corral diff " .. run .. " "), { run .. "-1" })
  rig.same(complete("Corral diff " .. run .. " 1 s"), { "said.txt" })
  rig.same(complete("Corral run --agent mi"), { "mine" })
  rig.same(complete("Corral run --str"), { "--strategy" })
  rig.same(complete("Corral run --strategy r"), { "race" })
  rig.same(complete("Corral run --file a."), { "a.txt" })
  rig.same(#complete("Corral "), 15)
  rig.chooses(run)
  vim.cmd("Corral ls")
  assert(rig.lines(rig.buffer("corral://show/"))[1]:find(run, 1, true))
  assert(rig.asked[1].shown[1]:find("done", 1, true))
  rig.same(vim.fn.maparg("<Plug>(CorralRun)", "n"), ":Corral run ")
end

function M.health_and_help()
  vim.cmd("checkhealth corral")
  local report = table.concat(rig.lines(0), "\n")
  assert(report:find("OK corral %d"), report)
  vim.g.corral = { command = "/nowhere/corral" }
  vim.cmd("checkhealth corral")
  assert(table.concat(rig.lines(0), "\n"):find("ERROR `/nowhere/corral` is not found", 1, true))
  vim.cmd.helptags(vim.fn.tempname() == "" and "" or vim.env.CORRAL_DOC)
  for name in pairs(require("corral.commands").known) do
    vim.cmd.help(":Corral-" .. name)
    vim.cmd.helpclose()
  end
end

function M.what_goes_wrong_is_said()
  rig.may_fail = true
  vim.cmd("Corral nothing")
  rig.noted("no subcommand `nothing`; there are acp, answer")
  vim.cmd("Corral show 0123nothing")
  rig.noted("0123nothing")
  vim.cmd("Corral run --agent nobody say it")
  rig.noted("nobody")
  vim.cmd("Corral stop")
  vim.cmd("enew | setlocal buftype=nofile")
  vim.cmd("Corral comment of what")
  rig.noted("a comment is about a file")
  vim.g.corral = { command = "/nowhere/corral" }
  vim.cmd("Corral ls")
  rig.noted("corral cannot be started")
  rig.same(require("corral").statusline(), "")
  rig.same(vim.fn.getcompletion("Corral show ", "cmdline"), { "@last" })
end

function M.compiler()
  vim.cmd("compiler corral | silent make! 'say it'")
  local files = vim.tbl_map(function(item)
    return vim.fs.basename(vim.api.nvim_buf_get_name(item.bufnr))
  end, vim.fn.getqflist())
  rig.same(files, { "a.txt", "said.txt" })
end

return M
