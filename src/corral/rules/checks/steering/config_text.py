"""Text of settings and build files in the harness tree: TOML, INI, makefiles and go.mod, merged by key or by line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, time
from typing import Any, cast

BARE = re.compile(r"[A-Za-z0-9_-]+")
HEADER = re.compile(r"\s*\[\s*([^\]]*?)\s*\]")
NO_VALUE = "\0"  #: of a key without `=`
Sections = dict[str, dict[str, str]]
Own = Callable[[str], Collection[str] | None]
VARIABLE = re.compile(r"(?m)^([A-Za-z_][\w.-]*)[ \t]*(\+=|:=|\?=|::=|=)[ \t]*(.*)$")
SOURCE = re.compile(r"[\w./%+-]+\.(c|cc|cpp|cxx|c\+\+|o|obj|s|S|f|f90|m|mm|h|hpp|java|class|ml|hs|pas|d|asm)$")
STEERING_NAME = re.compile(r"(?i)test|check|shell|flags|spec|^(CC|CXX|LD|AR|PYTHON|NODE|GO|CARGO|RM|MAKE\w*|VPATH)$")
REPLACE = re.compile(r"^\s*(?:replace\s+)?(\S+)(?:\s+v\S+)?\s*=>\s*\S+.*$")


def format_toml(document: Mapping[str, Any]) -> str:
    """Write a document that `tomllib` reads back as the same."""
    return "".join(
        f"{_key(name)} = {_value(value)}\n" for name, value in document.items() if not _is_table(value)
    ) + "".join(
        _table((name,), cast("Mapping[str, Any]", value)) for name, value in document.items() if _is_table(value)
    )


def _table(path: tuple[str, ...], table: Mapping[str, Any]) -> str:
    lines = [f"\n[{'.'.join(_key(part) for part in path)}]\n"]
    lines += [f"{_key(name)} = {_value(value)}\n" for name, value in table.items() if not _is_table(value)]
    lines += [
        _table((*path, name), cast("Mapping[str, Any]", value)) for name, value in table.items() if _is_table(value)
    ]
    return "".join(lines)


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    # JSON's escapes are TOML's, but for DEL, and for halves of surrogate pairs, which no TOML file can hold.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return (
            ("nan" if math.isnan(value) else "inf" if value > 0 else "-inf")
            if not math.isfinite(value)
            else repr(value)
        )
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(_value(each) for each in cast('list[object]', value))}]"
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return f"{{{', '.join(f'{_key(name)} = {_value(each)}' for name, each in pairs)}}}"
    return str(value)


def parse_sections(text: str) -> Sections:
    """Read sections, keys and values, values with their further lines; ValueError for what belongs to no section."""
    sections: Sections = {}
    section: str | None = None
    key: str | None = None
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith(("#", ";")):
            continue
        if line[0].isspace() and key is not None and section is not None:
            sections[section][key] += "\n" + line
        elif found := HEADER.match(line):
            section, key = str(found[1]), None
            sections.setdefault(section, {})
        elif section is None:
            raise ValueError(f"a line outside of any section: {line[:40]!r}")
        else:
            at = next((place for place, sign in enumerate(line) if sign in "=:"), len(line))
            key = line[:at].strip()
            sections[section][key] = line[at + 1 :].strip() if at < len(line) else NO_VALUE
    return sections


def format_sections(sections: Sections) -> str:
    parts: list[str] = []
    for section, keys in sections.items():
        parts.append(f"[{section}]\n")
        parts += [f"{key}\n" if value == NO_VALUE else f"{key} = {value}\n" for key, value in keys.items()]
        parts.append("\n")
    return "".join(parts)


def merge_sections(base_text: str, text: str, own: Own) -> str:
    """Return the work's text with the base's sections where `own` says so, but for the keys that are the work's."""
    base, ours = parse_sections(base_text), parse_sections(text)
    result: Sections = {}
    for section in dict.fromkeys([*ours, *base]):
        allowed = own(section)
        before, now = base.get(section, {}), ours.get(section, {})
        if allowed is None:
            if section in ours:
                result[section] = now
            continue
        kept = {key: value for key, value in before.items() if key.lower() not in allowed}
        kept |= {key: value for key, value in now.items() if key.lower() in allowed}
        if kept or section in base:
            result[section] = kept
    return format_sections(result)


def merge_lines(base_text: str, text: str, steering: str) -> str:
    """Return the work's lines, but those whose key matches `steering` as they are at the base."""
    pattern = re.compile(rf"\s*(export\s+)?[\"']?{steering}[\"']?\s*([=: ].*)?$", re.IGNORECASE)
    kept = [line for line in text.splitlines() if not pattern.match(line)]
    put_back = [line for line in base_text.splitlines() if pattern.match(line)]
    return "".join(f"{line}\n" for line in (*put_back, *kept))


def makefile_sources(text: str) -> dict[str, tuple[str, str]]:
    """Return the variables that hold nothing but names of source files: name -> (operator, value)."""
    found: dict[str, tuple[str, str]] = {}
    for name, operator, value in VARIABLE.findall(text.replace("\\\n", " ")):
        words = value.partition("#")[0].split()
        if words and all(SOURCE.fullmatch(word) for word in words) and not STEERING_NAME.search(name):
            found[name] = (operator, " ".join(words))
    return found


def merge_makefile(base: str, text: str) -> str:
    """Return the base's makefile, with the lists of source files as the work has them."""
    joined = base.replace("\\\n", " ")
    ours, before = makefile_sources(text), makefile_sources(base)

    def line(found: re.Match[str]) -> str:
        name = found[1]
        if name not in before or name not in ours:
            return found[0]
        dropped = {*before[name][1].split()} - {*ours[name][1].split()}
        if any(re.search(r"(?i)test|check", word) for word in dropped):
            return found[0]
        return f"{name} {ours[name][0]} {ours[name][1]}"

    return _with_new_sources(VARIABLE.sub(line, joined), text.replace("\\\n", " "))


NEW_LIST = re.compile(r"(?m)^([A-Za-z_]\w*)[ \t]*:?:?=[ \t]*(.*)$\n?")


def without_new_lists(base: str, text: str) -> str:
    """Return a makefile with the names of source files in the place of new variables that hold nothing else."""
    for found in NEW_LIST.finditer(text.replace("\\\n", " ")):
        name, files = found[1], found[2].split("#")[0].split()
        if re.search(rf"\b{name}\b", base) or not files or not all(map(SOURCE.fullmatch, files)):
            continue
        text = text.replace("\\\n", " ").replace(found[0], "")
        text = re.sub(rf"\$\({name}\)|\$\{{{name}\}}", " ".join(files), text)
    return text


def without_new_sources(line: str, base: str) -> str:
    """Return a line without source files that the base does not know and that follow others in it."""
    known = {*re.findall(r"[\w./%+-]+", base)}
    kept: list[str] = []
    after_source = False
    for word in re.split(r"(\s+|[()])", line):
        is_source = SOURCE.fullmatch(word) is not None
        if is_source and after_source and word not in known and not re.search(r"(?i)test|check|spec", word):
            continue
        after_source = is_source or (after_source and not word.strip())
        kept.append(word)
    return " ".join("".join(kept).split()).replace(" )", ")")


def _with_new_sources(base: str, text: str) -> str:
    """Return the base's makefile, with lines as the work has them where it only added source files."""
    ours = {without_new_sources(line, base): line for line in text.splitlines()}
    return "".join(_line_with_additions(line, ours, base) for line in base.splitlines(keepends=True))


def _line_with_additions(line: str, ours: Mapping[str, str], base: str) -> str:
    plain = " ".join(line.split())
    found = ours.get(plain) if plain else None
    same_start = found is not None and found[:1].isspace() == line[:1].isspace()
    more = found is not None and same_start and " ".join(found.split()) != plain and found not in base
    return f"{found}\n" if more else line


def only_grew(base: str, text: str, new: Collection[str]) -> bool:
    """Tell whether a makefile has all lines of the base's, and besides only what a build may need.

    That is: new files in lines, prerequisites, options of compilers, variables, and rules for what the base does not
    make; no rule before the first one of the base, which is what `make` alone runs.
    """
    old = [line for line in _lines(base) if line.split()]
    known = {word for line in old for word in re.findall(r"[\w./%-]+", line)}
    place, own = 0, False  #: the next line of the base; whether the rule at hand is new
    for line in (each for each in _lines(text) if each.split()):
        if place < len(old) and _contains(line, old[place], new):
            place, own = place + 1, own and line.startswith("\t")
        elif line.startswith("\t"):
            if not own:
                return False
        elif not _is_new(line, known, first=not any(RULE.match(each) for each in old[:place])):
            return False
        else:
            own = RULE.match(line) is not None
    return place == len(old)


RULE = re.compile(r"[^\s#.:=][^:=]*:(?!=)")


OPTIONS = re.compile(r"(?i)flags|libs|incs|includes|defs$")


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.replace("\\\n", " ").splitlines() if not line.startswith("#")]


def _contains(line: str, old: str, new: Collection[str]) -> bool:
    """Tell whether a line is one of the base's with nothing but harmless words more."""
    if line.startswith("\t") != old.startswith("\t"):
        return False
    rest = old.split()
    more: list[str] = []
    for word in line.split():
        if rest and word == rest[0]:
            rest.pop(0)
        else:
            more.append(word)
    variable = VARIABLE.match(line)
    plain = all(re.fullmatch(r"[\w./%+=,-]+", word) and "NDEBUG" not in word for word in more)
    free = (variable and OPTIONS.search(variable[1])) or RULE.match(line) or line.startswith(".PHONY:")
    return not rest and (all(word in new for word in more) or (plain and bool(free)))


def _is_new(line: str, known: Collection[str], *, first: bool) -> bool:
    """Tell whether a line that the base does not have begins a rule, or a variable, of a name that it does not know."""
    if line.startswith(".PHONY:"):
        return True
    if variable := VARIABLE.match(line):
        return variable[1] not in known and not STEERING_NAME.search(variable[1]) and "$(shell" not in line
    rule = RULE.match(line)
    return rule is not None and not first and not {*rule[0].rstrip(":").split()} & {*known} and "%" not in rule[0]


def module_directives(text: str) -> list[tuple[str, str]]:
    """Return (directive, line) for each line, blocks written out."""
    found: list[tuple[str, str]] = []
    block: str | None = None
    for raw in text.splitlines():
        line = raw.partition("//")[0].strip()
        if not line:
            continue
        if block is not None:
            if line == ")":
                block = None
            else:
                found.append((block, line))
        elif opened := re.fullmatch(r"(\w+)\s*\(", line):
            block = opened[1]
        else:
            word, _, rest = line.partition(" ")
            found.append((word, rest.strip()))
    return found


def merge_module(base_text: str, text: str) -> str:
    """Return the work's file without `replace` lines for modules that the base had, and with the base's own."""
    base, ours = module_directives(base_text), module_directives(text)
    known = {line.split()[0] for word, line in base if word in ("require", "module") and line}
    known |= {line.split()[0] for word, line in base if word == "replace"}
    kept = [(word, line) for word, line in ours if word != "replace" or line.split()[0] not in known]
    kept += [(word, line) for word, line in base if word in ("replace", "toolchain")]
    kept = [(word, line) for word, line in kept if word != "toolchain" or (word, line) in base]
    return "".join(f"{word} {line}\n" for word, line in dict.fromkeys(kept))
