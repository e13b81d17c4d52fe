" Vim compiler: `:compiler corral`, then `:make 'TASK'` runs a task and lists the files that it changed.
if exists("current_compiler")
  finish
endif
let current_compiler = "corral"
let s:words = get(get(g:, "corral", {}), "command", "corral")
let s:command = escape(join(map(type(s:words) == v:t_list ? copy(s:words) : [s:words], "shellescape(v:val)")), "%#!|")
let &l:makeprg = "{ " . s:command . " run --quiet $* && " . s:command . " diff --stat; }"
CompilerSet errorformat=%-G%.%#\ %.%#,%-G+%.%#,%-G,%f
