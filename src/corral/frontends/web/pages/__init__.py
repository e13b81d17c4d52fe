"""The page that users look at: one file for each screen, all over the same frame."""

from fastapi import APIRouter

from corral.frontends.web.route_files import routers

router = APIRouter(include_in_schema=False)
for screen in routers(__name__):
    router.include_router(screen)
