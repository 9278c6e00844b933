"""Who may ask the server, how much, and that nobody waits for ever."""

import http.client
import json
import threading

import pytest

from headscope.live.server import LONGEST_REQUEST, LONGEST_TEXT
from tests.live.test_models import maps_of

ASKED = {"model": 1, "texts": ["The cat sat."], "disabled": [], "how": "uniform"}


def ask(server, body=ASKED, path="/live", method="POST", **headers):
    """A request as no browser would send it: headers stay as they are."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    known = {"Host": f"127.0.0.1:{server.server_port}", "X-Token": server.token, "Content-Type": "application/json"}
    for name, value in (known | {"Content-Length": str(len(content))} | headers).items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders(content)
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def asked(server, **changes):
    status, content, _ = ask(server, ASKED | changes)
    return status, json.loads(content)


def test_the_page_and_an_answer(served):
    status, page, headers = ask(served, b"", f"/?token={served.token}", "GET", **{"X-Token": None})
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    assert b"connect-src 'self'" in page and b'"live"' in page
    status, answer = asked(served)
    assert status == 200 and answer["sentence"]["tokens"][1:3] == ["the", "cat"]
    assert answer == served.models[1].answer(["The cat sat."])


def test_foreign_hosts_origins_and_readers_without_the_token_are_refused(served):
    elsewhere = f"http://127.0.0.1:{served.server_port + 1}"
    for headers in ({"Host": "evil.example"}, {"Host": f"evil.example:{served.server_port}"}, {"Host": None},
                    {"X-Token": None}, {"X-Token": "é"}, {"Origin": "http://evil.example"}, {"Origin": "null"},
                    {"Origin": elsewhere}):  # fmt: skip
        status, content, _ = ask(served, **headers)
        assert status == 403 and json.loads(content)["error"].endswith("."), headers
    assert ask(served, Origin=f"http://localhost:{served.server_port}")[0] == 200
    assert ask(served, b"", "/", "GET", **{"X-Token": None})[0] == 403
    for path in ("/atlas.json", "/../pyproject.toml", "/live", "/./"):
        assert ask(served, b"", path, "GET")[0] in (403, 404)
    assert served.socket.getsockname()[0] == "127.0.0.1"


def test_input_is_bounded(served):
    status, answer = asked(served, texts=["x" * 1_000_000])
    assert status == 413 and "shorten the text" in answer["error"]
    assert asked(served, texts=["x" * (LONGEST_TEXT + 1)])[0] == 413
    status, answer = asked(served, texts=["word " * 200])
    assert status == 413 and "200" in answer["error"].replace("202", "200") and "up to 128" in answer["error"]
    assert ask(served, b"{}", **{"Content-Length": "9" * 5000})[0] == 413
    assert ask(served, b"{}", **{"Content-Length": "-1"})[0] == 413
    assert LONGEST_TEXT < LONGEST_REQUEST
    assert asked(served)[0] == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": 2}, {"model": True}, {"model": "0"}, {"texts": []}, {"texts": "a"}, {"texts": ["a", "b", "c"]},
        {"texts": [" "]}, {"texts": [3]}, {"texts": ["\ud800"]}, {"how": "resample"}, {"how": None}, {"disabled": None},
        {"disabled": [[0, 1]]}, {"disabled": [[4, 1]]}, {"disabled": [[1, 5]]}, {"disabled": [[1]]},
        {"disabled": [[1, True]]},
    ],
)  # fmt: skip
def test_what_makes_no_sense_gets_a_sentence(served, wrong):
    status, answer = asked(served, **wrong)
    assert status == 400 and answer["error"].startswith("Expected ")


def test_two_clients_at_once_get_their_own_answers(served):
    wanted = {"one": [], "other": [[2, 1], [3, 4]]}
    found = {}

    def client(name):
        found[name] = [asked(served, disabled=wanted[name], texts=[f"The {name} sat."]) for _ in range(4)]

    threads = [threading.Thread(target=client, args=(name,)) for name in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for name, heads in wanted.items():
        expected = served.models[1].answer([f"The {name} sat."], heads)
        assert found[name] == [(200, expected)] * 4
        uniform = maps_of(expected)[1, 0].max() - maps_of(expected)[1, 0].min() < 0.01
        assert uniform == bool(heads)


def test_who_waits_too_long_is_told(served, monkeypatch):
    monkeypatch.setattr("headscope.live.server.PATIENCE", 0.05)
    with served.computing:
        status, answer = asked(served)
    assert status == 503 and "try again" in answer["error"]
    assert asked(served)[0] == 200


def test_a_model_that_is_not_there_and_a_defect_are_answered(served, monkeypatch, capsys):
    monkeypatch.setattr(served, "models", ["tiny: no model there.", served.models[1]])
    assert asked(served, model=0) == (409, {"error": "tiny: no model there."})
    monkeypatch.setattr(served.models[1], "prediction", lambda *_: 1 / 0)
    status, answer = asked(served)
    assert status == 500 and "defect" in answer["error"]
    assert "ZeroDivisionError" in capsys.readouterr().err
