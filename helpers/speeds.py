"""Several kernels side by side: how fast each is, or that nobody has recorded it.

    table = speeds({"04_swizzling": "04_swizzling", "one buffer": load("05_tma", defines={"BUFFERS": 1})}, 4096)
    print(table)
    table.factor("one buffer", "04_swizzling")
"""

from collections.abc import Mapping
from dataclasses import dataclass

from helpers.arguments import check_sizes
from helpers.benchmark import Bench, check_options, default_rounds, measure_together, recorded, shape
from helpers.checks import require_kind
from helpers.errors import ArgumentError, NoRecording
from helpers.kernel import Kernel, load
from helpers.records import Measurement, three_digits
from helpers.words import short

MISSING = "no recording for this code"


@dataclass(frozen=True)
class Speeds:
    """Measurements by label, in order; None where there is no GPU and no recording of this very code."""

    measured: Mapping[str, Measurement | None]

    def __getitem__(self, label: str) -> Measurement | None:
        if not isinstance(label, str) or label not in self.measured:
            raise ArgumentError(f"label {short(label)} is not in the table: give one of {', '.join(self.measured)}.")
        return self.measured[label]

    @property
    def found(self) -> list[Measurement]:
        """The measurements that there are."""
        return [item for item in self.measured.values() if item is not None]

    def tflops(self, label: str) -> float | None:
        """TFLOP/s, None if not measured."""
        item = self[label]
        return None if item is None else item.tflops

    def origin(self, label: str) -> str:
        """Where the figure comes from: 'recorded on NVIDIA H200'; or that there is none."""
        item = self[label]
        return MISSING if item is None else f"{item.source} on {item.device.name}"

    def factor(self, label: str, over: str) -> str:
        """How many times as fast as another one: 'a / b: 1.23'; or that it is not known.

        A figure measured on another card than the recorded one has no factor over it. Two cards of one name differ by
        1%, and so do days: of figures from different rounds the factor of their ratios to cuBLAS is given, too.
        """
        mine, other = self[label], self[over]
        if mine is None or other is None:
            return f"{label} / {over}: {MISSING}"
        if mine.device.name != other.device.name:
            return f"{label} / {over}: not to be compared, {self.origin(label)} and {self.origin(over)}"
        factor = f"{label} / {over}: {mine.tflops / other.tflops:.3f}"
        if mine.samples.cublas_ms == other.samples.cublas_ms:   # cuBLAS's turns are shared by all of the rounds
            return factor
        return f"{factor} (other rounds; by the ratios to cuBLAS {mine.ratio / other.ratio:.3f})"

    def __str__(self) -> str:
        width = max(len(label) for label in self.measured)
        return "\n".join(f"{label:<{width}}  {_words(item)}" for label, item in self.measured.items())


def speeds(
    kernels: Mapping[str, Kernel | str | int],
    size: int | tuple[int, int, int] = 4096,
    regime: str = "burst",
    *,
    live: bool = True,
) -> Speeds:
    """Measure kernels in the same rounds, those that run on a GPU here; of the others take the recordings.

    live: whether to measure at all; False takes recordings everywhere, at once.
    Raises as `benchmark`, apart from NoRecording.
    """
    require_kind("kernels", kernels, Mapping, "give {label: kernel}")
    require_kind("live", live, bool, "give True or False")
    for label in kernels:
        require_kind("a label of kernels", label, str, "give {label: kernel}")
    loaded = {label: item if isinstance(item, Kernel) else load(item) for label, item in kernels.items()}
    if not loaded:
        raise ArgumentError("kernels is empty: give at least one, as {label: kernel}.")
    here = {label: kernel for label, kernel in loaded.items() if live and kernel.backend == "cuda"}
    m, n, k = shape(size)
    check_options(regime, None, 0.0, 1.0)
    for kernel in loaded.values():
        check_sizes(kernel.rung, m, n, k)
    measured: dict[str, Measurement | None] = {}
    if here:
        with Bench() as bench:
            results = measure_together(bench, list(here.values()), (m, n, k), regime, default_rounds(regime))
            measured = dict(zip(here, results, strict=True))
    return Speeds({
        label: measured[label] if label in measured else _recorded(kernel, (m, n, k), regime)
        for label, kernel in loaded.items()
    })


def _recorded(kernel: Kernel, size: tuple[int, int, int], regime: str) -> Measurement | None:
    try:
        return recorded(kernel, size, regime)
    except NoRecording:
        return None


def _words(item: Measurement | None) -> str:
    if item is None:
        return MISSING
    low, high = item.tflops_quartiles
    spread = f"quartiles {three_digits(low)} to {three_digits(high)}"
    origin = f"{item.source} on {item.device.name}, {item.date[:10]}"
    return f"{three_digits(item.tflops):>5} TFLOP/s ({spread}), {origin}"
