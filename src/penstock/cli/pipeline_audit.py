"""`penstock pipeline run audit`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from pyspark.errors import PySparkException

from penstock.cli.connection import DEFAULT_BOOTSTRAP, BootstrapOption, connected_first
from penstock.cli.core.last_words import last_words
from penstock.cli.failure import EXIT_REFUSED, fail, say
from penstock.cli.output import Output, OutputOption, show_json, show_rows
from penstock.cli.pipeline_options import ConfOption, MasterOption, assignments
from penstock.cli.progress import Meter
from penstock.config.address import Address
from penstock.pipelines.audit import Audit, Expected
from penstock.pipelines.audit_cluster import AuditedCluster
from penstock.pipelines.audit_directory import DirectorySource
from penstock.pipelines.audit_tasks import Source
from penstock.pipelines.core.audit_report import AuditReport
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.session import spark_session

_COLUMNS = ("severity", "fault", "topic", "partition", "replica", "file", "first_offset", "next_offset", "what")


def run_audit(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", help="All, if none is named.")] = None,
    data_dirs: Annotated[
        list[Path] | None,
        typer.Option(
            "--data-dir", metavar="DIR", help="Of a node that has stopped, or a copy; may be repeated. Read only."
        ),
    ] = None,
    token: Annotated[
        str, typer.Option(envvar="PENSTOCK_AUDIT_TOKEN", help="What the brokers have in audit.token.")
    ] = "",
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Read every replica's segments, indexes and checkpoints, and compare the replicas. Exit code 1 if any is faulty.

    Through the brokers, which must have a setting audit.token; or, with --data-dir, in the directories of nodes that do
    not run.
    """
    wanted = frozenset(topics) if topics else None
    try:
        sources, expected = _directories(data_dirs) if data_dirs else _brokers(bootstrap, token)
        if wanted is not None and (known := {topic for topic, _ in expected()}) and wanted - known:
            fail(f"there is no topic {', '.join(sorted(wanted - known))}", do="see them with: penstock topic list")
        began_s = time.monotonic()
        with Meter("audited") as meter, spark_session("audit", master, assignments("--conf", conf)) as session:
            # What is read once more counts once.
            told = lambda done, _: meter.add(0, max(0, done - meter.bytes))  # noqa: E731
            report = Audit(session, sources, expected, wanted, told).run()
    except PipelineRefused as refusal:
        fail(str(refusal))
    except PySparkException as error:
        fail(f"Spark gave up: {last_words(str(error))}")
    _show(report, round(time.monotonic() - began_s, 3), output)
    if report.has_faults:
        raise typer.Exit(EXIT_REFUSED)


def _directories(data_dirs: list[Path]) -> tuple[list[Source], Expected]:
    return [DirectorySource(str(path.resolve())) for path in data_dirs], dict


def _brokers(bootstrap: str, token: str) -> tuple[list[Source], Expected]:
    if not token:
        raise PipelineRefused(
            "brokers serve audits to those who know their audit.token: give it with PENSTOCK_AUDIT_TOKEN or --token, "
            "or audit the directories of stopped nodes with --data-dir"
        )
    connected_first(bootstrap)
    cluster = AuditedCluster(tuple(Address.parse(each.strip()) for each in bootstrap.split(",")), token)
    return cluster.sources, cluster.placement


def _show(report: AuditReport, seconds: float, output: Output) -> None:
    summary, findings = report.summary(), report.findings
    if output is Output.JSON:
        show_json({**summary, "seconds": seconds, "findings": [finding.row() for finding in findings]})
        return
    if findings:
        show_rows(output, [finding.row() for finding in findings], _COLUMNS)
        for fault in dict.fromkeys(finding.fault for finding in findings):
            print(f"\n{fault.value}: {fault.do}")
    numbers = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in summary.items())
    say(f"{'found what is above' if findings else 'found nothing wrong'} in {seconds:,.1f} s ({numbers})")
