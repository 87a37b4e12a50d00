"""Reads an export as others would: `export_reader.py FILE jsonl|parquet`. Tells as JSON how many records it has, how many ids, how
many of them failed, and how many models. A file of columns is read by pyarrow, a batch of rows at a time."""

import json
import sys

path, form = sys.argv[1:]


def lines():
    with open(path) as file:
        for line in file:
            record = json.loads(line)
            yield record["id"], record["response_status_code"], record["ai_model"]


def columns():
    import pyarrow
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    names = ["id", "response_status_code", "ai_model"]
    assert pyarrow.types.is_timestamp(file.schema_arrow.field("created_at").type), file.schema_arrow
    assert file.metadata.num_rows > 0, file.metadata
    for batch in file.iter_batches(batch_size=10_000, columns=names):
        yield from zip(*(batch.column(name).to_pylist() for name in names))


records, ids, failed, models = 0, set(), 0, set()
for id, status, model in lines() if form == "jsonl" else columns():
    records += 1
    ids.add(id)
    failed += status >= 400
    models.add(model)
print(json.dumps({"records": records, "ids": len(ids), "failed": failed, "models": len(models)}))
