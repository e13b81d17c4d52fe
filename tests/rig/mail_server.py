"""A mail server that takes every mail: plain SMTP on the loopback."""

import queue
import socketserver

from tests.rig.receiver import LoopbackServer

ANSWERS = {b"EHLO": b"250 here\r\n", b"DATA": b"354 go on\r\n", b"QUIT": b"221 bye\r\n"}


class MailServer(LoopbackServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Mailing)
        self.got: queue.Queue[str] = queue.Queue()
        self.start()


class Mailing(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, MailServer)
        self.wfile.write(b"220 here\r\n")
        for line in self.rfile:
            word = line.split()[0].upper() if line.split() else b""
            self.wfile.write(ANSWERS.get(word, b"250 fine\r\n"))
            if word == b"DATA":
                mail = b"".join(iter(self.rfile.readline, b".\r\n"))
                self.server.got.put(mail.decode())
                self.wfile.write(b"250 taken\r\n")
            if word == b"QUIT":
                return
