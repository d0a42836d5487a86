"""What the tests of CUDA kernels share."""

from __future__ import annotations

import pytest

from papilio.kernels.device.protocol import Device
from tests.conftest import EMULATOR_SEED
from tests.tools.devices import cuda_device, emulator


@pytest.fixture(scope="module", params=["emulator", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Device:
    """The emulator, and a GPU where there is one."""
    return cuda_device() if request.param == "gpu" else emulator(EMULATOR_SEED)


@pytest.fixture
def counts_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels count bicliques per vertex that are certain to exceed 64 bits, modulo 2^64."""
    monkeypatch.setattr("papilio.kernels.biclique.question.check_bicliques", lambda *given: None)
