import { type Collection, writable } from "../../entity/collection.ts";
import { type EntityKind, type FoundEntity, sameJson, sameSet } from "../../entity/plan.ts";
import { sortedSet } from "../../entity/references.ts";
import type { AuthPolicySpec } from "./schema.ts";

interface CertificateLogin {
  readonly allowed: boolean;
  readonly allowExpiredCerts: boolean;
}

interface TokenLogin {
  readonly allowed: boolean;
  readonly allowedSigners: readonly string[];
}

interface PasswordLogin {
  readonly allowed: boolean;
  readonly minPasswordLength: number;
  readonly requireSpecialChar: boolean;
  readonly requireNumberChar: boolean;
  readonly requireMixedCase: boolean;
  readonly maxAttempts: number;
  readonly lockoutDurationMinutes: number;
}

interface PrimaryLogin {
  readonly cert: CertificateLogin;
  readonly extJwt: TokenLogin;
  readonly updb: PasswordLogin;
}

/** No signer is `null` on reading and is left out on writing. */
interface SecondaryLogin {
  readonly requireTotp: boolean;
  readonly requireExtJwtSigner?: string | null;
}

interface AuthPolicyFields {
  readonly primary: PrimaryLogin;
  readonly secondary: { readonly requireTotp: boolean; readonly requireExtJwtSigner?: string };
}

export interface FoundAuthPolicy extends FoundEntity {
  readonly primary: {
    readonly cert: CertificateLogin;
    readonly extJwt: Omit<TokenLogin, "allowedSigners"> & { readonly allowedSigners?: readonly string[] | null };
    readonly updb: PasswordLogin;
  };
  readonly secondary: SecondaryLogin;
}

const SHORTEST_PASSWORD = 5;

/**
 * The API wants every leaf, and drops some when only a part is changed: the whole is always sent.
 * A way to log in that the spec leaves out is closed as soon as the spec names another one; naming none leaves all of them open.
 */
export const authPolicy: EntityKind<AuthPolicySpec, AuthPolicyFields, FoundAuthPolicy> = {
  noun: "auth policy",
  references: () => [],
  desired({ primary, secondary }) {
    const { cert, extJwt, updb } = primary ?? {};
    const isOpen = cert === undefined && extJwt === undefined && updb === undefined;
    const allowed = (way: { readonly allowed?: boolean | undefined } | undefined): boolean =>
      way === undefined ? isOpen : (way.allowed ?? true);
    return {
      fields: {
        primary: {
          cert: { allowed: allowed(cert), allowExpiredCerts: cert?.allowExpiredCerts ?? false },
          extJwt: { allowed: allowed(extJwt), allowedSigners: sortedSet(extJwt?.allowedSigners ?? []) },
          updb: {
            allowed: allowed(updb),
            minPasswordLength: updb?.minPasswordLength ?? SHORTEST_PASSWORD,
            requireSpecialChar: updb?.requireSpecialChar ?? false,
            requireNumberChar: updb?.requireNumberChar ?? false,
            requireMixedCase: updb?.requireMixedCase ?? false,
            maxAttempts: updb?.maxAttempts ?? 0,
            lockoutDurationMinutes: updb?.lockoutDurationMinutes ?? 0,
          },
        },
        secondary: {
          requireTotp: secondary?.requireTotp ?? false,
          ...(secondary?.requireExtJwtSigner === undefined
            ? {}
            : { requireExtJwtSigner: secondary.requireExtJwtSigner }),
        },
      },
      missing: [],
    };
  },
  same: {
    primary: (wanted, { primary }) =>
      sameJson(wanted.cert, pick(primary.cert, wanted.cert)) &&
      sameJson(wanted.updb, pick(primary.updb, wanted.updb)) &&
      wanted.extJwt.allowed === primary.extJwt.allowed &&
      sameSet(wanted.extJwt.allowedSigners, primary.extJwt.allowedSigners),
    secondary: (wanted, { secondary }) =>
      wanted.requireTotp === secondary.requireTotp &&
      (wanted.requireExtJwtSigner ?? "") === (secondary.requireExtJwtSigner ?? ""),
  },
  refusal: ({ id }) =>
    id === "default"
      ? "is the controller's own, which applies where no other is named: it can't be taken over"
      : undefined,
};

/** What `found` has of the keys of `wanted`: newer servers may tell more. */
function pick<T extends object>(found: T, wanted: T): Partial<T> {
  return Object.fromEntries(Object.keys(wanted).map((key) => [key, found[key as keyof T]])) as Partial<T>;
}

export const authPolicies: Collection<AuthPolicyFields, FoundAuthPolicy> = {
  list: (client, query, call) => client.listAuthPolicies({ query }, call),
  detail: (client, id, call) => client.detailAuthPolicy({ params: { id } }, call),
  create: async (client, body, call) => (await client.createAuthPolicy({ body: writable(body) }, call)).data.id,
  replace: (client, { id }, body, call) => client.updateAuthPolicy({ params: { id }, body: writable(body) }, call),
  fieldsOf({ primary, secondary: { requireTotp, requireExtJwtSigner } }) {
    const extJwt = { ...primary.extJwt, allowedSigners: primary.extJwt.allowedSigners ?? [] };
    const signer = requireExtJwtSigner ? { requireExtJwtSigner } : {};
    return { primary: { ...primary, extJwt }, secondary: { requireTotp, ...signer } };
  },
  delete: (client, id, call) => client.deleteAuthPolicy({ params: { id } }, call),
};
