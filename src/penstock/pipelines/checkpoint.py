"""What a streaming query's checkpoint says: who it is, and where its batches end.

Spark writes the end of a batch there before the batch runs, and reads it back when the batch has to run again: so it
is the same for every attempt. It may be on any filesystem that Spark knows.
"""

from __future__ import annotations

import json
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.pipelines.core.refusal import PipelineRefused
from penstock.spark.core.source_offset import SourceOffset, SourceOffsetError


class Checkpoint:
    def __init__(self, session: SparkSession, directory: str) -> None:
        self.directory = directory
        self._session = session

    def query_id(self) -> str | None:
        """None: no query has begun with it."""
        text = self._read("metadata")
        return None if text is None else str(json.loads(text)["id"])

    def end_of(self, batch_id: int) -> SourceOffset | None:
        """Of a query with one source. None: there is no such batch."""
        text = self._read(f"offsets/{batch_id}")
        if text is None:
            return None
        # The version, what Spark says of the batch, and then a line for each source.
        lines = text.splitlines()
        try:
            return SourceOffset.of_document(json.loads(lines[2]))
        except (IndexError, json.JSONDecodeError, SourceOffsetError) as error:
            raise PipelineRefused(
                f"{self.directory} is no checkpoint of a query that reads a topic ({error}): use another --checkpoint"
            ) from None

    def _read(self, name: str) -> str | None:
        jvm: Any = self._session._jvm
        path = jvm.org.apache.hadoop.fs.Path(f"{self.directory}/{name}")
        try:
            files = path.getFileSystem(self._session._jsc.hadoopConfiguration())
            if not files.exists(path):
                return None
            stream = files.open(path)
            try:
                return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream)).decode()
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise PipelineRefused(f"the checkpoint {self.directory} cannot be read: {error.java_exception}") from None
