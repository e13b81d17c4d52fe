"""The commands by section, as `corral --help` lists them: most used first."""

from __future__ import annotations

#: section -> command -> (module of this package, its line in the help: at most 66 characters, to fit 80 columns)
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "run": ("run", "Run a task with an agent, and check the result."),
        "demo": ("demo", "Show the whole loop: no key, no config, no network."),
        "doctor": ("doctor", "Check what can run here, and how to fix what cannot."),
        "init": ("init", "Write your settings: default agent, checks, budget."),
        "flow": ("flow", "Check, draw, run and create flow files: graphs of tasks."),
        "plan": ("plan", "Have an agent write a flow for a task; run it if you approve."),
    },
    "Watch": {
        "ls": ("ls", "List runs, newest first."),
        "show": ("look", "Show one run: its attempts, checks, cost and branch."),
        "logs": ("look", "Show what the agents of a run said and did; -f follows."),
        "watch": ("watch", "Watch a run of another process live: graph, agents, cost."),
        "who": ("watch", "Show which agents work on which files."),
        "mail": ("mail", "Show the messages between the agents of a run."),
        "artifacts": ("artifacts", "List the named files that a run left, or print one."),
    },
    "Decide": {
        "inbox": ("inbox", "List what waits for you, with deadlines and default answers."),
        "answer": ("inbox", "Answer a question in the inbox."),
        "diff": ("look", "Show the change a run made, as a patch."),
        "compare": ("evidence", "Compare the attempts of a run: checks, change, cost and rank."),
        "evidence": ("evidence", "Show how a result was checked: its grade and the reasons."),
        "comment": ("review", "Comment on lines of what a run changed, or list comments."),
        "revise": ("review", "Send all open comments to the agent, for a new attempt."),
        "open": ("restore", "Make a folder in which to try a result."),
        "verify": ("evidence", "Verify the receipts of a run; --rerun repeats its checks."),
    },
    "Merge": {
        "merge": ("merge", "Merge the work of a run, after checking the merged tree."),
        "undo": ("merge", "Undo a merge: restore refs and files exactly."),
        "overlap": ("merge", "Predict conflicts of work that is not merged yet."),
        "follow": ("follow", "Look after the pull request of a run: red CI and comments."),
        "restore": ("restore", "Restore the work of an attempt, or one of its snapshots."),
        "checkpoint": ("restore", "Name the present state of a run, to restore it later."),
        "clean": ("restore", "Remove the leftovers of ended runs; no work is lost."),
    },
    "Control": {
        "stop": ("act", "Stop a run, from any terminal; its work is kept."),
        "retry": ("act", "Repeat what did not get done, or one node and those after it."),
        "resume": ("act", "Continue a run that was paused or whose process ended."),
        "pause": ("act", "Pause a run or one of its nodes."),
        "steer": ("act", "Send a message to the agents of a run while they work."),
        "attach": ("review", "Continue by hand in the agent's own program, in its box."),
        "rename": ("act", "Give a run a name."),
        "condense": ("act", "Continue agents in new sessions, from summaries of their work."),
        "halt": ("money", "Stop everything now."),
    },
    "Money": {
        "cost": ("money", "Show the cost by agent, model, day, repository or kind of task."),
        "budget": ("money", "Show and set money limits: for each run, a day, a month."),
        "quota": ("money", "Show the quotas of agents' accounts, and when they reset."),
    },
    "Agents and tools": {
        "agents": ("doctor", "List the available agents and their properties."),
        "explain": ("doctor", "Explain an agent, a role or a flow in plain words."),
        "memory": ("memory", "Show and edit what agents read about a repository."),
        "trust": ("act", "Trust this repository's corral.toml to start programs."),
        "code": ("code", "Run a program that calls tools, in a box of its own."),
        "tools": ("code", "Keep programs as tools: list, add, approve, run, remove."),
        "plugins": ("plugins", "List installed plug-ins of other packages."),
    },
    "Server and editors": {
        "serve": ("serve", "Serve the page and the HTTP API; run what is queued."),
        "token": ("serve", "Create, list and revoke tokens for the server."),
        "queue": ("queue", "Show, reorder, stop and start the queue."),
        "schedule": ("schedule", "Start tasks on a schedule, by a server."),
        "trigger": ("trigger", "Start tasks when the server is called or a branch moves."),
        "issues": ("issues", "Turn labelled issues into runs and pull requests."),
        "mcp": ("mcp", "Serve MCP on stdio, for your agent."),
        "acp": ("acp", "Serve ACP on stdio, for your editor."),
        "editors": ("editors", "Print or write your editor's configuration for Corral."),
    },
    "Machines and data": {
        "machines": ("machines", "Show the machines on which attempts can run."),
        "host": ("host", "Serve engines of other machines on stdio: the far end."),
        "store": ("store", "Check the store: soundness, version, size; or copy it."),
        "export": ("look", "Print all stored data as JSON lines."),
        "completion": ("doctor", "Print or install the completion script for your shell."),
    },
}
COMMANDS: dict[str, tuple[str, str]] = {name: found for section in SECTIONS.values() for name, found in section.items()}
