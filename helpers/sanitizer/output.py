"""Reads what compute-sanitizer printed. What is not clearly clean is not called clean.

The formats are those of NVIDIA's Compute Sanitizer documentation ("Understanding ... Reports"): every line of the tool
begins with `=========`; a report is such a line with indented ones below it; a summary stands at the end. Lines of the
program stand between them.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from helpers.words import one_line, plural

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
CLEAN, REPORTED, TIMED_OUT, REFUSED, FAILED = STATUSES = ("clean", "reported", "timed out", "refused", "failed")
PREFIX = "========="
ERROR_EXIT_CODE = 99          # what the tool is asked to exit with if it has reported something
MOST_REPORTS = 12             # kinds of reports that are kept
FIRST_LINES, LAST_LINES = 24, 6   # of the tool's output that are kept
MOST_LETTERS = 200            # of a line

LAUNCHED = re.compile(r"^launched (\d+) times, all results right$", re.M)   # what the child says at its end
ERRORS = re.compile(r"^=+ ERROR SUMMARY: (\d+) errors?\s*$", re.M)
HAZARDS = re.compile(
    r"^=+ RACECHECK SUMMARY: (\d+) hazards? displayed \((\d+) errors?, (\d+) warnings?\)\s*$", re.M
)
NOT_SUPPORTED = re.compile(r"Device not supported|is not supported on this (?:device|GPU|platform)", re.I)
# Headings that are no reports of a fault: banner, summaries, and what follows a fault.
HEADINGS = re.compile(
    r"COMPUTE-SANITIZER$|(?:\w+ )?SUMMARY:|\(\d+ errors?, |Target application returned an error|"
    r"Error: process didn't terminate successfully|Tracking kernels launched by child|Process ID:|$"
)
BELOW = re.compile(r"\s{2,}|\s*(?:at |by thread|and (?:is |Read |Write )|Address |Access )")   # a report's later lines
ELSEWHERE = re.compile(r"Address \S+ (is located in a block that .+)")   # racecheck's word about another CTA's memory
PATH = re.compile(r"(?<![\w.])~?(?:/[\w.+@-]+)+/")


@dataclass(frozen=True)
class Outcome:
    """What one tool said about one kernel.

    status: one of STATUSES; `why` says it in words where it is neither clean nor reported. exit_code: None after a
    timeout. errors, warnings: by the tool's summary (racecheck's hazards are these), None without one. launches: that
    the child made. seconds: of the whole child. reports: each kind of report with how often it came.
    output: the tool's own lines, shortened, without the paths of the machine. date: UTC.
    """

    tool: str
    status: str
    why: str
    exit_code: int | None
    errors: int | None
    warnings: int | None
    launches: int
    seconds: float
    reports: Mapping[str, int]
    output: tuple[str, ...]
    date: str

    @property
    def is_answer(self) -> bool:
        """Whether the tool has looked: it found nothing, or something."""
        return self.status in (CLEAN, REPORTED)

    @property
    def counted(self) -> str:
        """Errors and warnings in words; without a summary, as after a timeout, only that there are reports."""
        counts = ((self.errors, "error"), (self.warnings, "warning"))
        return ", ".join(plural(count, noun) for count, noun in counts if count) or "reports"

    def __str__(self) -> str:
        if self.status == CLEAN:
            return f"{self.tool}: clean"
        if self.status == REPORTED:
            first = f": {next(iter(self.reports))}" if self.reports else ""
            return f"{self.tool}: {self.counted}{first}"
        return f"{self.tool}: {self.status} ({self.why})"


def read_outcome(
    tool: str, text: str, exit_code: int | None, seconds: float, date: str, kernel: str = "matmul"
) -> Outcome:
    """What a run of a tool says. text: stdout and stderr together; exit_code: None if the time was over.

    kernel: part of the names of the kernels that are checked; reports of others count as errors all the same.
    """
    text = without_paths(text)
    errors, warnings = summary(tool, text)
    reports = Counter(named(report) for report in report_blocks(text))
    launched = LAUNCHED.search(text)
    foreign = [report for report in reports if kernel not in report]
    if NOT_SUPPORTED.search(text):
        status, why = REFUSED, "the tool does not support this device"
    elif errors or warnings or len(foreign) < len(reports):   # also where the time was over behind it
        status, why = REPORTED, ""
    elif exit_code is None:
        status, why = TIMED_OUT, "the time was over before the tool had ended"
    elif foreign:   # a word of the tool about itself: that it found no process, or that it had no room
        status, why = FAILED, f"the tool said: {foreign[0].rstrip('.')}"
    elif errors is None:
        status, why = FAILED, f"the tool printed no summary: {last_words(text)}"
    elif launched is None:
        status, why = FAILED, f"the kernels did not all run: {last_words(text)}"
    elif exit_code:
        status, why = FAILED, f"it ended with code {exit_code}: {last_words(text)}"
    else:
        status, why = CLEAN, ""
    return Outcome(
        tool, status, why, exit_code, errors, warnings, int(launched[1]) if launched else 0, round(seconds, 1),
        dict(reports.most_common(MOST_REPORTS)), kept_lines(text), date,
    )


def summary(tool: str, text: str) -> tuple[int | None, int | None]:
    """Errors and warnings by the tool's last summary; None, None if there is none."""
    if tool == "racecheck":
        found = HAZARDS.findall(text)
        if not found:
            return None, None
        hazards, errors, warnings = map(int, found[-1])
        return max(errors, hazards - warnings), warnings
    found = ERRORS.findall(text)
    return (sum(map(int, found)), 0) if found else (None, None)


def report_blocks(text: str) -> Iterator[list[str]]:
    """The tool's reports: each a heading with the lines below it, without the prefix."""
    block: list[str] = []
    for line in text.splitlines():
        if not line.startswith(PREFIX):
            continue   # of the program
        said = line.removeprefix(PREFIX).rstrip()
        if block and said.strip() and BELOW.match(said):
            block.append(said.strip())
            continue
        if block:
            yield block
        block = [] if HEADINGS.match(said.strip()) else [said.strip()]
    if block:
        yield block


def named(report: list[str]) -> str:
    """A report in one line, without what differs from thread to thread: the mistake, and where in the code.

    Of another CTA's shared memory also whether that CTA may not have begun, or may have ended.
    """
    heading, *below = report
    places = [line for line in below if re.match(r"at |and (?:Read|Write) ", line)]
    places += [found[1] for line in below if (found := ELSEWHERE.match(line))]
    text = one_line(" ".join((heading, *places)), 2 * MOST_LETTERS)
    return printable(re.sub(r" \[\d+ hazards?\]", "", text))


def without_paths(text: str) -> str:
    """The text with the names of files, not of the folders of the machine."""
    return PATH.sub("", text)


def kept_lines(text: str) -> tuple[str, ...]:
    """The tool's own lines: of many the first and the last, each of bounded length."""
    lines = [printable(line[:MOST_LETTERS]) for line in text.splitlines() if line.startswith(PREFIX)]
    if len(lines) <= FIRST_LINES + LAST_LINES:
        return tuple(lines)
    left_out = len(lines) - FIRST_LINES - LAST_LINES
    return (*lines[:FIRST_LINES], f"... {left_out:,} lines ...", *lines[-LAST_LINES:])


def last_words(text: str) -> str:
    """The last line that says something, of the program if there is one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith(PREFIX)]
    last = (own or lines or ["nothing was printed"])[-1]
    return printable(one_line(last.lstrip("= "), MOST_LETTERS).rstrip("."))


def printable(text: str) -> str:
    """The text with ? for letters that a record may not hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
