#!/usr/bin/env python3
"""User instructions per request, counted by callgrind: the same on a quiet and a busy machine.

One worker thread, one connection, warm-up first. The kernel's work is not in these figures.
"""
import argparse
import glob
import os
import re
import subprocess
import time

from compare import KINDS, add_build_options, prepare
from rig.contenders import Upstream
from rig.processes import stop_all

SETTLE_SECONDS = 2  # until what requests left behind is worked off


def settings():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contenders", default="bare,gateway",
                        help="also the others of compare.py but nginx: on, off, unlimited, limited, redis, …")
    parser.add_argument("--warm-up", type=int, default=300)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--functions", type=int, default=0, help="also print this many functions of the heaviest thread")
    parser.add_argument("--thread", default="", help="of the thread with this in its name, rather than the heaviest")
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


ROLES = {  # what only threads of that name run
    "record-writer": "gateway::metrics::Metrics",
    "record-shipper": "gateway::writer::shipping::Shipping::run",
    "worker": "::handle_new_request",
}


def role(details):
    """What a thread is for, told by what it ran: valgrind keeps no names."""
    plain = details.replace("<", "").replace(">", "")
    return next((name for name, runs in ROLES.items() if runs in plain), "other")


def count(rig, contender):
    """{thread: (instructions per request, file with the details)}, heaviest first."""
    pid = contender.process.popen.pid
    send(rig, contender, rig.warm_up)
    time.sleep(SETTLE_SECONDS)
    control("--zero", pid)
    send(rig, contender, rig.requests)
    time.sleep(SETTLE_SECONDS)
    control("--dump", pid)
    out = {}
    for path in glob.glob(f"{rig.dir}/callgrind.out.{pid}.1-*"):
        number = int(path.rpartition("-")[2])
        with open(path) as file:
            text = file.read()
        total = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
        out[f"{number} {role(text)}"] = (int(total.group(1)) / rig.requests if total else 0.0, path)
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
    for name in (n for n in rig.contenders.split(",") if n in KINDS and n != "nginx"):
        contender = KINDS[name](rig)
        threads = count(rig, contender)
        parts = ", ".join(f"{name}: {n / 1e3:.1f}k" for name, (n, _) in threads.items() if n >= 100)
        print(f"| {contender.name} | {sum(n for n, _ in threads.values()) / 1e3:.1f}k | {parts} |", flush=True)
        shown = [path for name, (_, path) in threads.items() if rig.thread in name]
        details.extend((contender.name, path) for path in shown[:1])
        contender.process.stop()
    for name, path in details if rig.functions else ():
        print(f"\n{name}: {path}")
        functions(rig, path)
    stop_all()


if __name__ == "__main__":
    main()
