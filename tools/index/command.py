"""`agentgym index`: build a search index of documents, search it, and show its documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from agentgym.tools.index import Hit

index_app = typer.Typer(
    help="Build a search index of documents, search it and show documents.", no_args_is_help=True, add_completion=False
)

IndexFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of an index.", file_okay=False)]


@index_app.command("build")
def build(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="SOURCE", help="JSON lines (also .gz), Parquet, or folders of .txt and .md files."),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write the index to.", file_okay=False)],
    backend: Annotated[str, typer.Option(help="tantivy, trigrams, fts5, bm25s, dense or hybrid.")] = "tantivy",
    encoder: Annotated[
        str | None, typer.Option(help="For dense and hybrid: the folder or name of a sentence-transformers model.")
    ] = None,
) -> None:
    """Build an index of documents. An existing index is replaced when the new one is complete."""
    from rich.console import Console

    from agentgym.tools.index import build_index, read_documents

    with Console(stderr=True).status("Indexing …"):
        index = build_index(read_documents(*sources), out, backend, encoder)
    try:
        documents = "document" if len(index) == 1 else "documents"
        typer.echo(f"Indexed {len(index)} {documents} in {out} ({index.name})")
    finally:
        index.close()


@index_app.command("search")
def search(
    folder: IndexFolder,
    query: Annotated[str, typer.Argument(help="Plain text; there is no query syntax.")],
    hits: Annotated[int, typer.Option(min=1, help="Maximum number of hits.")] = 5,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=VALUE", help="Only documents with this field; may be repeated."),
    ] = None,
) -> None:
    """Show the best hits of a query."""
    from agentgym.base.console import console
    from agentgym.base.settings import split_pair
    from agentgym.tools.index import open_index

    filters = dict(split_pair(pair, "--where", "FIELD=VALUE") for pair in where or [])
    index = open_index(folder)
    try:
        best = index.search(query, hits, filters)
    finally:
        index.close()
    if not best:
        typer.echo("Nothing found.")
        return
    console().print(_hits_table(best))


@index_app.command("show")
def show(
    folder: IndexFolder,
    document_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a document, from the search results.")],
    start: Annotated[int, typer.Option(min=0, help="The first character to show.")] = 0,
    length: Annotated[int, typer.Option(min=1, help="Number of characters to show.")] = 10_000,
) -> None:
    """Show the text of a document, or a part of it."""
    from agentgym.tools.index import open_index

    index = open_index(folder)
    try:
        page = index.open(document_id, (start, start + length))
    finally:
        index.close()
    typer.secho(page.title or page.id, bold=True)
    typer.echo(page.text)
    if page.end < page.length:
        typer.echo(f"(characters {page.start} to {page.end} of {page.length}; continue with --start {page.end})")


def _hits_table(hits: list[Hit]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table("Id", "Title", "Snippet", "Score")
    table.columns[3].justify = "right"
    for hit in hits:
        table.add_row(escape(hit.id), escape(hit.title), escape(hit.snippet), f"{hit.score:.4g}")
    return table
