import {
  type DevicePosture,
  NOTHING_REPORTED,
  type Posture,
  type ProcessReport,
  type SessionPosture,
} from "../../policy/posture.ts";

/** A report as the API takes it, its type by the short name. */
export type PostureReport =
  | {
      readonly typeId: "OS";
      readonly id: string;
      readonly type: string;
      readonly version: string;
      readonly build: string;
    }
  | { readonly typeId: "DOMAIN"; readonly id: string; readonly domain: string }
  | { readonly typeId: "MAC"; readonly id: string; readonly addresses: readonly string[] }
  | {
      readonly typeId: "PROCESS";
      readonly id: string;
      readonly path: string;
      readonly isRunning: boolean;
      readonly hash: string;
      readonly signerFingerprints: readonly string[];
    }
  | { readonly typeId: "ENDPOINT_STATE"; readonly woken: boolean; readonly unlocked: boolean };

/** Limits of what is kept; whoever was silent longest is forgotten first. */
export interface ReportLimits {
  readonly mostIdentities: number;
  readonly mostSessions: number;
  readonly mostProcesses: number;
  /** Characters of the reports of one identity, and of all together. */
  readonly mostCharactersEach: number;
  readonly mostCharacters: number;
}

export const REPORT_LIMITS: ReportLimits = {
  mostIdentities: 200_000,
  mostSessions: 400_000,
  mostProcesses: 64,
  mostCharactersEach: 16 * 1024,
  mostCharacters: 64 * 1024 * 1024,
};

interface Device {
  posture: DevicePosture;
  characters: number;
}

interface Session extends SessionPosture {
  readonly identityId: string;
}

/** What the store is to hold of an identity; without a device: nothing. */
export interface Unwritten {
  readonly identityId: string;
  readonly device?: DevicePosture;
}

/**
 * What devices reported, by identity, and what belongs to single API sessions. Everything is decided by what is in memory; of the devices, the store has a copy
 * (`stored-reports.ts`), whose reports are read when they are asked for first. Bounded in every direction, because everything in it comes from clients:
 * what is stored and was not read yet counts, too.
 */
export class PostureReports {
  readonly #limits: ReportLimits;
  /** In the order of their last report. */
  readonly #devices = new Map<string, Device>();
  readonly #sessions = new Map<string, Session>();
  /** Identities whose reports are in the store only, with the length of these; who was silent longest first. */
  readonly #unread = new Map<string, number>();
  /** Identities of which the store does not hold what is here. */
  readonly #unwritten = new Set<string>();
  #characters = 0;

  constructor(limits: ReportLimits = REPORT_LIMITS) {
    this.#limits = limits;
  }

  /** What is known of an identity's device and of one of its API sessions. */
  of(identityId: string, apiSessionId: string): Posture {
    const session = this.#sessions.get(apiSessionId);
    return {
      device: this.#devices.get(identityId)?.posture ?? NOTHING_REPORTED.device,
      session: session?.identityId === identityId ? session : NOTHING_REPORTED.session,
    };
  }

  /** Has the identity reported anything of its device? */
  hasReported(identityId: string): boolean {
    return this.#devices.has(identityId) || this.#unread.has(identityId);
  }

  /** The store holds a report that is not in memory. */
  isUnread(identityId: string): boolean {
    return this.#unread.has(identityId);
  }

  /** Notes a report that the store holds. Of whom something is here, nothing has to be read. */
  noteStored(identityId: string, characters: number): void {
    if (this.hasReported(identityId)) return;
    this.#unread.set(identityId, characters);
    this.#characters += characters;
    this.#keepBounds();
  }

  /** Takes what the store holds, where it is still wanted; undefined = it holds nothing any more. */
  takeStored(identityId: string, device: DevicePosture | undefined): void {
    if (!this.#unread.has(identityId)) return;
    if (device === undefined) this.#drop(identityId);
    else this.#setDevice(identityId, device);
  }

  /** Up to so many identities of which the store is to hold something else. They are taken for written from now on. */
  takeUnwritten(most: number): Unwritten[] {
    return [...this.#unwritten.keys().take(most)].map((identityId) => {
      this.#unwritten.delete(identityId);
      const device = this.#devices.get(identityId)?.posture;
      return device === undefined ? { identityId } : { identityId, device };
    });
  }

  /** They could not be written. */
  notWritten(unwritten: readonly Unwritten[]): void {
    for (const { identityId } of unwritten) this.#unwritten.add(identityId);
  }

  get hasUnwritten(): boolean {
    return this.#unwritten.size > 0;
  }

  /** The store holds these no longer. What was reported since is kept. */
  removedFromStore(identityIds: Iterable<string>): void {
    for (const id of identityIds) if (!this.#unwritten.has(id)) this.#drop(id);
  }

  /** Takes one report; the last of a kind counts. @param at milliseconds since 1970 */
  add(identityId: string, apiSessionId: string, report: PostureReport, at: number): void {
    if (report.typeId === "ENDPOINT_STATE") {
      this.#setSession(identityId, apiSessionId, {
        ...(report.woken ? { wokenAt: at } : {}),
        ...(report.unlocked ? { unlockedAt: at } : {}),
      });
      return;
    }
    const before = this.#devices.get(identityId)?.posture ?? NOTHING_REPORTED.device;
    this.#unwritten.add(identityId);
    this.#setDevice(identityId, { ...before, ...this.#reported(before, report, at) });
  }

  /** TOTP was passed in the session. @param at milliseconds since 1970 */
  passedMfa(identityId: string, apiSessionId: string, at: number): void {
    this.#setSession(identityId, apiSessionId, { mfaPassedAt: at });
  }

  /** TOTP was never passed in these sessions. */
  forgetMfa(apiSessionIds: Iterable<string>): void {
    for (const id of apiSessionIds) {
      const session = this.#sessions.get(id);
      if (session === undefined) continue;
      const { mfaPassedAt: _, ...rest } = session;
      this.#sessions.set(id, rest);
    }
  }

  forgetSession(apiSessionId: string): void {
    this.#sessions.delete(apiSessionId);
  }

  forgetIdentity(identityId: string): void {
    if (this.#drop(identityId)) this.#unwritten.add(identityId);
  }

  /** How much is kept, here or in the store only. */
  get size(): { readonly identities: number; readonly sessions: number; readonly characters: number } {
    return {
      identities: this.#devices.size + this.#unread.size,
      sessions: this.#sessions.size,
      characters: this.#characters,
    };
  }

  #reported(
    before: DevicePosture,
    report: Exclude<PostureReport, { readonly typeId: "ENDPOINT_STATE" }>,
    at: number,
  ): Partial<DevicePosture> {
    const base = { at, checkId: report.id };
    switch (report.typeId) {
      case "OS":
        return { os: { ...base, type: report.type, version: report.version, build: report.build } };
      case "DOMAIN":
        return { domain: { ...base, domain: report.domain } };
      case "MAC":
        return { mac: { ...base, addresses: report.addresses } };
      case "PROCESS": {
        const { path, isRunning, hash, signerFingerprints } = report;
        const process = { ...base, path, isRunning, hash, signerFingerprints };
        return { processes: this.#withProcess(before.processes, process) };
      }
    }
  }

  #withProcess(processes: readonly ProcessReport[], report: ProcessReport): ProcessReport[] {
    const others = processes.filter((each) => each.checkId !== report.checkId || each.path !== report.path);
    return [...others, report].slice(-this.#limits.mostProcesses);
  }

  #setDevice(identityId: string, reported: DevicePosture): void {
    this.#drop(identityId);
    let posture = reported;
    let characters = JSON.stringify(posture).length;
    // The other reports are short by contract: without processes everything fits.
    while (characters > this.#limits.mostCharactersEach && posture.processes.length > 0) {
      posture = { ...posture, processes: posture.processes.slice(1) };
      characters = JSON.stringify(posture).length;
    }
    this.#devices.set(identityId, { posture, characters });
    this.#characters += characters;
    this.#keepBounds();
  }

  /** @returns whether there was anything */
  #drop(identityId: string): boolean {
    this.#characters -= this.#devices.get(identityId)?.characters ?? this.#unread.get(identityId) ?? 0;
    const wasHere = this.#devices.delete(identityId);
    return this.#unread.delete(identityId) || wasHere;
  }

  /** Whoever has neither reported nor been asked for since the start was silent longest. */
  #keepBounds(): void {
    const { mostIdentities, mostCharacters } = this.#limits;
    while (this.#devices.size + this.#unread.size > mostIdentities || this.#characters > mostCharacters) {
      const oldest = this.#unread.keys().next().value ?? this.#devices.keys().next().value;
      if (oldest === undefined) return;
      this.forgetIdentity(oldest);
    }
  }

  #setSession(identityId: string, apiSessionId: string, change: SessionPosture): void {
    const before = this.#sessions.get(apiSessionId);
    const kept = before?.identityId === identityId ? before : {};
    this.#sessions.delete(apiSessionId);
    this.#sessions.set(apiSessionId, { ...kept, ...change, identityId });
    const oldest = this.#sessions.size > this.#limits.mostSessions ? this.#sessions.keys().next().value : undefined;
    if (oldest !== undefined) this.#sessions.delete(oldest);
  }
}
