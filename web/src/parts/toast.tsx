/** Where what was just done is said. */
import { useWords } from "../context.tsx";
import { showToast, useToast } from "../toast.ts";
import { Icon } from "./icons.tsx";

export function ToastLine() {
  const { t } = useWords();
  const toast = useToast();
  return (
    <div className="toast-place" role="status">
      {toast && (
        <div className="toast" data-testid="toast">
          <p>{toast.words}</p>
          {toast.action && (
            <button type="button" className="quiet-button" data-testid="toast-undo" onClick={() => { toast.action?.run(); showToast(null); }}>{toast.action.words}</button>
          )}
          <button type="button" className="icon-button" aria-label={t("dismiss")} onClick={() => showToast(null)}><Icon name="cross" /></button>
        </div>
      )}
    </div>
  );
}
