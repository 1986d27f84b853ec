import { ANNOTATIONS, type EdgeRouterResource, type FoundEdgeRouter, type RouterStatus } from "@sallyport/resources";
import {
  certificateOf,
  initializedAt,
  isInitialized,
  isOnline,
  type ObservedRouter,
  podProblem,
} from "./router-plan.ts";

/** A token is replaced this long before its end, or when a quarter of its life is left. */
const TOKEN_MARGIN_MS = 10 * 60_000;
/** A token this young is not replaced, whatever the clocks say. */
const YOUNG_MS = 60_000;
/** So long after its pod has enrolled a router counts as one that a token was made for afterwards, when it still is to redeem one. */
const REDEEMED_MS = 30_000;
/** So long a pod may ask for a token before its identity counts as lost. */
const LOST_MS = 2 * 60_000;

/** What the enrollment of one router needs now. */
export type EnrollmentStep =
  /** It has its certificates. */
  | { readonly step: "enrolled" }
  /** It is to redeem this token. `restartsPod`: the pod has looked for one before it was there, or has used another. */
  | { readonly step: "token"; readonly jwt: string; readonly restartsPod: boolean }
  | { readonly step: "reEnroll"; readonly reason: ReEnrollReason; readonly message: string }
  /** Only a person may decide to throw the old certificate away. */
  | { readonly step: "lost"; readonly message: string };

type ReEnrollReason = "TokenExpired" | "Requested" | "VolumeLost" | "NeverOnline";

/**
 * Decides about the enrollment of one router (docs/operator/edge-router.md, "Enrollment"). One that has been online is never enrolled again without being
 * asked, unless its volume is another one.
 *
 * @param isRequested the annotation asks for it
 */
export function enrollmentStep(router: ObservedRouter, isRequested: boolean, now: Date): EnrollmentStep {
  const { entity, before, pod, secret, claim } = router;
  if (entity.state !== "synced") throw new TypeError("a router without an entity can't enroll");
  const { found } = entity;
  const reEnroll = (reason: ReEnrollReason, message: string): EnrollmentStep => ({ step: "reEnroll", reason, message });
  if (isRequested) return reEnroll("Requested", `router ${found.name} is enrolled again: the annotation asks for it`);
  if (found.isVerified !== true) {
    if (isTokenUsable(found, now)) {
      const isLate = pod !== undefined && secret !== undefined && createdAt(secret) > createdAt(pod);
      const since = initializedAt(pod)?.getTime();
      const hasUsedAnother = since !== undefined && now.getTime() - since >= REDEEMED_MS;
      const restartsPod =
        hasUsedAnother || (isLate && (isInitialized(pod) || podProblem(pod)?.isTokenMissing === true));
      return { step: "token", jwt: found.enrollmentJwt ?? "", restartsPod };
    }
    return reEnroll("TokenExpired", `router ${found.name} gets a new token: the last one was not used in time`);
  }
  const problem = podProblem(pod);
  if (problem?.isTokenMissing !== true || isOnline(router)) return { step: "enrolled" };
  if (before?.volume !== undefined && claim?.metadata.uid !== undefined && claim.metadata.uid !== before.volume) {
    return reEnroll(
      "VolumeLost",
      `router ${found.name} is enrolled again: its volume is a new one, the old identity is gone`,
    );
  }
  const isOld = pod !== undefined && now.getTime() - createdAt(pod) >= LOST_MS;
  // Explicit: of a router that was verified when it was seen first nothing is known.
  if (before?.everOnline === false && before.id === found.id) {
    if (!isOld) return { step: "enrolled" };
    return reEnroll(
      "NeverOnline",
      `router ${found.name} is enrolled again: it used its token, and its certificates were lost`,
    );
  }
  const ended = certificateOf(found.certPem)?.notAfter;
  const why =
    ended !== undefined && ended <= now
      ? `its certificate ended on ${ended.toISOString()}`
      : "its volume has no certificate";
  const message = `router ${found.name} is enrolled, and ${why}: annotate the EdgeRouter with ${ANNOTATIONS.reEnroll}=${router.ordinal}:<anything new> to enroll it again`;
  return { step: "lost", message };
}

function isTokenUsable(
  found: Pick<FoundEdgeRouter, "enrollmentJwt" | "enrollmentCreatedAt" | "enrollmentExpiresAt">,
  now: Date,
): boolean {
  if (!found.enrollmentJwt) return false;
  const ends = Date.parse(found.enrollmentExpiresAt ?? "");
  const began = Date.parse(found.enrollmentCreatedAt ?? "");
  if (Number.isNaN(ends) || now.getTime() - began < YOUNG_MS) return true;
  const margin = Number.isNaN(began) ? TOKEN_MARGIN_MS : Math.min(TOKEN_MARGIN_MS, (ends - began) / 4);
  return ends - now.getTime() > margin;
}

const createdAt = ({ metadata }: { metadata: { creationTimestamp?: string } }): number =>
  Date.parse(metadata.creationTimestamp ?? "");

/** What the annotation `re-enroll` asks for and was not done yet. */
type ReEnrollRequest =
  | { readonly state: "none" }
  | { readonly state: "wanted"; readonly value: string; readonly ordinal: number }
  | { readonly state: "wrong"; readonly value: string; readonly message: string };

export function reEnrollRequest({ metadata, status, spec }: EdgeRouterResource): ReEnrollRequest {
  const value = metadata.annotations?.[ANNOTATIONS.reEnroll];
  if (value === undefined || value === "" || value === status.lastHandledReEnroll) return { state: "none" };
  const ordinal = Number(/^(\d{1,2}):.+$/.exec(value)?.[1] ?? Number.NaN);
  if (ordinal < spec.replicas) return { state: "wanted", value, ordinal };
  const expected = `<ordinal>:<anything new>, the ordinal below ${spec.replicas}`;
  return {
    state: "wrong",
    value,
    message: `the annotation ${ANNOTATIONS.reEnroll} has to be ${expected}, found ${JSON.stringify(value.slice(0, 64))}`,
  };
}

/** What of a router's status survives a new enrollment. */
export function afterReEnroll({ ordinal, name, id, advertiseAddress, configHash }: RouterStatus): RouterStatus {
  return {
    ordinal,
    name,
    id,
    advertiseAddress,
    configHash,
    verified: false,
    online: false,
    everOnline: false,
  };
}
