"""Settings of the controller: who leads, and how a broker leaves."""

from penstock.config.setting import Scope, Section, section, setting


@section(scope=Scope.NODE)
class ControllerSettings(Section):
    auto_leader_rebalance_enable: bool = setting(
        True,
        name="auto.leader.rebalance.enable",
        doc="Whether leaderships go back to a partition's first replica when that one has been back for a while. "
        "Without it a restarted broker stays without work until somebody elects it.",
    )
    controlled_shutdown_ms: int = setting(
        10_000,
        name="controlled.shutdown.ms",
        at_least=0,
        at_most=600_000,
        doc="How long a broker that is stopped waits for others to take over what it leads. 0: it does not ask.",
    )
