"""Routes of the server itself: whether it is well, and what it has done."""

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse, PlainTextResponse

from heterobandits.campaigns import responses_schema
from heterobandits.campaigns.storage.store import StoreUnavailable
from heterobandits.provenance import version_of
from heterobandits.web.api.base import ApiRoute
from heterobandits.web.metrics import METRICS_MEDIA_TYPE
from heterobandits.web.turns import compute_in_thread, server_places_of
from heterobandits.web.warmup import Warmup, rules_to_load

router = APIRouter(route_class=ApiRoute)


@router.head("/api/health", include_in_schema=False)
@router.get(
    "/api/health",
    response_model=responses_schema.HealthJson,
    responses={
        503: {
            "model": responses_schema.HealthJson,
            "description": "The database cannot be used now",
        }
    },
)
async def health_route(request: Request) -> Response:
    """Whether the server can do its work; it is said however many ask for other things."""
    try:
        await compute_in_thread(
            server_places_of(request).health, request, request.app.state.log.store.check
        )
        state, status = "ok", 200
    except StoreUnavailable:  # which one and why is not for everybody
        state, status = "unavailable", 503
    about = {
        "status": state,
        "database": state,
        "version": version_of("heterobandits"),
        **readiness_of(request.app.state.warmup),
    }
    return JSONResponse(about, status, {"Cache-Control": "no-store"})


def readiness_of(warmup: Warmup | None) -> dict[str, bool | int]:
    """Whether every rule can be used, how many can, and how many there are."""
    if warmup is None:
        total = len(rules_to_load())
        return {"ready": True, "rules_ready": total, "rules": total}
    return {"ready": warmup.ready, "rules_ready": warmup.loaded, "rules": len(warmup.rules)}


@router.get("/metrics", response_class=PlainTextResponse)
def metrics_route(request: Request) -> Response:
    """What the server has done, as Prometheus reads it."""
    return Response(request.app.state.metrics.page(), media_type=METRICS_MEDIA_TYPE)
