"""A prompt's pieces as a task: its text, the files it is about, and what else came with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from corral.agents.formats.acp.client_requests import PromptBlock, Resource
from corral.frontends.acp.failures import BAD_PARAMETERS, Refused
from corral.model.flow import TaskImage

MOST_TEXT = 10 << 20  #: bytes of a whole prompt


class ReadPrompt(Struct, frozen=True, kw_only=True):
    """A prompt as a task."""

    text: str  #: as the user typed it, with names in the place of files
    context: str = ""  #: contents that came with it
    files: tuple[str, ...] = ()  #: of the session's folder, relative to it
    images: tuple[TaskImage, ...] = ()

    @property
    def task(self) -> str:
        return f"{self.text}\n\n{self.context}".strip() if self.context else self.text


def read_prompt(blocks: Sequence[PromptBlock], folder: Path) -> ReadPrompt:
    """Read a prompt; a piece that cannot be used is refused by name."""
    words: list[str] = []
    context: list[str] = []
    files: list[str] = []
    images: list[TaskImage] = []
    for block in blocks:
        match block.type:
            case "text":
                words.append(block.text)
            case "resource_link":
                words.append(_link(block, folder, files))
            case "resource" if block.resource is not None:
                words.append(_embed(block.resource, folder, files, context))
            case "image":
                images.append(TaskImage(block.name or block.uri or "", block.data))
            case "audio":
                raise Refused(BAD_PARAMETERS, "a prompt with audio is not supported", "text, images and files are")
            case _:
                raise Refused(BAD_PARAMETERS, f"a piece of type `{block.type[:40]}` is not supported in a prompt")
    text = "".join(words).strip()
    if not text:
        raise Refused(BAD_PARAMETERS, "the prompt is empty", "say what is to be done")
    if "\0" in text:
        raise Refused(BAD_PARAMETERS, "the prompt has a NUL byte", "a prompt is plain text")
    if len(text.encode(errors="replace")) + sum(map(len, context)) > MOST_TEXT:
        raise Refused(BAD_PARAMETERS, "the prompt is longer than 10 MB", "put material into files of the repository")
    return ReadPrompt(text=text, context="\n\n".join(context), files=tuple(dict.fromkeys(files)), images=tuple(images))


def _link(block: PromptBlock, folder: Path, files: list[str]) -> str:
    """Return the name by which a linked file is mentioned; one of the folder is a file of the task."""
    uri = block.uri or ""
    if (inside := _inside(uri, folder)) is not None:
        files.append(inside)
        return f"`{inside}`"
    if urlsplit(uri).scheme in ("file", ""):
        words = f"{uri[:200]}: not a file of {folder}, and agents see nothing else"
        raise Refused(BAD_PARAMETERS, words, "open a session in its folder, or embed its text")
    return f"`{block.name}` ({uri})" if block.name and block.name != uri else uri


def _embed(resource: Resource, folder: Path, files: list[str], context: list[str]) -> str:
    """Return the name by which an embedded text is mentioned; the text itself goes below the task."""
    inside = _inside(resource.uri, folder)
    shown = f"{inside}{_lines(resource.uri)}" if inside else resource.uri
    if resource.text is None:
        if resource.blob is None:
            raise Refused(BAD_PARAMETERS, f"{resource.uri[:200]}: an embedded resource without a text")
        if inside is None:
            raise Refused(
                BAD_PARAMETERS, f"{resource.uri[:200]}: it is not text", "put the file into the repository and name it"
            )
        files.append(inside)  # an agent reads it there, whatever it is
        return f"`{shown}`"
    if inside is not None:
        files.append(inside)
    context.append(f"--- {shown}\n{resource.text}\n---")
    return f"`{shown}`"


def _lines(uri: str) -> str:
    """Return the lines of a selection, as editors put them behind a `#`."""
    fragment = urlsplit(uri).fragment
    return f"#{fragment}" if fragment[:1] == "L" and len(fragment) < 40 else ""


def _inside(uri: str, folder: Path) -> str | None:
    """Return the path of a file relative to the folder; None for one that is elsewhere, or no file."""
    parts = urlsplit(uri)
    if parts.scheme not in ("file", "") or "\0" in uri:
        return None
    path = Path(unquote(parts.path))
    try:
        found = (folder / path).resolve()
        return str(found.relative_to(folder)) if found.exists() and found != folder else None
    except (OSError, RuntimeError, ValueError):
        return None
