"""Images of a new task: chosen, named in the command, removed, and sent with it."""

import base64
from urllib.parse import urlencode

from playwright.sync_api import expect

from tests.rig.browser import Eyes
from tests.rig.flows import doer
from tests.rig.repository import Repo
from tests.rig.server import Server

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 100


def test_images_are_chosen_removed_and_sent(eyes: Eyes, server: Server, repo: Repo) -> None:
    doer(server.corral)
    page = eyes.page
    page.goto(f"/new?repo={repo.folder}")
    page.fill("#task", "what is this?")
    page.fill("#agents", "doer")
    files = [{"name": name, "mimeType": "image/png", "buffer": PNG} for name in ("shot.png", "other.png")]
    page.set_input_files("#images", files)  # type: ignore[arg-type]
    expect(page.locator("#command")).to_contain_text("--image shot.png --image other.png")
    page.get_by_role("button", name="Remove other.png").click()
    expect(page.locator("#command")).not_to_contain_text("other.png")
    page.set_input_files("#images", {"name": "huge.png", "mimeType": "image/png", "buffer": PNG * 10_000})
    expect(page.get_by_text("huge.png is too large")).to_be_visible()
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_text("the agent `doer` takes no images")).to_be_visible()
    assert server.ask("GET", "runs").json["runs"] == []
    eyes.complaints.clear()  # a browser complains of the answer 400


def test_what_is_no_image_is_refused(server: Server, repo: Repo) -> None:
    doer(server.corral)
    for content, words in ((b"GIF8", "this is no image"), (PNG, "takes no images")):
        sent = {"task": "x", "repo": repo.folder, "agents": "doer", "image a b.png": base64.b64encode(content).decode()}
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        refused = server.ask("POST", "/new", urlencode(sent).encode(), headers=form)
        assert (refused.status, words in refused.body.decode()) == (400, True), refused.body
