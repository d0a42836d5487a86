"""A process has one object for its GPU, whatever it counts on it: CuPy is played by stubs that count what is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from papilio.errors import InputError
from papilio.motifs import BalancedButterfly, Biclique, Butterfly
from papilio.question import Question
from papilio.registry import load_engine
from papilio.tasks import worker_state as ready

cuda_device: Any = pytest.importorskip("papilio.kernels.device.cuda", reason="CuPy is not installed")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count what CuPy is asked for: streams by number, compilations by source and defines, the limit."""
    counted: Counter[str] = Counter()

    class Stream:
        def __init__(self, **options: bool) -> None:
            counted["streams"] += 1

    def compile_module(code: str, options: tuple[str, ...]) -> object:
        counted[f"compiled {hash(code)} {options}"] += 1
        return SimpleNamespace(compile=lambda: None)

    class Device:
        id, compute_capability = 0, "90"
        attributes = {"MultiProcessorCount": 132, "MaxSharedMemoryPerBlockOptin": 232448}  # noqa: RUF012

        def __init__(self, number: int = 0) -> None:
            assert number == 0

        def __enter__(self) -> Device:
            return self

        def __exit__(self, *error: object) -> None: ...

    cuda = SimpleNamespace(
        Device=Device,
        Stream=Stream,
        alloc_pinned_memory=bytearray,
        runtime=SimpleNamespace(CUDARuntimeError=RuntimeError, driverGetVersion=lambda: 13000),
    )
    pool = SimpleNamespace(set_limit=lambda size: counted.update({"limit": size - counted["limit"]}))
    played = SimpleNamespace(cuda=cuda, RawModule=compile_module, get_default_memory_pool=lambda: pool)
    monkeypatch.setattr(cuda_device, "cupy", played)
    monkeypatch.setattr(cuda_device, "find_cubin", lambda *given: None)
    cuda_device._device_of.cache_clear()
    ready._engines.clear()
    yield counted
    cuda_device._device_of.cache_clear()
    ready._engines.clear()


def test_a_hundred_sizes_have_one_device_that_compiles_each_module_once(made: Counter[str]) -> None:
    devices = set()
    for p in range(2, 12):
        for q in range(2, 12):
            engine: Any = ready.engine_for(Question(Biclique(p, q), "total"), "gpu", 1, 1 << 30)
            devices.add(id(engine.device))
            for algorithm in range(2):
                engine.device.load("biclique", {"ALGORITHM": algorithm})
    engine.device._compilers.shutdown()
    assert len(devices) == 1
    assert made["streams"] == 7, "those of one device, one that stages, one for samples, one for words beside kernels"
    compiled = {name: times for name, times in made.items() if name.startswith("compiled")}
    assert len(compiled) == 2
    assert set(compiled.values()) == {1}
    assert len(ready._engines) <= ready.MAX_ENGINES


def test_motifs_share_what_is_compiled(made: Counter[str]) -> None:
    engines: list[Any] = [load_engine(motif, "gpu") for motif in (Butterfly(), BalancedButterfly())]
    for engine in engines:
        engine.device.load("wedge_graph", {"HUB_WORDS": 2})
    engines[0].device._compilers.shutdown()
    assert [times for name, times in made.items() if name.startswith("compiled")] == [1]


def test_the_last_limit_holds(made: Counter[str]) -> None:
    for limit in (1 << 20, 1 << 30, None, 1 << 25):
        load_engine(Butterfly(), "gpu", memory_bytes=limit)
        assert made["limit"] == (limit or 1 << 30)
    with pytest.raises(InputError, match="limit of device memory is 0 bytes"):
        load_engine(Butterfly(), "gpu", memory_bytes=0)


def test_every_compilation_has_the_constants(made: Counter[str]) -> None:
    device = cuda_device.shared_device()
    device.load("butterfly", {"PER": 1})
    device._compilers.shutdown()
    (name,) = (name for name in made if name.startswith("compiled"))
    assert all(f"'-D{define}" in name for define in ("PER=1", "LEAF_BINS=32", "WARP_PLANES=8"))
