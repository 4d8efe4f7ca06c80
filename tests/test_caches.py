"""Properties that are worked out once, for one object while another waits, and caches that many threads share."""

import ast
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from heterobandits.caches import BoundedCache, cached_property
from paths import ROOT


class Question:
    """Something that takes as long to answer as `go_on` says."""

    def __init__(self, go_on=lambda: None):
        self.go_on, self.asked = go_on, 0

    @cached_property
    def answer(self):
        """What comes of it."""
        self.asked += 1
        self.go_on()
        return 42


def test_it_is_worked_out_once():
    question = Question()
    assert (question.answer, question.answer, question.asked) == (42, 42, 1)
    assert isinstance(Question.answer, cached_property)


def test_whoever_asks_one_object_does_not_wait_for_another():
    begun, end = threading.Event(), threading.Event()

    def go_on():
        begun.set()
        end.wait(10)

    slow, quick = Question(go_on), Question()
    threads = [threading.Thread(target=lambda one=one: one.answer) for one in (slow, quick)]
    threads[0].start()
    try:
        assert begun.wait(10)
        threads[1].start()
        threads[1].join(5)
        assert (threads[1].is_alive(), quick.asked) == (False, 1)
    finally:
        end.set()
        for thread in threads:
            thread.join()


def test_no_module_has_properties_that_wait_for_each_other():
    """Python 3.11 has one lock for all objects of a class: a large campaign would be in the way of all others."""
    users = [
        path.name
        for path in sorted((ROOT / "src").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "functools"
        if "cached_property" in {name.name for name in node.names}
    ]
    assert users == []


def test_any_number_of_threads_may_ask_a_cache():
    """Four throw out what is oldest without a pause."""
    at_hand = BoundedCache(20)

    def ask(first):
        for n in range(first, first + 20_000):
            assert at_hand.find(n) is None
            at_hand.keep(n, n)
        return True

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(ask, range(0, 80_000, 20_000)))
    finally:
        sys.setswitchinterval(before)
    assert len(at_hand) == 20
