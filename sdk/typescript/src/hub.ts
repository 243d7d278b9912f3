/** The hub's HTTP side, same origin; the token is a cookie that scripts never see. */
import type {
  Brief,
  Capabilities,
  ClientType,
  DevicePatch,
  DeviceView,
  ErrorBody,
  ErrorCode,
  FoundPaths,
  History,
  HubInfo,
  Invitation,
  InvitationState,
  InvitationView,
  PairingPreview,
  PairingStarted,
  PairingState,
  Problem,
  Rule,
  SearchResults,
  SessionList,
  SessionView,
  Trust,
  WorkspaceDiff,
} from "./types.ts";

import { upload, type UploadOptions } from "./upload.ts";

/** What the hub refused, in a code for programs and two sentences for people. */
export class HubError extends Error {
  readonly code: ErrorCode | "unreachable";
  readonly hint: string;
  readonly status: number;

  constructor(code: ErrorCode | "unreachable", message: string, hint: string, status: number) {
    super(message);
    this.name = "HubError";
    this.code = code;
    this.hint = hint;
    this.status = status;
  }

  static of(body: ErrorBody): HubError {
    return new HubError(body.code, body.message, body.hint, 0);
  }
}

/** How a new device describes itself. */
export interface Introduction {
  name: string;
  client_type: ClientType;
  capabilities: Capabilities;
}

export class Hub {
  #base: string;
  #fetch: typeof fetch;

  /** `base` is the hub's origin; empty for the page's own. */
  constructor(base = "", fetcher: typeof fetch = (input, init) => fetch(input, init)) {
    this.#base = base;
    this.#fetch = fetcher;
  }

  info(): Promise<HubInfo> {
    return this.#call("GET", "/v1/hub");
  }
  sessions(before?: string, archived = false): Promise<SessionList> {
    const asks = [before ? `before=${encodeURIComponent(before)}` : "", archived ? "archived=true" : ""].filter(Boolean).join("&");
    return this.#call("GET", `/v1/sessions${asks ? `?${asks}` : ""}`);
  }
  view(sessionId: string): Promise<SessionView> {
    return this.#call("GET", `/v1/sessions/${encodeURIComponent(sessionId)}`);
  }
  brief(sessionId: string): Promise<Brief> {
    return this.#call("GET", `/v1/sessions/${encodeURIComponent(sessionId)}/brief`);
  }
  history(sessionId: string, before: number, limit?: number): Promise<History> {
    return this.#call("GET", `/v1/sessions/${encodeURIComponent(sessionId)}/history?before=${before}${limit === undefined ? "" : `&limit=${limit}`}`);
  }
  async devices(): Promise<DeviceView[]> {
    return (await this.#call<{ devices: DeviceView[] }>("GET", "/v1/devices")).devices;
  }
  /** Messages in which all of the words stand, the newest first. */
  search(words: string, limit: number, signal?: AbortSignal): Promise<SearchResults> {
    return this.#call("GET", `/v1/search?q=${encodeURIComponent(words)}&limit=${limit}`, undefined, signal);
  }
  /** Paths of the session's workspace that fit what was begun, the best first; `signal` ends the question when another follows. */
  paths(sessionId: string, query: string, limit: number, signal?: AbortSignal): Promise<FoundPaths> {
    return this.#call("GET", `/v1/sessions/${encodeURIComponent(sessionId)}/paths?q=${encodeURIComponent(query)}&limit=${limit}`, undefined, signal);
  }
  /** Where a file of the session's workspace is read, whichever device holds it. */
  fileUrl(sessionId: string, path: string): string {
    return `${this.#base}/v1/sessions/${encodeURIComponent(sessionId)}/file?path=${encodeURIComponent(path)}`;
  }
  /** A file of the session's workspace: its kind as the hub found it, and its bytes. */
  async file(sessionId: string, path: string): Promise<{ type: string; bytes: Blob }> {
    const response = await this.#request("GET", this.fileUrl(sessionId, path).slice(this.#base.length), undefined, FILE_MS);
    if (!response.ok) throw refusal(response, parse(await response.text()));
    return { type: response.headers.get("content-type") ?? "application/octet-stream", bytes: await response.blob() };
  }
  /** Brings bytes up in pieces; answers with the name of the blob that they became. */
  upload(bytes: Blob, options?: UploadOptions): Promise<string> {
    return upload(this.#fetch, this.#base, bytes, options);
  }
  /** What the agent changed in one task of a session; the device that holds the workspace tells it. */
  diff(sessionId: string, taskId: string): Promise<WorkspaceDiff> {
    return this.#call("GET", `/v1/sessions/${encodeURIComponent(sessionId)}/diff?task=${encodeURIComponent(taskId)}`);
  }
  async rules(): Promise<Rule[]> {
    return (await this.#call<{ rules: Rule[] }>("GET", "/v1/rules")).rules;
  }
  removeRule(ruleId: string): Promise<unknown> {
    return this.#call("DELETE", `/v1/rules/${encodeURIComponent(ruleId)}`);
  }
  patchDevice(deviceId: string, patch: DevicePatch): Promise<unknown> {
    return this.#call("PATCH", `/v1/devices/${encodeURIComponent(deviceId)}`, patch);
  }
  revokeDevice(deviceId: string): Promise<unknown> {
    return this.#call("DELETE", `/v1/devices/${encodeURIComponent(deviceId)}`);
  }
  /** This device gives its token up. */
  signOut(): Promise<unknown> {
    return this.#call("POST", "/v1/signout", {});
  }
  /** Opens a link. What answers `asking` shows its number, and asks `claimPairing` what became of it. */
  claimInvitation(secret: string, who: Introduction): Promise<InvitationState> {
    return this.#call("POST", "/v1/invitations/claim", { secret, ...who, cookie: true });
  }
  invite(trust: Trust): Promise<Invitation> {
    return this.#call("POST", "/v1/invitations", { trust });
  }
  /** The links that this very device made, the newest first, and who asks to be let in by them. */
  async invitations(): Promise<InvitationView[]> {
    return (await this.#call<{ invitations: InvitationView[] }>("GET", "/v1/invitations")).invitations;
  }
  /** The person here saw that the new device shows this number. */
  approveInvitation(invitationId: string, number: string): Promise<InvitationView> {
    return this.#call("POST", `/v1/invitations/${encodeURIComponent(invitationId)}/approve`, { number });
  }
  refuseInvitation(invitationId: string): Promise<InvitationView> {
    return this.#call("POST", `/v1/invitations/${encodeURIComponent(invitationId)}/refuse`, {});
  }
  startPairing(who: Introduction): Promise<PairingStarted> {
    return this.#call("POST", "/v1/pairings", who);
  }
  claimPairing(pairingId: string, secret: string): Promise<PairingState> {
    return this.#call("POST", `/v1/pairings/${encodeURIComponent(pairingId)}/claim`, { secret, cookie: true });
  }
  previewPairing(code: string): Promise<PairingPreview> {
    return this.#call("GET", `/v1/pairings/${encodeURIComponent(code)}`);
  }
  /** The person here saw that the new device shows this number. */
  approvePairing(code: string, trust: Trust, number: string): Promise<unknown> {
    return this.#call("POST", `/v1/pairings/${encodeURIComponent(code)}/approve`, { trust, number });
  }
  /** Whether anything answers within the time; says nothing about who is signed in. */
  async reachable(timeoutMs: number): Promise<boolean> {
    try {
      await this.#fetch(`${this.#base}/healthz`, { cache: "no-store", signal: AbortSignal.timeout(timeoutMs) });
      return true;
    } catch {
      return false;
    }
  }

  async #call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
    const response = await this.#request(method, path, body, CALL_MS, signal);
    const text = await response.text();
    const value = parse(text);
    if (response.ok) return value as T;
    throw refusal(response, value);
  }

  async #request(method: string, path: string, body: unknown, patience: number, signal?: AbortSignal): Promise<Response> {
    const patient = AbortSignal.timeout(patience);
    try {
      return await this.#fetch(this.#base + path, {
        method,
        cache: "no-store",
        credentials: "same-origin",
        signal: signal ? AbortSignal.any([signal, patient]) : patient,
        ...(body === undefined ? {} : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
      });
    } catch {
      throw new HubError("unreachable", "The hub can't be reached.", "Check that it is running and that this device is on its network.", 0);
    }
  }
}

const CALL_MS = 10_000;
/** A file may be fetched from another machine, in parts. */
const FILE_MS = 60_000;

function refusal(response: Response, value: unknown): HubError {
  const problem = (value ?? {}) as Partial<Problem>;
  return new HubError(
    problem.code ?? (response.status === 401 ? "unauthenticated" : "internal"),
    problem.detail ?? `The hub answered with status ${response.status}.`,
    problem.hint ?? "Try again in a moment.",
    response.status,
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
