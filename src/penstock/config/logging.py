"""Settings of the node's own log lines."""

from penstock.config.setting import Scope, Section, section, setting


@section(scope=Scope.NODE)
class LoggingSettings(Section):
    log_format: str = setting(
        "text",
        name="log.format",
        one_of=("text", "json"),
        doc="How log lines look on stderr: text for people, json for machines.",
    )
    log_level: str = setting(
        "info",
        name="log.level",
        one_of=("debug", "info", "warning", "error"),
        doc="The least important lines that are still shown.",
    )
