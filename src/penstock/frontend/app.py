"""The pages of the HTTP port: /metrics and /health."""

from __future__ import annotations

import asyncio

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.telemetry.health import Health
from penstock.telemetry.metrics import Metrics


def app_of(metrics: Metrics, health: Health) -> Starlette:
    async def show_metrics(request: Request) -> Response:
        # Counted here, written out in a thread: with thousands of partitions the page takes longer than a produce.
        snapshot = metrics.snapshot()
        accept = request.headers.get("accept", "")
        page, content_type = await asyncio.get_running_loop().run_in_executor(None, snapshot.page, accept)
        return Response(page, headers={"content-type": content_type})

    async def show_health(request: Request) -> Response:
        why_not = health.why_not()
        if why_not:
            return JSONResponse({"status": "not ready", "why": why_not}, status_code=503)
        return JSONResponse({"status": "ready"})

    return Starlette(routes=[Route("/metrics", show_metrics), Route("/health", show_health)])
