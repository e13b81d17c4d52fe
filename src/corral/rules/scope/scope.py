"""The scope of an attempt: made from many sources, narrowed, explained; and the paths that no broad pattern reaches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from corral.config.times import duration
from corral.model import NamedPath, PathRules, Scope, ScopeSource, ScopeTable, Violation
from corral.model.errors import BadRequest
from corral.rules.scope import hosts
from corral.rules.scope.globs import MatchedPath, glob, rules_of, split, top

#: Below these the agents we know do not start.
LEAST = {"memory_mb": 256, "processes": 16, "cpu_seconds": 10, "disk_mb": 64, "file_mb": 1}
UNITS = {"memory_mb": " MB", "disk_mb": " MB", "file_mb": " MB", "cpu_seconds": " s", "processes": ""}
MOST_PATTERNS, LONGEST = 1000, 4096
SHOWN_UNITS = {"memory_mb": "MB", "disk_mb": "MB", "file_mb": "MB", "cpu_seconds": "s", "processes": ""}
#: Below a user's home.
SECRETS_AT_HOME = (
    ".ssh", ".gnupg", ".pki", ".password-store", ".netrc", "_netrc", ".authinfo", ".authinfo.gpg", ".git-credentials",
    ".config/git/credentials",
    # clouds, clusters, containers
    ".aws", ".azure", ".config/gcloud", ".config/doctl", ".config/hcloud", ".config/rclone", ".s3cfg", ".boto", ".kube",
    ".docker", ".config/containers/auth.json", ".terraform.d", ".terraformrc", ".vault-token", ".config/sops",
    ".config/age",
    # forges and registries
    ".config/gh", ".config/glab-cli", ".config/hub", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".config/pip",
    ".pip", ".config/uv/credentials.toml", ".local/share/uv/credentials", ".cargo/credentials*", ".gem/credentials",
    ".m2/settings*.xml", ".gradle/gradle.properties", ".composer/auth.json", ".config/composer/auth.json",
    ".nuget/NuGet", ".config/huggingface", ".cache/huggingface/token", ".kaggle",
    # agents' own logins
    ".claude", ".claude.json", ".codex", ".gemini", ".qwen", ".copilot", ".config/github-copilot", ".config/corral",
    ".local/share/opencode", ".config/opencode", ".pi", ".aider*",
    # browsers, mail, messengers
    ".mozilla", ".thunderbird", ".config/google-chrome*", ".config/chromium", ".config/BraveSoftware",
    ".config/microsoft-edge*", ".config/vivaldi", ".config/opera", ".librewolf", ".zen", ".var/app", "snap/*/common",
    ".config/Signal", ".config/Slack", ".config/discord", "Library/Application Support", "Library/Cookies",
    "Library/Safari", "Library/Mail", "Library/Messages",
    # keyrings, wallets, histories
    ".local/share/keyrings", ".local/share/kwalletd", "Library/Keychains", ".config/1Password", ".config/op",
    ".config/Bitwarden*", ".electrum", ".bitcoin", ".ethereum", ".*_history", ".history", ".histfile", ".lesshst",
    ".viminfo", ".local/share/fish", ".zsh_sessions", ".python_history", ".psql_history", ".pgpass", ".my.cnf",
    ".mylogin.cnf", ".smbcredentials", ".env",
)  # fmt: skip
#: Anywhere: sockets that do what their owner may do, and the system's own.
SECRETS_ELSEWHERE = (
    "/run/user", "/run/docker.sock", "/var/run/docker.sock", "/run/docker", "/run/containerd", "/run/podman",
    "/run/dbus", "/var/run/dbus", "/run/systemd", "/var/lib/docker",
    "/tmp/ssh-*", "/tmp/.X11-unix",  # noqa: S108 -- others' sockets lie there
    "/etc/shadow*", "/etc/gshadow*", "/etc/sudoers*", "/etc/ssh/ssh_host_*", "/etc/ssl/private",
    "/etc/kubernetes", "/etc/rancher", "/var/lib/kubelet", "/run/secrets", "/var/run/secrets",
)  # fmt: skip


def check(source: ScopeSource) -> None:
    """Raise BadRequest, with where it is, for what cannot be meant."""
    for key, what, hint in _troubles(source):
        where = source.where.get(key, f"--{key}")
        raise BadRequest(f"{where}: [scope] {key}: {what}", hint=hint)


def _troubles(source: ScopeSource) -> Iterator[tuple[str, str, str]]:
    table = source.table
    for key, patterns in (("read", table.read), ("write", table.write), ("readonly", table.readonly)):
        yield from ((key, *trouble) for trouble in _patterns(patterns or ()))
    for name in table.env or ():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            yield "env", f"`{name}` is no name of a variable", "the name alone: its value comes from your environment"
    if isinstance(table.net, tuple):
        for item in table.net:
            if found := hosts.net_problem(item):
                yield "net", *found
    for key, least in LEAST.items():
        limit = getattr(table, key)
        if limit is not None and limit < least:
            yield key, f"{limit}{UNITS[key]} is less than an agent needs", f"at least {least}{UNITS[key]}"
    if table.timeout is not None:
        duration(table.timeout, source.where.get("timeout", "--timeout"))


def _patterns(patterns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if len(patterns) > MOST_PATTERNS:
        yield f"more than {MOST_PATTERNS} patterns", "name folders"
    for text in patterns:
        if len(text) > LONGEST:
            yield "a pattern of more than 4096 characters", "name a folder"
            return
        try:
            glob(text)
        except ValueError as error:
            yield f"`{text}`: {error}", "patterns are like src/**, *.md, !secret/** or /data/in"


PATHS = ("read", "write", "readonly")


LIMITS = ("memory_mb", "processes", "cpu_seconds", "disk_mb", "file_mb")


BUILT_IN = "built in"


EVERYWHERE = ("**", "/**")


class EffectiveScope(Struct, frozen=True):
    """The scope that holds, and for each of its keys who said so, the last to speak first."""

    scope: Scope
    origins: Mapping[str, tuple[str, ...]]
    sources: tuple[ScopeSource, ...] = ()


def effective(sources: Iterable[ScopeSource], *, agent: str, home: str) -> EffectiveScope:
    """Make one scope of all that speak of it, in the order given; BadRequest where one of them cannot be meant."""
    scope = Scope()
    origins: dict[str, tuple[str, ...]] = dict.fromkeys((*PATHS, "env", "net", *LIMITS, "timeout"), (BUILT_IN,))
    used: list[ScopeSource] = []
    for source in sources:
        if source.agent not in (None, agent):
            continue
        check(source)
        table = _at_home(source.table, home)
        used.append(structs.replace(source, table=table))
        scope = narrow(scope, _apply_table(scope, table)) if source.narrows else _widen(scope, table)
        for key in named_keys(table):
            said = source.where.get(key, "the command line")
            origins[key] = (said, *origins[key]) if source.narrows else (said,)
    return EffectiveScope(scope, origins, tuple(used))


def named_keys(table: ScopeTable) -> dict[str, Any]:
    """Return what a table says, without what it leaves open."""
    return {key: value for key in structs.asdict(table) if (value := getattr(table, key)) is not None}


def narrow(outer: Scope, inner: Scope) -> Scope:
    """Return what both allow: never more than `outer`."""
    rules = [rules_of(inner), *inner.bounds, rules_of(outer), *outer.bounds]
    own, *bounds = dict.fromkeys(rules)  # each once: narrowing twice by the same adds nothing
    return Scope(
        **structs.asdict(own),
        bounds=tuple(bounds),
        env=tuple(name for name in outer.env if name in inner.env),
        net=hosts.narrow_net(outer.net, inner.net),
        memory_mb=min(outer.memory_mb, inner.memory_mb),
        processes=min(outer.processes, inner.processes),
        cpu_seconds=_least(outer.cpu_seconds, inner.cpu_seconds),
        disk_mb=_least(outer.disk_mb, inner.disk_mb),
        file_mb=_least(outer.file_mb, inner.file_mb),
        timeout_seconds=_least(outer.timeout_seconds, inner.timeout_seconds),
    )


def _least(one: Any, other: Any) -> Any:  # noqa: ANN401 -- a limit of any kind, or none
    return min((limit for limit in (one, other) if limit is not None), default=None)


def _apply_table(scope: Scope, table: ScopeTable) -> Scope:
    """Return the scope with the table's words in place of its own; what bounds it stays."""
    values = named_keys(table)
    for key in set(PATHS) & values.keys():
        values[key] = _replace_patterns(getattr(scope, key), values[key])
    if "timeout" in values:
        values["timeout_seconds"] = duration(values.pop("timeout"), "timeout")
    return structs.replace(scope, **values)


def _widen(scope: Scope, table: ScopeTable) -> Scope:
    """Let the user's own word hold for what it names, also against what a repository said before."""
    values = named_keys(table)
    bounds: tuple[PathRules, ...] = scope.bounds
    for key in set(PATHS) & values.keys():
        opened = _open_patterns(values[key])
        bounds = tuple(_with(rule, key, _replace_patterns(getattr(rule, key), opened)) for rule in bounds)
    env = tuple(dict.fromkeys((*scope.env, *values.pop("env", ()))))
    return structs.replace(_apply_table(scope, structs.replace(table, env=None)), env=env, bounds=bounds)


def _with(rule: PathRules, key: str, patterns: tuple[str, ...]) -> PathRules:
    return structs.replace(rule, **{key: patterns})


def _open_patterns(words: tuple[str, ...]) -> tuple[str, ...]:
    about = {glob(text).outside for text in words} or {True, False}
    return tuple(text for text in EVERYWHERE if glob(text).outside in about)


def _replace_patterns(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """Put new patterns in place of old ones, the workspace's and the machine's apart.

    A list that says nothing about one of the two leaves it as it was; one of nothing but exclusions takes away from it.
    """
    if not new:
        return ()
    result: tuple[str, ...] = ()
    for outside in (False, True):
        before = tuple(text for text in old if glob(text).outside is outside)
        after = tuple(text for text in new if glob(text).outside is outside)
        result += before + after if all(glob(text).excludes for text in after) else after
    return result


def _at_home(table: ScopeTable, home: str) -> ScopeTable:
    def full(text: str) -> str:
        sign, body = ("!", text[1:]) if text.startswith("!") else ("", text)
        return f"{sign}{home.rstrip('/')}{body[1:]}" if body.startswith("~") else text

    changed = {key: tuple(map(full, words)) for key in PATHS if (words := getattr(table, key)) is not None}
    return structs.replace(table, **changed)


# --- for the world to look at, before a run


def named_paths(found: EffectiveScope) -> list[NamedPath]:
    """Return every path that a pattern names, with who named it."""
    return [
        NamedPath(
            key=key,
            where=source.where.get(key, f"--{key}"),
            text=text,
            prefix=("/" if glob(text).outside else "") + glob(text).prefix,
            literal=glob(text).literal,
            outside=glob(text).outside,
            excludes=glob(text).excludes,
            many=source.many,
        )
        for source in found.sources
        for key in PATHS
        for text in getattr(source.table, key) or ()
    ]


# --- and after it


def outside(changed: Iterable[str], scope: Scope, ignore: str = "") -> list[Violation]:
    """Return what of a diff, taken without renames, may not have been written: a name is a write, whatever its kind."""
    folders: dict[tuple[str, ...], MatchedPath] = {(): top(scope, ignore=ignore)}

    def enter(parts: tuple[str, ...]) -> MatchedPath:
        if parts not in folders:
            folders[parts] = enter(parts[:-1]).enter(parts[-1])
        return folders[parts]

    return [Violation("write", path) for path in changed if not enter(tuple(split(path))).writable()]


class ScopeRow(Struct, frozen=True):
    """One key of the scope: what holds, and where each word of it is, the last to speak first."""

    key: str
    value: str
    origins: tuple[str, ...]


class ScopeExplanation(Struct, frozen=True):
    rows: tuple[ScopeRow, ...]
    shown: tuple[tuple[str, str], ...] = ()  #: paths outside the workspace, or masked in it: (mode, path)
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Lay it out for a user."""
        width = max(len(row.key) for row in self.rows)
        wide = min(max(len(row.value) for row in self.rows), 60)
        lines = [f"{row.key:<{width}}  {row.value:<{wide}}  {', '.join(row.origins)}".rstrip() for row in self.rows]
        lines += [f"{mode:<{width}}  {path}" for mode, path in self.shown]
        return [*lines, *(f"note: {note}" for note in self.notes)]


def explain(
    found: EffectiveScope, shown: Iterable[tuple[str, str]] = (), notes: Sequence[str] = ()
) -> ScopeExplanation:
    """Tell the effective scope; `shown` and `notes` are what the file system made of it."""
    scope = found.scope
    values = {key: _path_rows(scope, key) for key in PATHS}
    values["env"] = ", ".join(scope.env) or "nothing but what the agent needs"
    values["net"] = _net_rows(scope)
    for key in LIMITS:
        limit = getattr(scope, key)
        values[key] = "no limit" if limit is None else f"{limit} {SHOWN_UNITS[key]}".strip()
    seconds = scope.timeout_seconds
    values["timeout"] = "as the task's" if seconds is None else f"{seconds:g} s"
    rows = tuple(ScopeRow(key, value, found.origins[key]) for key, value in values.items())
    return ScopeExplanation(rows, tuple(shown), tuple(notes))


def _path_rows(scope: Scope, key: str) -> str:
    """Name the patterns; those of an outer scope hold as well, unless they say nothing."""
    own: tuple[str, ...] = getattr(scope, key)
    words = [" ".join(own) or "nothing"]
    for rules in scope.bounds:
        outer: tuple[str, ...] = getattr(rules, key)
        if outer != own and (key != "readonly" or outer):
            words.append(" ".join(outer) or "nothing")
    words = [word for word in dict.fromkeys(words) if word != "**"] or ["**"]
    return (" and " if key == "readonly" else " within ").join(words)


def _net_rows(scope: Scope) -> str:
    if isinstance(scope.net, str):
        return {"off": "off: the agent's own provider alone", "on": "on: every host"}[scope.net]
    return ", ".join(("the agent's own provider", *scope.net))


def secret_patterns(home: str) -> list[str]:
    """Return all of them for one user, as patterns of absolute paths."""
    return [f"{home.rstrip('/')}/{name}" for name in SECRETS_AT_HOME] + list(SECRETS_ELSEWHERE)
