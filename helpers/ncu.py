"""Nsight Compute's command line, `ncu`: how one launch of a kernel is profiled, and how its answer is read.

It knows nothing of the course's counters: those are in helpers.ncu_counters.
"""

import csv
import re
import subprocess
from collections.abc import Sequence

from helpers.errors import BackendError, RecordError
from helpers.nvidia_tools import find_tool
from helpers.rungs import ROOT

SECTIONS = ("SourceCounters", "Occupancy", "WarpStateStats", "LaunchStats", "SpeedOfLight")
NO_PERMISSION = "ERR_NVGPUCTRPERM"


class NoPermission(BackendError):
    """The driver does not let this user read counters."""


def launch_values(
    tool: str,
    kernel: str,
    metrics: Sequence[str],
    child: Sequence[str],
    sections: Sequence[str] = SECTIONS,
    timeout_s: float = 300,
) -> dict[str, str]:
    """Profile the one launch of a kernel function that a child process makes: the values by ncu's metric names.

    child: its command line. Metrics that this ncu does not know are left out.
    Raises BackendError if ncu fails or may not read counters, RecordError if it prints something else.
    """
    known = list(metrics)
    for _ in range(len(metrics) + 1):   # some versions of ncu name one unknown metric at a time
        command = ncu_command(tool, kernel, known, child, sections)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, cwd=ROOT, check=False)
        except subprocess.TimeoutExpired:
            raise BackendError(f"ncu took more than {timeout_s:.0f} s: take a smaller size.") from None
        except OSError as error:
            raise BackendError(f"ncu cannot be started ({error.strerror}): install NVIDIA Nsight Compute.") from None
        text = done.stdout + done.stderr
        if NO_PERMISSION in text:
            raise NoPermission(
                f"The driver does not let this user read GPU counters ({NO_PERMISSION}): run as root, or ask the "
                "administrator to allow profiling; the recorded counters need none of this."
            )
        dropped = [name for name in unknown_metrics(text) if name in known]
        if dropped:
            known = [name for name in known if name not in dropped]
            continue
        if done.returncode:
            raise BackendError(f"ncu failed with code {done.returncode} ({_last_words(text)}): run it by hand: "
                               f"{' '.join(command[:6])} ...")
        return parse_csv(done.stdout)
    raise BackendError("ncu knows none of the metrics: take another version, or mend METRICS of ncu_counters.py.")


def ncu_command(
    tool: str, kernel: str, metrics: Sequence[str], child: Sequence[str], sections: Sequence[str] = SECTIONS
) -> list[str]:
    """The command line that profiles one launch: every metric and section in base units, as CSV on stdout."""
    command = [tool, "--clock-control", "none", "--target-processes", "all", "--launch-count", "1"]
    command += ["--kernel-name-base", "function", "--kernel-name", kernel]
    for section in sections:
        command += ["--section", section]
    command += ["--metrics", ",".join(metrics), "--csv", "--page", "raw", "--print-units", "base"]
    return [*command, *child]


def parse_csv(text: str) -> dict[str, str]:
    """The values of the one profiled launch, by ncu's metric names, out of the output of `ncu --csv --page raw`.

    Lines of the program and of ncu itself may stand around the table. Raises RecordError if there is no table, or not
    exactly one launch in it.
    """
    lines = text.splitlines()
    begin = next((index for index, line in enumerate(lines) if line.startswith('"ID",')), None)
    if begin is None:
        raise RecordError(f"ncu printed no table ({_last_words(text)}): run the command by hand to see why.")
    header, *rows = csv.reader(lines[begin:])
    launches = [row for row in rows if len(row) == len(header) and row[0].isdigit()]   # the row of units has no ID
    if len(launches) != 1:
        raise RecordError(f"ncu profiled {len(launches)} launches instead of one: check the kernel's name.")
    return dict(zip(header, launches[0], strict=True))


def number(text: str) -> float | None:
    """A value as ncu prints it ('1,048,576', '99.5'); None for '', 'n/a' and other words."""
    try:
        return float(text.replace(",", "").split(" ")[0])
    except (ValueError, IndexError):
        return None


def unknown_metrics(text: str) -> tuple[str, ...]:
    """Metrics that ncu says it does not know, out of its messages."""
    names = set()
    for match in re.finditer(r"(?:Failed to find metric|Unknown metric|[Ii]nvalid metric)[^\n]*", text):
        names.update(re.findall(r"\b(?:\w+__\w+|memory_l[12]_\w+)(?:\.\w+)*", match[0]))
    return tuple(sorted(names))


def find_ncu() -> str:
    """The path of ncu. Raises BackendError if there is none."""
    return find_tool("ncu", "install NVIDIA Nsight Compute; the recorded counters need none")


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "==ERROR==" in line or line.startswith("error:")]
    return (errors or lines or ["it printed nothing"])[-1][:200].rstrip(".")
