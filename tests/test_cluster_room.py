"""Room for clusters: how the driver is asked, what is kept of its answer, and what is said without a GPU."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from cuda.bindings import driver

from helpers import cluster_room, gpu
from helpers.cluster_room import RUNG, SIZES, ClusterRoom, recorded_room, write_room
from helpers.device import Device
from helpers.errors import ArgumentError, BackendError, RecordError
from helpers.gpu import Gpu, Probe

H200 = Device("NVIDIA H200", "9.0", 132)
ROOM = ClusterRoom(H200, "recorded", "2026-11-30T01:02:03Z", {1: 132, 2: 66, 4: 30, 8: 14})
CARD = Gpu("NVIDIA H200", (9, 0), 13000, 227 * 1024, 132)


@pytest.fixture
def card(monkeypatch):
    """A driver that has whole GPCs of 16 SMs and one of 4; what it was asked."""
    asked = []

    def answer(function, config):
        (size,) = config.attrs
        assert config.numAttrs == 1 and size.id == driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dims = size.value.clusterDim
        asked.append((dims.x, config.gridDimX % dims.x, config.blockDimX, config.sharedMemBytes))
        assert (dims.y, dims.z, config.gridDimY, config.gridDimZ, config.blockDimY, config.blockDimZ) == (1,) * 6
        if dims.x > 8:
            return driver.CUresult.CUDA_ERROR_INVALID_CLUSTER_SIZE, 0
        return driver.CUresult.CUDA_SUCCESS, 8 * (16 // dims.x) + 4 // dims.x

    function = SimpleNamespace(kernel=SimpleNamespace(ptr=1), max_dynamic_shared_size_bytes=0)
    monkeypatch.setattr(driver, "cuOccupancyMaxActiveClusters", answer)
    monkeypatch.setattr(gpu, "probe", lambda: Probe(CARD))
    monkeypatch.setattr(gpu, "load_function", lambda path, entry: function)
    monkeypatch.setattr(cluster_room.device, "device_info", lambda: H200)
    return SimpleNamespace(asked=asked, function=function)


def test_the_driver_is_asked_about_clusters_of_rung_9s_ctas(card):
    found = cluster_room.cluster_room()
    assert found.clusters == {1: 132, 2: 66, 4: 33, 8: 16} and found.source == "live"
    assert card.asked == [(ctas, 0, RUNG.block[0], RUNG.shared_bytes) for ctas in SIZES]
    assert card.function.max_dynamic_shared_size_bytes == RUNG.shared_bytes
    assert "__cluster_dims__" not in RUNG.path.read_text(), "a size of its own would be the only one it can be asked"
    assert 2 * RUNG.shared_bytes > 228 * 1024, "a CTA has an SM to itself, as rung 10's have"
    with pytest.raises(BackendError, match="clusters of 16 CTAs fit .CUDA_ERROR_INVALID_CLUSTER_SIZE"):
        gpu.most_clusters(card.function, 16, 384, 0)


def test_an_answer_is_kept_and_found_again(tmp_path):
    path = write_room(ROOM, tmp_path)
    assert path == tmp_path / "nvidia-h200" / "clusters.json"
    assert recorded_room(H200, tmp_path) == recorded_room(None, tmp_path) == ROOM
    assert recorded_room(replace(H200, name="NVIDIA X"), tmp_path) == ROOM   # the reference GPU's, and it says so
    assert str(ROOM) == (
        "room for clusters, recorded on NVIDIA H200, 2026-11-30\n    132 of 1 CTA (132 SMs), 66 of 2 CTAs (132 SMs), "
        "30 of 4 CTAs (120 SMs), 14 of 8 CTAs (112 SMs)"
    )
    assert ROOM.sms(4) == 120
    for ctas in (3, 0, None, [4], "4"):
        with pytest.raises(ArgumentError, match="it must be a size that the driver was asked about; ask 1, 2, 4, 8"):
            ROOM.sms(ctas)
    good = path.read_text()
    for key, value in (("clusters", 34), ("clusters", -1), ("ctas", 3)):
        damaged = json.loads(good)
        damaged["room"][2][key] = value
        path.write_text(json.dumps(damaged))
        with pytest.raises(RecordError, match="clusters.json"):
            recorded_room(None, tmp_path)


def test_without_a_gpu(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(cluster_room.device, "device_info", lambda: None)
    monkeypatch.setattr(cluster_room.device, "no_device_reason", lambda: "there is none.")
    assert str(recorded_room(None, tmp_path)) == "room for clusters: no recording"
    assert cluster_room.main(["--output", str(tmp_path)]) == 1
    assert "there is none" in capsys.readouterr().err and not list(tmp_path.iterdir())
    with pytest.raises(ArgumentError, match="no answer"):
        write_room(ClusterRoom(), tmp_path)


def test_the_command_writes_the_answer(card, tmp_path, capsys):
    assert cluster_room.main(["--output", str(tmp_path)]) == 0
    assert "33 of 4 CTAs (132 SMs)" in capsys.readouterr().out
    assert recorded_room(H200, tmp_path).clusters[4] == 33
