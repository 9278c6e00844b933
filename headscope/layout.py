"""How the inputs of a model are laid out; what every analysis, probe and figure asks instead of knowing BERT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, cast


@dataclass(frozen=True)
class Layout:
    """Which special tokens stand around the texts of an input, and whether a token sees those that follow it.

    `first` is the special token that starts an input and stands for ROOT; `separator` parts the texts of a pair, and in
    most encoders ends each; either is None where the model has none. In a causal model a token sees itself and what is
    before it. `padding` is the id that fills a batch up. Without any argument, the layout is BERT's.
    """

    first: str | None = "[CLS]"
    separator: str | None = "[SEP]"
    causal: bool = False
    padding: int = 0

    @property
    def first_name(self) -> str:
        """What tables and figures call the first token."""
        return self.first or "the first token"

    @property
    def separator_name(self) -> str:
        """What tables and figures call separators; some models start a second text as they start the first."""
        if self.separator is None:
            return "separator"
        return f"inner {self.separator}" if self.separator == self.first else self.separator

    @property
    def read_name(self) -> str:
        """The token that a classifier reads: the first, or the last one where only that has seen the whole input."""
        return "the last token" if self.causal else self.first_name

    def said(self, text: str) -> str:
        """A text about [CLS] and [SEP], with this model's own tokens in their place."""
        return text.replace("[CLS]", self.first_name).replace("[SEP]", self.separator_name)

    def said_in(self, value: Any) -> Any:
        """The same of every text inside rows and lists; the names of columns stay."""
        if isinstance(value, str):
            return self.said(value)
        if isinstance(value, Mapping):
            return {key: self.said_in(part) for key, part in cast("Mapping[Any, Any]", value).items()}
        if isinstance(value, list | tuple):
            return [self.said_in(part) for part in cast("Sequence[Any]", value)]
        return value

    def to_json(self) -> dict[str, Any]:
        """As results.json keeps it."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any] | None) -> Layout:
        """What `to_json` wrote; BERT's where a run wrote none."""
        known = {one.name for one in fields(cls)}
        return cls(**{key: value for key, value in (content or {}).items() if key in known})
