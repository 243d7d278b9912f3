/** What went wrong, in two sentences: what happened, what to do. */
import { HubError, makeVisible, type ErrorBody } from "@baton/sdk";
import { useWords } from "../context.tsx";
import { Icon } from "./icons.tsx";

export function Trouble({ error, onDismiss, tone = "bad" }: { error: HubError | ErrorBody; onDismiss?: () => void; tone?: "bad" | "warn" }) {
  const { t } = useWords();
  return (
    <div className="trouble" role="alert" data-testid="trouble" data-code={error.code} data-tone={tone}>
      <Icon name="alert" />
      <div>
        <p>{makeVisible(error.message)}</p>
        {error.hint && <p className="quiet">{makeVisible(error.hint)}</p>}
      </div>
      {onDismiss && (
        <button type="button" className="icon-button" aria-label={t("dismiss")} onClick={onDismiss}>
          <Icon name="cross" />
        </button>
      )}
    </div>
  );
}

export function asHubError(error: unknown): HubError {
  return error instanceof HubError ? error : new HubError("internal", String(error), "", 0);
}
