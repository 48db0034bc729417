"""Kernels on a GPU: what cannot be seen without one. Skipped elsewhere."""

import ml_dtypes
import numpy as np
import pytest

from helpers.arrays import random_matrix, to_host
from helpers.errors import ArgumentError, BackendError
from helpers.gpu import meets, probe
from helpers.kernel import load
from helpers.rungs import RUNGS
from helpers.subjects import SUBJECTS
from helpers.verify import verify, verify_all

pytestmark = pytest.mark.gpu

SHARED = """
extern "C" __global__ void copy(const int* from, int* to, int n) {
    extern __shared__ int box[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) box[n - 1 - i] = from[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = box[i];
}
"""


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_rungs_and_variants_pass_on_the_gpu(subject):
    rung = subject.rung
    answer = probe().gpu
    if not meets(rung.compute_capability, answer.capability):
        pytest.skip(f"{rung.name} needs compute capability {rung.compute_capability}")
    wanted = zip((1000, 1500, 777), rung.multiples, strict=True)
    m, n, k = (-(-size // multiple) * multiple for size, multiple in wanted)
    m = min(m, rung.most_rows or m)
    for entry in (rung.entry, *rung.twins):
        kernel = load(rung, "cuda", entry=entry, defines=subject.defines)
        assert kernel.backend == "cuda" and kernel.run is None
        for result in (*verify_all(kernel), verify(kernel, (m, n, k))):
            assert result.passed, result.reason


def test_same_bits_as_the_emulator_up_to_the_order_of_the_sum():
    A, B = (random_matrix(64, 64, seed, "emulator") for seed in (1, 2))
    on_gpu = load(1, "cuda")(*(random_matrix(64, 64, seed, "cuda") for seed in (1, 2)))
    on_cpu = load(1, "emulator")(A, B)
    assert np.allclose(to_host(on_gpu).astype(np.float32), on_cpu.astype(np.float32), rtol=2**-7, atol=1e-3)


def test_random_matrices_are_the_same_on_both_backends():
    on_gpu = random_matrix(33, 65, 7, "cuda")
    assert on_gpu.dtype == ml_dtypes.bfloat16 and on_gpu.data.ptr % 256 == 0
    assert np.array_equal(to_host(on_gpu).view(np.uint16), random_matrix(33, 65, 7, "emulator").view(np.uint16))


def test_wrong_operands_are_refused():
    good, host = random_matrix(8, 8, 0, "cuda"), random_matrix(8, 8, 0, "emulator")
    with pytest.raises(ArgumentError, match="B is a NumPy array in host memory"):
        load(1, "cuda")(good, host)
    with pytest.raises(ArgumentError, match="A is a CuPy array in GPU memory"):
        load(1, "emulator")(good, host)
    with pytest.raises(ArgumentError, match="A is stored by columns"):
        load(1, "cuda")(random_matrix(8, 9, 0, "cuda").T, good)
    with pytest.raises(ArgumentError, match="A is a strided view"):
        load(1, "cuda")(random_matrix(8, 16, 0, "cuda")[:, ::2], good)
    with pytest.raises(ArgumentError, match="C shares memory with A"):
        load(1, "cuda")(good, random_matrix(8, 8, 1, "cuda"), out=good)


def test_misaligned_base_is_refused():
    rung = RUNGS[2]
    m, n, k = rung.multiples
    shifted = random_matrix(1, m * k + 8, 0, "cuda").reshape(-1)[1:1 + m * k].reshape(m, k)
    with pytest.raises(ArgumentError, match="A begins 2 bytes past a multiple of 16"):
        load(rung, "cuda")(shifted, random_matrix(k, n, 1, "cuda"))


def test_open_launch_with_much_shared_memory(tmp_path):
    import cupy

    path = tmp_path / "copy.cu"
    path.write_text(SHARED)
    kernel = load(1, "cuda", file=path, entry="copy")
    count = 96 * 1024 // 4
    source, target = cupy.arange(count, dtype=cupy.int32), cupy.zeros(count, cupy.int32)
    kernel.launch((1,), (256,), (source, target, count), shared_bytes=4 * count)
    assert (target == source[::-1]).all()
    with pytest.raises(ArgumentError, match="shared_bytes is"):
        kernel.launch((1,), (256,), (source, target, count), shared_bytes=2**20)


def test_missing_entry_is_said_in_words(tmp_path):
    path = tmp_path / "copy.cu"
    path.write_text(SHARED)
    with pytest.raises(BackendError, match="The driver cannot load matmul of copy-"):
        load(1, "cuda", file=path)(random_matrix(8, 8, 0, "cuda"), random_matrix(8, 8, 1, "cuda"))


