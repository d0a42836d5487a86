"""Butterflies: phases and rates on the named cases.

python -m benchmarks.butterfly --engine gpu --data ../shared/data --output benchmarks/results/butterfly-gpu.json
"""

from __future__ import annotations

import sys

from benchmarks.cases import CASES, load_graph
from benchmarks.harness import Measurement, describe_machine, make_parser, measure, print_table
from benchmarks.limits import wedge_limit_cpu, wedge_limit_gpu
from papilio.motifs import GRANULARITIES, Butterfly

_CPU_SKIPS = ("rb1",)


def main() -> int:
    """Run the requested cases; the exit status is 1 when a count is wrong."""
    parser = make_parser(__doc__)
    parser.add_argument("--engine", choices=("cpu", "gpu"), required=True)
    parser.add_argument("--cases", help="comma-separated names; by default all (rb1 only on a GPU)")
    parser.add_argument("--per", default=",".join(GRANULARITIES), help="comma-separated granularities")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    wanted = options.cases.split(",") if options.cases else None
    limit = wedge_limit_gpu() if options.engine == "gpu" else wedge_limit_cpu()
    rows: list[Measurement] = []
    for case in CASES:
        if case.name not in wanted if wanted else options.engine == "cpu" and case.name in _CPU_SKIPS:
            continue
        graph = load_graph(case.name, options.data)
        if graph is None:
            continue
        for per in GRANULARITIES:
            if per in options.per.split(","):
                total_only = per == "total" and options.engine == "gpu"
                rows.append(
                    measure(
                        case.name,
                        graph,
                        Butterfly(),
                        options.engine,
                        per,
                        limit=limit,
                        expected=case.butterflies,
                        repeats=options.repeats,
                        target_s=case.target_s if total_only else None,
                        peers_s=case.peers_s if total_only else None,
                    )
                )
    facts = describe_machine(options.engine)
    print_table(facts, rows, options.output)
    return 0 if all(row.correct for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
