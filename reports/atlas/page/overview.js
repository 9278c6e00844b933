// All heads of one sentence at a glance: small maps, of which one can be picked.

import { rampColour, themed } from "./colours.js";
import { sentenceBytes } from "./data.js";
import { draw, hideTip, make, showTip } from "./dom.js";
import { canvas, figureFrame } from "./figure.js";
import { fileName } from "./text.js";
import { currentTheme } from "./theme.js";

/** `pick(index)` is called for the head that is clicked; the choice of layer and head does the same for the keyboard. */
export class Overview {
  constructor({ pick }) {
    this.pick = pick;
    this.element = make("div");
  }

  /** Draw anew only for another sentence, other tokens or other colours; the marker moves with the head. */
  update(model, sentence, kept, index) {
    const number = model.sentences.indexOf(sentence) + 1;
    const key = [model.index, number, sentence.version, kept.length, currentTheme()].join("/");
    if (this.key !== key) {
      this.key = key;
      this.element.replaceChildren(
        make(
          "div",
          { class: "card" },
          make("h2", {}, "All heads on this sentence"),
          figureFrame(
            "Each square is one head's map; pick one to see it above",
            this.drawing(model, sentence, kept),
            fileName("all_heads", model.name, `sentence${number}`),
          ),
        ),
      );
    }
    const { layer, head } = model.place(index);
    this.marker.setAttribute("x", this.left + (head - 1) * this.tile);
    this.marker.setAttribute("y", this.top + (layer - 1) * this.tile);
  }

  drawing(model, sentence, kept) {
    const pixels = Math.max(1, Math.round(Math.min(64, 800 / model.heads) / kept.length));
    const tile = kept.length * pixels + 4,
      left = 24,
      top = 18;
    Object.assign(this, { tile, left, top });
    const svg = canvas(
      left + model.heads * tile,
      top + model.layers * tile,
      `Attention of all heads of ${model.name} on this sentence`,
      { class: "overview" },
    );
    svg.append(
      draw("image", {
        href: overviewPicture(model, sentence, kept, pixels),
        x: left,
        y: top,
        width: model.heads * tile,
        height: model.layers * tile,
      }),
    );
    for (let head = 0; head < model.heads; head++) {
      const x = left + (head + 0.5) * tile;
      svg.append(draw("text", { x, y: 12, "text-anchor": "middle", class: "small-text" }, String(head + 1)));
    }
    for (let layer = 0; layer < model.layers; layer++) {
      const y = top + (layer + 0.5) * tile + 4;
      svg.append(draw("text", { x: left - 6, y, "text-anchor": "end", class: "small-text" }, String(layer + 1)));
    }
    this.marker = draw("rect", { class: "head-marker", width: tile, height: tile, rx: 3 });
    svg.append(this.marker);
    this.listen(svg, model);
    return svg;
  }

  listen(svg, model) {
    const headAt = (event) => {
      const box = svg.getBoundingClientRect(),
        unit = (this.left + model.heads * this.tile) / box.width;
      const head = Math.floor(((event.clientX - box.left) * unit - this.left) / this.tile);
      const layer = Math.floor(((event.clientY - box.top) * unit - this.top) / this.tile);
      const inside = head >= 0 && layer >= 0 && head < model.heads && layer < model.layers;
      return inside ? layer * model.heads + head : null;
    };
    svg.addEventListener("click", (event) => headAt(event) !== null && this.pick(headAt(event)));
    svg.addEventListener("pointermove", (event) => {
      const index = headAt(event);
      if (index === null) return hideTip();
      const { layer, head } = model.place(index);
      showTip(event, [`Layer ${layer}, head ${head}`, ...model.roles(index).slice(0, 3)]);
    });
    svg.addEventListener("pointerleave", hideTip);
  }
}

/** The maps of all heads as one picture, `pixels` wide for each pair of tokens, with a margin of two around each map. */
function overviewPicture(model, sentence, kept, pixels) {
  const size = sentence.tokens.length,
    bytes = sentenceBytes(sentence),
    side = kept.length * pixels + 4;
  const surface = make("canvas", { width: model.heads * side, height: model.layers * side }),
    context = surface.getContext("2d");
  const picture = context.createImageData(surface.width, surface.height),
    dots = new Uint32Array(picture.data.buffer);
  const colours = attentionWords();
  for (let index = 0; index < model.count; index++) {
    const left = (index % model.heads) * side + 2,
      top = Math.floor(index / model.heads) * side + 2;
    for (let y = 0; y < side - 4; y++) {
      const row = (index * size + kept[Math.floor(y / pixels)]) * size,
        start = (top + y) * surface.width + left;
      for (let x = 0; x < side - 4; x++) dots[start + x] = colours[bytes[row + kept[Math.floor(x / pixels)]]];
    }
  }
  context.putImageData(picture, 0, 0);
  return surface.toDataURL("image/png");
}

/** The colour of every byte as one word of a picture. */
function attentionWords() {
  const channels = new Uint8Array(256 * 4);
  for (let byte = 0; byte < 256; byte++) {
    const colour = rampColour(themed("attention"), byte / 255);
    channels.set([...[1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)), 255], byte * 4);
  }
  return new Uint32Array(channels.buffer);
}
