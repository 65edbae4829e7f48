from __future__ import annotations

import re

import pytest

from penstock.config.log import LogSettings
from penstock.config.setting import Scope, settings_of
from penstock.config.settings import Settings, known_settings
from penstock.errors import PenstockError


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("auto.create.topics.enable", "yes", "true or false"),
        ("num.partitions", "1.5", "a whole number"),
        ("num.partitions", "0", "at least 1"),
        ("segment.bytes", str(2**31), "at most 2147483647"),
        ("delete.retention.ms", str(2**63), f"at most {2**63 - 1}"),
        ("index.interval.bytes", str(2**30), "at most 1048576"),
        ("min.cleanable.dirty.ratio", "half", "a number"),
        ("min.cleanable.dirty.ratio", "nan", "at least 0"),
        ("cleanup.policy", "compact,keep", "one of delete, compact"),
        ("flush.policy", "", "one of acked, os"),
    ],
)
def test_a_wrong_value_is_refused_with_what_would_be_right(name: str, text: str, wanted: str) -> None:
    with pytest.raises(PenstockError, match=wanted) as caught:
        known_settings()[name].parse(text)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("auto.create.topics.enable", " TRUE ", True),
        ("retention.ms", "-1", -1),
        ("delete.retention.ms", str(2**63 - 1), 2**63 - 1),
        ("min.cleanable.dirty.ratio", "0.25", 0.25),
        ("cleanup.policy", "compact,delete", "compact,delete"),
    ],
)
def test_right_values(name: str, text: str, value: object) -> None:
    assert known_settings()[name].parse(text) == value


def test_a_section_takes_its_own_settings_and_leaves_others_alone() -> None:
    changed = LogSettings().overridden_by({"retention.ms": "5", "num.partitions": "9"})
    assert changed.retention_ms == 5
    assert changed.overridden_by({}) == changed
    assert LogSettings().retention_ms != 5


def test_what_a_section_declares_is_known_of_each_of_its_settings() -> None:
    by_name = {item.name: item for item in settings_of(LogSettings)}
    retention = by_name["retention.ms"]
    assert (retention.field, retention.kind, retention.scope, retention.dynamic, retention.at_least) == (
        "retention_ms",
        int,
        Scope.TOPIC,
        True,
        -1,
    )


def test_names_are_unique_and_every_setting_is_explained() -> None:
    declared = [item.name for _, section in Settings().sections() for item in settings_of(type(section))]
    assert len(declared) == len(set(declared))
    assert [item.name for item in known_settings().values() if not re.fullmatch(r"\w+:? .+ .+\.", item.doc)] == []
