"""Execute the notebooks of this folder, or those that are named, and save their outputs.

With `--check`, they are executed and nothing is saved.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def main(words: list[str]) -> None:
    names = [word for word in words if word != "--check"]
    for path in sorted(FOLDER.glob("*.ipynb")):
        if names and path.stem not in names:
            continue
        book = nbformat.read(path, as_version=4)
        NotebookClient(book, timeout=900, resources={"metadata": {"path": FOLDER}}).execute()
        for cell in book.cells:
            cell.metadata.pop("execution", None)  # times
        if "--check" not in words:
            nbformat.write(book, path)
        print(f"executed {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
