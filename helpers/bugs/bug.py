"""A planted bug as data: what is changed in a rung, how it is run, and the report that must name it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from helpers.launches import Launch
from helpers.rungs import Rung

Change = Callable[[Launch], Launch]
VERIFY = "verify"   # the kind of what the verification says, beside the kinds of the emulator's reports


@dataclass(frozen=True)
class Bug:
    """One mistake in a kernel that is right without it.

    name: `"every_thread_counted"`. rung: the number of the kernel, or a variant of one.
    fault: the mistake, in a few words. why: what goes wrong on a GPU.
    reports: (kind, words) of each report that names the mistake; one of them must come. Which one can depend on the
    schedule. The kind `verify` is the sentence of the verification, for mistakes that break no rule.
    edits: (old, new) texts of the kernel's file; each old one is there once.
    size: (M, N, K) on which it shows. defines: for the preprocessor. sms: of the GPU that is played.
    rung_fields: fields of the rung that are changed, such as its maps.
    make_change: makes a function that changes a launch; it is made anew for each search.
    calls_again: whether it shows only when the kernel is called again on other matrices.
    gap: what the emulator does not notice yet; empty for bugs that are found.
    """

    name: str
    rung: int | Rung
    fault: str
    why: str
    reports: tuple[tuple[str, str], ...]
    size: tuple[int, int, int]
    edits: tuple[tuple[str, str], ...] = ()
    defines: Mapping[str, int] = field(default_factory=dict)
    sms: int = 132
    rung_fields: Mapping[str, Any] = field(default_factory=dict)
    make_change: Callable[[], Change] | None = None
    calls_again: bool = False
    gap: str = ""
