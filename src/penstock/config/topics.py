"""Settings of how topics come to be."""

from penstock.config.setting import Scope, Section, section, setting


@section(scope=Scope.NODE)
class TopicSettings(Section):
    num_partitions: int = setting(
        1,
        name="num.partitions",
        at_least=1,
        at_most=10_000,
        doc="Partitions of a topic that is created without saying how many. They can be added later, not removed.",
    )
    default_replication_factor: int = setting(
        1,
        name="default.replication.factor",
        at_least=1,
        at_most=2**15 - 1,
        doc="Replicas of a topic that is created without saying how many. 3 survives the loss of a broker while "
        "another is being restarted; there must be as many brokers.",
    )
    auto_create_topics_enable: bool = setting(
        True,
        name="auto.create.topics.enable",
        doc="Whether a topic comes into being when a client first asks for it. false makes a misspelt name an error.",
    )
