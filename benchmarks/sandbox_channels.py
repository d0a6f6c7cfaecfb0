"""Send bits from a sandbox to the next one through what both share, which outlasts the first.

Looking up a name that does not exist is faster the second time, and so is reading a part of a file. Sealed sandboxes,
which run hidden tests, should receive no more right bits than guessing does, which is one half. The control sends the
same bits between two ordinary processes, which should receive nearly all of them through each channel.

    python -m benchmarks.sandbox_channels [--runs 20]
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
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


def run_in_sandbox(code: str, *, sealed: bool) -> str:
    """Run code in a new sandbox, and return what it prints."""
    spec = replace(spec_with_pytest(SandboxLimits(wall_s=60.0, cpu_s=60.0)), sealed=sealed)
    with open_sandbox(spec) as sandbox:
        result = sandbox.exec(code=code)
    assert result.ok, result.err
    return result.out


def run_as_process(code: str) -> str:
    """Run code in an ordinary process, and return what it prints."""
    return subprocess.run([sys.executable, "-I", "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout


PLACES: Mapping[str, Callable[[str], str]] = {
    "processes": run_as_process,
    "sandboxes": partial(run_in_sandbox, sealed=False),
    "sealed sandboxes": partial(run_in_sandbox, sealed=True),
}


def right_bits(channel: str, run: Callable[[str], str], rng: Random) -> float:
    """Return the share of bits that one run receives from the one before."""
    bits = [rng.randrange(2) for _ in range(BITS)]
    mark = secrets.token_hex(8)  # names that an earlier measurement looked up are still known
    run(f"{CHANNELS}\nsend_{channel}({mark!r}, {bits})")
    received = json.loads(run(f"{CHANNELS}\nprint(receive_{channel}({mark!r}, {BITS}))"))
    return sum(map(int.__eq__, bits, received)) / len(received)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--runs", type=int, default=20, help="pairs of sandboxes for each channel")
    options = parser.parse_args()
    rng = Random(0)
    rows = []
    for channel in ("names", "pages"):
        for place, run in PLACES.items():
            shares = [right_bits(channel, run, rng) for _ in range(options.runs)]
            rows.append({"channel": channel, "between": place, "bits": BITS * options.runs, "right": fmean(shares)})
            print(rows[-1], file=sys.stderr)
    right = {place: [row["right"] for row in rows if row["between"] == place] for place in PLACES}
    write(
        "sandbox_channels",
        rows,
        [
            Claim("right_bits_between_sealed_sandboxes", round(max(right["sealed sandboxes"]), 3), "<=", 0.55),
            Claim("right_bits_between_other_sandboxes", round(max(right["sandboxes"]), 3), ">=", 0.9),
            Claim("right_bits_between_processes_by_each_channel", round(min(right["processes"]), 3), ">=", 0.9),
        ],
    )


if __name__ == "__main__":
    main()
