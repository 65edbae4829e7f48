"""`penstock cluster`: see how a cluster is, spread its load, empty a broker, even out its leaders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from penstock.cli.confirm import YesOption, confirm
from penstock.cli.connection import DEFAULT_BOOTSTRAP, BootstrapOption
from penstock.cli.failure import fail, say
from penstock.cli.moving import wait_until_empty, wait_until_moved
from penstock.cli.operator import Operator, in_chunks, tell_refused
from penstock.cli.output import Output, OutputOption, show_fields, show_json, show_rows
from penstock.cli.rate import Rate, bytes_a_second

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="See how a cluster is, spread its load, empty a broker, even out its leaders.",
)

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would change, change nothing.")]

ThrottleOption = Annotated[
    Rate | None,
    typer.Option(
        parser=Rate.parse,
        metavar="RATE",
        help="How much each broker may copy a second, for example 20MB/s. Ends with the move.",
    ),
]

_TROUBLES = ("without_leader", "under_replicated", "below_min_isr", "not_preferred")
_NAMED = 10
# Moves of a plan on a screen.
_SHOWN = 50
_COPIES = "this copies data between brokers"
_AGAIN = "plan again with: penstock cluster rebalance"


@app.command(epilog="Example: penstock cluster status --bootstrap broker-1:9092")
def status(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, output: OutputOption = Output.TEXT) -> None:
    """Show the brokers with what they hold, and the partitions that somebody should look at."""
    found = Operator(bootstrap).ask("status")["status"]
    if output is Output.JSON:
        show_json(found)
        return
    head = {name: found[name] for name in ("cluster_id", "controller", "topics", "partitions")}
    show_fields(output, {**head, **{name: _named(found[name]) for name in _TROUBLES}, **_moving(found)})
    columns = ["broker", "address", "rack", "live", "draining", "replicas", "leaders", "bytes", "free_bytes"]
    rows = [{**each, "broker": each["node_id"], "bytes": each["size_bytes"]} for each in found["brokers"]]
    show_rows(output, [{**row, "address": row["address"] or bootstrap} for row in rows], columns)


@app.command(epilog="Example: penstock cluster rebalance --throttle 20MB/s")
def rebalance(
    throttle: ThrottleOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Move replicas until all brokers hold alike; one that has joined gets its share. Shows the plan and asks first."""
    operator = Operator(bootstrap)
    plan = operator.ask("plan", kind="rebalance")["plan"]
    moves = plan["moves"]
    if dry_run or not moves:
        _show_plan(output, plan, done=False)
        say("dry run: nothing was changed" if dry_run else "nothing to move: the brokers hold alike")
        return
    if output is Output.TEXT:
        _show_plan(output, plan, done=False)
    confirm(f"Move {_amount(moves)}?", yes, _COPIES)
    begun, refused = _execute(operator, moves, throttle)
    refused += wait_until_moved(operator, begun)
    _elect(operator, begun)
    if output is Output.JSON:
        _show_plan(output, plan, done=True, refused=refused)
    _finish(refused, f"moved {_amount(begun)}")


@app.command(epilog="Example: penstock cluster drain 3 --throttle 20MB/s")
def drain(
    broker: Annotated[int, typer.Argument(metavar="BROKER", min=0, help="Its node.id.")],
    throttle: ThrottleOption = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Drain no more: what is still there stays.")] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Empty a broker: all of its replicas go to others, and no new ones come, until --cancel."""
    operator = Operator(bootstrap)
    if cancel:
        stopped = operator.ask("drain", node_id=broker, draining=False).get("done", 0)
        show_fields(output, {"broker": broker, "draining": False, "moves_cancelled": stopped})
        return
    plan = operator.ask("plan", kind="drain", node_id=broker)["plan"]
    if dry_run or output is Output.TEXT:
        _show_plan(output, plan, done=False)
    if dry_run:
        say("dry run: nothing was changed")
        return
    confirm(f"Move {_amount(plan['moves'])} away from broker {broker}?", yes, _COPIES)
    wish = {"node_id": broker, "draining": True, "throttled_rate": bytes_a_second(throttle)}
    plan = operator.ask("drain", **wish)["plan"]
    moved = wait_until_empty(operator, wish, plan["moves"])
    _elect(operator, moved)
    if output is Output.JSON:
        _show_plan(output, plan, done=True)
    say(f"moved {_amount(moved)}: broker {broker} is empty, and gets nothing until it is drained no more (--cancel)")


@app.command(epilog="Example: penstock cluster throttle 50MB/s")
def throttle(
    rate: Annotated[
        Rate, typer.Argument(parser=Rate.parse, metavar="RATE", help="For example 20MB/s; none: as fast as it can.")
    ],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TEXT,
) -> None:
    """Give the moves under way another throttle. It ends with them."""
    reply = Operator(bootstrap).ask("throttle", throttled_rate=bytes_a_second(rate))
    refused = reply.get("refused", [])
    tell_refused(refused)
    show_fields(output, {"throttle": str(rate), "moves": reply.get("done", 0)})
    if refused:
        fail(f"{len(refused)} moves keep the throttle that they had")


@app.command(epilog="Example: penstock cluster leaders --dry-run")
def leaders(
    dry_run: DryRunOption = False, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, output: OutputOption = Output.TEXT
) -> None:
    """Even out the leaders over the brokers, and have every partition led by its preferred one. Copies nothing."""
    operator = Operator(bootstrap)
    plan = operator.ask("plan", kind="leaders")["plan"]
    refused: list[dict[str, Any]] = []
    elected = 0
    if not dry_run:
        _, refused = _execute(operator, plan["moves"])
        reply = operator.ask("elect", partitions=None)
        elected = reply.get("done", 0)
        refused += reply.get("refused", [])
    _show_plan(output, plan, done=not dry_run, refused=refused, elected=elected)
    if dry_run:
        say("dry run: nothing was changed")
        return
    _finish(refused, f"{elected} partitions have another leader now")


def _execute(
    operator: Operator, moves: Sequence[dict[str, Any]], throttle: Rate | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Those that have begun, and those that were refused."""
    refused: list[dict[str, Any]] = []
    for chunk in in_chunks(moves):
        refused += operator.ask("execute", moves=chunk, throttled_rate=bytes_a_second(throttle)).get("refused", [])
    stay = {(each["topic"], each["partition"]) for each in refused}
    return [move for move in moves if (move["topic"], move["partition"]) not in stay], refused


def _elect(operator: Operator, moves: Sequence[dict[str, Any]]) -> None:
    """The plan has said who should lead what has moved; a leader that cannot yet gets it when it can."""
    for chunk in in_chunks(moves):
        operator.ask("elect", partitions=[(move["topic"], move["partition"]) for move in chunk])


def _finish(refused: Sequence[dict[str, Any]], text: str) -> None:
    if not refused:
        say(text)
        return
    tell_refused(refused)
    fail(f"{text}, but {len(refused)} partitions are not as planned", do=_AGAIN)


def _show_plan(
    output: Output,
    plan: dict[str, Any],
    *,
    done: bool,
    refused: Sequence[dict[str, Any]] = (),
    **more: Any,
) -> None:
    if output is Output.JSON:
        copied = sum(move["size_bytes"] for move in plan["moves"])
        show_json({"done": done, "size_bytes": copied, **plan, "refused": list(refused), **more})
        return
    if plan["moves"]:
        show_rows(output, plan["moves"][:_SHOWN], ["topic", "partition", "before", "replicas", "size_bytes"])
    if len(plan["moves"]) > _SHOWN:
        say(f"and {len(plan['moves']) - _SHOWN:,} more; --output json shows all")
    rows = [
        {"broker": each["node_id"], **{name: _change(each, name) for name in ("replicas", "leaders", "size_bytes")}}
        for each in plan["brokers"]
    ]
    show_rows(output, rows, ["broker", "replicas", "leaders", "size_bytes"])


def _change(broker: dict[str, Any], name: str) -> str:
    before, after = broker["before"][name], broker["after"][name]
    return f"{before:,}" if before == after else f"{before:,} -> {after:,}"


def _amount(moves: Sequence[dict[str, Any]]) -> str:
    copied = sum(move["size_bytes"] for move in moves)
    return f"{len(moves):,} partition{'' if len(moves) == 1 else 's'} ({copied / 1e6:,.1f} MB)"


def _named(troubled: dict[str, Any]) -> str:
    names = ", ".join(troubled["partitions"][:_NAMED])
    more = ", ..." if troubled["count"] > _NAMED else ""
    return f"{troubled['count']} ({names}{more})" if names else "0"


def _moving(found: dict[str, Any]) -> dict[str, Any]:
    rows = [
        f"{each['topic']}-{each['partition']} (to {each['adding']}, from {each['removing']})"
        for each in found["moving"][:_NAMED]
    ]
    return {"reassignments": found["reassignments"], **({"moving": rows} if rows else {})}
