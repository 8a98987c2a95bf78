"""What is published stays: routes, rights, parameters, limits and results of the API.

`python -m tests.interfaces.web.test_published` writes the file again, after a change that is meant.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from passdown.web.app import EVENTS_ROUTE, ROUTES
from passdown.web.openapi import openapi_document
from passdown.web.routes import DEFINITIONS

if TYPE_CHECKING:
    from passdown.web.requests import ApiRoute

FILE = Path(__file__).with_name("published_routes.json")


def published() -> dict[str, Any]:
    """Every route without its descriptions, which may be worded otherwise."""
    routes = [*ROUTES, EVENTS_ROUTE]
    paths = openapi_document(routes, DEFINITIONS)["paths"]
    return {
        f"{route.method} {route.path}": _published(route, paths[route.path][route.method.lower()])
        for route in sorted(routes, key=lambda route: (route.path, route.method))
    }


def _published(route: ApiRoute, described: dict[str, Any]) -> Any:
    ways = (route.name, route.right, "heavy" if route.is_heavy else "light")
    status = str(route.status)
    return _without_descriptions(
        {
            "is": ways,
            "parameters": {
                f"{each['in']} {each['name']}{'' if each.get('required') else '?'}": each["schema"]
                for each in described["parameters"]
            },
            "body": described.get("requestBody", {}).get("content"),
            status: described["responses"][status]["content"],
            "others": " ".join(sorted(set(described["responses"]) - {status})),
        }
    )


def _without_descriptions(value: Any) -> Any:
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        return {
            name: _without_descriptions(entry)
            for name, entry in entries.items()
            if name != "description" or not isinstance(entry, str)
        }
    if isinstance(value, list | tuple):
        return [_without_descriptions(each) for each in cast("list[Any]", value)]
    return value


def test_the_api_is_the_published_one() -> None:
    known = json.loads(FILE.read_text("utf-8"))
    found = published()
    assert list(found) == list(known)
    changed = {name: (known[name], found[name]) for name in found if found[name] != known[name]}
    assert not changed


if __name__ == "__main__":
    lines = (f"{json.dumps(name)}: {json.dumps(each)}" for name, each in published().items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
