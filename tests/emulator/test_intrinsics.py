"""Intrinsics, collectives and atomics against their definitions, written again in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.emulator import EmulatorDevice, EmulatorError, find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no GCC found ($CXX, g++, c++)")

_BITS = """
extern "C" __global__ void bits(const unsigned* x, const unsigned* y, const unsigned long long* wide,
                                unsigned* out, unsigned long long* wide_out) {
    const int i = threadIdx.x;
    unsigned* r = out + 14 * i;
    r[0] = __popc(x[i]); r[1] = __clz((int)x[i]); r[2] = __ffs((int)x[i]); r[3] = __brev(x[i]);
    r[4] = __umulhi(x[i], y[i]); r[5] = __funnelshift_l(x[i], y[i], 7); r[6] = __funnelshift_r(x[i], y[i], 39);
    r[7] = __popcll(wide[i]); r[8] = __clzll((long long)wide[i]); r[9] = __ffsll((long long)wide[i]);
    r[10] = min(x[i], y[i]); r[11] = (unsigned)max((int)x[i], (int)y[i]);
    r[12] = __dp4a(x[i], y[i], 7u); r[13] = __byte_perm(x[i], y[i], 0x3725u);
    wide_out[2 * i] = __brevll(wide[i]); wide_out[2 * i + 1] = __umul64hi(wide[i], 0x9e3779b97f4a7c15ull);
}
"""

_SHUFFLES = """
template <class T>
__device__ void shuffles(T value, int lane, int width, T* out) {
    const unsigned mask = 0xffffffffu;
    out[threadIdx.x] = __shfl_sync(mask, value, lane, width);
    out[32 + threadIdx.x] = __shfl_up_sync(mask, value, lane, width);
    out[64 + threadIdx.x] = __shfl_down_sync(mask, value, lane, width);
    out[96 + threadIdx.x] = __shfl_xor_sync(mask, value, lane, width);
}
extern "C" __global__ void narrow(const int* in, int lane, int width, int* out) {
    shuffles(in[threadIdx.x], lane, width, out);
}
extern "C" __global__ void wide(const long long* in, int lane, int width, long long* out) {
    shuffles(in[threadIdx.x], lane, width, out);
}
"""

_VOTES = """
extern "C" __global__ void votes(const int* in, unsigned* out) {
    const int value = in[threadIdx.x];
    unsigned* r = out + 8 * threadIdx.x;
    int all = 0;
    const unsigned mask = 0xffffffffu;
    r[0] = __ballot_sync(mask, value & 1); r[1] = __any_sync(mask, value > 90); r[2] = __all_sync(mask, value < 90);
    r[3] = __match_any_sync(mask, value); r[4] = __match_all_sync(mask, value, &all); r[5] = all;
    r[6] = __syncthreads_count(value & 1); r[7] = __syncthreads_or(value > 90) * 2 + __syncthreads_and(value < 90);
}
"""

_REDUCE = """
extern "C" __global__ void reduce(const int* in, int* out) {
    const int i = threadIdx.x, value = in[i];
    const unsigned mask = __match_any_sync(0xffffffffu, i % 3), bits = (unsigned)value;
    int* r = out + 8 * i;
    r[0] = __reduce_add_sync(mask, value); r[1] = __reduce_min_sync(mask, value);
    r[2] = __reduce_max_sync(mask, value); r[3] = (int)__reduce_min_sync(mask, bits);
    r[4] = (int)__reduce_max_sync(mask, bits); r[5] = (int)__reduce_and_sync(mask, bits);
    r[6] = (int)__reduce_or_sync(mask, bits); r[7] = (int)__reduce_xor_sync(mask, bits);
}
"""

_ATOMICS = """
template <class T>
__device__ void atomics(const T* in, T* at, T* old) {
    const T value = in[threadIdx.x];
    old[threadIdx.x] = atomicAdd(&at[0], value);
    atomicMin(&at[1], value); atomicMax(&at[2], value); atomicAnd(&at[3], value); atomicOr(&at[4], value);
    atomicXor(&at[5], value); old[blockDim.x + threadIdx.x] = atomicExch(&at[6], value);
    for (T seen = 0;;) {
        const T found = atomicCAS(&at[7], seen, seen + value);
        if (found == seen) break;
        seen = found;
    }
}
extern "C" __global__ void narrow(const unsigned* in, unsigned* at, unsigned* old) {
    atomics(in, at, old);
    atomicSub(&at[8], in[threadIdx.x]);
}
extern "C" __global__ void with_sign(const int* in, int* at, int* old) {
    atomics(in, at, old);
    atomicSub(&at[8], in[threadIdx.x]);
}
extern "C" __global__ void wide(const unsigned long long* in, unsigned long long* at, unsigned long long* old) {
    atomics(in, at, old);
}
"""


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), min_size=32, max_size=32), st.integers(0, 2**32 - 1))
def test_bits(values: list[int], seed: int) -> None:
    wide = np.array(values, np.uint64)
    x, y = (wide & np.uint64(2**32 - 1)).astype(np.uint32), (wide >> np.uint64(32)).astype(np.uint32)
    x[0], wide[0] = 0, 0
    out, wide_out = np.zeros((32, 14), np.uint32), np.zeros((32, 2), np.uint64)
    EmulatorDevice(seed=seed).loads(_BITS, "bits.cu", {}).get_function("bits")((1,), (32,), (x, y, wide, out, wide_out))

    def signed(value: int) -> int:
        return value - 2**32 if value >= 2**31 else value

    for i in range(32):
        a, b, w = int(x[i]), int(y[i]), int(wide[i])
        both = a.to_bytes(4, "little") + b.to_bytes(4, "little")
        assert out[i].tolist() == [
            a.bit_count(),
            32 - a.bit_length(),
            (a & -a).bit_length(),
            int(f"{a:032b}"[::-1], 2),
            a * b >> 32,
            (((b << 32 | a) << 7) >> 32) % 2**32,
            ((b << 32 | a) >> 7) % 2**32,
            w.bit_count(),
            64 - w.bit_length(),
            (w & -w).bit_length(),
            min(a, b),
            max(signed(a), signed(b)) % 2**32,
            (7 + sum(one * two for one, two in zip(both[:4], both[4:], strict=True))) % 2**32,
            int.from_bytes(bytes(both[at] for at in (5, 2, 7, 3)), "little"),
        ]
        assert wide_out[i].tolist() == [int(f"{w:064b}"[::-1], 2), w * 0x9E3779B97F4A7C15 >> 64]


def _shuffled(lane: int, argument: int, width: int) -> tuple[int, int, int, int]:
    first = lane // width * width
    up, down = lane - argument, lane + argument
    other = lane ^ argument
    return (
        first + argument % width,
        up if up >= first else lane,
        down if down < first + width else lane,
        other if other < first + width else lane,
    )


@pytest.mark.parametrize(("kernel", "dtype"), [("narrow", np.int32), ("wide", np.int64)])
@pytest.mark.parametrize("width", [32, 16, 8, 2])
def test_shuffles(kernel: str, dtype: type[np.signedinteger[Any]], width: int) -> None:
    rng = np.random.default_rng(width)
    values = rng.integers(-(2**31), 2**31 - 1, 32).astype(dtype)
    for argument in (0, 1, 3, 8, 17, 31):
        out = np.zeros(128, dtype)
        module = EmulatorDevice(seed=argument).loads(_SHUFFLES, "shuffles.cu", {})
        module.get_function(kernel)((1,), (32,), (values, np.int32(argument), np.int32(width), out))
        sources = np.array([_shuffled(lane, argument, width) for lane in range(32)])
        assert out.reshape(4, 32).tolist() == values[sources].T.tolist()


def test_a_shuffle_from_outside_the_mask_gives_garbage() -> None:
    source = """extern "C" __global__ void outside(const int* in, int* out) {
        if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0x0000ffffu, in[threadIdx.x], threadIdx.x + 16);
    }"""
    seen = set()
    for seed in range(3):
        out = np.zeros(16, np.int32)
        kernel = EmulatorDevice(seed=seed).loads(source, "outside.cu", {}).get_function("outside")
        kernel((1,), (32,), (np.arange(32, dtype=np.int32), out))
        seen |= set(out.tolist())
    assert len(seen) > 40


@pytest.mark.parametrize("values", [np.arange(32) * 3 % 97, np.full(32, 95), np.full(32, 4)])
def test_votes(values: NDArray[np.int64]) -> None:
    given_values, out = values.astype(np.int32), np.zeros((32, 8), np.uint32)
    EmulatorDevice().loads(_VOTES, "votes.cu", {}).get_function("votes")((1,), (32,), (given_values, out))
    odd, same = values & 1 == 1, len(set(values.tolist())) == 1
    for lane in range(32):
        assert out[lane].tolist() == [
            sum(1 << int(i) for i in np.flatnonzero(odd)),
            int((values > 90).any()),
            int((values < 90).all()),
            sum(1 << int(i) for i in np.flatnonzero(values == values[lane])),
            0xFFFFFFFF if same else 0,
            int(same),
            int(odd.sum()),
            int((values > 90).any()) * 2 + int((values < 90).all()),
        ]


def test_active_mask_holds_the_caller_alone() -> None:
    source = """extern "C" __global__ void active(unsigned* out) { out[threadIdx.x] = __activemask(); }"""
    out = np.zeros(64, np.uint32)
    EmulatorDevice().loads(source, "active.cu", {}).get_function("active")((1,), (64,), (out,))
    assert out.tolist() == [1 << lane for lane in range(32)] * 2


def test_reduce() -> None:
    values = np.random.default_rng(5).integers(-(2**31), 2**31 - 1, 32).astype(np.int32)
    out = np.zeros((32, 8), np.int32)
    EmulatorDevice(arch=800).loads(_REDUCE, "reduce.cu", {}).get_function("reduce")((1,), (32,), (values, out))
    for lane in range(32):
        group = values[np.arange(32) % 3 == lane % 3]
        bits = group.view(np.uint32)
        assert out[lane, :3].tolist() == [int(group.sum(dtype=np.int32)), int(group.min()), int(group.max())]
        assert out[lane, 3:].view(np.uint32).tolist() == [
            int(bits.min()),
            int(bits.max()),
            int(np.bitwise_and.reduce(bits)),
            int(np.bitwise_or.reduce(bits)),
            int(np.bitwise_xor.reduce(bits)),
        ]


def test_reduce_is_absent_before_sm_80() -> None:
    with pytest.raises(EmulatorError, match="__reduce_add_sync"):
        EmulatorDevice(arch=750).loads(_REDUCE, "reduce.cu", {})


_FOLDS: list[Callable[[NDArray[np.integer]], int]] = [
    lambda x: int(x.sum(dtype=x.dtype)),
    lambda x: int(x.min()),
    lambda x: int(x.max()),
    lambda x: int(np.bitwise_and.reduce(x)),
    lambda x: int(np.bitwise_or.reduce(x)),
    lambda x: int(np.bitwise_xor.reduce(x)),
]


@pytest.mark.parametrize(("kernel", "dtype"), [("narrow", np.uint32), ("with_sign", np.int32), ("wide", np.uint64)])
def test_atomics(kernel: str, dtype: type[np.integer[Any]]) -> None:
    info = np.iinfo(dtype)
    for seed in range(4):
        values = np.random.default_rng(seed).integers(int(info.min) // 256, int(info.max) // 256, 128, dtype=dtype)
        at, old = np.zeros(9, dtype), np.zeros((2, 128), dtype)
        at[1], at[2], at[3] = info.max, info.min, np.array(-1).astype(dtype)
        EmulatorDevice(seed=seed).loads(_ATOMICS, "atomics.cu", {}).get_function(kernel)(
            (1,), (128,), (values, at, old)
        )
        assert at[:6].tolist() == [fold(values) for fold in _FOLDS]
        assert at[7] == at[0]
        if kernel != "wide":
            assert (int(at[8]) + int(values.sum(dtype=dtype))) % 2**32 == 0
        order = np.argsort(_places(old[0], values))
        assert (old[0][order] == np.concatenate(([0], np.cumsum(values[order], dtype=dtype)[:-1]))).all()
        assert sorted([*old[1].tolist(), int(at[6])]) == sorted([0, *values.tolist()])


def _places(old: NDArray[np.integer], values: NDArray[np.integer]) -> list[int]:
    """Place of each atomic addition in the order in which they happened, from the values that they returned."""
    after = {int(before): i for i, before in enumerate(old)}
    places, sum_, place = [0] * len(values), 0, 0
    while sum_ in after and place < len(values):
        places[after[sum_]] = place
        sum_ += int(values[after[sum_]])
        place += 1
    assert place == len(values), "the returned values form one chain"
    return places
