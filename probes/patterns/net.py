"""The network of Kovaleva, section 4.1: eight convolutions with ReLU over a picture of a map, five classes."""

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from headscope.errors import ConfigError
from headscope.probes.patterns.axes import Axes, sheared
from headscope.probes.patterns.contrasts import REACH
from headscope.probes.patterns.measures import MEASURES, row_measures, shades
from headscope.probes.patterns.resampling import TINY, column_kinds, even_widths, overlaps, resampled, sentence_pictures

STRIDES = (2, 1, 2, 1, 2, 1, 1, 1)
KERNEL = 3
WIDTH = 128  # of the layer that sees the measures
CELLS = 2**22  # of maps that are looked at together
LEAST = 1e-3  # deviation that a measure is divided by
BLUR = 0.1  # of a measure's deviation, added while learning
SHARE = 0.1  # of the convolutions in the logits: on inner folds more than 0.15 costs


class Standard(nn.Module):
    """Values less their mean, over their deviation, both of all values that were ever learnt from; as they are before that.

    Not those of a batch: batches are small, and a measure that is rarely other than zero would be on another scale in each.
    """

    count: Tensor
    mean: Tensor
    squares: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("squares", torch.zeros(width))  # sum of squared distances from the mean

    def forward(self, values: Float[Tensor, "map measure"]) -> Float[Tensor, "map measure"]:
        if self.training:
            self._see(values.detach())
        deviation = (self.squares / self.count.clamp(min=1)).sqrt().clamp(min=LEAST)
        return (values - self.mean) / torch.where(self.count > 0, deviation, 1.0)

    def _see(self, values: Float[Tensor, "map measure"]) -> None:
        """Chan's update: exact, however the values come in batches."""
        own, before = values.mean(0), self.count.clone()
        self.count += len(values)
        self.squares += ((values - own) ** 2).sum(0) + (own - self.mean) ** 2 * before * len(values) / self.count
        self.mean += (own - self.mean) * len(values) / self.count


class Measured(nn.Module):
    """Logits from the measures of a map, each on the scale of its deviation among those that were learnt from.

    What is linear in them has a way of its own: it is most of what is learnt, and is learnt slowly through a hidden layer.
    """

    def __init__(self, classes: int, dropout: float) -> None:
        super().__init__()
        self.standard = Standard(MEASURES)
        self.direct = nn.Linear(MEASURES, classes)
        self.hidden, self.output = nn.Linear(MEASURES, WIDTH), nn.Linear(WIDTH, classes)
        nn.init.zeros_(self.direct.weight)
        self.dropout = nn.Dropout(dropout)

    def forward(self, measures: Float[Tensor, "map measure"]) -> Float[Tensor, "map class"]:
        scaled = self.standard(measures)
        if self.training:
            scaled = scaled + BLUR * torch.randn_like(scaled)
        return self.direct(scaled) + self.output(self.dropout(self.hidden(scaled).relu()))


class PatternNet(nn.Module):
    """Sees maps resampled to one size, each on its own scale, as people do.

    With `axes` it also sees what a person reads at a map's axes: columns of special tokens and punctuation are a picture of
    their own, as is the neighbourhood of the diagonal, token by token, and where the sentences of a pair lie; and
    layers of their own see measures of all these. Both have logits, and the convolutions' weigh `share`, the measures' the
    rest. Without `channels` there are the measures alone.
    """

    temperature: Tensor

    def __init__(
        self,
        classes: int = 5,
        size: int = 32,
        channels: Sequence[int] = (12, 16, 16, 24, 24, 32, 32, 32),
        axes: bool = True,
        dropout: float = 0.0,
        norm: bool = True,
        share: float = SHARE,
    ) -> None:
        super().__init__()
        self.size, self.axes, self.channels, self.classes, self.share = size, axes, tuple(channels), classes, share
        self.kinds = 3 if axes else 1
        if not (channels or axes):
            raise ConfigError("module.channels=[]: measures alone need module.axes=true.")
        inputs = (self.kinds + axes, *channels[:-1]) if channels else ()
        pairs = zip(inputs, channels, STRIDES if channels else (), strict=True)
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, KERNEL, stride, 1, bias=True) for a, b, stride in pairs)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) if norm else nn.Identity() for width in channels)
        self.dropout = nn.Dropout(dropout)
        self.measured = Measured(classes, dropout) if axes else None
        self.output = nn.Linear(2 * channels[-1], classes) if channels else None
        self.register_buffer("temperature", torch.ones(()))

    def forward(
        self,
        maps: Float[Tensor, "batch map query key"],
        real: Bool[Tensor, "batch token"],
        token_class: Int[Tensor, "batch token"],
        widths: Float[Tensor, "batch token"] | None = None,
    ) -> Float[Tensor, "batch map class"]:
        """The logits of each map, not yet divided by the temperature."""
        if not maps.numel():  # a process that is idle while another has the last inputs
            return maps.new_zeros(*maps.shape[:2], self.classes)
        opinions = self.opinions(maps, real, token_class, widths)
        return torch.lerp(opinions[0], opinions[-1], self.share)

    def opinions(
        self,
        maps: Float[Tensor, "batch map query key"],
        real: Bool[Tensor, "batch token"],
        token_class: Int[Tensor, "batch token"],
        widths: Float[Tensor, "batch token"] | None = None,
    ) -> Float[Tensor, "opinion batch map class"]:
        """The logits from measures and those of the convolutions, where there are both: each is trained for itself."""
        widths = even_widths(real) if widths is None else widths
        if self.measured is None:
            return self._convolved(self._pictures(maps, widths, None), None).unflatten(0, maps.shape[:2])[None]
        axes = Axes(token_class, real)
        shade, scale = shades(maps, real)
        reach = max(REACH, -(-self.size // 2))
        band = sheared(shade * axes.rows[:, None, None], reach)
        found = [self.measured(row_measures(shade, scale, band, axes).flatten(0, 1))]
        if self.output is not None:
            start = reach - self.size // 2
            along = (overlaps(widths, self.size) * self.size)[:, None] @ band[..., start : start + self.size]
            pictures = torch.cat([self._pictures(maps, widths, column_kinds(token_class)), along[:, :, None]], 2)
            found.append(self._convolved(pictures, sentence_pictures(token_class, widths, self.size)))
        return torch.stack(found).unflatten(1, maps.shape[:2])

    def _pictures(
        self, maps: Float[Tensor, "batch map query key"], widths: Float[Tensor, "batch token"], columns: Tensor | None
    ) -> Float[Tensor, "batch map kind cell cell"]:
        """Of one size, each map on its own scale."""
        pictures = resampled(maps, widths, self.size, columns).clamp(min=0).sqrt()
        return pictures / pictures.amax((2, 3, 4), keepdim=True).clamp(min=TINY)

    def _convolved(self, pictures: Tensor, sentences: Tensor | None) -> Tensor:
        """Logits from how much of each feature there is, and how strong; where in the picture does not matter."""
        hidden = self._first(pictures, sentences)
        for convolution, norm in zip(self.convolutions[1:], self.norms[1:], strict=True):
            hidden = norm(convolution(hidden)).relu_()
        output = cast(nn.Linear, self.output)
        return output(self.dropout(torch.cat([hidden.mean((2, 3)), hidden.amax((2, 3))], 1)))

    def _first(self, pictures: Tensor, sentences: Tensor | None) -> Tensor:
        """The first convolution; what it makes of the sentences is the same for all maps of an input, so done once."""
        layer, maps = cast(nn.Conv2d, self.convolutions[0]), pictures.shape[1]
        own = layer.weight[:, : self.kinds]
        hidden = nn.functional.conv2d(pictures.flatten(0, 1), own, layer.bias, layer.stride, layer.padding)
        if sentences is not None:
            shared = nn.functional.conv2d(sentences, layer.weight[:, self.kinds :], None, layer.stride, layer.padding)
            hidden = (hidden.unflatten(0, (-1, maps)) + shared[:, None]).flatten(0, 1)
        return self.norms[0](hidden).relu()

    def probabilities(
        self,
        maps: Float[Tensor, "batch map query key"],
        real: Bool[Tensor, "batch token"],
        token_class: Int[Tensor, "batch token"],
    ) -> Float[Tensor, "batch map class"]:
        """How sure it is of each class, as calibrated; some maps at a time, since shades are as large as maps."""
        together = max(1, CELLS // max(1, maps.shape[0] * maps.shape[2] * maps.shape[3]))
        logits = torch.cat([self(some, real, token_class) for some in maps.split(together, 1)], 1)
        return (logits / self.temperature).softmax(-1)

    def without_norms(self) -> "PatternNet":
        """The same function in eval mode, with each normalisation inside the convolution before it."""
        plain = PatternNet(self.classes, self.size, self.channels, self.axes, norm=False, share=self.share).eval()
        convolutions = cast(Iterable[nn.Conv2d], self.convolutions)
        for index, (convolution, norm) in enumerate(zip(convolutions, self.norms, strict=True)):
            fused = fuse_conv_bn_eval(convolution.eval(), norm.eval()) if isinstance(norm, nn.BatchNorm2d) else convolution
            plain.convolutions[index].load_state_dict(fused.state_dict())
        if plain.output is not None and self.output is not None:
            plain.output.load_state_dict(self.output.state_dict())
        if plain.measured is not None and self.measured is not None:
            plain.measured.load_state_dict(self.measured.state_dict())
        plain.temperature.copy_(self.temperature)
        return plain.requires_grad_(False)
