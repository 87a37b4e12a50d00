#!/usr/bin/env python3
"""Asks Node what ECMAScript's regular expressions find, and writes ecmascript.json, which src/pattern/tests.rs reads.

The corpus is that of the crate `regex` (testdata/*.toml, MIT or Apache-2.0, taken from cargo's registry) and the edge
cases of the language below. Run it again when Node or the corpus is newer: guardrails/tests/ecmascript.py
"""
import json, pathlib, re, subprocess, tomllib

HERE = pathlib.Path(__file__).parent

# Pattern, flags, text: what the annex on web compatibility allows, what other engines read otherwise, and look-around.
EDGES = [
    (r"a{", "", "xa{"), (r"a{1", "", "a{1"), (r"a{,5}", "", "a{,5}"), (r"{a}", "", "{a}"), (r"x{2}{3}", "", "x"),
    (r"a**", "", "a"), (r"^*", "", "a"), (r"(?=a)*b", "", "b"), (r"(?=a)*b", "u", "b"), (r"(?<=a)*b", "", "b"),
    (r"]", "", "]"), (r"}", "", "}"), (r"]", "u", "]"), (r"}", "u", "}"), (r"[^]", "", "\n"), (r"[]", "", "a"),
    (r"[&&]", "", "&"), (r"[a&&b]", "", "&"), (r"[[a]]", "", "[]"), (r"[a--b]", "", "a"), (r"[~~]", "", "~"),
    (r"[\w-a]", "", "-"), (r"[a-\d]", "", "-"), (r"[z-a]", "", "a"), (r"[\b]", "", "\b"), (r"[\d-x]", "u", "-"),
    (r"\d", "", "٣"), (r"\w", "", "é"), (r"\w", "i", "ſ"), (r"\w", "iu", "ſ"), (r"\s", "", "\ufeff"),
    (r"\s", "", "\u0085"), (r"\s", "", "\u00a0"), (r"\bfoo\b", "", "éfoo"), (r"\bfoo\b", "", "xfoo"),
    (r"\Bfoo", "", "xfoo"), (r"\Bfoo", "", "foo"), (r".", "", "\u2028"), (r".", "", "\r"), (r".", "s", "\r"),
    (r"a$", "", "a\n"), (r"a$", "m", "a\nb"), (r"^b", "m", "a\rb"), (r"^b", "m", "a\u2028b"), (r"^", "m", ""),
    (r"\cA", "", "\x01"), (r"\c", "", "\\c"), (r"\c1", "", "\\c1"), (r"[\c1]", "", "\x11"), (r"\c", "u", "c"),
    (r"\0", "", "\0"), (r"\07", "", "\x07"), (r"\1", "", "\x01"), (r"\8", "", "8"), (r"\x4", "", "x4"),
    (r"\x41", "", "A"), (r"\u004", "", "u004"), (r"\u0041", "", "A"), (r"\u{41}", "u", "A"), (r"\u{41}", "", "u" * 41),
    (r"\ud83d\ude00", "", "😀"), (r"^.$", "u", "😀"), (r"[😀]", "u", "😀"), (r"\p{L}", "u", "é"), (r"\p{L}", "", "p{L}"),
    (r"\P{L}", "u", "1"), (r"\p{Script=Greek}", "u", "α"), (r"\p{Foo}", "u", "a"), (r"\p{Lu}", "u", "É"),
    (r"(a)\1", "", "aa"), (r"\1(a)", "", "a"), (r"(a)|b\1", "", "b"), (r"(?<x>a)\k<x>", "", "aa"), (r"\k<x>", "", "k<x>"),
    (r"(?<x>a)\k<y>", "", "a"), (r"(?<x>a)(?<x>b)", "", "ab"), (r"(a)\2", "", "a\x02"), (r"(a)\2", "u", "a"),
    (r"(?<!a)b", "", "ab b"), (r"(?<=\d{3})x", "", "123x"), (r"foo(?=bar)", "", "foobar"), (r"foo(?!bar)", "", "foobaz"),
    (r"(?<=a+)b", "", "aaab"), (r"(a+)+$", "", "a" * 30), (r"(?=(a+))\1b", "", "aab"), (r"(?:a|ab)(?:c|bcd)(d*)", "", "abcd"),
    (r"k", "i", "\u212a"), (r"k", "iu", "\u212a"), (r"s", "i", "ſ"), (r"s", "iu", "ſ"), (r"[a-z]", "i", "\u212a"),
    (r"É", "i", "é"), (r"[^x]", "i", "X"), (r"ß", "i", "ẞ"), (r"ß", "iu", "ẞ"), (r"σ", "i", "ς"), (r"\u0130", "i", "i"),
    (r"(", "", "a"), (r")", "", "a"), (r"[", "", "a"), ("\\", "", "a"), (r"(?a)", "", "a"), (r"(?<1>a)", "", "a"),
    (r"a{2,1}", "", "a"), (r"\-", "", "-"), (r"\-", "u", "-"), (r"[\-]", "u", "-"), (r"\a", "", "a"), (r"\a", "u", "a"),
    (r"\/", "", "/"), (r"\_", "", "_"), (r"\<", "", "<"), (r"\z", "", "z"), (r"\A", "", "A"), (r"\Z", "", "Z"),
    (r"a b", "", "a b"), (r"a#b", "", "a#b"), (r"(?i)a", "", "A"), (r"x*", "", "aaa"), (r"a??", "", "a"), (r"a{0}", "", "a"),
    (r"a|", "", "b"), (r"|a", "", "a"), (r"", "", "a"), (r"()", "", ""), (r"(a)|(b)", "", "b"), (r"(z)((a+)?(b+)?(c))*", "", "zaacbbbcac"),
    (r"[\s\S]", "", "\n"), (r"[^\s\S]", "", "a"), (r"[\W]", "i", "ſ"), (r"\d{3}-\d{2}-\d{4}", "", "a 123-45-6789"),
    (r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}", "", "mail a.b@c.example now"), (r"(?:\+?\d[ -]?){7,}", "", "+1 234-567 8901"),
]

NODE = """
const cases = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const out = [];
for (const [pattern, flags, text] of cases) {
  let re;
  try { re = new RegExp(pattern, flags); } catch { out.push({ pattern, flags, text, error: true }); continue; }
  const m = re.exec(text);
  if (!m) { out.push({ pattern, flags, text, match: null }); continue; }
  out.push({ pattern, flags, text, match: { index: m.index, groups: [...m].map(g => g === undefined ? null : g) } });
}
console.log(JSON.stringify({ node: process.version, cases: out }));
"""


def corpus():
    home = pathlib.Path.home() / ".cargo/registry/src"
    folders = sorted(home.glob("*/regex-1.*/testdata"))
    if not folders:
        raise SystemExit("the crate `regex` is not in cargo's registry: run `cargo fetch`")
    for path in sorted(folders[-1].glob("*.toml")):
        if path.stem in ("expensive", "set", "overlapping", "earliest", "leftmost-all", "regex-lite", "utf8", "bytes"):
            continue
        for test in tomllib.loads(path.read_text())["test"]:
            pattern, text = test["regex"], test.get("haystack", "")
            if not isinstance(pattern, str) or test.get("unescape") or len(pattern) > 300 or len(text) > 2000:
                continue
            # What follows means something else in ECMAScript, or asks for other modes of that crate.
            if test.get("anchored") or test.get("bounds") or test.get("match-kind", "leftmost-first") != "leftmost-first":
                continue
            flags = "i" if test.get("case-insensitive") else ""
            # Without `u` Node counts halves of surrogate pairs as characters, which we do not.
            if re.search("[\U00010000-\U0010ffff]", pattern + text):
                flags += "u"
            yield (pattern, flags, text)


def main():
    cases = list(dict.fromkeys([*corpus(), *EDGES]))
    done = subprocess.run(["node", "-e", NODE], input=json.dumps(cases), capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    lines = ",\n".join(json.dumps(case, ensure_ascii=True) for case in answer["cases"])
    text = f'{{"node": "{answer["node"]}", "cases": [\n{lines}\n]}}\n'
    (HERE / "ecmascript.json").write_text(text)
    print(f'{len(answer["cases"])} cases by Node {answer["node"]}')


if __name__ == "__main__":
    main()
