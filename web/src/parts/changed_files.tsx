/** The files that a task has changed. What has changed inside them will stand here too, once the hub tells it. */
import { makeVisible, type CallEntity } from "@baton/sdk";
import { useMemo } from "react";
import { changedFiles } from "../changes.ts";
import { useWords } from "../context.tsx";
import type { Key } from "../i18n/index.ts";
import { Icon } from "./icons.tsx";

export function Changes({ calls, taskId, unfolded = false }: { calls: CallEntity[]; taskId: string; unfolded?: boolean }) {
  const { t } = useWords();
  const files = useMemo(() => changedFiles(calls, taskId), [calls, taskId]);
  if (files.length === 0) return null;
  return (
    <details className="panel changed-files" data-testid="changes" open={unfolded}>
      <summary>
        <span>{t("call_changes")}</span>
        <span className="plan-count">{files.length}</span>
        <Icon name="chevron" className="turns" />
      </summary>
      <ul className="changes">
        {files.map((file) => (
          <li key={file.path} data-state={file.state}>
            <code>{makeVisible(file.path)}</code>
            {file.state !== "changed" && <span className="quiet small">{t(`file_${file.state}` as Key)}</span>}
            <span className="added">+{file.added}</span>
            <span className="removed">−{file.removed}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}
