/**
 * A file on its way up, in pieces, by tus 1.0: what breaks off goes on where it stopped. Knows bytes and the hub's HTTP side, not what
 * they are for.
 */
import { HubError } from "./hub.ts";
import type { Digest, Problem } from "./types.gen.ts";

export interface UploadOptions {
  /** Bytes that the hub has, of all. */
  onProgress?: (sent: number, total: number) => void;
  signal?: AbortSignal;
}

const PIECE_BYTES = 1024 * 1024;
/** A piece that doesn't get through is tried so often before the user is told. */
const TRIES = 6;
const PAUSE_MS = 500;

/** Resolves to the name of the blob that the bytes became. Throws a `HubError` for what the hub refuses, and when it can't be reached for long. */
export async function upload(fetcher: typeof fetch, base: string, bytes: Blob, { onProgress, signal }: UploadOptions = {}): Promise<Digest> {
  const ask = async (method: string, path: string, headers: Record<string, string>, body?: Blob): Promise<Response> =>
    fetcher(base + path, {
      method,
      cache: "no-store",
      credentials: "same-origin",
      headers: { "tus-resumable": "1.0.0", ...headers },
      ...(body ? { body } : {}),
      ...(signal ? { signal } : {}),
    });

  const begun = await patiently(() => ask("POST", "/v1/uploads", { "upload-length": String(bytes.size) }), signal);
  if (begun.status !== 201) throw await refusal(begun);
  const path = new URL(begun.headers.get("location") ?? "", "http://hub").pathname;
  let offset = 0;
  for (let tries = 0; ; ) {
    signal?.throwIfAborted();
    onProgress?.(offset, bytes.size);
    try {
      const answer = await ask("PATCH", path, { "upload-offset": String(offset), "content-type": "application/offset+octet-stream" }, bytes.slice(offset, offset + PIECE_BYTES));
      if (answer.status === 204) {
        offset = Number(answer.headers.get("upload-offset"));
        const blob = answer.headers.get("upload-blob");
        if (blob) {
          onProgress?.(bytes.size, bytes.size);
          return blob;
        }
        tries = 0;
        continue;
      }
      // 409 and 423: it stands elsewhere, or another connection of ours was in the way; 408: nothing came for long.
      if (![408, 409, 423, 429].includes(answer.status) && answer.status < 500) throw await refusal(answer);
    } catch (error) {
      if (error instanceof HubError || signal?.aborted) throw error;
    }
    tries += 1;
    if (tries >= TRIES) throw unreachable();
    await pause(PAUSE_MS * 2 ** (tries - 1), signal);
    const state = await patiently(() => ask("HEAD", path, {}), signal);
    if (!state.ok) throw await refusal(state);
    const done = state.headers.get("upload-blob");
    if (done) return done;
    offset = Number(state.headers.get("upload-offset"));
  }
}

async function patiently(ask: () => Promise<Response>, signal: AbortSignal | undefined): Promise<Response> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      if (signal?.aborted) throw error;
      if (tries >= TRIES) throw unreachable();
      await pause(PAUSE_MS * 2 ** (tries - 1), signal);
    }
  }
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    });
  });
}

const unreachable = (): HubError => new HubError("unreachable", "The hub can't be reached.", "Try again when the connection is back.", 0);

async function refusal(answer: Response): Promise<HubError> {
  const problem = (await answer.json().catch(() => ({}))) as Partial<Problem>;
  return new HubError(
    problem.code ?? (answer.status === 401 ? "unauthenticated" : "internal"),
    problem.detail ?? `The hub answered with status ${answer.status}.`,
    problem.hint ?? "Try again in a moment.",
    answer.status,
  );
}
