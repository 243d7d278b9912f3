/**
 * A QR code as a grid of dark and light, for links that a phone's camera reads. Bytes only, versions 1 to 10, error correction of level M:
 * enough for 213 bytes, and nothing that isn't needed here. After ISO/IEC 18004.
 */

/** By version: codewords of error correction in a block, blocks, and data codewords of the shorter blocks. */
const LAYOUT: readonly (readonly [correction: number, blocks: number, data: number])[] = [
  [10, 1, 16], [16, 1, 28], [26, 1, 44], [18, 2, 32], [24, 2, 43], [16, 4, 27], [18, 4, 31], [22, 4, 38], [22, 5, 36], [26, 5, 43],
];
/** Data codewords in all: in some versions the last blocks have one more than the first. */
const DATA: readonly number[] = [16, 28, 44, 64, 86, 108, 124, 154, 182, 216];
/** Where the small marks stand. */
const MARKS: readonly (readonly number[])[] = [[], [6, 18], [6, 22], [6, 26], [6, 30], [6, 34], [6, 22, 38], [6, 24, 42], [6, 26, 46], [6, 28, 50]];

/** Rows of modules, `true` where it is dark; `null` when the text is too long. */
export function qrCode(text: string): boolean[][] | null {
  const bytes = new TextEncoder().encode(text);
  const version = DATA.findIndex((capacity, index) => bytes.length <= capacity - (index + 1 < 10 ? 2 : 3)) + 1;
  if (version === 0) return null;
  const codewords = interleave(version, dataOf(version, bytes));
  let best: boolean[][] | null = null;
  let least = Infinity;
  for (let mask = 0; mask < 8; mask += 1) {
    const grid = draw(version, codewords, mask);
    const ugliness = penalty(grid);
    if (ugliness < least) [best, least] = [grid, ugliness];
  }
  return best;
}

function dataOf(version: number, bytes: Uint8Array): number[] {
  const bits: number[] = [];
  const put = (value: number, length: number) => {
    for (let bit = length - 1; bit >= 0; bit -= 1) bits.push((value >> bit) & 1);
  };
  const capacity = (DATA[version - 1] ?? 0) * 8;
  put(0b0100, 4);
  put(bytes.length, version < 10 ? 8 : 16);
  for (const byte of bytes) put(byte, 8);
  put(0, Math.min(4, capacity - bits.length));
  put(0, (8 - (bits.length % 8)) % 8);
  for (let filler = 0xec; bits.length < capacity; filler ^= 0xec ^ 0x11) put(filler, 8);
  return Array.from({ length: capacity / 8 }, (_, index) => bits.slice(index * 8, index * 8 + 8).reduce((sum, bit) => (sum << 1) | bit, 0));
}

function interleave(version: number, data: number[]): number[] {
  const [correction, blocks, short] = LAYOUT[version - 1] ?? [0, 0, 0];
  const longer = data.length - short * blocks;
  const divisor = generator(correction);
  const parts: { data: number[]; check: number[] }[] = [];
  for (let block = 0, from = 0; block < blocks; block += 1) {
    const length = short + (block >= blocks - longer ? 1 : 0);
    const part = data.slice(from, from + length);
    parts.push({ data: part, check: remainder(part, divisor) });
    from += length;
  }
  const out: number[] = [];
  for (let index = 0; index <= short; index += 1) for (const part of parts) if (index < part.data.length) out.push(part.data[index] ?? 0);
  for (let index = 0; index < correction; index += 1) for (const part of parts) out.push(part.check[index] ?? 0);
  return out;
}

/** In the field of 256 elements with the polynomial 0x11d. */
function multiply(a: number, b: number): number {
  let product = 0;
  for (let bit = 7; bit >= 0; bit -= 1) {
    product = (product << 1) ^ ((product >> 7) * 0x11d);
    product ^= ((b >> bit) & 1) * a;
  }
  return product;
}

function generator(degree: number): number[] {
  const result: number[] = Array.from({ length: degree }, (_, index) => Number(index === degree - 1));
  let root = 1;
  for (let step = 0; step < degree; step += 1) {
    for (let index = 0; index < degree; index += 1) result[index] = multiply(result[index] ?? 0, root) ^ (result[index + 1] ?? 0);
    root = multiply(root, 2);
  }
  return result;
}

function remainder(data: number[], divisor: number[]): number[] {
  const result = divisor.map(() => 0);
  for (const byte of data) {
    const factor = byte ^ (result.shift() ?? 0);
    result.push(0);
    divisor.forEach((each, index) => {
      result[index] = (result[index] ?? 0) ^ multiply(each, factor);
    });
  }
  return result;
}

const MASKS: readonly ((x: number, y: number) => boolean)[] = [
  (x, y) => (x + y) % 2 === 0,
  (_, y) => y % 2 === 0,
  (x) => x % 3 === 0,
  (x, y) => (x + y) % 3 === 0,
  (x, y) => (Math.floor(x / 3) + Math.floor(y / 2)) % 2 === 0,
  (x, y) => ((x * y) % 2) + ((x * y) % 3) === 0,
  (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2 === 0,
  (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2 === 0,
];

function draw(version: number, codewords: number[], mask: number): boolean[][] {
  const size = version * 4 + 17;
  const grid = Array.from({ length: size }, () => Array.from({ length: size }, () => false));
  const fixed = Array.from({ length: size }, () => Array.from({ length: size }, () => false));
  const set = (x: number, y: number, dark: boolean) => {
    const row = grid[y];
    const own = fixed[y];
    if (!row || !own || x < 0 || x >= size) return;
    row[x] = dark;
    own[x] = true;
  };

  for (let index = 0; index < size; index += 1) {
    set(6, index, index % 2 === 0);
    set(index, 6, index % 2 === 0);
  }
  for (const [cx, cy] of [[3, 3], [size - 4, 3], [3, size - 4]] as const) {
    for (let dy = -4; dy <= 4; dy += 1) {
      for (let dx = -4; dx <= 4; dx += 1) {
        const ring = Math.max(Math.abs(dx), Math.abs(dy));
        set(cx + dx, cy + dy, ring !== 2 && ring !== 4);
      }
    }
  }
  const marks = MARKS[version - 1] ?? [];
  const last = marks.at(-1);
  for (const cx of marks) {
    for (const cy of marks) {
      // Three corners are taken by the large marks.
      if ((cx === 6 && cy === 6) || (cx === 6 && cy === last) || (cx === last && cy === 6)) continue;
      for (let dy = -2; dy <= 2; dy += 1) for (let dx = -2; dx <= 2; dx += 1) set(cx + dx, cy + dy, Math.max(Math.abs(dx), Math.abs(dy)) !== 1);
    }
  }
  drawFormat(size, mask, set);
  if (version >= 7) drawVersion(size, version, set);

  let bit = 0;
  for (let right = size - 1; right >= 1; right -= 2) {
    if (right === 6) right = 5;
    for (let step = 0; step < size; step += 1) {
      for (let side = 0; side < 2; side += 1) {
        const x = right - side;
        const upwards = ((right + 1) & 2) === 0;
        const y = upwards ? size - 1 - step : step;
        const row = grid[y];
        if (!row || fixed[y]?.[x]) continue;
        const dark = (((codewords[bit >> 3] ?? 0) >> (7 - (bit & 7))) & 1) === 1;
        row[x] = dark !== (MASKS[mask]?.(x, y) ?? false);
        bit += 1;
      }
    }
  }
  return grid;
}

function drawFormat(size: number, mask: number, set: (x: number, y: number, dark: boolean) => void): void {
  // Level M is 0.
  let rest = mask;
  for (let step = 0; step < 10; step += 1) rest = (rest << 1) ^ ((rest >> 9) * 0x537);
  const bits = ((mask << 10) | rest) ^ 0x5412;
  const at = (index: number) => ((bits >> index) & 1) === 1;
  for (let index = 0; index <= 5; index += 1) set(8, index, at(index));
  set(8, 7, at(6));
  set(8, 8, at(7));
  set(7, 8, at(8));
  for (let index = 9; index < 15; index += 1) set(14 - index, 8, at(index));
  for (let index = 0; index < 8; index += 1) set(size - 1 - index, 8, at(index));
  for (let index = 8; index < 15; index += 1) set(8, size - 15 + index, at(index));
  set(8, size - 8, true);
}

function drawVersion(size: number, version: number, set: (x: number, y: number, dark: boolean) => void): void {
  let rest = version;
  for (let step = 0; step < 12; step += 1) rest = (rest << 1) ^ ((rest >> 11) * 0x1f25);
  const bits = (version << 12) | rest;
  for (let index = 0; index < 18; index += 1) {
    const dark = ((bits >> index) & 1) === 1;
    const a = size - 11 + (index % 3);
    const b = Math.floor(index / 3);
    set(a, b, dark);
    set(b, a, dark);
  }
}

/** How hard a grid is to read: long runs, blocks, what looks like a large mark, and too much of one colour. */
function penalty(grid: boolean[][]): number {
  const size = grid.length;
  let sum = 0;
  let dark = 0;
  const lines = [...grid, ...grid.map((_, x) => grid.map((row) => row[x] ?? false))];
  for (const line of lines) {
    let run = 1;
    for (let index = 1; index <= size; index += 1) {
      if (index < size && line[index] === line[index - 1]) run += 1;
      else {
        if (run >= 5) sum += run - 2;
        run = 1;
      }
    }
    const text = line.map((each) => (each ? "1" : "0")).join("");
    for (const mark of ["10111010000", "00001011101"]) for (let from = text.indexOf(mark); from >= 0; from = text.indexOf(mark, from + 1)) sum += 40;
  }
  for (let y = 0; y < size; y += 1) {
    for (let x = 0; x < size; x += 1) {
      const here = grid[y]?.[x];
      if (here) dark += 1;
      if (x + 1 < size && y + 1 < size && here === grid[y]?.[x + 1] && here === grid[y + 1]?.[x] && here === grid[y + 1]?.[x + 1]) sum += 3;
    }
  }
  return sum + Math.floor(Math.abs((dark * 20) / (size * size) - 10)) * 10;
}
