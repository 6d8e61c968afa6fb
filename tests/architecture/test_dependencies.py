"""Every dependency stands in the decision on dependencies, with its reason."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_declared_dependency_has_a_reason_in_the_decision() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    declared = [*project["dependencies"], *(line for extra in extras for line in extra)]
    names = {re.split(r"[\[<>=~!; ]", line, maxsplit=1)[0] for line in declared} - {"wf-engine"}
    decision = (ROOT / "docs/adr/0004-dependencies.md").read_text()
    reasons = "\n".join(line for line in decision.splitlines() if line.startswith("|"))
    missing = sorted(name for name in names if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", reasons) is None)
    assert missing == [], f"docs/adr/0004-dependencies.md gives no reason for {missing}"
