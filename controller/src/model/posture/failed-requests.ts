import type { failedServiceRequest, osType, postureCheckFailure } from "@sallyport/api";
import type { z } from "zod";
import { mfaRemainingSeconds, mfaState, type Posture, type PostureCheck, processReport } from "../../policy/posture.ts";

export type CheckFailure = z.input<typeof postureCheckFailure>;
export type FailedRequest = z.input<typeof failedServiceRequest>;

/** What a check wanted and what was known then. @param now milliseconds since 1970 */
export function describeFailure(check: PostureCheck, { device, session }: Posture, now: number): CheckFailure {
  const common = { postureCheckId: check.id, postureCheckName: check.name };
  switch (check.typeId) {
    case "OS":
      return {
        ...common,
        postureCheckType: "OS",
        actualValue: { type: device.os?.type ?? "", version: device.os?.version ?? "" },
        expectedValue: check.operatingSystems.map(({ type, versions }) => ({
          type: osName(type),
          versions: [...versions],
        })),
      };
    case "DOMAIN":
      return {
        ...common,
        postureCheckType: "DOMAIN",
        actualValue: device.domain?.domain ?? "",
        expectedValue: [...check.domains],
      };
    case "MAC":
      return {
        ...common,
        postureCheckType: "MAC",
        actualValue: [...(device.mac?.addresses ?? [])],
        expectedValue: [...check.macAddresses],
      };
    case "PROCESS": {
      const { osType, path, hashes, signerFingerprint } = check.process;
      return {
        ...common,
        postureCheckType: "PROCESS",
        actualValue: actualProcess(processReport(device, check.id), { osType, path }),
        expectedValue: {
          osType: osName(osType),
          path,
          hashes: [...hashes],
          ...(signerFingerprint === undefined ? {} : { signerFingerprint }),
        },
      };
    }
    case "PROCESS_MULTI":
      return {
        ...common,
        postureCheckType: "PROCESS_MULTI",
        semantic: check.semantic,
        actualValue: check.processes.map((each) => actualProcess(processReport(device, check.id, each.path), each)),
        expectedValue: check.processes.map(({ osType, path, hashes, signerFingerprints }) => ({
          osType: osName(osType),
          path,
          hashes: [...hashes],
          signerFingerprints: [...signerFingerprints],
        })),
      };
    case "MFA":
      return {
        ...common,
        postureCheckType: "MFA",
        actualValue: mfaState(check, session, now),
        expectedValue: { passedMfa: true, passedOnUnlock: true, passedOnWake: true, timedOut: false },
        criteria: {
          passedMfaAt: timeOrNull(session.mfaPassedAt),
          timeoutRemainingSeconds: mfaRemainingSeconds(check, session, now),
          timeoutSeconds: check.timeoutSeconds,
          unlockedAt: timeOrNull(session.unlockedAt),
          wokenAt: timeOrNull(session.wokenAt),
        },
      };
  }
}

type OsName = z.infer<typeof osType>;

function osName(type: string): OsName {
  // Checked against the names when the check was stored.
  return type as OsName;
}

function actualProcess(
  report: ReturnType<typeof processReport>,
  wanted: { readonly osType: string; readonly path: string },
) {
  return {
    hash: report?.hash ?? "",
    isRunning: report?.isRunning ?? false,
    osType: osName(wanted.osType),
    path: report?.path ?? wanted.path,
    signerFingerprints: [...(report?.signerFingerprints ?? [])],
  };
}

export function timeOrNull(at: number | undefined): string | null {
  return at === undefined ? null : new Date(at).toISOString();
}

const MOST_EACH = 100;
const MOST_CHARACTERS = 16 * 1024 * 1024;

interface Entry {
  readonly request: FailedRequest;
  readonly characters: number;
}

/** The newest hundred failed requests of each identity, in memory; of all together only so much text as is bounded here. */
export class FailedRequests {
  readonly #mostCharacters: number;
  readonly #byIdentity = new Map<string, Entry[]>();
  #characters = 0;

  constructor(mostCharacters = MOST_CHARACTERS) {
    this.#mostCharacters = mostCharacters;
  }

  add(identityId: string, request: FailedRequest): void {
    const entries = this.#byIdentity.get(identityId) ?? [];
    const characters = JSON.stringify(request).length;
    entries.push({ request, characters });
    this.#characters += characters;
    if (entries.length > MOST_EACH) this.#characters -= entries.shift()?.characters ?? 0;
    this.#byIdentity.delete(identityId);
    this.#byIdentity.set(identityId, entries);
    while (this.#characters > this.#mostCharacters) {
      const oldest = this.#byIdentity.keys().next().value;
      if (oldest === undefined) return;
      this.forget(oldest);
    }
  }

  /** Oldest first. */
  of(identityId: string): FailedRequest[] {
    return (this.#byIdentity.get(identityId) ?? []).map(({ request }) => request);
  }

  forget(identityId: string): void {
    for (const { characters } of this.#byIdentity.get(identityId) ?? []) this.#characters -= characters;
    this.#byIdentity.delete(identityId);
  }
}
