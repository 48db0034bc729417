"""Tensor maps: the driver's rules, the record that the emulator reads, the driver's call, and maps in kernels."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from helpers import tensor_map as module
from helpers.arguments import launch_arguments
from helpers.arrays import empty_matrix, random_matrix, to_host
from helpers.emulator import compile_kernel
from helpers.errors import ArgumentError, BackendError
from helpers.gpu import probe
from helpers.tensor_map import MAGIC, RECORD, TensorMap, tensor_map

bf16 = ml_dtypes.bfloat16

# The map as a kernel without the TMA unit can look at it.
PEEK = """
struct alignas(64) TensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void peek(const __grid_constant__ TensorMap map, unsigned long long* words, int add) {
    words[threadIdx.x] = map.opaque[threadIdx.x];
    unsigned short* matrix = reinterpret_cast<unsigned short*>(map.opaque[0]);
    if (threadIdx.x == 0) matrix[8] += add;
}
extern "C" __global__ void read_past(const __grid_constant__ TensorMap map, unsigned short* out, int place) {
    out[0] = reinterpret_cast<const unsigned short*>(map.opaque[0])[place];
}
"""


def matrix(rows=16, columns=64):
    return random_matrix(rows, columns, 1, "emulator")


def of_shape(rows, columns, stride):
    """A matrix that nobody may touch: it has an address, a shape and a stride, and no memory."""
    return as_strided(matrix(), (rows, columns), (stride, 2))


def test_a_map_says_what_it_is_of():
    array = matrix(24, 136)
    found = tensor_map(array, box=(64, 128))
    assert found.array is array and found.address == array.ctypes.data
    assert (found.shape, found.strides_bytes, found.box) == ((136, 24), (272,), (64, 128))
    assert (found.swizzle, found.l2_promotion) == ("128B", "128B")
    assert found.box_bytes == 16_384 and found.nbytes == array.nbytes
    part = tensor_map(array[2:5, 8:24], box=(16, 4), swizzle="none")
    assert part.address == array.ctypes.data + 2 * 272 + 16
    assert (part.shape, part.strides_bytes, part.nbytes) == ((16, 3), (272,), 2 * 272 + 32)


def test_the_record_has_the_layout_that_the_emulator_reads():
    data = tensor_map(matrix(24, 136), box=(32, 8), swizzle="64B", l2_promotion="128B").record().tobytes()
    assert len(data) == RECORD.itemsize == 128
    assert np.frombuffer(data, "<u4")[2:8].tolist() == [MAGIC, 2, 2, 2, 2, 0]
    assert np.frombuffer(data, "<u8")[4:7].tolist() == [136, 24, 272]
    assert np.frombuffer(data, "<u4")[14:16].tolist() == [32, 8]
    assert data[:8] == bytes(8) and data[64:] == bytes(64)


def test_the_largest_that_the_rules_allow_is_taken():
    tensor_map(matrix(), box=(256, 256), swizzle="none")
    tensor_map(matrix(), box=(8, 1), swizzle="none", l2_promotion="none")
    for swizzle, columns in (("128B", 64), ("64B", 32), ("32B", 16)):
        tensor_map(matrix(), box=(columns, 256), swizzle=swizzle)
    tensor_map(of_shape(2**32, 64, 128), box=(64, 64))
    tensor_map(of_shape(2, 2**32, 2**33), box=(64, 64))
    tensor_map(of_shape(4, 64, 2**40 - 16), box=(64, 64))


REFUSED = {
    "begins 2 bytes past a multiple of 16: the address": dict(array=matrix(16, 72).reshape(-1)[1:1025].reshape(16, 64)),
    "18 bytes from row to row: strides in a tensor map must be multiples of 16; pad the rows to a multiple of 8":
        dict(array=np.ones((16, 9), bf16)),
    "1,099,511,627,776 bytes from row to row: strides in a tensor map are positive and less than 2^40":
        dict(array=of_shape(2, 64, 2**40)),
    "-128 bytes from row to row: strides in a tensor map are positive": dict(array=matrix()[::-1]),
    "0 bytes from row to row: strides in a tensor map are positive": dict(array=of_shape(2, 64, 0)),
    "4,294,967,297 rows: a tensor map has from 1 to 2^32": dict(array=of_shape(2**32 + 1, 64, 128)),
    "4,294,967,304 columns: a tensor map has from 1 to 2^32": dict(array=of_shape(2, 2**32 + 8, 2**34)),
    "array has 0 rows": dict(array=matrix()[:0]),
    "4 bytes from one column to the next": dict(array=matrix()[:, ::2]),
    "128 bytes from one column to the next": dict(array=matrix().T),
    "array is of dtype float32 and shape (4, 4): a tensor map here is of a bfloat16 matrix":
        dict(array=np.ones((4, 4), np.float32)),
    "array is of dtype bfloat16 and shape (64,)": dict(array=np.ones(64, bf16)),
    "array is not an array but of type list": dict(array=[[1.0]]),
    "box has 257 rows: a box has from 1 to 256": dict(box=(64, 257)),
    "box has 264 columns: a box has from 1 to 256": dict(box=(264, 8), swizzle="none"),
    "box has 0 rows": dict(box=(64, 0)),
    "box has rows of 24 bytes: the innermost dimension of a box must be a multiple of 16 bytes": dict(box=(12, 8)),
    "box has rows of 256 bytes: with swizzle '128B' the innermost dimension of a box has at most 128 bytes; "
    "give at most 64 columns": dict(box=(128, 64)),
    "with swizzle '64B' the innermost dimension of a box has at most 64 bytes": dict(box=(40, 64), swizzle="64B"),
    "with swizzle '32B' the innermost dimension of a box has at most 32 bytes": dict(box=(24, 64), swizzle="32B"),
    "box is 64: it must be two integers, (columns, rows)": dict(box=64),
    "box is (64, 64, 1)": dict(box=(64, 64, 1)),
    "box is (64.0, 64)": dict(box=(64.0, 64)),
    "box is (True, 64)": dict(box=(True, 64)),
    "swizzle is '256B': it must be one of 'none', '32B', '64B', '128B'": dict(swizzle="256B"),
    "l2_promotion is None: it must be one of 'none', '64B', '128B', '256B'": dict(l2_promotion=None),
}


@pytest.mark.parametrize(("words", "change"), REFUSED.items(), ids=list(REFUSED))
def test_what_the_driver_would_refuse_is_refused_in_words(words, change):
    with pytest.raises(ArgumentError) as caught:
        tensor_map(**{"array": matrix(), "box": (64, 64)} | change)
    assert words in str(caught.value)


def test_a_map_that_is_made_by_hand_is_checked_too():
    with pytest.raises(ArgumentError, match="box has 512 rows"):
        TensorMap(matrix(), (64, 16), (128,), (64, 512))
    for shape, strides in (((64, 4096), (128,)), ((64, 16), (256,)), (None, 128)):
        with pytest.raises(ArgumentError, match="but those of the array are .*: make the map with tensor_map"):
            TensorMap(matrix(), shape, strides, (64, 16))
    with pytest.raises(ArgumentError, match="array is not an array but of type NoneType"):
        TensorMap(None, (64, 16), (128,), (64, 16))


@pytest.mark.parametrize("row", [matrix(8, 12)[2:3, :8], matrix(8, 8)[::-1][:1], of_shape(1, 8, 0)])
def test_of_one_row_any_stride_will_do(row):
    """Nothing is ever a row further, and the last row of a wider matrix is a matrix that rungs take."""
    assert row.flags.c_contiguous and tensor_map(row, (8, 1)).strides_bytes == (16,)
    assert tensor_map(row[:, :5], (8, 1)).strides_bytes == (16,)


def test_masked_arrays_are_refused():
    with pytest.raises(ArgumentError, match=r"array is masked, .*: pass array.filled\(0\)"):
        tensor_map(np.ma.masked_array(matrix()), (64, 16))


@pytest.mark.skipif(probe().gpu is not None, reason="there is a driver")
def test_without_a_driver_a_map_is_not_encoded():
    with pytest.raises(BackendError, match="encoded by the NVIDIA driver, and there is none"):
        tensor_map(matrix(), (64, 16)).encode()


@pytest.fixture
def driver(monkeypatch):
    """A driver that keeps its calls and answers with the given status."""
    from cuda.bindings import driver as real

    calls = []
    answer = SimpleNamespace(status=real.CUresult.CUDA_SUCCESS, calls=calls)

    def encode(*arguments):
        calls.append(arguments)
        return answer.status, SimpleNamespace(opaque=[real.cuuint64_t(word) for word in range(16)])

    monkeypatch.setattr(real, "cuTensorMapEncodeTiled", encode)
    module._encoded.cache_clear()
    yield answer
    module._encoded.cache_clear()


def test_the_driver_is_asked_for_just_this_map(driver):
    array = matrix(24, 136)
    value = tensor_map(array, box=(32, 8), swizzle="64B", l2_promotion="128B").encode()
    assert value.nbytes == 128 and value.size == 1 and value["opaque"].tolist() == [list(range(16))]
    ((kind, rank, address, *sizes, interleave, swizzle, promotion, fill),) = driver.calls
    assert (kind.name, rank, address) == ("CU_TENSOR_MAP_DATA_TYPE_BFLOAT16", 2, array.ctypes.data)
    assert [[int(size) for size in group] for group in sizes] == [[136, 24], [272], [32, 8], [1, 1]]
    assert interleave.name == "CU_TENSOR_MAP_INTERLEAVE_NONE"
    assert swizzle.name == "CU_TENSOR_MAP_SWIZZLE_64B"
    assert promotion.name == "CU_TENSOR_MAP_L2_PROMOTION_L2_128B"
    assert fill.name == "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE"


@pytest.mark.parametrize("name", module.SPANS)
def test_names_of_swizzles_are_the_drivers(driver, name):
    tensor_map(matrix(), box=(16, 8), swizzle=name).encode()
    assert driver.calls[0][-3].name == f"CU_TENSOR_MAP_SWIZZLE_{name.upper()}"


@pytest.mark.parametrize("name", module.PROMOTIONS)
def test_names_of_promotions_are_the_drivers(driver, name):
    tensor_map(matrix(), box=(16, 8), l2_promotion=name).encode()
    assert driver.calls[0][-2].name.removeprefix("CU_TENSOR_MAP_L2_PROMOTION_").removeprefix("L2_") == name.upper()


def test_a_map_is_encoded_once_and_never_for_another_array(driver):
    first, second = matrix(), matrix()
    for array in (first, first, second, first):
        tensor_map(array, box=(64, 64)).encode()["opaque"][0, 0] = 99   # what a caller does to its copy is its own
    assert [call[2] for call in driver.calls] == [first.ctypes.data, second.ctypes.data]
    assert tensor_map(first, box=(64, 64)).encode()["opaque"][0, 0] == 0
    tensor_map(first.reshape(8, 128), box=(64, 64)).encode()
    tensor_map(first, box=(64, 32)).encode()
    tensor_map(first, box=(64, 64), l2_promotion="none").encode()
    assert len(driver.calls) == 5


def test_what_only_the_driver_refuses_is_said_in_a_sentence(driver):
    from cuda.bindings import driver as real

    driver.status = real.CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(BackendError, match=r"refused the tensor map of a 16 x 64 matrix.*\(CUDA_ERROR_INVALID_VALUE\)"):
        tensor_map(matrix(), box=(64, 64)).encode()


def test_maps_are_launch_arguments():
    found = tensor_map(matrix(), box=(64, 64))
    assert launch_arguments((found, 5), "emulator") == (found, 5)
    with pytest.raises(ArgumentError, match="the matrix of argument 0 is a NumPy array in host memory"):
        launch_arguments((found,), "cuda")


# On the emulator


@pytest.fixture
def peek(tmp_path):
    path = tmp_path / "peek.cu"
    path.write_text(PEEK)
    return compile_kernel(path, ("peek", "read_past"), counters=True)


@pytest.mark.compiler
def test_the_emulator_passes_the_record_with_the_address_of_its_copy(peek):
    array = matrix()
    before = array.view(np.uint16).copy()
    found, words = tensor_map(array, box=(64, 64)), np.zeros(16, np.uint64)
    run = peek.launch("peek", (1,), (16,), (found, words, 3))
    assert run.reports == []
    assert words[0] not in (0, array.ctypes.data)
    assert words[1:].tobytes() == found.record().tobytes()[8:]
    # The kernel's change came back, and nothing else changed.
    before.reshape(-1)[8] += 3
    assert np.array_equal(array.view(np.uint16), before)


@pytest.mark.compiler
def test_a_matrix_that_is_read_only_is_not_written_through_its_map(peek):
    array = matrix()
    array.flags.writeable = False
    run = peek.launch("peek", (1,), (16,), (tensor_map(array, box=(64, 64)), np.zeros(16, np.uint64), 3))
    assert run.reports and "map" in run.reports[0].message
    assert np.array_equal(array.view(np.uint16), matrix().view(np.uint16))


@pytest.mark.compiler
def test_only_the_mapped_part_of_a_matrix_can_be_read(peek):
    array, out = matrix(16, 64), np.zeros(1, np.uint16)
    part = tensor_map(array[4:8, 16:32], box=(16, 4))
    assert peek.launch("read_past", (1,), (1,), (part, out, 3 * 64 + 15)).reports == []
    assert out[0] == array[7, 31].view(np.uint16)
    run = peek.launch("read_past", (1,), (1,), (part, out, 3 * 64 + 16))
    assert run.reports[0].kind == "out_of_bounds" and "map" in run.reports[0].message


@pytest.mark.compiler
def test_maps_and_parameters_must_agree(peek):
    found, words = tensor_map(matrix(), box=(64, 64)), np.zeros(16, np.uint64)
    for words_of_error, arguments in {
        "map of peek must be a structure of 128 bytes: give a tensor map, made with tensor_map": (matrix(), words, 1),
        "words of peek is a tensor map, and its parameter a pointer: pass the array itself": (found, found, 1),
        "add of peek is a tensor map, and its parameter is not": (found, words, found),
    }.items():
        with pytest.raises(ArgumentError, match=words_of_error):
            peek.launch("peek", (1,), (16,), arguments)


# On a GPU


@pytest.mark.hopper
def test_the_driver_takes_what_the_rules_allow():
    array = random_matrix(1000, 136, 1, "cuda")
    for swizzle, columns in (("none", 256), ("128B", 64), ("64B", 32), ("32B", 16)):
        value = tensor_map(array, box=(columns, 256), swizzle=swizzle, l2_promotion="none").encode()
        assert value["opaque"].any()


@pytest.mark.hopper
def test_a_map_reaches_a_kernel_by_value(tmp_path):
    from helpers.kernel import load

    path = tmp_path / "copy_words.cu"
    path.write_text(PEEK.replace("matrix[8] += add", "words[15] += add * (matrix == nullptr)"))
    import cupy

    words = cupy.zeros(16, cupy.uint64)
    found = tensor_map(empty_matrix(64, 64, "cuda"), box=(64, 64))
    load(1, "cuda", file=path, entry="peek").launch((1,), (16,), (found, words, 1))
    assert np.array_equal(words.get(), found.encode()["opaque"][0])
    assert to_host(found.array).shape == (64, 64)
