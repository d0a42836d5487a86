"""Make graph stores: ``convert`` and ``generate`` with a progress bar on request."""

from __future__ import annotations

from papilio.cluster.progress import shows_phases, shows_units
from papilio.storage.convert import convert as _convert
from papilio.storage.generate import generate as _generate

CONVERT_PHASES = {"read": ("reading", "bytes"), "write": ("sorting and writing", "edges")}
"""Text of the bar and unit for each phase of :data:`papilio.storage.convert.ConvertProgress`."""

convert = shows_phases(CONVERT_PHASES)(_convert)
generate = shows_units("generating")(_generate)
