"""Pages from their templates: each is one HTML file that opens offline, prints, and reads on a phone.

Python chooses the numbers and texts; markup stands in `templates/` alone, and whatever is put
into it is shown as text.
"""

import base64

from jinja2 import Environment, PackageLoader, StrictUndefined

TEMPLATES = Environment(
    loader=PackageLoader("heterobandits.output"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters["base64"] = lambda text: base64.b64encode(text.encode()).decode()


def render_template(template: str, **data: object) -> str:
    """Render this template with these data."""
    return TEMPLATES.get_template(template).render(data)
