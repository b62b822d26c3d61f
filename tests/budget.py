"""What tests compile: programs, and seconds, of each module over all workers, and the budget of the default suite."""

import json
import os
import time
from collections import Counter

import jax

# Of a cold run: programs, and seconds of processor time of all workers together. On fast cores of their own these are
# 819 and 350 to 530 s; with recordings some more. Which modules share a worker changes the programs, too.
PROGRAMS, SECONDS = 860, 1000.0
# What a core takes for `_loop`, at which the seconds are as above; one that takes longer has as much more of them.
# Cores that have worked for a while may be half as fast as before, so that it is measured when all is done.
CORE = 0.085

_COMPILED = "/jax/core/compile/backend_compile_duration"
_TRACED = "/jax/core/compile/jaxpr_trace_duration", "/jax/core/compile/jaxpr_to_mlir_module_duration"


def _loop():
    """Processor time of some work in Python, as most of tracing is."""
    begin, known, total = time.process_time(), {}, 0
    for i in range(300_000):
        known[i % 997] = str(i)
        total += len(known[i % 997]) + i * i % 7
    return time.process_time() - begin


class Budget:
    """Counts while tests run; the counts of workers are added in the process that began them, which prints them."""

    def __init__(self, config):
        chosen = config.option.file_or_dir or config.option.keyword
        self.limited = config.option.markexpr == "not full and not studies" and not chosen
        self.module, self.programs, self.seconds, self.processor = "collection", Counter(), Counter(), 0.0
        self.most = SECONDS
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event, duration, **_):
        self.programs[self.module] += event == _COMPILED
        self.seconds[self.module] += duration * (event == _COMPILED or event in _TRACED)

    def pytest_runtest_logstart(self, nodeid):
        self.module = nodeid.partition("::")[0]

    def pytest_testnodedown(self, node):
        counted = getattr(node, "workeroutput", {}).get("compiled")
        if counted:
            programs, seconds, processor = json.loads(counted)
            self.programs.update(programs)
            self.seconds.update(seconds)
            self.processor += processor

    def pytest_sessionfinish(self, session):
        # With what its own children took, but for pytest's workers, which send theirs.
        own = os.times()
        if hasattr(session.config, "workeroutput"):
            counted = self.programs, self.seconds, sum(own[:4])
            session.config.workeroutput["compiled"] = json.dumps(counted)
            return
        self.processor += sum(own[:2])
        self.most = SECONDS * max(*(_loop() / CORE for _ in range(3)), 1.0)
        if self.above():
            session.exitstatus = 1

    def above(self):
        """What is above the budget, in words."""
        spent = ("programs", self.programs.total(), PROGRAMS), ("processor seconds", self.processor, self.most)
        return [f"{value:.0f} {name}, of {most:.0f}" for name, value, most in spent if self.limited and value > most]

    def pytest_terminal_summary(self, terminalreporter):
        write = terminalreporter.write_line
        write(
            f"{self.programs.total()} programs, traced and compiled in {self.seconds.total():.0f} s; "
            f"{self.processor:.0f} s of processor time. Most by:"
        )
        for module, seconds in self.seconds.most_common(10):
            write(f"{seconds:8.1f} s {self.programs[module]:5d}  {module}")
        for line in self.above():
            write(f"above the budget in tests/budget.py: {line}", red=True)
