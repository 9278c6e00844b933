"""Labelling without a browser: what is on the disk after each action, and after none was finished."""

import json

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from headscope.data_modules.patterns.labels import CLASSES, Label, MapName, read_labels, write_labels
from headscope.data_modules.patterns.votes import read_votes
from headscope.errors import InputError
from headscope.tools.label.agreement import agreement
from headscope.tools.label.classes import DEFINITIONS
from headscope.tools.label.encoders import encoder_options
from headscope.tools.label.journal import Journal
from headscope.tools.label.session import Conflict, LabelSession, journal_file
from headscope.tools.label.tables import PACKAGED, are_stored, starting_rows

MAPS = [MapName("minilm", "0" * 64, "mrpc", "val", number, 1 + number, 2) for number in range(4)]
BLANK = [Label(name, "") for name in MAPS]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "labels.csv"


@pytest.fixture
def opened(out):
    """Opens sessions on one file, and closes the one that is left."""
    sessions = []

    def open_session(passed=1, rows=None):
        rows = rows or (read_labels(out) if out.exists() else BLANK)
        sessions.append(LabelSession(rows, out, passed))
        return sessions[-1]

    yield open_session
    for session in sessions:
        session.close()


def killed(session):
    """Ends a session as a crash would: the lock goes, and nothing else happens."""
    session._closed = True
    session._journal.close()


def labels(session):
    return [session.label_of(number) for number in range(len(session.maps))]


def in_table(out, passed=1):
    return [row.label for row in read_labels(out) if row.passed == passed]


def test_every_action_is_in_journal_and_table_at_once(out, opened):
    session = opened()
    assert in_table(out) == ["", "", "", ""]
    session.label(0, "vertical", 0, "a")
    session.label(2, "block", 0, "a")
    session.label(0, "diagonal", 1, "a")
    assert in_table(out) == ["diagonal", "", "block", ""]
    lines = [json.loads(line) for line in journal_file(out).read_text().splitlines()]
    assert [(line["action"], line["example"], line["before"], line["label"]) for line in lines] == [
        ("label", 0, "", "vertical"), ("label", 2, "", "block"), ("label", 0, "vertical", "diagonal"),
    ]  # fmt: skip
    assert labels(session) == [("diagonal", 2), ("", 0), ("block", 1), ("", 0)]


def test_undo_goes_back_action_by_action_also_after_a_crash(out, opened):
    session = opened()
    for number, label in ((0, "vertical"), (1, "block"), (0, "diagonal")):
        session.label(number, label, session.label_of(number)[1], "a")
    assert session.undo("a") == 0
    assert in_table(out) == ["vertical", "block", "", ""]
    killed(session)
    session = opened()
    assert session.undo("b") == 1  # an action from before belongs to everybody
    assert session.undo("b") == 0
    assert in_table(out) == ["", "", "", ""]
    assert labels(session)[:2] == [("", 4), ("", 2)]
    with pytest.raises(Conflict, match="nothing to undo"):
        session.undo("b")


def test_what_the_table_lacks_after_a_crash_comes_from_the_journal(out, opened):
    session = opened()
    before = out.read_bytes()
    session.label(1, "heterogeneous", 0, "a")
    session.label(3, "vertical", 0, "a")
    session.label(3, "block", 1, "a")
    killed(session)
    out.write_bytes(before)  # as if the crash came before the table was written
    session = opened()
    assert session.replayed == 3
    assert labels(session) == [("", 0), ("heterogeneous", 1), ("", 0), ("block", 2)]
    session.close()
    out.unlink()
    assert [label for label, _ in labels(opened())] == ["", "heterogeneous", "", "block"]


def test_a_torn_last_line_is_dropped_wherever_it_was_torn(out, opened):
    session = opened()
    before = out.read_bytes()
    session.label(0, "vertical", 0, "a")
    session.label(1, "block", 0, "a")
    killed(session)
    whole = journal_file(out).read_bytes()
    first = whole.index(b"\n") + 1
    for cut in (first, first + 1, first + 40, len(whole) - 2, len(whole) - 1):
        journal_file(out).write_bytes(whole[:cut])
        out.write_bytes(before)
        session = opened()
        assert labels(session) == [("vertical", 1), ("", 0), ("", 0), ("", 0)]
        session.label(1, "diagonal", 0, "a")  # on a line of its own
        killed(session)
        again = Journal(journal_file(out))
        assert [action.label for action in again.actions] == ["vertical", "diagonal"]
        again.close()


def test_other_damage_is_told_with_its_line(out, opened):
    session = opened()
    session.label(0, "vertical", 0, "a")
    session.label(1, "block", 0, "a")
    killed(session)
    lines = journal_file(out).read_text().splitlines(keepends=True)
    for damaged in ("{torn\n", lines[0].replace("vertical", "horizontal"), "[]\n", "\x00\x00\n"):
        journal_file(out).write_text(damaged + lines[1])
        with pytest.raises(InputError, match=r"labels\.csv\.journal:1: expected an action"):
            opened()
    journal_file(out).write_text(lines[0].replace('"head": 2', '"head": 7'))
    with pytest.raises(InputError, match="the journal of another table"):
        opened()
    assert in_table(out) == ["vertical", "block", "", ""]


def test_a_table_edited_between_two_sessions_stays_as_edited(out, opened):
    session = opened()
    session.label(0, "vertical", 0, "a")
    session.label(1, "block", 0, "a")
    session.close()
    write_labels(out, [Label(MAPS[0], "diagonal"), *(Label(name, "") for name in MAPS[1:])])
    session = opened()
    assert [label for label, _ in labels(session)] == ["diagonal", "", "", ""]
    assert session.replayed == 0
    with pytest.raises(Conflict):
        session.undo("a")


def test_a_second_writer_is_refused(out, opened):
    first = opened()
    with pytest.raises(InputError, match=r"labels\.csv: is being labelled by another server") as caught:
        opened()
    assert str(caught.value).count(". ") == 0
    first.label(0, "vertical", 0, "a")
    first.close()
    assert labels(opened())[0] == ("vertical", 1)
    with pytest.raises(InputError, match="has ended"):
        first.label(1, "vertical", 0, "a")


def test_a_label_on_another_version_is_refused(out, opened):
    session = opened()
    session.label(0, "vertical", 0, "a")
    with pytest.raises(Conflict) as caught:
        session.label(0, "block", 0, "b")
    assert caught.value.number == 0
    session.label(0, "block", 1, "b")
    with pytest.raises(Conflict, match="since"):
        session.undo("a")  # its last label is no longer the one that stands
    assert labels(session)[0] == ("block", 2)
    assert session.undo("b") == 0
    assert session.undo("a") == 0
    assert labels(session)[0] == ("", 4)
    for number, label in ((4, "block"), (-1, "block"), (0, "horizontal")):
        with pytest.raises(ValueError, match="expected a map"):
            session.label(number, label, 0, "a")


def test_the_second_pass_goes_on_with_its_list_and_hides_the_first(out, opened):
    first = [Label(name, label) for name, label in zip(MAPS, ("vertical", "block", "block", "diagonal"), strict=True)]
    session = opened(2, first)
    assert [label for label, _ in session.state()["labels"]] == ["", "", "", ""]
    assert session.agreement() == {"maps": 0, "percent": None, "kappa": None}
    for number, label in ((0, "vertical"), (1, "block"), (2, "diagonal")):
        session.label(number, label, 0, "a")
    # Both say the same of 2 in 3; by chance (1·1 + 2·1 + 0·1) / 9 = 1/3, so kappa is (2/3 - 1/3) / (1 - 1/3).
    assert session.agreement() == {"maps": 3, "percent": pytest.approx(200 / 3), "kappa": pytest.approx(0.5)}
    session.close()
    assert in_table(out, 1) == ["vertical", "block", "block", "diagonal"]
    assert in_table(out, 2) == ["vertical", "block", "diagonal", ""]
    assert opened(2).maps == MAPS


def test_mixed_order_is_the_same_each_time_and_another_in_the_second_pass(out):
    rows = [Label(MapName("m", "0" * 64, "rte", "val", number, 1, 1), "") for number in range(40)]
    orders = []
    for passed in (1, 1, 2):
        session = LabelSession(rows, out, passed, mixed=True)
        session.close()
        orders.append(session.maps)
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in (orders[0], orders[2], [row.map for row in rows])}) == 3
    assert all(sorted(order) == [row.map for row in rows] for order in orders)
    assert [row.map for row in read_labels(out) if row.passed == 1] == [row.map for row in rows]


def test_a_table_is_shown_blank_and_keeps_the_first_pass_for_the_second(tmp_path, out):
    table = tmp_path / "table.csv"
    write_labels(table, [Label(MAPS[0], "block"), Label(MAPS[1], "vertical"), Label(MAPS[0], "diagonal", 2)])
    assert [row.label for row in starting_rows(table, out, 1)] == ["", "", ""]
    assert [row.label for row in starting_rows(table, out, 2)] == ["block", "vertical", ""]
    write_labels(out, [Label(MAPS[1], "block"), Label(MAPS[0], "")])
    assert [row.label for row in starting_rows(table, out, 1)] == ["block", ""]
    write_labels(out, BLANK)
    with pytest.raises(InputError, match=r"lists other maps than .*table\.csv"):
        starting_rows(table, out, 1)


def test_agreement_equals_scikit_learn():
    random = np.random.default_rng(3)
    for count in (5, 40, 200):
        first = random.choice(CLASSES, count).tolist()
        second = [old if random.random() < 0.6 else random.choice(CLASSES[:3]).item() for old in first]
        found = agreement(list(zip(first, second, strict=True)))
        assert found["kappa"] == pytest.approx(cohen_kappa_score(first, second), abs=1e-12)
        assert found["percent"] == pytest.approx(100 * np.mean(np.array(first) == np.array(second)))
    assert agreement([("block", "block")] * 3) == {"maps": 3, "percent": 100.0, "kappa": None}


def test_every_class_is_defined():
    assert tuple(DEFINITIONS) == CLASSES


def test_the_packaged_maps_are_shown_blank_and_need_no_encoder(out):
    rows, packaged = starting_rows(None, out, 2), [row.map for row in read_votes(PACKAGED)]
    assert [row.map for row in rows] == packaged * 2
    assert {(row.label, row.passed) for row in rows} == {("", 1), ("", 2)}
    assert are_stored(rows)
    assert not are_stored([*rows, *BLANK])


def test_encoders_come_from_yaml_and_from_the_command_line(tmp_path):
    file = tmp_path / "encoders.yaml"
    file.write_text("encoders:\n  a: {_target_: x, name: here, change: there, seed: '${seed}'}\n  b: {name: hub/id}\n")
    assert encoder_options(file, ["b=folder", "c+d=x=y"]) == {
        "a": {"name": "here", "change": "there"}, "b": {"name": "folder"}, "c+d": {"name": "x=y"},
    }  # fmt: skip
    with pytest.raises(InputError, match="expected NAME=PATH"):
        encoder_options(file, ["folder"])
    for text in ("a: 1\n", "encoders: [\n", "encoders: 3\n", "- 1\n"):
        file.write_text(text)
        with pytest.raises(InputError, match="expected YAML"):
            encoder_options(file, [])
