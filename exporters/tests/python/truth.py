"""What an export must hold: the records that the test wrote to a file, one JSON object a line.

The first line is about the file: `unix_offset` and `boot_offset` (added to vendor ns), `pid`.
"""

import json
import sys

SKIP = 77


def skip(reason):
    """Ends the script: the reader is not installed."""
    print(f"skipped: {reason}")
    sys.exit(SKIP)


def load(path):
    with open(path, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return rows[0], rows[1:]


def of(rows, kind):
    return [row for row in rows if row["kind"] == kind]


def union(intervals):
    """Length of the union of intervals."""
    total, end = 0, None
    for start, stop in sorted(intervals):
        if end is None or start > end:
            total += stop - start
            end = stop
        elif stop > end:
            total += stop - end
            end = stop
    return total


def equal(what, found, expected):
    """Compares two lists as multisets and says what differs."""
    found, expected = sorted(found, key=repr), sorted(expected, key=repr)
    if found != expected:
        for one, other in zip(found, expected):
            if one != other:
                sys.exit(f"{what}: found {one}, expected {other}")
        sys.exit(f"{what}: found {len(found)}, expected {len(expected)}")
    print(f"{what}: {len(found)} equal")
