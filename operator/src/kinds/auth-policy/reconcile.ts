import { type Collection, writable } from "../../entity/collection.ts";
import { entityReconciler, noLookUp } from "../../entity/reconcile.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";
import { authPolicyKind } from "../../resources/own-kinds.ts";
import { type AuthPolicyFields, authPolicy, type FoundAuthPolicy } from "./plan.ts";
import type { AuthPolicyResource } from "./schema.ts";

export const authPolicies: Collection<AuthPolicyFields, FoundAuthPolicy> = {
  list: (client, query, call) => client.listAuthPolicies({ query }, call),
  detail: async (client, id, call) => (await client.detailAuthPolicy({ params: { id } }, call)).data,
  create: async (client, body, call) => (await client.createAuthPolicy({ body: writable(body) }, call)).data.id,
  change: (client, { found: { id }, whole }, call) =>
    client.updateAuthPolicy({ params: { id }, body: writable(whole) }, call),
  retag(client, { id, name, primary, secondary }, tags, call) {
    const { requireTotp, requireExtJwtSigner } = secondary;
    const signer = requireExtJwtSigner ? { requireExtJwtSigner } : {};
    const extJwt = { ...primary.extJwt, allowedSigners: primary.extJwt.allowedSigners ?? [] };
    const whole = { name, tags, primary: { ...primary, extJwt }, secondary: { requireTotp, ...signer } };
    return client.updateAuthPolicy({ params: { id }, body: writable(whole) }, call);
  },
  delete: (client, id, call) => client.deleteAuthPolicy({ params: { id } }, call),
};

export const authPolicyReconciler: KindReconciler<AuthPolicyResource> = entityReconciler({
  kind: authPolicyKind,
  entity: authPolicy,
  collection: authPolicies,
  lookUp: noLookUp,
});
