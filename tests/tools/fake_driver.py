"""A CUDA driver library without a GPU, which tells what it was asked: for tests of who sees which device.

It honours ``CUDA_VISIBLE_DEVICES`` as the driver does: entries count until the first that names no device, and
of the slices of partitioned GPUs a process sees the first that is listed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["ASKS_ONLY", "FAKE_MEMORY_BYTES", "build_driver", "calls_of", "fake_uuid", "with_driver"]

FAKE_MEMORY_BYTES = 80 << 30

_SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { GPUS = 4 };
static int visible[GPUS], n_visible, sliced;
static unsigned char slice[16];
static int note(const char *name, int answer) {
    const char *path = getenv("FAKE_CUDA_LOG");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (log) { fprintf(log, "%d %s\n", (int)getpid(), name); fclose(log); }
    return answer;
}
static void see(void) {
    const char *listed = getenv("CUDA_VISIBLE_DEVICES");
    n_visible = sliced = 0;
    if (!listed) { for (; n_visible < GPUS; n_visible++) visible[n_visible] = n_visible; return; }
    if (!strncmp(listed, "MIG-", 4)) {
        int at = 0;
        for (const char *c = listed + 4; *c && *c != ',' && at < 32; c++) {
            if (*c == '-') continue;
            int digit = *c <= '9' ? *c - '0' : *c - 'a' + 10;
            slice[at / 2] = at % 2 ? slice[at / 2] | digit : digit << 4;
            at++;
        }
        visible[0] = 0; n_visible = 1; sliced = 1;
        return;
    }
    char text[4096];
    snprintf(text, sizeof text, "%s", listed);
    for (char *entry = strtok(text, ","); entry && n_visible < GPUS; entry = strtok(NULL, ",")) {
        char *end;
        long ordinal = strtol(entry, &end, 10);
        if (*end || end == entry || ordinal < 0 || ordinal >= GPUS) return;
        visible[n_visible++] = (int)ordinal;
    }
}
int cuInit(unsigned flags) { see(); return note("cuInit", 0); }
int cuDriverGetVersion(int *version) { *version = 13010; return note("cuDriverGetVersion", 0); }
int cuDeviceGetCount(int *count) { *count = n_visible; return note("cuDeviceGetCount", 0); }
int cuDeviceGet(int *device, int ordinal) { *device = visible[ordinal]; return note("cuDeviceGet", 0); }
int cuDeviceGetName(char *name, int length, int device) {
    strncpy(name, "Test GPU", length); return note("cuDeviceGetName", 0);
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    *bytes = 80ULL << 30; return note("cuDeviceTotalMem_v2", 0);
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 9 : 1; return note("cuDeviceGetAttribute", 0);
}
int cuDeviceGetUuid(char *uuid, int device) {
    memset(uuid, 0xA0 + device, 16); return note("cuDeviceGetUuid", 0);
}
int cuDeviceGetUuid_v2(char *uuid, int device) {
    if (sliced) memcpy(uuid, slice, 16); else memset(uuid, 0xA0 + device, 16);
    return note("cuDeviceGetUuid_v2", 0);
}
int cuCtxCreate_v2(void **context, unsigned flags, int device) { return note("cuCtxCreate_v2", 2); }
int cuDevicePrimaryCtxRetain(void **context, int device) { return note("cuDevicePrimaryCtxRetain", 2); }
"""

ASKS_ONLY = {
    "cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem_v2",
    "cuDeviceGetAttribute", "cuDeviceGetUuid", "cuDeviceGetUuid_v2",
}  # fmt: skip
"""The calls that create no context."""


def build_driver(folder: Path) -> Path:
    """Compile the library into ``folder`` and return ``folder``; skips without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build a driver library with")
    source = folder / "driver.c"
    source.write_text(_SOURCE)
    library = folder / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True, timeout=600)
    return folder


def with_driver(folder: Path, log: Path | None = None, **changes: str) -> dict[str, str]:
    """Return the environment of a process that finds the library of ``folder``, and logs its calls."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder), **changes}
    return environment if log is None else {**environment, "FAKE_CUDA_LOG": str(log)}


def fake_uuid(ordinal: int) -> str:
    """Return the UUID of a device by its number on the machine."""
    pair = f"a{ordinal}"
    return f"GPU-{pair * 4}-{pair * 2}-{pair * 2}-{pair * 2}-{pair * 6}"


def calls_of(log: Path, pid: int) -> set[str]:
    """Return the functions that a process called."""
    lines = (line.split() for line in log.read_text().splitlines())
    return {name for caller, name in lines if int(caller) == pid}
