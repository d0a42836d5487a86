"""`papilio doctor`: check the machine and the cluster before a run."""

from __future__ import annotations

from time import perf_counter

import click

from papilio.cli.options import JSON_FLAG, WORKERS
from papilio.cli.report import print_json, say
from papilio.cluster.doctor import Check, check_cluster, check_machine, check_store, failure_of


@click.command()
@click.argument("store", type=click.Path(), required=False)
@click.option(
    "--cluster", metavar="CLUSTER",
    help="Check this cluster too: inline, local, cuda, auto, an address, or a scheduler file.",
)  # fmt: skip
@click.option("--workers", type=WORKERS, help="Workers to start or to wait for.")
@click.option(
    "--warm", is_flag=True,
    help="Compile all kernels now, into the caches that later runs read; takes minutes the first time.",
)  # fmt: skip
@JSON_FLAG
def doctor(store: str | None, cluster: str | None, workers: int | None, warm: bool, as_json: bool) -> None:
    """Check what this machine offers, and a cluster and a graph STORE where named.

    One line per check: ok, or warn or FAIL with what to do, or - for what is absent and not needed. Warnings
    leave the exit code at 0.
    """
    checks, opened = check_machine(), None
    if warm:
        checks.append(_warm())
    if store is not None:
        check, opened = check_store(store)
        checks.append(check)
    if cluster is not None:
        checks += check_cluster(cluster, opened, workers)
    failure = failure_of(checks)
    if as_json:
        print_json({"ok": failure is None, "checks": [vars(check) for check in checks]})
    else:
        click.echo("\n".join(_lines(checks)))
    if failure is not None:
        raise failure


def _warm() -> Check:
    """Compile all kernels, with a line on standard error for each question."""
    from papilio.kernels.device.discovery import missing_for_gpu
    from papilio.tasks.warming import warm_everything

    began = perf_counter()
    told = warm_everything(
        ("cpu",) if missing_for_gpu() is not None else ("cpu", "gpu"),
        lambda what, seconds: say(f"compiled in {seconds:.1f} s: {what}"),
    )
    return Check("compiled kernels", "ok", f"for {told} questions, in {perf_counter() - began:.1f} s")


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
