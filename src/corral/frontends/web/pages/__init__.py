"""The page that people look at: one file for each screen, all over the same frame."""

from fastapi import APIRouter

from corral.frontends.web.pages import (
    agents,
    compare,
    conflicts,
    cost,
    dashboard,
    diff,
    flows,
    inbox,
    merge,
    new,
    run,
    runs,
    settings,
)

router = APIRouter(include_in_schema=False)
for screen in (dashboard, runs, run, new, inbox, cost, flows, agents, settings, diff, compare, merge, conflicts):
    router.include_router(screen.router)
