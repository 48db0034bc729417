"""The right answer, and how far a bf16 result may lie from it. Works on NumPy and on CuPy arrays."""

import math
from typing import Any

import numpy as np

from helpers.arguments import is_device_array
from helpers.arrays import namespace

UNIT_ROUNDOFF_BF16 = 2.0**-8    # half a unit in the last of 8 significant bits, relative
UNIT_ROUNDOFF_FP32 = 2.0**-24
ACCUMULATION = 4.0              # margin over the expected growth of rounding errors in a sum, see `error_bound`


def module_of(matrix: Any) -> Any:
    """numpy or cupy, whichever the array belongs to."""
    return namespace("cuda" if is_device_array(matrix) else "emulator")


def as_float(matrix: Any) -> Any:
    """A bf16 array as fp32, exactly: a bf16 is the upper half of an fp32."""
    bits = matrix.view(np.uint16).astype(np.uint32)
    bits <<= np.uint32(16)
    return bits.view(np.float32)


def reference_product(a: Any, b: Any) -> Any:
    """a @ b in fp32, of fp32 matrices (M, K) and (K, N)."""
    xp = module_of(a)
    try:
        return xp.matmul(a, b)
    except ImportError:   # CuPy without the cuBLAS library; DynamicLibNotFoundError is one
        return xp.asarray(np.matmul(a.get(), b.get()))
    except RuntimeError as error:
        if xp is np or "cublas" not in str(error).lower():
            raise
        return xp.asarray(np.matmul(a.get(), b.get()))


def error_bound(a: Any, b: Any, reference: Any) -> Any:
    """How far each element of a bf16 result (M, N) may lie from the fp32 reference.

    One rounding to bf16, relative to the element; plus the errors of an fp32 sum of K products, which grow with sqrt(K)
    (Higham, "Accuracy and Stability of Numerical Algorithms", 4.2) and are relative to the length of the row of A
    times the length of the column of B, which bounds the sum of the products' magnitudes (Cauchy and Schwarz).
    """
    xp = module_of(a)
    depth = a.shape[1]
    lengths = xp.linalg.norm(a, axis=1)[:, None] * xp.linalg.norm(b, axis=0)[None, :]
    summation = np.float32(ACCUMULATION * UNIT_ROUNDOFF_FP32 * math.sqrt(depth))
    return np.float32(UNIT_ROUNDOFF_BF16) * xp.abs(reference) + summation * lengths
