"""The records that Python and the runtime library exchange: the twin of `runtime/protocol.h`.

Same fields in the same order. When the library is loaded, `VERSION` and the sizes of `RECORDS` are compared with its
own; it is only built from the header that lay beside this file when this process loaded it.
"""

import ctypes
import hashlib
from pathlib import Path

VERSION = 8
HEADER = Path(__file__).with_name("runtime") / "protocol.h"
HEADER_DIGEST = hashlib.sha256(HEADER.read_bytes()).hexdigest()

_BASIC_KINDS = (
    "out_of_bounds", "misaligned", "race", "deadlock", "barrier_divergence", "step_limit", "time_limit", "crash",
    "stack_overflow", "stray_write",
)
_SYNC_KINDS = (
    "barrier_uninitialised", "barrier_reinitialised", "barrier_overwritten", "barrier_address", "barrier_count",
    "barrier_arrivals", "barrier_bytes", "barrier_unsynchronised", "named_barrier", "cluster_barrier", "exited_cta",
    "exit_bytes", "exit_unwaited", "register_budget", "proxy_fence", "async_race", "barrier_scope",
    "cluster_rank", "cluster_unwritten", "early_access",
)
_ASYNC_KINDS = (
    "tensor_map", "tma_alignment", "multicast_mask", "store_read_only", "load_over_wgmma", "load_over_load",
    "load_over_store", "wgmma_before_load", "store_before_load", "write_over_store", "write_over_wgmma",
    "store_unwritten", "wgmma_unwritten", "store_without_fence", "store_undrained", "wgmma_undrained",
    "wgmma_unfenced", "wgmma_mismatch", "wgmma_incomplete", "accumulator_written", "accumulator_read",
    "accumulator_unset", "wgmma_descriptor", "swizzle_mismatch", "wgmma_out_of_bounds", "tma_coordinate",
    "cache_policy",
)
REPORT_KINDS = dict(enumerate(_BASIC_KINDS)) | dict(enumerate(_SYNC_KINDS, 20)) | dict(enumerate(_ASYNC_KINDS, 40))
SPACES = ("global", "shared")
OPS = ("load", "store")
SCHEDULES = ("eager", "lazy", "random")
_BASIC_STATES = ("not_started", "running", "exited", "syncthreads", "syncwarp")
_SYNC_STATES = ("mbarrier", "named_barrier", "cluster_barrier", "registers", "warpgroup")
_ASYNC_STATES = ("wgmma",)
STATES = dict(enumerate(_BASIC_STATES)) | dict(enumerate(_SYNC_STATES, 20)) | dict(enumerate(_ASYNC_STATES, 40))
# Names of the launch's totals, by their place; the others are not in use.
_SYNC_TOTALS = (
    "mbarrier_arrivals", "mbarrier_waits", "mbarrier_waits_blocked", "cluster_barriers", "named_barriers",
    "cluster_load_bytes",
)
_ASYNC_TOTALS = (
    "tma_load_boxes", "tma_load_bytes", "tma_multicast_bytes_saved", "tma_store_boxes", "tma_store_bytes",
    "tma_oob_bytes", "wgmma_instructions", "wgmma_flops",
)
TOTALS = dict(enumerate(_SYNC_TOTALS)) | dict(enumerate(_ASYNC_TOTALS, 10))
TOTAL_COUNT = 32
PARAMETER_KINDS = ("pointer", "int", "unsigned", "float", "other")

WARP = 32
Dim = ctypes.c_uint32 * 3


class BufferSpec(ctypes.Structure):
    """A pointer argument."""

    _fields_ = [
        ("host", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("argument", ctypes.c_void_p),
        ("writable", ctypes.c_int32),
        ("is_list", ctypes.c_int32),
    ]


class ArraySpec(ctypes.Structure):
    """A shared array, or a variable of the kernel's file."""

    _fields_ = [("begin", ctypes.c_uint64), ("bytes", ctypes.c_uint64)]


class LaunchSpec(ctypes.Structure):
    """Everything about a launch."""

    _fields_ = [
        ("version", ctypes.c_int32),
        ("counters", ctypes.c_int32),
        ("entry", ctypes.c_void_p),
        ("dynamic_shared", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("grid", Dim),
        ("block", Dim),
        ("cluster", Dim),
        ("uses_hopper", ctypes.c_int32),
        ("registers", ctypes.c_int32),
        ("dependent", ctypes.c_int32),
        ("sms", ctypes.c_int32),
        ("shared_bytes", ctypes.c_uint64),
        ("dynamic_begin", ctypes.c_uint64),
        ("image_begin", ctypes.c_uint64),
        ("image_bytes", ctypes.c_uint64),
        ("code_begin", ctypes.c_uint64),
        ("code_end", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("step_limit", ctypes.c_uint64),
        ("schedule", ctypes.c_int32),
        ("workers", ctypes.c_int32),
        ("buffers", ctypes.POINTER(BufferSpec)),
        ("arrays", ctypes.POINTER(ArraySpec)),
        ("variables", ctypes.POINTER(ArraySpec)),
        ("buffer_count", ctypes.c_int32),
        ("array_count", ctypes.c_int32),
        ("variable_count", ctypes.c_int32),
    ]


class Place(ctypes.Structure):
    """A place in the source, by line or by the offset of the machine code (-1: unknown)."""

    _fields_ = [("code", ctypes.c_int64), ("line", ctypes.c_int32), ("thread", ctypes.c_int32)]


class RawReport(ctypes.Structure):
    """A broken rule, not yet in words."""

    _fields_ = [
        ("kind", ctypes.c_int32),
        ("space", ctypes.c_int32),
        ("op", ctypes.c_int32),
        ("other_op", ctypes.c_int32),
        ("bytes", ctypes.c_int32),
        ("buffer", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("detail", ctypes.c_int32),
        ("state_count", ctypes.c_int32),
        ("cta", Dim),
        ("other_cta", Dim),
        ("owner", Dim),
        ("has_owner", ctypes.c_int32),
        ("first_state", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("place", Place),
        ("other", Place),
        ("barrier", ctypes.c_int32),
        ("barrier_line", ctypes.c_int32),
        ("values", ctypes.c_int64 * 8),
    ]


class WarpState(ctypes.Structure):
    """Where some lanes of a warp are."""

    _fields_ = [
        ("warp", ctypes.c_int32),
        ("lanes", ctypes.c_uint32),
        ("state", ctypes.c_int32),
        ("barrier", ctypes.c_int32),
        ("cta", Dim),
        ("reserved", ctypes.c_int32),
        ("place", Place),
        ("values", ctypes.c_int64 * 6),
    ]


class BarrierSpec(ctypes.Structure):
    """An mbarrier that was initialised: its offset in shared memory, the line, and which initialisation it was."""

    _fields_ = [
        ("offset", ctypes.c_int32),
        ("line", ctypes.c_int32),
        ("order", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


class SiteCounter(ctypes.Structure):
    """What the accesses of one instruction cost, and one of its requests as an example."""

    _fields_ = [
        ("code", ctypes.c_int64),
        ("space", ctypes.c_int32),
        ("op", ctypes.c_int32),
        ("bytes", ctypes.c_int32),
        ("buffer", ctypes.c_int32),
        ("requests", ctypes.c_uint64),
        ("lanes", ctypes.c_uint64),
        ("transactions", ctypes.c_uint64),
        ("ideal", ctypes.c_uint64),
        ("example_order", ctypes.c_uint64),
        ("example", ctypes.c_int64 * WARP),
    ]


class RawResult(ctypes.Structure):
    """What a launch leaves."""

    _fields_ = [
        ("reports", ctypes.POINTER(RawReport)),
        ("states", ctypes.POINTER(WarpState)),
        ("counters", ctypes.POINTER(SiteCounter)),
        ("mbarriers", ctypes.POINTER(BarrierSpec)),
        ("report_count", ctypes.c_int64),
        ("state_count", ctypes.c_int64),
        ("counter_count", ctypes.c_int64),
        ("mbarrier_count", ctypes.c_int64),
        ("barriers", ctypes.c_uint64),
        ("ctas", ctypes.c_uint64),
        ("steps", ctypes.c_uint64),
        ("totals", ctypes.c_uint64 * TOTAL_COUNT),
    ]


class Parameter(ctypes.Structure):
    """A kernel's parameter: its kind (index into PARAMETER_KINDS) and size."""

    _fields_ = [("kind", ctypes.c_int32), ("bytes", ctypes.c_int32)]


RECORDS = (BufferSpec, ArraySpec, LaunchSpec, Place, RawReport, WarpState, BarrierSpec, SiteCounter, RawResult)
