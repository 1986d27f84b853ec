import { KubeError } from "../client/errors.ts";
import type { ResourceKind } from "../kinds.ts";
import type { Check } from "./health-server.ts";

/** What a check must know of a reflector. */
export interface Watched {
  readonly kind: ResourceKind;
  readonly isSynced: boolean;
  readonly silentMs: number;
  readonly lastError: Error | undefined;
}

/** A reflector that hears nothing although nothing is known to be wrong for longer than this is stuck: even a silent watch ends and begins anew sooner. */
const STUCK_MS = 10 * 60_000;

/**
 * Ready once everything was listed; not ready says what is missing and why. What was listed and may not be watched is
 * missing, too, and so is a kind that the server does not know any more: unlike a server that is away, nothing would end that by itself.
 */
export function syncedCheck(reflectors: Iterable<Watched>): Check {
  return () => {
    const missing = [...reflectors].filter(({ isSynced, lastError }) => !isSynced || isRefused(lastError));
    if (missing.length === 0) return undefined;
    return missing
      .map(({ kind, lastError }) => `${kind.plural} ${lastError?.message ?? "are not listed yet"}`)
      .join("; ");
  };
}

/**
 * Live while every reflector hears its server or knows why it does not. A server that is away is no reason to restart:
 * the reflector tries again by itself, and a restart would only lose what it knows.
 */
export function stuckCheck(reflectors: Iterable<Watched>, stuckMs = STUCK_MS): Check {
  return () => {
    const stuck = [...reflectors].filter(({ lastError, silentMs }) => lastError === undefined && silentMs > stuckMs);
    if (stuck.length === 0) return undefined;
    return `nothing heard of ${stuck.map(({ kind }) => kind.plural).join(", ")} for ${stuckMs / 1000} s`;
  };
}

const isRefused = (error: Error | undefined): boolean =>
  error instanceof KubeError && (error.isForbidden || error.isNotFound);
