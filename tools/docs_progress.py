"""A hook of mkdocs: how far the site is, with a rate and an end, on a terminal."""

from mkdocs.structure.files import Files

from corral.frontends.text import ProgressBar


class Pages:
    """The pages of a build: each is read, and later written."""

    def __init__(self) -> None:
        self.bar, self.steps, self.total = ProgressBar("building the site", "pages"), 0, 0

    def step(self) -> None:
        self.steps += 1
        self.bar.report(self.steps // 2, self.total)


building = [Pages()]


def on_pre_build(**_: object) -> None:
    """Begin anew: `mkdocs serve` builds again and again."""
    building[0] = Pages()


def on_files(files: Files, **_: object) -> None:
    """Count the pages."""
    building[0].total = len(files.documentation_pages())


def on_page_content(_: str, **_more: object) -> None:
    """Count a page that was read."""
    building[0].step()


def on_post_page(_: str, **_more: object) -> None:
    """Count a page that was written."""
    building[0].step()


def on_post_build(**_: object) -> None:
    """Remove the bar."""
    building[0].bar.__exit__()
