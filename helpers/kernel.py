"""One kernel of the ladder on one backend: the GPU, or the emulator where there is none.

    kernel = load("01_coalescing")
    C = kernel(random_matrix(512, 256, seed=1), random_matrix(256, 384, seed=2))
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers import gpu
from helpers.arguments import check_launch, check_output, check_product, launch_arguments
from helpers.arrays import empty_matrix, random_matrix, resolve_backend
from helpers.backends import Backend, CudaBackend, EmulatorBackend, require_schedule
from helpers.checks import checked_path, require_integer
from helpers.cuda import (
    HOPPER,
    CompileReport,
    Cubin,
    code_hash,
    compile_cubin,
    compile_report,
    sass,
)
from helpers.defines import checked_defines, require_declared
from helpers.errors import ArgumentError, CourseError
from helpers.launches import TileOrders, plan_launch
from helpers.rungs import H200_SMS, Rung, find_rung
from helpers.tables import counter_table
from helpers.words import plural

if TYPE_CHECKING:
    from helpers.emulator import Counter, EmulatorRun
    from helpers.verify import Verification

__all__ = ["Emulation", "Kernel", "KernelFault", "emulate", "load", "random_matrix"]


class KernelFault(CourseError):
    """The emulator caught the kernel breaking a rule; the message is the first report. `run` has all of them."""

    def __init__(self, message: str, run: "EmulatorRun"):
        super().__init__(message)
        self.run = run


class Kernel:
    """A kernel that multiplies bf16 matrices: `kernel(A, B)` returns C = A @ B.

    rung, entry: which kernel of the ladder, and which function of its file.
    path: the file, which is another one than the rung's if it was loaded with `file=`. It is compiled once: load it
    again after an edit.
    defines: what the preprocessor of the file sees. backend: `"cuda"` or `"emulator"`.
    run: reports and counters of the last launch on the emulator, None on the GPU.
    extra_arguments: what each launch passes behind its own arguments, for a variant with parameters of its own.
    sms: the SMs that a persistent rung is launched for: the GPU's own, 132 on the emulator. Another number can be set.
    why_emulated: where there is a GPU that cannot run it, why it runs on the emulator, a sentence; else "".
    """

    def __init__(
        self, rung: Rung, implementation: Backend, entry: str, defines: Mapping[str, str | int], path: Path
    ):
        self.rung = rung
        self.entry = entry
        self.defines = dict(defines)
        self.path = path
        self.run: EmulatorRun | None = None
        self.extra_arguments: tuple = ()
        self.sms = implementation.sms
        self.why_emulated = ""
        self._implementation = implementation
        self._orders = TileOrders(implementation.name)

    def __repr__(self) -> str:
        why = f": {self.why_emulated}" if self.why_emulated else ""
        return f"<Kernel {self.rung.name}.{self.entry} on {self.backend}{why}>"

    @property
    def backend(self) -> str:
        return self._implementation.name

    @property
    def entries(self) -> tuple[str, ...]:
        """The functions of the file that can be launched: the rung's and its twins; of another file, this one."""
        if self.path != self.rung.path:
            return (self.entry,)
        return tuple(dict.fromkeys((self.rung.entry, *self.rung.twins, self.entry)))

    @property
    def source(self) -> str:
        """The text of the kernel file."""
        return self.path.read_text(encoding="utf-8")

    @property
    def architecture(self) -> str:
        """What NVRTC compiles for: the card's own architecture on the GPU, Hopper's without one."""
        implementation = self._implementation
        return implementation.gpu.architecture if isinstance(implementation, CudaBackend) else HOPPER

    @cached_property
    def cubin(self) -> Cubin:
        """The machine code for an NVIDIA GPU."""
        return compile_cubin(self.path, self.defines, self.architecture)

    @cached_property
    def _compiled(self) -> Any:
        return self._implementation.compile(self)

    @property
    def report(self) -> CompileReport:
        """Registers, spills, shared memory and warnings. Needs NVRTC but no GPU."""
        return compile_report(self.cubin, self.entry)

    @property
    def code_hash(self) -> str:
        """Identity of the machine code; comments don't change it. Needs NVRTC but no GPU."""
        return code_hash(self.cubin, self.entry)

    @property
    def sass(self) -> str:
        """The machine instructions. Needs NVRTC and nvdisasm but no GPU."""
        return sass(self.cubin, self.entry)

    def __call__(self, A: Any, B: Any, out: Any = None) -> Any:
        """C = A @ B, into `out` if it is given. A (M, K), B (K, N) and C (M, N) are row-major bf16.

        On the GPU it returns before the kernel has finished. Raises ArgumentError, with nothing launched, if an
        argument is wrong, and KernelFault if the emulator caught the kernel breaking a rule.
        """
        m, n, _ = check_product(self.rung, A, B, self.backend)
        if out is None:
            out = empty_matrix(m, n, self.backend)
        self.prepared(A, B, out)()
        return out

    def prepared(self, A: Any, B: Any, out: Any) -> Callable[[], None]:
        """C = A @ B as a function of no arguments that launches it, with everything checked and made beforehand.

        A call then costs the CPU a launch and nothing else, which counts where kernels take microseconds. Calls on two
        streams at once need a function each: they would write the same C. A CUDA graph that captured a call holds but
        addresses: keep the function for as long as the graph is launched.
        """
        check_product(self.rung, A, B, self.backend)
        check_output(self.rung, out, A, B, self.backend)
        return self.planned(A, B, out)

    def planned(self, A: Any, B: Any, out: Any) -> Callable[[], None]:
        """What `prepared` makes, of arguments that have been checked already."""
        return partial(_launch_of, (A, B, out), self.addressed(A, B, out))

    def addressed(self, A: Any, B: Any, out: Any) -> Callable[[], None]:
        """The same by the arrays' addresses: a dependent launch then keeps none of them alive.

        It serves whatever arrays of these shapes lie there when it is called.
        """
        require_integer("sms", self.sms, 1)
        plan = plan_launch(self.rung, A, B, out, self.sms, self._orders)
        check_launch(plan.grid, plan.block, plan.shared_bytes, self._implementation.shared_limit)
        passed = launch_arguments(plan.arguments, self.backend)
        if isinstance(self._implementation, CudaBackend):
            arguments = (*passed, *self.extra_arguments)
            launch = self._implementation.prepared(
                self._compiled, plan.grid, plan.block, arguments, plan.shared_bytes
            )
            return partial(_launch_of, (self._orders, *plan.kept), launch)
        return partial(self._launch, plan.grid, plan.block, passed, plan.shared_bytes)

    def launch(
        self, grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any], shared_bytes: int = 0
    ) -> "EmulatorRun | None":
        """Launch the kernel as it is, with the arguments of its parameter list; Python integers become C `int`.

        grid: CTAs along x, y, z; block: threads. shared_bytes: dynamic shared memory per CTA.
        Raises ArgumentError, with nothing launched, for a launch that a GPU would refuse, and KernelFault if the
        emulator caught the kernel breaking a rule.
        """
        check_launch(grid, block, shared_bytes, self._implementation.shared_limit)
        passed = launch_arguments(arguments, self.backend)
        self._launch(tuple(map(int, grid)), tuple(map(int, block)), passed, int(shared_bytes))
        return self.run

    def _launch(self, grid: tuple[int, ...], block: tuple[int, ...], passed: tuple, shared_bytes: int) -> None:
        self.run = None
        arguments = (*passed, *self.extra_arguments)
        self.run = self._implementation.launch(self._compiled, self.entry, grid, block, arguments, shared_bytes)
        if self.run is not None and self.run.reports:
            raise KernelFault(fault_sentence(self, self.run), self.run)


def _launch_of(kept: tuple[Any, ...], launch: Callable[[], None]) -> None:
    """Launch; what is kept stays alive as long as this is bound to it, since the launch holds but addresses."""
    launch()


def load(
    rung: str | int | Rung,
    backend: str = "auto",
    *,
    entry: str | None = None,
    defines: Mapping[str, str | int] | None = None,
    file: str | Path | None = None,
) -> Kernel:
    """A rung's kernel, ready to be called.

    backend: `"cuda"`, `"emulator"`, or `"auto"`: the GPU if there is one that can run this rung; the kernel's
    `why_emulated` says why another one cannot.
    entry: another function of the file. defines: such as `{"BUFFERS": 1}`; one that is 0 or 1 where the rung's file is
    given none is a switch, and must be 0 or 1; stages are at most the rung's. file: another .cu file with the same
    launch, for experiments.
    Raises ArgumentError for names that don't exist, BackendError if the machine cannot run it.
    """
    found = find_rung(rung)
    reason = _unfit(found) if backend == "auto" else ""
    kernel = _kernel(found, _choose_backend(found, "emulator" if reason else backend), entry, defines, file)
    kernel.why_emulated = reason
    return kernel


@dataclass(frozen=True)
class Emulation:
    """A run on the emulator. run: its reports and counters; verification: whether C is right; source: of the kernel."""

    run: "EmulatorRun"
    verification: "Verification"
    C: Any
    source: str = ""

    def table(self, width: int | None = 110) -> str:
        """The counters, a row for each source line, as text of at most so many columns (None: of any width)."""
        return counter_table(self.run.counters, self.source, width)

    def counter(self, array: str, op: str = "load") -> "Counter":
        """The counter of the first line that loads from (or stores to) an argument or a shared array.

        Raises ArgumentError if there is none, naming those that there are.
        """
        found = [counter for counter in self.run.counters if (counter.array, counter.op) == (array, op)]
        if found:
            return found[0]
        known = sorted({f"{counter.array} ({counter.op})" for counter in self.run.counters if counter.array})
        raise ArgumentError(
            f"no line has its example of a {op} in array {array!r}: give one of {', '.join(known) or '(none counted)'}."
        )


def emulate(
    rung: str | int | Rung,
    size: tuple[int, int, int],
    *,
    schedule: str = "lazy",
    seed: int = 0,
    counters: bool = True,
    sms: int = H200_SMS,
    entry: str | None = None,
    defines: Mapping[str, str | int] | None = None,
    file: str | Path | None = None,
) -> Emulation:
    """Run a rung once on the emulator, with (M, N, K) = size, and check the result.

    A kernel that breaks a rule is no error here: the run's reports say what it did, and the verification fails.
    schedule: how asynchronous work and warps are ordered; `"random"` orders them by `seed`, which also makes A and B.
    counters: count memory traffic, and check bounds and races; without them a run is ten times faster.
    sms: of the GPU that is played; a persistent rung launches a CTA for each.
    Works on any machine with a C++ compiler, also beside a GPU. Raises ArgumentError for wrong arguments.
    """
    from helpers.verify import run_once

    require_integer("seed", seed, 0)
    require_integer("sms", sms, 1)
    if not isinstance(counters, bool):
        raise ArgumentError(f"counters is {counters!r}: it must be True or False.")
    require_schedule(schedule)
    backend = EmulatorBackend(schedule=schedule, seed=seed, counters=counters, sms=sms)
    kernel = _kernel(find_rung(rung), backend, entry, defines, file)
    verification, C = run_once(kernel, size, seed)
    return Emulation(run=kernel.run, verification=verification, C=C, source=kernel.source)


def fault_sentence(kernel: Kernel, run: "EmulatorRun") -> str:
    """The first report of a run in one sentence, with the number of further ones."""
    first = run.reports[0]
    place = f"{kernel.path.name}:{first.line}" if first.line else kernel.path.name
    others = len(run.reports) - 1
    more = f" (and {plural(others, 'more report')})" if others else ""
    return f"{place}: {first.kind.replace('_', ' ')}: {first.message.rstrip('.')}{more}."


def _unfit(rung: Rung) -> str:
    """Why this machine's GPU cannot run a rung, a sentence; "" if it can, or if there is none."""
    found = gpu.probe().gpu
    problem = gpu.unfit(rung.name, rung.compute_capability, found) if found else ""
    return f"{problem}, so it runs on the emulator." if problem else ""


def _choose_backend(rung: Rung, backend: str) -> Backend:
    if resolve_backend(backend) == "emulator":
        return EmulatorBackend()
    return CudaBackend(gpu.require_gpu(rung.name, rung.compute_capability))


def _kernel(
    rung: Rung,
    backend: Backend,
    entry: str | None,
    defines: Mapping[str, str | int] | None,
    file: str | Path | None,
) -> Kernel:
    path = rung.path if file is None else checked_path("file", file, ".cu file")
    if not os.path.isfile(path):
        what = "is a folder" if os.path.isdir(path) else "is no file" if os.path.exists(path) else "does not exist"
        raise ArgumentError(f"The kernel file {path} {what}: give the path of a .cu file.")
    checked = checked_defines(defines)
    if path == rung.path:
        require_declared(rung, checked)
    _check_constants(rung, checked)
    known = (rung.entry, *rung.twins)
    if entry is not None and file is None and entry not in known:
        raise ArgumentError(f"entry {entry!r} is not in {path.name}: give {' or '.join(map(repr, known))}.")
    return Kernel(rung, backend, entry or rung.entry, checked, path)


def _check_constants(rung: Rung, defines: Mapping[str, str | int]) -> None:
    """Raises ArgumentError if the file would be compiled for another launch than the rung's: `Rung.constants`."""
    given = {**rung.defaults, **defines}
    for name, value in rung.constants.items():
        found = given.get(given[name], given[name])   # a value may be another define's name
        if str(found) != str(value):
            raise ArgumentError(
                f"defines make {name} {found}, but {rung.name} is launched for {value}: give both from one call, "
                f"rung, defines = {rung.maker}(...) of helpers.rungs."
            )
