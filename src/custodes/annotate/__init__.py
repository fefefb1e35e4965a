"""Ask people: a study in one file, a site that asks, decisions of completed looks."""

from __future__ import annotations

from custodes.lazily import on_first_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from custodes.annotate.adding import add as add
    from custodes.annotate.checking import check as check
    from custodes.annotate.desk import Desk as Desk
    from custodes.annotate.exporting import export as export
    from custodes.annotate.making import new as new
    from custodes.annotate.messages import demo_texts as demo_texts
    from custodes.annotate.overview import status as status
    from custodes.annotate.plan import StudyPlan as StudyPlan
    from custodes.annotate.rehearsal import rehearse as rehearse
    from custodes.annotate.serving import serve as serve

_HOMES = {
    "add": "adding",
    "check": "checking",
    "rehearse": "rehearsal",
    "status": "overview",
    "serve": "serving",
    "Desk": "desk",
    "export": "exporting",
    "new": "making",
    "StudyPlan": "plan",
    "demo_texts": "messages",
}
__all__ = ["Desk", "StudyPlan", "add", "check", "demo_texts", "export", "new", "rehearse", "serve", "status"]
__getattr__ = on_first_use(__name__, _HOMES)
"""Reading a study needs none of what a site needs."""
