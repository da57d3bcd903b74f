"""The rows of ``dpmac train --public-test``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmac.cli.jobs import Job


def public_rows(job: Job, private: Any = None) -> Any:
    """The rows of ``--public-test``, every cell and label of them looked over; None without any. Pictures must be like
    the ``private`` ones."""
    if job.pictures is not None:
        from dpmac.cli.pictures import public_pictures

        return public_pictures(job, private, quiet=True)
    from dpmac.cli.scores import check_scored
    from dpmac.tables.files import read_table
    from dpmac.tables.lines import at_lines

    if job.public_test is None:
        return None
    schema = job.read_schema()
    table = read_table(job.public_test, schema)
    with at_lines(job.public_test):
        check_scored(schema, table, job.public_test)
    return table
