"""The reference pages hold what the declarations say."""

from __future__ import annotations

from tools.generate_docs import apis_page, commands_page, settings_page

from penstock.config.settings import known_settings


def test_every_setting_is_on_its_page_with_default_and_meaning() -> None:
    page = settings_page()
    assert [name for name in known_settings() if f"| `{name}` | " not in page] == []
    limits = "whole number, at least -1, at most 9223372036854775807"
    assert f"| `retention.ms` | `1209600000` | {limits} | How long records stay;" in page
    assert "| `compression.type` | `producer` | batches are stored as their producer compressed them |" in page
    assert "PENSTOCK_RETENTION_MS" in page


def test_apis_are_listed_by_key_with_their_versions() -> None:
    page = apis_page()
    assert "| [ApiVersions](#apiversions) | 18 | 0 to 4 |" in page
    rows = [line for line in page.splitlines() if line.startswith("| [")]
    keys = [int(row.split("|")[2]) for row in rows]
    assert keys == sorted(keys)


def test_commands_show_their_help() -> None:
    page = commands_page()
    assert "## penstock\n" in page
    assert "--version" in page
