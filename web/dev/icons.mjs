// Draws the app's icons from src/icon.svg, once; what it makes is committed. `node dev/icons.mjs`
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { launch } from "../e2e/hub.mjs";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const drawing = readFileSync(at("../src/icon.svg"), "utf8");
/** Systems cut such an icon into their own shape: the ground fills it, and what is drawn stays in the middle 80 percent. */
const filled = drawing.replace(/<rect[^>]*\/>/, '<rect width="32" height="32" fill="#0d6b5c"/><g transform="translate(4.8 4.8) scale(.7)">').replace("</svg>", "</g></svg>");
const browser = await launch();
const page = await browser.newPage();
for (const [name, size, svg] of [["icon-192", 192, drawing], ["icon-512", 512, drawing], ["maskable-192", 192, filled], ["maskable-512", 512, filled], ["apple-touch-icon", 180, filled]]) {
  await page.setViewportSize({ width: size, height: size });
  await page.setContent(`<style>*{margin:0}svg{display:block;width:${size}px;height:${size}px}</style>${svg}`);
  writeFileSync(at(`../public/icons/${name}.png`), await page.screenshot({ omitBackground: true }));
}
await browser.close();
