/** What the agent had read before it asked or noted something: not the user's words, so not to be taken for them. */
import { makeVisible, type Origins } from "@baton/sdk";
import { Fragment } from "react";
import { useWords } from "../context.tsx";

export function OriginWords({ origins }: { origins: Origins }) {
  const { t } = useWords();
  const read = origins.read ?? [];
  const more = origins.more ?? 0;
  return (
    <span data-testid="origins">
      {read.map(({ kind, name }, index) => (
        <Fragment key={index}>
          {index > 0 && ", "}
          {kind === "path" && name === "." ? t("origins_all") : <code data-kind={kind}>{makeVisible(name)}</code>}
        </Fragment>
      ))}
      {more > 0 && ` ${t("origins_more", { count: more })}`}
      {origins.earlier && `${read.length > 0 ? " · " : ""}${t("origins_earlier")}`}
    </span>
  );
}

export const saysOrigins = (origins: Origins | null | undefined): origins is Origins =>
  origins != null && ((origins.read ?? []).length > 0 || (origins.more ?? 0) > 0 || origins.earlier === true);
