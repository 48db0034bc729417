"""A kernel's file, compiled for the emulator, and its launches."""

import ctypes
import functools
import os
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.checks import require_integer
from helpers.emulator import protocol, source
from helpers.emulator.arguments import PreparedArguments
from helpers.emulator.barriers import barrier_names
from helpers.emulator.build import (
    DYNAMIC_SHARED,
    MAX_SHARED_BYTES,
    MAX_STATIC_SHARED_BYTES,
    build_kernel,
    build_runtime,
)
from helpers.emulator.context import Context
from helpers.emulator.image import Image, SharedArray, read_image
from helpers.emulator.lines import source_lines
from helpers.emulator.results import Counter, EmulatorRun, sum_counters
from helpers.emulator.words import describe
from helpers.errors import ArgumentError, BackendError, CompileError
from helpers.rung import H200_SMS

WAIT_MILLISECONDS = 50   # how often a launch looks for an interrupt from the keyboard
MAX_THREADS = 1024
MAX_CLUSTER = 8   # CTAs of a cluster that every Hopper GPU takes
SM_REGISTERS = 65536
WARPGROUP = 128   # threads: a warp for each of an SM's four parts
MAX_REGISTERS = 255   # of a thread
GRID_LIMITS = (2**31 - 1, 65535, 65535)
BLOCK_LIMITS = (1024, 1024, 64)


def compile_kernel(
    path: Path | str,
    entries: Sequence[str],
    defines: Mapping[str, str | int] | None = None,
    counters: bool = False,
) -> "EmulatedModule":
    """Compile a .cu file for the emulator; from the cache if that was done before.

    entries: the `__global__` functions to launch; of a template, an instance such as `"matmul<64>"`.
    defines: for the preprocessor. counters: whether launches count memory traffic and check races and bounds.
    Raises ArgumentError for a missing file or entry, CompileError (a BackendError) if the file does not compile or has
    inline asm, BackendError without a C++ compiler or a folder to write to.
    """
    path = Path(path)
    runtime_path = build_runtime()
    library = build_kernel(path, tuple(entries), dict(defines or {}), counters, runtime_path)
    return EmulatedModule(path, tuple(entries), library, counters, _load_runtime(runtime_path))


@dataclass(frozen=True)
class Runtime:
    """The loaded runtime library. Its fault handlers are the process's, so it runs one launch at a time."""

    library: ctypes.CDLL
    lock: threading.Lock


@functools.cache
def _load_runtime(path: Path) -> Runtime:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise BackendError(f"The emulator's runtime {path} cannot be loaded ({error}): delete the file.") from None
    if not _same_protocol(library):
        raise BackendError(f"The emulator's runtime {path} is of another version: delete the file.")
    library.emulator_start.restype = ctypes.c_void_p
    library.emulator_start.argtypes = [ctypes.POINTER(protocol.LaunchSpec)]
    library.emulator_wait.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.emulator_cancel.argtypes = [ctypes.c_void_p]
    library.emulator_finish.argtypes = [ctypes.c_void_p]
    library.emulator_finish.restype = ctypes.POINTER(protocol.RawResult)
    library.emulator_free.argtypes = [ctypes.c_void_p]
    library.emulator_free.restype = None
    return Runtime(library, _launch_lock())


def _same_protocol(library: ctypes.CDLL) -> bool:
    """Whether the library's records are those of protocol.py."""
    if library.emulator_protocol_version() != protocol.VERSION:
        return False
    sizes = (ctypes.c_int32 * 64)()
    count = library.emulator_record_sizes(sizes)
    return sizes[:count] == [ctypes.sizeof(record) for record in protocol.RECORDS]


@functools.cache
def _launch_lock() -> threading.Lock:
    """One for the process, also if sources were edited and there are several runtime libraries."""
    return threading.Lock()


class EmulatedModule:
    """A compiled file. path: the .cu file. entries: its functions. has_counters: whether launches count traffic."""

    def __init__(self, path: Path, entries: tuple[str, ...], library: Path, counters: bool, runtime: Runtime):
        self.path = path
        self.entries = entries
        self.has_counters = counters
        self._runtime = runtime
        self._library_path = library
        self._lines: dict[int, int | None] = {}
        self._code = source.code_only(path.read_text(encoding="utf-8"))
        try:
            self._image: Image = read_image(library)
            self._library = ctypes.CDLL(str(library))
        except (OSError, ValueError) as error:
            raise BackendError(f"The compiled kernel {library} cannot be loaded ({error}): delete the file.") from None
        for entry in entries:
            # On the GPU a kernel is found by its name, which C++ would change.
            if "<" not in entry and not hasattr(self._library, entry):
                raise CompileError(f'{entry} of {path.name} cannot be found by its name: write extern "C" before it.')
            size = self.static_shared_bytes(entry)
            if size > MAX_STATIC_SHARED_BYTES:
                raise CompileError(
                    f"{entry} of {path.name} declares {size} bytes of static shared memory, and a CTA can have "
                    f"{MAX_STATIC_SHARED_BYTES}: declare it as extern __shared__ and pass shared_bytes."
                )

    def static_shared_bytes(self, entry: str) -> int:
        """Bytes of the `__shared__` arrays of fixed size that a function has."""
        by_function: dict[str, int] = defaultdict(int)
        for array in self._static_arrays(entry):
            by_function[array.function] += array.bytes
        # Instances of one template cannot be told apart by the function's name: the largest stands for each.
        own = [size for function, size in by_function.items() if _is_instance(function, entry)]
        others = [size for function, size in by_function.items() if not _is_instance(function, entry)]
        return max(own, default=0) + sum(others)

    def _static_arrays(self, entry: str) -> list[SharedArray]:
        """The shared arrays of a function and of those that are no kernels, which it may call."""
        others = source.kernel_names(self._code) - {source.base_name(entry)}
        return [array for array in self._image.shared if not any(map(array.is_of, others))]

    def launch(
        self,
        entry: str,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[Any],
        shared_bytes: int = 0,
        schedule: str = "lazy",
        seed: int = 0,
        cluster: Sequence[int] | None = None,
        names: Sequence[str] | None = None,
        dependent: bool = False,
        sms: int = H200_SMS,
        workers: int | None = None,
        step_limit: int = 5_000_000,
        time_limit: float = 120.0,
    ) -> EmulatorRun:
        """Run a function of the file and return its reports and counters.

        grid, block: CTAs and threads along x, y and z (missing ones are 1). arguments: NumPy arrays for pointers,
        numbers for the rest; arrays get the kernel's results, also if it is stopped by a report.
        shared_bytes: dynamic shared memory per CTA. schedule, seed: the order of the warps between barriers: from the
        first (`eager`), from the last (`lazy`), or `random` by the seed; asynchronous operations happen at once, as
        late as possible, or at random moments.
        cluster: CTAs of a cluster along x, y and z; by default what the kernel's `__cluster_dims__` say.
        names: of the arguments, for reports; by default those in the source.
        dependent: a programmatic dependent launch, whose threads must execute griddepcontrol_wait before they touch
        global memory; lists of int32 they may read before. sms: of the GPU that is played; sm_number() is below it.
        workers: OS threads, by default one for each processor, at most 16; results don't depend on it.
        step_limit: memory accesses (with counters) and barriers after which a thread is stopped.
        time_limit: seconds after which the launch is stopped.
        Raises ArgumentError, with nothing launched, for a launch that a GPU would refuse.
        """
        grid, block = _checked_dims("grid", grid, GRID_LIMITS), _checked_dims("block", block, BLOCK_LIMITS)
        self._check_launch(entry, block, shared_bytes, schedule)
        require_integer("sms", sms, 1, 2**31 - 1)
        number = self.entries.index(entry)
        cluster_dims = self._cluster(number, cluster, grid)
        prepared = PreparedArguments(
            entry, self._parameters(number), arguments, names or source.parameter_names(self._code, entry)
        )
        arrays = self._shared_arrays(entry, shared_bytes)
        array_specs = (protocol.ArraySpec * len(arrays))(*((array.begin, array.bytes) for array in arrays))
        variables = self._image.variables
        variable_specs = (protocol.ArraySpec * len(variables))(*((found.begin, found.bytes) for found in variables))
        entry_address = _address(self._library, f"emulator_entry_{number}")
        spec = protocol.LaunchSpec(
            version=protocol.VERSION,
            counters=int(self.has_counters),
            entry=entry_address,
            dynamic_shared=_address(self._library, "emulator_dynamic"),
            arguments=ctypes.addressof(prepared.pointers),
            grid=protocol.Dim(*grid),
            block=protocol.Dim(*block),
            cluster=protocol.Dim(*cluster_dims),
            uses_hopper=int(hasattr(self._library, "emulator_uses_hopper")),
            registers=self._registers(number),
            dependent=int(dependent),
            sms=int(sms),
            shared_bytes=self._image.shared_bytes,
            dynamic_begin=self._image.symbols[DYNAMIC_SHARED],
            image_begin=entry_address - self._image.symbols[f"emulator_entry_{number}"],
            image_bytes=self._image.bytes,
            code_begin=self._image.code[0],
            code_end=self._image.code[1],
            seed=seed & (1 << 64) - 1,
            step_limit=max(1, int(step_limit)),
            schedule=protocol.SCHEDULES.index(schedule),
            workers=workers or os.cpu_count() or 1,
            buffers=prepared.buffers,
            arrays=array_specs,
            variables=variable_specs,
            buffer_count=len(prepared.buffers),
            array_count=len(arrays),
            variable_count=len(variables),
        )
        buffers = [(name, spec.bytes) for name, spec in zip(prepared.buffer_names, prepared.buffers, strict=True)]
        with self._runtime.lock:
            return self._run(spec, entry, buffers, arrays, block, time_limit)

    def _run(
        self,
        spec: protocol.LaunchSpec,
        entry: str,
        buffers: list[tuple[str, int]],
        arrays: list[SharedArray],
        block: tuple[int, int, int],
        time_limit: float,
    ) -> EmulatorRun:
        library = self._runtime.library
        running = library.emulator_start(ctypes.byref(spec))
        if not running:
            raise BackendError("The emulator cannot get the memory or the threads for this launch: free some memory.")
        try:
            deadline = time.monotonic() + time_limit
            while not library.emulator_wait(running, WAIT_MILLISECONDS):
                if time.monotonic() > deadline:
                    library.emulator_cancel(running)
            result = library.emulator_finish(running).contents
            raw_reports = [
                (report, result.states[report.first_state:report.first_state + report.state_count])
                for report in result.reports[:result.report_count]
            ]
            sites = result.counters[:result.counter_count]
            self._find_lines(raw_reports, sites)
            known = {offset: line for offset, line in self._lines.items() if line is not None}
            mbarriers = barrier_names(result.mbarriers[:result.mbarrier_count], self._code, arrays)
            has_clusters = tuple(spec.cluster) != (1, 1, 1)
            own = [(variable.name, variable.bytes) for variable in self._image.variables]
            context = Context(entry, buffers, arrays, known, block, time_limit, mbarriers, has_clusters, own)
            counters = self._counters(sites, [name for name, _ in buffers], [array.name for array in arrays])
            totals = {"barriers": int(result.barriers), "ctas": int(result.ctas)}
            if spec.uses_hopper:
                totals |= {name: int(result.totals[place]) for place, name in protocol.TOTALS.items()}
            if self.has_counters:
                totals |= sum_counters(counters)
            return EmulatorRun(describe(raw_reports, context), counters, totals)
        finally:
            library.emulator_free(running)   # also stops it, if the keyboard interrupted the loop above

    def _check_launch(self, entry: str, block: tuple[int, int, int], shared_bytes: int, schedule: str) -> None:
        if entry not in self.entries:
            raise ArgumentError(f"entry {entry!r} was not compiled: give one of {', '.join(self.entries)}.")
        threads = block[0] * block[1] * block[2]
        if threads > MAX_THREADS:
            raise ArgumentError(f"block has {threads} threads: a CTA can have {MAX_THREADS}.")
        largest = self._largest_block(self.entries.index(entry))
        if threads > largest:
            raise ArgumentError(
                f"block has {threads} threads, and the __launch_bounds__ of {entry} in {self.path.name} allow "
                f"{largest}: launch fewer, or raise the bound."
            )
        static_bytes = self.static_shared_bytes(entry)
        if shared_bytes < 0 or static_bytes + shared_bytes > MAX_SHARED_BYTES:
            raise ArgumentError(
                f"shared_bytes is {shared_bytes}, with {static_bytes} bytes of static shared memory: "
                f"a CTA can have {MAX_SHARED_BYTES} bytes (227 KB) together."
            )
        if schedule not in protocol.SCHEDULES:
            raise ArgumentError(f"schedule {schedule!r} is not known: give 'eager', 'lazy' or 'random'.")

    def _cluster(self, number: int, given: Sequence[int] | None, grid: tuple[int, int, int]) -> tuple[int, int, int]:
        """The size of a cluster: as given, else as the kernel says, else one CTA."""
        function = getattr(self._library, f"emulator_cluster_{number}", None)
        declared = None if function is None else tuple(int(function(axis)) for axis in range(3))
        dims = _checked_dims("cluster", given or declared or (1, 1, 1), (MAX_CLUSTER,) * 3)
        if declared and dims != declared:
            raise ArgumentError(
                f"cluster is {dims}, and the __cluster_dims__ of {self.entries[number]} are {declared}: "
                "leave the argument out."
            )
        if dims[0] * dims[1] * dims[2] > MAX_CLUSTER:
            raise ArgumentError(f"cluster is {dims}: a cluster can have {MAX_CLUSTER} CTAs; give a smaller one.")
        if any(size % part for size, part in zip(grid, dims, strict=True)):
            raise ArgumentError(
                f"grid is {grid}, which clusters of {dims} do not divide: round it up to multiples of them."
            )
        return dims

    def _bound(self, number: int, which: int) -> int:
        """An argument of the `__launch_bounds__` of an entry, 0 if it has none."""
        function = getattr(self._library, f"emulator_bounds_{number}", None)
        return 0 if function is None else int(function(which))

    def _largest_block(self, number: int) -> int:
        """Threads that the `__launch_bounds__` of an entry allow."""
        return self._bound(number, 0) or MAX_THREADS

    def _registers(self, number: int) -> int:
        """Registers of a thread at launch: what the compiler may use by the `__launch_bounds__`; 0: it has none.

        Each of an SM's four parts has its own registers, so warps count in fours.
        """
        threads = -(-self._bound(number, 0) // WARPGROUP) * WARPGROUP
        if not threads:
            return 0
        ctas = max(1, self._bound(number, 1))
        return min(SM_REGISTERS // (threads * ctas) // 8 * 8, MAX_REGISTERS // 8 * 8)

    def _parameters(self, number: int) -> list[protocol.Parameter]:
        out = (protocol.Parameter * 64)()
        count = getattr(self._library, f"emulator_parameters_{number}")(out)
        return list(out[:count])

    def _shared_arrays(self, entry: str, shared_bytes: int) -> list[SharedArray]:
        arrays = self._static_arrays(entry)
        if shared_bytes:
            names = source.dynamic_shared_names(self._code)
            name = names[0] if len(names) == 1 else "dynamic shared memory"
            arrays.append(SharedArray(name, self._image.symbols[DYNAMIC_SHARED], shared_bytes))
        return arrays

    def _find_lines(self, reports: Sequence[tuple], sites: Sequence[protocol.SiteCounter]) -> None:
        wanted = {site.code for site in sites}
        for report, states in reports:
            wanted |= {report.place.code, report.other.code} | {state.place.code for state in states}
        missing = {offset for offset in wanted if offset >= 0} - self._lines.keys()
        found = source_lines(self._library_path, missing, self.path.name)
        self._lines.update({offset: found.get(offset) for offset in missing})

    def _counters(
        self, sites: Sequence[protocol.SiteCounter], buffers: Sequence[str], arrays: Sequence[str]
    ) -> list[Counter]:
        """One counter for each line, space, op and width: a line may be several instructions.

        The example is that of the instruction which came first. buffers, arrays: names by index.
        """
        examples: dict[tuple, protocol.SiteCounter] = {}
        sums: dict[tuple, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for site in sites:
            key = (self._lines[site.code] or 0, protocol.SPACES[site.space], protocol.OPS[site.op], site.bytes)
            for index, value in enumerate((site.requests, site.transactions, site.ideal, site.lanes)):
                sums[key][index] += value
            if site.example_order and (key not in examples or site.example_order < examples[key].example_order):
                examples[key] = site
        names = {"global": buffers, "shared": arrays}
        counters = []
        for key in sorted(sums):
            if sums[key][0]:
                found = examples.get(key)
                example = (tuple(found.example), names[key[1]][found.buffer]) if found else ()
                counters.append(Counter(*key, *sums[key], *example))
        return counters


def _is_instance(function: str, entry: str) -> bool:
    return SharedArray("", 0, 0, function).is_of(source.base_name(entry))


def _address(library: ctypes.CDLL, name: str) -> int:
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address is not None
    return address


def _checked_dims(name: str, sizes: Sequence[int], limits: tuple[int, int, int]) -> tuple[int, int, int]:
    given = tuple(sizes)
    fits = 1 <= len(given) <= 3 and all(
        isinstance(size, int) and 1 <= size <= limit for size, limit in zip(given, limits, strict=False)
    )
    if not fits:
        raise ArgumentError(f"{name} is {given}: give one to three integers from 1 to {', '.join(map(str, limits))}.")
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z
