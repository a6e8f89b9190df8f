"""A plug-in for pytest: prints results as TAP instead of pytest's own report, and ends a test that
hangs. Used as `pytest -p tap` by tests/run.

A test that hangs fails with the traceback of where it hung, and its fixtures end what they started,
which they could not if the whole process were killed.
"""

import signal

import pytest

LIMIT_S = 120  # for one test, with its fixtures
AGAIN_S = 30  # and then for each fixture that hangs in its turn


def _print(line):
    print(line, flush=True)


def _diagnose(text):
    for line in text.splitlines():
        _print(f"# {line}")


class Tap:
    """One line of TAP for each test, after its last phase."""

    def __init__(self):
        self.number = 0
        self.reports = []

    def pytest_collection_finish(self, session):
        _print(f"1..{len(session.items)}")

    def pytest_collectreport(self, report):
        if report.failed:
            _diagnose(report.longreprtext)
            _print(f"Bail out! {report.nodeid or 'the tests'} could not be read")

    def pytest_internalerror(self, excrepr):
        _diagnose(str(excrepr))
        _print("Bail out! internal error of pytest")

    def pytest_keyboard_interrupt(self, excinfo):
        _print(f"Bail out! {excinfo.typename}")

    def pytest_runtest_logreport(self, report):
        self.reports.append(report)

    def pytest_runtest_logfinish(self, nodeid):
        reports, self.reports = self.reports, []
        self.number += 1
        verdict, directive = "ok", ""
        for report in reports:
            if report.failed:
                verdict = "not ok"
            elif report.skipped:
                directive = f" # SKIP {report.longrepr[2].removeprefix('Skipped: ')}"
        name = nodeid.split("::", 1)[-1].replace("#", "")
        seconds = sum(report.duration for report in reports)
        if seconds >= 1:
            name += f" ({seconds:.1f} s)"
        _print(f"{verdict} {self.number} - {name}" + directive.replace("\n", " "))
        for report in reports:
            if report.failed:
                _diagnose(f"{report.when}:\n{report.longreprtext}")
                for title, text in report.sections:
                    _diagnose(f"{title}:\n{text}")


class Limit:
    """A limit of time for each test."""

    @staticmethod
    def _expired(signum, frame):
        pytest.fail("hangs")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self):
        signal.signal(signal.SIGALRM, self._expired)
        signal.setitimer(signal.ITIMER_REAL, LIMIT_S, AGAIN_S)
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    own = config.pluginmanager.get_plugin("terminalreporter")
    config.pluginmanager.unregister(own)
    config.pluginmanager.register(Tap(), "tap-report")
    config.pluginmanager.register(Limit(), "tap-limit")
