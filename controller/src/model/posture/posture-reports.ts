import { type PostureReport, postureReportType } from "@sallyport/api";
import { BoundedMap } from "@sallyport/async";
import {
  type DevicePosture,
  mergedPosture,
  NOTHING_REPORTED,
  type PostureState,
  type SessionPosture,
  takeReport,
} from "@sallyport/posture";

/** Limits of what is kept; the device that was silent longest is forgotten first. */
export const REPORT_LIMITS = {
  maxIdentities: 200_000,
  maxSessions: 400_000,
  maxProcesses: 64,
  /** Characters of the reports of one identity, and of all together. */
  maxCharactersEach: 16 * 1024,
  maxCharacters: 64 * 1024 * 1024,
};

interface Device {
  posture: DevicePosture;
  characters: number;
}

interface SessionReport extends SessionPosture {
  readonly identityId: string;
}

/** What the store is to hold of an identity; without a device: nothing. */
export interface Unwritten {
  readonly identityId: string;
  readonly device?: DevicePosture;
}

/**
 * What devices reported, by identity, and what belongs to single API sessions. Memory decides everything; the store keeps a copy for the next start and for
 * other controllers (`stored-reports.ts`), which is read at the first use and when another controller has written it. Everything comes from clients and so is
 * bounded, stored reports that were not read yet included.
 */
export class PostureReports {
  readonly #limits: typeof REPORT_LIMITS;
  /** In the order of their last report. */
  readonly #devices = new Map<string, Device>();
  readonly #sessions: BoundedMap<string, SessionReport>;
  /** Identities whose reports are in the store only, with the length of these; the one that was silent longest first. */
  readonly #unread = new Map<string, number>();
  /** Identities that are here, and of which the store holds something that may be newer. */
  readonly #stale = new Set<string>();
  /** Identities of which the store does not hold what is here. */
  readonly #unwritten = new Set<string>();
  #characters = 0;

  constructor(limits = REPORT_LIMITS) {
    this.#limits = limits;
    this.#sessions = new BoundedMap(limits.maxSessions);
  }

  /** What is known of an identity's device and of one of its API sessions. */
  of(identityId: string, apiSessionId: string): PostureState {
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
    return this.#unread.has(identityId) || this.#stale.has(identityId);
  }

  /** Another controller has written what the identity reported. */
  changedInStore(identityId: string): void {
    if (this.#devices.has(identityId)) this.#stale.add(identityId);
    else this.noteStored(identityId, 0);
  }

  /** Other controllers may have written anything. */
  anythingChangedInStore(): void {
    for (const id of this.#devices.keys()) this.#stale.add(id);
  }

  /** Notes a report that the store holds. Identities whose reports are in memory need no read. */
  noteStored(identityId: string, characters: number): void {
    if (this.hasReported(identityId)) return;
    this.#unread.set(identityId, characters);
    this.#characters += characters;
    this.#keepBounds();
  }

  /** Takes what the store holds, where it is still wanted; undefined = it holds nothing any more. */
  takeStored(identityId: string, device: DevicePosture | undefined): void {
    if (!this.isUnread(identityId)) return;
    this.#stale.delete(identityId);
    const own = this.#unwritten.has(identityId) ? this.#devices.get(identityId)?.posture : undefined;
    if (device !== undefined) this.#setDevice(identityId, own === undefined ? device : mergedPosture(device, own));
    else if (own === undefined) this.#drop(identityId);
  }

  /** The store now holds `merged` in place of what was taken from here: another controller had written something newer. */
  takeMerged(identityId: string, merged: DevicePosture): void {
    const own = this.#devices.get(identityId)?.posture;
    if (own !== undefined) this.#setDevice(identityId, mergedPosture(merged, own));
  }

  /** Up to so many identities of which the store is to hold something else. They are taken for written from now on. */
  takeUnwritten(limit: number): Unwritten[] {
    return [...this.#unwritten.keys().take(limit)].map((identityId) => {
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
    const before = this.#devices.get(identityId)?.posture ?? NOTHING_REPORTED.device;
    const taken = takeReport(postureReportType(report.typeId), report, at, before);
    if ("session" in taken) {
      this.#setSession(identityId, apiSessionId, taken.session);
      return;
    }
    this.#unwritten.add(identityId);
    this.#setDevice(identityId, taken.device);
  }

  /** What the store holds of a session. Only TOTP can be taken back: of the events, those stay that are being written. */
  takeStoredSession(identityId: string, apiSessionId: string, stored: SessionPosture): void {
    const known = this.#sessions.get(apiSessionId);
    if (known === undefined && Object.keys(stored).length === 0) return;
    const events: SessionPosture = known ?? {};
    const later = (a = 0, b = 0) => Math.max(a, b) || undefined;
    const [wokenAt, unlockedAt] = [later(stored.wokenAt, events.wokenAt), later(stored.unlockedAt, events.unlockedAt)];
    this.#sessions.set(apiSessionId, {
      ...(stored.mfaPassedAt !== undefined && { mfaPassedAt: stored.mfaPassedAt }),
      ...(wokenAt !== undefined && { wokenAt }),
      ...(unlockedAt !== undefined && { unlockedAt }),
      identityId,
    });
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

  #setDevice(identityId: string, reported: DevicePosture): void {
    const isStale = this.#stale.has(identityId);
    this.#drop(identityId);
    if (isStale) this.#stale.add(identityId);
    let posture = { ...reported, processes: reported.processes.slice(-this.#limits.maxProcesses) };
    let characters = JSON.stringify(posture).length;
    // The other reports are short by contract: without processes everything fits.
    while (characters > this.#limits.maxCharactersEach && posture.processes.length > 0) {
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
    this.#stale.delete(identityId);
    return this.#unread.delete(identityId) || wasHere;
  }

  /** A device that has neither reported nor been asked for since the start was silent longest. */
  #keepBounds(): void {
    const { maxIdentities, maxCharacters } = this.#limits;
    while (this.#devices.size + this.#unread.size > maxIdentities || this.#characters > maxCharacters) {
      const oldest = this.#unread.keys().next().value ?? this.#devices.keys().next().value;
      if (oldest === undefined) return;
      this.forgetIdentity(oldest);
    }
  }

  #setSession(identityId: string, apiSessionId: string, change: SessionPosture): void {
    const before = this.#sessions.get(apiSessionId);
    const kept = before?.identityId === identityId ? before : {};
    this.#sessions.set(apiSessionId, { ...kept, ...change, identityId });
  }
}
