"""The launch interface, device memory without values, the source transform and the cache of compiled kernels."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.emulator import EmulatorDevice, EmulatorError, EmulatorKernel, build, find_compiler
from tests.emulator.source import translate

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no GCC found ($CXX, g++, c++)")

_COPY = """
extern "C" __global__ void __launch_bounds__(2 * SIDE) copy(const int* __restrict__ in, int* out, const unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i];
}
extern "C" __global__ void copy_bytes(const unsigned char* in, unsigned char* out, const unsigned n) {
    if (threadIdx.x < n) out[threadIdx.x] = in[threadIdx.x];
}
extern "C" __global__ void tickets(unsigned* counter, unsigned* out) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(counter, 1u);
}
"""


def _kernel(name: str, device: EmulatorDevice | None = None) -> EmulatorKernel:
    device = EmulatorDevice() if device is None else device
    return device.loads(_COPY, "copy.cu", {"SIDE": 64}).get_function(name)


def _ints(size: int) -> NDArray[np.int32]:
    return np.arange(size, dtype=np.int32)


def test_launch() -> None:
    out = np.zeros(100, np.int32)
    _kernel("copy")((2,), (64,), (_ints(100), out, np.uint32(100)))
    assert out.tolist() == list(range(100))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 100}, "argument 2 is of type int; pass an array or a NumPy scalar"),
        ({"n": np.int64(100)}, "argument 2 has dtype int64, the parameter is u4"),
        ({"n": np.float32(100)}, "argument 2 has dtype float32, the parameter is u4"),
        ({"n": _ints(1)}, "argument 2 is an array, the parameter is a value of 4 bytes"),
        ({"given": np.int64(0)}, "argument 0 is the value np.int64\\(0\\), the parameter is a pointer"),
        ({"given": np.arange(100)}, "argument 0 has dtype int64, the parameter points to i4"),
        ({"given": np.zeros(100, np.float32)}, "argument 0 has dtype float32, the parameter points to i4"),
        ({"given": _ints(200)[::2]}, "argument 0 is not C-contiguous"),
        ({"given": None}, "argument 0 is of type NoneType"),
        ({"out": np.broadcast_to(np.int32(0), (1,))}, "argument 1 is read-only"),
        ({"block": (129,)}, "129 threads in a block; at most 128"),
        ({"block": (0,)}, "block \\(0,\\): one to three sizes"),
        ({"block": (1, 1, 65)}, "block \\(1, 1, 65\\): one to three sizes"),
        ({"grid": (1, 65536)}, "grid \\(1, 65536\\): one to three sizes"),
        ({"grid": (2**31 - 1,)}, "threads; the emulator numbers 2\\^32"),
        ({"shared": 232449}, "232449 bytes of dynamic shared memory; 0 to 232448"),
    ],
)
def test_launches_that_are_refused(change: dict[str, Any], message: str) -> None:
    launch: dict[str, Any] = {"grid": (1,), "block": (100,), "n": np.uint32(100), "shared": 0}
    launch |= {"given": _ints(100), "out": np.zeros(100, np.int32), **change}
    with pytest.raises(EmulatorError, match=message):
        _kernel("copy")(
            launch["grid"],
            launch["block"],
            (launch["given"], launch["out"], launch["n"]),
            shared_mem=launch["shared"],
        )


def test_wrong_number_of_arguments_and_unknown_kernel() -> None:
    with pytest.raises(EmulatorError, match="copy takes 3 arguments, got 2"):
        _kernel("copy")((1,), (1,), (_ints(1), _ints(1)))
    with pytest.raises(EmulatorError, match="no kernel 'paste'; there are: copy, copy_bytes, tickets"):
        _kernel("paste")


def test_a_seed_is_a_schedule() -> None:
    def order(seed: int) -> list[int]:
        out = np.zeros(96, np.uint32)
        device = EmulatorDevice(seed=seed)
        for _ in range(2):
            _kernel("tickets", device)((3,), (32,), (np.zeros(1, np.uint32), out))
        return out.tolist()

    orders = [order(seed) for seed in range(8)]
    assert orders == [order(seed) for seed in range(8)]
    assert len({tuple(one) for one in orders}) == 8
    assert all(sorted(one) == list(range(96)) for one in orders)


def test_blocks_that_wait_for_each_other_must_be_resident() -> None:
    out = np.zeros(200, np.int32)
    _kernel("copy")((4,), (50,), (_ints(200), out, np.uint32(200)), together=True)
    assert out.tolist() == list(range(200))
    with pytest.raises(EmulatorError, match="copy: 5 blocks together; at most 4 are resident"):
        _kernel("copy")((5,), (50,), (_ints(200), out, np.uint32(200)), together=True)


def test_more_blocks_than_are_resident() -> None:
    out = np.zeros(640, np.uint32)
    _kernel("tickets")((20,), (32,), (np.zeros(1, np.uint32), out))
    assert sorted(out.tolist()) == list(range(640))


_WRITES: dict[str, Callable[[Any], Any]] = {
    "assignment": lambda a: a.__setitem__(slice(None), 7),
    "fill": lambda a: a.fill(7),
    "ufunc": lambda a: np.add(3, 4, out=a, casting="unsafe"),
    "view": lambda a: a.reshape(2, -1).T.__setitem__(slice(None), 7),
    "bytes": lambda a: memoryview(a).cast("B").__setitem__(slice(None), bytes(a.nbytes)),
}


@pytest.mark.parametrize("write", sorted(_WRITES))
@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_what_the_host_writes_counts(write: str, dtype: type[np.integer[Any]]) -> None:
    device = EmulatorDevice()
    given, out = device.xp.empty(64, dtype), device.xp.empty(64, dtype)
    kernel = _kernel("copy" if dtype is np.int32 else "copy_bytes", device)
    with pytest.raises(EmulatorError, match="bytes that no one wrote: argument 0"):
        kernel((1,), (64,), (given, out, np.uint32(64)))
    _WRITES[write](given)
    kernel((1,), (64,), (given, out, np.uint32(64)))
    assert (out == given).all()


def test_what_kernels_write_counts_byte_by_byte() -> None:
    device = EmulatorDevice()
    a, b, c = (device.xp.empty(64, np.int32) for _ in range(3))
    kernel = _kernel("copy", device)
    kernel((1,), (64,), (_ints(64), a, np.uint32(60)))
    kernel((1,), (64,), (a, b, np.uint32(60)))
    kernel((1,), (64,), (b[8:40], c[32:], np.uint32(32)))
    assert c[32:].tolist() == list(range(8, 40))
    with pytest.raises(EmulatorError, match=r"no one wrote: argument 0 \+ 2\d\d bytes"):
        kernel((1,), (64,), (b, c, np.uint32(64)))
    a[62] = 5
    with pytest.raises(EmulatorError, match=r"no one wrote: argument 0 \+ (0|4|12) bytes"):
        kernel((1,), (64,), (a[60:], c, np.uint32(4)))


def test_empty_arrays_are_forgotten_when_they_die() -> None:
    device = EmulatorDevice()
    for _ in range(20):
        device.xp.empty_like(_ints(1000))
    gc.collect()
    assert device.memory.live_buffers == 0


def test_host_input_is_copied() -> None:
    device, host = EmulatorDevice(), _ints(10)
    assert not np.shares_memory(device.xp.asarray(host), host)
    assert not np.shares_memory(device.to_host(host), host)


def test_views_of_one_array_are_one_memory() -> None:
    source = """extern "C" __global__ void shift(const int* in, int* out) { out[threadIdx.x] = in[threadIdx.x]; }"""
    kernel = EmulatorDevice().loads(source, "shift.cu", {}).get_function("shift")
    array = _ints(65)
    with pytest.raises(EmulatorError, match="data race"):
        kernel((1,), (64,), (array[:64], array[1:]))
    array = _ints(65)
    kernel((1,), (32,), (array[:32], array[32:64]))
    assert array[32:64].tolist() == list(range(32))


def test_an_array_of_no_elements_has_no_memory() -> None:
    none = np.zeros(0, np.int32)
    _kernel("copy")((1,), (64,), (none, none, np.uint32(0)))
    with pytest.raises(EmulatorError, match="out of bounds: read of 4 bytes"):
        _kernel("copy")((1,), (64,), (none, none, np.uint32(1)))


_TEMPLATE = """
template <class T, int kSize>
__device__ T rotated(T value) {
    __shared__ T ring[kSize], extra /* between */ [2];  // two variables; and a comment with __shared__ in it
    ring[threadIdx.x] = value;
    if (threadIdx.x == 0) extra[1] = "a;b"[1] == ';';
    __syncthreads();
    return ring[(threadIdx.x + 1) % kSize] + extra[1] + sizeof(ring) / sizeof(T) - kSize;
}
/* extern "C" __global__ void not_a_kernel() {} */
extern "C" __global__ void
__launch_bounds__(
    64, 2)
both(const int* in, int* out, long long* wide) {
    extern __shared__ __align__(8) unsigned char raw[];
    long long* room = reinterpret_cast<long long*>(raw);
    room[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = rotated<int, 64>(in[threadIdx.x]);
    wide[threadIdx.x] = rotated<long long, 64>(room[threadIdx.x]);
}
"""


def test_shared_variables_of_templates() -> None:
    out, wide = np.zeros(64, np.int32), np.zeros(64, np.int64)
    kernel = EmulatorDevice().loads(_TEMPLATE, "template.cu", {}).get_function("both")
    kernel((1,), (64,), (_ints(64), out, wide), shared_mem=512)
    assert out.tolist() == wide.tolist() == [*range(2, 65), 1]
    assert kernel.max_threads == 64


def test_lines_stay_lines(tmp_path: Path) -> None:
    inner_file = tmp_path / "inner.cuh"
    inner_file.write_text("#pragma once\n")
    text = '#include "inner.cuh"\n' + _TEMPLATE
    main, inner = translate(text, "template.cu", {"inner.cuh": inner_file})
    assert main.text.count("\n") == text.count("\n") + 1
    assert main.kernels == ("both",)
    assert inner.name == "inner.cuh"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#include <stdint.h>\n", "bad.cu includes <stdint.h>: kernels use no headers"),
        ('#include "absent.cuh"\n', "bad.cu includes 'absent.cuh', which is no source"),
        ("__device__ void f() { extern __shared__ int a[4]; }", "is not of the form `T name\\[\\];`"),
        ('extern "C" __global__ void k( {', "bad.cu: line 1: the bracket is never closed"),
        ('extern "C" __global__ void k(uint32_t x) {}', "bad.cu does not compile"),
    ],
)
def test_sources_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(EmulatorError, match=message):
        EmulatorDevice().loads(text, "bad.cu", {})


def test_a_source_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PAPILIO_TEST_CACHE", str(tmp_path))
    commands: list[str] = []
    original = build._run

    def counted(command: list[str], what: str) -> None:
        commands.append(what)
        original(command, what)

    monkeypatch.setattr(build, "_run", counted)
    for defines in ({"SIDE": 64}, {"SIDE": 64}, {"SIDE": 32}):
        EmulatorDevice().loads(_COPY, "copy.cu", defines)
    EmulatorDevice(arch=750).loads(_COPY, "copy.cu", {"SIDE": 32})
    EmulatorDevice().loads(_COPY, "copy.cu", {"SIDE": 32, "UNUSED": 1})
    assert len(commands) == 4 + 3 * 2, "four sets of defines are expanded, three variants compiled and linked"
    with pytest.raises(EmulatorError, match="does not compile"):
        EmulatorDevice().loads("}", "broken.cu", {})
    compiled = [path for path in (tmp_path / "emulator").iterdir() if not path.name.startswith("expanded-")]
    assert len(compiled) == 3, "nothing is left of a failed compile"


def test_builders_at_the_same_time_agree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runtime = build.build_runtime()
    monkeypatch.setenv("PAPILIO_TEST_CACHE", str(tmp_path))
    sources = translate(_COPY, "copy.cu", {})
    with ThreadPoolExecutor(4) as pool:
        built = list(pool.map(lambda _: build.build_kernels(sources, {"SIDE": 64}, 900, runtime), range(4)))
    assert len(set(built)) == 1
    names = [path.name for path in (tmp_path / "emulator").iterdir()]
    assert [name for name in names if not name.startswith("expanded-")] == [built[0].parent.name]


def test_without_addr2line_messages_name_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "addr2line" else which(name))
    with pytest.raises(EmulatorError, match=r"at /\S+/kernels\.so\+0x[0-9a-f]+: out of bounds"):
        _kernel("copy")((1,), (64,), (_ints(8), np.zeros(64, np.int32), np.uint32(64)))
