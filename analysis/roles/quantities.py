"""What is said of each head: its scores with their tests, its roles, and how they change."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from scipy.stats import norm

from headscope.analysis.roles.tests import Change, Tested
from headscope.contracts import HeadValues, Quantity, Section

SECTION = Section("roles", "functional roles")


def role_quantities(name: str, model: str = "") -> tuple[Quantity, Quantity, Quantity, Quantity]:
    """The score of a role with its test, its effect size, the score that shuffled tokens get, and whether a head has it."""
    text, after = name.replace("_", " "), ", fine-tuned" if model else ""
    score = f"Mean attention inside the {text} sieve over mean attention; p is for a score above the threshold."
    effect = f"How far the {text} score lies above the threshold, in deviations over inputs."
    chance = f"The {text} score when the sieve's tokens are drawn at random; p is for the true score."
    has_role = f"1 where the test gives the head the role {text}."
    said: tuple[tuple[str, str, str, Literal["high"] | None, str], ...] = (
        (f"sieve:{name}", f"sieve score, {text}", score, "high", "role_score"),
        (f"sieve_effect:{name}", f"sieve effect, {text}", effect, "high", "role_effect"),
        (f"sieve_shuffled:{name}", f"sieve score of shuffled tokens, {text}", chance, None, "role_chance"),
        (f"role:{name}", f"has the role {text}", has_role, "high", "role"),
    )
    one, two, three, four = (
        Quantity(
            model + quantity, label + after, "The same of the fine-tuned model." if model else meaning, "", better, SECTION,
            model + family, name,
        )
        for quantity, label, meaning, better, family in said
    )  # fmt: skip
    return one, two, three, four


def number_of_roles(model: str = "") -> Quantity:
    """How many of the nine fine roles a head has."""
    return Quantity(
        f"{model}roles",
        "number of roles" + (", fine-tuned" if model else ""),
        "How many of the nine fine roles the tests give the head" + (" in the fine-tuned model." if model else "."),
        better="high",
        section=SECTION,
        headline=not model,
    )


def change_quantity(name: str) -> Quantity:
    """How much a head's score of a role grew by fine-tuning."""
    text = name.replace("_", " ")
    meaning = f"The {text} score of the fine-tuned model less that of the model before, on the same inputs; p by Holm."
    label = f"change of the sieve score, {text}"
    return Quantity(f"sieve_change:{name}", label, meaning, "", None, SECTION, "role_change", name)


def role_values(tested: Tested, model: str) -> Iterator[HeadValues]:
    """All per-head quantities of one model."""
    for index, name in enumerate(tested.names):
        if tested.counts[index] < 2:
            continue
        means, deviations, count = tested.means[index], tested.deviations[index], tested.counts[index]
        half = norm.isf(0.025) * deviations / np.sqrt(count)
        score, effect, chance, has_role = role_quantities(name, model)
        yield HeadValues(
            score,
            value=grid(means, tested.heads),
            n=grid(np.full_like(means, count), tested.heads),
            low=grid(means - half, tested.heads),
            high=grid(means + half, tested.heads),
            p=grid(tested.corrected[index], tested.heads),
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            yield HeadValues(effect, grid((means - tested.test.tau) / deviations, tested.heads))
        shuffled = tested.shuffled[:, index]
        if len(shuffled):
            yield HeadValues(chance, grid(shuffled.mean(0), tested.heads), p=grid(tested.permuted[index], tested.heads))
        yield HeadValues(has_role, grid(tested.assigned[index].astype(float), tested.heads))
    yield HeadValues(number_of_roles(model), grid(tested.assigned[tested.fine].sum(0).astype(float), tested.heads))


def change_values(change: Change, names: list[str], heads: int) -> Iterator[HeadValues]:
    """The change of every head's scores, with its interval."""
    for index, name in enumerate(names):
        if change.counts[index] < 2:
            continue
        means, half = change.means[index], change.half[index]
        yield HeadValues(
            change_quantity(name),
            value=grid(means, heads),
            n=grid(np.full_like(means, change.counts[index]), heads),
            low=grid(means - half, heads),
            high=grid(means + half, heads),
            p=grid(change.p[index], heads),
        )


def grid(values: np.ndarray, heads: int) -> list[list[float]]:
    """One number per map as rows of layers."""
    return values.reshape(-1, heads).tolist()
