"""What a request says, looked at before its route does its work: only queries that the route knows, and JSON that says each thing once.

What is refused later is told with the field it is about: every message of the library begins with what is wrong.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

from fastapi.routing import APIRoute
from pydantic import BaseModel

from heterobandits.campaigns.inputs import Wrong
from heterobandits.errors import InvalidInput, json_from, shown, unknown
from heterobandits.web.problems import Malformed, WrongMedia

SUBJECT = re.compile(r"(?:unknown )?(\w+) ", re.ASCII)


class Fields(NamedTuple):
    """The names that a request to a route may use: in its query, and in its body, if it has one."""

    queries: frozenset[str]
    body: frozenset[str]


def fields_of(route: APIRoute) -> Fields:
    """The names that a route knows."""
    queries = frozenset(field.alias for field in route.dependant.query_params)
    body: set[str] = set()
    for field in route.dependant.body_params:
        kind: Any = field.field_info.annotation
        for model in get_args(kind) or (kind,):  # one that may be left out is a union with None
            if issubclass(model, BaseModel):
                body |= model.model_fields.keys()
    return Fields(queries, frozenset(body))


def check_queries(given: Mapping[str, Any], known: frozenset[str]) -> None:
    """Refuse a query that the route does not know: misspelt, it would do something else than was meant."""
    names = sorted(known)
    strange = [name for name in given if name not in known]
    if not names and strange:
        raise Wrong([(name, f"unknown query {shown(name)}: this has none") for name in strange])
    if strange:
        raise Wrong([(name, str(unknown("query", name, names))) for name in strange])


def check_json(body: bytes, kind: str) -> None:
    """Refuse a body that is not called JSON, or says something twice; what is no JSON at all, the route refuses."""
    media = kind.partition(";")[0].strip().lower()
    if media != "application/json" and not re.fullmatch(r"application/\S+\+json", media):
        given = f"is {shown(kind)}" if kind else "is missing"
        raise WrongMedia(f"Content-Type {given}: send Content-Type: application/json")
    try:
        json_from(body.decode())
    except InvalidInput as error:
        raise Malformed(f"the body cannot be used: {error}") from None
    except UnicodeDecodeError:
        raise Malformed("the body is not JSON: it is not UTF-8") from None
    except (ValueError, RecursionError):
        return


def placed(error: InvalidInput, names: frozenset[str]) -> InvalidInput:
    """The error with the path of the field that its message begins with, if it is one of these."""
    subject = SUBJECT.match(str(error))
    if type(error) is not InvalidInput or subject is None or subject[1] not in names:
        return error
    return Wrong([(subject[1], str(error))])
