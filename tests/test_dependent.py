"""Programmatic dependent launches: what the driver is told, what the emulator checks, and that none reads early."""

import ctypes
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from emulator_support import KERNELS, compiled, marked_line

from helpers import gpu
from helpers.arrays import random_matrix, to_host
from helpers.cuda import compile_cubin, sass
from helpers.dependent import Parameters
from helpers.errors import BackendError
from helpers.kernel import emulate, load
from helpers.rungs import PARTITIONS, Rung, find_rung, fitted_tiles, split_k
from helpers.tensor_map import OPAQUE
from helpers.variants import edit, save_text

WAIT = "griddepcontrol_wait();"
EARLIEST = (f"    {WAIT}", f"    griddepcontrol_launch_dependents();\n    {WAIT}")   # the next launch may begin
FILE = "emulator_dependent.cu"
SIZE = (256, 256, 320)
RING = {"STAGES": 2}   # saves the emulator time
DEPENDENT = [(find_rung(10), RING), split_k(64, 128, 4, 4), fitted_tiles(192, 2), (PARTITIONS, RING)]
EACH = pytest.mark.parametrize(("rung", "defines"), DEPENDENT, ids=lambda given: getattr(given, "name", ""))


# What the driver is told


def tensor_map() -> np.ndarray:
    """A structure of 128 bytes that is passed by value."""
    return np.arange(16, dtype=np.uint64).view(OPAQUE)


def told(address: int, types: list) -> list:
    """What the addresses at an address point to."""
    addresses = (ctypes.c_void_p * len(types)).from_address(address)
    return [kind.from_address(place) for kind, place in zip(types, addresses, strict=True)]


def test_arguments_are_packed_by_what_they_are():
    on_gpu = SimpleNamespace(data=SimpleNamespace(ptr=0x7F12_3456_7890), shape=(8, 8))
    packed = Parameters((tensor_map(), on_gpu, np.int32(-3), np.float32(0.5), np.arange(2, dtype=np.int32)[1:]))
    types = [ctypes.c_uint64 * 16, ctypes.c_uint64, ctypes.c_int32, ctypes.c_float, ctypes.c_int32]
    found = told(packed.address, types)
    assert list(found[0]) == list(range(16))
    assert [item.value for item in found[1:]] == [0x7F12_3456_7890, -3, 0.5, 1]


class Driver:
    """Keeps what it is told to launch, and answers with a status."""

    def __init__(self, status):
        self.status, self.launches = status, []

    def launch(self, config, function, parameters, extra):
        sizes = [[getattr(config, f"{what}Dim{axis}") for axis in "XYZ"] for what in ("grid", "block")]
        (attribute,) = config.attrs
        self.launches.append(SimpleNamespace(
            sizes=sizes,
            shared=config.sharedMemBytes,
            stream=int(config.hStream),
            attribute=attribute.id.name,
            allowed=attribute.value.programmaticStreamSerializationAllowed,
            function=int(function),
            values=[item.value for item in told(parameters, [ctypes.c_uint64, ctypes.c_int32])],
            extra=extra,
        ))
        return (self.status,)


class Function:
    """A function of CuPy's; it must not be called."""

    kernel = SimpleNamespace(ptr=0x1234)
    max_dynamic_shared_size_bytes = 0


@pytest.fixture
def launched(monkeypatch):
    """Launches one on a driver that answers so, and returns the driver and the function."""
    driver = pytest.importorskip("cuda.bindings.driver")

    def launch(status: str = "CUDA_SUCCESS", shared: int = 1024):
        fake, function = Driver(getattr(driver.CUresult, status)), Function()
        stream = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=77)))
        monkeypatch.setitem(sys.modules, "cupy", stream)
        monkeypatch.setattr(driver, "cuLaunchKernelEx", fake.launch)
        array = SimpleNamespace(data=SimpleNamespace(ptr=4096))
        gpu.prepared_launch(function, (6, 2), (384,), (array, np.int32(9)), shared, dependent=True)()
        return fake, function

    return launch


def test_the_driver_is_told_that_the_launch_may_begin_early(launched):
    fake, _ = launched()
    (found,) = fake.launches
    assert found.sizes == [[6, 2, 1], [384, 1, 1]] and (found.shared, found.stream) == (1024, 77)
    assert found.attribute == "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION" and found.allowed == 1
    assert (found.function, found.values, found.extra) == (0x1234, [4096, 9], 0)


def test_much_shared_memory_is_asked_for_first(launched):
    assert launched(shared=1024)[1].max_dynamic_shared_size_bytes == 0
    assert launched(shared=200_000)[1].max_dynamic_shared_size_bytes == 200_000


def test_a_refused_launch_is_one_sentence(launched):
    with pytest.raises(BackendError) as caught:
        launched("CUDA_ERROR_INVALID_VALUE")
    assert str(caught.value) == (
        "The GPU refused the launch (CUDA_ERROR_INVALID_VALUE): run the kernel on the emulator to see where, "
        "then start Python anew."
    )


# What the emulator checks


def copied(fault: int, counters: bool = True, dependent: bool = True, schedule: str = "lazy"):
    """The run of the copying kernel, and whether it copied."""
    module = compiled(FILE, "copy", counters=counters, FAULT=fault)
    values, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    order = np.arange(64, dtype=np.int32)[::-1].copy()
    run = module.launch("copy", (1,), (64,), (values, order, out), schedule=schedule, dependent=dependent)
    return run, (out == values).all()


@pytest.mark.compiler
@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
@pytest.mark.parametrize(("fault", "line", "words", "count"), [
    (1, "early_read", "reads global memory (from) before its thread has waited for the launch before", 64),
    (2, "read", "reads global memory (from) before", 1),
    (2, "write", "writes to global memory (to) before", 1),
    (3, "early_write", "writes to global memory (to) before", 64),
    (4, "read", "reads global memory (from) before", 64),
    (4, "write", "writes to global memory (to) before", 64),
])
def test_what_another_launch_may_write_is_left_alone_until_the_wait(fault, line, words, count, schedule):
    run, is_right = copied(fault, schedule=schedule)
    found = [report for report in run.reports if report.line == marked_line(FILE, line)]
    assert is_right and [(report.kind, report.count) for report in found] == [("early_access", count)]
    message = found[0].message
    assert message.startswith(f"Line {found[0].line} {words}") and message.endswith(", of CTA (0,0,0).")
    assert "let each thread execute griddepcontrol_wait() first; thread (" in message
    assert len(run.reports) == (2 if fault in (2, 4) else 1) and (fault != 2 or "thread (5,0,0)" in message)


@pytest.mark.compiler
@pytest.mark.parametrize("counters", [False, True])
def test_lists_are_read_before_the_wait_and_other_launches_need_none(counters):
    for fault in (0, 1, 2, 3):
        run, is_right = copied(fault, counters, dependent=fault == 0)
        assert is_right and run.reports == []


@pytest.mark.compiler
@EACH
@pytest.mark.parametrize("schedule", ["lazy", "random"])
@pytest.mark.parametrize("counters", [False, True])
def test_a_rung_that_does_not_wait_is_named(rung, defines, schedule, counters, monkeypatch):
    assert rung.dependent
    text = edit(rung.path.stem, (f"    {WAIT}", "    ;"))
    options = {"schedule": schedule, "counters": counters, "sms": 2, "defines": defines}
    assert emulate(rung, SIZE, **options).run.reports == []
    found = emulate(rung, SIZE, file=save_text(text, f"no_wait_{rung.number}"), **options).run.reports
    assert {report.kind for report in found} == {"early_access"}
    lines = {text.splitlines()[report.line - 1].strip() for report in found}
    loads = [line for line in lines if line.startswith("cp_async_bulk_tensor_load")]
    assert any("&A_map" in line for line in loads) and any("&B_map" in line for line in loads)
    stores = [line for line in lines if "store(&C_map" in line or "C + size_t(row)" in line]
    counts = [line for line in lines if "relaxed_gpu(&arrived[" in line]   # the file's own variable
    draws = [line for line in lines if "relaxed_gpu(drawn" in line]
    assert len(loads) + len(stores) + len(counts) + len(draws) == len(lines) and bool(draws) == rung.partitions
    assert bool(stores) == (counters or rung.maps.C is not None) and bool(counts) == ("arrived[" in text)


@pytest.mark.compiler
@pytest.mark.parametrize("schedule", ["lazy", "random"])
@pytest.mark.parametrize("counters", [False, True])
@pytest.mark.parametrize("early", range(4))
def test_a_kernel_may_let_the_next_launch_begin(early, counters, schedule):
    module = compiled(FILE, "turn", counters=counters, EARLY=early)
    arrays = [np.arange(192, dtype=np.float32), np.zeros(192, np.float32)]
    for place in range(3):
        pair = (arrays[place % 2], arrays[1 - place % 2])
        assert module.launch("turn", (6,), (32,), pair, schedule=schedule, dependent=True).reports == []
    assert (arrays[1] == np.roll(np.arange(192), 3) + 3).all()


@pytest.mark.compiler
@EACH
@pytest.mark.parametrize("counters", [False, True])
def test_a_rung_may_let_the_next_launch_begin(rung, defines, counters):
    file = save_text(edit(rung.path.stem, EARLIEST), f"earliest_{rung.number}")
    found = emulate(rung, SIZE, file=file, sms=2, defines=defines, counters=counters)
    assert found.verification.passed and found.run.reports == []


# That no launch reads early


@pytest.mark.parametrize(("early", "calls"), [(0, 0), (1, 1), (3, 1)])
def test_the_hardware_has_an_instruction_for_each(early, calls):
    code = sass(compile_cubin(KERNELS / FILE, {"EARLY": early}), "turn")
    assert (code.count("ACQBULK"), code.count("PREEXIT")) == (1, calls)


@pytest.mark.hopper
@pytest.mark.parametrize("early", range(4))
def test_a_chain_of_launches_that_may_begin_early_is_right(early):
    """Thousands of short launches, each of which reads what the one before wrote."""
    import cupy

    function = gpu.load_function(compile_cubin(KERNELS / FILE, {"EARLY": early}).path, "turn")
    count, launches = 264 * 128, 2001
    start = np.arange(count, dtype=np.float32)
    arrays = [cupy.asarray(start), cupy.zeros(count, np.float32)]
    steps = [
        gpu.prepared_launch(function, (count // 128,), (128,), pair, 0, dependent=True)
        for pair in (tuple(arrays), tuple(arrays[::-1]))
    ]
    for place in range(launches):
        steps[place % 2]()
    gpu.synchronize()
    assert (arrays[1].get() == np.roll(start, launches) + launches).all()


@pytest.mark.hopper
@EACH
@pytest.mark.parametrize("size", [128, 264, 2048])
@pytest.mark.parametrize("edits", [(), (EARLIEST,)], ids=["as it is", "earliest"])
def test_a_chain_of_launches_gives_what_single_ones_give(rung: Rung, defines, size, edits):
    """Each reads what the one before wrote, and writes over what that one read."""
    file = save_text(edit(rung.path.stem, *edits), f"chain_{rung.number}")
    kernel, launches = load(rung, "cuda", defines={} if defines is RING else defines, file=file), 20
    start = random_matrix(size, size, 1, "cuda")
    B = random_matrix(size, size, 2, "cuda", scale=size**-0.5)   # so that the chain neither fades nor overflows
    buffers = [random_matrix(size, size, 1, "cuda"), random_matrix(size, size, 1, "cuda")]
    steps = [kernel.prepared(buffers[0], B, buffers[1]), kernel.prepared(buffers[1], B, buffers[0])]
    results = []
    for is_single in (True, *[False] * 5):
        buffers[0].view(np.uint16)[...] = start.view(np.uint16)
        gpu.synchronize()
        for place in range(launches):
            steps[place % 2]()
            if is_single:
                gpu.synchronize()
        gpu.synchronize()
        results.append(to_host(buffers[launches % 2]).view(np.uint16))
    assert np.isfinite(results[0].view(start.dtype).astype(np.float32)).all() and results[0].any()
    assert all((found == results[0]).all() for found in results[1:])
