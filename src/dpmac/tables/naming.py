"""What the name of a column says of it: does it hold the ids of persons?"""

from __future__ import annotations

import re

WHO = {
    *("person", "patient", "customer", "client", "user", "subject", "member", "participant", "respondent", "employee"),
    *("student", "pupil", "resident", "citizen", "household", "account", "applicant", "passenger", "driver", "worker"),
}
NUMBER = {"id", "ids", "no", "nr", "num", "number", "key", "code", "uuid", "guid", "hash", "identifier"}
ALONE = {
    "id",
    "pid",
    "uid",
    "uuid",
    "guid",
    "mrn",
    "ssn",
    "patid",
    "userid",
    "memberid",
    "personid",
    "patientid",
}


def names_ids(name: str) -> bool | None:
    """Whether a column called so holds ids of persons: surely, perhaps (False), or no (None)."""
    words = words_of_name(name)
    if len(words) == 1 and words[0] in ALONE:
        return True
    if words and words[-1] in NUMBER:
        if WHO & set(words[:-1]):
            return True
        return None
    if len(words) == 1 and words[0] in WHO:
        return False
    return None


def words_of_name(name: str) -> list[str]:
    """The words of a column's name, in lower case: ``patient_id``, ``PatientID`` and "patient id" have the same."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
