"""Where the GPU's memory does not suffice, one sentence says what was needed and what is free."""

import sys
from pathlib import Path
from types import SimpleNamespace

import cupy
import numpy as np
import pytest
from cupy.cuda.memory import OutOfMemoryError
from cupy_backends.cuda.api.runtime import CUDARuntimeError

from helpers import arrays, device, gpu
from helpers import nvml as nvml_module
from helpers.arrays import empty_matrix, random_matrix, to_backend
from helpers.cublas import CublasLt
from helpers.entry import guarded
from helpers.errors import BackendError
from helpers.gpu import launch_function, memory_for
from helpers.rungs import find_rung
from helpers.verify import check

GIB = 1 << 30
WORDS = (
    "The GPU's memory does not suffice for {}: 3.00 GiB more is needed, and 1.50 GiB of 140.00 GiB are free; give a "
    "smaller size, delete arrays of this session, or see in `nvidia-smi` who else uses the GPU."
)


def full(*_: object, **__: object) -> None:
    raise OutOfMemoryError(3 * GIB, 100 * GIB, 0)


@pytest.fixture(autouse=True)
def gpu_without_memory(monkeypatch) -> None:
    monkeypatch.setattr(cupy.cuda.runtime, "memGetInfo", lambda: (3 * GIB // 2, 140 * GIB))
    monkeypatch.setattr(arrays, "namespace", lambda backend: SimpleNamespace(empty=full))
    monkeypatch.setattr(arrays, "probe", lambda: SimpleNamespace(gpu="a GPU"))


def raised(work) -> str:
    with pytest.raises(BackendError) as caught:
        work()
    return str(caught.value)


def test_a_matrix_that_does_not_fit_says_what_was_needed_and_what_is_free():
    matrix = random_matrix(64, 96, 0, "emulator")
    assert raised(lambda: empty_matrix(50_000, 60_000, "cuda")) == WORDS.format("a matrix of 50,000 x 60,000")
    assert raised(lambda: to_backend(matrix, "cuda")) == WORDS.format("a copy of a matrix of 64 x 96")
    assert raised(lambda: to_backend(matrix[0], "cuda")) == WORDS.format("a copy of a matrix of 96")
    assert raised(lambda: random_matrix(64, 96, 0, "cuda")) == WORDS.format("a copy of a matrix of 64 x 96")


def test_so_does_a_comparison_and_a_launch(monkeypatch):
    A, B, C = (random_matrix(8, 8, seed, "emulator") for seed in range(3))
    monkeypatch.setattr(sys.modules["helpers.verify"], "reference_product", full)   # the package's name is the function
    assert raised(lambda: check(C, A, B)) == WORDS.format("the comparison with the reference")
    assert raised(lambda: launch_function(full, (1,), (1,), (), 0)) == WORDS.format("this launch")


def test_so_do_a_verification_and_cublas(monkeypatch):
    module = sys.modules["helpers.verify"]
    monkeypatch.setattr(module, "_operands", full)
    rung = find_rung(1)
    assert raised(lambda: module.verify(SimpleNamespace(rung=rung))) == WORDS.format("the verification")
    monkeypatch.setattr(cupy, "empty", full)
    library = SimpleNamespace(cublasLtCreate=lambda handle: 0, cublasLtDestroy=lambda handle: 0)
    assert raised(lambda: CublasLt(library)) == WORDS.format("cuBLAS's workspace")


def test_so_does_a_command_wherever_it_happens(capsys):
    assert guarded(full) == 1
    assert capsys.readouterr().err == WORDS.format("this command") + "\n"


def no_context() -> None:
    """What CUDA says where there is no room for a context: the first call that needs one."""
    raise CUDARuntimeError(2)   # cudaErrorMemoryAllocation


def test_where_not_even_a_context_has_room_nvml_says_how_much_is_free(monkeypatch, capsys):
    monkeypatch.setattr(cupy.cuda.runtime, "memGetInfo", no_context)
    nvml = SimpleNamespace(
        nvmlDeviceGetHandleByPciBusId=lambda address: address,
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(free=GIB // 4, total=140 * GIB, used=0),
    )
    monkeypatch.setattr(nvml_module, "nvml_library", lambda: nvml)
    monkeypatch.setattr(cupy.cuda.runtime, "deviceGetPCIBusId", lambda index: "0000:1B:00.0")
    monkeypatch.setattr(arrays, "namespace", lambda backend: SimpleNamespace(empty=no_context_for))
    words = WORDS.replace("3.00 GiB more is", "more, beside a CUDA context of some hundred MiB, is")
    words = words.replace("1.50 GiB", "256 MiB")
    assert raised(lambda: empty_matrix(64, 96, "cuda")) == words.format("a matrix of 64 x 96")
    assert raised(lambda: launch_function(no_context_for, (1,), (1,), (), 0)) == words.format("this launch")
    assert guarded(no_context) == 1 and capsys.readouterr().err == words.format("this command") + "\n"
    monkeypatch.setattr(device, "probe", lambda: SimpleNamespace(gpu=SimpleNamespace(name="NVIDIA H200"), problem=""))
    monkeypatch.setattr(device, "read_device", no_context_for)
    assert device._look() == (None, words.format("a look at it"))


def no_context_for(*_: object, **__: object) -> None:
    no_context()


@pytest.mark.parametrize("entry", ["CUDA_ERROR_OUT_OF_MEMORY: out of memory", "CUDA_ERROR_NOT_FOUND: not found"])
def test_so_it_is_where_a_kernel_is_loaded(monkeypatch, entry, tmp_path):
    refusal = type("CUDADriverError", (RuntimeError,), {})

    def load(**_: object) -> None:
        raise refusal(entry)

    monkeypatch.setattr(cupy, "RawModule", load)
    said = raised(lambda: gpu.load_function(tmp_path / "a.cubin", "matmul"))
    assert ("does not suffice" in said) == ("MEMORY" in entry) and ("cannot load matmul" in said) != ("MEMORY" in entry)


def test_what_the_driver_does_not_say_is_left_out(monkeypatch):
    def broken() -> None:
        raise RuntimeError("cudaErrorUnknown")

    monkeypatch.setattr(cupy.cuda.runtime, "memGetInfo", broken)
    monkeypatch.setattr(nvml_module, "nvml_library", lambda: None)
    said = str(gpu.out_of_memory("it", OutOfMemoryError(3 * GIB, 0, 0)))
    assert "for it: 3.00 GiB more is needed, and it does not say how much is free; give" in said
    assert "for it: more is needed, and it does not" in str(gpu.out_of_memory("it", MemoryError("no numbers")))


def test_a_gpu_that_another_process_has_to_itself_is_said_in_a_sentence(monkeypatch):
    refusal = type("CUDARuntimeError", (RuntimeError,), {})

    def busy(*_: object, **__: object) -> None:
        raise refusal("cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable")

    monkeypatch.setattr(arrays, "namespace", lambda backend: SimpleNamespace(empty=busy))
    said = raised(lambda: random_matrix(64, 96, 0, "cuda"))
    assert said == (
        "The GPU cannot be used for a copy of a matrix of 64 x 96 (cudaErrorDevicesUnavailable: CUDA-capable "
        "device(s) is/are busy or unavailable): see in `nvidia-smi` whether another process has it to itself or has "
        "taken its memory, or use the emulator."
    )
    of_launch = said.replace("a copy of a matrix of 64 x 96", "this launch")
    assert raised(lambda: launch_function(busy, (1,), (1,), (), 0)) == of_launch
    monkeypatch.setattr(cupy, "RawModule", busy)   # the first use of a GPU may be loading a kernel
    assert raised(lambda: gpu.load_function(Path("spin.cubin"), "spin")) == of_launch
    with pytest.raises(RuntimeError, match="our own"), memory_for("a matrix"):
        raise RuntimeError("our own mistake")


def test_the_memory_of_the_machine_is_another_matter(capsys):
    with pytest.raises(MemoryError), memory_for("a matrix"):
        raise MemoryError("Unable to allocate 3 GiB")
    assert guarded(lambda: np.empty(1 << 60, np.uint8)) == 1
    said = capsys.readouterr().err
    assert said.startswith("The memory does not suffice (Unable to allocate 1.00 EiB") and "GPU" not in said
