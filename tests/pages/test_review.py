"""Review on the page: comments on lines, drafts, and the revision that answers them."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.rig.browser import examine, looking
from tests.rig.repository import Repo
from tests.rig.server import Server
from tests.rig.waiting import until

pytestmark = pytest.mark.slow

AGENT = """
[[step]]
try = 1
write = "price.py"
text = "def price(net):\\n    return net\\n\\n\\nVAT = 19\\n"
[[step]]
try = 2
write = "price.py"
text = "VAT = 0.19\\n\\n\\ndef price(net):\\n    return net * (1 + VAT)\\n"
"""


def _press_number(page: Page, line: int, to: int | None = None) -> None:
    """Press on the number of a line, or drag to that of another."""
    first = page.locator(f'.bk > .r[data-n="{line}"]').bounding_box()
    last = page.locator(f'.bk > .r[data-n="{to or line}"]').bounding_box()
    assert first
    assert last
    page.mouse.move(first["x"] + 20, first["y"] + 8)
    page.mouse.down()
    page.mouse.move(last["x"] + 20, last["y"] + 8)
    page.mouse.up()


def test_comments_on_lines_go_to_the_agent_and_come_back_as_a_change(
    browser: Browser, server: Server, repo: Repo
) -> None:
    agent = server.corral.script(AGENT)
    run = server.client.submit("set the price", repo=str(repo.folder), agents=[agent], checks=["test -s price.py"]).run
    assert server.client.wait(run).status == "done"
    with looking(browser, server) as eyes:
        page = eyes.open(f"/runs/{run}/diff")
        expect(page.locator(".bk").first).to_be_visible()
        _press_number(page, 1, 2)
        form = page.locator("form.comment")
        expect(form.locator("[name=lines]")).to_have_value("1-2")
        form.get_by_label("Comment", exact=True).fill("add the tax")
        page.reload()  # a draft is not lost
        expect(page.get_by_label("Comment", exact=True)).to_have_value("add the tax")
        expect(page.locator("form.comment [name=lines]")).to_have_value("1-2")
        page.locator("form.comment").get_by_role("button", name="Comment").click()
        expect(page.locator(".at-line")).to_contain_text("add the tax")
        expect(page.locator("form.comment")).to_have_count(0)

        page.keyboard.press("n")
        page.keyboard.press("c")  # the same without a mouse
        page.keyboard.type("write it as a fraction")
        page.locator("form.comment [name=lines]").fill("5")
        page.keyboard.press("Control+Enter")
        expect(page.get_by_role("button", name="Send 2 comments to scripted")).to_be_visible()
        page.locator(".at-line", has_text="fraction").locator("summary").click()
        page.locator(".at-line").get_by_label("Reply to price.py:5").fill("0.19, as in the tests")
        page.locator(".at-line").get_by_role("button", name="Reply").click()
        expect(page.get_by_role("button", name="Send 3 comments to scripted")).to_be_visible()
        eyes.shot("review-lines")
        assert [each.place for each in server.client.show(run).comments] == ["price.py:1-2", "price.py:5", "price.py:5"]
    examine(browser, server, f"/runs/{run}/diff", "review")
    with looking(browser, server, phone=True) as eyes:
        page = eyes.open(f"/runs/{run}/diff")
        expect(page.locator("#since-look")).to_be_hidden()  # nothing is new
        page.get_by_role("button", name="Send 3 comments").click()
        page.wait_for_url(f"**/runs/{run}")
        until(lambda: server.client.show(run).comments[0].state == "outdated", "the revision is there")
        page = eyes.open(f"/runs/{run}/diff")
        expect(page.get_by_text("resolved or outdated")).to_be_visible()
        page.get_by_role("link", name="What the last revision changed").click()
        expect(page.locator(".ins").first).to_be_visible()
        expect(page.locator(".files")).to_contain_text("VAT = 0.19")
        page = eyes.open(f"/runs/{run}/diff")
        link = page.get_by_role("link", name="Since your last look")
        assert str(link.get_attribute("href")) == f"?attempt={run}-2&against={run}-1"
        link.click()
        expect(page.locator(".files")).to_contain_text("VAT = 0.19")
        page = eyes.open(f"/runs/{run}/compare")  # the old one is still there
        expect(page.locator(".ranking tbody tr.won")).to_contain_text("attempt 2, revises 1")
        expect(page.locator(".ranking tbody tr.aside")).to_contain_text("revised by 2")
        link = page.get_by_role("link", name="What the revision changed")
        assert str(link.get_attribute("href")).endswith(f"?attempt={run}-2&against={run}-1")
    examine(browser, server, f"/runs/{run}/compare", "compare-revised")


def test_lines_that_are_not_there_are_refused_beside_the_form_and_nothing_is_lost(
    browser: Browser, server: Server, repo: Repo
) -> None:
    agent = server.corral.script('[[step]]\nwrite = "a.txt"\ntext = "one\\ntwo\\n"\n')
    run = server.client.submit("write", repo=str(repo.folder), agents=[agent]).run
    server.client.wait(run)
    with looking(browser, server) as eyes:
        page = eyes.open(f"/runs/{run}/diff")
        expect(page.locator(".bk").first).to_be_visible()
        page.keyboard.press("c")
        page.keyboard.type("which line?")
        page.locator("form.comment [name=lines]").fill("77")
        page.locator("form.comment").get_by_role("button", name="Comment").click()
        expect(page.locator("form.comment [data-problem]")).to_contain_text("77")
        expect(page.get_by_label("Comment", exact=True)).to_have_value("which line?")
        eyes.complaints.clear()  # browsers write down every refusal
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("form.comment")).to_have_count(0)
        page.keyboard.press("n")
        page.keyboard.press("v")
        expect(page.locator("#viewed-count")).to_have_text("1 of 1 viewed")
        page.reload()
        expect(page.locator("#viewed-count")).to_have_text("1 of 1 viewed")
