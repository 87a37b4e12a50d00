"""Rounds to markdown. A ratio is taken within a round, where both sides met the same machine, and
the median of the rounds' ratios is shown."""
from statistics import median

COMMON = [
    ("worker µs/req", "worker_us"), ("x nginx", ("worker_us", "nginx")), ("x bare", ("worker_us", "bare pingora")),
    ("x records off", ("worker_us", "records off")), ("sum x no policy", ("sum_us", "no policy")),
    ("writer µs/record", "writer_us"), ("rest µs/req", "rest_us"),
    ("sum µs/req", "sum_us"), ("sum x nginx", ("sum_us", "nginx")), ("sum x bare", ("sum_us", "bare pingora")),
    ("req/s", "rps"), ("p50 µs", "p50_us"), ("p99 µs", "p99_us"),
]
STREAM = [("TTFT p50 µs", "ttft_p50_us"), ("TTFT p99 µs", "ttft_p99_us"), ("added TTFT µs", "added_ttft_us")]
LAST = [("peak RSS MB", "rss_mb"), ("errors", "errors")]


def ratio(rounds, of, key, to):
    """The median over rounds of one contender's figure to another's; None without both."""
    pairs = [(r[of].get(key), r[to].get(key)) for r in rounds if of in r and to in r]
    values = [a / b for a, b in pairs if a is not None and b]
    return median(values) if values else None


def figure(rounds, name, key):
    if isinstance(key, tuple):
        return ratio(rounds, name, key[0], key[1])
    values = [r[name][key] for r in rounds if name in r and r[name].get(key) is not None]
    if key == "errors":
        return sum(values)
    return median(values) if values else None


def add_ttft(rounds):
    """The time to the first content byte above that of the upstream alone in the same round."""
    for one in rounds:
        alone = one.get("direct", {}).get("ttft_p50_us")
        for name, run in one.items():
            if alone is not None and name != "direct" and run.get("ttft_p50_us") is not None:
                run["added_ttft_us"] = run["ttft_p50_us"] - alone


def text(key, value):
    if value is None:
        return "–"
    if key == "errors":
        return str(value)
    if isinstance(key, tuple):
        return f"{value:.2f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def table(title, rounds, names, streaming):
    columns = COMMON + (STREAM if streaming else []) + LAST
    lines = [f"### {title}", "", "| | " + " | ".join(head for head, _ in columns) + " |",
             "|---|" + "---:|" * len(columns)]
    for name in names:
        cells = [text(key, figure(rounds, name, key)) for _, key in columns]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
