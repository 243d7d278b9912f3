/** Remembered approvals, as `GET /v1/rules` lists them; written here until the generated types carry them. */
import type { Risk, Sender } from "./types.gen.ts";

export interface Rule {
  rule_id: string;
  tool: string;
  device_id: string;
  directory?: string | null;
  pattern: { kind: "exact"; shown: string } | { kind: "prefix"; words: string[] };
  max_risk: Risk;
  granted_by: Sender;
  granted_at: string;
  /** For this task alone; else for every session. */
  only?: { session_id: string; task_id: string } | null;
}
