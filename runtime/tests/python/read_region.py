#!/usr/bin/env python3
"""Reads a Strandline region by docs/format.md alone and prints a JSON summary. Standard library only.

usage: read_region.py FILE
"""
import json
import struct
import sys
from collections import Counter

K, MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1
KINDS = {
    1: "Api", 2: "Enqueue", 3: "Dispatch", 4: "CopyIssue", 5: "Copy", 6: "Alloc", 7: "Scratch", 8: "Range", 9: "Mark",
    10: "RangeStart", 11: "RangeStop", 12: "Thread", 13: "External", 64: "String", 65: "Agent", 66: "Queue", 67: "Stream",
    68: "StreamEnd", 69: "CodeObject", 70: "CodeObjectUnload", 71: "KernelSymbol", 72: "Operation", 73: "Metadata",
    74: "Anchor", 75: "SessionBegin", 76: "SessionEnd", 77: "Retired", 78: "OpenCall", 79: "OpenRange",
    80: "ThreadName", 81: "Label", 83: "SessionReleased",
}
VERDICTS = ["complete", "incomplete", "heuristic", "empty"]


def rotl(value, by):
    return (value << by | value >> (64 - by)) & MASK


def fold(state, word):
    product = (state ^ word) * K
    return (product & MASK) ^ (product >> 64) ^ rotl(state, 23)


def hash_bytes(data):
    state = K ^ len(data)
    padded = data + bytes(-len(data) % 8)
    for (word,) in struct.iter_unpack("<Q", padded):
        state = fold(state, word)
    return max(1, fold(state, rotl(K, 32)))


def halves(word):
    return word & 0xFFFFFFFF, word >> 32


def header(data):
    if data[:8] != b"STRNDLN1":
        sys.exit("offset 0: not a Strandline region")
    u32 = lambda at: struct.unpack_from("<I", data, at)[0]
    u64 = lambda at: struct.unpack_from("<Q", data, at)[0]
    if u32(8) > 1 or u64(24):
        sys.exit("offset 8: written by a newer version")
    if u64(248) != hash_bytes(data[:248]) ^ rotl(hash_bytes(data[1024:4096]), 1):
        sys.exit("offset 248: the header's checksum does not match")
    text = lambda at, end: data[at:end].split(b"\0")[0].decode("utf-8", "replace")
    return {
        "version": u32(8), "mode": u32(88), "pid": u32(96), "program": text(1024, 2048), "phase": u64(256),
        "newest_session": u64(280), "lanes": (u64(40), u32(48), u32(52)), "table": (u64(56), u32(64), u32(68)),
        "segments": (u64(72), u32(80)),
    }


def segments(data, head):
    """Yields (lane, sequence, words) of each segment in use; appends what is not sound to damage."""
    offset, count, entry_bytes = head["table"]
    start, segment_bytes = head["segments"]
    found, damage = [], 0
    for number in range(count):
        state, committed, origin, _, _, _, checksum, covered = struct.unpack_from("<8Q", data, offset + number * entry_bytes)
        if state & 0xFF == 0:
            continue
        cells = data[start + number * segment_bytes :][: min(committed * 64, segment_bytes)]
        cells = cells[: len(cells) // 64 * 64]
        if checksum and covered <= committed and hash_bytes(cells[: covered * 64]) != checksum:
            damage += 1
            continue
        found.append((state >> 16 & 0xFFFF, origin >> 32, struct.unpack(f"<{len(cells) // 8}Q", cells)))
    return sorted(found), damage


def records(words):
    at = 0
    while at < len(words):
        size = (words[at] >> 8 & 0xFF) * 8
        if not 8 <= size <= 128 or at + size > len(words):
            return
        yield words[at : at + size]
        at += size


def counters(data, head, session):
    """Issued, recorded and lost of a session, summed over the lanes' blocks."""
    offset, count, lane_bytes = head["lanes"]
    total = [0] * 32
    for lane in range(count):
        block = struct.unpack_from("<32Q", data, offset + lane * lane_bytes + 128 + session % 8 * 256)
        if block[0] == session:
            total = [a + b for a, b in zip(total, block)]
    return {"issued": total[1] + total[2], "recorded": total[5] + total[6], "late": total[8], "lost": sum(total[16:22])}


def main(path):
    with open(path, "rb") as file:
        data = file.read()
    head = header(data)
    runs, damage = segments(data, head)
    kinds, by_session, strings, kernels, ends, begins = Counter(), Counter(), {}, {}, {}, []
    for _, _, words in runs:
        for record in records(words):
            kind = record[0] & 0xFF
            kinds[KINDS.get(kind, f"kind {kind}")] += 1
            if kind < 64 and kind != 12:
                by_session[record[0] >> 32] += 1
            if kind == 64:
                total, at = halves(record[2])
                have = strings.setdefault(record[1], b"")
                if at == len(have):
                    strings[record[1]] = have + struct.pack(f"<{len(record) - 3}Q", *record[3:])[: total - at]
            elif kind == 71:
                kernels.setdefault(record[1], record[3])
            elif kind == 75:
                begins.append(record[1])
            elif kind == 76:
                ends[record[1]] = record
    sessions = []
    for number in sorted(set(begins)):
        one = {"session": number, "records": by_session[number], **counters(data, head, number)}
        end = ends.get(number)
        if end:
            one.update(verdict=VERDICTS[end[2]], issued=end[4] + end[7], recorded=end[5] + end[8])
        sessions.append(one)
    name = lambda text: strings.get(text, b"").decode("utf-8", "replace")
    sys.stdout.reconfigure(encoding="utf-8")
    json.dump({
        "version": head["version"], "pid": head["pid"], "program": head["program"], "damage": damage,
        "cells": sum(len(words) // 8 for _, _, words in runs), "records": dict(sorted(kinds.items())),
        "sessions": sessions, "kernels": {str(id): name(text) for id, text in sorted(kernels.items())},
    }, sys.stdout, indent=1, ensure_ascii=False)
    print()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
