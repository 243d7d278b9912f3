/** What went wrong, in two sentences: what happened, what to do. */
import { HubError, makeVisible, type ErrorBody, type ErrorCode } from "@baton/sdk";
import { useWords } from "../context.tsx";
import { zhErrors } from "../i18n/zh_errors.ts";
import { Icon } from "./icons.tsx";

export function Trouble({ error, onDismiss, tone = "bad" }: { error: HubError | ErrorBody; onDismiss?: () => void; tone?: "bad" | "warn" }) {
  const { t, language } = useWords();
  const here = error.code === "unreachable";
  // The hub speaks English: in Chinese its code says what kind of thing went wrong, and its own words follow.
  const known = !here && language === "zh" ? zhErrors[error.code as ErrorCode] : undefined;
  const words = here ? [t("unreachable"), t("unreachable_hint")] : [known, makeVisible(error.message), error.hint && makeVisible(error.hint)].filter(Boolean);
  return (
    <div className="trouble" role="alert" data-testid="trouble" data-code={error.code} data-tone={tone}>
      <Icon name="alert" />
      <div>
        {words.map((each, index) => <p key={index} className={index === 0 ? undefined : "quiet"}>{each}</p>)}
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
