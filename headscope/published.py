"""Which published figures may stand beside ours: those of a model of the same kind and in the same state, and no others."""

from collections.abc import Mapping
from typing import Any

from headscope.contracts import INITS, Provenance, Source
from headscope.layout import Layout

PRETRAINED, FINE_TUNED, RANDOM, EMBEDDINGS = "pre-trained", "fine-tuned", "random", "random but for its embeddings"
FROM_RANDOM = "fine-tuned from random weights"
TRAINED_HERE, ANY = "fine-tuned in this run", "any"
STATES = (PRETRAINED, EMBEDDINGS, FINE_TUNED, TRAINED_HERE, ANY)  # what `published.state` may be
NONE = "none stands beside ours"


def state_of(model: Mapping[str, Any]) -> str | None:
    """The state of a model by what a run says of it; None where it says nothing, as of maps of several models."""
    if model.get("init") is None:
        return None
    if model["init"] != INITS[0]:
        return {"embeddings": EMBEDDINGS, "normal": RANDOM}[model["init"]]
    if model.get("change") or model.get("fine_tuned"):
        return FROM_RANDOM if model.get("trained_from", INITS[0]) != INITS[0] else FINE_TUNED
    return PRETRAINED


def why_not_beside(published: Mapping[str, Any], source: Source) -> str | None:
    """Why published figures are of another model than ours, in words; None where they may stand beside it."""
    state, first = published.get("state"), state_of(source.encoder)
    if state in (None, ANY) or first is None:
        return None
    if Layout.from_json(source.layout).causal:
        return f"published figures are of BERT, an encoder; ours is a causal decoder, another kind of model: {NONE}"
    second = state_of(source.tuned_encoder) if source.tuned_encoder else None
    if state == FINE_TUNED and second is not None:
        ours, same = f"{second}, beside one that is {first}", (first, second) == (PRETRAINED, FINE_TUNED)
    elif state == TRAINED_HERE:  # from whichever start the figure is of, but not from one that was fine-tuned before
        ours, same = first, first in (PRETRAINED, RANDOM)
    else:
        ours, same = first, first == state
    return None if same else f"published figures are of another state of the model ({state}; ours is {ours}): {NONE}"


def figures_beside(published: Mapping[str, Any], source: Source) -> Mapping[str, Any]:
    """The published figures, by metric or by table, as far as they may stand beside ours: all of them, or none."""
    return {"tables": {}} if why_not_beside(published, source) else published


def figures_of(provenance: Provenance) -> Mapping[str, Any]:
    """The published figures that may stand beside those of a finished run."""
    return figures_beside(provenance.config["published"], provenance)
