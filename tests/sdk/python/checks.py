"""Runs every function of a script whose name begins with `check_`, and says which failed.

The scripts use the official SDKs as their users do: only base URL, key and headers differ.
"""

import asyncio
import inspect
import os
import sys
import traceback

URL = os.environ["TEST_URL"]
KEY = os.environ["TEST_KEY"]


def mine_of(runs):
    """The one of these runs that this process is for. Several get a process each, made here, where the script has imported its
    SDK already: that takes longer than most checks. The process that made them ends with the worst of their ends.
    """
    if len(runs) == 1:
        return runs[0]
    worst = 0
    for run in runs:
        sys.stdout.flush()
        child = os.fork()
        if not child:
            print("with", run)
            return run
        worst = max(worst, abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    os._exit(worst)


# What `x-gateway-provider` shall say, and the dialect that this provider speaks.
PROVIDER, FAMILY = mine_of(os.environ["TEST_RUNS"].split()).split("=")

HELLO = [{"role": "user", "content": "hello there"}]
ECHO = "You said: hello there"


def headers(**mock):
    """Headers of a client; keyword `fail_first=1` becomes `x-mock-fail-first: 1`, forwarded upstream."""
    told = {"x-mock-" + name.replace("_", "-"): str(value) for name, value in mock.items()}
    out = {"x-gateway-provider": PROVIDER, **told}
    if told:
        out["x-gateway-forward-headers"] = ",".join(told)
    return out


def raises(error, call):
    try:
        call()
    except error as caught:
        return caught
    raise AssertionError(f"{error.__name__} was not raised")


def equal(got, wanted):
    if got != wanted:
        raise AssertionError(f"got {got!r}, wanted {wanted!r}")


def over(*slugs):
    """Runs a check once for each of these providers, and tells it which."""

    def marked(check):
        check.slugs = slugs
        return check

    return marked


def run(module):
    failed = 0
    # One for all checks: some clients keep connections for as long as the process lives.
    loop = asyncio.new_event_loop()
    for name, check in list(vars(module).items()):
        if not name.startswith("check_"):
            continue
        for told in [(slug,) for slug in getattr(check, "slugs", ())] or [()]:
            try:
                result = check(*told)
                if inspect.isawaitable(result):
                    loop.run_until_complete(result)
                print("ok", name, *told)
            except Exception:
                failed += 1
                print("FAILED", name, *told)
                # Beside what was printed, not behind it.
                print(traceback.format_exc())
    sys.exit(1 if failed else 0)
