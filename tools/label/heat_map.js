// A map of attention on a canvas: tokens at both axes, zoom, and the weight of the cell that is pointed at.

const FONT_SIZE = 12;
const LONGEST = 96; // pixels of a token at an axis
const MOST_ZOOM = 16;

export class HeatMap {
  constructor(canvas, readout) {
    this.canvas = canvas;
    this.readout = readout;
    this.square_root = true;
    this.map = null;
    this.zoom = 1;
    this.left = this.top = 0; // the first cell shown, in cells
    this.cell = null; // pointed at: [from, to]
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
    canvas.addEventListener("pointermove", (event) => this.#pointer(event));
    canvas.addEventListener("pointerdown", (event) => this.#grab(event));
    canvas.addEventListener("pointerup", () => (this.grabbed = null));
    canvas.addEventListener("pointerleave", () => this.point(null));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
  }

  show(map) {
    this.map = map;
    this.size = map.tokens.length;
    this.most = map.weights.reduce((most, weight) => Math.max(most, weight), 0) || 1;
    this.labels = map.tokens;
    this.cell = null;
    this.fit();
    this.paint();
    this.point(null);
  }

  // Shows nothing, where a map cannot be computed.
  clear() {
    this.map = null;
    this.point(null);
  }

  fit() {
    this.zoom = 1;
    this.left = this.top = 0;
    this.draw();
  }

  zoomBy(factor, x, y) {
    if (!this.map) return;
    const { side, scale } = this.#measures();
    const [dx, dy] = [x ?? side / 2, y ?? side / 2]; // what stays where it is
    const [column, row] = [this.left + dx / scale, this.top + dy / scale];
    this.zoom = Math.min(MOST_ZOOM, Math.max(1, this.zoom * factor));
    const after = this.#measures().scale;
    this.left = column - dx / after;
    this.top = row - dy / after;
    this.draw();
  }

  toggleIntensity() {
    this.square_root = !this.square_root;
    this.paint();
    return this.square_root;
  }

  weight(from, to) {
    return this.map.weights[from * this.size + to];
  }

  point(cell) {
    this.cell = cell;
    this.draw();
    if (!cell || !this.map) {
      this.readout.textContent = "Point at a cell to read its weight.";
      return;
    }
    const [from, to] = cell;
    const of = (place) => `${this.map.tokens[place]} (${place + 1})`;
    this.readout.textContent = `from ${of(from)} to ${of(to)}: ${this.weight(from, to).toFixed(4)}`;
  }

  // The cells as an image, one pixel each.
  paint() {
    if (!this.map) return;
    const image = new ImageData(this.size, this.size);
    const stops = ["--low", "--middle", "--high"].map((name) => parsed(this.#colour(name)));
    this.map.weights.forEach((weight, place) => {
      const share = this.square_root ? Math.sqrt(weight / this.most) : weight / this.most;
      const [below, rest] = share < 0.5 ? [0, share * 2] : [1, share * 2 - 1];
      for (let part = 0; part < 3; part++) {
        image.data[place * 4 + part] = stops[below][part] + rest * (stops[below + 1][part] - stops[below][part]);
      }
      image.data[place * 4 + 3] = 255;
    });
    this.image = document.createElement("canvas");
    this.image.width = this.image.height = this.size;
    this.image.getContext("2d").putImageData(image, 0, 0);
    this.draw();
  }

  draw() {
    const ratio = devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    if (!this.map || !this.image || this.image.width !== this.size) return;
    const { margin, side, scale, shift } = this.#measures();
    const shown = side / scale;
    this.left = Math.min(Math.max(0, this.left), this.size - shown);
    this.top = Math.min(Math.max(0, this.top), this.size - shown);
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.translate(shift, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.image, this.left, this.top, shown, shown, margin, margin, side, side);
    pen.strokeStyle = this.#colour("--line");
    pen.strokeRect(margin - 0.5, margin - 0.5, side + 1, side + 1);
    this.#axis(pen, false);
    this.#axis(pen, true);
    pen.fillStyle = this.#colour("--faint");
    pen.font = `${FONT_SIZE}px system-ui, sans-serif`;
    pen.textAlign = "right";
    pen.fillText("to →", margin - 10, 14);
    pen.fillText("from ↓", margin - 10, 30);
    if (this.cell) this.#mark(pen);
    this.canvas.dataset.zoom = this.zoom.toFixed(2);
  }

  #measures() {
    const pen = this.canvas.getContext("2d");
    pen.font = `${FONT_SIZE}px system-ui, sans-serif`;
    const longest = Math.max(...this.labels.map((label) => pen.measureText(label).width));
    const margin = Math.min(LONGEST, longest) + 18;
    const side = Math.max(50, Math.min(this.canvas.clientWidth, this.canvas.clientHeight) - margin - 4);
    const shift = Math.max(0, (this.canvas.clientWidth - margin - side) / 2 - margin / 4);
    return { margin, side, scale: (side / this.size) * this.zoom, shift };
  }

  // Tokens beside the rows (from) or, turned, above the columns (to); a strip tells the sentences of a pair apart.
  #axis(pen, turned) {
    const { margin, side, scale } = this.#measures();
    const first = turned ? this.left : this.top;
    const step = Math.ceil((FONT_SIZE + 1) / scale);
    pen.save();
    if (turned) pen.transform(0, 1, 1, 0, 0, 0); // mirrored, so that both axes are drawn by the same lines
    pen.font = `${FONT_SIZE}px system-ui, sans-serif`;
    for (let place = Math.floor(first); place < this.size && (place - first) * scale < side; place++) {
      const from = Math.max(0, (place - first) * scale);
      const to = Math.min(side, (place + 1 - first) * scale);
      const pointed = this.cell && this.cell[turned ? 1 : 0] === place;
      const kind = this.map.special[place] ? "--special" : this.map.sentence[place] === 1 ? "--second" : "--first";
      pen.fillStyle = this.#colour(kind);
      pen.fillRect(margin - 6, margin + from, 4, Math.max(1, to - from - (scale > 4 ? 1 : 0)));
      const middle = margin + (place + 0.5 - first) * scale;
      if (!pointed && (place % step || middle < margin || middle > margin + side)) continue;
      if (this.cell && !pointed && step > 1 && Math.abs(this.cell[turned ? 1 : 0] - place) < step) continue;
      pen.fillStyle = this.#colour(pointed ? "--accent" : this.map.special[place] ? "--special" : "--ink");
      this.#write(pen, this.labels[place], margin - 10, middle, turned);
    }
    pen.restore();
  }

  #write(pen, label, end, middle, turned) {
    const text = shortened(pen, label, LONGEST);
    pen.save();
    pen.translate(end, middle);
    if (turned) pen.scale(1, -1); // letters are not to be mirrored
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    pen.fillText(text, 0, 0);
    pen.restore();
  }

  #mark(pen) {
    const { margin, side, scale } = this.#measures();
    const [from, to] = this.cell;
    pen.save();
    pen.beginPath();
    pen.rect(margin, margin, side, side);
    pen.clip();
    pen.strokeStyle = this.#colour("--accent");
    pen.lineWidth = 1.5;
    pen.strokeRect(margin + (to - this.left) * scale, margin + (from - this.top) * scale, scale, scale);
    pen.globalAlpha = 0.35;
    pen.strokeRect(margin, margin + (from - this.top) * scale, side, scale);
    pen.strokeRect(margin + (to - this.left) * scale, margin, scale, side);
    pen.restore();
  }

  #colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  #cellAt(event) {
    if (!this.map) return null;
    const { side, scale } = this.#measures();
    const [x, y] = this.#inside(event);
    if (x < 0 || y < 0 || x >= side || y >= side) return null;
    const whole = (place) => Math.min(this.size - 1, Math.floor(place));
    return [whole(this.top + y / scale), whole(this.left + x / scale)];
  }

  // Where the pointer is, from the upper left corner of the first cell.
  #inside(event) {
    const { margin, shift } = this.#measures();
    return [event.offsetX - shift - margin, event.offsetY - margin];
  }

  #pointer(event) {
    if (this.grabbed && event.buttons) {
      const { scale } = this.#measures();
      this.left = this.grabbed.left - (event.offsetX - this.grabbed.x) / scale;
      this.top = this.grabbed.top - (event.offsetY - this.grabbed.y) / scale;
    }
    this.point(this.#cellAt(event));
  }

  #grab(event) {
    if (!this.map) return;
    this.grabbed = { x: event.offsetX, y: event.offsetY, left: this.left, top: this.top };
    this.canvas.setPointerCapture(event.pointerId);
    this.point(this.#cellAt(event));
  }

  #wheel(event) {
    event.preventDefault();
    if (!this.map || !event.deltaY) return;
    this.zoomBy(event.deltaY < 0 ? 1.25 : 0.8, ...this.#inside(event));
    this.point(this.#cellAt(event));
  }

  // With the focus on the map, arrow keys with shift go from cell to cell.
  #key(event) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const step = event.shiftKey && steps[event.key];
    if (!step || !this.map) return;
    event.preventDefault();
    event.stopPropagation();
    const within = (place) => Math.min(this.size - 1, Math.max(0, place));
    this.point(this.cell ? this.cell.map((place, axis) => within(place + step[axis])) : [0, 0]);
  }
}

function parsed(colour) {
  return [1, 3, 5].map((start) => parseInt(colour.slice(start, start + 2), 16));
}

function shortened(pen, text, width) {
  let end = text.length;
  while (end > 1 && pen.measureText(text.slice(0, end) + (end < text.length ? "…" : "")).width > width) end--;
  return end < text.length ? `${text.slice(0, end)}…` : text;
}
