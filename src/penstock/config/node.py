"""Settings of a node as a whole."""

from penstock.config.setting import Scope, Section, section, setting


@section(scope=Scope.NODE)
class NodeSettings(Section):
    node_id: int = setting(
        1,
        name="node.id",
        at_least=0,
        at_most=2**31 - 1,
        doc="The broker id that clients see. Keep it for the life of a data directory.",
    )
    data_dir: str = setting(
        "data",
        name="data.dir",
        doc="Where everything durable is kept. One node per directory.",
    )
    rack: str = setting(
        "",
        name="broker.rack",
        doc="The failure domain of this node, as clients see it in metadata.",
    )
