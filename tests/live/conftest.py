"""A small atlas on disk with tiny models behind it, and a server of it."""

import json
import shutil
import threading

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, BertModel, GPT2Config, GPT2LMHeadModel

from headscope.contracts import Findings, Provenance, RunResults
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.live.models import LiveModel
from headscope.live.server import LiveServer
from headscope.runs.report import finish
from tests.conftest import SPECIAL_IDS, TINY
from tests.reports.atlas_data import make_atlas

LABELS = {0: "different", 1: "same"}
KINDS = {
    "classes": lambda: BertForSequenceClassification(BertConfig(**TINY, id2label=LABELS)),
    "score": lambda: BertForSequenceClassification(BertConfig(**TINY, num_labels=1)),
    "masked": lambda: BertForMaskedLM(BertConfig(**TINY)),
    "next": lambda: GPT2LMHeadModel(GPT2Config(**SPECIAL_IDS, vocab_size=30522, n_embd=32, n_layer=3, n_head=4)),
    "output": lambda: BertModel(BertConfig(**TINY)),
}


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory, minilm):
    """Saves a tiny random model that predicts something; gives its folder."""
    root = tmp_path_factory.mktemp("predicting")

    def save(kind):
        folder = root / kind
        if not folder.exists():
            with torch.random.fork_rng():
                torch.manual_seed(3)
                KINDS[kind]().save_pretrained(folder)
            for file in ("tokenizer.json", "tokenizer_config.json"):
                shutil.copy(minilm.folder / file, folder)
        return folder

    return save


def save_atlas(folder, *encoders, experiment="atlas"):
    """An atlas of these models, as a run would leave it."""
    content = make_atlas(shapes=[(3, 4)] * len(encoders))
    for model, encoder in zip(content["models"], encoders, strict=True):
        model["encoder"] = FrozenEncoder(str(encoder)).identity()
    folder.mkdir(parents=True)
    (folder / "atlas.json").write_text(json.dumps(content))
    provenance = Provenance({"name": "tiny"}, {}, {}, config={"run_dir": str(folder)})
    finish(folder, RunResults(experiment, {}, {}, provenance), Findings())
    return content


@pytest.fixture(scope="module")
def served(tiny_folder):
    """A server of an atlas of two models, the second a classifier."""
    models = [LiveModel(FrozenEncoder(str(tiny_folder(kind))).spec) for kind in ("masked", "classes")]
    with LiveServer(make_atlas(shapes=[(3, 4)] * 2), models) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
