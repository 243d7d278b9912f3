/**
 * `text` with every character that could deceive a reader made visible: control characters, carriage returns, escapes,
 * bidirectional and zero-width ones. Line feeds and tabs stay. The same rule as the hub's and the terminal's.
 */
export function makeVisible(text: string): string {
  let out = "";
  for (const character of text) {
    const point = character.codePointAt(0) ?? 0;
    out += deceives(point) ? `\u27e8U+${point.toString(16).toUpperCase().padStart(4, "0")}\u27e9` : character;
  }
  return out;
}

/** Inclusive ranges of characters that change how others are shown, or can't be seen themselves. */
const DECEPTIVE: readonly (readonly [number, number])[] = [
  [0x00, 0x08],
  [0x0b, 0x1f],
  [0x7f, 0x9f],
  [0xad, 0xad],
  [0x61c, 0x61c],
  [0x180e, 0x180e],
  [0x200b, 0x200f],
  [0x2028, 0x202e],
  [0x2060, 0x206f],
  [0xd800, 0xdfff],
  [0xfeff, 0xfeff],
  [0xfff9, 0xfffb],
  [0xe0000, 0xe007f],
];

function deceives(point: number): boolean {
  return DECEPTIVE.some(([first, last]) => point >= first && point <= last);
}
