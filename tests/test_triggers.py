"""What calls an agent and what only looks like it."""

from __future__ import annotations

import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from passdown.context.switches import find_switch

KNOWN = ("dev", "QA", "qa-lead", "sm", "v1.2")

CALLS = {
    "@dev": "dev",
    "@Dev please": "dev",
    "hello @qa.": "QA",
    "hello @qa, look": "QA",
    "@dev: fix it": "dev",
    "@dev!": "dev",
    "@dev…": "dev",
    "(@dev)": "dev",
    "**@dev** look": "dev",
    "_@dev_ look": "dev",
    "@qa-lead look": "qa-lead",
    "@qa-lead.": "qa-lead",
    "@v1.2. Go": "v1.2",
    "@alice and @dev": "dev",
    "@dev or @qa": "dev",
    "first\n@dev\nplease": "dev",
    "- @dev do it": "dev",
    "请 @dev，修": "dev",  # noqa: RUF001
    "/qa": "QA",
    "/QA look": "QA",
    "then\n/qa": "QA",
    "- /dev do": "dev",
    "/agents:qa": "QA",
    "now /agents:QA please": "QA",
    "/team:agents:dev *build": "dev",
    "/a:b:Agents:dev": "dev",
    "`code` then @dev": "dev",
    "a ` alone, @dev": "dev",
    "\\`@x @dev\\`": None,
    "> quoted @sm\n\n@dev": "dev",
    "> quoted @sm\n@dev": "dev",
    "```\n@sm\n```\n@dev": "dev",
    "~~~~\n@sm\n~~~\n@sm\n~~~~\n@dev": "dev",
    "@dev\r\nplease": "dev",
}

NO_CALLS = [
    "",
    "dev",
    "@alice",
    "@devs",
    "@dev-ops",
    "@devé",
    "@@dev",
    "@ dev",
    # addresses
    "a@dev.com",
    "dev@qa",
    "mail é@dev now",
    "user_@dev",
    "git@dev:repo",
    # code
    "`@dev`",
    "`` @dev ` @dev ``",
    "`a\n@dev b`",
    "```\n@dev\n```",
    "```python\n@dev",
    "~~~\n@dev\n```\n@dev",
    "text\n\n    @dev",
    "\t@dev",
    # decorators
    "@dev\ndef f():",
    "@dev\nasync def f():",
    "  @dev\n  class A:",
    "@dev\n\nclass A:",
    "@dev\n@cache\ndef f():",
    "@dev\n@other",
    "@dev\nexport default class X {}",
    "@dev(1)",
    "@dev.tool",
    "@dev.tool()",
    # URLs and paths
    "https://x.example/@dev",
    "http://a.example/agents:dev",
    "/home/dev",
    "src/qa",
    "./dev",
    "../dev",
    "/dev/null",
    "ls /dev",
    "/dev.txt",
    "@dev/x",
    "//dev",
    # quoted, escaped, other
    "> @dev",
    "  > @dev",
    "\\@dev",
    '"@dev"',
    "<@dev>",
    "[@dev](x)",
    "@dev's view",
    "/x:dev",
    "/agents:dev:x",
    "/agents:",
]


@pytest.mark.promise("S2-11")
@pytest.mark.parametrize("text", CALLS)
def test_a_call_is_found(text: str) -> None:
    assert find_switch(text, KNOWN) == CALLS[text]


@pytest.mark.promise("S2-11")
@pytest.mark.parametrize("text", NO_CALLS)
def test_what_only_looks_like_a_call_is_none(text: str) -> None:
    assert find_switch(text, KNOWN) is None


@pytest.mark.promise("S2-11")
def test_the_active_agent_is_not_called_again() -> None:
    assert find_switch("@dev go on", KNOWN, "dev") is None
    assert find_switch("@DEV go on", KNOWN, "Dev") is None
    assert find_switch("/agents:qa", KNOWN, "qa") is None
    assert find_switch("@dev, hand over to @qa", KNOWN, "dev") == "QA"


def test_the_words_before_the_name_can_be_chosen() -> None:
    assert find_switch("x /crew:dev", KNOWN, prefix=("crew", "agents")) == "dev"
    assert find_switch("x /agents:dev", KNOWN, prefix=("crew",)) is None
    assert find_switch("x /agents:dev", KNOWN, prefix=()) is None
    assert find_switch("x /a.b:dev", KNOWN, prefix=("a.b",)) == "dev"
    assert find_switch("@dev", ()) is None


pieces = st.sampled_from(
    [
        "@dev",
        "@qa",
        "/qa",
        "/agents:dev",
        " ",
        "\n",
        "`",
        "```",
        "~~~",
        "> ",
        "    ",
        "\\",
        ".",
        "(",
        "/",
        "@",
        "def f():",
        "class A:",
        "é",
        ",",
        "*",
        "a@dev.com",
    ]
)
prompts = st.lists(pieces, max_size=15).map("".join) | st.text()


@pytest.mark.promise("S2-11")
@given(text=prompts, active=st.sampled_from(["", "dev", "QA", "qa"]))
def test_only_a_known_agent_that_is_not_active_is_found(text: str, active: str) -> None:
    found = find_switch(text, KNOWN, active)
    assert found is None or found in KNOWN
    assert found is None or found.lower() != active.lower()
    assert found is None or f"@{found}".lower() in text.lower() or "/" in text


@pytest.mark.promise("S2-11")
@given(text=prompts)
def test_nothing_in_code_or_quotes_is_a_call(text: str) -> None:
    lines = text.replace("\r", "\n").split("\n")
    assume("`" not in text)
    assert find_switch("```\n" + text + "\n```", KNOWN) is None
    assert find_switch("\n".join(f"> {line}" for line in lines), KNOWN) is None
    assert find_switch("\n".join(f"    {line}" for line in lines), KNOWN) is None
    assert find_switch("`" + " ".join(lines).strip() + " x`", KNOWN) is None


@given(text=prompts)
def test_an_escaped_mention_is_no_call(text: str) -> None:
    bare = text.replace("/", "").replace("\\", "").replace("@", "\\@")
    assert find_switch(bare, KNOWN) is None


@pytest.mark.promise("S2-11")
@given(before=st.text("ab .,\n"), name=st.sampled_from(KNOWN), after=st.text("ab ,\n"))
def test_a_mention_between_words_is_found(before: str, name: str, after: str) -> None:
    assert find_switch(f"{before}\n\nplease @{name.upper()} {after}", KNOWN) == name


@pytest.mark.parametrize(
    "text",
    [
        "@",
        "`",
        "/a:",
        "@dev.",
        "`a``b",
        "@a\n",
        "a.",
        "agents:",
        "    \n",
        "\\",
        "*",
        "-",
        "@x ",
        "> ",
    ],
)
def test_a_giant_prompt_is_read_in_one_go(text: str) -> None:
    giant = text * (200_000 // len(text))
    begin = time.process_time()
    for prompt in (giant, f"@{giant}", f"/{giant}", f"{giant}@dev"):
        find_switch(prompt, KNOWN)
    assert time.process_time() - begin < 5


@pytest.mark.promise("S2-11")
@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("<!-- @qa look -->", None),
        ("a <!-- @qa --> b <!-- @dev -->", None),
        ("<!-- never closed @qa", None),
        ("<!-- @qa --> @dev go", "dev"),
    ],
)
def test_what_stands_in_a_comment_calls_nobody(text: str, called: str | None) -> None:
    assert find_switch(text, ("dev", "qa")) == called
