"""The packaged articles and coreference documents: well formed, and as their cards describe them."""

import re
from collections import Counter
from statistics import mean

import pytest

from headscope.data_modules.documents import SAMPLE as DOCUMENTS
from headscope.data_modules.readers.articles import read_articles
from headscope.data_modules.readers.entities import read_entity_documents
from headscope.data_modules.segments import SAMPLE as ARTICLES

KINDS = {"PRON": "pronoun", "PROPN": "proper", "NOUN": "nominal"}
UPOS = {"ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "VERB"}
TYPES = {"person", "place", "organization", "object", "event", "time", "substance", "animal", "plant", "abstract"}


@pytest.fixture(scope="module")
def lines():
    return (ARTICLES / "articles.txt").read_text(encoding="utf-8").split("\n")


@pytest.fixture(scope="module")
def paragraphs(lines):
    """The paragraphs of each article by its title, read without the reader."""
    found = {}
    for line in lines:
        if line.startswith(" = ") and not line.startswith(" = ="):
            found[line.strip(" =")] = last = []
        elif line.strip() and not line.startswith(" ="):
            last.append(line)
    return found


@pytest.fixture(scope="module")
def sentences():
    """The sentences of each document, as comments and rows."""
    found = {}
    for block in (DOCUMENTS / "documents.conllu").read_text(encoding="utf-8").strip().split("\n\n"):
        comments = [line for line in block.split("\n") if line.startswith("#")]
        rows = [line.split("\t") for line in block.split("\n") if not line.startswith("#")]
        if name := re.search(r"^# newdoc id = (.+)$", block, re.M):
            found[name[1]] = last = []
        last.append((comments, rows))
    return found


@pytest.fixture(scope="module")
def mentions(sentences):
    """All mentions of each document, found with a stack and in the order of the text."""
    return {name: mentions_of(document) for name, document in sentences.items()}


@pytest.fixture(scope="module")
def card():
    """The rows of the tables in the card of the documents, by their first cell."""
    rows = {}
    for line in (DOCUMENTS / "README.md").read_text(encoding="utf-8").split("\n"):
        if line.startswith("|"):
            first, *rest = (cell.strip(" `") for cell in line.strip("|").split("|"))
            rows[first] = rest
    return rows


def words_of(rows):
    return [row for row in rows if row[0].isdecimal()]


def brackets(row):
    value = next((part[7:] for part in row[9].split("|") if part.startswith("Entity=")), "")
    found = re.findall(r"\([^()]+\)|\([^()]+|[^()]+\)", value)
    assert "".join(found) == value
    return found


def mentions_of(document):
    """Dicts of group, type, status, sentence, span and part of speech of the head; brackets must nest."""
    found = []
    for number, (_, rows) in enumerate(document):
        stack, words = [], words_of(rows)
        for place, row in enumerate(words, start=1):
            for bracket in brackets(row):
                if bracket.startswith("("):
                    group, kind, status = bracket.strip("()").split("-")
                    stack.append({"group": group, "type": kind, "status": status, "sentence": number, "start": place})
                if bracket.endswith(")"):
                    mention = stack.pop()
                    assert mention["group"] == bracket.strip("()").split("-")[0]
                    found.append(mention | {"end": place, **head_of(words, mention["start"], place)})
        assert not stack
    return sorted(found, key=lambda m: (m["sentence"], m["start"], -m["end"]))


def head_of(words, start, end):
    outside = [place for place in range(start, end + 1) if not start <= int(words[place - 1][6]) <= end]
    (head,) = outside
    return {"head": head, "upos": words[head - 1][3], "form": words[head - 1][1].lower()}


def anaphors(document):
    """The mentions of every group but its first, each with the closest one before it."""
    last, found = {}, []
    for mention in document:
        if mention["group"] in last:
            found.append((mention, last[mention["group"]]))
        last[mention["group"]] = mention
    return found


def spelled(rows):
    """The surface text: multiword ranges stand for their words, a space follows unless SpaceAfter=No."""
    text, covered = "", 0
    for number, form, *_, misc in rows:
        first, _, last = number.partition("-")
        if int(first) > covered:
            text += form + ("" if "SpaceAfter=No" in misc.split("|") else " ")
            covered = int(last or first)
    return text.strip()


def test_articles_are_read_as_they_are_written(paragraphs):
    articles = read_articles(ARTICLES / "articles.txt")
    assert {article.title: article.paragraphs for article in articles} == paragraphs
    assert len(articles) == len(paragraphs) >= 12


def test_articles_have_several_paragraphs_and_none_twice(paragraphs):
    assert min(map(len, paragraphs.values())) >= 2
    together = [paragraph for article in paragraphs.values() for paragraph in article]
    assert len(set(together)) == len(together)
    parts = Counter(part for paragraph in together for part in re.split(r"(?<=[.!?])\s+", paragraph))
    assert max(parts.values()) == 1
    assert all(paragraph == paragraph.strip() and paragraph.isascii() for paragraph in together)


def test_articles_are_as_their_card_says(lines, paragraphs):
    lengths = [len(paragraph.split()) for article in paragraphs.values() for paragraph in article]
    counts = sorted({len(article) for article in paragraphs.values()})
    card = (ARTICLES / "README.md").read_text(encoding="utf-8")
    assert f"\n{len(paragraphs)} short English articles" in card
    assert f"| articles | {len(paragraphs)} |" in card
    assert f"| section headings | {sum(line.startswith(' = = ') for line in lines)} |" in card
    assert f"| paragraphs | {len(lengths)} ({' or '.join(map(str, counts))} per article) |" in card
    assert f"| words | {sum(lengths)} ({min(lengths)} to {max(lengths)} per paragraph) |" in card


def test_two_paragraphs_are_longer_than_a_window(paragraphs, minilm):
    tokenizer = minilm.tokenizer()
    for article in paragraphs.values():
        for one, other in zip(article, article[1:], strict=False):
            assert len(tokenizer(one, other, verbose=False)["input_ids"]) > 128


def test_every_sentence_is_a_projective_tree_with_one_root(sentences):
    for _, rows in (s for document in sentences.values() for s in document):
        words = words_of(rows)
        heads = [int(row[6]) for row in words]
        assert [row[0] for row in words] == [str(place) for place in range(1, len(words) + 1)]
        assert [row[7] for row in words].count("root") == heads.count(0) == 1
        assert words[heads.index(0)][7] == "root"
        reached = {0}
        for _ in words:
            reached |= {place for place, head in enumerate(heads, start=1) if head in reached}
        assert len(reached) == len(words) + 1
        arcs = [tuple(sorted(arc)) for arc in enumerate(heads, start=1)]
        assert not any(a < c < b < d for a, b in arcs for c, d in arcs)
        assert {row[3] for row in words} <= UPOS


def test_words_spell_the_text_and_texts_are_unique(sentences):
    texts = []
    for comments, rows in (s for document in sentences.values() for s in document):
        texts += [line.removeprefix("# text = ") for line in comments if line.startswith("# text = ")]
        assert spelled(rows) == texts[-1]
    assert len(texts) == len(set(texts)) == sum(map(len, sentences.values()))
    ids = [line for document in sentences.values() for comments, _ in document for line in comments if "sent_id" in line]
    assert ids == [f"# sent_id = {name}-{n}" for name, document in sentences.items() for n in range(1, len(document) + 1)]


def test_mentions_follow_the_conventions(mentions):
    for document in mentions.values():
        spans = [(m["sentence"], m["start"], m["end"]) for m in document]
        assert len(set(spans)) == len(spans)
        first = list(dict.fromkeys(m["group"] for m in document))
        assert first == [str(number) for number in range(1, len(first) + 1)]
        types = {group: {m["type"] for m in document if m["group"] == group} for group in first}
        assert all(len(found) == 1 and found <= TYPES for found in types.values())
        seen = set()
        for mention in document:
            assert mention["status"] == ("giv" if mention["group"] in seen else "new")
            seen.add(mention["group"])


def test_every_document_has_three_chains_and_there_are_all_kinds_of_anaphors(mentions):
    for document in mentions.values():
        assert sum(count > 1 for count in Counter(m["group"] for m in document).values()) >= 3
    counts = Counter(KINDS[m["upos"]] for document in mentions.values() for m, _ in anaphors(document))
    assert set(counts) == {"pronoun", "proper", "nominal"}
    assert min(counts.values()) > 30


def test_documents_are_read_as_they_are_written(sentences, mentions):
    documents = read_entity_documents(DOCUMENTS / "documents.conllu")
    assert [document.name for document in documents] == list(sentences)
    for document in documents:
        starts, expected = [0], []
        for _, rows in sentences[document.name]:
            starts.append(starts[-1] + len(words_of(rows)))
        for m in mentions[document.name]:
            before = starts[m["sentence"]]
            expected.append((before + m["start"], before + m["end"], before + m["head"], m["group"]))
        assert sorted((m.start, m.end, m.head, m.group) for m in document.mentions) == sorted(expected)
        forms = [row[1] for _, rows in sentences[document.name] for row in words_of(rows)]
        assert list(document.words) == forms


def figures(sentences, mentions):
    """What the card's large table says of a document, or of all."""
    sizes = [len({(m["document"], m["group"]) for m in mentions})]
    sizes += [sum(count > 1 for count in Counter((m["document"], m["group"]) for m in mentions).values())]
    kinds = Counter(m["upos"] for m in mentions if m["status"] == "giv")
    words = sum(len(words_of(rows)) for _, rows in sentences)
    return [str(n) for n in (len(sentences), words, len(mentions), *sizes, kinds["PRON"], kinds["PROPN"], kinds["NOUN"])]


def test_the_large_table_of_the_card(sentences, mentions, card):
    placed = {name: [m | {"document": name} for m in document] for name, document in mentions.items()}
    for name in sentences:
        assert card[name][1:] == figures(sentences[name], placed[name])
    everything = [s for document in sentences.values() for s in document], [m for d in placed.values() for m in d]
    assert card["all"][1:] == figures(*everything)
    assert len([name for name in card if name.startswith("sample_")]) == len(sentences) == 14


def test_the_tables_of_mentions_of_the_card(mentions, card):
    together = [(name, m) for name, document in mentions.items() for m in document]
    pairs = [pair for document in mentions.values() for pair in anaphors(document)]
    apart = Counter(min(2, m["sentence"] - before["sentence"]) for m, before in pairs)
    inside = 0
    for document in mentions.values():
        for m in document:
            around = (o for o in document if o is not m and o["sentence"] == m["sentence"])
            inside += any(o["start"] <= m["start"] and m["end"] <= o["end"] for o in around)
    assert card["of one word"] == [str(sum(m["start"] == m["end"] for _, m in together))]
    assert card["inside another mention"] == [str(inside)]
    assert card["with the closest earlier mention of the group in the same sentence"] == [str(apart[0])]
    assert card["in the sentence before"] == [str(apart[1])]
    assert card["two or more sentences before"] == [str(apart[2])]
    types = Counter(m["type"] for _, m in together)
    for left in ("person", "object", "place", "time", "animal"):
        count, right, other = card[left]
        assert (int(count), int(other)) == (types[left], types[right])


def test_the_text_of_the_card(sentences, mentions, minilm):
    card = " ".join((DOCUMENTS / "README.md").read_text(encoding="utf-8").split())
    together = [rows for document in sentences.values() for _, rows in document]
    lengths = [len(words_of(rows)) for rows in together]
    assert f"sentences have {min(lengths)} to {max(lengths)} of them (mean {mean(lengths):.1f})" in card
    assert f"there are {sum('-' in row[0] for rows in together for row in rows)} multiword tokens" in card
    pronouns = [m["form"] for d in mentions.values() for m, _ in anaphors(d) if m["upos"] == "PRON"]
    for form, count in Counter(pronouns).most_common(7):
        assert f"*{form}* ({count})" in card
    assert sum(form.endswith(("self", "selves")) for form in pronouns) == 9
    tokenizer = minilm.tokenizer()
    tokens = {}
    for name, document in sentences.items():
        forms = [row[1] for _, rows in document for row in words_of(rows)]
        tokens[name] = len(tokenizer(forms, is_split_into_words=True, verbose=False)["input_ids"])
    assert tokens.pop("sample_14") > 128
    assert f"({min(tokens.values())} to {max(tokens.values())} pieces" in card
