"""Run the layers, each within its time limit, and say what became of every one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from passdown.briefing.rules.manifest import LAYERS, Domain, Layer
from passdown.model.text import excerpt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from passdown.briefing.rules.brackets import Bracket
    from passdown.briefing.rules.layers import Provider

    Timer = Callable[[], float]

TOTAL_LIMIT_MS = 100
"""How long all layers together may take; what would come later is left out."""

State = Literal["used", "empty", "held", "slow", "failed", "fallen"]


class LayerRun(NamedTuple):
    """What became of a layer: its domains, how many rules they have, how long choosing took.

    `held`: the bracket doesn't have the layer. `slow` and `failed`: left out, `detail` says why.
    `fallen`: there was no room.
    """

    number: int
    name: str
    state: State
    domains: tuple[str, ...] = ()
    rules: int = 0
    ms: float = 0.0
    detail: str = ""


class Chosen(NamedTuple):
    """A layer's run with the domains that it gave; none unless it is `used`."""

    run: LayerRun
    domains: tuple[Domain, ...] = ()


def run_layers(bracket: Bracket, given: Mapping[int, Provider], timer: Timer) -> tuple[Chosen, ...]:
    """Ask each layer that the bracket has for its domains, in order.

    `timer` gives seconds. A layer that raises, takes longer than its limit or ends after the limit
    for all is left out; the constitution is never left out for its time.
    """
    started = timer()
    return tuple(_run(layer, bracket, given.get(layer.number), timer, started) for layer in LAYERS)


def _run(
    layer: Layer, bracket: Bracket, provider: Provider | None, timer: Timer, started: float
) -> Chosen:
    run = LayerRun(layer.number, layer.name, "empty")
    if layer.number not in bracket.layers:
        return Chosen(run._replace(state="held"))
    if provider is None:
        return Chosen(run)
    begun = timer()
    if _is_late(layer, before := (begun - started) * 1_000):
        detail = f"{before:.0f} ms were gone, {TOTAL_LIMIT_MS} is the limit for all layers"
        return Chosen(run._replace(state="slow", detail=detail))
    try:
        found = tuple(provider())
    except Exception as error:  # noqa: BLE001 - one layer must not take the others down
        detail = f"{type(error).__name__}: {excerpt(str(error), 120)}"
        return Chosen(run._replace(state="failed", detail=detail))
    ended = timer()
    run = run._replace(ms=round((ended - begun) * 1_000, 3))
    if _is_late(layer, (ended - started) * 1_000, run.ms):
        detail = f"{run.ms:.1f} ms, {layer.limit_ms:g} is its limit, {TOTAL_LIMIT_MS} that of all"
        return Chosen(run._replace(state="slow", detail=detail))
    names = tuple(domain.name for domain in found)
    rules = sum(len(domain.rules) for domain in found)
    state: State = "used" if rules else "empty"
    return Chosen(run._replace(state=state, domains=names, rules=rules), found)


def _is_late(layer: Layer, total_ms: float, own_ms: float = 0.0) -> bool:
    return layer.number > 0 and (total_ms > TOTAL_LIMIT_MS or own_ms > layer.limit_ms)
