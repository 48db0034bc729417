"""Sentences for reports on asynchronous data: TMA copies, wgmma and stmatrix. See `words.py`."""

from collections.abc import Callable

from helpers.emulator.context import Context, cta_name, who
from helpers.emulator.protocol import OPS, RawReport, WarpState
from helpers.emulator.words_sync import load_barrier

_SWIZZLES = ("none", "32B", "64B", "128B")
_OPERANDS = ("A", "B")
_LAYOUTS = ("without a swizzle", "with the 128B swizzle")


def _where(raw: RawReport, context: Context) -> str:
    """The place in shared memory: `smem, bytes 1024 to 2047`; of another CTA, its name too."""
    begin, name = raw.offset, "shared memory"
    if 0 <= raw.buffer < len(context.arrays):
        begin, name = raw.offset - context.arrays[raw.buffer].begin, context.arrays[raw.buffer].name
    return f"{name}, bytes {begin} to {begin + raw.bytes - 1}"


def _where_of(raw: RawReport, context: Context) -> str:
    owner = "" if tuple(raw.cta) == tuple(raw.other_cta) else f" of {cta_name(raw.other_cta)}"
    return _where(raw, context) + owner


def _tensor_map(raw: RawReport, context: Context) -> str:
    fault, value = raw.values[0], raw.values[1]
    problems = (
        "gets something that is no tensor map: pass what tensor_map() makes as `const __grid_constant__ TensorMap`, "
        "and its address here",
        f"uses a tensor map with the {_SWIZZLES[value % len(_SWIZZLES)]} swizzle, which the emulator does not play: "
        "use 128B or none",
        f"uses a tensor map of {value} dimensions, or with rows that are no multiple of 16 bytes: "
        "the emulator knows 2 dimensions",
        "uses a tensor map of memory that is no argument of this launch: make the map of an array that lives",
    )
    return f"{context.at(raw.place)} {problems[fault]}; {who(raw, context)}."


def _tma_alignment(raw: RawReport, context: Context) -> str:
    action = "loads a box to" if OPS[raw.op] == "store" else "stores a box from"
    why = (
        "the 128B swizzle starts anew every 1024 bytes, so its tiles must start there: __align__(1024)"
        if raw.values[0] == 1024
        else "TMA wants multiples of 128: __align__(128)"
    )
    return (
        f"{context.at(raw.place)} {action} {_where(raw, context)}, which is {raw.offset % raw.values[0]} bytes past a "
        f"multiple of {raw.values[0]}: {why}; {who(raw, context)}."
    )


def _tma_coordinate(raw: RawReport, context: Context) -> str:
    action = "loads a box from" if OPS[raw.op] == "store" else "stores a box to"
    x, multiple, is_y = raw.values[:3]
    if not multiple:
        return (
            f"{context.at(raw.place)} {action} {'xy'[is_y]} = {x}, which must not be negative, or a GPU stops with an "
            f"illegal instruction (only loads may begin before the matrix): let stored boxes begin at 0 or later; "
            f"{who(raw, context)}."
        )
    return (
        f"{context.at(raw.place)} {action} x = {x}, which must be a multiple of {multiple} elements (16 bytes), or a "
        f"GPU stops with an illegal instruction: let boxes begin at such an x, as {x // multiple * multiple}; "
        f"{who(raw, context)}."
    )


def _multicast_mask(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} multicasts to the CTAs of mask {raw.values[0]:#x}, and the cluster has "
        f"{raw.values[1]}: one bit for each that gets the box, the lowest for CTA 0; {who(raw, context)}."
    )


def _cache_policy(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} gives TMA the cache policy {raw.values[0] & (1 << 64) - 1:#x}, which no createpolicy "
        f"function made: pass what createpolicy_evict_first() or createpolicy_evict_last() returns; "
        f"{who(raw, context)}."
    )


def _store_read_only(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} stores through a tensor map of {context.buffers[raw.buffer][0]}, which is read-only: "
        f"{who(raw, context)}."
    )


def _load_over_wgmma(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} loads into memory that the wgmma of {context.at(raw.other)} may still read, since "
        "nobody has waited for that wgmma: release a stage only after the wgmma_wait_group that covers it, and wait "
        f"for the release before the next load; {_where_of(raw, context)}, {who(raw, context)}, after "
        f"{context.thread(raw.other.thread)}."
    )


def _load_over_load(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} loads into memory that the load of {context.at(raw.other)} has yet to write: "
        "wait until the stage is free, and give each box its own place; "
        f"{_where_of(raw, context)}, {who(raw, context)}."
    )


def _load_over_store(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} loads into memory that the TMA store of {context.at(raw.other)} may still read: "
        f"cp_async_bulk_wait_group_read<0>() comes before; {_where_of(raw, context)}, {who(raw, context)}."
    )


def _wgmma_before_load(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} multiplies with {_OPERANDS[raw.values[0]]} before the load of "
        f"{context.at(raw.other)} has brought it: wait for {load_barrier(raw, context)}; {_where(raw, context)}, "
        f"{who(raw, context)}."
    )


def _store_before_load(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} stores from memory that the load of {context.at(raw.other)} has yet to write: "
        f"wait for {load_barrier(raw, context)}; {_where(raw, context)}, {who(raw, context)}."
    )


def _write_over_store(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} overwrites what the TMA store of {context.at(raw.other)} may still read: its thread "
        "waits with cp_async_bulk_wait_group_read<0>(), and a barrier tells the others; "
        f"{_where(raw, context)}, {who(raw, context)}."
    )


def _write_over_wgmma(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} overwrites what the wgmma of {context.at(raw.other)} may still read: "
        f"wgmma_wait_group<0>() comes before; {_where(raw, context)}, {who(raw, context)}."
    )


def _store_unwritten(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} stores memory to which nothing was written, at column {raw.values[0]} of row "
        f"{raw.values[1]} of the matrix: all threads must have written their part, with a barrier before the store; "
        f"box of {_where(raw, context)}, {who(raw, context)}."
    )


def _wgmma_unwritten(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} multiplies with {_OPERANDS[raw.values[0]]} from memory to which nothing was written: "
        "check the descriptor's address and byte offsets against the boxes that were loaded; "
        f"{_where(raw, context)}, {who(raw, context)}."
    )


def _store_without_fence(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} starts a TMA store, and no thread has executed fence_proxy_async() since the last: "
        "TMA does not see what threads wrote to shared memory before their fence; write, fence_proxy_async(), barrier, "
        f"store; {_where(raw, context)}, {who(raw, context)}."
    )


def _store_undrained(raw: RawReport, context: Context) -> str:
    missing = (
        "cp_async_bulk_wait_group_read<0>()"
        if raw.values[0]
        else "cp_async_bulk_commit_group() and cp_async_bulk_wait_group_read<0>()"
    )
    return (
        f"the TMA store of {context.at(raw.place)} may still read shared memory when its thread exits: "
        f"call {missing} first; {who(raw, context)}."
    )


def _wgmma_undrained(raw: RawReport, context: Context) -> str:
    missing = "wgmma_wait_group<0>()" if raw.values[0] else "wgmma_commit_group() and wgmma_wait_group<0>()"
    return (
        f"the wgmma of {context.at(raw.place)} is not waited for when its thread exits, so its accumulators were never "
        f"there: call {missing} before they are used; {who(raw, context)}."
    )


def _wgmma_unfenced(raw: RawReport, context: Context) -> str:
    need = "without it the tensor cores need not see the registers as they are"
    if raw.values[1]:
        fault = "adds to accumulators that were written after the wgmma_fence() before it"
        need = "the tensor cores need not see that; let the fence be the last before the wgmma"
    elif raw.values[0]:
        fault = "starts a wgmma with no wgmma_fence() before, and accumulators were accessed"
    else:
        fault = "starts a wgmma with no wgmma_fence() before, and it is the first"
    return f"{context.at(raw.place)} {fault}: {need}; {who(raw, context)}."


def _wgmma_mismatch(raw: RawReport, context: Context) -> str:
    difference = (
        "gives another descriptor of A", "gives another descriptor of B", "asks for another shape",
        "gives another `accumulate`", "gives another array of accumulators", "commits a group of other wgmma",
        "is another wgmma",
    )[raw.values[0]]
    than = f" than {context.thread(raw.other.thread)}, in {context.at(raw.other)}" if raw.other.thread >= 0 else ""
    return (
        f"{context.at(raw.place)} {difference}{than}: a wgmma is one instruction of all 128 threads of a "
        f"warpgroup, with the same operands; {who(raw, context)}."
    )


def _wgmma_incomplete(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} starts a wgmma in a warpgroup of {raw.values[0]} threads: it takes 128, so the "
        f"block's size must be a multiple of 128; {who(raw, context)}."
    )


def _accumulator_written(raw: RawReport, context: Context) -> str:
    return (
        f"accumulators were written before {context.at(raw.place)} while a wgmma had them: from wgmma to "
        f"wgmma_wait_group they must not be touched; {who(raw, context)}."
    )


def _accumulator_read(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} reads accumulators that a wgmma still has: their values are there only after "
        f"wgmma_commit_group() and the wgmma_wait_group that covers it; {who(raw, context)}."
    )


def _accumulator_unset(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} adds to accumulators that were never given a value: let the first wgmma of a tile "
        f"not accumulate, or set them to 0; {who(raw, context)}."
    )


def _wgmma_descriptor(raw: RawReport, context: Context) -> str:
    fault, value = raw.values[0], raw.values[1]
    problems = (
        f"uses a descriptor with the {_SWIZZLES[value % len(_SWIZZLES)]} swizzle, which the emulator does not play: "
        "use 128B or none",
        f"uses a descriptor with base offset {value}, which the emulator does not play: "
        "let tiles start at multiples of 1024 bytes",
        f"makes a descriptor of a tile at byte {value} of shared memory: it must start at a multiple of 16",
        f"makes a descriptor with a byte offset of {value}: it must be a multiple of 16 below 262144",
        f"moves a descriptor on by {value} bytes: it must be a multiple of 16",
        f"moves a descriptor on to byte {value} of shared memory: it must stay from 0 to 262143",
    )
    return f"{context.at(raw.place)} {problems[fault]}; {who(raw, context)}."


def _swizzle_mismatch(raw: RawReport, context: Context) -> str:
    reads = raw.values[0] >> 1
    return (
        f"{context.at(raw.place)} reads {_OPERANDS[raw.values[0] & 1]} {_LAYOUTS[reads]}, but {context.at(raw.other)} "
        f"loads it {_LAYOUTS[1 - reads]}: the tensor map and the descriptor must say the same; "
        f"{_where(raw, context)}, {who(raw, context)}."
    )


def _wgmma_out_of_bounds(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} multiplies with {_OPERANDS[raw.values[0]]} from {_where(raw, context)}, which is not "
        f"all of one shared array: check the descriptor's address and byte offsets; {who(raw, context)}."
    )


SENTENCES: dict[str, Callable[[RawReport, Context], str]] = {
    "tensor_map": _tensor_map,
    "tma_alignment": _tma_alignment,
    "tma_coordinate": _tma_coordinate,
    "multicast_mask": _multicast_mask,
    "cache_policy": _cache_policy,
    "store_read_only": _store_read_only,
    "load_over_wgmma": _load_over_wgmma,
    "load_over_load": _load_over_load,
    "load_over_store": _load_over_store,
    "wgmma_before_load": _wgmma_before_load,
    "store_before_load": _store_before_load,
    "write_over_store": _write_over_store,
    "write_over_wgmma": _write_over_wgmma,
    "store_unwritten": _store_unwritten,
    "wgmma_unwritten": _wgmma_unwritten,
    "store_without_fence": _store_without_fence,
    "store_undrained": _store_undrained,
    "wgmma_undrained": _wgmma_undrained,
    "wgmma_unfenced": _wgmma_unfenced,
    "wgmma_mismatch": _wgmma_mismatch,
    "wgmma_incomplete": _wgmma_incomplete,
    "accumulator_written": _accumulator_written,
    "accumulator_read": _accumulator_read,
    "accumulator_unset": _accumulator_unset,
    "wgmma_descriptor": _wgmma_descriptor,
    "swizzle_mismatch": _swizzle_mismatch,
    "wgmma_out_of_bounds": _wgmma_out_of_bounds,
}



def _wgmma_state(state: WarpState, context: Context) -> str:
    arrived, line = state.values[:2]
    missing = f": {arrived} of its 128 threads have come to the wgmma of line {line}" if line else ""
    return f"wait for the warpgroup's wgmma{missing}"


STATE_WORDS: dict[str, Callable[[WarpState, Context], str]] = {"wgmma": _wgmma_state}
