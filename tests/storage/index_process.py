"""A process that writes a shared index and prints the number of each publication, until it is killed."""

from pathlib import Path

from tantivy import Document, Schema, SchemaBuilder

from tollhouse.storage.shared_index import SharedIndex

ROWS = 50


def columns() -> Schema:
    builder = SchemaBuilder().add_text_field("id", fast=True, tokenizer_name="raw", index_option="basic")
    return builder.add_integer_field("number", fast=True, indexed=True).build()


def open_index(folder: Path | None) -> SharedIndex:
    return SharedIndex(folder, columns(), layout="rows", sort_by="id")


def put(index: SharedIndex, number: int, rows: int = ROWS) -> None:
    for row in range(rows):
        index.writer.delete_documents_by_term("id", f"r{row}")
        index.writer.add_document(Document.from_dict({"id": f"r{row}", "number": number}, columns()))


def write(folder: str) -> None:
    """Each publication gives all rows its number; committing half of them before must not show."""
    index = open_index(Path(folder))
    while not index.take_writer():
        pass
    number = int(index.about or 0)
    while True:
        number += 1
        put(index, number, ROWS // 2)
        index.commit()
        put(index, number)
        index.publish(str(number).encode())
        print(number, flush=True)  # noqa: T201
