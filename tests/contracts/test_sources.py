"""Stored text can't become code, and SQL lives in .sql files.

Read from the syntax tree, so comments and docstrings may say what they like.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FORBIDDEN_MODULES = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_YAML = {f"{how}load{many}" for how in ("", "full_", "unsafe_") for many in ("", "_all")}

# Statements that steer a transaction or the database itself (PRAGMA, BEGIN, COMMIT, ROLLBACK,
# SAVEPOINT, RELEASE) carry no data and may be written where they are used.
SQL = re.compile(
    r"""
    \b(?:SELECT|INSERT\s+(?:OR\s+\w+\s+)?INTO|REPLACE\s+INTO)\s+\S
    | \b(?i:insert\s+into|delete\s+from|alter\s+table|replace\s+into)\s+\S
    | \b(?i:update\s+\w+\s+set)\s+\S
    | \b(?i:create|drop)\s+(?i:(?:temp|temporary|unique|virtual)\s+)?
      (?i:table|index|view|trigger)\s+(?i:if\s+|\w+\s*[(;]|\w+\s+(?:on|as|using|after|before)\b|\w+$)
    | \b(?i:select)\s[^.]*\b(?i:from)\s+\w+\s+(?i:where|order\s+by|group\s+by|join|limit)\b
    """,
    re.VERBOSE,
)


def docstrings(tree: ast.AST) -> set[int]:
    """The strings that stand alone as statements: docstrings and the like."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def imported_names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def code_from_data(tree: ast.AST) -> Iterator[str]:
    """Whatever could turn stored bytes into running code."""
    for node in ast.walk(tree):
        for name in imported_names(node):
            package, _, rest = name.partition(".")
            if package in FORBIDDEN_MODULES or (package == "yaml" and rest in FORBIDDEN_YAML):
                yield f"import of {name}"
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            module, _, name = called.rpartition(".")
            if called in FORBIDDEN_CALLS or (module == "yaml" and name in FORBIDDEN_YAML):
                yield f"line {node.lineno}: call of {called}"


def embedded_sql(tree: ast.AST) -> Iterator[str]:
    """Strings that hold a statement which reads or changes data or tables."""
    allowed = docstrings(tree)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in allowed
            and (found := SQL.search(node.value))
        ):
            yield f"line {node.lineno}: SQL in a string: {found.group()!r}"


def assembled_sql(tree: ast.AST) -> Iterator[str]:
    """Statements put together at the place where they are executed."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        if node.func.attr not in {"execute", "executemany", "executescript"}:
            continue
        statement = node.args[0]
        formatted = (
            isinstance(statement, ast.Call)
            and isinstance(statement.func, ast.Attribute)
            and statement.func.attr in {"format", "join", "replace"}
        )
        if formatted or isinstance(statement, ast.JoinedStr | ast.BinOp):
            yield f"line {node.lineno}: {ast.unparse(node.func)} of an assembled string"


RULES: dict[str, Callable[[ast.AST], Iterator[str]]] = {
    "code from data": code_from_data,
    "embedded SQL": embedded_sql,
    "assembled SQL": assembled_sql,
}


@cache
def parsed(path: Path) -> ast.Module:
    """A file of the sources; each rule looks at all of them."""
    return ast.parse(path.read_text("utf-8"), str(path))


@pytest.mark.promise("P-6")
@pytest.mark.parametrize("rule", RULES)
def test_the_sources_keep_the_rule(project_root: Path, rule: str) -> None:
    found = [
        f"{path.relative_to(project_root)}: {each}"
        for path in sorted((project_root / "src").rglob("*.py"))
        for each in RULES[rule](parsed(path))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        ("code from data", "import pickle"),
        ("code from data", "from marshal import loads"),
        ("code from data", "import shelve as s"),
        ("code from data", "from yaml import unsafe_load"),
        ("code from data", "import yaml\nyaml.load(text, Loader=yaml.SafeLoader)"),
        ("code from data", "eval(text)"),
        ("code from data", "exec(text)"),
        ("embedded SQL", "q = 'SELECT 1'"),
        ("embedded SQL", "q = 'select a from b where c = ?'"),
        ("embedded SQL", "q = 'insert into a values (1)'"),
        ("embedded SQL", "q = 'INSERT OR IGNORE INTO a VALUES (1)'"),
        ("embedded SQL", "q = f'UPDATE a SET b = {c}'"),
        ("embedded SQL", "q = 'delete from a'"),
        ("embedded SQL", "q = 'create table a (b)'"),
        ("embedded SQL", "q = 'CREATE UNIQUE INDEX a ON b (c)'"),
        ("embedded SQL", "q = 'DROP TABLE a'"),
        ("assembled SQL", "db.execute(f'PRAGMA {name}')"),
        ("assembled SQL", "db.cursor().execute('PRAGMA ' + name)"),
        ("assembled SQL", "db.execute('PRAGMA {}'.format(name))"),
    ],
)
def test_a_breach_is_found(rule: str, source: str) -> None:
    assert list(RULES[rule](ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    '''SELECT is explained here.'''",
        "import yaml\nyaml.safe_load(text)",
        "db.execute('BEGIN IMMEDIATE')",
        "db.execute('PRAGMA journal_mode=WAL')",
        "db.execute(statements['append'], row)",
        "re.compile('a')",
        "say('Select a task, update its title and create a table of contents.')",
        "KIND = 'KNOWLEDGE_UPDATE'",
    ],
)
def test_harmless_code_is_left_alone(source: str) -> None:
    tree = ast.parse(source)
    assert [each for rule in RULES.values() for each in rule(tree)] == []
