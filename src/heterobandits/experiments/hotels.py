"""The hotel domain's means from data: cleanliness ratings of Trip Advisor, PrefLib dataset 00040.

The file `00040-00000001.dat` is a CSV with a header line. By position: the hotel's id first, its
location fourth, the cleanliness rating ninth; a rating that is not positive means "none". It
cannot be shipped, so the means are computed from a user's own copy.
"""

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

from heterobandits.errors import (
    InvalidInput,
    parse_integer,
    parse_name,
    parse_path,
    parse_real,
    repr_of,
)
from heterobandits.limits import COUNT_MAX

HOTEL_COLUMN, LOCATION_COLUMN, CLEANLINESS_COLUMN = 0, 3, 8
CLEAN_MIN_RATING = 4.0
HOTEL_LOCATION = "Punta Cana"
HOTEL_MIN_RATINGS = 500


@dataclass(frozen=True)
class HotelMean:
    """How often a hotel was rated clean."""

    hotel: str
    location: str
    ratings: int
    mean: float


@dataclass(frozen=True)
class HotelMeans:
    """The means of the hotels that count, and what was wrong with the file, line by line."""

    hotels: tuple[HotelMean, ...]
    complaints: tuple[str, ...]


def read_hotel_means(
    path: str | Path,
    location: str = HOTEL_LOCATION,
    least: int = HOTEL_MIN_RATINGS,
    clean: float = CLEAN_MIN_RATING,
) -> HotelMeans:
    """The share of ratings at or above `clean` of each hotel there with at least `least` ratings."""
    least = parse_integer(least, "least", 0, COUNT_MAX)
    place = parse_path(path)
    if not isinstance(location, str):
        raise InvalidInput(f"location is {repr_of(location)}: a part of the name of a place")
    clean = parse_real(clean, "clean", "a rating from which on a hotel is clean")
    try:
        data = place.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # older exports; every byte is some letter there
    counts: dict[tuple[str, ...], list[int]] = {}
    complaints: list[str] = []
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        next(reader, None)  # the header
        for row in reader:
            if not row:
                continue
            if len(row) <= CLEANLINESS_COLUMN:
                complaints.append(f"line {reader.line_num} has {len(row)} columns, 9 are needed")
                continue
            if location.casefold() not in row[LOCATION_COLUMN].casefold():
                continue
            try:
                rating = float(row[CLEANLINESS_COLUMN])
                if not math.isfinite(rating):
                    raise ValueError
            except ValueError:
                complaints.append(
                    f"line {reader.line_num} has the rating {repr_of(row[CLEANLINESS_COLUMN])}, not a number"
                )
                continue
            if rating > 0:
                try:
                    texts = (" ".join(row[i].split()) for i in (HOTEL_COLUMN, LOCATION_COLUMN))
                    key = tuple(parse_name(text, "the name") for text in texts)
                except InvalidInput as error:
                    complaints.append(f"line {reader.line_num}: {error}")
                    continue
                seen = counts.setdefault(key, [0, 0])
                seen[0] += 1
                seen[1] += rating >= clean
    except csv.Error as error:
        raise InvalidInput(f"{path}, line {reader.line_num}: {error}") from None
    hotels = tuple(
        HotelMean(hotel, city, ratings, cleaned / ratings)
        for (hotel, city), (ratings, cleaned) in sorted(counts.items())
        if ratings >= least
    )
    if not hotels:
        raise InvalidInput(
            f"{path} has no hotel in {location!r} with at least {least:,} ratings; "
            f"{len(counts):,} hotels there have any"
            + (f"; {len(complaints):,} lines are unusable: {complaints[0]}" if complaints else "")
        )
    return HotelMeans(hotels, tuple(complaints))
