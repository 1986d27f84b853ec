import { parseCertificates } from "@sallyport/wire";
import type { ManagementClient } from "../../../controller-client/connection.ts";
import { secondTime } from "../../../kube/micro-time.ts";
import type { OwnStatus } from "../../../loop/kind-reconciler.ts";
import type { WantedCredential } from "../plan/credential.ts";
import type { FoundIdentity } from "../plan/entity.ts";
import type { HeldSecret } from "../plan/held-secret.ts";
import type { IdentityResource, IdentityStatus } from "../schema.ts";

type Status = OwnStatus<IdentityResource>;
type ShownAuthenticator = NonNullable<IdentityStatus["authenticators"]>[number];

export interface StatusFindings {
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
    ...(enrollment && {
      enrollment: { ...(enrollment.id && { id: enrollment.id }), method, expiresAt: enrollment.expiresAt },
    }),
    ...(authenticators.length > 0 && { authenticators: [...authenticators] }),
    ...(held && secretName !== undefined && { secretName }),
    online: identity.hasEdgeRouterConnection,
    ...(lastRenewalTime !== undefined && { lastRenewalTime }),
    ...(held?.identity && { certificateNotAfter: secondTime(held.identity.notAfter) }),
    ...(lastHandledReEnroll !== undefined && { lastHandledReEnroll }),
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
    shown.push({ id: cert.id, method: "cert", ...(known !== undefined && { notAfter: known }) });
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
