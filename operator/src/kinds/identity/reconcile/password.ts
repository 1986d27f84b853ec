import { listAll } from "@sallyport/api/client";
import type { ManagementClient } from "../../../controller-client/connection.ts";
import type { Tags } from "../../../entity/ownership.ts";
import type { SecretObject } from "../../../kube/kinds.ts";
import { isOfOperator } from "../../../resources/group.ts";

interface PasswordOptions {
  readonly client: ManagementClient;
  readonly identityId: string;
  readonly username: string;
  readonly secretRef: { readonly name: string; readonly key: string };
  /** The user's Secret, if there is one. */
  readonly secret: SecretObject | undefined;
  readonly signal: AbortSignal;
}

/** `isPassing`: it is enough that the Secret comes about. */
export interface PasswordProblem {
  readonly reason: "SecretNotFound" | "SecretNotAllowed";
  readonly message: string;
  readonly isPassing: boolean;
}

export interface PasswordResult {
  /** Why there is no password to set. */
  readonly problem?: PasswordProblem;
  readonly isChanged: boolean;
}

/** Keeps an identity's login by password as the user's Secret has it. */
export async function settlePassword(o: PasswordOptions): Promise<PasswordResult> {
  const { client, identityId, username, secretRef, secret, signal } = o;
  const encoded = secret?.data?.[secretRef.key];
  const { name, key } = secretRef;
  if (secret === undefined || encoded === undefined) {
    const what = secret === undefined ? "does not exist" : `has no key ${key}`;
    const message = `the Secret ${name} with the password ${what}`;
    return { problem: { reason: "SecretNotFound", message, isPassing: true }, isChanged: false };
  }
  if (isOfOperator(secret.metadata)) {
    const message = `the Secret ${name} is one that the operator itself has made: what is in it is no password; name another one`;
    return { problem: { reason: "SecretNotAllowed", message, isPassing: false }, isChanged: false };
  }
  const params = { id: identityId };
  const all = await listAll((query) => client.getIdentityAuthenticators({ params, query }, { signal }));
  const found = all.find(({ method }) => method === "updb");
  const version = `${secret.metadata.uid}.${secret.metadata.resourceVersion}`;
  const action = planPassword({ username, version }, found);
  if (action === "none") return { isChanged: false };
  const password = Buffer.from(encoded, "base64").toString("utf8");
  const login = { username, password, tags: { [PASSWORD_TAG]: version } };
  if (found === undefined)
    await client.createAuthenticator({ body: { ...login, method: "updb", identityId } }, { signal });
  else await client.updateAuthenticator({ params: { id: found.id }, body: login }, { signal });
  return { isChanged: true };
}

/** Tag of an authenticator: which state of the user's Secret its password is from. */
const PASSWORD_TAG = "sallyport-password-version";

/** The password that the spec refers to. */
interface WantedPassword {
  readonly username: string;
  /** Changes with the Secret; says nothing about what is in it. */
  readonly version: string;
}

interface FoundPassword {
  readonly id: string;
  readonly username?: string | undefined;
  readonly tags?: Tags | null | undefined;
}

/** What to do about a login by password: what is stored can't be read back, so the tag tells whether it is the one in the Secret. */
export function planPassword(wanted: WantedPassword, found: FoundPassword | undefined): "create" | "update" | "none" {
  if (found === undefined) return "create";
  return found.username === wanted.username && found.tags?.[PASSWORD_TAG] === wanted.version ? "none" : "update";
}
