/** Files that go with a message: brought up in pieces, kept with the draft, and rid of where a picture was taken. */
import { HubError, type Attachment, type BatonClient } from "@baton/sdk";

/** One that is on its way, or didn't get there. What has arrived is part of the draft. */
export interface Incoming {
  readonly id: number;
  readonly file: File;
  /** 0 to 1. */
  readonly part: number;
  readonly error: HubError | null;
  readonly stop: AbortController;
}

/** Files that go with one message, at most. */
export const MOST_FILES = 10;

const placeOf = (place: string): string => `${place}#files`;

export function keptFiles(client: BatonClient, place: string): Attachment[] {
  try {
    const kept: unknown = JSON.parse(client.drafts.get(placeOf(place)) || "[]");
    return Array.isArray(kept) ? (kept as Attachment[]) : [];
  } catch {
    return [];
  }
}

export function keepFiles(client: BatonClient, place: string, files: Attachment[]): void {
  client.drafts.set(placeOf(place), files.length === 0 ? "" : JSON.stringify(files));
}

/** Pictures in these forms are written anew, which leaves out where and with what they were taken. */
const REWRITTEN = ["image/jpeg", "image/png", "image/webp"];
/** Others may carry it, and can't be written anew here. */
export const mayTellPlace = (type: string): boolean => type.startsWith("image/") && !REWRITTEN.includes(type) && !["image/gif", "image/svg+xml"].includes(type);

export async function withoutPlace(file: File): Promise<Blob> {
  if (!REWRITTEN.includes(file.type)) return file;
  const picture = await createImageBitmap(file);
  const canvas = document.createElement("canvas");
  canvas.width = picture.width;
  canvas.height = picture.height;
  canvas.getContext("2d")?.drawImage(picture, 0, 0);
  picture.close();
  const rewritten = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, file.type, 0.92));
  if (!rewritten) throw new Error("this picture can't be written anew");
  return rewritten;
}

export const bytesOf = (text: string): number => new TextEncoder().encode(text).length;

/** Such as 3.2 MB, in the reader's language. */
export function sizeWords(bytes: number, tag: string): string {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte"] as const;
  let unit = 0;
  let value = bytes;
  for (; value >= 1000 && unit < units.length - 1; unit += 1) value /= 1000;
  return new Intl.NumberFormat(tag, { style: "unit", unit: units[unit] ?? "byte", unitDisplay: "short", maximumFractionDigits: value < 10 && unit > 0 ? 1 : 0 }).format(value);
}
