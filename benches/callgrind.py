#!/usr/bin/env python3
"""User instructions per request, counted by callgrind: the same on a quiet and a busy machine.

One worker thread, one connection, warm-up first. The kernel's work is not in these figures.
With --check it is a gate: see "The gate by instructions" in README.md.
"""
import argparse
import dataclasses
import glob
import os
import re
import subprocess
import sys
import time

from compare import KINDS, add_build_options, prepare
from rig import gate
from rig.contenders import AllRecorded, Bare, Guarded, RecordsOff, RecordsOn, Upstream
from rig.processes import stop_all
from rig.profile import Profile

SETTLE_SECONDS = 2  # until what requests left behind is worked off
BASELINE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "instructions.toml")
# Else glibc copies by `rep movsb`, of which callgrind counts an instruction for each byte.
HONEST = {"GLIBC_TUNABLES": "glibc.cpu.x86_rep_movsb_threshold=1073741824"}


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    contender: type
    stream: bool = False


# Those of one contender follow each other, so that it is started once.
CASES = [Case("plain", RecordsOn), Case("stream", RecordsOn, stream=True), Case("all limits", AllRecorded),
         Case("records off", RecordsOff)]
YARDSTICKS = [Case("plain", Bare), Case("stream", Bare, stream=True)]
# What a window may cost: times the user instructions of the stream without. Of the whole, which the kernel has most of,
# it is far less: see "The gate by instructions" in README.md.
WINDOW = 1.50


def settings():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contenders", default="bare,gateway",
                        help="also the others of compare.py but nginx: on, off, unlimited, limited, redis, …")
    parser.add_argument("--warm-up", type=int, default=300)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--functions", type=int, default=0, help="also print this many functions of the heaviest thread")
    parser.add_argument("--thread", default="", help="of the thread with this in its name, rather than the heaviest")
    parser.add_argument("--stream", action="store_true", help="streams instead of plain answers")
    parser.add_argument("--check", action="store_true", help="fail when a case of instructions.toml grew, or is over its bound")
    parser.add_argument("--rebase", action="store_true", help="measure these cases and re-write instructions.toml")
    parser.add_argument("--guarded", action="store_true", help="fail when a stream in a window of fifty words costs too much")
    add_build_options(parser)
    rig = parser.parse_args()
    rig.threads = 1
    if rig.check or rig.rebase or rig.guarded:
        # The profile that tests are run in too: link-time optimisation would cost this check minutes.
        rig.contenders, rig.profile = "bare,gateway", "release"
    return rig


def control(option, pid):
    subprocess.run(["callgrind_control", option, str(pid)], check=True, capture_output=True)


def send(rig, contender, count, stream):
    headers = [word for name, value in contender.headers.items() for word in ("-H", f"{name}: {value}")]
    done = subprocess.run([rig.load, "run", contender.url, "-n", str(count), "--timeout", "120", *headers,
                           *(["--stream"] if stream else [])], check=True, capture_output=True, text=True)
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


def count(rig, contender, stream):
    """{thread: (instructions per request, file with the details)}, heaviest first."""
    pid = contender.process.popen.pid
    send(rig, contender, rig.warm_up, stream)
    time.sleep(SETTLE_SECONDS)
    control("--zero", pid)
    send(rig, contender, rig.requests, stream)
    time.sleep(SETTLE_SECONDS)
    before = set(glob.glob(f"{rig.dir}/callgrind.out.{pid}.*"))
    control("--dump", pid)
    out = {}
    for path in set(glob.glob(f"{rig.dir}/callgrind.out.{pid}.*-*")) - before:
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
    for name, number in Profile(path).inclusive.most_common(rig.functions):
        print(f"{number / rig.requests / 1e3:8.1f}k  {name}")


def measure(rig, cases):
    """{name: what the worker took}."""
    out, contender = {}, None
    for case in cases:
        if type(contender) is not case.contender:
            if contender:
                contender.process.stop()
            contender = case.contender(rig)
        workers = [path for name, (_, path) in count(rig, contender, case.stream).items() if "worker" in name]
        if len(workers) != 1:
            raise SystemExit(f"{case.name}: {len(workers)} threads look like a worker; see ROLES")
        out[case.name] = gate.Measured.of(Profile(workers[0]), rig.requests)
    contender.process.stop()
    return out


def check(rig):
    began = time.time()
    Upstream(rig, burst=True)
    bare, cases = measure(rig, YARDSTICKS), measure(rig, CASES)
    stop_all()
    rustc = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    kept = gate.read(BASELINE)
    if rig.rebase:
        gate.write(BASELINE, kept, rustc, cases, bare)
        kept = gate.read(BASELINE)
    lines, grown = gate.growth(kept, rustc, cases)
    more, over = gate.bounded(kept, cases, bare)
    print("\n".join([*lines, *more, f"counted in {time.time() - began:.0f} s; details in {rig.dir}"]))
    if grown or over:
        broken = [f"{name} grew" for name in grown] + [f"{name} is over its bound" for name in over]
        sys.exit(f"Broken: {'; '.join(broken)}. What needs more re-writes {os.path.basename(BASELINE)} (--rebase) "
                 "in its own commit and says why; a bound stays.")


def guarded(rig):
    """A stream with a guardrail in `window` against the same without."""
    Upstream(rig, burst=True)
    cases = measure(rig, [Case("stream", RecordsOn, stream=True), Case("guarded", Guarded, stream=True)])
    stop_all()
    before, after = cases["stream"], cases["guarded"]
    ratio = after.instructions / before.instructions
    print(f"stream: {before.instructions:,.0f} instructions, with fifty words in a window: {after.instructions:,.0f}, "
          f"{ratio - 1:+.1%}; details in {rig.dir}")
    grew = {name: count - before.functions.get(name, 0) for name, count in after.functions.items()}
    for name, more in sorted(grew.items(), key=lambda item: -item[1])[:rig.functions or gate.SHOWN]:
        print(f"{more:+10,.0f}  {name}")
    if ratio > WINDOW:
        sys.exit(f"Broken: a window costs {ratio - 1:.1%}, and may cost {WINDOW - 1:.0%}.")


def table(rig):
    Upstream(rig, burst=True)
    print("| | user instructions per request | of which by thread |\n|---|---:|---|")
    details = []
    for name in (n for n in rig.contenders.split(",") if n in KINDS and n != "nginx"):
        contender = KINDS[name](rig)
        threads = count(rig, contender, rig.stream)
        parts = ", ".join(f"{name}: {n / 1e3:.1f}k" for name, (n, _) in threads.items() if n >= 100)
        print(f"| {contender.name} | {sum(n for n, _ in threads.values()) / 1e3:.1f}k | {parts} |", flush=True)
        shown = [path for name, (_, path) in threads.items() if rig.thread in name]
        details.extend((contender.name, path) for path in shown[:1])
        contender.process.stop()
    for name, path in details if rig.functions else ():
        print(f"\n{name}: {path}")
        functions(rig, path)
    stop_all()


def main():
    rig = settings()
    prepare(rig)
    os.environ |= HONEST
    rig.wrap = ["valgrind", "--tool=callgrind", "--separate-threads=yes", "--fair-sched=yes",
                f"--callgrind-out-file={rig.dir}/callgrind.out.%p"]
    if rig.guarded:
        guarded(rig)
    else:
        check(rig) if rig.check or rig.rebase else table(rig)


if __name__ == "__main__":
    main()
