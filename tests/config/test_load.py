from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.address import Address
from penstock.config.load import environment_name, load_settings, parse_assignment
from penstock.config.settings import Settings, known_settings
from penstock.errors import PenstockError, Problem


def load(*, file: str | None = None, environment: dict[str, str] | None = None, **flags: str) -> Settings:
    return load_settings(
        file_text=file,
        file_name="penstock.toml",
        environment=environment or {},
        flags={name.replace("_", "."): text for name, text in flags.items()},
    )


def refusal(**arguments: object) -> str:
    with pytest.raises(PenstockError) as caught:
        load(**arguments)  # type: ignore[arg-type]
    assert caught.value.problem is Problem.INVALID_CONFIG
    return str(caught.value)


def test_defaults() -> None:
    settings = load()
    assert settings == Settings()
    assert settings.log.retention_ms == 14 * 24 * 60 * 60 * 1000
    assert str(settings.network.listen) == "127.0.0.1:9092"


def test_flags_win_over_environment_over_file_over_defaults() -> None:
    file = "retention.ms = 1\nsegment.ms = 1\nnum.partitions = 1\n"
    environment = {"PENSTOCK_SEGMENT_MS": "2", "PENSTOCK_NUM_PARTITIONS": "2"}
    settings = load(file=file, environment=environment, num_partitions="3")
    assert (settings.log.retention_ms, settings.log.segment_ms, settings.topics.num_partitions) == (1, 2, 3)


def test_a_file_may_use_tables_or_dotted_names_and_toml_types() -> None:
    settings = load(
        file="""
        listen = "0.0.0.0:19092"
        auto.create.topics.enable = false
        cleanup.policy = ["compact", "delete"]
        [retention]
        ms = 5
        """
    )
    assert settings.network.listen == Address("0.0.0.0", 19092)
    assert settings.topics.auto_create_topics_enable is False
    assert settings.log.cleanup_policy == "compact,delete"
    assert settings.log.retention_ms == 5


def test_an_unknown_name_suggests_the_nearest() -> None:
    assert refusal(retention_msec="1") == "flag: there is no setting retention.msec; did you mean retention.ms?"
    assert "did you mean retention.ms?" in refusal(file="log.retention.ms = 1")
    assert "did you mean PENSTOCK_NUM_PARTITIONS?" in refusal(environment={"PENSTOCK_NUM_PARTITION": "1"})
    assert "settings.md" in refusal(file="zzz = 1")


def test_every_mistake_is_listed_with_where_it_was_made() -> None:
    text = refusal(file="retention.ms = -7", environment={"PENSTOCK_LISTEN": "nowhere"}, segment_bytes="big")
    assert text.splitlines() == [
        "penstock.toml: retention.ms='-7' is not valid: it must be at least -1",
        "environment: listen='nowhere' is not valid: it must be " + Address.wanted,
        "flag: segment.bytes='big' is not valid: it must be a whole number",
    ]


def test_broken_toml_says_where() -> None:
    assert refusal(file="listen = ").startswith("penstock.toml: not valid TOML: ")


@pytest.mark.parametrize(
    "variable",
    [
        "PENSTOCK_BOOTSTRAP",
        "PENSTOCK_SERVICE_HOST",
        "PENSTOCK_SERVICE_PORT_KAFKA",
        "PENSTOCK_PORT",
        "PENSTOCK_PORT_9092_TCP_ADDR",
        "PENSTOCK_WEB_PORT_9324_TCP",
        "OTHER_RETENTION_MS",
    ],
)
def test_variables_that_are_not_meant_for_the_node_are_left_alone(variable: str) -> None:
    assert load(environment={variable: "x"}) == Settings()


@pytest.mark.parametrize("name", sorted(known_settings()))
def test_every_setting_can_be_given_in_every_way_and_reads_back(name: str) -> None:
    item = known_settings()[name]
    text = item.show(item.default)
    assert load_settings(environment={environment_name(name): text}, flags={}) == Settings()
    assert load_settings(environment={}, flags={name: text}) == Settings()
    assert load_settings(file_text=f'{name} = "{text}"', environment={}, flags={}) == Settings()


def test_no_setting_is_the_beginning_of_another() -> None:
    """TOML could not hold both."""
    names = sorted(known_settings())
    assert not [(one, other) for one in names for other in names if other.startswith(one + ".")]


def test_assignments() -> None:
    assert parse_assignment("a.b=c=d") == ("a.b", "c=d")
    assert parse_assignment("a.b=") == ("a.b", "")
    for text in ("a.b", "=x", ""):
        with pytest.raises(PenstockError, match="name=value"):
            parse_assignment(text)


@given(st.sampled_from(["h", "10.1.2.3", "::1", "node-1.example"]), st.integers(0, 65535))
def test_addresses_read_back(host: str, port: int) -> None:
    assert Address.parse(str(Address(host, port))) == Address(host, port)


@pytest.mark.parametrize("text", ["", "host", ":9092", "host:", "host:65536", "host:-1", "host:٣", "::1:9092", "h:1 "])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        Address.parse(text)
