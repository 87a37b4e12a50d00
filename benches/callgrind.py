#!/usr/bin/env python3
"""User instructions per request, counted by callgrind: the same on a quiet and a busy machine.

One worker thread, one connection, warm-up first. The kernel's work is not in these figures.
"""
import argparse
import glob
import os
import re
import subprocess

from compare import add_build_options, prepare
from rig.contenders import Bare, Gateway, Upstream
from rig.processes import stop_all


def settings():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contenders", default="bare,gateway")
    parser.add_argument("--warm-up", type=int, default=300)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--functions", type=int, default=0, help="also print this many functions of the heaviest thread")
    parser.add_argument("--stream", action="store_true", help="streams instead of plain answers")
    add_build_options(parser)
    rig = parser.parse_args()
    rig.threads = 1
    return rig


def control(option, pid):
    subprocess.run(["callgrind_control", option, str(pid)], check=True, capture_output=True)


def send(rig, contender, count):
    headers = [word for name, value in contender.headers.items() for word in ("-H", f"{name}: {value}")]
    stream = ["--stream"] if rig.stream else []
    done = subprocess.run([rig.load, "run", contender.url, "-n", str(count), "--timeout", "120", *headers, *stream],
                          check=True, capture_output=True, text=True)
    if '"errors":0' not in done.stdout:
        raise SystemExit(f"{contender.name}: {done.stdout}")


def thread_names(pid):
    """By valgrind's number, which is the order of birth as long as no thread has ended."""
    tids = sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    return {at + 1: open(f"/proc/{pid}/task/{tid}/comm").read().strip() for at, tid in enumerate(tids)}


def count(rig, contender):
    """{thread: (instructions per request, file with the details)}, heaviest first."""
    pid = contender.process.popen.pid
    send(rig, contender, rig.warm_up)
    control("--zero", pid)
    send(rig, contender, rig.requests)
    names = thread_names(pid)
    control("--dump", pid)
    out = {}
    for path in glob.glob(f"{rig.dir}/callgrind.out.{pid}.1-*"):
        number = int(path.rpartition("-")[2])
        with open(path) as file:
            total = re.search(r"^(?:totals|summary): (\d+)", file.read(), re.MULTILINE)
        out[f"{number} {names.get(number, '?')}"] = (int(total.group(1)) / rig.requests if total else 0.0, path)
    if not out:
        raise SystemExit(f"callgrind wrote no figures for {contender.name}; see {contender.process.log}")
    return dict(sorted(out.items(), key=lambda item: -item[1][0]))


def functions(rig, path):
    """Where the instructions went, callees included."""
    done = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", path],
                          check=True, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if re.match(r"\s*[\d,]+ \(", line)]
    for line in lines[1:rig.functions + 1]:
        number, name = re.match(r"\s*([\d,]+) \(.*?\)\s+\S*?:(.*?)(?: \[.*)?$", line).groups()
        print(f"{int(number.replace(',', '')) / rig.requests / 1e3:8.1f}k  {name}")


def main():
    rig = settings()
    prepare(rig)
    rig.wrap = ["valgrind", "--tool=callgrind", "--separate-threads=yes", "--fair-sched=yes",
                f"--callgrind-out-file={rig.dir}/callgrind.out.%p"]
    Upstream(rig)
    print("| | user instructions per request | of which by thread |\n|---|---:|---|")
    details = []
    for kind in (k for k in (Bare, Gateway) if k.__name__.lower() in rig.contenders):
        contender = kind(rig)
        threads = count(rig, contender)
        parts = ", ".join(f"{name}: {n / 1e3:.1f}k" for name, (n, _) in threads.items() if n >= 100)
        print(f"| {contender.name} | {sum(n for n, _ in threads.values()) / 1e3:.1f}k | {parts} |", flush=True)
        details.append((contender.name, next(iter(threads.values()))[1]))
        contender.process.stop()
    for name, path in details if rig.functions else ():
        print(f"\n{name}: {path}")
        functions(rig, path)
    stop_all()


if __name__ == "__main__":
    main()
