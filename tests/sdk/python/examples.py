"""The Python of docs/clients.md, as it stands there: each block by itself, against providers of the slugs that it names."""

import os
import pathlib
import re
import sys
import traceback

from checks import KEY, URL

PAGE = pathlib.Path(os.environ["TEST_PAGE"]).read_text()


def blocks():
    """Each with the title that it stands under."""
    for part in re.split(r"^## ", PAGE, flags=re.M)[1:]:
        for code in re.findall(r"^```python\n(.*?)^```", part, flags=re.M | re.S):
            yield part.split("\n")[0], code.replace("http://127.0.0.1:8787", URL)


def main():
    failed = 0
    for title, code in blocks():
        try:
            exec(compile(code, title, "exec"), {"WORKSPACE_KEY": KEY, "__name__": title})
            print(f"\nok {title}")
        except Exception:
            failed += 1
            print(f"\nFAILED {title}")
            print(traceback.format_exc())
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
