"""A program that stands for the command where others start it by name: it has it forked, and ends as it ends."""

import json
import os
import signal
import socket
import sys

MOST_REPORT = 1000  #: bytes

if __name__ == "__main__":
    address, *words = sys.argv[1:]
    asker = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asker.connect(address)
    request = {"argv": words, "cwd": os.getcwd(), "env": dict(os.environ), "tied": True}  # noqa: PTH109 -- pathlib takes long to load
    socket.send_fds(asker, [json.dumps(request).encode()], [0, 1, 2])
    process = json.loads(asker.recv(MOST_REPORT))["pid"]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(process, number))
    os.closerange(0, 3)  # they are the command's now
    code = json.loads(asker.recv(MOST_REPORT))["code"]
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
