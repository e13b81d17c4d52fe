# pyright: basic
"""A plain Python program: whether it reached its own end, or was ended from below it with success."""

import atexit
import os
import sys

_hard_exit = os._exit
_HARMLESS = (
    "POP_TOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "NOP", "CACHE", "RESUME", "EXTENDED_ARG", "PUSH_NULL",
    "JUMP_FORWARD", "POP_BLOCK", "PRECALL", "NOT_TAKEN", "END_FOR", "POP_ITER", "LOAD_SMALL_INT",
)  # fmt: skip
AFTER_ERROR = "code that ran after an error which nothing caught"
_PARSERS = ("argparse.py", "optparse.py", "getopt.py", "/click/", "/typer/", "/docopt", "/fire/")


class MainProgram:
    """The program of this process."""

    def __init__(self, main, core):
        self.main, self.core = main, core
        self.id, self.pid = core.nonce(), os.getpid()
        self.over = False
        self.frame = None  # of the main program
        self.code = None  # that sys.exit was called with last
        self.exit = None  # who called sys.exit last, in words; empty: someone who may

    def is_main(self, frame):
        return frame.f_globals is vars(sys.modules["__main__"])

    def own(self, frame):
        return self.is_main(frame) or self.core.in_tree(frame.f_code.co_filename)

    # --- who ended it

    def early(self, steps):
        """Return in words who ended the program early; `steps` are (frame, place in its code), outermost first."""
        ours = [step for step in steps if self.own(step[0])]
        if not ours:
            return None
        culprit = ours[-1][0]
        name = culprit.f_code.co_filename
        if self.is_main(culprit) or self.core.is_test(name):
            return None
        above = [each for each in ours if _file(each[0]) != name]
        harness = [each for each in above if self.is_main(each[0]) or self.core.looks_like_test(_file(each[0]))]
        parsed = any(part in _file(steps[-1][0]) for part in _PARSERS)
        if parsed and not any(self.core.looks_like_test(_file(frame)) for frame, _ in harness):
            return None  # `--help` and `--version` end a program, wherever its arguments are read
        if any(_has_more(frame, place) for frame, place in harness):
            return "`%s`" % self.core.short(name)
        return None

    def stack(self, frame):
        steps = []
        while frame is not None:
            steps.append((frame, frame.f_lasti))
            frame = frame.f_back
        return steps[::-1]

    def ended_by(self, code, frame, what):
        """Note that something ends this process at once."""
        if self.over or self.pid != os.getpid():
            return
        words = None
        if code in (0, None):
            words = self.early(self.stack(frame)) if frame is not None else None
            if words is None and getattr(sys, "last_value", None) is not None:
                words = AFTER_ERROR
            elif words is None and not self._on_stack(frame):
                words = self._from_elsewhere(frame) or self._after_main()
        self.end(code, words and "%s ended it with %s" % (words, what))

    def _on_stack(self, frame):
        return any(self.is_main(each) for each, _ in self.stack(frame)) if frame is not None else False

    def _from_elsewhere(self, frame):
        """Return who ended the program from another thread, while its main thread had more to do."""
        import threading

        main = sys._current_frames().get(threading.main_thread().ident or 0)
        steps = self.stack(main) if main is not None and main is not frame else []
        ours = [each for each in self.stack(frame) if self.own(each[0])] if frame is not None else []
        if ours and any(self.is_main(each) and _has_more(each, place) for each, place in steps):
            return "`%s`" % self.core.short(_file(ours[-1][0]))
        return None

    def exits(self, code, frame):
        """Note a call of sys.exit: it ends the program unless something catches it."""
        if not self.over and self.pid == os.getpid():
            stack = self.stack(frame)
            if getattr(sys, "last_value", None) is not None and code in (0, None):
                self.exit = AFTER_ERROR
            elif any(self.is_main(each) for each, _ in stack):
                self.code = code
                self.exit = (code in (0, None) and self.early(stack)) or ""

    def _after_main(self):
        """Return who ends a process with success whose main program had ended otherwise, as exit hooks can."""
        main = sys._current_frames().get(sys.modules["threading"].main_thread().ident or 0)
        over = self.frame is not None and not any(each is self.frame for each, _ in self.stack(main))
        if over and not _returns(self.frame) and not (self.exit == "" and self.code in (0, None)):
            return "a hook that ran after the main program had failed"
        return None

    # --- its end

    def catch(self, frame):
        """Keep the frame of the main program, which shows at the end how far it came; return whether it was found."""
        while frame is not None:
            if frame.f_code.co_name == "<module>" and self.is_main(frame):
                self.frame = frame
                return True
            frame = frame.f_back
        return False

    def at_exit(self):
        if self.over or self.pid != os.getpid():
            return
        words = self._how_it_ended(self.frame) if self.frame is not None else ""
        self.frame = None
        self.end(0, words and words + " ended it with sys.exit")

    def _how_it_ended(self, frame):
        if getattr(sys, "last_value", None) is not None:
            hook = getattr(getattr(sys.excepthook, "__code__", None), "co_filename", "")
            return AFTER_ERROR if self.exit == AFTER_ERROR or self.core.in_tree(hook) else ""
        if _returns(frame):
            return ""
        if self.exit is not None:
            return self.exit
        step = _at(frame)
        if step is None or step.opname.startswith(("RAISE", "RERAISE")) or not _has_more(frame, frame.f_lasti):
            return ""
        return "code that it calls"

    def end(self, code, words):
        self.over = True
        if words:
            self.core.send(e="exit", s=self.id, w=words)
        self.core.GUARD.send()
        self.core.send_modules()
        number = code if isinstance(code, int) else 0 if code is None else 1
        self.core.send(e="end", s=self.id, c=int(number))


def _file(frame):
    return frame.f_code.co_filename


def _returns(frame):
    """Tell whether a frame came to an end of its own, without what `dis` costs to load."""
    import opcode

    return opcode.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN") if frame.f_lasti >= 0 else True


def _at(frame):
    """Return the instruction that a frame came to; its place may lie in what belongs to that instruction."""
    import dis

    found = None
    for step in dis.get_instructions(frame.f_code):
        if step.offset > frame.f_lasti:
            break
        found = step
    return found


def _has_more(frame, place):
    """Tell whether a frame still had something to do after a call at this place of its code."""
    import dis
    import linecache

    code = frame.f_code
    calls = 1 if "exit(" in linecache.getline(code.co_filename, frame.f_lineno) else 0
    handlers = {target for *_, target in _handlers(dis, code)}
    for step in dis.get_instructions(code):
        if step.offset <= place or step.opname in _HARMLESS:
            continue
        if step.offset in handlers or step.opname in ("PUSH_EXC_INFO", "SETUP_FINALLY"):
            return False
        if step.opname.startswith("CALL") and calls:
            calls -= 1
            continue
        return True
    return False


def _handlers(dis, code):
    """Return where the handlers of exceptions begin: they lie behind what a function does otherwise."""
    parse = getattr(dis, "_parse_exception_table", None)
    if parse is None:
        return []
    return [(each.start, each.end, each.target) for each in parse(code)]


def _wrap_exit(script, name, original, code):
    def noting_end(*args, **kwargs):
        try:
            script.ended_by(code(args), sys._getframe(1) if _has_caller(1) else None, "os." + name)
        except Exception:  # noqa: BLE001 -- a reporter never breaks what it reports on
            pass
        return original(*args, **kwargs)

    noting_end.__name__ = noting_end.__qualname__ = name
    noting_end.__doc__ = original.__doc__
    return noting_end


def _exit(script, original):
    def noting_end(status=None, /):
        try:
            script.exits(status, sys._getframe(1) if _has_caller(1) else None)
        except Exception:  # noqa: BLE001 -- a reporter never breaks what it reports on
            pass
        return original(status)

    noting_end.__name__ = noting_end.__qualname__ = "exit"
    noting_end.__doc__ = original.__doc__
    return noting_end


def _has_caller(depth):
    try:
        sys._getframe(depth + 1)
    except ValueError:
        return False
    return True


def _ends_from_outside():
    """Tell whether a shell runs this in the background, or `timeout` does: who ends it then is not the program."""
    try:
        import _signal  # pyright: ignore[reportMissingImports]

        if _signal.getsignal(_signal.SIGINT) == _signal.SIG_IGN:
            return True
        with open("/proc/%d/comm" % os.getppid()) as file:
            return file.read().strip() == "timeout"
    except (ImportError, ValueError, OSError):
        return False


def begin(main, inner, core):
    """Watch this program; one that another program of the check started only if it looks like a test."""
    if inner and not (main[0] != "-" and core.looks_like_test(main)):
        return None
    script = MainProgram(main, core)
    core.send(e="begin", k="python", s=script.id, a="python " + main, soft=inner or _ends_from_outside())
    atexit.register(script.at_exit)
    sys.exit = core.GUARD.exit = _exit(script, sys.exit)
    import posix

    for name, code in (("_exit", lambda args: args[0] if args else 0), ("execv", lambda _: 0), ("execve", lambda _: 0)):
        made = _wrap_exit(script, name, getattr(posix, name), code)
        setattr(posix, name, made)
        setattr(os, name, made)
    return script
