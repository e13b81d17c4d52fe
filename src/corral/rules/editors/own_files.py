"""Files of editors that are Corral's alone: programs and XML, with the command's words in them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

TOOL = """\
  <tool name={name} description={description} showInMainMenu="true" showInEditor="true" showInProject="true" \
showInSearchPopup="true" disabled="false" useConsole="true" showConsoleOnStdOut="true" showConsoleOnStdErr="true" \
synchronizeAfterRun="true">
    <exec>
      <option name="COMMAND" value={command} />
      <option name="PARAMETERS" value={parameters} />
      <option name="WORKING_DIRECTORY" value="$ProjectFileDir$" />
    </exec>
  </tool>
"""
TOOLS = (
    ("run task", "Run a task on the file at hand", 'run --file "$FileRelativePath$" -- "$Prompt$"'),
    ("show", "Show the last run", "show"),
    ("merge", "Merge the last run", "merge @last"),
    ("inbox", "List what waits for you", "inbox"),
)
RUN = """\
<component name="ProjectRunConfigurationManager">
  <configuration default="false" name="Corral: serve the page" type="ShConfigurationType">
    <option name="SCRIPT_TEXT" value={script} />
    <option name="INDEPENDENT_SCRIPT_PATH" value="true" />
    <option name="SCRIPT_PATH" value="" />
    <option name="SCRIPT_OPTIONS" value="" />
    <option name="INDEPENDENT_SCRIPT_WORKING_DIRECTORY" value="true" />
    <option name="SCRIPT_WORKING_DIRECTORY" value="$PROJECT_DIR$" />
    <option name="INDEPENDENT_INTERPRETER_PATH" value="true" />
    <option name="INTERPRETER_PATH" value="/bin/sh" />
    <option name="INTERPRETER_OPTIONS" value="" />
    <option name="EXECUTE_IN_TERMINAL" value="true" />
    <option name="EXECUTE_SCRIPT_FILE" value="false" />
    <envs />
    <method v="2" />
  </configuration>
</component>
"""
NEOVIM = """\
-- Corral in Neovim. Written by `corral editors neovim --write`; `:help corral` says more.
vim.g.corral = vim.tbl_extend("keep", vim.g.corral or {{}}, {{ command = {{ {words} }} }})
vim.opt.runtimepath:append({plugin})
vim.cmd.runtime("plugin/corral.lua")
"""
VIM = """\
" Vim compiler: `:compiler corral`, then `:make 'TASK'` runs a task and lists the files that it changed.
" Written by `corral editors vim --write`.
if exists("current_compiler")
  finish
endif
let current_compiler = "corral"
let &l:makeprg = {program}
CompilerSet errorformat=%-G%.%#\\ %.%#,%-G+%.%#,%-G,%f
"""
EMACS = """\
;;; corral.el --- Corral as an agent of agent-shell -*- lexical-binding: t; -*-
;; Written by `corral editors emacs --write`. M-x corral starts it.

(autoload 'agent-shell-make-agent-config "agent-shell")
(declare-function agent-shell--make-acp-client "agent-shell")
(declare-function agent-shell--dwim "agent-shell")

(defvar corral-command '({words})
  "The command that serves ACP, and its arguments.")

(defun corral-make-agent-config ()
  "Return the configuration of Corral for agent-shell."
  (agent-shell-make-agent-config
   :identifier 'corral
   :mode-line-name "Corral"
   :buffer-name "Corral"
   :shell-prompt "Corral> "
   :shell-prompt-regexp "Corral> "
   :client-maker (lambda (buffer)
                   (agent-shell--make-acp-client :command (car corral-command)
                                                 :command-params (cdr corral-command)
                                                 :context-buffer buffer))))

(defun corral ()
  "Start a conversation with Corral about this project."
  (interactive)
  (require 'agent-shell)
  (agent-shell--dwim :config (corral-make-agent-config) :new-shell t))

(provide 'corral)
;;; corral.el ends here
"""
CONTENT_TYPES = """\
<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
  <Default Extension=".json" ContentType="application/json"/>
  <Default Extension=".js" ContentType="application/javascript"/>
  <Default Extension=".md" ContentType="text/markdown"/>
  <Default Extension=".svg" ContentType="image/svg+xml"/>
  <Default Extension=".vsixmanifest" ContentType="text/xml"/>
</Types>
"""
VSIX = """\
<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" Id={name} Version={version} Publisher={publisher}/>
    <DisplayName>{title}</DisplayName>
    <Description xml:space="preserve">{description}</Description>
    <Properties><Property Id="Microsoft.VisualStudio.Code.Engine" Value={engine}/></Properties>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
  <Dependencies/>
  <Assets><Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/></Assets>
</PackageManifest>
"""
PLUGIN = "{plugin}"  #: stands for the folder of the Neovim plugin


def external_tools(words: Sequence[str]) -> str:
    """Return a tool set of JetBrains IDEs."""
    before = f"{shlex.join(words[1:])} " if words[1:] else ""
    tools = [
        TOOL.format(
            name=quoteattr(f"Corral: {name}"),
            description=quoteattr(description),
            command=quoteattr(words[0]),
            parameters=quoteattr(before + parameters),
        )
        for name, description, parameters in TOOLS
    ]
    return '<toolSet name="External Tools">\n' + "".join(tools) + "</toolSet>\n"


def run_configuration(words: Sequence[str]) -> str:
    """Return a run configuration of JetBrains IDEs."""
    return RUN.format(script=quoteattr(shlex.join([*words, "serve"])))


def neovim(words: Sequence[str]) -> str:
    """Return what loads the plugin; `PLUGIN` stands for its folder."""
    return NEOVIM.format(words=", ".join(map(_quote, words)), plugin=_quote(PLUGIN))


def vim_compiler(words: Sequence[str]) -> str:
    """Return a compiler of Vim: its words are quoted for the shell, and % # ! | for Vim."""
    shell = re.sub(r"([%#!|])", r"\\\1", shlex.join(words))
    return VIM.format(program="'" + f"{{ {shell} run --quiet $* && {shell} diff --stat; }}".replace("'", "''") + "'")


def emacs(words: Sequence[str]) -> str:
    """Return the Lisp that makes Corral an agent of agent-shell."""
    return EMACS.format(words=" ".join(_quote(each) for each in (*words, "acp")))


def _quote(text: str) -> str:
    """Quote a text as JSON, Lua and Lisp read it alike."""
    return json.dumps(text, ensure_ascii=False)


def vsix_parts(package: Mapping[str, str], engine: str) -> dict[str, str]:
    """Return what an installable archive of VS Code has besides the extension, by name."""
    manifest = VSIX.format(
        **{each: quoteattr(package[each]) for each in ("name", "version", "publisher")},
        title=escape(package["displayName"]),
        description=escape(package["description"]),
        engine=quoteattr(engine),
    )
    return {"[Content_Types].xml": CONTENT_TYPES, "extension.vsixmanifest": manifest}
