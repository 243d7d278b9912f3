/** The files that a task has changed, and the way to what has changed inside them. */
import { makeVisible, type CallEntity } from "@baton/sdk";
import { useMemo } from "react";
import { changedFiles } from "../changes.ts";
import { useWords } from "../context.tsx";
import type { Key } from "../i18n/index.ts";
import { Icon } from "./icons.tsx";

export interface ChangesProps {
  calls: CallEntity[];
  taskId: string;
  unfolded?: boolean;
  onShowDiff: () => void;
}

export function Changes({ calls, taskId, unfolded = false, onShowDiff }: ChangesProps) {
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
      <button type="button" className="quiet-button show-diff" data-testid="show-diff" onClick={onShowDiff}>{t("diff_show")}</button>
    </details>
  );
}
