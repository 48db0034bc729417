"""All conformance cases."""

from itertools import chain

from .cases import Case
from .sync_cases import draw_cases, mbarrier_cases, sent_cases, stmatrix_cases, thread_cases, transposed_cases
from .tma_cases import load_cases, multicast_cases, narrow_cases, refused_cases, ring_cases, store_cases, two_loads
from .wgmma_cases import accumulation_cases, advanced_cases, group_cases, layout_cases, ownership_cases

MAKERS = (
    stmatrix_cases, transposed_cases, thread_cases, mbarrier_cases, sent_cases, draw_cases,
    load_cases, two_loads, ring_cases, multicast_cases, store_cases, narrow_cases,
    ownership_cases, layout_cases, accumulation_cases, group_cases, advanced_cases,
    refused_cases,
)  # fmt: skip
CASES: tuple[Case, ...] = tuple(chain.from_iterable(maker() for maker in MAKERS))
# Those that no GPU has answered yet, by name: until then their predictions stand for its answers. A record takes them
# off here.
AWAITED: frozenset[str] = frozenset()
TOPICS: tuple[str, ...] = tuple(dict.fromkeys(case.topic for case in CASES))


def entries_of(file: str) -> tuple[str, ...]:
    """The kernels of a file that cases use, so that it is compiled once for all of them."""
    return tuple(sorted({case.entry for case in CASES if case.file == file}))
