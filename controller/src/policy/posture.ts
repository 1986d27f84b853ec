/**
 * Does a device fulfil a posture check? Pure: a check, what is known of the device and of the API session, and a moment. What was never reported fails, and never
 * throws. Source: docs/protocol/posture.md.
 */
import { parseVersionRange } from "./version-range.ts";

/** How long a device that woke up or was unlocked may go on before TOTP has to be passed again. */
export const PROMPT_GRACE_MS = 5 * 60_000;

export interface OperatingSystem {
  readonly type: string;
  /** Version ranges; none = any version. */
  readonly versions: readonly string[];
}

export interface ProcessMatch {
  readonly osType: string;
  readonly path: string;
  /** SHA-512 in hex; none = any. */
  readonly hashes: readonly string[];
  /** SHA-1 of the signer's certificate in hex; none = any. */
  readonly signerFingerprints: readonly string[];
}

interface NamedCheck {
  readonly id: string;
  readonly name: string;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

export interface OsCheck extends NamedCheck {
  readonly typeId: "OS";
  readonly operatingSystems: readonly OperatingSystem[];
}
export interface DomainCheck extends NamedCheck {
  readonly typeId: "DOMAIN";
  readonly domains: readonly string[];
}
export interface MacCheck extends NamedCheck {
  readonly typeId: "MAC";
  readonly macAddresses: readonly string[];
}
export interface ProcessCheck extends NamedCheck {
  readonly typeId: "PROCESS";
  readonly process: {
    readonly osType: string;
    readonly path: string;
    readonly hashes: readonly string[];
    readonly signerFingerprint?: string;
  };
}
export interface ProcessMultiCheck extends NamedCheck {
  readonly typeId: "PROCESS_MULTI";
  readonly semantic: "AllOf" | "AnyOf";
  readonly processes: readonly ProcessMatch[];
}
export interface MfaCheck extends NamedCheck {
  readonly typeId: "MFA";
  /** 0 or less = TOTP once passed stays passed. */
  readonly timeoutSeconds: number;
  readonly promptOnWake: boolean;
  readonly promptOnUnlock: boolean;
  readonly ignoreLegacyEndpoints: boolean;
}
export type PostureCheck = OsCheck | DomainCheck | MacCheck | ProcessCheck | ProcessMultiCheck | MfaCheck;

/** When something was reported, and for which check. */
export interface Report {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly checkId: string;
}
export interface ProcessReport extends Report {
  readonly path: string;
  readonly isRunning: boolean;
  readonly hash: string;
  readonly signerFingerprints: readonly string[];
}

/** What the devices of an identity reported last. */
export interface DevicePosture {
  readonly os?: Report & { readonly type: string; readonly version: string; readonly build: string };
  readonly domain?: Report & { readonly domain: string };
  readonly mac?: Report & { readonly addresses: readonly string[] };
  readonly processes: readonly ProcessReport[];
}

/** What belongs to one API session. Times are milliseconds since 1970; absent = it has not happened. */
export interface SessionPosture {
  readonly mfaPassedAt?: number;
  readonly wokenAt?: number;
  readonly unlockedAt?: number;
}

export interface Posture {
  readonly device: DevicePosture;
  readonly session: SessionPosture;
}

export const NOTHING_REPORTED: Posture = { device: { processes: [] }, session: {} };

/** Does the check pass at this moment (milliseconds since 1970)? */
export function passes(check: PostureCheck, { device, session }: Posture, now: number): boolean {
  switch (check.typeId) {
    case "OS":
      return device.os !== undefined && passesOs(check, device.os);
    case "DOMAIN": {
      const domain = device.domain?.domain.toLowerCase();
      return check.domains.some((each) => each.toLowerCase() === domain);
    }
    case "MAC": {
      const allowed = addressesOf(check);
      return (device.mac?.addresses ?? []).some((each) => isKnownHex(allowed, each));
    }
    case "PROCESS":
      return passesProcess(
        processReport(device, check.id),
        check.process.hashes,
        check.process.signerFingerprint ? [check.process.signerFingerprint] : [],
      );
    case "PROCESS_MULTI": {
      const isFulfilled = (match: ProcessMatch) =>
        device.os !== undefined &&
        isSameSystem(match.osType, device.os.type) &&
        passesProcess(processReport(device, check.id, match.path), match.hashes, match.signerFingerprints);
      return check.semantic === "AllOf" ? check.processes.every(isFulfilled) : check.processes.some(isFulfilled);
    }
    case "MFA": {
      const state = mfaState(check, session, now);
      return state.passedMfa && state.passedOnWake && state.passedOnUnlock && !state.timedOut;
    }
  }
}

/** The newest report for a check, or for a path: a process that several checks ask for may have been reported for any of them. */
export function processReport(device: DevicePosture, checkId: string, path?: string): ProcessReport | undefined {
  const newest = (reports: readonly ProcessReport[]) =>
    reports.reduce<ProcessReport | undefined>((a, b) => (a === undefined || b.at >= a.at ? b : a), undefined);
  if (path === undefined) return newest(device.processes.filter((each) => each.checkId === checkId));
  const ofPath = device.processes.filter((each) => each.path === path);
  return newest(ofPath.filter((each) => each.checkId === checkId)) ?? newest(ofPath);
}

export interface MfaState {
  readonly passedMfa: boolean;
  readonly passedOnWake: boolean;
  readonly passedOnUnlock: boolean;
  readonly timedOut: boolean;
}

/** The parts of an MFA check. */
export function mfaState(check: MfaCheck, session: SessionPosture, now: number): MfaState {
  const { mfaPassedAt } = session;
  const passedMfa = mfaPassedAt !== undefined;
  const isOver = (event: number | undefined) => event !== undefined && now - event > PROMPT_GRACE_MS;
  return {
    passedMfa,
    passedOnWake: passedMfa && !isOver(prompt(check.promptOnWake, session.wokenAt, mfaPassedAt)),
    passedOnUnlock: passedMfa && !isOver(prompt(check.promptOnUnlock, session.unlockedAt, mfaPassedAt)),
    timedOut: passedMfa && check.timeoutSeconds > 0 && mfaPassedAt + check.timeoutSeconds * 1000 < now,
  };
}

/** The time of the newest event since TOTP was passed for which the check wants it passed again. */
export function promptedAt(check: MfaCheck, session: SessionPosture): number | undefined {
  const events = promptsOf(check, session);
  return events.length === 0 ? undefined : Math.max(...events);
}

/** Whole seconds until the check fails unless TOTP is passed again: 0 when it does already, -1 when nothing makes it fail. */
export function mfaRemainingSeconds(check: MfaCheck, session: SessionPosture, now: number): number {
  const { mfaPassedAt } = session;
  if (mfaPassedAt === undefined) return 0;
  const ends = promptsOf(check, session).map((event) => event + PROMPT_GRACE_MS);
  if (check.timeoutSeconds > 0) ends.push(mfaPassedAt + check.timeoutSeconds * 1000);
  return ends.length === 0 ? -1 : Math.max(0, Math.floor((Math.min(...ends) - now) / 1000));
}

function promptsOf(check: MfaCheck, { wokenAt, unlockedAt, mfaPassedAt }: SessionPosture): number[] {
  const events = [
    prompt(check.promptOnWake, wokenAt, mfaPassedAt),
    prompt(check.promptOnUnlock, unlockedAt, mfaPassedAt),
  ];
  return events.filter((event): event is number => event !== undefined);
}

function prompt(isWanted: boolean, event: number | undefined, passedAt: number | undefined): number | undefined {
  return isWanted && event !== undefined && passedAt !== undefined && event > passedAt ? event : undefined;
}

function passesOs(check: OsCheck, os: { readonly type: string; readonly version: string }): boolean {
  return check.operatingSystems
    .filter((wanted) => isSameSystem(wanted.type, os.type))
    .some(({ versions }) => versions.length === 0 || versions.some((range) => rangeOf(range)?.includes(os.version)));
}

function passesProcess(
  report: ProcessReport | undefined,
  hashes: readonly string[],
  signers: readonly string[],
): boolean {
  if (report?.isRunning !== true) return false;
  if (hashes.length > 0 && !isKnownHex(new Set(hashes.map(hexDigits)), report.hash)) return false;
  const known = new Set(signers.map(hexDigits));
  return signers.length === 0 || report.signerFingerprints.some((each) => isKnownHex(known, each));
}

const addresses = new WeakMap<MacCheck, ReadonlySet<string>>();

/** A list of addresses may be long, and is asked for with each session. */
function addressesOf(check: MacCheck): ReadonlySet<string> {
  let known = addresses.get(check);
  if (known === undefined) {
    known = new Set(check.macAddresses.map(hexDigits));
    addresses.set(check, known);
  }
  return known;
}

const MOST_RANGES = 1000;
const ranges = new Map<string, ReturnType<typeof parseVersionRange>>();

/** Parsing costs more than holding a version against a range, and the same few ranges are asked for again and again. */
function rangeOf(text: string): ReturnType<typeof parseVersionRange> {
  if (!ranges.has(text)) {
    if (ranges.size >= MOST_RANGES) ranges.clear();
    ranges.set(text, parseVersionRange(text));
  }
  return ranges.get(text);
}

/** Hex digits in lower case, without colons, dashes and whatever else people write between them. */
function hexDigits(text: string): string {
  return text.toLowerCase().replaceAll(/[^0-9a-f]/g, "");
}

function isKnownHex(known: ReadonlySet<string>, text: string): boolean {
  const digits = hexDigits(text);
  return digits !== "" && known.has(digits);
}

/** Clients written in Go report macOS by the name of its kernel. */
function isSameSystem(wanted: string, reported: string): boolean {
  const name = reported.toLowerCase();
  return wanted.toLowerCase() === (name === "darwin" ? "macos" : name);
}
