"""A makefile in the harness tree: the base's rules, and the work's lists of source files."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

VARIABLE = re.compile(r"(?m)^([A-Za-z_][\w.-]*)[ \t]*(\+=|:=|\?=|::=|=)[ \t]*(.*)$")
SOURCE = re.compile(r"[\w./%+-]+\.(c|cc|cpp|cxx|c\+\+|o|obj|s|S|f|f90|m|mm|h|hpp|java|class|ml|hs|pas|d|asm)$")
STEERING_NAME = re.compile(r"(?i)test|check|shell|flags|spec|^(CC|CXX|LD|AR|PYTHON|NODE|GO|CARGO|RM|MAKE\w*|VPATH)$")


def sources(text: str) -> dict[str, tuple[str, str]]:
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
    ours, before = sources(text), sources(base)

    def line(found: re.Match[str]) -> str:
        name = found[1]
        if name not in before or name not in ours:
            return found[0]
        dropped = {*before[name][1].split()} - {*ours[name][1].split()}
        if any(re.search(r"(?i)test|check", word) for word in dropped):
            return found[0]
        return f"{name} {ours[name][0]} {ours[name][1]}"

    return _with_new_sources(VARIABLE.sub(line, joined), text.replace("\\\n", " "))


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
