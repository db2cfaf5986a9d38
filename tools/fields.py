"""The page docs/fields.md: all fields of a scenario, from the schema and the docstrings of its tables."""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import TypeGuard

from msgspec import NODEFAULT, Struct
from msgspec import inspect as schema

from securefl.scenario import parts
from securefl.scenario.data import DATA_FORMS, DATA_PATTERN
from securefl.scenario.scenario import Scenario
from securefl.scenario.sum_defaults import DERIVED

HEAD = """# Fields of a scenario

All fields of the [TOML file](scenarios.md), for users who write or read one.
Made from the docstrings by `python tools/reference.py`. Terms: [glossary](glossary.md).

Parentheses hold the type and the default of a field. An integer may stand for a real number.
Infinities and NaN are refused.
"""
_FORMS = {DATA_PATTERN: DATA_FORMS, r"^[a-z0-9][a-z0-9_-]{0,31}$": "1 to 32 of a-z, 0-9, _ and -"}


def page() -> str:
    """Return the whole page."""
    root = _table(Scenario)
    lines = [HEAD, "## Top level", "", *bullets(Scenario, root.fields), ""]
    for field in root.fields:
        lines += tables(field.encode_name, field.type, level=2)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def tables(path: str, declared: schema.Type, level: int) -> Iterator[str]:
    """Yield the sections of a field that holds tables, and of the tables in them."""
    for table in structs(declared):
        kind = table.cls
        title = f"`[{path}]`"
        if table.tag is not None and not _is_part(kind):
            title = f'`{path}`: `{{ {table.tag_field} = "{table.tag}" }}`'
        lead = f"{summary(kind)} One of these kinds." if _is_part(kind) else about(kind)
        yield from (f"{'#' * level} {title}", "", lead, "")
        if _is_part(kind):
            yield from kinds(kind)
        else:
            yield from (*bullets(kind, table.fields), "")
            for field in table.fields:
                yield from tables(f"{path}.{field.encode_name}", field.type, min(level + 1, 4))


def kinds(kind: type[parts.Part]) -> Iterator[str]:
    """Yield the fields that several kinds of a part have, then each kind with its own."""
    found = [_table(parts.find(kind, name)) for name in parts.names(kind)]
    common = defaultdict[tuple[type, str], list[schema.StructType]](list)
    for one in found:
        for owner, field in owned(one):
            if ":" in str(owner.__struct_config__.tag):
                common[owner, field.encode_name].append(one)
    for (owner, name), having in common.items():
        tags = ", ".join(f"`{one.tag}`" for one in having)
        field = next(field for field in having[0].fields if field.encode_name == name)
        yield bullet(owner, field) + (f" Of {tags}." if len(having) < len(found) else "")
    yield ""
    for one in found:
        own = [field for owner, field in owned(one) if (owner, field.encode_name) not in common]
        yield from (
            f'**`{{ {one.tag_field} = "{one.tag}" }}`** {about(one.cls)}',
            "",
            *bullets(one.cls, own),
            "",
        )


def bullets(kind: type, fields: Iterable[schema.Field]) -> Iterator[str]:
    """Yield a line for each field."""
    yield from (bullet(kind, field) for field in fields)


def bullet(kind: type, field: schema.Field) -> str:
    """Name, type, default and meaning of one field."""
    facts = f"{worded(field.type)}; {default(kind, field)}"
    return f"- **`{field.encode_name}`** ({facts}): {meaning(kind, field)}"


def structs(declared: schema.Type) -> Iterator[schema.StructType]:
    """Yield the tables that a field may hold."""
    if isinstance(declared, schema.StructType):
        yield declared
    elif isinstance(declared, schema.UnionType):
        for member in declared.types:
            yield from structs(member)
    elif isinstance(declared, schema.VarTupleType):
        yield from structs(declared.item_type)


def worded(declared: schema.Type) -> str:
    """Return a type for readers."""
    match declared:
        case schema.BoolType():
            text = "boolean"
        case schema.IntType():
            text = "integer" + span(declared)
        case schema.FloatType():
            text = "real" + span(declared)
        case schema.StrType():
            text = _FORMS.get(declared.pattern or "", "text")
        case schema.LiteralType():
            text = ", ".join(f"`{value}`" for value in declared.values)
        case schema.UnionType():
            members = (worded(one) for one in declared.types if not isinstance(one, schema.NoneType))
            text = " or ".join(dict.fromkeys(members))
        case schema.VarTupleType():
            text = f"list of {worded(declared.item_type)}"
        case schema.TupleType():
            text = f"list of {len(declared.item_types)}: {worded(declared.item_types[0])}"
        case _:
            text = "table"
    return text


def span(number: schema.IntType | schema.FloatType) -> str:
    """Return the range of a number."""
    ends = ((number.ge, "≥"), (number.gt, ">"), (number.le, "≤"), (number.lt, "<"))
    limits = [f"{sign} {shown(end)}" for end, sign in ends if end is not None]
    steps = [f"a multiple of {number.multiple_of}"] if number.multiple_of else []
    return " " + ", ".join(limits + steps) if limits or steps else ""


def shown(value: object) -> str:
    """Return a value as a file would have it; large numbers with separators."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = str(list(value) if isinstance(value, tuple) else value).replace("'", '"')
    return text.lower() if isinstance(value, bool) else text


def default(kind: type, field: schema.Field) -> str:
    """Return the default of a field."""
    if kind.__name__ == "SecureSum" and field.encode_name in DERIVED:
        return "derived"
    value = field.default if field.default_factory is NODEFAULT else field.default_factory()
    if value is NODEFAULT:
        return "required"
    if isinstance(value, Struct):
        tag = value.__struct_config__.tag
        return f"`{tag}`" if tag else "its defaults"
    if value is None or value == ():
        return "optional"
    return f"`{shown(value)}`" if value != "" else "empty"


def meaning(kind: type, field: schema.Field) -> str:
    """Return the docstring of a field.

    Raises:
        LookupError: there is none.
    """
    for owner in kind.__mro__:
        if field.encode_name in (documented := docstrings(owner)):
            return plain(documented[field.encode_name])
    raise LookupError(f"{kind.__name__}.{field.encode_name} has no docstring")


def owned(table: schema.StructType) -> Iterator[tuple[type[Struct], schema.Field]]:
    """Yield each field with the class that declares it last."""
    for field in table.fields:
        owners = (
            owner
            for owner in table.cls.__mro__
            if field.encode_name in vars(owner).get("__annotations__", {})
        )
        yield next(owners), field


@cache
def docstrings(owner: type) -> dict[str, str]:
    """Return the docstrings behind the fields that a class declares itself."""
    if not owner.__module__.startswith("securefl."):
        return {}
    (struct,) = ast.parse(dedent(inspect.getsource(owner))).body
    lines = getattr(struct, "body", [])
    return {
        ast.unparse(field.target): str(ast.literal_eval(text.value))
        for field, text in pairwise(lines)
        if isinstance(field, ast.AnnAssign)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def about(kind: type) -> str:
    """Return the docstring of a class without its example."""
    text = re.split(r"Example:|>>> ", inspect.getdoc(kind) or "", maxsplit=1)[0].strip()
    return "\n\n".join(plain(paragraph) for paragraph in text.split("\n\n"))


def summary(kind: type) -> str:
    """Return the first line of a class's docstring, up to a semicolon: the rest is for authors of kinds."""
    return about(kind).partition("\n")[0].partition(";")[0].rstrip(".") + "."


def plain(text: str) -> str:
    """Text with Markdown's marks in place of reStructuredText's, as one line, pages linked."""
    text = re.sub(r":\w+:`~?([\w.]+)`", r"``\1``", " ".join(text.split()))
    text = re.sub(r"(\(?)\bdocs/([\w/-]*?)([\w-]+)\.md", r"\1[\3](\2\3.md)", text)
    return text.replace("``", "`")


def _is_part(kind: type) -> TypeGuard[type[parts.Part]]:
    return issubclass(kind, parts.Part) and parts.is_kind(kind)


def _table(kind: type) -> schema.StructType:
    found = schema.type_info(kind)
    if not isinstance(found, schema.StructType):
        raise TypeError(kind)
    return found
