"""Secrets are replaced before anything is stored, and ordinary text is left alone."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passdown.core.redaction import redact, redact_value

# In parts, so that no scanner takes these made-up values for leaked ones.
SECRETS = {
    "aws_key_id": "".join(["AKIA", "IOSFODNN7", "EXAMPLE"]),
    "github_token": "".join(["ghp", "_", "0" * 18, "aB" * 9]),
    "openai_key": "".join(["sk", "-proj-", "A1b2" * 12]),
    "anthropic_key": "".join(["sk", "-ant-api03-", "x" * 93, "AA"]),
    "slack_token": "".join(["xox", "b-", "1" * 12, "-", "2" * 12, "-", "a" * 24]),
    "jwt": "".join(["ey", "JhbGciOiJIUzI1NiJ9.", "ey", "JzdWIiOiIxIn0.", "s" * 43]),
    "private_key": "".join(
        ["-----BEGIN ", "EC PRIVATE KEY-----\nb3Blb\n-----END ", "EC PRIVATE KEY-----"]
    ),
    "google_api_key": "".join(["AI", "za", "Sy" * 17, "x"]),
    "huggingface_token": "".join(["hf", "_", "aB" * 17]),
    "npm_token": "".join(["npm", "_", "aB1" * 12]),
    "pypi_token": "".join(["pypi", "-AgE", "IcHlwaS5vcmc" * 5]),
    "gitlab_token": "".join(["glp", "at-", "aB3_" * 5]),
    "stripe_key": "".join(["sk", "_live_", "aB1" * 8]),
    "sendgrid_key": "".join(["SG", ".", "a" * 22, ".", "b" * 43]),
}  # fmt: skip
OTHER_SPELLINGS = [
    ("github_token", "".join(["github", "_pat_", "11AA" * 10])),
    ("openai_key", "".join(["sk", "-", "aB1c" * 12])),
    ("slack_token", "".join(["xa", "pp-1-A0-", "12345-abc"])),
    ("stripe_key", "".join(["rk", "_test_", "aB1" * 8])),
    ("aws_key_id", "".join(["AS", "IA", "IOSFODNN7", "EXAMPLE"])),
]
PIECES = st.sampled_from(
    [*SECRETS.values(), " ", "x", "-", "_", ".", "\u200b", "://u:p@h", "[", ":"]
)


@pytest.mark.parametrize(("kind", "secret"), [*SECRETS.items(), *OTHER_SPELLINGS])
def test_each_kind_of_secret_is_replaced(kind: str, secret: str) -> None:
    """Inside a sentence, only the secret goes, and its kind is named."""
    assert redact(f'the key is "{secret}", keep it') == (
        f'the key is "[redacted:{kind}]", keep it',
        (kind,),
    )


@pytest.mark.parametrize(("kind", "secret"), SECRETS.items())
@pytest.mark.parametrize("hidden", ["\u200b", "\u2060", "\u00ad", "\ufe0f"])
def test_an_invisible_character_hides_nothing(kind: str, secret: str, hidden: str) -> None:
    """A secret split by characters that draw nothing is found as well."""
    split = hidden.join([secret[:2], secret[2:9], secret[9:]])
    assert redact(f"a {split} b") == (f"a [redacted:{kind}] b", (kind,))
    assert redact(f"a{hidden}{secret}")[1] == (kind,)


def test_only_the_secret_part_of_a_url_or_header_goes() -> None:
    """Host, user and header name stay readable."""
    token = "".join(["aB1", "_x"]) * 6
    key = "Qk" * 43 + "=="
    assert redact("postgresql://app:hun@ter2@db.example:5432/x")[0] == (
        "postgresql://app:[redacted:url_password]@db.example:5432/x"
    )
    assert redact("redis://:hunter2@h")[0] == "redis://:[redacted:url_password]@h"
    assert redact(f"Authorization: Bearer {token}")[0] == (
        "Authorization: Bearer [redacted:bearer_token]"
    )
    assert redact(f"AccountName=x;AccountKey={key};E=y")[0] == (
        "AccountName=x;AccountKey=[redacted:azure_key];E=y"
    )


def test_a_key_without_an_end_goes_to_the_end() -> None:
    """A truncated private key leaves nothing behind."""
    text = "".join(["see\n-----BEGIN ", "RSA PRIVATE KEY-----\nMIIE\nabc"])
    assert redact(text) == ("see\n[redacted:private_key]", ("private_key",))


@pytest.mark.parametrize(
    "text",
    [
        "task-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b is done",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "http://localhost:8080/path?x=a@b and git@github.com:a/b.git, https://h:443",
        "postgres://user:${PASSWORD}@host, postgres://user:<password>@host",
        "Authorization: Bearer <token>; the bearer of this note; they.eyed it",
        "see -----BEGIN PUBLIC KEY-----, AKIA is a prefix, ghp_ too, sk-learn, npm_config_x",
        "the PRIVATE KEY file, hf_hub_download, risk-free, AccountKey=",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    """Hashes, addresses, placeholders and prose hold no secrets; the same text comes back."""
    clean, kinds = redact(text)
    assert clean is text
    assert kinds == ()


@given(st.lists(PIECES, max_size=8).map("".join))
def test_what_comes_out_holds_no_secret(text: str) -> None:
    """Redacting twice changes nothing more."""
    clean, _ = redact(text)
    assert redact(clean) == (clean, ())


def test_values_and_keys_are_searched_at_any_depth() -> None:
    """Nothing is lost when two keys hold secrets, and clean data is the same object."""
    first, second = SECRETS["aws_key_id"], SECRETS["aws_key_id"].replace("7", "8")
    value = {"a": [1, {"b": f"x {first}"}], first: 1, second: 2}
    assert redact_value(value) == (
        {
            "a": [1, {"b": "x [redacted:aws_key_id]"}],
            "[redacted:aws_key_id]": 1,
            "[redacted:aws_key_id]#2": 2,
        },
        ("aws_key_id",),
    )
    clean = {"a": [1, None, ("x", 2.5)]}
    assert redact_value(clean) == (clean, ())
    assert redact_value(clean)[0] is clean


def test_hostile_text_is_searched_quickly() -> None:
    """Text made of beginnings of secrets takes no time to speak of."""
    for start in (
        "eyeyeyeyeyey.ey",
        "-----BEGIN PRIVATE KEY",
        "://a:",
        "sk-",
        "ghp_a ",
        "SG.a",
        "\u200bx",
    ):
        text = start * (65_536 // len(start))
        begin = time.process_time()
        redact(text)
        assert time.process_time() - begin < 1, start
