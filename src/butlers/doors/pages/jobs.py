"""The jobs of a butler: when they run, how they ran, and running one now."""

from fastapi import APIRouter
from starlette.responses import Response

from butlers.doors.http import jobs as api
from butlers.doors.pages.rendering import render, seated
from butlers.doors.pages.routing import PageRoute, go_to
from butlers.doors.pages.visits import Name, Sending, Visiting

router = APIRouter(route_class=PageRoute)


@router.get("/butlers/{name}/memory/jobs")
async def jobs(visit: Visiting, name: Name, done: str = "") -> Response:
    """Every job with its next run, and the newest runs of all."""
    told = await api.jobs_of(visit.seat(name))
    return render(visit.request, "jobs.html", **seated(visit, name, "jobs"), told=told, done=done)


@router.post("/butlers/{name}/memory/jobs/{job}/run")
async def run(sent: Sending, name: Name, job: Name) -> Response:
    """Run a job now; the history then shows it."""
    answer = await api.run_job(sent.visit.seat(name), sent.visit.request, job)
    word = "ended" if answer["run"] else "begun"
    return go_to(f"/butlers/{name}/memory/jobs?done={word}")
