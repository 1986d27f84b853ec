/** What tests do with Identities: read their Secrets, log in with them, have them looked at. */
import { AuthenticationError, Context, type IdentityFile } from "@sallyport/sdk";
import { conditionOf } from "../../operator/src/kube/conditions.ts";
import { KINDS as KUBE, type SecretObject } from "../../operator/src/kube/kinds.ts";
import type { TestOperator } from "../../operator/src/testing/start-operator.ts";

export const secretRef = (name: string) => ({ kind: KUBE.Secret, namespace: "default", name });
export const secretOf = ({ server }: Pick<TestOperator, "server">, name: string) =>
  server.read<SecretObject>(secretRef(name));

export function textOf(secret: SecretObject | undefined, key: string): string | undefined {
  const value = secret?.data?.[key];
  return value === undefined ? undefined : Buffer.from(value, "base64").toString();
}

export const fileOf = (secret: SecretObject | undefined, key = "identity.json"): IdentityFile =>
  JSON.parse(textOf(secret, key) ?? "{}");

/** A condition of an Identity, as it is now. */
export const condition = (operator: TestOperator, name: string, type: string) =>
  conditionOf(operator.read("Identity", name)?.status.conditions, type);

/** Logs in by an identity file; answers the name of who is in. */
export async function logIn(file: IdentityFile): Promise<string> {
  await using context = await Context.load(file);
  return (await context.identity()).name;
}

/**
 * Logs in as a careful client does: with the identity, and with the one that is about to replace it when that is refused. Answers which of
 * the two let it in.
 */
export async function logInByEither(secret: SecretObject | undefined): Promise<"identity.json" | "next-identity.json"> {
  try {
    await logIn(fileOf(secret));
    return "identity.json";
  } catch (error) {
    if (!(error instanceof AuthenticationError) || textOf(secret, "next-identity.json") === undefined) throw error;
    await logIn(fileOf(secret, "next-identity.json"));
    return "next-identity.json";
  }
}

/** Another look at an Identity, asked for by the annotation; resolves when it was taken. */
export async function look(operator: TestOperator, name: string): Promise<void> {
  const asked = `look-${operator.server.requests.length}`;
  await operator.annotate("Identity", name, { "sallyport.dev/reconcile-requested-at": asked });
  await operator.until("Identity", name, ({ status }) => status.lastHandledReconcileAt === asked);
}
