"""The labelling page in a real browser, and what its server refuses."""

import base64
import http.client
import json
import re
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from headscope.data_modules.patterns.labels import CLASSES, Label, MapName, label_pairs, read_labels, write_labels
from headscope.data_modules.patterns.maps import pattern_maps
from headscope.data_modules.patterns.stored import write_maps
from headscope.data_modules.patterns.votes import VotedMap, write_votes
from headscope.tools.label.__main__ import main
from headscope.tools.label.maps import MapSource
from headscope.tools.label.server import FILES, LabelServer
from headscope.tools.label.session import LabelSession, journal_file
from headscope.tools.label.stored import StoredMaps
from tests.commands import Command

LISTED = 12


@pytest.fixture
def tiny(random_encoder):
    return {"tiny": random_encoder("bert")}


@pytest.fixture
def names(tiny):
    """Maps of all heads of a tiny encoder, each on another input."""
    sha256 = tiny["tiny"].checksum()
    return [MapName("tiny", sha256, "mrpc", "val", n, 1 + n % 3, 1 + n % 4) for n in range(LISTED)]


@pytest.fixture
def served(tiny, tmp_path):
    """Serves rows in this process; the server, which is asked for its session and address."""
    servers = []

    def serve(rows, passed=1, maps=lambda names: MapSource(names, tiny)):
        session = LabelSession(rows, tmp_path / "labels.csv", passed)
        server = LabelServer(session, maps(session.maps))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()
        server.session.close()


@pytest.fixture
def server(served, names):
    return served([Label(name, "") for name in names])


def open_page(page, address):
    page.goto(address)
    shown(page, 1)
    return page


def shown(page, number):
    page.wait_for_selector(f'body[data-shown="{number}"]')


def says(page, place, text):
    page.locator(f"#{place}", has_text=text).wait_for()


def press(page, key, then):
    """Press a key and wait for the map that comes then."""
    page.keyboard.press(key)
    shown(page, then)


def start_server(folder, *arguments):
    """The real program in a process of its own, and the address that it prints."""
    command = ["-m", "headscope.tools.label", "--in-order", "--out", str(folder / "labels.csv"), *arguments]
    process = Command(*command, stderr=subprocess.STDOUT)
    said = []
    for line in process.stdout:
        said.append(line)
        if address := re.search(r"http://\S+", line):
            return process, address[0], "".join(said)
    raise AssertionError("".join(said))


@pytest.fixture
def stored(served, tmp_path):
    """A server of stored maps, which no encoder computes, and their names."""
    random = np.random.default_rng(0)
    maps = [random.dirichlet(np.ones(6), size=6).astype(np.float32) for _ in range(3)]
    kinds = [np.array([1, 0, 3, 2, 0, 2], dtype=np.int8)] * 3
    sums = write_maps(tmp_path / "maps.safetensors", maps, kinds, [np.array([-1, 0, 0, -1, 1, -1], dtype=np.int8)] * 3)
    named = [MapName("mpnet", "abc", "wikitext", "test", n, 1, 1) for n in range(3)]
    votes = ("block", "block", "diagonal")
    rows = [VotedMap(one, "random", votes, "block", sha) for one, sha in zip(named, sums, strict=True)]
    write_votes(tmp_path / "votes.csv", rows)
    return served(
        [Label(one, "") for one in named],
        maps=lambda names: StoredMaps(names, tmp_path / "votes.csv", tmp_path / "maps.safetensors"),
    ), maps


def asked(server, path):
    request = urllib.request.Request(f"http://127.0.0.1:{server.server_port}{path}", headers={"X-Token": server.token})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_stored_maps_are_shown_without_an_encoder_and_votes_only_after_labelling(stored):
    server, maps = stored
    status, found = asked(server, "/map?number=1")
    assert (status, found["tokens"], found["special"][3]) == (200, ["[CLS]", "·", ".", "[SEP]", "·", "[SEP]"], True)
    weights = np.frombuffer(base64.b64decode(found["weights"]), "<f4").reshape(6, 6)
    np.testing.assert_allclose(weights, maps[1], atol=0.006)
    assert asked(server, "/votes?number=1") == (403, {"error": "Label this map first; then its votes are shown."})
    server.session.label(1, "block", 0, "tab")
    assert asked(server, "/votes?number=1") == (200, {"votes": ["block", "block", "diagonal"]})
    assert asked(server, "/votes?number=9")[0] == 404
    assert asked(server, "/rubric")[1]["text"].startswith("# Rubric")


def test_labels_by_key_survive_a_kill(browser_page, tiny, tmp_path):
    where = ["--encoder", f"tiny={tiny['tiny'].folder}"]
    process, address, _ = start_server(tmp_path, *where, "--draw", str(LISTED), "--tasks", "mrpc,sst2")
    out = tmp_path / "labels.csv"
    try:
        blank = out.read_bytes()
        page = open_page(browser_page, address)
        given = [CLASSES[n % 5] for n in range(10)]
        for number, name in enumerate(given):
            press(page, str(CLASSES.index(name) + 1), number + 2)
        press(page, "u", 10)
        says(page, "progress", "9 of 12 labelled, ")
        says(page, "progress", " maps per minute")
    finally:
        process.kill()
        process.wait()
    assert [row.label for row in read_labels(out)] == [*given[:9], "", "", ""]
    out.write_bytes(blank)  # as if the table had not been written since the start
    page.goto("about:blank")
    process, address, said = start_server(tmp_path, *where)
    try:
        assert "9 of 12 maps are labelled (11 actions come from the journal)." in said
        page.goto(address)
        shown(page, 10)  # the first without a label
        press(page, "4", 11)
        page.keyboard.press("e")
        says(page, "message", "10 labels are in")
    finally:
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=30)[0]
    assert (process.returncode, rest.strip()) == (130, f"10 of 12 maps are labelled: {out}")
    rows = read_labels(out)
    assert [row.label for row in rows] == [*given[:9], "block", "", ""]
    assert {row.map.task for row in rows} == {"mrpc", "sst2"}


def test_two_tabs_do_not_overwrite_each_other(browser_page, server):
    one = open_page(browser_page, server.address)
    other = one.context.new_page()
    last = json.dumps({"sequence": 0})
    other.route("**/state?since=*", lambda route: route.fulfill(body=last, content_type="application/json"))  # looks away
    open_page(other, server.address)
    press(one, "1", 2)
    other.keyboard.press("4")
    says(other, "message", "It is now: vertical")
    assert server.session.label_of(0) == ("vertical", 1)
    assert other.get_attribute('#classes button[data-name="vertical"]', "aria-pressed") == "true"
    press(other, "4", 2)  # now that the other label was seen, it may be replaced
    assert server.session.label_of(0) == ("block", 2)
    press(other, "2", 3)
    says(one, "progress", "2 of 12")  # without a key
    press(other, "u", 2)
    says(one, "progress", "1 of 12")
    assert [server.session.label_of(number)[0] for number in range(4)] == ["block", "", "", ""]


def test_keys_and_buttons_go_through_the_maps(browser_page, server):
    page = open_page(browser_page, server.address)
    press(page, "s", 2)
    press(page, "ArrowRight", 3)
    press(page, "ArrowLeft", 2)
    page.click("#next")
    shown(page, 3)
    page.click("#previous")
    shown(page, 2)
    press(page, "n", 3)
    press(page, "p", 2)
    page.keyboard.press("g")
    page.keyboard.type("12")
    page.keyboard.press("Enter")
    shown(page, 12)
    page.get_by_role("button", name="block").click()
    shown(page, 1)  # from the start again
    page.get_by_role("button", name="vertical + diagonal").focus()
    press(page, "Enter", 2)
    page.get_by_role("button", name="Undo").click()
    shown(page, 1)
    press(page, "5", 2)
    press(page, "ArrowLeft", 1)
    page.keyboard.press("x")
    says(page, "progress", "1 of 12")
    page.keyboard.press("Control+3")  # of the browser, not of the page
    assert [server.session.label_of(number)[0] for number in range(12)] == [""] * 11 + ["block"]
    assert page.get_attribute("#bar", "value") == "1"
    assert page.evaluate(
        "[...document.querySelectorAll('button, input')].every((one) => one.labels.length || one.innerText)"
    )


def test_a_map_that_cannot_be_computed_is_told_and_not_labelled(browser_page, served, names):
    rows = [Label(replace(name, head=99) if place == 2 else name, "") for place, name in enumerate(names)]
    server = served(rows)
    page = browser_page.context.new_page()  # not watched: a browser takes the server's answer for an error of the page
    open_page(page, server.address)
    press(page, "1", 2)
    press(page, "2", 3)
    says(page, "message", "has no head 3-99")
    page.keyboard.press("3")
    says(page, "message", "There is no map to label.")
    press(page, "ArrowRight", 4)
    press(page, "4", 5)
    assert [server.session.label_of(number)[0] for number in range(4)] == ["vertical", "diagonal", "", "block"]


def test_zoom_and_readout(browser_page, server, names, tiny):
    found = next(pattern_maps(names[:1], tiny))
    page = open_page(browser_page, server.address)

    def zoom():
        return float(page.get_attribute("#heat", "data-zoom"))

    def expected(i, j):
        return f"from {found.tokens[i]} ({i + 1}) to {found.tokens[j]} ({j + 1}): {found.weights[i, j].item():.4f}"

    page.focus("#heat")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown"):
        page.keyboard.press(f"Shift+{key}")
    assert page.inner_text("#readout") == expected(2, 1)
    box = page.locator("#heat").bounding_box()
    middle = (box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.6)
    page.mouse.move(*middle)
    pointed = page.inner_text("#readout")
    place = re.search(r"\((\d+)\) to .*\((\d+)\):", pointed)
    assert pointed == expected(int(place[1]) - 1, int(place[2]) - 1)
    whole = page.screenshot()
    page.keyboard.press("+")
    page.keyboard.press("+")
    assert zoom() == pytest.approx(2.25)
    page.keyboard.press("-")
    assert zoom() == pytest.approx(1.5)
    page.mouse.wheel(0, -100)
    page.wait_for_selector('#heat[data-zoom="1.88"]')
    assert page.inner_text("#readout").startswith("from ")
    assert page.screenshot() != whole
    page.get_by_role("button", name="fit").click()
    assert zoom() == 1
    page.mouse.move(*middle)
    assert page.inner_text("#readout") == pointed
    bright = "() => { const pen = heat.getContext('2d'); const all = pen.getImageData(0, 0, heat.width, heat.height).data;"
    bright += " return all.reduce((sum, part) => sum + part, 0); }"
    square_root = page.evaluate(bright)
    page.keyboard.press("i")
    assert page.get_attribute("#intensity", "aria-pressed") == "false"
    assert page.evaluate(bright) > square_root  # on white, less colour


def test_the_second_pass_is_independent_and_its_agreement_right(browser_page, served, names):
    first = [name for name, _ in zip(cycle(CLASSES[:4]), names, strict=False)]
    server = served([Label(name, label) for name, label in zip(names, first, strict=True)], passed=2)
    page = open_page(browser_page, server.address)
    received = []
    page.on("response", lambda response: received.append(response.url))
    assert page.locator('#classes button[aria-pressed="true"]').count() == 0
    second = ["vertical", "diagonal", "block", "block", "vertical", "heterogeneous"]
    for number, name in enumerate(second):
        press(page, str(CLASSES.index(name) + 1), number + 2)
    assert not any("agreement" in url for url in received)
    assert "pass 1 is hidden" in page.inner_text("#pass")
    page.get_by_text("Agreement with the other pass").click()
    kappa = cohen_kappa_score(first[:6], second)
    says(page, "agreed", f"6 maps labelled in both passes: 66.7 % equal, Cohen's kappa {kappa:.3f}")
    rows = read_labels(server.session.out)
    assert label_pairs(rows) == list(zip(first, second, strict=False))
    assert [row.label for row in rows if row.passed == 1] == first


def ask(server, path, method="GET", body=None, **headers):
    """A request as no browser would send it: path and headers stay as they are."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    headers = {"Host": f"127.0.0.1:{server.server_port}", "X-Token": server.token} | headers
    content = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
    for name, value in (headers | {"Content-Length": str(len(content)), "Content-Type": "application/json"}).items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders(content)
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def test_nothing_but_the_listed_addresses_is_served(server):
    outside = (
        "/../pyproject.toml", "/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/etc/passwd",
        "/page.html", "/server.py", "/labels.csv", "/labels.csv.journal", "/.", "/page.js/", "/page.js/../server.py",
        "/page.js%00.html", "\\..\\server.py", "/map/../state", "/samples/", f"http://127.0.0.1:{server.server_port}/state",
        "/label", "*",
    )  # fmt: skip
    for path in outside:
        status, content, _ = ask(server, path)
        assert (status, content) == (404, b'{"error": "There is nothing here."}'), path
    for path in FILES:
        status, _, headers = ask(server, path)
        assert status == 200
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
    for number in ("12", "-1", "", "0x1", "1e9", "../1", "%C2%B2", "99999999999999999999"):
        assert ask(server, f"/map?number={number}")[0] == 404
    assert ask(server, "/state", "PUT")[0] == 501
    assert server.socket.getsockname()[0] == "127.0.0.1"


def test_other_sites_and_other_people_cannot_label(server):
    label = {"number": 0, "label": "block", "version": 0, "tab": "t"}
    elsewhere = f"http://127.0.0.1:{server.server_port + 1}"
    for headers in ({"Host": "evil.example"}, {"Host": f"evil.example:{server.server_port}"}, {"Host": None},
                    {"X-Token": None}, {"X-Token": "é"}, {"Origin": "http://evil.example"}, {"Origin": "null"},
                    {"Origin": elsewhere}):  # fmt: skip
        assert ask(server, "/label", "POST", label, **headers)[0] == 403, headers
    for path in ("/", "/state", "/map?number=0", "/agreement", "/state?token=wrong"):
        assert ask(server, path, **{"X-Token": None})[0] == 403
    for body in (
        {},
        [],
        3,
        {**label, "number": 12},
        {**label, "number": True},
        {**label, "label": "x"},
        {**label, "tab": ""},
    ):
        assert ask(server, "/label", "POST", body)[0] == 400, body
    for text in (b"", b"{", b"\xff", b"[" * 9_000):
        assert ask(server, "/label", "POST", text)[:2] == (400, b'{"error": "Expected JSON."}')
    assert ask(server, "/label", "POST", {"label": "x" * 20_000})[0] == 413
    assert server.session.sequence == 0
    assert ask(server, "/label", "POST", label, Origin=f"http://localhost:{server.server_port}")[0] == 200
    assert server.session.label_of(0) == ("block", 1)


def test_mistakes_are_told_in_one_sentence(tmp_path, names, tiny, served, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table, out = tmp_path / "table.csv", tmp_path / "mine.csv"
    where = ["--out", str(out), "--encoder", f"tiny={tiny['tiny'].folder}"]
    write_labels(table, [Label(name, "") for name in names])
    good = table.read_text()

    def mistake(*arguments):
        assert main([str(argument) for argument in arguments]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert re.fullmatch(r"error: [^\n]+[.?]\n", said.err)
        assert not out.exists()
        return said.err

    assert "none.csv: cannot be read" in mistake(tmp_path / "none.csv")
    for text, expected in (
        (good.replace("1,1,,1", "1,1,zigzag,1", 1), "expected a label of vertical"),
        (good.splitlines()[0] + "\n", "empty table"),
        ("a,b\n1,2\n", "expected the columns"),
    ):
        table.write_text(text)
        assert expected in mistake(table, *where)
    table.write_text(good.replace(names[0].sha256, "f" * 64))
    assert "is for another encoder" in mistake(table, *where)
    table.write_text(good)
    assert "--encoder tiny=PATH" in mistake(table, "--out", out, "--encoder", "other=x")
    assert "no model there" in mistake(table, "--out", out, "--encoder", "tiny=/no/such/folder")
    assert "has no example 36" in mistake_of_example(table, good, mistake, where)
    table.write_text(good)
    server = served([Label(name, "") for name in names])
    assert "is being labelled by another server" in mistake(table, "--out", server.session.out, *where[2:])
    assert "is there already" in mistake("--draw", 5, "--out", server.session.out, *where[2:])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main([str(table), *where, "--port", str(port)]) == 1
    assert f"port {port} is in use" in capsys.readouterr().err
    assert journal_file(out).read_bytes() == b""
    with pytest.raises(SystemExit, match="2"):
        main(["--port", "70000"])


def mistake_of_example(table, good, mistake, where):
    """A table that names an input which the packaged sample does not have."""
    table.write_text(good.replace("mrpc,val,0,", "mrpc,val,36,"))
    return mistake(table, *where)
