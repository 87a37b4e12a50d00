"""What ten million records over 90 days cost: to store, and to ask questions of.

    records.py PATH/TO/gateway PATH/TO/records [--records N] [--days N] [--log-store-url URL] [--folder KEPT] [--check]

Without a URL the store is SQLite's files in a folder of its own. `records` fills it by the code of the record shipper; a
gateway that is started on it is asked by HTTP once it is at rest (it reads the sums of all days first). Each question is asked five
times, the first answer too has to be in time: nobody asks the same thing twice. `--check` ends with 1 when an indexed question takes 200 ms or more, another one 2 s,
or when fewer than 5,000 records a second were stored. A folder that is kept is not filled a second time.
"""

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from scale import ADMIN_KEY, Gateway

MOST_INDEXED_MS, MOST_SEARCHED_MS, LEAST_STORED = 200, 2_000, 5_000
ASKED = 5
# Seconds after the start.
MOST_AWAITED = 120
# One of those that the records are of.
MODEL = "gpt-4o-mini"
GRAPHS = (
    "requests", "cost", "latency", "tokens", "users", "users/requests", "errors", "errors/rate", "errors/stacks",
    "errors/status-codes", "requests/rescued", "cache/hit-rate", "cache/latency",
)  # fmt: skip
GROUPS = ("users", "ai-models", "ai_service", "provider", "api_key", "config", "prompt", "workspace", "status_code")


def ask(gateway, path, **query):
    """The answer, and milliseconds."""
    url = f"{gateway.base}/v1{path}?{urllib.parse.urlencode(query)}"
    request = urllib.request.Request(url, headers={"x-gateway-api-key": ADMIN_KEY})
    started = time.monotonic()
    with urllib.request.urlopen(request, timeout=60) as answer:
        body = answer.read()
    return json.loads(body), (time.monotonic() - started) * 1000


def come_to_rest(gateway):
    """Seconds until it took no processor time to speak of."""
    started, before = time.monotonic(), gateway.cpu()
    while time.monotonic() - started < MOST_AWAITED:
        time.sleep(2)
        before, last = gateway.cpu(), before
        if before - last < 0.1:
            break
    return time.monotonic() - started


def fill(options, folder):
    """Records stored in a second."""
    Gateway(options.gateway, folder).stop()
    database = sqlite3.connect(f"{folder}/data/config.db")
    (org,) = database.execute("SELECT id FROM resource WHERE kind = 'organisation'").fetchone()
    (workspace,) = database.execute("SELECT id FROM resource WHERE kind = 'workspace'").fetchone()
    database.close()
    command = [options.filler, "--log-store-url", options.log_store_url or f"sqlite:{folder}/data/logs", "--org", org]
    command += ["--workspace", workspace, "--records", str(options.records), "--days", str(options.days)]
    started = time.monotonic()
    subprocess.run(command, check=True)
    return options.records / (time.monotonic() - started)


def questions(gateway, days):
    """(what is asked, path, query, most milliseconds)"""
    stamp = lambda age: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - age * 86_400))
    whole = {"time_of_generation_min": stamp(days + 1), "time_of_generation_max": stamp(0)}
    middle = {"time_of_generation_min": stamp(days / 2 + 1), "time_of_generation_max": stamp(days / 2)}
    one, _ = ask(gateway, "/logs", page_size=1, cursor="start", **middle)
    record = one["data"][0]
    yield "newest page", "/logs", {"page_size": 50}, MOST_INDEXED_MS
    yield "newest page, by cursor", "/logs", {"page_size": 50, "cursor": "start"}, MOST_INDEXED_MS
    yield "a page of the middle, by cursor", "/logs", {"page_size": 50, "cursor": "start", **middle}, MOST_INDEXED_MS
    yield "a page of failures", "/logs", {"page_size": 50, "cursor": "start", "status_code": "500"}, MOST_INDEXED_MS
    yield "a trace", "/logs", {"trace_id": record["trace_id"]}, MOST_INDEXED_MS
    yield "a trace, by cursor", "/logs", {"trace_id": record["trace_id"], "cursor": "start"}, MOST_INDEXED_MS
    yield "a record", f"/logs/{record['id']}", {}, MOST_INDEXED_MS
    for graph in GRAPHS:
        yield f"graph {graph}", f"/analytics/graphs/{graph}", whole, MOST_INDEXED_MS
        by_model = whole | {"ai_model": MODEL}
        yield f"graph {graph}, of a model", f"/analytics/graphs/{graph}", by_model, MOST_INDEXED_MS
    yield "summary of the cache", "/analytics/summary/cache", whole, MOST_INDEXED_MS
    for group in GROUPS:
        yield f"groups {group}", f"/analytics/groups/{group}", whole, MOST_INDEXED_MS
    dear = {"cost_min": "0.1", **whole}
    yield "a page by cost", "/logs", {"page_size": 50, "cursor": "start", **dear}, MOST_SEARCHED_MS
    yield "a counted page by cost", "/logs", {"page_size": 50, **dear}, MOST_SEARCHED_MS
    absent = {"page_size": 50, "cursor": "start", "cost_min": "99999"}
    yield "a page that nothing is on", "/logs", absent, MOST_SEARCHED_MS
    yield "graph requests by cost", "/analytics/graphs/requests", dear, MOST_SEARCHED_MS


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gateway", type=os.path.abspath)
    parser.add_argument("filler", type=os.path.abspath)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--log-store-url")
    parser.add_argument("--folder")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    kept = options.folder or tempfile.mkdtemp(prefix="gateway-records-")
    os.makedirs(kept, exist_ok=True)
    failed = False
    if not os.path.exists(f"{kept}/filled"):
        rate = fill(options, kept)
        print(f"{options.records} records over {options.days} days: {rate:.0f} stored a second")
        failed |= rate < LEAST_STORED
        open(f"{kept}/filled", "w").close()
    url = ["--log-store-url", options.log_store_url] if options.log_store_url else []
    gateway = Gateway(options.gateway, kept, url)
    try:
        print(f"at rest {come_to_rest(gateway):.0f} s after the start")
        for what, path, query, most in questions(gateway, options.days):
            answers = [ask(gateway, path, **query) for _ in range(ASKED)]
            times = [took for _, took in answers]
            is_late = max(times) >= most
            failed |= is_late
            partial = "  (partial)" if answers[0][0].get("partial") else ""
            late = f"  LATE, {most} ms" if is_late else ""
            print(f"{what:40} first {times[0]:7.0f} ms, then {min(times[1:]):6.0f} to {max(times[1:]):6.0f} ms{partial}{late}")
        print(f"resident {gateway.resident() / 1e6:.0f} MB")
    finally:
        gateway.stop()
    if not options.folder:
        subprocess.run(["rm", "-rf", kept], check=True)
    if options.check and failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
