"""matmul on a Hopper GPU, with CuPy's arrays and, where it is installed, torch's tensors. Skipped elsewhere."""

import numpy as np
import pytest

from helpers import matmul
from helpers.arrays import BFLOAT16
from helpers.errors import ArgumentError

pytestmark = pytest.mark.hopper

LONG = 200_000_000   # clock cycles, a tenth of a second: what reads too early reads what was there before
SHAPES = [
    (1, 8, 8), (1, 4096, 4096), (130, 264, 200), (1000, 4096, 512), (2600, 2600, 136), (4096, 4096, 72),
    (4096, 6152, 72), (3584, 3584, 72), (3072, 3072, 72), (2560, 2560, 72),   # each kernel that works in rounds
]


def values(rows, columns, seed):
    """Of -1, 0 and 1: the sums are exact in fp32, so C has one right value everywhere."""
    return np.random.default_rng(seed).integers(-1, 2, (rows, columns)).astype(np.float32)


def on_gpu(array):
    import cupy

    return cupy.asarray(array.astype(BFLOAT16).view(np.uint16)).view(BFLOAT16)


def is_product(C, a, b):
    """Whether C, of CuPy or torch, has the bits of a @ b."""
    words = C.view(np.uint16).get() if hasattr(C, "get") else C.view(_torch().int16).cpu().numpy().view(np.uint16)
    return np.array_equal(words, (a @ b).astype(BFLOAT16).view(np.uint16))


def _torch():
    return pytest.importorskip("torch")


@pytest.fixture
def torch():
    found = _torch()
    if not found.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    return found


def tensor(torch, array):
    return torch.from_numpy(array).cuda().to(torch.bfloat16)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cupys_product_is_right(shape):
    m, n, k = shape
    a, b = values(m, k, 1), values(k, n, 2)
    A, B = on_gpu(a), on_gpu(b)
    C = matmul(A, B)
    assert is_product(C, a, b)
    C[...] = 0
    assert matmul(A, B, C) is C and is_product(C, a, b)


def test_a_row_of_a_wider_matrix():
    a, b = values(4, 12, 1), values(8, 16, 2)
    assert is_product(matmul(on_gpu(a)[2:3, :8], on_gpu(b)), a[2:3, :8], b)


def test_host_and_gpu_do_not_mix():
    A = on_gpu(values(8, 8, 1))
    with pytest.raises(ArgumentError, match=r"B lies in host memory, and A on the GPU: .*cupy.asarray\(B\)"):
        matmul(A, np.zeros((8, 8), BFLOAT16))
    with pytest.raises(ArgumentError, match="out shares memory with A"):
        matmul(A, on_gpu(values(8, 8, 2)), A)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_torchs_product_is_right(torch, shape):
    m, n, k = shape
    a, b = values(m, k, 1), values(k, n, 2)
    A, B = tensor(torch, a), tensor(torch, b)
    C = matmul(A, B)
    assert isinstance(C, torch.Tensor) and C.device == A.device and is_product(C, a, b)
    out = torch.zeros_like(C)
    address = out.data_ptr()
    assert matmul(A, B, out) is out and out.data_ptr() == address and is_product(out, a, b)
    assert torch.allclose(C.float(), (A @ B).float(), rtol=2**-7)


def test_it_stands_in_line_on_torchs_stream(torch):
    a, b = values(256, 256, 1), values(256, 256, 2)
    A, B, late = torch.zeros(256, 256, device="cuda", dtype=torch.bfloat16), tensor(torch, b), tensor(torch, a)
    matmul(A, B)   # compiled and loaded
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LONG)
        A.copy_(late)
        C = matmul(A, B)
        assert not stream.query()   # it did not wait
        copy = C.clone()
    stream.synchronize()
    assert is_product(copy, a, b)


@pytest.mark.parametrize(("torch_late", "cupy_late"), [(LONG, 0), (0, LONG)])
def test_two_libraries_streams_wait_for_each_other(torch, torch_late, cupy_late):
    import cupy

    a, b = values(256, 256, 1), values(256, 256, 2)
    A, late_a = torch.zeros(256, 256, device="cuda", dtype=torch.bfloat16), tensor(torch, a)
    B, late_b = cupy.zeros((256, 256), BFLOAT16), on_gpu(b)
    matmul(B, A)
    first, second = torch.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.ExternalStream(second.ptr)):
        torch.cuda._sleep(cupy_late)
    with torch.cuda.stream(first), second:
        torch.cuda._sleep(torch_late)
        A.copy_(late_a)
        B[...] = late_b
        C = matmul(B, A)   # on torch's stream, behind the late B
        copy = C.copy()    # on CuPy's stream, behind the late C
    second.synchronize()
    assert is_product(copy, b, a)


def test_it_is_captured_in_a_graph(torch):
    a, b = values(256, 256, 1), values(256, 256, 2)
    A, B = tensor(torch, a), tensor(torch, b)
    out = matmul(A, B)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        matmul(A, B, out)
        new = matmul(B, A)
    A.copy_(B)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert is_product(out, b, b) and is_product(new, b, b)


def test_what_torch_would_lose_is_refused(torch):
    good = tensor(torch, values(8, 8, 1))
    weight = torch.nn.Parameter(good.clone())
    for wrong, words in {
        weight: r"B requires a gradient, .*B.detach\(\)",
        tensor(torch, values(8, 16, 1)).T[:8]: r"B is a strided view, .*B.contiguous\(\)",
        good.float(): r"B has dtype torch.float32: .*B.to\(torch.bfloat16\)",
        good.cpu(): r"B lies in host memory, .*B.cuda\(\)",
        good.to("meta"): "B is a torch tensor on device 'meta'",
        good.to_sparse(): "B has layout torch.sparse_coo",
        good.reshape(-1): "B has shape",
    }.items():
        with pytest.raises(ArgumentError, match=words):
            matmul(good, wrong)
    with torch.no_grad():
        assert not matmul(good, weight).requires_grad
    with torch.inference_mode():
        assert matmul(good, good).shape == (8, 8)


def test_torch_notices_what_was_written(torch):
    x = tensor(torch, values(8, 8, 1)).requires_grad_()
    saved = x.detach().clone()
    y = (x * saved).sum()
    matmul(x.detach(), x.detach().clone(), saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_tensors_of_another_gpu_are_refused(torch):
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    near = tensor(torch, values(8, 8, 1))
    far = near.to("cuda:1")
    with pytest.raises(ArgumentError, match=r"B lies on GPU 1 but GPU 0 is current: .*cupy.cuda.Device\(1\)"):
        matmul(near, far)
    with torch.cuda.device(1):
        assert is_product(matmul(far, far), values(8, 8, 1), values(8, 8, 1))
