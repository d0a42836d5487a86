"""Every CUDA source compiles without a GPU, for every architecture, within its budget of registers and memory.

The quick tests check the language of every entry, for the oldest architecture and the one that the kernels are tuned
for, and the budgets of one launched entry of each source. The slow tests check all budgets.

``budgets.json`` beside the sources holds, for each source and each set of defines that is launched, the most that a
kernel may use on any architecture: registers (a multiple of 8, the unit in which they are allocated), stack and static
shared memory in bytes, and by architecture the bytes of spills that are put up with (none unless named). The entry
called like the source is for the ``#ifndef`` defaults in it, compiled for every architecture; others add defines, as in
``"butterfly PER=1"``, and are compiled for the one that the kernels are tuned for and the oldest one. All have the
constants of the launchers.

A kernel without a budget fails with the line to add. Another version of the compiler than the one that the budgets
were recorded with compiles everything too, but only reports what differs.
``python -m tests.kernels.device.test_compile`` records all anew.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

from papilio.kernels.device.compile import SOURCES
from papilio.kernels.device.constants import with_constants
from tests.conftest import ROOT
from tests.tools.caches import cache_folder, content_key, locked, mark_used

try:
    from cupy.cuda import nvrtc

    from tools.build_cubins import BUDGET_FILE, read_variant

    nvrtc.getVersion()
except (ImportError, RuntimeError) as error:
    pytest.skip(f"NVRTC cannot be used: {error}; install papilio[nvrtc]", allow_module_level=True)

FOLDERS = sorted({path.parent for path in SOURCES.values()})
RECORDED: dict[str, Any] = json.loads(BUDGET_FILE.read_text())
BUDGETS: dict[str, dict[str, dict[str, Any]]] = RECORDED["budgets"]
VERSION = "{}.{}".format(*nvrtc.getVersion())

_OLDEST, _TUNED = 75, 90
_REGISTER_UNIT = 8
_LIMITS = ("registers", "stack_bytes", "static_shared_bytes")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
_KERNEL = re.compile(r"Compiling entry function '(\w+)' for 'sm_\w+'")
_FUNCTION = re.compile(r"Function properties for (\w+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True)
class Usage:
    """What one kernel uses on one architecture; all but the registers in bytes."""

    registers: int
    stack_bytes: int
    spill_bytes: int
    static_shared_bytes: int


def _architectures(entry: str) -> list[int]:
    """sm_75, sm_80, sm_90 and the first of each newer family that the compiler knows; with defines the two named."""
    known = [arch for arch in nvrtc.getSupportedArchs() if arch >= _OLDEST]
    newer = {arch // 10: arch for arch in sorted(known, reverse=True) if arch > _TUNED}
    every = [arch for arch in (_OLDEST, 80, _TUNED) if arch in known] + sorted(newer.values())
    return [arch for arch in every if not read_variant(entry)[1] or arch in (_OLDEST, _TUNED)]


def compile_for(text: str, name: str, defines: dict[str, int], arch: int) -> dict[str, Usage]:
    """Compile one source and return what each of its kernels uses, as the assembler reports it."""
    return _parse(_log_of(text, name, defines, [f"--gpu-architecture=sm_{arch}", "--ptxas-options=-v"]))


def check_language(text: str, name: str, defines: dict[str, int], arch: int) -> None:
    """Let the compiler read one source for an architecture, in a fraction of the time that it takes to make code."""
    _log_of(text, name, defines, [f"--gpu-architecture=compute_{arch}", "--fdevice-syntax-only"])


def _log_of(text: str, name: str, defines: dict[str, int], options: list[str]) -> str:
    """Return what the compiler reports; it runs once for the same source and options (``tests/tools/caches.py``)."""
    key = content_key([VERSION, name, *options, str(sorted(with_constants(defines).items())), *_texts(text)])
    report = cache_folder("nvrtc") / f"{key}.log"
    with locked(f"nvrtc-{key}"):
        if report.exists():
            mark_used(report)
        else:
            log = _compile(text, name, defines, options)
            report.with_suffix(".new").write_text(log)
            report.with_suffix(".new").rename(report)
        return report.read_text()


def _texts(text: str) -> list[str]:
    """Return a source and, behind it, the headers that it includes, directly or not."""
    texts: dict[str, str] = {}
    waiting = _INCLUDE.findall(text)
    while waiting:
        name = waiting.pop()
        if name not in texts and name in SOURCES:
            texts[name] = SOURCES[name].read_text()
            waiting += _INCLUDE.findall(texts[name])
    return [text, *(part for item in sorted(texts.items()) for part in item)]


def _compile(text: str, name: str, defines: dict[str, int], options: list[str]) -> str:
    what = f"{name} {defines or ''} does not compile with {options[0]}"
    common = [f"-D{key}={value}" for key, value in sorted(with_constants(defines).items())]
    common += ["-std=c++17", *(f"--include-path={folder}" for folder in FOLDERS)]
    program = nvrtc.createProgram(text, name, [], [])
    try:
        nvrtc.compileProgram(program, [*options, *common])
        return str(nvrtc.getProgramLog(program))
    except nvrtc.NVRTCError:
        pytest.fail(f"{what}:\n{nvrtc.getProgramLog(program)}")
    finally:
        nvrtc.destroyProgram(program)


def _parse(log: str) -> dict[str, Usage]:
    used: dict[str, dict[str, Any]] = {}
    kernel, function = "", ""
    for line in log.splitlines():
        if match := _KERNEL.search(line):
            kernel = match[1]
            used[kernel] = {"stack_bytes": 0, "spill_bytes": 0, "static_shared_bytes": 0}
        elif match := _FUNCTION.search(line):
            function = match[1]
        elif (match := _FRAME.search(line)) and function in used:
            used[function] |= {"stack_bytes": int(match[1]), "spill_bytes": int(match[2]) + int(match[3])}
        elif match := _USED.search(line):
            used[kernel]["registers"] = int(match[1])
            if shared := _SHARED.search(line):
                used[kernel]["static_shared_bytes"] = int(shared[1])
    return {name: Usage(**values) for name, values in used.items()}


def budget_for(usages: dict[int, Usage]) -> dict[str, Any]:
    """The tightest budget that holds what a kernel uses, by architecture."""
    budget: dict[str, Any] = {key: max(getattr(usage, key) for usage in usages.values()) for key in _LIMITS}
    budget["registers"] = -(-budget["registers"] // _REGISTER_UNIT) * _REGISTER_UNIT
    spills = {f"sm_{arch}": usage.spill_bytes for arch, usage in usages.items() if usage.spill_bytes}
    return budget | ({"spill_bytes": spills} if spills else {})


def violations(
    measured: dict[str, dict[int, Usage]], budgets: dict[str, dict[str, Any]], loose: bool = True
) -> list[str]:
    """What the kernels use beyond their budgets, and budgets that are missing, stale or loose.

    Parameters
    ----------
    measured : dict
        Per kernel and architecture.
    budgets : dict
        Per kernel: ``registers``, ``stack_bytes``, ``static_shared_bytes``, and ``spill_bytes`` by architecture.
    loose : bool
        Name budgets that are too high; only what is used on all architectures can tell.
    """
    found = [f"{name}: a budget without a kernel; remove it" for name in sorted(budgets.keys() - measured.keys())]
    for name, usages in measured.items():
        tight, budget = budget_for(usages), budgets.get(name)
        if budget is None:
            found.append(f'{name}: no budget; add  "{name}": {json.dumps(tight)}')
            continue
        spills = budget.get("spill_bytes", {})
        for arch, usage in usages.items():
            allowed = spills.get(f"sm_{arch}", 0)
            if usage.spill_bytes > allowed:
                found.append(f"{name} on sm_{arch}: {usage.spill_bytes} bytes of spills, the budget is {allowed}")
            found += [
                f"{name} on sm_{arch}: {getattr(usage, key)} {key}, the budget is {budget[key]}"
                for key in _LIMITS
                if getattr(usage, key) > budget[key]
            ]
        found += [
            f"{name}: budget of {budget[key]} {key}, no more than {tight[key]} are used; lower it"
            for key in _LIMITS
            if loose and budget[key] > tight[key] + (2 * _REGISTER_UNIT if key == "registers" else 0)
        ]
    return found


def measure(entry: str, architectures: list[int]) -> dict[str, dict[int, Usage]]:
    """Compile one entry for some architectures; what each kernel uses on each."""
    stem, defines = read_variant(entry)
    text = SOURCES[f"{stem}.cu"].read_text()
    measured: dict[str, dict[int, Usage]] = {}
    for arch in architectures:
        for name, usage in compile_for(text, f"{stem}.cu", defines, arch).items():
            measured.setdefault(name, {})[arch] = usage
    return measured


def _entries() -> list[str]:
    stems = {path.stem for path in SOURCES.values() if path.suffix == ".cu"}
    return sorted(stems | {entry for entry in BUDGETS if read_variant(entry)[0] in stems})


def check(entry: str, architectures: list[int], loose: bool) -> None:
    """Fail when a kernel of the entry has left its budget, skip when it was compiled by another compiler."""
    measured = measure(entry, architectures)
    assert measured, f"{entry}: the source holds no kernel"
    found = violations(measured, BUDGETS.get(entry, {}), loose)
    if found and RECORDED["nvrtc"] != VERSION:
        pytest.skip(f"compiles; the budgets are of NVRTC {RECORDED['nvrtc']}, {VERSION} differs: " + "; ".join(found))
    assert not found, f"{entry}:\n" + "\n".join(found)


def _representatives() -> list[str]:
    """Of each source, the first entry with the fewest defines that is launched where the kernels are tuned for."""
    found: dict[str, str] = {}
    for entry in sorted(_entries(), key=lambda entry: len(read_variant(entry)[1])):
        stem, defines = read_variant(entry)
        variants = [other for source, other in map(read_variant, BUDGETS) if source == stem and other]
        if defines or not variants or any("MIN_BLOCKS" not in other for other in variants):
            found.setdefault(stem, entry)
    return sorted(found.values())


@pytest.mark.parametrize("entry", _entries())
def test_sources_are_cuda(entry: str) -> None:
    stem, defines = read_variant(entry)
    for arch in (_OLDEST, _TUNED):
        check_language(SOURCES[f"{stem}.cu"].read_text(), f"{stem}.cu", defines, arch)


def test_what_an_architecture_does_not_have_is_found() -> None:
    text = "__device__ unsigned f(unsigned x) { return __reduce_add_sync(~0u, x); }"
    check_language(text, "newer.cu", {}, 80)
    with pytest.raises(pytest.fail.Exception, match=r"(?s)newer\.cu .*compute_75.*__reduce_add_sync"):
        check_language(text, "newer.cu", {}, 75)


@pytest.mark.parametrize("entry", _representatives())
def test_kernels_stay_within_their_budgets(entry: str) -> None:
    check(entry, [_TUNED], loose=False)


@pytest.mark.slow
@pytest.mark.parametrize("entry", _entries())
def test_kernels_stay_within_their_budgets_on_every_architecture(entry: str) -> None:
    check(entry, _architectures(entry), loose=True)


def test_every_budget_has_a_source() -> None:
    stems = {path.stem for path in SOURCES.values() if path.suffix == ".cu"}
    assert {read_variant(entry)[0] for entry in BUDGETS} <= stems


def test_headers_compile_alone() -> None:
    for path in (path for path in SOURCES.values() if path.suffix == ".cuh"):
        check_language(f'#include "{path.name}"\n', f"{path.stem}.cu", {}, _TUNED)


def test_sources_use_no_builtins() -> None:
    """NVRTC of CUDA 12 and 13.0 knows no ``__builtin_offsetof``, which later ones do."""
    for path in SOURCES.values():
        assert "__builtin_" not in path.read_text(), path.name


def test_kernels_of_the_emulators_tests_are_cuda() -> None:
    folder = ROOT / "tests" / "emulator"
    for path in sorted([*folder.glob("right_kernels/*.cu"), *folder.glob("wrong_kernels/*.cu")]):
        check_language(path.read_text(), path.name, {}, _TUNED)


_HUNGRY = """
extern "C" __global__ void __launch_bounds__(1024, 2) hungry(const double* in, double* out, int n) {
    double x[48];
    for (int i = 0; i < 48; ++i) x[i] = in[i * 1024 + threadIdx.x];
    for (int round = 0; round < n; ++round) {
#pragma unroll
        for (int i = 0; i < 48; ++i) x[i] = x[i] * x[(i + 7) % 48] + x[(i + 13) % 48];
    }
    for (int i = 0; i < 48; ++i) out[i * 1024 + threadIdx.x] = x[i];
}
extern "C" __global__ void stacked(const int* in, int* out, int n) {
    __shared__ int room[32];
    int local[64];
    for (int i = 0; i < n; ++i) local[in[i] & 63] = i;
    room[threadIdx.x] = local[in[n] & 63];
    __syncthreads();
    out[threadIdx.x] = room[31 - threadIdx.x] + blockIdx.x;
}
"""


@pytest.fixture(scope="module")
def hungry() -> dict[str, dict[int, Usage]]:
    """Kernels that spill, hold an array on the stack and use shared memory."""
    return {name: {80: usage} for name, usage in compile_for(_HUNGRY, "hungry.cu", {}, 80).items()}


def test_spills_are_found(hungry: dict[str, dict[int, Usage]]) -> None:
    spilt = hungry["hungry"][80].spill_bytes
    assert spilt > 0
    assert hungry["stacked"][80].spill_bytes == 0
    tight = {name: budget_for(usages) for name, usages in hungry.items()}
    assert violations(hungry, tight) == []
    assert tight["hungry"].pop("spill_bytes") == {"sm_80": spilt}
    assert violations(hungry, tight) == [f"hungry on sm_80: {spilt} bytes of spills, the budget is 0"]


def test_use_beyond_the_budget_is_found(hungry: dict[str, dict[int, Usage]]) -> None:
    usage = hungry["stacked"][80]
    assert (usage.stack_bytes, usage.static_shared_bytes) == (256, 128)
    budget = {"registers": usage.registers - 1, "stack_bytes": 255, "static_shared_bytes": 127}
    assert violations({"stacked": hungry["stacked"]}, {"stacked": budget}) == [
        f"stacked on sm_80: {usage.registers} registers, the budget is {usage.registers - 1}",
        "stacked on sm_80: 256 stack_bytes, the budget is 255",
        "stacked on sm_80: 128 static_shared_bytes, the budget is 127",
    ]


def test_missing_stale_and_loose_budgets_are_found(hungry: dict[str, dict[int, Usage]]) -> None:
    stacked = {"stacked": hungry["stacked"]}
    rounded = -(-hungry["stacked"][80].registers // 8) * 8
    tight = {"registers": rounded, "stack_bytes": 256, "static_shared_bytes": 128}
    assert violations(stacked, {}) == [f'stacked: no budget; add  "stacked": {json.dumps(tight)}']
    assert violations(stacked, {"gone": tight, "stacked": tight | {"registers": 128}}) == [
        "gone: a budget without a kernel; remove it",
        f"stacked: budget of 128 registers, no more than {rounded} are used; lower it",
    ]


def test_errors_of_the_compiler_are_shown() -> None:
    with pytest.raises(
        pytest.fail.Exception,
        match=r"(?s)wrong\.cu .*does not compile with .*=sm_90.*wrong\.cu\(1\): error",
    ):
        compile_for("__device__ int f() { return x; }", "wrong.cu", {}, 90)


def record() -> None:
    """Write the budgets that the present sources need."""
    entries = {entry: measure(entry, _architectures(entry)) for entry in _entries()}
    budgets = {
        entry: {name: budget_for(usages) for name, usages in sorted(measured.items())}
        for entry, measured in entries.items()
    }
    lines = (
        f'    "{entry}": {{\n'
        + ",\n".join(f'      "{name}": {json.dumps(budget)}' for name, budget in kernels.items())
        + "\n    }"
        for entry, kernels in budgets.items()
    )
    head = f'{{\n  "nvrtc": "{VERSION}",\n  "budgets": {{\n'
    BUDGET_FILE.write_text(head + ",\n".join(lines) + "\n  }\n}\n")


if __name__ == "__main__":
    record()
