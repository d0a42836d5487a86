"""What engines launch with the constants of their devices has a budget, and thus machine code in a wheel."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from papilio.errors import InputError, UnsupportedError
from papilio.kernels.device.compile import name_cubin, read_source
from papilio.kernels.device.constants import with_constants
from papilio.kernels.device.protocol import Device
from papilio.kernels.null.gpu import make_randomizer_gpu
from papilio.kernels.null.models import NullModel
from papilio.kernels.peel.core_table import list_cores_on_gpu
from papilio.kernels.peel.decompose import decompose_on_gpu
from papilio.kernels.peel.phases import ignore_report
from papilio.tasks.warming import list_questions
from papilio.tasks.worker_state import complete_graph
from tests.tools.devices import emulator

_SIDE = 6


class _Recorder:
    """A device that notes what is loaded."""

    def __init__(self, device: Device, loaded: dict[str, str]) -> None:
        self._device, self._loaded = device, loaded

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def load(self, stem: str, defines: Mapping[str, int]) -> Any:
        given = " ".join((stem, *(f"{name}={value}" for name, value in sorted(defines.items()))))
        self._loaded[_name(stem, defines)] = given
        return self._device.load(stem, defines)


def _name(stem: str, defines: Mapping[str, int]) -> str:
    """Return a name that is the same for defines that change nothing."""
    return name_cubin(read_source(f"{stem}.cu"), with_constants(defines), 90, 13, b"")


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "shared_kib"), [(75, 64), (80, 163), (86, 99), (90, 227), (120, 99)])
def test_all_that_is_launched_has_machine_code(arch: int, shared_kib: int) -> None:
    building = pytest.importorskip("tools.build_cubins", reason="CuPy is not installed")
    loaded: dict[str, str] = {}
    device: Any = _Recorder(emulator(1, max_shared_bytes=shared_kib << 10), loaded)
    for question in list_questions("gpu"):
        motif, per, options, listing = question.motif, question.per, question.options, question.listing
        family = question.row
        if listing is None:
            made = family.engines["gpu"]
        else:
            assert family.listed is not None
            made = family.listed.engines["gpu"]
        given = dict(options) if listing is None else {"listing": listing, **dict(options)}
        engine = made()(device, **given)
        graph = complete_graph(family.graph_kind, _SIDE, signed=motif.needs_signs)
        with suppress(InputError, UnsupportedError):  # not every motif goes with every option
            prepared = engine.prepare(graph, motif, per)
            engine.run(prepared, 0, prepared.n_items)
            items = np.arange(prepared.n_items)
            engine.prober(prepared).count(items, items.astype(np.uint64))
            engine.prober(prepared).walk(items, items.astype(np.uint64))
    peeled = complete_graph("bipartite", _SIDE)
    for kind, layer in (("wing", None), ("tip", "u"), ("core", "u")):
        decompose_on_gpu(device, peeled, kind, layer, True, ignore_report, least=1)
    list_cores_on_gpu(device, peeled, ignore_report)
    make_randomizer_gpu(device, complete_graph("bipartite", _SIDE), NullModel("degrees")).sample(1, 0)
    entries = [*building.list_entries(arch), *(building.list_entries(80) if arch == 86 else [])]
    built = {_name(*building.read_variant(entry)) for entry in entries}
    assert len(loaded) > 20
    assert sorted(given for name, given in loaded.items() if name not in built) == []
