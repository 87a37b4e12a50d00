"""Processes of a benchmark: started, measured from /proc, pinned, and ended by their own ids.

Knows nothing of what it runs.
"""
import atexit
import os
import signal
import subprocess
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
CPUS = os.sched_getaffinity(0)
_started = []


class Process:
    """A command in a session of its own, so that its children are counted and ended with it."""

    def __init__(self, name, command, log_dir, env=None):
        self.log = os.path.join(log_dir, f"{name}.log")
        with open(self.log, "ab") as out:
            self.popen = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env={**os.environ, **(env or {})}, start_new_session=True)
        _started.append(self)

    def pids(self):
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                fields = _stat(f"/proc/{entry}/stat")
                if fields and int(fields[3]) == self.popen.pid:
                    found.append(int(entry))
        return found

    def cpu(self):
        """Seconds of CPU, of threads and children that have ended too."""
        total = 0
        for pid in self.pids():
            fields = _stat(f"/proc/{pid}/stat")
            if fields:
                total += sum(map(int, fields[11:15]))  # utime stime cutime cstime
        return total / TICKS

    def threads(self):
        """{thread id: (name, seconds of CPU)} of the threads that live."""
        out = {}
        for pid, tid in self._tasks():
            fields = _stat(f"/proc/{pid}/task/{tid}/stat")
            try:
                name = open(f"/proc/{pid}/task/{tid}/comm").read().strip()
            except OSError:
                continue
            if fields:
                out[tid] = (name, sum(map(int, fields[11:13])) / TICKS)
        return out

    def rss(self):
        """Resident megabytes."""
        pages = 0
        for pid in self.pids():
            try:
                pages += int(open(f"/proc/{pid}/statm").read().split()[1])
            except OSError:
                pass
        return pages * PAGE / 1e6

    def pin(self, cpus):
        for _, tid in self._tasks():
            try:
                os.sched_setaffinity(tid, cpus)
            except ProcessLookupError:
                pass

    def has_ended(self):
        return self.popen.poll() is not None

    def stop(self):
        if not self.has_ended():
            self.popen.send_signal(signal.SIGTERM)
        for _ in range(100):
            self.popen.poll()
            left = self.pids()
            if not left:
                return
            time.sleep(0.1)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        self.popen.wait(5)

    def _tasks(self):
        for pid in self.pids():
            try:
                tids = os.listdir(f"/proc/{pid}/task")
            except OSError:
                continue
            yield from ((pid, int(tid)) for tid in tids)


def _stat(path):
    """The fields after the command name, which may itself hold spaces and brackets."""
    try:
        return open(path).read().rpartition(")")[2].split()
    except OSError:
        return None


def stop_all():
    while _started:
        _started.pop().stop()


def note(*words):
    print(*words, file=sys.stderr, flush=True)


atexit.register(stop_all)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda *_: sys.exit(130))
