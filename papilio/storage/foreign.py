"""Types of tables and graphs of other libraries, for annotations; no library is imported when a program runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from networkx import Graph as NetworkxGraph
    from pandas import DataFrame as PandasFrame
    from polars import DataFrame as PolarsFrame
    from pyarrow import RecordBatch as ArrowBatch
    from pyarrow import Schema as ArrowSchema
    from pyarrow import Table as ArrowTable
    from scipy.sparse import sparray as SparseArray

    __all__ = [
        "ArrowBatch", "ArrowSchema", "ArrowTable", "NetworkxGraph", "PandasFrame", "PolarsFrame", "SparseArray",
    ]  # fmt: skip
