"""Several processes for one piece of work: forked once everything is loaded, ended with the first, replaced if one dies."""

import os
import signal
import threading
import time
from collections.abc import Callable

PAUSE = 1.0  # seconds before a process that died is replaced


def supervised(count: int, work: Callable[[], object], note: Callable[[str], None]) -> None:
    """Let so many processes do the work until this one is asked to end; they end with it, however it ends."""
    reader, writer = os.pipe()  # whose end tells them that this process is gone
    ending: list[int] = []
    children: set[int] = set()

    def end(number: int, frame: object) -> None:
        ending.append(number)
        for child in children:
            os.kill(child, signal.SIGTERM)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        while True:
            while len(children) < count and not ending:
                children.add(started(work, reader, writer))
            if not children:
                return
            child, status = os.wait()
            children.discard(child)
            if not ending:
                code = os.waitstatus_to_exitcode(status)
                note(f"a worker ended with {code}: another one takes its place")
                time.sleep(PAUSE)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for pipe in (reader, writer):
            os.close(pipe)
        if signal.SIGINT in ending:
            raise KeyboardInterrupt


def started(work: Callable[[], object], reader: int, writer: int) -> int:
    """The id of a new process that does the work, and nothing after it."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.close(writer)
        os.setpgid(0, 0)  # Ctrl-C is for the first process alone
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        threading.Thread(target=follow, args=(reader,), daemon=True).start()
        work()
        code = 0
    finally:
        os._exit(code)


def follow(reader: int) -> None:
    """End in order when the first process is gone."""
    os.read(reader, 1)
    os.kill(os.getpid(), signal.SIGTERM)
