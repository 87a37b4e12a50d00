"""What callgrind wrote of one thread: instructions by function, callees left out and included.

Knows nothing of who was measured.
"""
import collections
import re

MARKS = re.compile(r"::h[0-9a-f]{16}$|'\d+$|\[[0-9a-f]{8,16}\]")  # of the build and of recursion
NAME = re.compile(r"c?fn=\((\d+)\)(?: (.*))?")
LONGEST = 160


class Profile:
    def __init__(self, path):
        self.own = collections.Counter()
        self.inclusive = collections.Counter()
        names, current, called = {}, None, False
        with open(path) as file:
            for line in file:
                if line[0] in "+-*0123456789":
                    words = line.split()
                    cost = int(words[1]) if len(words) > 1 else 0
                    self.inclusive[current] += cost
                    if not called:
                        self.own[current] += cost
                    called = False
                elif line.startswith("calls="):
                    called = True
                elif found := NAME.match(line):
                    number, name = found.groups()
                    if name:
                        names[number] = short(name)
                    if line.startswith("fn="):
                        current = names[number]

    @property
    def total(self):
        return self.own.total()


def short(name):
    """Without what differs between builds of the same source, and readable."""
    while (plain := MARKS.sub("", name)) != name:
        name = plain
    half = LONGEST // 2
    return name if len(name) <= LONGEST else f"{name[:half]}…{name[-half:]}"
