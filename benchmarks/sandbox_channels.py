"""Send bits from a sandbox to the next one through what both share, which outlasts the first.

Looking up a name that does not exist is faster the second time, and so is reading a part of a file. Sealed sandboxes,
which run hidden tests, should receive no more right bits than guessing does, which is one half.

    python -m benchmarks.sandbox_channels [--runs 20]
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from random import Random
from statistics import fmean

from agentgym.envs.swe.sandboxes import spec_with_pytest
from agentgym.tools.sandbox import SandboxLimits, open_sandbox
from benchmarks._report import Claim, argument_parser, write

BITS = 64
CHANNELS = """
import ctypes, os, sys, time
_PLACE, _REPEATS = os.path.dirname(os.__file__), 20

def _look_up(name):
    began = time.perf_counter_ns()
    try:
        os.stat(_PLACE + "/" + name)
    except OSError:
        pass
    return time.perf_counter_ns() - began

def _middle(values):
    return sorted(values)[len(values) // 2]

def send_names(mark, bits):
    for number, bit in enumerate(bits):
        if bit:
            for repeat in range(_REPEATS):
                _look_up("%s-%d-%d" % (mark, number, repeat))

def receive_names(mark, count):
    times = [_middle([_look_up("%s-%d-%d" % (mark, n, r)) for r in range(_REPEATS)]) for n in range(count)]
    fast, slow = sorted(times)[count // 10], sorted(times)[-count // 10]
    return [int(took < (fast + slow) / 2) for took in times]

def _files():
    sizes = {entry.path: entry.stat().st_size for entry in os.scandir(_PLACE) if entry.is_file()}
    return sorted(path for path, size in sizes.items() if size > 20000)

def send_pages(mark, bits):
    advise = ctypes.CDLL(None).posix_fadvise
    for path, bit in zip(_files(), bits):
        file = os.open(path, os.O_RDONLY)
        advise(file, ctypes.c_long(0), ctypes.c_long(0), 4)
        if bit:
            os.pread(file, 1, 12288)

def receive_pages(mark, count):
    times = []
    for path in _files()[:count]:
        file, began = os.open(path, os.O_RDONLY), time.perf_counter_ns()
        os.pread(file, 1, 12288)
        times.append(time.perf_counter_ns() - began)
    return [int(took < 4 * min(times)) for took in times]
"""


def right_bits(channel: str, *, sealed: bool, rng: Random) -> float:
    """Return the share of bits that a sandbox receives from the one before."""
    spec = replace(spec_with_pytest(SandboxLimits(wall_s=60.0, cpu_s=60.0)), sealed=sealed)
    bits, mark = [rng.randrange(2) for _ in range(BITS)], f"{rng.getrandbits(64):x}"
    with open_sandbox(spec) as sandbox:
        assert sandbox.exec(code=f"{CHANNELS}\nsend_{channel}({mark!r}, {bits})").ok
    with open_sandbox(spec) as sandbox:
        result = sandbox.exec(code=f"{CHANNELS}\nprint(receive_{channel}({mark!r}, {BITS}))")
    received = json.loads(result.out)
    return sum(map(int.__eq__, bits, received)) / len(received)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--runs", type=int, default=20, help="pairs of sandboxes for each channel")
    options = parser.parse_args()
    rng = Random(0)
    rows = []
    for channel in ("names", "pages"):
        for sealed in (False, True):
            shares = [right_bits(channel, sealed=sealed, rng=rng) for _ in range(options.runs)]
            rows.append({"channel": channel, "sealed": sealed, "bits": BITS * options.runs, "right": fmean(shares)})
            print(rows[-1], file=sys.stderr)
    best = {sealed: max(row["right"] for row in rows if row["sealed"] is sealed) for sealed in (False, True)}
    write(
        "sandbox_channels",
        rows,
        [
            Claim("right_bits_between_sealed_sandboxes", round(best[True], 3), "<=", 0.55),
            Claim("right_bits_between_other_sandboxes", round(best[False], 3), ">=", 0.9),
        ],
    )


if __name__ == "__main__":
    main()
