"""The probe of the memories: it reads what it says, its sums tell, and its records are read back."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import memory_speed
from helpers.cuda import compile_cubin, sass
from helpers.device import Device
from helpers.emulator import compile_kernel
from helpers.errors import BackendError, RecordError
from helpers.memory_speed import (
    APART,
    BLOCK_CHUNKS,
    SHARED_CHUNKS,
    SOURCE,
    THREADS,
    TOGETHER,
    MemorySpeed,
    MemorySpeeds,
    Walk,
    launch_arguments,
    walks,
)
from helpers.models.machine import H200
from helpers.models.pyramid import pyramid
from helpers.sass import inner_loop, opcode_counts

GPU = Device("NVIDIA H200", "9.0", 132, 1980.0, 60 << 20, 141 << 30, 3201.0, 6016, "580.1", 700.0)
ITEMS = (
    MemorySpeed("shared memory", APART, 49152, 33_000.0, 1980.0),
    MemorySpeed("L2", APART, 20 << 20, 7_000.0, 1980.0),
    MemorySpeed("L2", TOGETHER, 20 << 20, 11_000.0, 1980.0),
    MemorySpeed("HBM", APART, 1 << 31, 4_400.0, 1980.0),
)
WALKS = (
    Walk("shared memory", APART, SHARED_CHUNKS, reads=5),
    Walk("L2", APART, 3 * BLOCK_CHUNKS, BLOCK_CHUNKS, 2 * BLOCK_CHUNKS, 2),   # the last CTA goes on at the beginning
    Walk("L2", TOGETHER, 2 * BLOCK_CHUNKS, 0, 2 * BLOCK_CHUNKS, 1),
    Walk("HBM", APART, 3 * BLOCK_CHUNKS, BLOCK_CHUNKS, BLOCK_CHUNKS, 1),
)


@pytest.mark.compiler
@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: f"{walk.level}, {walk.pattern}")
def test_the_probe_reads_what_it_says(walk):
    module = compile_kernel(SOURCE, ("read_shared", "read_global"), {}, counters=True)
    values = np.arange(4 * walk.total, dtype=np.uint32)
    out, log = np.zeros(3 * THREADS, np.uint32), np.zeros(12, np.uint64)
    name, arguments = launch_arguments(walk, values.reshape(-1, 4), out, log)
    run = module.launch(name, (3,), (THREADS,), arguments)
    sums = out.reshape(3, THREADS).astype(np.uint64).sum(axis=1) % 2**32
    assert run.reports == [] and sums.tolist() == [walk.sum_of(cta) for cta in range(3)]
    level = "shared" if walk.reads else "global"
    assert run.totals[f"{level}_load_bytes"] == walk.bytes_read(3)
    if walk.reads:   # no bank conflicts: four wavefronts of 128 bytes for a warp's 16 bytes a lane
        assert run.totals["shared_load_wavefronts"] == run.totals["shared_load_ideal"] == walk.bytes_read(3) // 128


def test_the_compiler_leaves_every_read_in_the_loop():
    cubin = compile_cubin(SOURCE, {})
    for entry, opcode in (("read_shared", "LDS"), ("read_global", "LDG")):
        counts = opcode_counts(inner_loop(sass(cubin, entry), opcode))
        assert counts[opcode] == 8   # as often as the loop is unrolled
        # A shared read lasts four clocks, in which the SM starts 16 instructions, 8 of them for integers.
        assert counts.total() / counts[opcode] < 8


def test_what_is_read_on_an_h200():
    shared, apart, together, hbm = walks(132, 60 << 20)
    assert shared.total * 16 <= 48 << 10
    for walk in (apart, together):
        assert walk.total == walk.count and 2 * 16 * walk.total < 60 << 20   # in both halves of L2 at once
    assert 132 * apart.stride <= apart.total and together.stride == 0        # no two SMs at one place, and all
    assert hbm.stride == hbm.count and hbm.count * 132 == hbm.total and hbm.rounds == 1   # each byte once
    assert hbm.total * 16 > 30 * (60 << 20)
    for walk in walks(80, 6 << 20):   # a GPU with a small L2
        assert walk.reads or (walk.total % BLOCK_CHUNKS == walk.stride % BLOCK_CHUNKS == 0 < walk.count)
        assert walk.level != "L2" or 16 * walk.total <= 6 << 20


def test_records(tmp_path):
    folder = tmp_path / "h200"   # no folder's name tells whose speeds they are
    speeds = MemorySpeeds(GPU, "recorded", "2026-11-29T12:00:00Z", ITEMS)
    path = memory_speed.write_speeds(speeds, folder)
    assert path == folder / "nvidia-h200" / "memory.json"
    assert memory_speed.recorded_speeds(GPU, folder) == speeds
    other = replace(speeds, device=replace(GPU, name="NVIDIA A100", compute_capability="8.0"))
    memory_speed.write_speeds(other, folder)
    assert memory_speed.recorded_speeds(other.device, folder).device.name == "NVIDIA A100"
    assert memory_speed.recorded_speeds(None, folder).device.name == "NVIDIA H200"   # the reference GPU
    nobody = memory_speed.recorded_speeds(None, folder / "none")
    assert str(nobody) == "memory: no recording" and nobody.gpu is H200 and nobody.bandwidths == {}
    path.write_text(path.read_text().replace("shared memory", "L7"))
    with pytest.raises(RecordError, match="L7"):
        memory_speed.recorded_speeds(GPU, folder)


def test_speeds_in_words_and_in_the_pyramid():
    speeds = MemorySpeeds(GPU, "recorded", "2026-11-29T12:00:00Z", ITEMS)
    assert "L2, each SM elsewhere: 7.00 TB/s, 26.8 bytes per clock and SM at 1,980 MHz" in str(speeds)
    assert speeds.gpu is H200 and speeds.bandwidths == {"shared memory": 33e12, "L2": 7e12, "HBM": 4.4e12}
    assert [level.source for level in pyramid(H200, speeds.bandwidths)] == ["computed", *["measured"] * 3]


def test_without_a_gpu(monkeypatch, capsys):
    monkeypatch.setattr(memory_speed.device, "device_info", lambda: None)
    monkeypatch.setattr(memory_speed.device, "no_device_reason", lambda: "there is none.")
    assert memory_speed.main([]) == 1
    assert "there is none" in capsys.readouterr().err
    monkeypatch.setattr("helpers.gpu_lock.probe", lambda: memory_speed.gpu.Probe(None, "No GPU."))
    with pytest.raises(BackendError, match="No GPU"):
        memory_speed.measure_memory(None)
