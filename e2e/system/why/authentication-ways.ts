/** The identity cannot log in. */
import { writeFileSync } from "node:fs";
import { enroll } from "@sallyport/sdk";
import type { Subject } from "./subject.ts";
import { id, only, type Way } from "./way.ts";

/** What the laptop logs in with. */
const authenticator = ({ network: { management }, laptop }: Subject) =>
  only(management.listAuthenticators({ query: { filter: `identity = "${laptop.id}"` } }));

export async function deleteAuthenticator(subject: Subject): Promise<void> {
  await subject.network.management.deleteAuthenticator(await authenticator(subject));
}

export async function enrollAgain({ network: { management }, laptop }: Subject): Promise<void> {
  const expiresAt = new Date(Date.now() + 600_000).toISOString();
  const body = { identityId: laptop.id, method: "ott" as const, expiresAt };
  const { data } = await management.createEnrollment({ body });
  const { data: enrollment } = await management.detailEnrollment(id(data.id));
  writeFileSync(laptop.file, JSON.stringify(await enroll(enrollment.jwt ?? "")), { mode: 0o600 });
}

/** Gives the laptop an authentication policy of its own. */
export async function withAuthPolicy(
  { network: { management }, laptop }: Subject,
  { certAllowed, requireTotp }: { readonly certAllowed: boolean; readonly requireTotp: boolean },
): Promise<() => Promise<unknown>> {
  const { data } = await management.createAuthPolicy({
    body: {
      name: "of the laptop",
      primary: {
        cert: { allowed: certAllowed, allowExpiredCerts: false },
        extJwt: { allowed: false, allowedSigners: [] },
        updb: {
          allowed: true,
          lockoutDurationMinutes: 0,
          maxAttempts: 0,
          minPasswordLength: 8,
          requireMixedCase: false,
          requireNumberChar: false,
          requireSpecialChar: false,
        },
      },
      secondary: { requireTotp },
    },
  });
  await management.patchIdentity({ ...id(laptop.id), body: { authPolicyId: data.id } });
  return async () => {
    await management.patchIdentity({ ...id(laptop.id), body: { authPolicyId: "default" } });
    await management.deleteAuthPolicy(id(data.id));
  };
}

export const AUTHENTICATION: readonly Way[] = [
  {
    what: "the identity is disabled",
    code: "IDENTITY_DISABLED",
    async breakIt({ network: { management }, laptop }) {
      await management.disableIdentity({ ...id(laptop.id), body: { durationMinutes: 0 } });
      return () => management.enableIdentity(id(laptop.id));
    },
  },
  {
    what: "the identity has nothing to log in with",
    code: "NO_CREDENTIAL",
    async breakIt(subject) {
      await deleteAuthenticator(subject);
      return () => enrollAgain(subject);
    },
  },
  {
    what: "its authentication policy forbids certificates",
    code: "METHOD_NOT_ALLOWED",
    breakIt: (subject) => withAuthPolicy(subject, { certAllowed: false, requireTotp: false }),
  },
  {
    what: "its authentication policy wants a one-time code",
    code: "SECOND_FACTOR_NOT_ENROLLED",
    breakIt: (subject) => withAuthPolicy(subject, { certAllowed: true, requireTotp: true }),
  },
];
