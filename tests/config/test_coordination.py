"""Where the store is, and what must not be seen of how to get in."""

from __future__ import annotations

import pytest

from penstock.config.address import Address
from penstock.config.coordination import CoordinationSettings, CoordinationTarget
from penstock.errors import PenstockError


def parsed(**values: str) -> CoordinationSettings:
    return CoordinationSettings().overridden_by({name.replace("_", "."): text for name, text in values.items()})


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("embedded", [], ""),
        ("zookeeper://a:1", ["a:1"], ""),
        ("zookeeper://a:1/", ["a:1"], ""),
        ("zookeeper://a", ["a:2181"], ""),
        ("zookeeper://a:1,b:2,10.0.0.1:3/x", ["a:1", "b:2", "10.0.0.1:3"], "/x"),
        ("zookeeper://a:1, b:2/x/y-z/", ["a:1", "b:2"], "/x/y-z"),
        ("zookeeper://[::1]:5,[::2]/x", ["[::1]:5", "[::2]:2181"], "/x"),
    ],
)
def test_a_target_is_understood(text: str, servers: list[str], chroot: str) -> None:
    target = parsed(coordination=text).coordination
    assert target == CoordinationTarget(tuple(map(Address.parse, servers)), chroot)
    assert target.is_embedded == (text == "embedded")
    assert CoordinationTarget.parse(str(target)) == target


@pytest.mark.parametrize(
    "text",
    [
        "",
        "zookeeper",
        "embedded/x",
        "a:2181",
        "zookeeper://",
        "zookeeper:///x",
        "zookeeper://a:1,,b:2",
        "zookeeper://a:0",
        "zookeeper://a:65536",
        "zookeeper://a:b",
        "zookeeper://user:password@a:1",
        "zookeeper://a:1//x",
        "zookeeper://a:1/x/../y",
        "zookeeper://a:1/zookeeper",
        "zookeeper://a:1/with space",
        "zookeeper://a:1/ä",
        "zookeeper://a:1/" + "x" * 200,
        "zookeeper://a:1/x?y=z",
        "zookeeper://a:1/x,b:2/x",
    ],
)
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(PenstockError, match="zookeeper://HOST:PORT,HOST:PORT/CHROOT"):
        parsed(coordination=text)


def test_a_password_is_never_shown() -> None:
    settings = parsed(zookeeper_auth="me:secret:7")
    assert settings.zookeeper_auth.text == "me:secret:7"
    assert "secret" not in f"{settings} {settings!r} {settings.zookeeper_auth}"
    assert not parsed(zookeeper_auth="").zookeeper_auth
    for wrong in ("secret", "me:", ":secret"):
        with pytest.raises(PenstockError, match="USER:PASSWORD") as caught:
            parsed(zookeeper_auth=wrong)
        assert "secret" not in str(caught.value)
