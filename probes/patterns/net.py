"""The network of Kovaleva, section 4.1: eight convolutions with ReLU over a picture of a map, five classes."""

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from headscope.probes.patterns.resampling import column_kinds, even_widths, resampled, sentence_pictures

STRIDES = (2, 1, 2, 1, 2, 1, 1, 1)
KERNEL = 3
REDUCED = 8  # times smaller is the picture at the end


class PatternNet(nn.Module):
    """Sees maps resampled to one size; with `axes` also what a person reads at a map's axes: which tokens are special
    and where the sentences of a pair lie."""

    temperature: Tensor

    def __init__(
        self,
        classes: int = 5,
        size: int = 32,
        channels: Sequence[int] = (8, 16, 16, 24, 24, 32, 32, 32),
        axes: bool = True,
        dropout: float = 0.0,
        norm: bool = True,
    ) -> None:
        super().__init__()
        self.size, self.axes, self.channels, self.classes = size, axes, tuple(channels), classes
        self.kinds = 2 if axes else 1
        inputs = (self.kinds + axes, *channels[:-1])
        pairs = zip(inputs, channels, STRIDES, strict=True)
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, KERNEL, stride, 1, bias=True) for a, b, stride in pairs)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) if norm else nn.Identity() for width in channels)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(channels[-1] * (-(-size // REDUCED)) ** 2, classes)
        self.register_buffer("temperature", torch.ones(()))

    def forward(
        self,
        maps: Float[Tensor, "batch map query key"],
        real: Bool[Tensor, "batch token"],
        token_class: Int[Tensor, "batch token"],
        widths: Float[Tensor, "batch token"] | None = None,
    ) -> Float[Tensor, "batch map class"]:
        """The logits of each map, not yet divided by the temperature."""
        widths = even_widths(real) if widths is None else widths
        pictures = resampled(maps, widths, self.size, column_kinds(token_class) if self.axes else None)
        hidden = self._first(pictures, sentence_pictures(token_class, widths, self.size) if self.axes else None)
        for convolution, norm in zip(self.convolutions[1:], self.norms[1:], strict=True):
            hidden = norm(convolution(hidden)).relu_()
        return self.output(self.dropout(hidden.flatten(1))).unflatten(0, maps.shape[:2])

    def _first(self, pictures: Tensor, sentences: Tensor | None) -> Tensor:
        """The first convolution; what it makes of the sentences is the same for all maps of an input, so done once."""
        layer, maps = cast(nn.Conv2d, self.convolutions[0]), pictures.shape[1]
        flat = pictures.flatten(0, 1).clamp(min=0).sqrt()
        own = layer.weight[:, : self.kinds]
        hidden = nn.functional.conv2d(flat, own, layer.bias, layer.stride, layer.padding)
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
        """How sure it is of each class, as calibrated."""
        return (self(maps, real, token_class) / self.temperature).softmax(-1)

    def without_norms(self) -> "PatternNet":
        """The same function in eval mode, with each normalisation inside the convolution before it."""
        plain = PatternNet(self.classes, self.size, self.channels, self.axes, norm=False).eval()
        convolutions = cast(Iterable[nn.Conv2d], self.convolutions)
        for index, (convolution, norm) in enumerate(zip(convolutions, self.norms, strict=True)):
            fused = fuse_conv_bn_eval(convolution.eval(), norm.eval()) if isinstance(norm, nn.BatchNorm2d) else convolution
            plain.convolutions[index].load_state_dict(fused.state_dict())
        plain.output.load_state_dict(self.output.state_dict())
        plain.temperature.copy_(self.temperature)
        return plain.requires_grad_(False)
