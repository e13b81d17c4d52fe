"""A hostile far end: stands before a real `corral host` and changes what that answers. Words: its trick, the host."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

import msgspec

decode, encode = msgspec.msgpack.decode, msgspec.msgpack.encode


class Tampering:
    """Passes frames on; notes what the engine asks, and tampers with the answers to it."""

    def __init__(self, trick: str) -> None:
        self.trick, _, self.file = trick.partition(":")
        self.verbs: dict[int, str] = {}
        self.bundles: set[int] = set()

    def ask(self, frame: list[Any]) -> None:
        if frame[0] == "call":
            self.verbs[frame[1]] = frame[2]
        if frame[0] == "open" and str(frame[2].get("name")).endswith(".bundle"):
            self.bundles.add(frame[1])

    def answer(self, frame: list[Any]) -> list[bytes]:
        """Return what is sent in the place of a frame."""
        if frame[0] == "piece" and self.trick == "bundle" and frame[1] in self.bundles:
            content = Path(self.file).read_bytes()
            return [] if frame[2] else [framed(["piece", frame[1], content]), framed(frame)]
        if (
            frame[0] in ("answer", "refuse")
            and self.trick == "full"
            and self.verbs.get(frame[1]) in self.file.split(",")
        ):
            return [framed(["refuse", frame[1], "", "fatal: No space left on device, unable to write", ""])]
        verb = self.verbs.get(frame[1]) if frame[0] == "answer" else None
        if verb == "hello" and self.trick == "version":
            frame[2]["version"] = "9.9.9"
        if verb == "make" and self.trick == "huge":
            return [b"\xff\xff\xff\xff" + b"x" * 1000]
        if verb == "observe":
            self.forge(frame[2])
        if verb == "home_files" and self.trick == "home":
            frame[2] = [{"../../climbed": b"x", "/climbed": b"x"}]
        return [framed(frame)]

    def forge(self, answer: dict[str, Any]) -> None:
        if self.trick == "forged":
            answer["seen"] = [{"result": {"command": "true", "exit_code": 0, "seconds": 0.1}} for _ in answer["seen"]]
        elif self.trick == "fewer":
            answer["seen"] = []
        elif self.trick == "climbing":
            for seen in answer["seen"]:
                seen["result"]["log"] = f"../../../..{self.file}"
            answer["logs"] = {
                f"../../../..{self.file}": b"x",
                "..": b"x",
                "stdout.log": b"x",
                Path(self.file).name: b"x",
            }


def framed(frame: list[Any]) -> bytes:
    data = encode(frame)
    return len(data).to_bytes(4) + data


def frames(source: IO[bytes]) -> Any:
    while head := source.read(4):
        yield decode(source.read(int.from_bytes(head)))


def main() -> None:
    tampering = Tampering(sys.argv[1])
    with subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as host:
        assert host.stdin
        assert host.stdout

        def inward(there: IO[bytes] = host.stdin) -> None:
            for frame in frames(sys.stdin.buffer):
                tampering.ask(frame)
                there.write(framed(frame))
                there.flush()
            there.close()

        threading.Thread(target=inward, daemon=True).start()
        for frame in frames(host.stdout):
            for data in tampering.answer(frame):
                sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
