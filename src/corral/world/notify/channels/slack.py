"""An incoming webhook of Slack, by its address; the entry is a message there."""

from __future__ import annotations

import json
from typing import Any

from corral.model import Entry
from corral.world.notify.http_post import post_again
from corral.world.notify.notify import AnswerWays, message

ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})  #: else a text could mention a channel


MOST_TEXT = 2900  #: characters of a section; Slack allows 3000
MOST_LABEL = 75
MOST_BUTTONS = 25


async def send(entry: Entry, setting: str) -> str:
    """Post it to the channel of the webhook."""
    text = {"text": message(entry).translate(ESCAPES), "unfurl_links": False}
    return await post_again("slack", setting, {"Content-Type": "application/json"}, json.dumps(text).encode())


async def send_answerable(entry: Entry, setting: str, answers: AnswerWays) -> str:
    """Post it with a button for each choice, or with a field for words, if someone may use them."""
    if not answers.settings.slack_users or len(entry.choices) > MOST_BUTTONS:
        return await send(entry, setting)
    text = message(entry).translate(ESCAPES)
    shown = {"type": "section", "text": {"type": "mrkdwn", "text": text[:MOST_TEXT], "verbatim": True}}
    said = {"text": text, "unfurl_links": False, "blocks": [shown, _buttons(entry, answers)]}
    return await post_again("slack", setting, {"Content-Type": "application/json"}, json.dumps(said).encode())


def _buttons(entry: Entry, answers: AnswerWays) -> dict[str, Any]:
    if not entry.choices:
        element = {
            "type": "plain_text_input",
            "action_id": "corral_words",
            "dispatch_action_config": {"trigger_actions_on": ["on_enter_pressed"]},
        }
        label = {"type": "plain_text", "text": "Your answer"}
        return {
            "type": "input", "block_id": answers.open_code, "dispatch_action": True, "label": label, "element": element,
        }  # fmt: skip
    buttons = [
        {
            "type": "button",
            "action_id": f"corral_{index}",
            "text": {"type": "plain_text", "text": choice[:MOST_LABEL]},
            "value": answers.codes[index],
        }
        for index, choice in enumerate(entry.choices)
    ]
    return {"type": "actions", "elements": buttons}
