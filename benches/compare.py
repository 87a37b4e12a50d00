#!/usr/bin/env python3
"""Measures the gateway side by side with nginx, a bare Pingora proxy and no proxy at all.

The contenders take turns (A, B, C, A, B, C, …) over one cheap upstream, so that slow phases of the
machine meet all of them. See README.md for what the figures mean.
"""
import argparse
import dataclasses
import json
import os
import re
import subprocess
import tempfile
import time

from rig.contenders import (AllInProcess, AllOnRedis, Bare, CostOnRedis, Gateway, Guarded, InProcess, Nginx, OnRedis,
                            RecordsOff, RecordsOn, TokensOnRedis, Unlimited, Upstream, build)
from rig.processes import CPUS, note, stop_all
from rig.table import add_ttft, ratio, table

WARM_UP_SECONDS = 1.0
KINDS = {"nginx": Nginx, "bare": Bare, "gateway": Gateway, "on": RecordsOn, "off": RecordsOff,
         "unlimited": Unlimited, "limited": InProcess, "limited-all": AllInProcess, "redis": OnRedis, "redis-all": AllOnRedis,
         "redis-tokens": TokensOnRedis, "redis-cost": CostOnRedis, "guarded": Guarded}
GATEWAYS = set(KINDS) - {"nginx", "bare"}
WORKER_BOUND = 0.8  # of bare Pingora's CPU per request, on c1pin
TOOL_BOUND = 2.5  # of bare Pingora's CPU per call of a tool, equal bytes


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    connections: int
    arguments: tuple = ()
    pinned: bool = False
    streaming: bool = False
    tool: bool = False


STREAM = ("--stream",)
SCENARIOS = [
    Scenario("c1pin", "1 KB JSON, 1 connection, everything on one core", 1, pinned=True),
    Scenario("c32", "1 KB JSON, 32 connections", 32),
    Scenario("c64", "1 KB JSON, 64 connections", 64),
    Scenario("sse1", "streams of 53 events, 1 connection", 1, STREAM, streaming=True),
    Scenario("sse32", "streams of 53 events, 32 connections", 32, STREAM, streaming=True),
    Scenario("tool1", "calls of an MCP tool, 1 KB JSON, 1 connection, everything on one core", 1, ("--tool",), pinned=True, tool=True),
    Scenario("tool32", "calls of an MCP tool, 1 KB JSON, 32 connections", 32, ("--tool",), tool=True),
    Scenario("body1m", "1 MB JSON, 8 connections", 8, ("--body-size", str(1 << 20))),
]


def settings():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run")
    parser.add_argument("--scenarios", default=",".join(s.name for s in SCENARIOS if s.name != "c64"))
    parser.add_argument("--contenders", default="direct,nginx,bare,gateway",
                        help="also: on, off (records, into a store that keeps none); unlimited, limited, redis (a policy), "
                             "redis-tokens, redis-cost, limited-all, redis-all (by requests, tokens and cost)")
    parser.add_argument("--threads", type=int, default=len(CPUS), help="of nginx, the bare proxy and the gateway")
    add_build_options(parser)
    parser.add_argument("--check", action="store_true", help="fail when a hard bound is broken")
    return parser.parse_args()


def add_build_options(parser):
    parser.add_argument("--profile", default="dist", help="what the gateway and the bare proxy are built with")
    parser.add_argument("--gateway", help="a built gateway (default: built now)")
    parser.add_argument("--bare", help="a built bare-proxy (default: likewise)")
    parser.add_argument("--load", help="a built load tool (default: built with the release profile)")
    # Large bodies are looked at on the runtime's blocking threads: that is serving a request too.
    parser.add_argument("--worker-threads", default=r"^proxy|^tokio-rt-worker", help="regex of worker names")
    parser.add_argument("--writer-threads", default=r"^record-|^sqlx", help="regex of writer names")


def prepare(rig):
    """Builds what was not given, and finds a place for logs and data."""
    here = os.path.dirname(os.path.abspath(__file__))
    os.chdir(os.path.dirname(here))
    about = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version=1"], check=True, capture_output=True)
    target = json.loads(about.stdout)["target_directory"]
    packages = [(rig.gateway, "gateway", GATEWAYS), (rig.bare, "bare-proxy", {"bare"})]
    wanted = [p for given, p, whose in packages if not given and whose & set(rig.contenders.split(","))]
    wanted += [] if rig.load else ["load"]
    if wanted:
        # Together, so that all link the same build of the framework, and none is built twice.
        build("--profile", rig.profile, *(word for package in wanted for word in ("-p", package, "--bin", package)))
    rig.load = rig.load or f"{target}/{rig.profile}/load"
    rig.gateway = rig.gateway or f"{target}/{rig.profile}/gateway"
    rig.bare = rig.bare or f"{target}/{rig.profile}/bare-proxy"
    rig.out = os.path.join(target, "bench")
    os.makedirs(rig.out, exist_ok=True)
    rig.dir = tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=rig.out)
    rig.wrap = []


def groups(contender, before, after, total):
    """CPU seconds of a run by kind of thread. What belongs to no living thread is `rest`."""
    out = {"worker": 0.0, "writer": 0.0}
    names = {}
    for tid, (name, seconds) in after.items():
        spent = seconds - before.get(tid, (name, 0.0))[1]
        names[name] = names.get(name, 0.0) + spent
        if re.search(contender.workers, name):
            out["worker"] += spent
        elif re.search(contender.writers, name):
            out["writer"] += spent
    out["rest"] = max(0.0, total - out["worker"] - out["writer"])
    return out, names


def settle(process):
    """Until the process has worked off what the load left behind; 20 s at most."""
    for _ in range(40):
        before = process.cpu()
        time.sleep(0.5)
        if process.cpu() - before < 0.02:
            return


def drive(rig, contender, scenario, seconds):
    """Runs the load, and returns its report and the peak of the contender's memory."""
    command = [rig.load, "run", contender.tool_url if scenario.tool else contender.url, "-c", str(scenario.connections), "-d", str(seconds),
               *scenario.arguments]
    if not scenario.streaming:
        command += ["--expect", '"content"' if scenario.tool else '"choices"']
    for name, value in contender.headers.items():
        command += ["-H", f"{name}: {value}"]
    if scenario.pinned:
        command = ["taskset", "-c", str(min(CPUS)), *command]
    peak = 0.0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as load:
        while True:
            try:
                out, _ = load.communicate(timeout=0.25)
                break
            except subprocess.TimeoutExpired:
                if contender.process:
                    peak = max(peak, contender.process.rss())
    if load.returncode:
        raise SystemExit(f"the load tool failed with {load.returncode}")
    return json.loads(out), peak


def measure(rig, upstream, contender, scenario, seconds):
    process = contender.process
    pinned = [p for p in (process, upstream.server) if p] if scenario.pinned else []
    for one in pinned:
        one.pin({min(CPUS)})
    before = process and (process.threads(), process.cpu())
    sent = upstream.count()
    report, peak = drive(rig, contender, scenario, seconds)
    if process:
        settle(process)
    sent = upstream.count() - sent
    run = {
        "sent": sent, "requests": report["requests"], "errors": report["errors"], "rps": report["rps"],
        "p50_us": report["latency_us"]["p50"], "p90_us": report["latency_us"]["p90"],
        "p99_us": report["latency_us"]["p99"], "load_average": os.getloadavg()[0], "report": report,
    }
    if "ttft_us" in report:
        run |= {"ttft_p50_us": report["ttft_us"]["p50"], "ttft_p99_us": report["ttft_us"]["p99"]}
    if process:
        total = process.cpu() - before[1]
        kinds, names = groups(contender, before[0], process.threads(), total)
        run |= {f"{kind}_us": spent * 1e6 / max(sent, 1) for kind, spent in kinds.items()}
        run |= {"sum_us": total * 1e6 / max(sent, 1), "threads": names, "rss_mb": peak}
    for one in pinned:
        one.pin(CPUS)
    contender.sent += sent
    contender.answered += report["requests"] + report["errors"]
    return run


def measure_all(rig, upstream, contenders):
    results = {}
    for scenario in (s for s in SCENARIOS if s.name in rig.scenarios.split(",")):
        for contender in contenders:
            measure(rig, upstream, contender, scenario, WARM_UP_SECONDS)
        rounds = results[scenario.name] = []
        for number in range(rig.rounds):
            rounds.append({})
            for contender in contenders:
                run = rounds[-1][contender.name] = measure(rig, upstream, contender, scenario, rig.seconds)
                note(f"{scenario.name:7} round {number + 1} {contender.name:13} {run['rps']:>10,.0f}/s  "
                     f"worker {run.get('worker_us', 0):7.1f} µs  sum {run.get('sum_us', 0):7.1f} µs  "
                     f"p50 {run['p50_us'] or 0:9.1f} µs  errors {run['errors']}  load {run['load_average']:.1f}")
        add_ttft(rounds)
    return results


def at_rest(contenders):
    lines = ["### At rest, before the first load", "", "| | RSS MB | CPU % of a core |", "|---|---:|---:|"]
    before = {c.name: c.process.cpu() for c in contenders if c.process}
    time.sleep(5)
    for one in contenders:
        if one.process:
            busy = (one.process.cpu() - before[one.name]) / 5 * 100
            lines.append(f"| {one.name} | {one.process.rss():.1f} | {busy:.1f} |")
    return "\n".join(lines) + "\n"


def count_records(gateway):
    """Whether each request left a record. Waits while records still arrive."""
    stored, still = -1, 0
    while still < 5:
        now = gateway.records()
        still = still + 1 if now == stored else 0
        stored = now
        if stored >= gateway.answered:
            break
        time.sleep(1)
    whole = stored == gateway.answered == gateway.sent
    text = (f"Records: {stored:,} stored, {gateway.answered:,} requests sent by clients, "
            f"{gateway.sent:,} seen by the upstream: {'complete' if whole else 'NOT EQUAL'}.\n")
    return whole, text


def broken_bounds(results, complete):
    broken = [] if complete else ["records ≠ requests"]
    tool = ratio(results.get("tool1", []), "gateway", "worker_us", "bare pingora")
    if tool is not None and tool > TOOL_BOUND:
        broken.append(f"a call of a tool takes {tool:.2f} of bare Pingora's CPU, bound {TOOL_BOUND}")
    worker = ratio(results.get("c1pin", []), "gateway", "worker_us", "bare pingora")
    if worker is None:
        broken.append("c1pin was not measured")
    elif worker > WORKER_BOUND:
        broken.append(f"c1pin takes {worker:.2f} of bare Pingora's CPU, bound {WORKER_BOUND}")
    return broken


def main():
    rig = settings()
    prepare(rig)
    upstream = Upstream(rig)
    names = [name for name in rig.contenders.split(",") if name in KINDS]
    contenders = [upstream] if "direct" in rig.contenders else []
    contenders += [KINDS[name](rig) for name in names]
    rest = at_rest(contenders)
    results = measure_all(rig, upstream, contenders)
    complete, records = True, ""
    for contender in contenders:
        if isinstance(contender, Gateway) and contender.log_store != "off:":
            whole, told = count_records(contender)
            complete, records = complete and whole, records + f"{contender.name}: {told}"
    shown = [contender.name for contender in contenders]
    head = (f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}, {len(CPUS)} cores, {rig.threads} worker threads "
            f"each, medians of {rig.rounds} interleaved rounds of {rig.seconds:g} s.\n")
    tables = [table(f"{s.name}: {s.title}", results[s.name], shown, s.streaming)
              for s in SCENARIOS if s.name in results]
    text = "\n".join([head, *tables, rest, records])
    print(text)
    with open(os.path.join(rig.dir, "tables.md"), "w") as file:
        file.write(text)
    with open(os.path.join(rig.dir, "results.json"), "w") as file:
        json.dump({"settings": vars(rig), "rounds": results}, file, indent=1)
    note(f"tables, raw figures and logs: {rig.dir}")
    stop_all()
    broken = broken_bounds(results, complete) if rig.check else []
    if broken:
        raise SystemExit("Broken: " + "; ".join(broken))


if __name__ == "__main__":
    main()
