import type { ManagementClient } from "@sallyport/api/client";
import {
  DISABLED,
  type DisablingPlan,
  type FoundIdentity,
  type IdentityResource,
  type IdentityStatus,
  type MissingReference,
  missingReason,
  missingText,
} from "@sallyport/resources";
import { parseCertificates } from "@sallyport/wire";
import type { ConditionDraft } from "../../../kube/conditions.ts";
import { secondTime } from "../../../kube/formats.ts";
import type { OwnStatus } from "../../../loop/kind-reconciler.ts";
import type { CredentialState, HeldSecret, WantedCredential } from "../plan/credential.ts";
import { over } from "../plan/credential-steps.ts";
import type { CredentialError } from "../secret/certificate.ts";
import type { PasswordProblem } from "./credentials.ts";

type Status = OwnStatus<IdentityResource>;
type ShownAuthenticator = NonNullable<IdentityStatus["authenticators"]>[number];

interface StatusFindings {
  readonly identity: FoundIdentity;
  readonly wanted: WantedCredential;
  readonly secretName: string | undefined;
  readonly secret: HeldSecret | undefined;
  readonly isEnrolled: boolean;
  readonly authenticators: readonly ShownAuthenticator[];
  readonly previous: Status;
  readonly renewedAt: Date | undefined;
  readonly lastHandledReEnroll: string | undefined;
}

/** The fields of an Identity's status; without any secret. */
export function identityStatus(findings: StatusFindings): Status {
  const { identity, wanted, secret, previous, renewedAt, authenticators } = findings;
  const method = wanted.kind === "none" ? undefined : wanted.kind === "token" ? wanted.invitation.method : "ott";
  const enrollment = method && identity.enrollment[method];
  const held = secret?.state === "ours" ? secret : undefined;
  const lastRenewalTime = (renewedAt && secondTime(renewedAt)) ?? previous.lastRenewalTime;
  const { lastHandledReEnroll, secretName } = findings;
  return {
    id: identity.id,
    typeId: identity.typeId,
    enrolled: findings.isEnrolled,
    enrollment: enrollment && method && { id: enrollment.id, method, expiresAt: enrollment.expiresAt },
    authenticators: authenticators.length > 0 ? [...authenticators] : undefined,
    secretName: held && secretName,
    online: identity.hasEdgeRouterConnection,
    lastRenewalTime,
    certificateNotAfter: held?.identity && secondTime(held.identity.notAfter),
    lastHandledReEnroll,
  };
}

/** What an identity logs in with, and until when. A certificate that is not in the Secret is asked for once in its life. */
export async function shownAuthenticators(
  client: ManagementClient,
  { authenticators: { cert, updb } }: FoundIdentity,
  secret: HeldSecret | undefined,
  previous: Status,
  now: Date,
  signal: AbortSignal,
): Promise<ShownAuthenticator[]> {
  const shown: ShownAuthenticator[] = [];
  if (cert !== undefined) {
    const held = secret?.state === "ours" ? secret.identity : undefined;
    const before = previous.authenticators?.find(({ id }) => id === cert.id)?.notAfter;
    const known =
      held?.fingerprint === cert.fingerprint
        ? secondTime(held.notAfter)
        : before !== undefined && new Date(before) > now
          ? before
          : await endOf(client, cert.id, signal);
    shown.push({ id: cert.id, method: "cert", notAfter: known });
  }
  if (updb !== undefined) shown.push({ id: updb.id, method: "updb" });
  return shown;
}

async function endOf(client: ManagementClient, id: string, signal: AbortSignal): Promise<string | undefined> {
  const { data } = await client.detailAuthenticator({ params: { id } }, { signal });
  if (data.certPem === undefined) return undefined;
  try {
    const [leaf] = parseCertificates(data.certPem);
    return leaf && secondTime(leaf.validToDate);
  } catch {
    // A certificate that only its network can read ends when it says.
    return undefined;
  }
}

/** Everything that the conditions of an identity are made from. */
interface IdentityFindings {
  /** Of the entity: `Synced` and `Ready`, and `Reconciling` or `Stalled`. */
  readonly sync: readonly ConditionDraft[];
  readonly state: CredentialState | undefined;
  readonly error: CredentialError | undefined;
  /** After everything was done. */
  readonly secret: HeldSecret | undefined;
  readonly isDisabledBySpec: boolean;
  readonly disabling: DisablingPlan;
  /** References of what is set by calls of its own. */
  readonly missing: readonly MissingReference[];
  /** Why the password of the spec could not be set. */
  readonly passwordProblem: PasswordProblem | undefined;
  readonly now: Date;
}

/** Reason of `CertificateValid` while a certificate that is good still can't be renewed. */
export const RENEWAL_FAILING = "RenewalFailing";

type Aspect = Omit<ConditionDraft, "type">;

/** Why the identity is not ready. `isPassing`: it passes by itself. */
interface ReadinessProblem {
  readonly reason: string;
  readonly message: string;
  readonly isPassing: boolean;
}

/** The conditions of an Identity, in the order to show. */
export function identityConditions(findings: IdentityFindings): ConditionDraft[] {
  const { sync } = findings;
  const enrolled = enrolledOf(findings);
  const certificate = certificateOf(findings);
  const synced = sync.filter(({ type }) => type === "Synced");
  const aspects: ConditionDraft[] = [
    ...synced,
    ...(enrolled === undefined ? [] : [{ type: "Enrolled", ...enrolled }]),
    ...(certificate === undefined ? [] : [{ type: "CertificateValid", ...certificate }]),
    ...(findings.isDisabledBySpec ? [disabledBySpec] : []),
  ];
  const ready = sync.find(({ type }) => type === "Ready");
  // The entity comes first: without it the rest says nothing.
  if (ready?.status !== "True") return [...aspects, ...sync.filter(({ type }) => type !== "Synced")];
  const problem = readinessProblemOf(findings, certificate);
  if (problem === undefined) return [...aspects, { type: "Ready", ...readiness(findings, enrolled, ready) }];
  const { reason, message, isPassing } = problem;
  return [
    ...aspects,
    { type: "Ready", status: "False", reason, message },
    { type: isPassing ? "Reconciling" : "Stalled", status: "True", reason, message },
  ];
}

const disabledBySpec: ConditionDraft = {
  type: DISABLED,
  status: "True",
  reason: "DisabledBySpec",
  message: "spec.disabled locks the identity out",
};

function enrolledOf({ state, error, secret }: IdentityFindings): Aspect | undefined {
  if (state !== undefined) return state.enrolled;
  if (error === undefined) return undefined;
  const { reason, message } = error;
  const isEnrolled = secret?.state === "ours" && secret.identity !== undefined && secret.enrolling === undefined;
  return isEnrolled
    ? { status: "True", reason: "Enrolled", message: "the Secret holds the identity" }
    : { status: "False", reason, message };
}

function certificateOf({ state, error, secret, now }: IdentityFindings): Aspect | undefined {
  if (state !== undefined) return state.certificate;
  const held = secret?.state === "ours" && secret.enrolling === undefined ? secret.identity : undefined;
  if (error === undefined || held === undefined) return undefined;
  if (held.notAfter <= now) return over(held);
  return { status: "True", reason: RENEWAL_FAILING, message: error.message };
}

function readinessProblemOf(
  { state, error, disabling, missing, passwordProblem }: IdentityFindings,
  certificate: Aspect | undefined,
): ReadinessProblem | undefined {
  if (state?.problem !== undefined) return { ...state.problem, isPassing: false };
  if (certificate?.status === "False") return { ...certificate, isPassing: false };
  // A renewal that fails leaves what is in force as it is.
  if (error !== undefined && certificate === undefined) return error;
  if (disabling.action === "leave") return { reason: "LockedOut", message: disabling.message, isPassing: false };
  if (passwordProblem !== undefined) return passwordProblem;
  if (missing.length > 0) return { reason: missingReason(missing), message: missingText(missing), isPassing: true };
  return undefined;
}

function readiness({ isDisabledBySpec, state }: IdentityFindings, enrolled: Aspect | undefined, ready: Aspect): Aspect {
  if (isDisabledBySpec) {
    return { status: "True", reason: "Disabled", message: "the network has it as in the spec, which locks it out" };
  }
  // The entity itself says how it is when only it is looked at.
  if (state === undefined || enrolled === undefined || ready.reason !== "Synced") return ready;
  const reason =
    enrolled.reason === "WaitingForDevice" ? "TokenPublished" : enrolled.status === "True" ? "Enrolled" : "Synced";
  return { status: "True", reason, message: enrolled.message };
}
