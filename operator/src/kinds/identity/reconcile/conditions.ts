import { type MissingReference, missingReason, missingText } from "../../../entity/references.ts";
import type { ConditionDraft } from "../../../kube/status/condition.ts";
import type { Standing } from "../plan/credential-step.ts";
import { DISABLED, type DisablingPlan } from "../plan/disabling.ts";
import type { HeldSecret } from "../plan/held-secret.ts";
import { over } from "../plan/identity-secret.ts";
import type { CredentialError } from "../secret/credential-error.ts";
import type { PasswordProblem } from "./password.ts";

/** Everything that the conditions of an identity are made from. */
export interface IdentityFindings {
  /** Of the entity: `Synced` and `Ready`, and `Reconciling` or `Stalled`. */
  readonly sync: readonly ConditionDraft[];
  readonly standing: Standing | undefined;
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

/** Why the identity is not ready. `isPassing`: nobody has to do anything. */
interface Hindrance {
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
  const hindrance = hindranceOf(findings, certificate);
  if (hindrance === undefined) return [...aspects, { type: "Ready", ...readiness(findings, enrolled, ready) }];
  const { reason, message, isPassing } = hindrance;
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

function enrolledOf({ standing, error, secret }: IdentityFindings): Aspect | undefined {
  if (standing !== undefined) return standing.enrolled;
  if (error === undefined) return undefined;
  const { reason, message } = error;
  const isEnrolled = secret?.state === "ours" && secret.identity !== undefined && secret.enrolling === undefined;
  return isEnrolled
    ? { status: "True", reason: "Enrolled", message: "the Secret holds the identity" }
    : { status: "False", reason, message };
}

function certificateOf({ standing, error, secret, now }: IdentityFindings): Aspect | undefined {
  if (standing !== undefined) return standing.certificate;
  const held = secret?.state === "ours" && secret.enrolling === undefined ? secret.identity : undefined;
  if (error === undefined || held === undefined) return undefined;
  if (held.notAfter <= now) return over(held);
  return { status: "True", reason: RENEWAL_FAILING, message: error.message };
}

function hindranceOf(
  { standing, error, disabling, missing, passwordProblem }: IdentityFindings,
  certificate: Aspect | undefined,
): Hindrance | undefined {
  if (standing?.problem !== undefined) return { ...standing.problem, isPassing: false };
  if (certificate?.status === "False") return { ...certificate, isPassing: false };
  // A renewal that fails leaves what is in force as it is.
  if (error !== undefined && certificate === undefined) return error;
  if (disabling.action === "leave") return { reason: "LockedOut", message: disabling.message, isPassing: false };
  if (passwordProblem !== undefined) return passwordProblem;
  if (missing.length > 0) return { reason: missingReason(missing), message: missingText(missing), isPassing: true };
  return undefined;
}

function readiness(
  { isDisabledBySpec, standing }: IdentityFindings,
  enrolled: Aspect | undefined,
  ready: Aspect,
): Aspect {
  if (isDisabledBySpec) {
    return { status: "True", reason: "Disabled", message: "the network has it as in the spec, which locks it out" };
  }
  // The entity itself says how it is when only it is looked at.
  if (standing === undefined || enrolled === undefined || ready.reason !== "Synced") return ready;
  const reason =
    enrolled.reason === "WaitingForDevice" ? "TokenPublished" : enrolled.status === "True" ? "Enrolled" : "Synced";
  return { status: "True", reason, message: enrolled.message };
}
