"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from wf_api.client.calls import DEFAULT_TIMEOUT_SECONDS, DEFAULT_URL

Url = Annotated[
    str, typer.Option("--url", envvar="WF_API_URL", help="Where the API answers.", show_default=DEFAULT_URL)
]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds for one request.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)]
Cursor = Annotated[str | None, typer.Option("--cursor", help="Go on where another page ended.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100, help="How many to show.")]
Modules = Annotated[
    list[str] | None,
    typer.Option("--module", "-m", help="A module (dotted name) or Python file; repeat it for more.", metavar="MODULE"),
]
LogLevel = Annotated[str, typer.Option("--log-level", help="DEBUG, INFO, WARNING or ERROR.")]

URL_DEFAULT = DEFAULT_URL
TIMEOUT_DEFAULT = DEFAULT_TIMEOUT_SECONDS
