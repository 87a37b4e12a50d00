"""The gate by instructions: what may grow by how much, and what is kept of a measurement.

Pure but for reading and writing the kept file. Knows nothing of how instructions are counted.
"""
import dataclasses
import json
import math
import tomllib

GROWTH = 0.015   # of a case's instructions
GOAL = 1.25      # times the bare proxy's
LEEWAY = 0.02    # of a ratio, between what was measured and its bound
FUNCTIONS = 80   # that are kept of each case, heaviest first
SHOWN = 25       # that are printed when a case grew

HEAD = """# User instructions of the worker per request, and of its heaviest functions by themselves.
# Written by `make instructions ARGS=--rebase`; what needs more re-writes it in its own commit and says why.
# A bound is of the ratio to the bare proxy. Re-writing lowers it and never raises it.
"""


@dataclasses.dataclass(frozen=True)
class Measured:
    instructions: float
    functions: dict  # name: instructions, callees left out

    @staticmethod
    def of(profile, requests):
        functions = {name: count / requests for name, count in profile.own.most_common()}
        return Measured(profile.total / requests, functions)


def read(path):
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        return {"rustc": None, "bounds": {}, "cases": {}}


def write(path, kept, rustc, cases, bare):
    """`cases` and `bare` are {name: Measured}."""
    bounds = dict(kept["bounds"])
    for name, ratio in ratios(cases, bare).items():
        bounds[name] = min(bounds.get(name, math.inf), math.ceil((ratio + LEEWAY) * 100) / 100)
    lines = [HEAD, f"rustc = {quote(rustc)}", "", "[bounds]"]
    lines += [f"{quote(name)} = {bound:.2f}" for name, bound in bounds.items()]
    for name, case in cases.items():
        lines += ["", f"[cases.{quote(name)}]", f"instructions = {case.instructions:.0f}",
                  "", f"[cases.{quote(name)}.functions]"]
        lines += [f"{quote(function)} = {count:.0f}" for function, count in list(case.functions.items())[:FUNCTIONS]]
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


def quote(text):
    return json.dumps(text, ensure_ascii=False)


def ratios(cases, bare):
    return {name: cases[name].instructions / bare[name].instructions for name in bare}


def growth(kept, rustc, cases):
    """(lines to print, names of the cases that grew too much)."""
    if kept["rustc"] != rustc:
        return [f"The baseline was made by {kept['rustc']} and this is {rustc}: growth is not judged, "
                "the ratio to the bare proxy is."], []
    lines, grown = [], []
    for name, case in cases.items():
        if name not in kept["cases"]:
            lines.append(f"{name}: not in the baseline")
            grown.append(name)
            continue
        before = kept["cases"][name]
        change = case.instructions / before["instructions"] - 1
        line = f"{name}: {case.instructions:,.0f} instructions per request, baseline {before['instructions']:,}, {change:+.1%}"
        lines.append(line)
        if change > GROWTH:
            grown.append(name)
            lines += culprits(case.functions, before["functions"])
        elif change < -GROWTH:
            lines.append("  fewer than in the baseline: re-write it, so that they stay away")
    return lines, grown


def culprits(functions, before):
    """The functions that grew, most first. One that was not kept had at most what the last that was kept had."""
    unknown = min(before.values(), default=0)
    more = {name: (count - before.get(name, 0 if count > unknown else count), name in before)
            for name, count in functions.items()}
    worst = sorted(more.items(), key=lambda item: -item[1][0])[:SHOWN]
    return [f"  {extra:+8,.0f}  {name}{'' if known else ' (new among the heaviest)'}"
            for name, (extra, known) in worst if extra >= 1]


def bounded(kept, cases, bare):
    """(lines to print, names of the cases over their bound)."""
    lines, over = [], []
    for name, ratio in ratios(cases, bare).items():
        bound = kept["bounds"].get(name, 0.0)
        lines.append(f"{name}: {ratio:.3f} times the bare proxy's {bare[name].instructions:,.0f}, "
                     f"bound {bound:.2f}, goal {GOAL}")
        if ratio > bound:
            over.append(name)
    return lines, over
