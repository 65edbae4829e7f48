from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.core.option_values import OptionError, OptionValues
from penstock.spark.core.security import Sasl, Security, Tls
from penstock.spark.core.security_options import SECURITY_OPTIONS, security_of

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";'
SCRAM = "kafkashaded.org.apache.kafka.common.security.scram.ScramLoginModule required\n username=bob password='x';"


def read(**options: str) -> Security | None:
    named = {"kafka." + name.replace("_", "."): text for name, text in options.items()}
    return security_of(OptionValues(named, SECURITY_OPTIONS))


def test_nothing_asked_for_is_nothing_done() -> None:
    assert read() is None
    assert read(security_protocol="PLAINTEXT", ssl_truststore_location="trust.jks") is None


def test_a_login_with_a_password() -> None:
    security = read(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=PLAIN)
    assert security == Security(None, Sasl("PLAIN", "alice", "secret"))
    assert "secret" not in repr(security)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_with_scram_over_tls(mechanism: str) -> None:
    security = read(security_protocol="SASL_SSL", sasl_mechanism=mechanism, sasl_jaas_config=SCRAM)
    assert security == Security(Tls(), Sasl(mechanism, "bob", "'x'"))


def test_pem_stores() -> None:
    security = read(
        security_protocol="SSL",
        ssl_truststore_type="PEM",
        ssl_truststore_location="ca.pem",
        ssl_keystore_type="PEM",
        ssl_keystore_location="me.pem",
        ssl_key_password="hush",
        ssl_endpoint_identification_algorithm="",
    )
    assert security == Security(
        Tls(trusted_file="ca.pem", own_file="me.pem", key_password="hush", check_hostname=False), None
    )
    assert "hush" not in repr(security)


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ({"ssl_truststore_location": "ca.jks"}, "keytool -list -rfc -keystore ca.jks > truststore.pem"),
        (
            {"ssl_truststore_location": "ca.p12", "ssl_truststore_type": "PKCS12"},
            "openssl pkcs12 -in ca.p12 -nokeys -out truststore.pem",
        ),
        (
            {"ssl_keystore_location": "me.jks", "ssl_keystore_type": "JKS"},
            "keytool -importkeystore -srckeystore me.jks -destkeystore keystore.p12 -deststoretype PKCS12 && "
            "openssl pkcs12 -in keystore.p12 -out keystore.pem",
        ),
    ],
)
def test_stores_of_java_are_refused_with_the_command_that_converts_them(options: dict[str, str], command: str) -> None:
    with pytest.raises(OptionError) as refused:
        read(security_protocol="SSL", **options)
    assert command in str(refused.value)
    assert ".type=PEM" in str(refused.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"security_protocol": "TLS"}, "kafka.security.protocol must be one of"),
        ({"security_protocol": "SASL_SSL"}, "kafka.sasl.mechanism=GSSAPI is not supported"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "kafka.sasl.jaas.config must be specified"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_jaas_config": SCRAM},
            "names ScramLoginModule, but kafka.sasl.mechanism=PLAIN needs PlainLoginModule",
        ),
        (
            {"security_protocol": "SSL", "ssl_truststore_certificates": "-----BEGIN"},
            "Certificates as text need kafka.ssl.truststore.type=PEM",
        ),
        (
            {"security_protocol": "SSL", "ssl_keystore_type": "PEM", "ssl_keystore_key": "k"},
            "belong together",
        ),
        (
            {"security_protocol": "SSL", "ssl_truststore_type": "PEM", "ssl_truststore_password": "p"},
            "does not go with a PEM store",
        ),
    ],
)
def test_what_cannot_work_says_so(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        read(**options)


@pytest.mark.parametrize(
    "config",
    [
        "",
        "PlainLoginModule",
        "PlainLoginModule required",
        'PlainLoginModule required username="a" password="b"',
        'PlainLoginModule mandatory username="a" password="topsecret";',
        'PlainLoginModule required username="a" password="topsecret;',
        'PlainLoginModule required username password="topsecret";',
        'PlainLoginModule required username="a" password="topsecret"; PlainLoginModule required;',
        'PlainLoginModule required username="a";',
    ],
)
def test_a_login_module_that_is_none_is_refused_without_showing_the_password(config: str) -> None:
    with pytest.raises(OptionError) as refused:
        read(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_jaas_config=config)
    assert "topsecret" not in str(refused.value)


@given(st.text(), st.text())
def test_any_name_and_password_can_be_quoted(username: str, password: str) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    config = f"a.PlainLoginModule required username={quoted(username)} password={quoted(password)};"
    security = read(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=config)
    assert security == Security(None, Sasl("PLAIN", username, password))
