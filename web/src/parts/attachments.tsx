/** Files on a draft and on a message. */
import { makeVisible, type Attachment } from "@baton/sdk";
import { useRef, useState } from "react";
import { useClient, useWords } from "../context.tsx";
import { keepFiles, keptFiles, mayTellPlace, MOST_FILES, sizeWords, withoutPlace, type Incoming } from "../files.ts";
import { tagOf } from "../i18n/index.ts";
import { Icon } from "./icons.tsx";
import { asHubError } from "./trouble.tsx";

let counter = 0;

/** What is on its way for a place, and the way to add more. */
export function useIncoming(place: string) {
  const client = useClient();
  const [incoming, setIncoming] = useState<Incoming[]>([]);
  const change = (id: number, to: Partial<Incoming> | null) =>
    setIncoming((all) => (to === null ? all.filter((one) => one.id !== id) : all.map((one) => (one.id === id ? { ...one, ...to } : one))));

  async function bring({ id, file, stop }: Incoming) {
    change(id, { error: null, part: 0 });
    try {
      let bytes: Blob;
      try {
        bytes = await withoutPlace(file);
      } catch {
        // What isn't the picture that it says it is goes up as the bytes that it is.
        bytes = file;
      }
      const digest = await client.hub.upload(bytes, { signal: stop.signal, onProgress: (sent, total) => change(id, { part: total === 0 ? 1 : sent / total }) });
      const name = file.name.split(/[\\/]/).at(-1) || "file";
      keepFiles(client, place, [...keptFiles(client, place).filter((kept) => kept.digest !== digest || kept.name !== name), { digest, name, media_type: file.type || "application/octet-stream", bytes: bytes.size }]);
      change(id, null);
    } catch (caught) {
      if (!stop.signal.aborted) change(id, { error: asHubError(caught) });
    }
  }

  return {
    incoming,
    add(files: Iterable<File>) {
      const room = Math.max(0, MOST_FILES - keptFiles(client, place).length - incoming.length);
      const made = [...files].slice(0, room).map((file) => ({ id: (counter += 1), file, part: 0, error: null, stop: new AbortController() }));
      setIncoming((all) => [...all, ...made]);
      for (const one of made) void bring(one);
      return made.length > 0;
    },
    retry: (one: Incoming) => void bring(one),
    remove(one: Incoming) {
      one.stop.abort();
      change(one.id, null);
    },
  };
}

export function DraftFiles({ place, incoming, retry, remove }: { place: string; incoming: Incoming[]; retry: (one: Incoming) => void; remove: (one: Incoming) => void }) {
  const client = useClient();
  const { t, language } = useWords();
  const kept = keptFiles(client, place);
  if (kept.length + incoming.length === 0) return null;
  return (
    <ul className="files" aria-label={t("files")}>
      {kept.map((file) => (
        <li key={`${file.digest}${file.name}`} className="file" data-testid="draft-file">
          <FileWords name={file.name} notes={[sizeWords(file.bytes ?? 0, tagOf(language)), mayTellPlace(file.media_type) ? t("file_place") : ""]} />
          <Remove name={file.name} onRemove={() => keepFiles(client, place, kept.filter((one) => one !== file))} />
        </li>
      ))}
      {incoming.map((one) => (
        <li key={one.id} className="file" data-testid="incoming-file" data-failed={one.error !== null}>
          <FileWords name={one.file.name} notes={[one.error ? makeVisible(one.error.code === "unreachable" ? t("unreachable") : one.error.message) : ""]} />
          {one.error ? (
            <button type="button" className="quiet-button" onClick={() => retry(one)}>{t("try_again")}</button>
          ) : (
            <progress max={1} value={one.part} aria-label={one.file.name} />
          )}
          <Remove name={one.file.name} onRemove={() => remove(one)} />
        </li>
      ))}
    </ul>
  );
}

function FileWords({ name, notes }: { name: string; notes: string[] }) {
  return (
    <span className="file-words">
      <span className="file-name">{makeVisible(name)}</span>
      <span className="quiet small">{notes.filter(Boolean).join(" · ")}</span>
    </span>
  );
}

function Remove({ name, onRemove }: { name: string; onRemove: () => void }) {
  const { t } = useWords();
  return (
    <button type="button" className="icon-button" data-testid="file-remove" aria-label={t("file_remove", { name: makeVisible(name) })} onClick={onRemove}>
      <Icon name="cross" />
    </button>
  );
}

export function AttachButton({ onFiles }: { onFiles: (files: Iterable<File>) => void }) {
  const { t } = useWords();
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        data-testid="file-input"
        onChange={(event) => {
          onFiles([...(event.target.files ?? [])]);
          event.target.value = "";
        }}
      />
      <button type="button" className="icon-button" data-testid="attach" aria-label={t("attach")} title={t("attach")} onClick={() => input.current?.click()}>
        <Icon name="clip" />
      </button>
    </>
  );
}

/** The files of a message that was said; the hub hands them over, whoever looks. */
export function MessageFiles({ files }: { files: readonly Attachment[] }) {
  const { t, language } = useWords();
  return (
    <ul className="files" aria-label={t("files")}>
      {files.map((file) => (
        <li key={`${file.digest}${file.name}`} className="file" data-testid="message-file">
          <Icon name="clip" />
          <a className="file-words" href={`/v1/blobs/${encodeURIComponent(file.digest)}`} download={file.name}>
            <span className="file-name">{makeVisible(file.name)}</span>
            {file.bytes !== undefined && <span className="quiet small">{sizeWords(file.bytes, tagOf(language))}</span>}
          </a>
        </li>
      ))}
    </ul>
  );
}
