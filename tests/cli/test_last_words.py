from __future__ import annotations

from penstock.cli.core.last_words import last_words

PAGES = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted: Traceback (most recent call last):
  File "worker.py", line 1, in main
ValueError: an earlier one

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "hour_files.py", line 81, in write
    self._writer.write(rows)
penstock.spark.core.failures.DataLoss: Some data may have been lost

	at org.apache.spark.api.python.BasePythonRunner.compute(PythonRunner.scala:1)
Caused by: java.lang.Exception: something
"""


def test_an_error_of_pythons_own() -> None:
    assert last_words(PAGES) == "Some data may have been lost (DataLoss)"


def test_an_error_of_sparks_own() -> None:
    assert last_words("[NO_SUCH_TABLE] There is none.\nmore\n") == "[NO_SUCH_TABLE] There is none."
