"""A line about how far the tests are at least every 20 s, also where standard output is no terminal."""

import os
import threading
import time

import pytest

EVERY_S = 20


class Progress:
    """A plugin of the process that reports: with -n, not of those that run the tests."""

    def __init__(self):
        self.began = time.monotonic()
        self.total = self.done = self.failed = 0
        self.out = os.fdopen(os.dup(1), "w")  # which pytest does not capture
        self.has_ended = threading.Event()
        threading.Thread(target=self.tell, daemon=True).start()

    def tell(self):
        while not self.has_ended.wait(EVERY_S):
            seconds = time.monotonic() - self.began
            print(
                f"\n{self.done} of {self.total} tests, {self.failed} failed, {seconds:.0f} s", file=self.out, flush=True
            )

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids):
        self.total = len(ids)

    def pytest_collection_finish(self, session):
        self.total = len(session.items)

    def pytest_runtest_logreport(self, report):
        self.done += report.when == "teardown"
        self.failed += report.failed

    def pytest_sessionfinish(self):
        self.has_ended.set()
