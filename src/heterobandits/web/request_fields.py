"""What a request says: only queries that the route knows, JSON that says each thing once, and the fields of a form.

What is refused later is told with the field it is about: every message of the library begins with what is wrong.
"""

import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple, get_args
from urllib.parse import parse_qs

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError

from heterobandits.campaigns.validation import REPORT_MAX_ERRORS, InvalidFields
from heterobandits.errors import InvalidInput, parse_json, repr_of, unknown_name
from heterobandits.web.errors import MalformedBody, WrongMediaType, invalid_fields_of

FORM_MAX_FIELDS = 20_000  # of a form
SUBJECT_PATTERN = re.compile(r"(?:unknown )?(\w+) ", re.ASCII)


class RouteFields(NamedTuple):
    """The names that a request may use: in its query, and in its body with the body's model."""

    queries: frozenset[str]
    body: frozenset[str]
    model: TypeAdapter[Any] | None


def fields_of_route(route: APIRoute) -> RouteFields:
    """The names that a route knows."""
    queries = frozenset(field.alias for field in route.dependant.query_params)
    body: set[str] = set()
    whole: TypeAdapter[Any] | None = None
    for field in route.dependant.body_params:
        kind: Any = field.field_info.annotation
        whole = TypeAdapter(kind)
        for model in get_args(kind) or (kind,):  # one that may be left out is a union with None
            if issubclass(model, BaseModel):
                body |= model.model_fields.keys()
    return RouteFields(queries, frozenset(body), whole)


def check_queries(given: Mapping[str, Any], known: frozenset[str]) -> None:
    """Refuse an unknown query parameter: a misspelt one would silently do something else."""
    names = sorted(known)
    strange = [name for name in given if name not in known][:REPORT_MAX_ERRORS]
    if not names and strange:
        raise InvalidFields(
            [(name, f"unknown query {repr_of(name)}: this has none") for name in strange]
        )
    if strange:
        raise InvalidFields([(name, str(unknown_name("query", name, names))) for name in strange])


class Form:
    """The fields of a form, as texts by name."""

    def __init__(self, body: bytes) -> None:
        try:
            self.fields = parse_qs(
                body.decode(),
                keep_blank_values=True,
                max_num_fields=FORM_MAX_FIELDS,
                errors="strict",
            )
        except ValueError:
            raise MalformedBody(
                "the form cannot be read: open the page anew and try again"
            ) from None

    def text(self, name: str, default: str = "") -> str:
        """The last of the texts of a field, without blanks around it."""
        return self.fields.get(name, [default])[-1].strip()

    def texts(self, name: str) -> list[str]:
        """All texts of a field that are not blank."""
        return [text.strip() for text in self.fields.get(name, []) if text.strip()]

    def whole(self, name: str) -> int | None:
        """A field as a whole number; None if it is blank."""
        text = self.text(name)
        if not text:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise InvalidFields([(name, f"{name} is {repr_of(text)}: a whole number")])
        return int(text)


class BodyRequest(Request):
    """A request with a body, which is not parsed again once it is known what it says."""

    said: Any = None

    async def json(self) -> Any:
        """What the body says."""
        return await super().json() if self.said is None else self.said


def parse_body(body: bytes, kind: str, fields: RouteFields) -> Any:
    """What a body says, as its model, if it is called JSON and says nothing twice."""
    media = kind.partition(";")[0].strip().lower()
    if media != "application/json" and not re.fullmatch(r"application/\S+\+json", media):
        given = f"is {repr_of(kind)}" if kind else "is missing"
        raise WrongMediaType(f"Content-Type {given}: send Content-Type: application/json")
    assert fields.model is not None, "the route takes a body"
    try:
        said = parse_json(body.decode())
        return fields.model.validate_python(limit_unknown_names(said, fields.body))
    except ValidationError as error:
        found = error.errors(include_url=False)[:REPORT_MAX_ERRORS]
        raise invalid_fields_of([{**one, "loc": ("body", *one["loc"])} for one in found]) from None
    except InvalidInput as error:
        raise MalformedBody(f"the body cannot be used: {error}") from None
    except UnicodeDecodeError:
        raise MalformedBody("the body is not JSON: it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise MalformedBody(f"the body is not JSON: {error.msg}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, lists without end
        raise MalformedBody("the body is not JSON that can be read") from None


def limit_unknown_names(said: Any, known: frozenset[str]) -> Any:
    """The given fields, with only as many unknown names as an error message shows."""
    if not isinstance(said, dict) or len(said) <= len(known) + REPORT_MAX_ERRORS:
        return said
    strange = islice((name for name in said if name not in known), REPORT_MAX_ERRORS)
    return {name: said[name] for name in (*(name for name in known if name in said), *strange)}


def place_error(error: InvalidInput, names: frozenset[str]) -> InvalidInput:
    """The error with the path of the field that its message starts with, if it is one of these."""
    subject = SUBJECT_PATTERN.match(str(error))
    if type(error) is not InvalidInput or subject is None or subject[1] not in names:
        return error
    return InvalidFields([(subject[1], str(error))])
