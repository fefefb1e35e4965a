"""Annotation studies: a plan and texts in one file, a site that asks annotators, decisions at interim analyses.

In the order of a study:

- `plan`, `plan_file`, `wording`: what a study asks, of whom, and when it stops.
- `new_study`, `add_to_study`, `material`, `known_questions`, `rendering`, `safe_html`: texts become a `study_file`.
- `check_study`, `rehearsal`, `simulated_crowd`: problems and costs before anybody is asked.
- `service`: the open study. Acts go through one `writer` thread; each is a row of the `event_log`, written to the file
  and applied to the `state`: `participants`, `assignments` of units, and the `engine` that closes pairs.
- `arrivals`, `visits`, `views`, `assignment_policy`, `quality_control`: what annotators see, do and get next.
- `server`, `site`: the pages of annotators and of the owner over HTTP.
- `snapshot`, `forecast`, `study_status`, `export_study`, `completion_codes`: what the owner learns and takes away.
"""

from __future__ import annotations

from custodes.lazily import on_first_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from custodes.annotate.add_to_study import add as add
    from custodes.annotate.check_study import check as check
    from custodes.annotate.demo import demo_texts as demo_texts
    from custodes.annotate.export_study import export as export
    from custodes.annotate.new_study import new as new
    from custodes.annotate.plan import StudyPlan as StudyPlan
    from custodes.annotate.rehearsal import rehearse as rehearse
    from custodes.annotate.server import serve as serve
    from custodes.annotate.service import Service as Service
    from custodes.annotate.study_status import status as status

_MODULES = {
    "add": "add_to_study",
    "check": "check_study",
    "rehearse": "rehearsal",
    "status": "study_status",
    "serve": "server",
    "Service": "service",
    "export": "export_study",
    "new": "new_study",
    "StudyPlan": "plan",
    "demo_texts": "demo",
}
__all__ = ["Service", "StudyPlan", "add", "check", "demo_texts", "export", "new", "rehearse", "serve", "status"]
__getattr__ = on_first_use(__name__, _MODULES)
"""Reading a study needs none of what a site needs."""
