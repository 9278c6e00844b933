"""The modules of the atlas page: joined into one script, tested by node, and a page also as they lie on disk."""

import re
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from headscope.reports.atlas.html import DATA, PAGE, SCRIPT, atlas_html, embedded
from headscope.reports.atlas.modules import joined, read_module

from tests.javascript import node
from tests.reports.atlas_data import make_atlas

TESTS = sorted((Path(__file__).parent / "page").glob("*.test.mjs"))
KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}


@pytest.fixture
def folder(tmp_path):
    """Writes modules into a folder and gives the first."""

    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.js").write_text(text, encoding="utf-8")
        return tmp_path / f"{next(iter(texts))}.js"

    return write


def run(program, script):
    return subprocess.run([program, "-e", script], capture_output=True, text=True, check=False)


@pytest.fixture
def program():
    found = node()
    if found is None:
        pytest.skip("there is no node")
    return found


def test_functions_of_the_page_give_what_was_computed_by_hand(program):
    done = subprocess.run([program, "--test", *map(str, TESTS)], capture_output=True, text=True, check=False)
    assert TESTS and done.returncode == 0, done.stdout + done.stderr


def test_joined_modules_run_once_each_and_after_what_they_import(folder, program):
    entry = folder(
        main='// First\nimport { one } from "./a.js";\nimport {\n  add,\n  said,\n  two,\n} from "./b.js";\n\n'
        'add("main", one + two);\nconsole.log(said.length, said.join());\n',
        a='import { add } from "./b.js";\nexport const one = 1;\nadd("a", `\n  import nothing\n`.trim());\n',
        b="export let said = [];\nexport const two = 2;\n"
        "export function add(...what) {\n  said = [...said, what.join(' ')];\n}\nadd(\"b\");\nclass Own {}\nlet late;\n",
        unused="export const one = 3;\n",
    )
    done = run(program, joined(entry) + "console.log(typeof add, typeof Own, typeof one);")
    assert (done.stdout, done.stderr) == ("3 b,a import nothing,main 3\nundefined undefined undefined\n", "")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            {"a": 'import { x } from "./b.js";\nconst y = x;\n', "b": "export const x = 1;\nfunction y() {}\n"},
            "y is declared in b.js and in a.js.",
        ),
        (
            {"a": 'import { x } from "./b.js";\nfunction x() {}\n', "b": "export function x() {}\n"},
            "x is declared in b.js and in a.js.",
        ),
        (
            {"a": 'import { x, z } from "./b.js";\n', "b": "export const x = 1;\nconst z = 1;\n"},
            "a.js imports z from b.js, which does not export that.",
        ),
        (
            {
                "a": 'import { b } from "./b.js";\n',
                "b": 'import { c } from "./c.js";\nexport const b = 1;\n',
                "c": 'import { b } from "./b.js";\nexport const c = 1;\n',
            },
            "a.js imports b.js imports c.js imports b.js: modules may not import each other in a circle.",
        ),
        ({"a": 'const x = "</SCRIPT>";\n'}, "a.js:1: </SCRIPT would end the script or hide its end."),
    ],
)
def test_what_cannot_share_a_scope_is_an_error(folder, texts, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        joined(folder(**texts))


@pytest.mark.parametrize(
    "line",
    [
        'import x from "./b.js";',
        'import * as x from "./b.js";',
        'import { x as y } from "./b.js";',
        'import { x } from "b";',
        'import { x } from "../b.js";',
        "import { x } from './b.js';",
        'import { x } from "./b.js"',
        'import "./b.js";',
        'export { x } from "./b.js";',
        'export * from "./b.js";',
        "export { x };",
        "export default x;",
        "export default function x() {}",
        "export const { x } = y;",
        "const [x, y] = z;",
        "let x, y;",
        "let x = 1,",
        "var x = 1;",
        "function* x() {}",
    ],
)
def test_what_is_not_understood_is_refused_with_its_line(folder, line):
    with pytest.raises(ValueError, match=re.escape(f"a.js:3: “{line}” cannot be joined with other modules.")):
        read_module(folder(a=f"// A comment\n\n{line}\n"))


def test_the_page_holds_every_module_of_its_folder():
    page = (PAGE / "page.html").read_text(encoding="utf-8")
    inside = {name for entry in SCRIPT.findall(page) for name in re.findall(r"^// (\w+\.js)$", joined(PAGE / entry), re.M)}
    assert inside == {file.name for file in PAGE.glob("*.js")}
    scripts = re.findall(r"<script>(.*?)</script>", atlas_html(make_atlas(2, 2)), re.S)
    assert len(scripts) == len(SCRIPT.findall(page)) == 2
    assert not re.search(r"^(import|export)\b", "".join(scripts), re.M)


def test_the_modules_are_a_page_also_where_they_are_not_joined(browser_page):
    """What one module uses of another it imports: joined, a name that it forgot would be found all the same."""
    page = (PAGE / "page.html").read_text(encoding="utf-8").replace(DATA, embedded(make_atlas(2, 3, models=2)))

    def answer(route):
        name = urlsplit(route.request.url).path.strip("/")
        file = PAGE / name
        known = file.suffix in KINDS and file.is_file()
        body = page if name == "page.html" else file.read_text(encoding="utf-8") if known else ""
        route.fulfill(status=200 if known else 204, content_type=KINDS.get(file.suffix, "text/plain"), body=body)

    browser_page.route("http://localhost/**", answer)
    browser_page.goto("http://localhost/page.html#head=1-2")
    browser_page.wait_for_selector("html[data-ready]")
    for view in browser_page.locator("nav [data-view]").all():
        view.click()
        assert browser_page.locator("main > section:visible .card").count() > 0
    browser_page.click("#theme")
    browser_page.click("#csv-sources")
