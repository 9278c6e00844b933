// Runs in the head of the page, before anything is drawn, so that nothing flashes.

import { systemIsDark } from "./screen.js";
import { rememberedTheme, setTheme } from "./theme.js";

setTheme(rememberedTheme() ?? (systemIsDark.matches ? "dark" : "light"));
