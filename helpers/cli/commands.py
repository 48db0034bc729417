"""One function per command: (options, output) -> exit code. They only ask other modules and print."""

import argparse
import difflib
import logging
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from helpers.cli.output import Column, Output, in_colour
from helpers.entry import once
from helpers.errors import ArgumentError, BackendError, CourseError, NoRecording
from helpers.files import require_file, write_whole
from helpers.jsonfile import display
from helpers.kernel import Kernel, load
from helpers.kernel import emulate as run_emulation
from helpers.rungs import APPENDIX, NOTEBOOK_DIR, RUNGS, Rung, base_of, find_rung

LIST = (
    Column("number", "#", -2),
    Column("name", "name", 20),
    Column("title", "title", 22),
    Column("compute_capability", "GPU", 6),
    Column("idea", "idea", 0),
)
VERIFY = (
    Column("rung", "rung", 20),
    Column("entry", "kernel", 18),
    Column("backend", "backend", 8),
    Column("m", "M", -5),
    Column("n", "N", -5),
    Column("k", "K", -5),
    Column("relative_error", "rel. error", -10, ".2e"),
    Column("passed", "right", 5),
    Column("reason", "", 0),
)
BENCH = (
    Column("rung", "rung", 20),
    Column("entry", "kernel", 18),
    Column("size", "MxNxK", 16),
    Column("regime", "regime", 9),
    Column("tflops", "TFLOP/s", -8, ".3f"),
    Column("cublas_tflops", "cuBLAS", -8, ".1f"),
    Column("ratio", "ratio", -7, ".2%"),
    Column("source", "source", 8),
    Column("device", "GPU", 12),
    Column("date", "date", 0),
)
FIGURES = (   # of a measurement; whatever else it says holds whether its code is still the kernel's or not
    "tflops", "cublas_tflops", "ratio", "ratio_low", "ratio_high", "sm_clock_mhz", "power_w", "throttle_reasons",
    "notes",
)
INSPECT = (
    Column("rung", "rung", 20),
    Column("entry", "kernel", 18),
    Column("architecture", "arch", 7),
    Column("registers", "registers", -9),
    Column("spill_bytes", "spill bytes", -11),
    Column("static_shared_bytes", "shared bytes", -12, ","),
    Column("code_hash", "code", 16),
)
RUN = (
    Column("notebook", "notebook", 30),
    Column("passed", "ran", 4),
    Column("seconds", "seconds", -8, ".1f"),
    Column("output", "result", 0),
)


def list_rungs(options: argparse.Namespace, output: Output) -> int:
    """The rungs of the ladder, and the kernels of the appendix, which have no number and no notebook."""
    for rung in (*RUNGS, *APPENDIX):
        is_rung = rung in RUNGS
        row = {
            "number": rung.number if is_rung else None,
            "name": rung.name,
            "title": rung.title,
            "idea": rung.idea,
            "notebook": display(rung.notebook) if is_rung else None,
            "kernel": display(rung.path),
            "compute_capability": rung.compute_capability,
        }
        output.row(row, LIST)
    return 0


def verify(options: argparse.Namespace, output: Output) -> int:
    """Verify rungs, with their twins, on their own sizes or on one. Exit 1 if one fails."""
    from helpers.verify import default_sizes
    from helpers.verify import verify as verify_kernel

    passed = True
    for rung in selected(options.rungs):
        sizes = [options.size] if options.size else default_sizes(rung)
        for entry in (rung.entry, *rung.twins):
            kernel = load(rung, options.backend, entry=entry)
            for size in sizes:
                result = verify_kernel(kernel, size)
                passed = passed and result.passed
                output.row(asdict(result), VERIFY)
        if kernel.why_emulated:
            output.text(kernel.why_emulated)
    return 0 if passed else 1


def emulate(options: argparse.Namespace, output: Output) -> int:
    """Run one kernel on the emulator. Exit 1 if its result is wrong or it broke a rule."""
    rung = find_rung(options.rung)
    emulation = run_emulation(
        rung,
        options.size or small_size(rung),
        schedule=options.schedule,
        seed=options.seed,
        entry=options.entry,
        defines=dict(options.define),
        file=options.file,
    )
    path = options.file or rung.path
    run, result = emulation.run, emulation.verification
    row = asdict(result) | {
        "schedule": options.schedule,
        "seed": options.seed,
        "reports": [{"kind": report.kind, "message": report.message, "line": report.line} for report in run.reports],
        "counters": [flat_counter(counter) for counter in run.counters] if options.counters else [],
        "totals": dict(run.totals),
    }
    # For people the reports follow the table, in full.
    output.row(row if output.as_json or not run.reports else row | {"reason": "it broke a rule, see below"}, VERIFY)
    if options.counters and not output.as_json:
        output.text(f"\n{emulation.table(width=None)}\n")
        print_totals(row["totals"], output)
    for report in run.reports:
        place = f"{path.name}:{report.line}" if report.line else path.name
        output.text(f"\n{place}: {report.kind.replace('_', ' ')}: {report.message}")
        for detail in getattr(report, "details", ()):
            output.text(f"    {detail}")
    return 0 if result.passed and not row["reports"] else 1


def print_totals(totals: dict[str, int], output: Output) -> None:
    """The totals of a run, one a line."""
    width = max((len(name) for name in totals), default=0)
    for name, value in totals.items():
        output.text(f"{name.replace('_', ' '):{width}}  {value:>15,}")


def flat_counter(counter: Any) -> dict[str, Any]:
    """A counter of one source line, as JSON has it."""
    unit = "sectors" if counter.space == "global" else "wavefronts"
    return {
        "line": counter.line,
        "space": counter.space,
        "op": counter.op,
        "bytes": counter.bytes,
        "requests": counter.requests,
        "lanes": counter.lanes,
        unit: counter.transactions,
        "ideal": counter.ideal,
        f"{unit}_per_request": counter.transactions / counter.requests if counter.requests else 0.0,
        "ideal_per_request": counter.ideal / counter.requests if counter.requests else 0.0,
    }


def bench(options: argparse.Namespace, output: Output) -> int:
    """Measure rungs, or show their recordings. Exit 1 if one has neither, or fails verification.

    For programs, a recording of other code than the kernel has a row too: `stale`, and without its figures.
    """
    from helpers.benchmark import benchmark
    from helpers.records import write_record

    rungs = selected(options.rungs)
    if options.record and len(rungs) != 1:
        raise ArgumentError(f"--record takes the measurement of one rung, not of {len(rungs)}: name one, such as 3.")
    if options.record:
        require_writable(options.record)
    regime = "sustained" if options.sustained else "burst"
    code = 0
    for rung in rungs:
        try:
            measurement = benchmark(rung, options.size, regime, entry=options.entry)
        except CourseError as error:
            output.problem(error)
            if isinstance(error, NoRecording):
                output.rows.extend(stale_rows(rung, options.size, regime, options.entry))
            code = 1
            continue
        output.row(flat_measurement(measurement), BENCH)
        for note in measurement.notes if measurement.source == "live" else ():
            output.text(note)
        if measurement.source != "live" and (why := load(rung).why_emulated):
            output.text(f"{why.rstrip('.')}, and its speed is the recorded one.")
        if options.record and measurement.source != "live":
            raise BackendError(
                f"{options.record} was not written: this machine has no GPU to measure on, and what is shown was "
                f"recorded on an {measurement.device.name}; run it on a Hopper GPU."
            )
        if options.record:
            write_record(measurement, path=options.record)
    return code


def flat_measurement(measurement: Any) -> dict[str, Any]:
    """A measurement as one flat object."""
    interval = measurement.ratio_interval
    return {
        "rung": measurement.rung,
        "entry": measurement.entry,
        "m": measurement.m,
        "n": measurement.n,
        "k": measurement.k,
        "size": f"{measurement.m}x{measurement.n}x{measurement.k}",
        "regime": measurement.regime,
        "tflops": measurement.tflops,
        "cublas_tflops": measurement.cublas_tflops,
        "ratio": measurement.ratio,
        "ratio_low": interval.low,
        "ratio_high": interval.high,
        "sm_clock_mhz": measurement.sm_clock_mhz,
        "power_w": measurement.power_w,
        "throttle_reasons": list(measurement.throttle_reasons or ()),
        "source": measurement.source,
        "device": measurement.device.name,
        "date": measurement.date,
        "stale": measurement.stale,
        "code_hash": measurement.code_hash,
        "notes": list(measurement.notes),
    }


def stale_rows(rung: Rung, size: tuple[int, int, int], regime: str, entry: str | None) -> list[dict[str, Any]]:
    """What was recorded of other code than the kernel has now: which code, where and when, and no figure of it."""
    from helpers.records import find_record, with_staleness

    found = find_record(rung, *size, regime, entry)
    checked = with_staleness([found] if found else [], lambda item: load(rung, "emulator", entry=item.entry).code_hash)
    return [{**flat_measurement(item), **dict.fromkeys(FIGURES)} for item in checked if item.stale]


def inspect(options: argparse.Namespace, output: Output) -> int:
    """Registers, spills, shared memory and warnings of a kernel file's functions."""
    rung = find_rung(options.rung)
    entries = [options.entry] if options.entry else [rung.entry, *rung.twins]
    kernels = [load(rung, entry=entry) for entry in entries]
    for kernel in kernels:
        output.row(flat_report(kernel, options.sass), INSPECT)
    for kernel in kernels:
        for warning in kernel.report.warnings:
            output.text(warning)
        if options.sass:
            output.text(f"\n{kernel.entry}:\n{kernel.sass}")
    return 0


def flat_report(kernel: Kernel, with_sass: bool) -> dict[str, Any]:
    """A compile report as one flat object."""
    report = kernel.report
    row = {"rung": kernel.rung.name} | asdict(report) | {
        "warnings": list(report.warnings),
        "architecture": kernel.architecture,
        "code_hash": kernel.code_hash,
    }
    return row | {"sass": kernel.sass} if with_sass else row


def diff(options: argparse.Namespace, output: Output) -> int:
    """What changed in the kernel file since the rung before, or the one that its head names."""
    new = find_rung(options.rung)
    old = base_of(new)
    if old is None:
        raise ArgumentError(f"{new.name} is the first rung, so nothing came before it: take rung 2 or a later one.")
    texts = [each.path.read_text(encoding="utf-8").splitlines() for each in (old, new)]
    lines = list(difflib.unified_diff(*texts, display(old.path), display(new.path), lineterm=""))
    row = {
        "rung": new.name,
        "previous": old.name,
        "added": sum(line.startswith("+") for line in lines[2:]),
        "removed": sum(line.startswith("-") for line in lines[2:]),
        "diff": "\n".join(lines),
    }
    output.rows.append(row)
    output.text("\n".join(coloured(lines) if in_colour() else lines))
    return 0


def coloured(lines: list[str]) -> Iterator[str]:
    """The lines of a diff in the usual terminal colours."""
    codes = {"+": "32", "-": "31", "@": "36"}
    for line in lines:
        code = codes.get(line[:1])
        yield f"\x1b[{code}m{line}\x1b[0m" if code else line


def plot(options: argparse.Namespace, output: Output) -> int:
    """Draw the ladder into a file."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)   # where it keeps its caches is nobody's business
    from helpers.ladder import plot_ladder
    from helpers.plots.figure import png

    if options.output.suffix.lower() != ".png":
        raise ArgumentError(f"The output file {options.output} is no .png file: name one that ends in .png.")
    require_writable(options.output)
    picture = plot_ladder()
    try:
        write_whole(options.output, png(picture))
    except OSError as error:
        raise unwritable(options.output, error) from None
    output.rows.append({"output": str(options.output), "alt": picture.alt})
    output.text(f"{display(options.output)}: the speeds of the rungs, a picture; in words with --json")
    return 0


def run(options: argparse.Namespace, output: Output) -> int:
    """Run notebooks in fresh kernels. Exit 1 if one fails; the others still run."""
    from helpers.notebooks import run_notebook

    code = 0
    for path in once(map(notebook, options.notebooks)) or existing_notebooks():
        started = time.monotonic()
        row = {"notebook": path.name, "passed": True, "reason": ""}
        try:
            row["output"] = display(run_notebook(path, options.output_dir))
        except ArgumentError:
            raise
        except CourseError as error:
            output.problem(error)
            code = 1
            row |= {"passed": False, "reason": str(error), "output": None}
        row["seconds"] = round(time.monotonic() - started, 1)
        output.row(row, RUN)
    return code


def slides(options: argparse.Namespace, output: Output) -> int:
    """Write the slides of notebooks, with the outputs that they have."""
    from helpers.slides import export

    for path in once(map(notebook, options.notebooks)) or existing_notebooks():
        target = export(path, options.output_dir)
        output.rows.append({"notebook": path.name, "output": display(target), "bytes": target.stat().st_size})
        output.text(display(target))
    return 0


def existing_notebooks() -> list[Path]:
    """The notebooks of all rungs. Raises ArgumentError if one is missing."""
    missing = [display(rung.notebook) for rung in RUNGS if not rung.notebook.is_file()]
    if missing:
        raise ArgumentError(f"The notebook {missing[0]} is missing: restore it with `git checkout -- {missing[0]}`.")
    return [rung.notebook for rung in RUNGS]


def notebook(name: str) -> Path:
    """A notebook by its path, or by its rung's name, number or prefix."""
    path = Path(name)
    if path.suffix != ".ipynb":
        rung = find_rung(name)
        if rung in APPENDIX:
            raise ArgumentError(f"{rung.name} has no notebook: read its file, {display(rung.path)}.")
        return rung.notebook
    if not path.is_file() and (NOTEBOOK_DIR / path.name).is_file() and path.parent == Path("."):
        return NOTEBOOK_DIR / path.name
    return path


def selected(names: list[str]) -> list[Rung]:
    """The rungs of these names, each once; all of them for no names."""
    return once(map(find_rung, names)) or list(RUNGS)


def small_size(rung: Rung) -> tuple[int, int, int]:
    """The smallest (M, N, K) of at least 64 each that a rung takes."""
    m, n, k = (-(-64 // multiple) * multiple for multiple in rung.multiples)
    return m, n, k


def require_writable(path: Path) -> None:
    """Raises ArgumentError, with nothing overwritten, if a file cannot be written there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        existed = path.exists()
        if existed:
            require_file(path)
        with path.open("ab"):
            pass
        if not existed:
            path.unlink()
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(path: Path, error: OSError) -> ArgumentError:
    """The error for an output file that cannot be written."""
    reason = error.strerror or error
    return ArgumentError(f"The output file {path} cannot be written ({reason}): name one in a folder that can be.")

