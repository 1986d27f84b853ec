import type { PostureReport } from "@sallyport/api";
import { type CheckOf, type PostureType, type ReportType, type SessionPosture, timeOrNull } from "./posture-type.ts";

/** How long a device that woke up or was unlocked may go on before TOTP has to be passed again. */
export const PROMPT_GRACE_MS = 5 * 60_000;
const NO_TIMEOUT = -1;

/** TOTP was passed in this API session, and nothing has made it lapse since. */
export const mfa: PostureType<"MFA"> = {
  defaults: { timeoutSeconds: NO_TIMEOUT, promptOnWake: false, promptOnUnlock: false, ignoreLegacyEndpoints: false },
  isReported: false,
  normalized: (given) =>
    given.timeoutSeconds !== undefined && given.timeoutSeconds <= 0 ? { ...given, timeoutSeconds: NO_TIMEOUT } : given,
  passes(check, { session }, now) {
    const state = mfaState(check, session, now);
    return state.passedMfa && state.passedOnWake && state.passedOnUnlock && !state.timedOut;
  },
  isTimed: (check) => check.timeoutSeconds > 0 || check.promptOnWake || check.promptOnUnlock,
  detail: ({ timeoutSeconds, promptOnWake, promptOnUnlock, ignoreLegacyEndpoints }) => ({
    timeoutSeconds,
    promptOnWake,
    promptOnUnlock,
    ignoreLegacyEndpoints,
  }),
  failure: (check, { session }, now) => ({
    actualValue: mfaState(check, session, now),
    expectedValue: { passedMfa: true, passedOnUnlock: true, passedOnWake: true, timedOut: false },
    criteria: {
      passedMfaAt: timeOrNull(session.mfaPassedAt),
      timeoutRemainingSeconds: mfaRemainingSeconds(check, session, now),
      timeoutSeconds: check.timeoutSeconds,
      unlockedAt: timeOrNull(session.unlockedAt),
      wokenAt: timeOrNull(session.wokenAt),
    },
  }),
  query: (check, session, now) => ({
    promptedAt: promptedAt(check, session),
    timeout: check.timeoutSeconds > 0 ? check.timeoutSeconds : NO_TIMEOUT,
    timeoutRemaining: mfaRemainingSeconds(check, session, now),
  }),
  subtype: ({ timeoutSeconds, ...flags }) => ({
    case: "mfa",
    value: { ...flags, timeoutSeconds: BigInt(timeoutSeconds) },
  }),
  ofWire(subtype) {
    if (subtype.case !== "mfa") return undefined;
    const { timeoutSeconds, promptOnWake, promptOnUnlock, ignoreLegacyEndpoints } = subtype.value;
    return { timeoutSeconds: Number(timeoutSeconds), promptOnWake, promptOnUnlock, ignoreLegacyEndpoints };
  },
};

export const endpointStateReport: ReportType<"ENDPOINT_STATE"> = {
  take: ({ woken, unlocked }, at) => ({
    session: { ...(woken && { wokenAt: at }), ...(unlocked && { unlockedAt: at }) },
  }),
  data: () => ({}),
};

/** Does a report say that the device woke up or was unlocked? */
export function isEndpointEvent(report: PostureReport): boolean {
  return ("woken" in report && report.woken === true) || ("unlocked" in report && report.unlocked === true);
}

interface MfaState {
  readonly passedMfa: boolean;
  readonly passedOnWake: boolean;
  readonly passedOnUnlock: boolean;
  readonly timedOut: boolean;
}

type Prompts = Pick<CheckOf<"MFA">, "promptOnWake" | "promptOnUnlock" | "timeoutSeconds">;

/** What a check with every prompt and no timeout says of a session. */
export function sessionState(session: SessionPosture, now: number): MfaState {
  return mfaState({ promptOnWake: true, promptOnUnlock: true, timeoutSeconds: NO_TIMEOUT }, session, now);
}

/** The parts of an MFA check. */
function mfaState(check: Prompts, session: SessionPosture, now: number): MfaState {
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
export function promptedAt(check: Prompts, session: SessionPosture): number | undefined {
  const events = promptsOf(check, session);
  return events.length === 0 ? undefined : Math.max(...events);
}

/** Whole seconds until the check fails unless TOTP is passed again: 0 when it does already, -1 when nothing makes it fail. */
export function mfaRemainingSeconds(check: Prompts, session: SessionPosture, now: number): number {
  if (session.mfaPassedAt === undefined) return 0;
  const end = mfaExpiresAt(check, session);
  return end === undefined ? -1 : Math.max(0, Math.floor((end - now) / 1000));
}

/** When the check fails by time alone, in milliseconds since 1970; undefined: never, or TOTP was not passed at all. */
export function mfaExpiresAt(check: Prompts, session: SessionPosture): number | undefined {
  const { mfaPassedAt } = session;
  if (mfaPassedAt === undefined) return undefined;
  const ends = promptsOf(check, session).map((event) => event + PROMPT_GRACE_MS);
  if (check.timeoutSeconds > 0) ends.push(mfaPassedAt + check.timeoutSeconds * 1000);
  return ends.length === 0 ? undefined : Math.min(...ends);
}

function promptsOf(check: Prompts, { wokenAt, unlockedAt, mfaPassedAt }: SessionPosture): number[] {
  const events = [
    prompt(check.promptOnWake, wokenAt, mfaPassedAt),
    prompt(check.promptOnUnlock, unlockedAt, mfaPassedAt),
  ];
  return events.filter((event) => event !== undefined);
}

function prompt(isWanted: boolean, event: number | undefined, passedAt: number | undefined): number | undefined {
  return isWanted && event !== undefined && passedAt !== undefined && event > passedAt ? event : undefined;
}
