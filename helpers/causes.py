"""Why a measurement is slower than the recording: from facts to findings, in words. Pure: measures and asks nothing.

`helpers.performance` collects the facts. A finding that is not `ok` is a cause that fits; the verdict says on which
side to look. The reasoning: cuBLAS ran in turn on the same chip. If it lost as much as the kernel, the machine is
slower; if it lost nothing, the kernel is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from helpers.device import Device, board
from helpers.jsonfile import display
from helpers.nvml import BUSY_PCT, BoardState
from helpers.records import Measurement, file_name, size_name, three_digits
from helpers.rungs import find_rung

SPEED_MARGIN = 0.03    # of TFLOP/s: two machines of one kind differ by so much
RATIO_MARGIN = 0.02    # of the ratio to cuBLAS: two recordings agree within this (helpers.agreement)
CLOCK_MARGIN = 0.03
UNEVEN = 0.02          # quartiles of the rounds apart, as a share of the median
FULL_WAVES = 0.85      # share of the SMs' places that the tiles fill

MACHINE = ("card", "power cap", "clocks", "throttle reasons", "other processes")
KERNEL = ("toolkit", "size", "code", "ptxas", "launches", "rounds")

_REASONS = {
    "sw_power_cap": ("the power limit", "let the GPU rest before a burst; sustained, the limit is part of the figure"),
    "sw_thermal_slowdown": ("heat", "look for the airflow: `nvidia-smi -q -d TEMPERATURE`"),
    "hw_thermal_slowdown": ("heat", "look for the airflow: `nvidia-smi -q -d TEMPERATURE`"),
    "hw_power_brake_slowdown": ("the power supply's brake", "look for the machine's power supply"),
    "hw_slowdown": ("the board itself", "look for heat and power supply: `nvidia-smi -q -d PERFORMANCE`"),
    "applications_clocks_setting": ("a clock set by hand", "an administrator resets it: `nvidia-smi -rac -rgc`"),
    "sync_boost": ("a group of GPUs that share a clock", "an administrator takes this one out of it"),
    "display_clock_setting": ("a display", "measure on a GPU without one"),
}


@dataclass(frozen=True)
class Facts:
    """What is known. No measurement, no recording, no GPU are possible: then None, and `no_gpu` says why.

    mine: measured live. recorded: the rung's at this size and regime. device, state: this GPU; the state is from a
    moment when nothing of this process ran. held_mhz, recorded_mhz: the clock within the kernel.
    code_hash, spill_bytes, warnings: of the kernel as it is now, None where it was not compiled. refused: why it got no
    time, or ''.
    """

    rung: str
    n: int
    regime: str
    no_gpu: str = ""
    device: Device | None = None
    state: BoardState = BoardState()
    mine: Measurement | None = None
    recorded: Measurement | None = None
    held_mhz: float | None = None
    recorded_mhz: float | None = None
    code_hash: str | None = None
    spill_bytes: int | None = None
    warnings: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class Finding:
    """A check. ok: whether nothing is wrong there. detail: what was found. remedy: what to do, '' if all is well."""

    check: str
    ok: bool
    detail: str
    remedy: str = ""


def findings(facts: Facts) -> tuple[Finding, ...]:
    """Every check that the facts allow, in the order of a reader's questions; the verdict last."""
    if facts.device is None:
        return (_without_gpu(facts),)
    found = [check(facts) for check in _CHECKS]
    seen = tuple(item for item in found if item is not None)
    return (*seen, _verdict(facts, seen))


def _without_gpu(facts: Facts) -> Finding:
    what, _, remedy = facts.no_gpu.rpartition(": ")
    shown = _recorded_words(facts)
    return Finding("verdict", False, f"{what or facts.no_gpu}; {shown}", remedy.rstrip(".") or "find a GPU")


def _recorded_words(facts: Facts) -> str:
    if facts.recorded is None:
        return f"nothing is recorded of {facts.rung} at N={facts.n}, {facts.regime}"
    item = facts.recorded
    return (
        f"recorded on {item.device.name}, {item.date[:10]}: {file_name(item.rung, item.entry, item.defines)} at "
        f"N={size_name(item.m, item.n, item.k)}, {item.regime}, {three_digits(item.tflops)} TFLOP/s, "
        f"{item.ratio:.3f} of cuBLAS"
    )


def _speed(facts: Facts) -> Finding | None:
    if facts.refused:
        return Finding("speed", False, facts.refused.rstrip("."), f"run `python -m helpers verify {facts.rung[:2]}`")
    if facts.mine is None:
        return None
    here = f"{three_digits(facts.mine.tflops)} TFLOP/s here"
    then = facts.recorded
    if then is None:
        return Finding("speed", False, f"{here}; {_recorded_words(facts)}", "compare at N=4096 or 8192")
    share = _share(facts)
    recorded = f"{three_digits(then.tflops)} recorded on {then.device.name}, {then.date[:10]}"
    detail = f"{here}, {recorded}: {share:.1%}"
    if share >= 1 - SPEED_MARGIN:
        return Finding("speed", True, detail)
    return Finding("speed", False, detail, "see the causes below")


def _share(facts: Facts) -> float:
    return facts.mine.tflops / facts.recorded.tflops


def _cublas_share(facts: Facts) -> float:
    return facts.mine.cublas_tflops / facts.recorded.cublas_tflops


def _ratio_share(facts: Facts) -> float:
    return facts.mine.ratio / facts.recorded.ratio


def _cublas(facts: Facts) -> Finding | None:
    if facts.mine is None:
        return None
    detail = f"{three_digits(facts.mine.cublas_tflops)} TFLOP/s in turn, ratio {facts.mine.ratio:.3f}"
    if facts.recorded is None:
        return Finding("cuBLAS", True, detail)
    detail += f"; recorded {three_digits(facts.recorded.cublas_tflops)}, ratio {facts.recorded.ratio:.3f}"
    if _ratio_share(facts) >= 1 - RATIO_MARGIN:
        return Finding("cuBLAS", True, detail)
    return Finding("cuBLAS", False, detail, "the ratio fell: look at the kernel and the toolkit, not at the machine")


def _card(facts: Facts) -> Finding:
    device = facts.device
    kind = board(device)
    clock = "" if device.max_clock_mhz is None else f" at up to {device.max_clock_mhz:,.0f} MHz"
    detail = f"{device.name}: {device.sm_count} SMs{clock}" + (f", {kind}" if kind else "")
    if facts.state.mig:
        return Finding("card", False, f"{detail}; MIG has cut it into slices", "ask for a whole GPU")
    other = facts.recorded.device if facts.recorded is not None else None
    if other is None or not device.max_clock_mhz or not other.max_clock_mhz:
        return Finding("card", True, detail)
    peak = device.sm_count * device.max_clock_mhz / (other.sm_count * other.max_clock_mhz)
    if device.compute_capability == other.compute_capability and peak >= 1 - CLOCK_MARGIN:
        return Finding("card", True, detail)
    recorded = f"the recorded {other.name} has {other.sm_count} at up to {other.max_clock_mhz:,.0f}"
    return Finding(
        "card", False, f"{detail}; {recorded}: SMs times clock are {peak:.0%}",
        "compare the ratio to cuBLAS, not TFLOP/s",
    )


def _power(facts: Facts) -> Finding | None:
    limit = facts.state.power_limit_w or facts.device.power_limit_w
    if limit is None:
        return None
    default = facts.state.default_limit_w
    other = facts.recorded.device.power_limit_w if facts.recorded is not None else None
    drawn = "" if facts.mine is None or facts.mine.power_w is None else f", {facts.mine.power_w:.0f} W read at most"
    detail = f"{limit:.0f} W{drawn}"
    if default is not None and limit < 0.98 * default:
        return Finding(
            "power cap", False, f"{detail}; the board came with {default:.0f} W",
            f"an administrator raises it: `nvidia-smi -pl {default:.0f}`",
        )
    if other is not None and limit < 0.98 * other:
        return Finding(
            "power cap", False, f"{detail}; the recorded GPU had {other:.0f} W",
            "less power holds a lower clock: compare the ratio to cuBLAS",
        )
    return Finding("power cap", True, detail)


def _clocks(facts: Facts) -> Finding | None:
    highest, state = facts.device.max_clock_mhz, facts.state
    parts = []
    if state.sm_clock_mhz is not None:
        parts.append(f"{state.sm_clock_mhz:,.0f} MHz at rest")
    if highest is not None:
        parts.append(f"{highest:,.0f} at most")
    if facts.held_mhz is not None:
        parts.append(f"{facts.held_mhz:,.0f} within the kernel")
    if facts.recorded_mhz is not None:
        parts.append(f"{facts.recorded_mhz:,.0f} within the recorded one")
    if not parts:
        return None
    detail = ", ".join(parts)
    if highest and state.set_clock_mhz and state.set_clock_mhz < (1 - CLOCK_MARGIN) * highest:
        return Finding(
            "clocks", False, f"{detail}; set to {state.set_clock_mhz:,.0f}",
            "an administrator resets them: `nvidia-smi -rac -rgc`",
        )
    if facts.held_mhz and facts.recorded_mhz and facts.held_mhz < (1 - CLOCK_MARGIN) * facts.recorded_mhz:
        return Finding(
            "clocks", False, f"{detail}: {facts.held_mhz / facts.recorded_mhz:.0%}",
            "the clock explains this share of the speed; power cap, heat and throttle reasons say why",
        )
    return Finding("clocks", True, detail)


def _throttling(facts: Facts) -> Finding | None:
    mine = () if facts.mine is None else facts.mine.throttle_reasons or ()
    names = dict.fromkeys((*mine, *(facts.state.throttle_reasons or ())))
    known = facts.mine is not None and facts.mine.throttle_reasons is not None
    if not names and not known and facts.state.throttle_reasons is None:
        return None
    hot = facts.mine.temperature_c if facts.mine is not None else None
    heat = "" if hot is None else f", {hot:.0f} C"
    if not names:
        return Finding("throttle reasons", True, f"none{heat}")
    usual = facts.recorded.throttle_reasons or () if facts.recorded is not None else ()
    new = [name for name in names if name not in usual]
    detail = f"{', '.join(names)}{heat}"
    if not new:
        return Finding("throttle reasons", True, f"{detail}: as in the recording")
    words = dict.fromkeys(_REASONS.get(name, (name, "see `nvidia-smi -q -d PERFORMANCE`")) for name in new)
    return Finding(
        "throttle reasons", False, f"{detail}: {' and '.join(what for what, _ in words)} lowers the clock",
        "; ".join(remedy for _, remedy in words),
    )


def _others(facts: Facts) -> Finding | None:
    state = facts.state
    if state.busy_pct is None and state.processes is None:
        return None
    parts = []
    if state.processes is not None:
        names = f", among them {', '.join(state.others)}" if state.others else ""
        parts.append(f"{state.processes} with memory on the GPU{names}")
    if state.busy_pct is not None:
        parts.append(f"GPU busy {state.busy_pct:.0f}% of the time while this one rested")
    detail = ", ".join(parts)
    if state.busy_pct is None or state.busy_pct <= BUSY_PCT:
        return Finding("other processes", True, detail)
    return Finding("other processes", False, detail, "see who it is with `nvidia-smi`, and measure when they are done")


def _toolkit(facts: Facts) -> Finding | None:
    if facts.mine is None:
        return None
    own = facts.mine.toolkit
    detail = ", ".join(f"{name} {version}" for name, version in own.items() if version)
    detail += f", driver {facts.device.driver}" if facts.device.driver else ""
    if facts.recorded is None:
        return Finding("toolkit", True, detail)
    theirs = facts.recorded.toolkit
    apart = [name for name in ("nvrtc", "cublas") if own.get(name) != theirs.get(name)]
    if not apart:
        return Finding("toolkit", True, detail)
    recorded = ", ".join(f"{name} {theirs.get(name)}" for name in apart)
    return Finding("toolkit", False, f"{detail}; recorded with {recorded}", "run `make setup`: it takes those versions")


def filled(rung: str, n: int, sms: int) -> float | None:
    """Share of the places that the tiles of N x N fill, over all waves; None where a CTA does not have an SM alone.

    A place is a SM, or those of a cluster. A persistent kernel's waves are the rounds of its own CTAs.
    """
    found = find_rung(rung)
    if found.shared_bytes <= 114 * 1024:   # half of an SM's: two CTAs fit, or more
        return None
    rows, columns = found.tiles(n, n)
    tiles = rows * columns
    places = sms // found.cluster
    waves = found.rounds(n, n, sms) if found.persistent else -(-tiles // places)
    return tiles / (waves * places)


def _size(facts: Facts) -> Finding:
    share = filled(facts.rung, facts.n, facts.device.sm_count)
    detail = f"N={facts.n}"
    if share is not None:
        detail += f": tiles fill {share:.0%} of the SMs' time"
    if share is None or share >= FULL_WAVES:
        return Finding("size", True, detail)
    same = facts.recorded is not None and filled(facts.rung, facts.n, facts.recorded.device.sm_count)
    if same and share >= same - SPEED_MARGIN:
        return Finding("size", True, f"{detail}, as on the recorded GPU")
    return Finding("size", False, detail, "the last wave is half empty: take N=4096 or 8192 to compare")


def _code(facts: Facts) -> Finding | None:
    if facts.code_hash is None:
        return None
    if facts.recorded is None:
        return Finding("code", True, facts.code_hash)
    if facts.code_hash == facts.recorded.code_hash:
        return Finding("code", True, f"{facts.code_hash}, the recorded one")
    path = display(find_rung(facts.rung).path)
    return Finding(
        "code", False, f"{facts.code_hash}, the recorded one is {facts.recorded.code_hash}",
        f"see what changed: `git diff {path} kernels/hopper.cuh`, and the toolkit",
    )


def _ptxas(facts: Facts) -> Finding | None:
    if facts.spill_bytes is None:
        return None
    if facts.recorded is not None and facts.code_hash == facts.recorded.code_hash:
        said = "; ".join(facts.warnings) or "no warnings"
        return Finding("ptxas", True, f"{said}, {facts.spill_bytes} bytes spilled, as in the recorded code")
    remedy = f"run `python -m helpers inspect {facts.rung[:2]}`"
    serialised = [line for line in facts.warnings if "Potential Performance Loss" in line or "serializ" in line]
    if serialised:
        return Finding("ptxas", False, serialised[0], f"wgmma waits where it need not; {remedy}")
    if facts.spill_bytes:
        return Finding("ptxas", False, f"{facts.spill_bytes} bytes spilled", f"too many registers are needed; {remedy}")
    if facts.warnings:
        return Finding("ptxas", False, facts.warnings[0], remedy)
    return Finding("ptxas", True, "no warnings, nothing spilled")


def _launches(facts: Facts) -> Finding | None:
    if facts.mine is None or "launches_hidden" not in facts.mine.method:
        return None
    method = facts.mine.method
    detail = f"queued in {method.get('longest_queue_ms')} ms behind a spin of {method.get('spin_ms')} ms"
    if method["launches_hidden"]:
        return Finding("launches", True, detail)
    return Finding("launches", False, f"{detail}: the GPU waited for the CPU", "free the CPU of other work")


def _rounds(facts: Facts) -> Finding | None:
    if facts.mine is None:
        return None
    low, high = facts.mine.tflops_quartiles
    apart = (high - low) / facts.mine.tflops
    detail = f"quartiles {apart:.1%} apart"
    if apart <= UNEVEN:
        return Finding("rounds", True, detail)
    return Finding("rounds", False, detail, "something disturbs: other processes, heat, the CPU; measure again")


def _verdict(facts: Facts, seen: Sequence[Finding]) -> Finding:
    if facts.refused:
        return Finding("verdict", False, "The kernel is wrong, so it has no speed", "make it right first")
    if facts.mine is None:
        return Finding("verdict", False, f"Nothing was measured; {_recorded_words(facts)}", "take one that runs here")
    if facts.recorded is None:
        return Finding("verdict", False, f"There is nothing to compare with: {_recorded_words(facts)}",
                       "compare at N=4096 or 8192")
    share, cublas, ratio = _share(facts), _cublas_share(facts), _ratio_share(facts)
    slower, kernel_fell = share < 1 - SPEED_MARGIN, ratio < 1 - RATIO_MARGIN
    if not slower and not kernel_fell:
        what = f"It is not slower: {share:.1%} of the recorded speed, {ratio:.1%} of the recorded ratio"
        return Finding("verdict", True, what)
    if not slower:
        what = f"The kernel is as fast as recorded, but cuBLAS is faster here ({cublas:.1%})"
        names: tuple[str, ...] = KERNEL
    elif not kernel_fell:
        what = f"The machine: cuBLAS in turn is slower too ({cublas:.1%} of the recorded, the kernel {share:.1%})"
        names = (*MACHINE, "rounds", "size")
    elif cublas >= 1 - SPEED_MARGIN:
        what = f"The kernel: cuBLAS in turn is as fast as recorded ({cublas:.1%}), the kernel is not ({share:.1%})"
        names = (*KERNEL, "clocks")
    else:
        what = f"Both: cuBLAS in turn is slower ({cublas:.1%} of the recorded), and the kernel more so ({share:.1%})"
        names = (*MACHINE, *KERNEL)
    fitting = [item for item in seen if not item.ok and item.check in names]
    if not fitting:
        return Finding(
            "verdict", False, f"{what}; no known cause fits",
            "measure again after a rest; if it stays, compare `nvidia-smi -q` with that of another machine",
        )
    return Finding(
        "verdict", False, f"{what}; what fits: {', '.join(item.check for item in fitting)}",
        f"begin with {fitting[0].check}: {fitting[0].remedy}",
    )


_CHECKS = (
    _speed, _cublas, _card, _power, _clocks, _throttling, _others, _toolkit, _size, _code, _ptxas, _launches, _rounds,
)
