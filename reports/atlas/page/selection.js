// Opening and closing the panel of a head, with the focus where the reader expects it.

import { announce, byId, make } from "./dom.js";
import { dockedScreen } from "./screen.js";
import { change, currentModel, models, opening, selectedIndex, state } from "./state.js";

let opener = null; // what had the focus

/** Open the panel of a head; the focus goes there and comes back when it closes. `null` as `from` keeps both as they are. */
export function openHead(index, from = document.activeElement, model = state.model) {
  if (from) opener = from;
  opening.head = null;
  change({ model, head: models[model].headName(index), panel: true });
  const { layer, head } = currentModel().place(index);
  announce(`Layer ${layer}, head ${head}`);
  if (from !== null) byId("panel-title").focus({ preventScroll: dockedScreen.matches });
}

export function closeHead() {
  const index = selectedIndex(currentModel()),
    view = byId(`view-${state.view}`),
    focused = document.activeElement,
    figure = opener?.closest?.("svg")?.getAttribute("aria-label");
  change(state.view === "attention" ? { panel: false } : { head: null, panel: false });
  const shown = opener?.isConnected && opener.getClientRects().length && opener !== document.body,
    drawn = figure && view.querySelector(`svg[aria-label="${CSS.escape(figure)}"] [data-point="${index}"]`),
    back = shown
      ? opener
      : (drawn ?? view.querySelector(`tr[data-index="${index}"] button, [role="gridcell"][data-index="${index}"]`));
  if (!byId("main").contains(focused)) (back ?? byId("main")).focus(); // who works elsewhere stays there
  opener = null;
  announce("Closed");
}

/** The name of a head as a button that opens it. */
export function headButton(model, index) {
  return make("button", { type: "button", class: "link", onclick: () => openHead(index) }, model.headName(index));
}
