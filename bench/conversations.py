"""What a conversation per agent saves, and what holding it costs.

Stateless is the usual way: each request is a text with everything that the answer has to know, the
instructions and all that was said before. In a conversation the request is what is new.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import passdown
from bench.commit import bare_database, insert
from bench.figures import Measured, Row, Target, median, ms, seconds, spread
from passdown.core.tokens import counter_of
from passdown.relay.messages import Message

if TYPE_CHECKING:
    from pathlib import Path

    from bench.run import Run
    from passdown.relay.conversations import Conversations

REQUESTS = (5, 10, 20)
MOST_MS = 2
AGENT, SENDER = "architect", "coder"

_CODE = """\
def charge_{n}(account: Account, cents: int, key: str) -> Receipt:
    if known := receipts.get(key):
        return known
    with ledger.transaction(account.id) as entry:
        entry.debit(cents, reason="step {n}")
        receipt = Receipt(account.id, cents, key)
        receipts.put(key, receipt)
    return receipt
"""
_ANSWER = """\
CHANGES. Step {n} reads the receipt outside the transaction, so two callers with one key may both
miss it and charge twice. Put the look-up into the transaction, as was agreed for the step before;
names and types are fine. Add a test with two threads and one key.
"""


class Sizes(NamedTuple):
    """Tokens after some requests: of all requests as texts, of all contexts, and stateless."""

    requests: int
    texts: int
    contexts: int
    stateless: int


def measure(run: Run) -> Measured:
    found = Measured("conversations", "A conversation per agent beside stateless prompts")
    rounds = 60 if run.quick else 400
    run.say(f"conversations: {REQUESTS[-1]} requests in a task; {rounds} requests timed")
    folder = run.folder / "conversations"
    folder.mkdir()
    sizes = _sizes(folder)
    found.rows = [_size_row(each) for each in sizes]
    _timed(run, folder, rounds, found)
    found.rows += _template_rows()
    found.figures["sizes"] = [each._asdict() for each in sizes]
    found.notes += [
        "Request texts: the system message once, then each request as it is put into the "
        "conversation. Stateless: system message, everything said so far and the request, each "
        "time. The context that a model reads is as long in both; what is sent anew, written and "
        "made ready by the caller isn't.",
        "Tokens by o200k_base. An overhead is what a request and its answer take, without the "
        "answering, less two bare synced commits of the same bytes.",
    ]
    return found


def _conversations(folder: Path, task: str) -> tuple[passdown.Workspace, Conversations]:
    from passdown.relay.agents import AgentStates
    from passdown.relay.conversations import Conversations

    folder.mkdir()
    folder.mkdir(parents=True, exist_ok=True)
    ws = passdown.open(str(folder))
    ws.create_task(task, title="Charge an account once", agent="lead", description="Idempotent.")
    states = AgentStates(ws)
    states.lease(SENDER, task)
    return ws, Conversations(ws, AGENT, leases=states)


def _sizes(folder: Path) -> list[Sizes]:
    from passdown.relay.conversations import review

    ws, conversations = _conversations(folder / "sizes", "T-1")
    count = counter_of(None, "o200k_base").tokens
    contexts = stateless = texts = 0
    found: list[Sizes] = []

    def answer(messages: list[dict[str, Any]]) -> Message:
        nonlocal contexts, stateless, texts
        said = [each["content"] for each in messages]
        texts += count(said[-1]) + (count(said[0]) if len(said) == 2 else 0)
        contexts += conversations.with_peer(SENDER).tokens(
            [Message(each["role"], each["content"]) for each in messages]
        )
        stateless += count("\n\n".join(said))
        return Message("assistant", _ANSWER.format(n=len(said) // 2))

    for number in range(1, REQUESTS[-1] + 1):
        review(conversations, SENDER, "code", _CODE.format(n=number), answer)
        if number in REQUESTS:
            found.append(Sizes(number, texts, contexts, stateless))
    ws.close()
    return found


def _size_row(each: Sizes) -> Row:
    return Row(
        f"{each.requests} requests in one task: tokens of the request texts",
        f"{each.texts:,}",
        f"{each.stateless:,} stateless; {each.contexts:,} in the contexts read",
        each.texts / each.stateless,
        Target("at most", 0.5) if each.requests >= 10 else None,
    )


def _timed(run: Run, folder: Path, rounds: int, found: Measured) -> None:
    """Time requests in tasks of twenty each, beside two bare commits."""
    from passdown.relay.conversations import review

    bare = bare_database(folder / "bare.db")
    held, beside = list[float](), list[float]()
    ws, conversations = _conversations(folder / "timed", "T-0")
    for number in range(rounds):
        code, answer = _CODE.format(n=number), _ANSWER.format(n=number)
        if number % REQUESTS[-1] == 0:
            conversations.reset(SENDER)

        def request(code: str = code, answer: str = answer) -> None:
            review(conversations, SENDER, "code", code, lambda _: answer)

        def commits(code: str = code, answer: str = answer) -> None:
            insert(bare, code.encode())
            insert(bare, answer.encode())

        held.append(seconds(request))
        beside.append(seconds(commits))
    bare.close()
    ws.close()
    overhead = median(a - b for a, b in zip(held, beside, strict=True))
    found.rows += [
        Row(
            "a request and its answer, recorded",
            ms(median(held)),
            f"{ms(median(beside))} two bare commits",
            median(held) / median(beside),
        ),
        Row(
            "milliseconds of it beyond the commits",
            ms(overhead),
            "",
            overhead * 1e3,
            Target("at most", MOST_MS),
        ),
        Row(
            "share of a request that is beyond the commits",
            f"{overhead / median(held):.0%}",
            "",
            overhead / median(held),
        ),
    ]
    found.figures["overhead_ms"] = overhead * 1e3
    found.figures["request"] = spread(held)
    found.figures["two_bare_commits"] = spread(beside)


def _template_rows() -> list[Row]:
    from passdown.relay import prompts

    count = counter_of(None, "o200k_base").tokens
    rows: list[Row] = []
    for name in prompts.PLACEHOLDERS:
        with open(prompts.Templates().file(name), encoding="utf-8") as file:
            text = prompts.Templates().render(name, dict.fromkeys(prompts.PLACEHOLDERS[name], ""))
            size = os.fstat(file.fileno()).st_size
        rows.append(
            Row(f"template {name}: tokens without values", f"{count(text):,}", f"{size} bytes")
        )
    return rows
