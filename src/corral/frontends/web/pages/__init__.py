"""The page that people look at: one file for each screen, all over the same frame."""

from fastapi import APIRouter

from corral.frontends.web.pages import inbox, new, now, run, runs

router = APIRouter(include_in_schema=False)
for screen in (now, runs, run, new, inbox):
    router.include_router(screen.router)
