"""Several processes for one job: forked once everything is loaded, ended with the first, replaced when one dies."""

import os
import signal
import threading
import time
from collections.abc import Callable

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT)
WORKER_RESTART_PAUSE_S = 1.0  # seconds before a process that died is replaced


def supervise_workers(count: int, work: Callable[[], object], note: Callable[[str], None]) -> None:
    """Run the job in so many processes until this one is told to end; they end with it, in any case."""
    reader, writer = os.pipe()  # whose end tells them that this process is gone
    ending: list[int] = []
    children: set[int] = set()

    def end(number: int, frame: object) -> None:
        ending.append(number)
        for child in children:
            os.kill(child, signal.SIGTERM)

    before = {number: signal.signal(number, end) for number in ENDING_SIGNALS}
    try:
        while True:
            while len(children) < count and not ending:
                # a signal has to wait until the child is known, and until the child no longer takes it for the parent's
                signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
                try:
                    if not ending:
                        children.add(fork_worker(work, reader, writer))
                finally:
                    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)
            if not children:
                return
            child, status = os.wait()
            if child not in children:  # it was there before
                continue
            children.discard(child)
            if not ending:
                code = os.waitstatus_to_exitcode(status)
                note(f"a worker ended with {code}: another one takes its place")
                time.sleep(WORKER_RESTART_PAUSE_S)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for pipe in (reader, writer):
            os.close(pipe)
        if signal.SIGINT in ending:
            raise KeyboardInterrupt


def fork_worker(work: Callable[[], object], reader: int, writer: int) -> int:
    """Fork a process that does the job and then exits, and return its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.close(writer)
        os.setpgid(0, 0)  # Ctrl-C is for the first process alone
        for number in ENDING_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)
        threading.Thread(target=exit_with_parent, args=(reader,), daemon=True).start()
        work()
        code = 0
    finally:
        os._exit(code)


def exit_with_parent(reader: int) -> None:
    """Shut down in an orderly way when the first process is gone."""
    os.read(reader, 1)
    os.kill(os.getpid(), signal.SIGTERM)
