"""Says whether a kernel's result is right, and if it is not, what is wrong with it.

`check` compares one result with a reference. `verify` runs a kernel so that mistakes show: C is filled beforehand with
a NaN that no computation makes, guard bands lie round A, B and C, the launch is repeated with nothing made anew, and
another one is made on fresh arrays. A kernel that fails gets no TFLOP/s.
"""

import math
from dataclasses import dataclass
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from helpers import gpu
from helpers.arguments import check_memory, check_operand, check_sizes, is_device_array
from helpers.arrays import BFLOAT16, empty_matrix, random_matrix, require_memory, to_host
from helpers.checks import is_integer, require_integer
from helpers.diagnosis import describe_difference, describe_missing, describe_nan, describe_wrong
from helpers.errors import ArgumentError
from helpers.kernel import Kernel, KernelFault
from helpers.reference import as_float, error_bound, module_of, reference_product
from helpers.rungs import H200_SMS, Rung

MAX_RELATIVE_ERROR = 4e-3   # Frobenius norm; rounding to bf16 alone makes 1.66e-3, for a single element up to 3.9e-3
FILLING = 0x7FE5            # bits of C before the launch: a NaN; arithmetic makes 0x7FC0, 0x7FFF or 0xFFC0
NAN_BAND = 0x7FC0           # bits round A and B: whoever reads them gets NaN
GUARD_BAND = 0x4A3D         # bits round C: a number, so that a NaN written there shows as well
LONG_TILES = 9              # of the shapes that are long along one axis: more than 8, so that a wrap at 8 shows
LONG_K = 1025               # at least; so that an index that wraps at 256 or 1024 shows
WAVES = 2                   # tiles for each SM and more, where a CTA computes several
TILE_STEPS = 7              # of each of several tiles: more than the four that store the last one, no whole rings
INPUT_BYTES, OUTPUT_BYTES = 16, 32   # host memory that a verification takes for each element
GUARD_UNIT = 128            # values, 256 bytes: keeps the matrices between the bands aligned


class Check(NamedTuple):
    """relative_error: of C, in the Frobenius norm. max_error: of an element, absolute. Both NaN if C holds a NaN.

    reason: what is wrong, in a sentence; "" if the check passed.
    """

    passed: bool
    relative_error: float
    max_error: float
    reason: str


@dataclass(frozen=True)
class Verification:
    """Outcome for one kernel and one shape. reason: what is wrong, in a sentence; "" if it passed."""

    rung: str
    entry: str
    backend: str
    m: int
    n: int
    k: int
    passed: bool
    relative_error: float
    max_error: float
    reason: str

    def __str__(self) -> str:
        place = f"{self.rung}.{self.entry} on {self.backend}, {self.m} x {self.n} x {self.k}"
        if not self.passed:
            return f"{place}: WRONG. {self.reason}"
        return f"{place}: right, relative error {self.relative_error:.2e}, largest error {self.max_error:.2e}"


@gpu.memory_for("the comparison with the reference")
def check(C: Any, A: Any, B: Any, depth: int = 1, tile: tuple[int, int] | None = None) -> Check:
    """Compare a bf16 result with A @ B. C (M, N), A (M, K), B (K, N); all in the same memory.

    Every element must lie within its error bound (`helpers.reference.error_bound`) and all together within
    MAX_RELATIVE_ERROR. depth, tile: the kernel's step along K, and the rows and columns of C that a CTA computes at a
    time, which help to say what went wrong.
    """
    backend = "cuda" if is_device_array(A) else "emulator"
    for name, matrix in (("A", A), ("B", B)):
        check_operand(name, matrix, backend)
    check_memory("C", C, backend)
    if A.shape[1] != B.shape[0]:
        raise ArgumentError(f"A has {A.shape[1]:,} columns but B has {B.shape[0]:,} rows: A @ B needs as many.")
    shape = (A.shape[0], B.shape[1])
    if tuple(C.shape) != shape or C.dtype != BFLOAT16:
        reason = f"C has shape {tuple(C.shape)} and dtype {C.dtype}: it must have shape {shape} and dtype bfloat16."
        return Check(False, math.nan, math.nan, reason)
    xp = module_of(C)
    c, a, b = as_float(C), as_float(A), as_float(B)
    if not bool(xp.isfinite(c).all()):
        return Check(False, math.nan, math.nan, _describe_not_finite(C, c, tile))
    reference = reference_product(a, b)
    bound = error_bound(a, b, reference)
    difference = xp.abs(c - reference)
    max_error = float(difference.max())
    norm = float(xp.linalg.norm(reference.astype(np.float64)))
    distance = float(xp.linalg.norm(difference.astype(np.float64)))
    relative_error = distance / norm if norm else (0.0 if distance == 0.0 else math.inf)
    if not bool((difference <= bound).all()):
        host = [values if xp is np else values.get() for values in (c, a, b, reference, bound)]
        return Check(False, relative_error, max_error, describe_wrong(*host, depth, tile))
    if not relative_error < MAX_RELATIVE_ERROR:
        reason = (
            f"each element of C is within its bound, but all together they are off by {relative_error:.2e} of C's "
            f"norm, more than {MAX_RELATIVE_ERROR:.0e}: look for a rounding that is always in one direction."
        )
        return Check(False, relative_error, max_error, reason)
    return Check(True, relative_error, max_error, "")


@gpu.memory_for("the verification")
def verify(kernel: Kernel, size: tuple[int, int, int] | None = None, seed: int = 0) -> Verification:
    """Run a kernel on random matrices of (M, N, K) = size and say whether it is right.

    Without a size it is tried on the rung's default sizes, up to the first failure, and the last outcome is returned.
    Three launches a size. Raises ArgumentError for a size that the rung doesn't take.
    """
    _require_kernel(kernel)
    if size is None:
        for tried in default_sizes(kernel.rung):
            if not (outcome := verify(kernel, tried, seed)).passed:
                break
        return outcome
    m, n, k = checked_size(kernel.rung, size)
    first = _Trial(kernel, *_operands(kernel, m, n, k, seed))
    if not first.check.passed:
        return _outcome(kernel, m, n, k, first.check)
    once, C_once = first.check, first.C.copy()
    first.launch()   # the same launch again, as whoever measures a kernel does
    reason = first.check.reason
    if not (first.fault or _same_bits(C_once, first.C)):
        reason = describe_difference(_host_bits(C_once), _host_bits(first.C))
    if reason:
        return _outcome(kernel, m, n, k, once._replace(passed=False, reason=reason))
    # Fresh arrays of the same shape: other values at other addresses, while the first ones still exist.
    fresh = _Trial(kernel, _guarded_copy(first.A[::-1, ::-1]), _guarded_copy(first.B[::-1, ::-1]))
    worst = Check(
        fresh.check.passed,
        max(once.relative_error, fresh.check.relative_error),
        max(once.max_error, fresh.check.max_error),
        _describe_fresh(first, fresh),
    )
    return _outcome(kernel, m, n, k, worst)


def verify_all(kernel: Kernel, seed: int = 0) -> list[Verification]:
    """Outcomes for all of the rung's default sizes."""
    _require_kernel(kernel)
    return [verify(kernel, size, seed) for size in default_sizes(kernel.rung)]


def run_once(kernel: Kernel, size: tuple[int, int, int], seed: int = 0) -> tuple[Verification, Any]:
    """Run a kernel once between guard bands: its outcome, and C. For runs with counters, which are slow.

    Raises ArgumentError for a size that the rung doesn't take.
    """
    m, n, k = checked_size(kernel.rung, size)
    trial = _Trial(kernel, *_operands(kernel, m, n, k, seed))
    return _outcome(kernel, m, n, k, trial.check), trial.C


def default_sizes(rung: Rung) -> list[tuple[int, int, int]]:
    """Shapes (M, N, K) that a rung is verified on, from its tile, its multiples and the stages of its pipeline.

    K takes one step of the tile's depth, two, STAGES - 1, STAGES, STAGES + 1 (for a pipelined rung) and many; where
    CTAs divide K, STAGES and many for each. M, N and K differ, and each is long once, for mistakes that come after
    some tiles or steps. Where a rung takes ragged sizes, they are ragged: single elements, less than a tile, one
    more than a tile. A persistent rung also gets so many tiles that its CTAs compute three and two each, of two steps;
    and two and one each, of TILE_STEPS. Where M has a limit (`most_rows`), what is above it becomes the limit or less.
    """
    rows, columns, depth = rung.tile
    stages = rung.stages
    many = max(5, 2 * stages + 1, 96 // depth)
    counts = {1, 2, stages - 1, stages, stages + 1, many} - {0}
    if rung.split is not None:   # so many for each of the CTAs, and one of them with one more
        counts |= {rung.split * stages, rung.split * many + 1}
    counts = sorted(counts)
    ragged_m = rung.multiples[0] if rung.multiples[0] < rows else 0
    ragged_n = rung.multiples[1] if rung.multiples[1] < columns else 0
    shapes = [rung.multiples]
    # One more than a tile; where warps without rows skip the adding up, one more than any number of warps' 16 rows.
    tiles = cycle(((1, 2), (3, 1), (1, 3), (2, 1)))
    for place, (count, (tiles_m, tiles_n)) in enumerate(zip(counts, tiles, strict=False), 1):
        more = 0 if rung.split is None else 48 * place % rows
        shapes.append((
            tiles_m * rows + more + ragged_m,
            tiles_n * columns - ragged_n,
            _up(count * depth, rung.multiples[2]),
        ))
    if rung.multiples[2] < depth:   # a last step along K that is not full
        shapes.append((
            rows - ragged_m,
            2 * columns + ragged_n,
            3 * depth + rung.multiples[2],
        ))
    short_m, short_n = _up(8, rung.multiples[0]), _up(8, rung.multiples[1])
    shapes += [
        (LONG_TILES * rows - ragged_m, short_n, _up(depth, rung.multiples[2])),
        (short_m, LONG_TILES * columns - ragged_n, _up(depth, rung.multiples[2])),
        (short_m, short_n, _up(LONG_K, rung.multiples[2])),
    ]
    if rung.persistent:
        for waves, steps in ((WAVES, 2), (1, TILE_STEPS)):
            side = math.isqrt(waves * H200_SMS) + 1
            k = (steps - 1) * depth + 1   # the last step is not full
            shapes.append((side * rows - ragged_m, side * columns - ragged_n, _up(k, rung.multiples[2])))
    if rung.multiples == (1, 1, 1):
        shapes += [(33, 65, 17), (129, 31, 100)]
    most = rung.most_rows
    if most is not None:
        fewer = [most if place % 2 else 1 + 17 * place % most for place in range(len(shapes))]
        shapes = [(m if m <= most else other, n, k) for other, (m, n, k) in zip(fewer, shapes, strict=True)]
    return list(dict.fromkeys(shapes))


def checked_size(rung: Rung, size: tuple[int, int, int]) -> tuple[int, int, int]:
    """(M, N, K) of a size that the rung takes. Raises ArgumentError for others."""
    if not isinstance(size, tuple | list) or len(size) != 3:
        raise ArgumentError(f"size is {size!r}: it must be a tuple of three integers, (M, N, K).")
    for axis, value in zip("MNK", size, strict=True):
        if not is_integer(value) or value < 1:
            raise ArgumentError(f"size has {axis} = {value!r}: it must be an integer of at least 1.")
    m, n, k = (int(value) for value in size)
    check_sizes(rung, m, n, k)
    return m, n, k


class _Trial:
    """A launch between guard bands, done once, and the check of its last time.

    fault: what the emulator reported, "" if nothing.
    """

    def __init__(self, kernel: Kernel, A: Any, B: Any):
        self.A, self.B, self._kernel = A, B, kernel
        m, n = A.shape[0], B.shape[1]
        down, across = kernel.rung.cluster_tile
        band = down * n + across   # whoever writes a tile too far down writes here
        self._memory, self.C = _between_bands(m, n, kernel.backend, band, GUARD_BAND)
        self._launch = kernel.prepared(A, B, self.C)
        self.launch()

    def launch(self) -> None:
        """Launch, into a C that is filled anew, and check what comes."""
        self.fault = ""
        rows, columns, depth = self._kernel.rung.tile
        self.C.view(np.uint16)[...] = FILLING
        before = self.A.copy(), self.B.copy()
        try:
            self._launch()
            if self._kernel.backend == "cuda":
                gpu.synchronize()
        except KernelFault as fault:
            self.fault = str(fault)
        self.check = check(self.C, *before, depth=depth, tile=(rows, columns))
        trespass = _overwritten(self._memory, self.C) or _changed_inputs(before, (self.A, self.B))
        if self.fault:   # the launch was stopped there, so what C holds says nothing
            self.check = self.check._replace(passed=False, reason=self.fault)
        elif trespass:
            self.check = self.check._replace(passed=False, reason=f"{trespass} {self.check.reason}".strip())


def _require_kernel(kernel: Any) -> None:
    if not hasattr(kernel, "rung"):
        raise ArgumentError(f"kernel is {kernel!r}: it must be a loaded kernel, such as load(1).")


def _outcome(kernel: Kernel, m: int, n: int, k: int, result: Check) -> Verification:
    return Verification(
        kernel.rung.name, kernel.entry, kernel.backend, m, n, k,
        result.passed, result.relative_error, result.max_error, result.reason,
    )


def _operands(kernel: Kernel, m: int, n: int, k: int, seed: int) -> tuple[Any, Any]:
    require_integer("seed", seed, 0)
    if kernel.backend == "emulator":   # bf16 copies, and the fp32 and fp64 arrays of the comparison
        needed = INPUT_BYTES * (m * k + k * n) + OUTPUT_BYTES * m * n
        require_memory(needed, f"checking {m:,} x {n:,} x {k:,}")
    A = random_matrix(m, k, 2 * seed, kernel.backend)
    B = random_matrix(k, n, 2 * seed + 1, kernel.backend)
    return _guarded_copy(A), _guarded_copy(B)


def _guarded_copy(matrix: Any) -> Any:
    backend = "emulator" if module_of(matrix) is np else "cuda"
    _, copy = _between_bands(*matrix.shape, backend, 32 * matrix.shape[1], NAN_BAND)
    copy.view(np.uint16)[...] = matrix.view(np.uint16)
    return copy


def _between_bands(rows: int, columns: int, backend: str, band: int, bits: int) -> tuple[Any, Any]:
    """Memory (1-D, of bits) and within it a matrix with at least `band` values of `bits` before and after it."""
    band = _up(band, GUARD_UNIT)
    memory = empty_matrix(1, 2 * band + rows * columns, backend).reshape(-1).view(np.uint16)
    memory[:band] = bits
    memory[band + rows * columns:] = bits
    return memory, memory[band:band + rows * columns].view(BFLOAT16).reshape(rows, columns)


def _overwritten(memory: Any, C: Any) -> str:
    """A sentence about values written outside C, "" if there are none."""
    band = (memory.size - C.size) // 2
    for side, guard in (("before", memory[:band][::-1]), ("after", memory[band + C.size:])):
        touched = guard != GUARD_BAND
        if bool(touched.any()):
            nearest = int(touched.argmax()) + 1
            return (
                f"The kernel wrote {int(touched.sum()):,} values outside C, the nearest {nearest:,} places {side} it "
                f"(C has {C.shape[0]:,} rows of {C.shape[1]:,})."
            )
    return ""


def _describe_fresh(first: _Trial, fresh: _Trial) -> str:
    """What is wrong with the run on fresh arrays, "" if nothing is; also whether it used the arrays of the first."""
    if not fresh.check.reason:
        return ""
    reason = f"on a second pair of matrices of the same shape: {fresh.check.reason}"
    for names, A, B in (("A", first.A, fresh.B), ("B", fresh.A, first.B), ("A and B", first.A, first.B)):
        if not fresh.fault and check(fresh.C, A, B).passed:
            return (
                f"{reason[:-1]}; it is the product with the {names} of the run before: "
                "make tensor maps and pointers anew for each call."
            )
    return reason


def _changed_inputs(before: tuple[Any, Any], after: tuple[Any, Any]) -> str:
    names = [name for name, old, new in zip("AB", before, after, strict=True) if not _same_bits(old, new)]
    return f"The kernel changed its input {' and '.join(names)}." if names else ""


def _describe_not_finite(C: Any, values: Any, tile: tuple[int, int] | None) -> str:
    missing = _host_bits(C) == FILLING
    if missing.any():
        return describe_missing(missing, tile)
    return describe_nan(~np.isfinite(values if isinstance(values, np.ndarray) else values.get()))


def _same_bits(first: Any, second: Any) -> bool:
    return bool((first.view(np.uint16) == second.view(np.uint16)).all())


def _host_bits(matrix: Any) -> np.ndarray:
    return to_host(matrix).view(np.uint16)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
