"""Kafka's security settings, as they are written for the Java client, as a `Security`.

What only Java can read is refused with the command that converts it.
"""

from __future__ import annotations

import re

from penstock.spark.core.option_values import OptionError, OptionValues
from penstock.spark.core.security import Sasl, Security, Tls

SECURITY_OPTIONS = (
    "kafka.security.protocol",
    "kafka.sasl.mechanism",
    "kafka.sasl.jaas.config",
    "kafka.ssl.truststore.type",
    "kafka.ssl.truststore.location",
    "kafka.ssl.truststore.certificates",
    "kafka.ssl.truststore.password",
    "kafka.ssl.keystore.type",
    "kafka.ssl.keystore.location",
    "kafka.ssl.keystore.key",
    "kafka.ssl.keystore.certificate.chain",
    "kafka.ssl.keystore.password",
    "kafka.ssl.key.password",
    "kafka.ssl.endpoint.identification.algorithm",
)
_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
# What a login module of Java's client is called, behind whatever package a vendor has shaded it into.
_MODULES = {"PlainLoginModule": ("PLAIN",), "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512")}
_MECHANISMS = tuple(mechanism for mechanisms in _MODULES.values() for mechanism in mechanisms)
_JAAS_FIELD = r'([^\s"=;]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s"=;]+)'
_JAAS = re.compile(
    rf'\s*(?P<module>[^\s"=;]+)\s+(?P<flag>[a-zA-Z]+)(?P<fields>(?:\s+{_JAAS_FIELD})*)\s*;\s*', re.DOTALL
)
_FLAGS = ("required", "requisite", "sufficient", "optional")
_JAAS_EXAMPLE = (
    'Expected e.g. org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";'
)


def security_of(options: OptionValues) -> Security | None:
    """None for a listener without TLS and login, which is the default. OptionError for what cannot be had."""
    protocol = options.choice("kafka.security.protocol", _PROTOCOLS, default="plaintext")
    tls = _tls(options) if protocol.endswith("ssl") else None
    sasl = _sasl(options) if protocol.startswith("sasl") else None
    return Security(tls, sasl) if tls or sasl else None


def _tls(options: OptionValues) -> Tls:
    for store in ("truststore", "keystore"):
        _refuse_java_store(options, store)
    own_file = options.text("kafka.ssl.keystore.location")
    own_key = options.text("kafka.ssl.keystore.key")
    own_certificates = options.text("kafka.ssl.keystore.certificate.chain")
    if (own_key is None) != (own_certificates is None):
        raise OptionError("kafka.ssl.keystore.key and kafka.ssl.keystore.certificate.chain belong together: set both")
    if own_file is not None and own_key is not None:
        raise OptionError("Set either kafka.ssl.keystore.location or kafka.ssl.keystore.key, not both")
    trusted_file = options.text("kafka.ssl.truststore.location")
    trusted_certificates = options.text("kafka.ssl.truststore.certificates")
    if trusted_file is not None and trusted_certificates is not None:
        raise OptionError("Set either kafka.ssl.truststore.location or kafka.ssl.truststore.certificates, not both")
    algorithm = options.choice("kafka.ssl.endpoint.identification.algorithm", ("https", ""), default="https")
    return Tls(
        trusted_file=trusted_file,
        trusted_certificates=trusted_certificates,
        own_file=own_file,
        own_key=own_key,
        own_certificates=own_certificates,
        key_password=options.text("kafka.ssl.key.password"),
        check_hostname=algorithm == "https",
    )


def _refuse_java_store(options: OptionValues, store: str) -> None:
    kind = (options.text(f"kafka.ssl.{store}.type") or "JKS").upper()
    location = options.text(f"kafka.ssl.{store}.location")
    if kind == "PEM":
        if options.text(f"kafka.ssl.{store}.password") is not None:
            raise OptionError(
                f"kafka.ssl.{store}.password does not go with a PEM store: a key's password is kafka.ssl.key.password"
            )
        return
    if location is None:
        if any(f"kafka.ssl.{store}.{part}" in options for part in ("certificates", "key")):
            raise OptionError(f"Certificates as text need kafka.ssl.{store}.type=PEM")
        return
    pem = f"{store}.pem"
    if kind == "PKCS12":
        command = _from_pkcs12(location, store, pem)
    elif store == "truststore":
        command = f"keytool -list -rfc -keystore {location} > {pem}"
    else:
        command = (
            f"keytool -importkeystore -srckeystore {location} -destkeystore {store}.p12 -deststoretype PKCS12 && "
            + _from_pkcs12(f"{store}.p12", store, pem)
        )
    raise OptionError(
        f"kafka.ssl.{store}.location={location} is a {kind} store, which only Java reads (kafka.ssl.{store}.type is "
        f"{kind} unless it says otherwise). Convert it with\n    {command}\nand set kafka.ssl.{store}.type=PEM, "
        f"kafka.ssl.{store}.location={pem}"
    )


def _from_pkcs12(location: str, store: str, pem: str) -> str:
    only_certificates = " -nokeys" if store == "truststore" else ""
    return f"openssl pkcs12 -in {location}{only_certificates} -out {pem}"


def _sasl(options: OptionValues) -> Sasl:
    mechanism = (options.text("kafka.sasl.mechanism") or "GSSAPI").strip().upper()
    if mechanism not in _MECHANISMS:
        raise OptionError(
            f"kafka.sasl.mechanism={mechanism} is not supported: set it to one of {', '.join(_MECHANISMS)}"
        )
    config = options.text("kafka.sasl.jaas.config")
    if config is None:
        raise OptionError(f"kafka.sasl.jaas.config must be specified for {mechanism}. {_JAAS_EXAMPLE}")
    module, fields = _login_module(config)
    name = module.rpartition(".")[2]
    if mechanism not in _MODULES.get(name, ()):
        fitting = next(known for known, mechanisms in _MODULES.items() if mechanism in mechanisms)
        raise OptionError(f"kafka.sasl.jaas.config names {name}, but kafka.sasl.mechanism={mechanism} needs {fitting}")
    for field in ("username", "password"):
        if field not in fields:
            raise OptionError(f"kafka.sasl.jaas.config has no {field}. {_JAAS_EXAMPLE}")
    return Sasl(mechanism, fields["username"], fields["password"])


def _login_module(config: str) -> tuple[str, dict[str, str]]:
    """The class and the options of the one login module in it. No error shows any of it: there is a password inside."""
    match = _JAAS.fullmatch(config)
    if match is None or match["flag"].lower() not in _FLAGS:
        raise OptionError(f"kafka.sasl.jaas.config is not one login module. {_JAAS_EXAMPLE}")
    fields = re.findall(_JAAS_FIELD, match["fields"], re.DOTALL)
    return match["module"], {name: _unquoted(value) for name, value in fields}


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    return re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL)
