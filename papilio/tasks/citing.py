"""What a paper needs: how to cite Papilio, the methods of an answer as a paragraph, and the versions behind it."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from papilio.arguments import checked, plural
from papilio.version import __version__

_PACKAGES = ("numpy", "numba", "pyarrow", "dask", "distributed", "duckdb", "fsspec", "pandas", "polars", "networkx",
             "scipy", "igraph", "matplotlib", "cupy-cuda12x", "cupy-cuda13x", "dask-cuda", "dask-jobqueue")  # fmt: skip

_PAPILIO = (
    f"The Papilio developers. Papilio: exact counting and enumeration of dense motifs in large graphs. "
    f"Version {__version__}."
)

# The references of null models and statistics: whole entries, as a list of references has them
_CURVEBALL = (
    "Carstens, C. J., Berger, A., Strona, G. Curveball: a new generation of sampling algorithms for graphs with fixed "
    "degree sequence. arXiv:1609.05137 (2016).",
    "Carstens, C. J., Hamann, M., Meyer, U., Penschuck, M., Tran, H., Wagner, D. Parallel and I/O-efficient "
    "randomisation of massive networks using global curveball trades. ESA 2018. doi:10.4230/LIPIcs.ESA.2018.11",
)
_ENTROPY = {
    "bipartite": "Saracco, F., Di Clemente, R., Gabrielli, A., Squartini, T. Randomizing bipartite networks: the case "
    "of the World Trade Web. Scientific Reports 5, 10595 (2015). doi:10.1038/srep10595",
    "unipartite": "Squartini, T., Garlaschelli, D. Analytical maximum-likelihood method to detect patterns in real "
    "networks. New Journal of Physics 13, 083001 (2011). doi:10.1088/1367-2630/13/8/083001",
}
_HOCHBERG = (
    "Benjamini, Y., Hochberg, Y. Controlling the false discovery rate. J. R. Stat. Soc. B 57, 289-300 (1995). "
    "doi:10.1111/j.2517-6161.1995.tb02031.x"
)
_PEARSON = (
    "Clopper, C. J., Pearson, E. S. The use of confidence or fiducial limits illustrated in the case of the binomial. "
    "Biometrika 26, 404-413 (1934). doi:10.1093/biomet/26.4.404"
)

_SHARED = {
    "degrees": "with the degree of every vertex, all such graphs equally likely",
    "expected-degrees": "of maximum entropy with the degree of every vertex as the expected one",
    "edges": "with the same numbers of vertices and edges, all such graphs equally likely",
    "signs": "that are the graph itself with its signs permuted",
}


@checked
def citation() -> str:
    """Return how to cite this version of Papilio, and a BibTeX entry."""
    return (
        f"{_PAPILIO}\n\n@software{{papilio,\n  author = {{{{The Papilio developers}}}},\n  title = {{Papilio}},\n"
        f"  version = {{{__version__}}},\n}}"
    )


@checked
def show_versions() -> None:
    """Print the versions of Papilio, Python and every package that an answer may depend on, for a report."""
    rows = [("papilio", __version__), ("python", platform.python_version()), ("platform", platform.platform())]
    for name in _PACKAGES:
        try:
            rows.append((name, version(name)))
        except PackageNotFoundError:
            rows.append((name, "-"))
    print("\n".join(f"{name:<14} {found}" for name, found in rows))


def describe_count(result: Any) -> str:
    """Return the methods of a ``CountResult``: a paragraph, an empty line, and the references."""
    return "\n".join([_count_sentence(result), "", _PAPILIO])


def describe_significance(result: Any) -> str:
    """Return the methods of a ``SignificanceResult``, as :func:`describe_count`."""
    ensemble, total = result.ensemble, result.total
    parts = [f"The count was compared with {ensemble.samples:,} random graphs {_SHARED[ensemble.null]}"]
    references = [_PAPILIO]
    if result.trades is not None:
        parts.append(f", each after {plural(result.trades, 'global curveball trade')} from the graph")
        references += _CURVEBALL
        if result.bias is not None:
            parts.append(f" (a pilot predicts a bias of {result.bias:.2g} standard deviations)")
    if ensemble.null == "expected-degrees":
        references.append(_ENTROPY[result.graph["kind"]])
    parts.append(f"; the seed is {ensemble.seed}. ")
    if total.z is None:
        parts.append("All of them have the same count. ")
    else:
        parts.append(
            f"Their mean count is {total.mean:.6g} and its standard deviation {total.std:.4g}, hence z = {total.z:.3g} "
            f"(95 % interval {total.z_low:.3g} to {total.z_high:.3g}, by the delta method). "
        )
    parts.append(
        f"The two-sided empirical p-value is {total.p_value:.3g} (95 % interval {total.p_low:.3g} to "
        f"{total.p_high:.3g}, Clopper and Pearson): twice the share of graphs, counting the observed one, that are at "
        f"least as extreme."
    )
    references.append(_PEARSON)
    if result.per == "vertex" or result.motif.is_table:
        what = "vertices" if result.per == "vertex" else "sizes"
        n_tests = result.n_tests
        parts.append(f" P-values of {n_tests:,} {what} are corrected by Benjamini and Hochberg's procedure.")
        references.append(_HOCHBERG)
    return "\n".join([f"{_count_sentence(result)} {''.join(parts)}", "", *references])


def _count_sentence(result: Any) -> str:
    graph: dict[str, Any] = result.graph
    sizes = f"{graph['n_u']:,} and {graph['n_v']:,} vertices"
    if graph["kind"] == "unipartite":
        sizes = f"{graph['n_u']:,} vertices"
    per = "" if result.per == "total" else f", per {result.per}"
    return (
        f"The motif {result.motif.title!r} was counted exactly{per}, by Papilio {__version__} ({result.engine.upper()} "
        f"engine), in a {graph['kind']} graph of {sizes} and {graph['n_edges']:,} edges: {result.count:,}."
    )
