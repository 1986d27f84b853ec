import { z } from "zod";
import { apiVersionOf, KINDS, type OwnerReference } from "../kinds.ts";

/** What Kubernetes writes into tokens of service accounts, as far as it is read here. */
const claims = z.object({
  "kubernetes.io": z.object({
    namespace: z.string(),
    serviceaccount: z.object({ name: z.string(), uid: z.string() }),
  }),
});

/**
 * The service account that this process shows itself as: when it is deleted, as by an uninstall, no process can hold a Lease any more, and the cluster removes it.
 * The token says who that is, so that no right is needed to find it out.
 *
 * @param authorization header of this process's requests
 * @param namespace of the Lease; an account of another one cannot own it
 * @returns undefined where the process shows itself otherwise
 */
export function leaseOwner(authorization: string | undefined, namespace: string): OwnerReference | undefined {
  const payload = /^Bearer [^.]+\.([^.]+)\.[^.]*$/.exec(authorization ?? "")?.[1];
  if (payload === undefined) return undefined;
  const found = claims.safeParse(jsonIn(Buffer.from(payload, "base64url").toString("utf8"))).data?.["kubernetes.io"];
  if (found?.namespace !== namespace) return undefined;
  const { kind } = KINDS.ServiceAccount;
  return { apiVersion: apiVersionOf(KINDS.ServiceAccount), kind, ...found.serviceaccount };
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Some other kind of token.
    return undefined;
  }
}
