"""The commands and their options."""

import argparse
import re
from pathlib import Path

from helpers.backends import SCHEDULES
from helpers.cli import commands
from helpers.cli.doctor import doctor
from helpers.defines import MOST_LETTERS
from helpers.entry import Parser, folder
from helpers.rungs import ROOT

BUILD = ROOT / "build"


def build_parser() -> argparse.ArgumentParser:
    """The parser of `python -m helpers`. Its result has `function`, `json` and `in_thread`."""
    parser = Parser(prog="python -m helpers", description="Hopper matmul, step by step: the ladder's command line.")
    parser.set_defaults(in_thread=False)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)

    def command(name: str, function: object, help: str) -> argparse.ArgumentParser:
        added = subparsers.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
        added.add_argument("--json", action="store_true", help="print one JSON list of objects")
        added.set_defaults(function=function)
        return added

    command("list", commands.list_rungs, "the rungs of the ladder")

    verify = command("verify", commands.verify, "whether the kernels are right; exit 1 if one is not")
    add_rungs(verify)
    verify.add_argument("--backend", choices=("auto", "cuda", "emulator"), default="auto", help="default: auto")
    verify.add_argument("--size", type=size, metavar="MxNxK", help="or one number; default: the rung's own sizes")
    verify.set_defaults(in_thread=True)

    emulate = command("emulate", commands.emulate, "run a kernel on the CPU: is it right, what does it ask of memory")
    add_rung(emulate)
    emulate.add_argument("--size", type=size, metavar="MxNxK", help="or one number; default: a small one")
    emulate.add_argument("--schedule", choices=SCHEDULES, default="lazy", help="order of asynchronous work")
    emulate.add_argument("--seed", type=natural, default=0, metavar="N", help="of the matrices and the random schedule")
    emulate.add_argument("--counters", action="store_true", help="count requests, sectors and wavefronts per line")
    emulate.add_argument("--define", type=define, action="append", default=[], metavar="NAME=VALUE")
    emulate.add_argument("--file", type=Path, metavar="OTHER.cu", help="another kernel file in the rung's place")
    add_entry(emulate)
    emulate.set_defaults(in_thread=True)

    bench = command("bench", commands.bench, "how fast the kernels are beside cuBLAS: measured here, or as recorded")
    add_rungs(bench)
    bench.add_argument("--size", type=size, default=(4096,) * 3, metavar="N", help="or MxNxK; default: 4096")
    bench.add_argument("--sustained", action="store_true", help="back to back for seconds instead of in bursts")
    bench.add_argument("--record", type=Path, metavar="FILE", help="write the live measurement of one rung to a file")
    add_entry(bench)

    inspect = command("inspect", commands.inspect, "registers, spills, shared memory and warnings; needs no GPU")
    add_rung(inspect)
    inspect.add_argument("--sass", action="store_true", help="print the machine instructions too")
    add_entry(inspect)

    add_rung(command("diff", commands.diff, "what changed since the rung before"))

    plot = command("plot", commands.plot, "draw the ladder")
    picture = BUILD / "ladder.png"
    plot.add_argument("--output", type=Path, default=picture, metavar="FILE", help="default: build/ladder.png")

    run = command("run", commands.run, "run notebooks in fresh kernels and keep the results")
    run.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help="a file, or a rung; default: all")
    results = BUILD / "notebooks"
    run.add_argument("--output-dir", type=folder, default=results, metavar="DIR", help="default: build/notebooks")

    slides = command("slides", commands.slides, "slides from notebooks, as HTML that needs no network")
    slides.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help="a file, or a rung; default: all")
    pages = BUILD / "slides"
    slides.add_argument("--output-dir", type=folder, default=pages, metavar="DIR", help="default: build/slides")

    check = command("doctor", doctor, "what is missing on this machine, and the line to type")
    check.add_argument("--performance", action="store_true", help="why is mine slower? measured beside the recording")
    check.add_argument("--rung", default="10", metavar="RUNG", help="of --performance; default: the last one")
    check.add_argument("--size", type=edge, default=4096, metavar="N", help="of --performance; default: 4096")
    check.add_argument("--sustained", action="store_true", help="of --performance: not in bursts")
    return parser


def add_rung(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rung", metavar="RUNG", help="a rung's name, number or prefix, such as 3")


def add_rungs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rungs", nargs="*", metavar="RUNG", help="names, numbers or prefixes; default: all")


def add_entry(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--entry", metavar="NAME", help="another function of the file, such as matmul_uncoalesced")


def size(text: str) -> tuple[int, int, int]:
    """(M, N, K) from `512x256x128`, or from one number for a cube."""
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*x[1-9]\d*)?", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is no size: give MxNxK such as 512x256x128, or one number")
    numbers = [int(part) for part in text.split("x")]
    if max(numbers) >= 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is too large: each number must be below 2^31")
    return tuple(numbers * 3 if len(numbers) == 1 else numbers)


def edge(text: str) -> int:
    """N from a number, for M = N = K."""
    m, n, k = size(text)
    if not m == n == k:
        raise argparse.ArgumentTypeError(f"{text!r} is no cube: give one number, for M = N = K")
    return n


def natural(text: str) -> int:
    """An integer of at least 0."""
    if not re.fullmatch(r"\d{1,18}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is no seed: give an integer of at least 0")
    return int(text)


def define(text: str) -> tuple[str, str | int]:
    """(NAME, VALUE) from `NAME=VALUE`; integers become int. `NAME` alone means 1, as for a compiler."""
    name, equals, value = text.partition("=")
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is no define: give NAME=VALUE such as BUFFERS=1")
    if not equals:
        return name, 1
    return name, int(value) if re.fullmatch(rf"-?\d{{1,{MOST_LETTERS}}}", value, re.ASCII) else value


