"""Articles: titles, sections and paragraphs of WikiText and of plain text, and what cannot be read."""

import pytest

from headscope.data_modules.readers.articles import Article, is_title, read_articles, text_files
from headscope.errors import InputError

WIKI = """\

 = Tea =\x20

 Tea is a well @-@ known drink of 1 @,@ 000 kinds , 3 @.@ 5 of them green .\x20
 = = History = =\x20
 It came from China .\x20
 = = = Trade = = =\x20

 = Coffee =\x20

 Coffee is black .\x20
"""


@pytest.fixture
def read(tmp_path):
    """Writes text or bytes to t.txt and reads it."""

    def write_and_read(content):
        file = tmp_path / "t.txt"
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_articles(file)

    return write_and_read


def paragraphs(articles):
    return [article.paragraphs for article in articles]


def test_wikitext_by_hand(read):
    assert read(WIKI) == [
        Article("Tea", ["Tea is a well-known drink of 1,000 kinds , 3.5 of them green .", "It came from China ."]),
        Article("Coffee", ["Coffee is black ."]),
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (" = Tea = ", True),
        ("= Tea =", True),
        (" = E = mc2 = ", True),
        (" = = History = = ", False),
        (" = = = Trade = = = ", False),
        ("= Tea", False),
        ("a = b =", False),
        (" = = ", False),
        ("", False),
    ],
)
def test_only_one_sign_on_each_side_makes_a_title(line, expected):
    assert is_title(line) is expected


def test_a_title_keeps_its_own_signs(read):
    assert [article.title for article in read(" = E = mc2 = \nText .\n")] == ["E = mc2"]


def test_text_before_the_first_title_is_an_article_without_title(read):
    assert read("Before .\n = Tea = \nAfter .\n") == [Article("", ["Before ."]), Article("Tea", ["After ."])]


def test_joined_signs_that_follow_each_other(read):
    assert paragraphs(read(" = T = \n state @-@ of @-@ the @-@ art 1 @,@ 000 @,@ 000\n")) == [["state-of-the-art 1,000,000"]]


def test_plain_text_has_paragraphs_between_blank_lines(read):
    text = "One line\nand its second.\n\n  \n\nTwo.\n\nThree\tand   four.\n"
    assert read(text) == [Article("t", ["One line and its second.", "Two.", "Three and four."])]


def test_plain_text_without_blank_lines_has_a_paragraph_a_line(read):
    assert paragraphs(read("One.\nTwo.\nThree.")) == [["One.", "Two.", "Three."]]


@pytest.mark.parametrize("text", ["\n\nOne.\nTwo.\n\n\n", "One.\nTwo.\n \n"])
def test_blank_lines_around_the_text_separate_nothing(read, text):
    assert paragraphs(read(text)) == [["One.", "Two."]]


@pytest.mark.parametrize("text", [WIKI, "One.\nTwo.\n", "One\nline.\n\nTwo.\n"])
def test_byte_order_mark_and_crlf_change_nothing(read, text):
    assert read(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()) == read(text)


@pytest.mark.parametrize("separator", ["\u2028", "\x85", "\x0c"])
def test_only_a_newline_ends_a_paragraph_of_wikitext(read, separator):
    assert [len(article.paragraphs) for article in read(f" = T = \nOne{separator}and more .\nTwo .\n")] == [2]


def test_an_article_without_text_is_treated_alike_anywhere(read):
    at_the_end = [article.title for article in read(" = Tea = \nText .\n = Empty = \n")]
    before = [article.title for article in read(" = Empty = \n = Tea = \nText .\n")]
    assert sorted(before) == sorted(at_the_end)


def one_sentence(caught, name):
    """The message behind the file's name: one line that ends in a point."""
    message = str(caught.value)
    assert message.startswith(f"{name}: ")
    assert message.endswith(".")
    assert "\n" not in message
    return message.removeprefix(f"{name}: ")


@pytest.mark.parametrize("content", [b"", b"\n \n\t\n", b"\xef\xbb\xbf", b"\r\n"])
def test_an_empty_file_is_named(read, tmp_path, content):
    with pytest.raises(InputError) as caught:
        read(content)
    assert one_sentence(caught, tmp_path / "t.txt") == "expected text, found an empty file."


def test_other_encodings_are_named_with_the_line(read, tmp_path):
    with pytest.raises(InputError) as caught:
        read("Tea.\nCafé.".encode("latin-1"))
    assert one_sentence(caught, f"{tmp_path}/t.txt:2").startswith("expected UTF-8 text (")


def test_files_of_a_folder_in_order_without_cards_and_hidden_files(tmp_path):
    for name in ("b.txt", "a.raw", "README.md", ".hidden", "c"):
        (tmp_path / name).write_text("Text.")
    (tmp_path / "below").mkdir()
    assert text_files(tmp_path) == [tmp_path / "a.raw", tmp_path / "b.txt", tmp_path / "c"]
    assert text_files(str(tmp_path / "b.txt")) == [tmp_path / "b.txt"]


def test_a_missing_path_is_named(tmp_path):
    with pytest.raises(InputError) as caught:
        text_files(tmp_path / "none.txt")
    assert one_sentence(caught, tmp_path / "none.txt").startswith("no such file")


def test_a_folder_without_text_is_named(tmp_path):
    (tmp_path / "README.md").write_text("A card.")
    with pytest.raises(InputError) as caught:
        text_files(tmp_path)
    assert one_sentence(caught, tmp_path) == "expected text files in this folder, found none."


def test_real_wikitext(shared):
    articles = read_articles(shared / "data/wikitext/wiki.raw")
    lines = (shared / "data/wikitext/wiki.raw").read_text(encoding="utf-8").split("\n")
    titles = [line.strip(" =") for line in lines if line.startswith(" = ") and not line.startswith(" = =")]
    assert [article.title for article in articles] == titles
    texts = [line for line in lines if line.strip() and not line.startswith(" = ")]
    assert sum(len(article.paragraphs) for article in articles) == len(texts)
    assert not any("@-@" in paragraph or " @" in paragraph for article in articles for paragraph in article.paragraphs)
    assert articles[0].paragraphs[0].startswith("Robert Boulter is an English film , television and theatre actor .")
    assert "guest-starring role" in articles[0].paragraphs[0]
