"""The scripted model as a program: prints its URL, then answers until it gets a signal."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from corral.testing.model.load import load_turns
from corral.testing.model.script import Script, ScriptError
from corral.testing.model.server import ScriptedModel


def main() -> int:
    options = _parser().parse_args()
    try:
        script = Script(
            turns=load_turns(options.script),
            side_text=options.side_text,
            toolless=options.toolless,
            in_order=options.in_order,
        )
        model = _listen(script, options.port, options.log)
    except ScriptError as error:
        sys.stderr.write(f"error: {error}\nhint: {error.hint}\n")
        return 2
    stop = _stop_event()
    with model:
        sys.stdout.write(f"{model.url}\n")
        sys.stdout.flush()
        stop.wait()
    return 0


def _stop_event() -> threading.Event:
    stop = threading.Event()

    def tell(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGINT, tell)
    signal.signal(signal.SIGTERM, tell)
    return stop


def _listen(script: Script, port: int, log: Path | None) -> ScriptedModel:
    try:
        return ScriptedModel(script, port=port, log=log)
    except (OSError, OverflowError) as error:
        raise ScriptError(f"cannot listen on port {port}: {error}", "leave --port out to get a free one") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m corral.testing.model", description="A scripted model provider on 127.0.0.1."
    )
    parser.add_argument("script", type=Path, help="JSON file: a list of turns, see corral.testing.Turn")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: a free one)")
    parser.add_argument("--log", type=Path, help="append every request to this file, a line of JSON each")
    parser.add_argument("--side-text", default=Script.side_text, help="answer to requests that offer no tools")
    parser.add_argument("--toolless", action="store_true", help="requests without tools get turns too")
    parser.add_argument("--in-order", action="store_true", help="the i-th request gets turn i, whatever its history")
    return parser


if __name__ == "__main__":
    sys.exit(main())
