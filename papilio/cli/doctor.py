"""The command that looks before anything runs: doctor."""

from __future__ import annotations

import click

from papilio.cli.options import JSON_FLAG, WORKERS
from papilio.cli.report import print_json
from papilio.cluster.doctor import Check, check_machine, check_store, failure_of


@click.command()
@click.argument("store", type=click.Path(), required=False)
@click.option(
    "--cluster", metavar="CLUSTER",
    help="Check this cluster too: inline, local, cuda, auto, an address, or a scheduler file.",
)  # fmt: skip
@click.option("--workers", type=WORKERS, help="Workers to start or to wait for.")
@JSON_FLAG
def doctor(store: str | None, cluster: str | None, workers: int | None, as_json: bool) -> None:
    """Check what this machine offers, and a cluster and a graph STORE where named.

    One line per check: ok, or warn or FAIL with what to do, or - for what is absent and not needed. Warnings
    leave the exit code at 0.
    """
    checks, opened = check_machine(), None
    if store is not None:
        check, opened = check_store(store)
        checks.append(check)
    if cluster is not None:
        from papilio.cluster.doctor_workers import check_cluster

        checks += check_cluster(cluster, opened, workers)
    failure = failure_of(checks)
    if as_json:
        print_json({"ok": failure is None, "checks": [vars(check) for check in checks]})
    else:
        click.echo("\n".join(_lines(checks)))
    if failure is not None:
        raise failure


def _lines(checks: list[Check]) -> list[str]:
    """Return the report; advice stands on a line of its own."""
    marks = {"ok": "ok", "warn": "warn", "fail": "FAIL", "skip": "-"}
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{marks[check.status]:<4}  {check.name:<{width}}  {check.found}")
        if check.advice:
            lines.append(f"{'':<4}  {'':<{width}}  -> {check.advice}")
    return lines
