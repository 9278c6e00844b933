"""Processes that hear of each other, in one process: the store is real, time is short."""

import threading
import time

import pytest
import torch.distributed as distributed

from headscope.runs import heartbeat
from headscope.runs.heartbeat import ENDED, Heartbeat

SILENCE = 0.2  # seconds


def test_a_process_that_stops_counting_is_lost_and_one_that_ended_is_not():
    store = distributed.HashStore()
    first = Heartbeat(store, 0, 4, SILENCE)
    store.set("1", "1")
    store.set("2", "1")
    assert first.silent() == []
    time.sleep(0.6 * SILENCE)
    store.set("1", "2")
    store.set("3", ENDED)
    assert first.silent() == []
    time.sleep(0.6 * SILENCE)
    assert first.silent() == [2]  # 3 is through, 1 has counted
    time.sleep(SILENCE)
    assert first.silent() == [1, 2]


def test_the_others_end_with_a_sentence(monkeypatch, capfd):
    ended = threading.Event()

    def end(status):
        assert status == 1
        ended.set()
        raise SystemExit  # the thread, here

    monkeypatch.setattr(heartbeat.os, "_exit", end)
    Heartbeat(distributed.HashStore(), 0, 2, SILENCE, SILENCE / 10).start()
    assert ended.wait(10)
    said = capfd.readouterr().err
    assert said.startswith("process 1 of the run could not be heard of for 0 s: its machine or the network is lost")
    assert "resume=true with the same run_dir goes on" in said


def test_who_loses_the_store_has_lost_the_first_process(monkeypatch):
    lost = []

    class Gone:
        def set(self, *_):
            raise ConnectionError("broken pipe")

    def end(who, silence):
        lost.append(who)
        raise SystemExit

    monkeypatch.setattr(heartbeat, "end_run", end)
    with pytest.raises(SystemExit):
        Heartbeat(Gone(), 1, 2, SILENCE, SILENCE / 10)._watch()
    assert lost == [[0]]
    Heartbeat(Gone(), 1, 2).end()  # at the end of a run that is not an error


def test_a_store_that_never_answers_is_lost_too(monkeypatch):
    """As one does whose machine is cut off: no connection is closed, and a question waits for its answer."""
    lost = threading.Event()

    class Cut(distributed.HashStore):
        def check(self, _):
            threading.Event().wait()

    def end(who, _):
        assert who == [0]
        lost.set()
        raise SystemExit

    monkeypatch.setattr(heartbeat, "end_run", end)
    Heartbeat(Cut(), 1, 2, SILENCE, SILENCE / 10).start()
    assert lost.wait(10)


def test_a_process_that_is_through_counts_no_more():
    store = distributed.HashStore()
    first = Heartbeat(store, 0, 2, 60, 0.01)
    first.start()
    while not store.check(["0"]):
        time.sleep(0.01)
    first.end()
    time.sleep(0.1)
    assert store.get("0") == ENDED.encode()
