import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import type { ExternalNetwork } from "@sallyport/resources";
import { splitPem } from "@sallyport/wire";
import { type NetworkProblem, passing, stalled } from "./problem.ts";

/** How the operator proves who it is, as far as a Secret says it. */
export type SecretCredentials =
  | { readonly method: "password"; readonly username: string; readonly password: string }
  | { readonly method: "cert"; readonly cert: string; readonly key: string };

/** Names of what has to be read for an external Network. */
interface AccessSources {
  readonly caBundle?: { readonly kind: "Secret" | "ConfigMap"; readonly name: string } | undefined;
  readonly credentials?: string | undefined;
}

export function accessSources({ caBundle, auth }: ExternalNetwork): AccessSources {
  const { configMapRef, secretRef } = caBundle ?? {};
  const credentials = (auth.passwordSecretRef ?? auth.certificateSecretRef)?.name;
  if (configMapRef !== undefined) return { caBundle: { kind: "ConfigMap", name: configMapRef.name }, credentials };
  return { caBundle: secretRef && { kind: "Secret", name: secretRef.name }, credentials };
}

/** The certificates to trust, PEM; undefined where they are still to be fetched (`bootstrapTrust`). */
export function caBundleOf({ caBundle }: ExternalNetwork, holder: ValueHolder | undefined): Found<string | undefined> {
  if (caBundle === undefined) return { value: undefined };
  const { configMapRef, secretRef, inline } = caBundle;
  if (inline !== undefined) return checkedBundle(inline, "spec.external.caBundle.inline");
  const kind = configMapRef === undefined ? "Secret" : "ConfigMap";
  const ref = configMapRef ?? secretRef;
  if (ref === undefined) return { value: undefined };
  const found = namedValue(holder, { kind, ...ref, use: "the controller's CA certificates" });
  return "problem" in found ? found : checkedBundle(found.value, `the key ${ref.key} of the ${kind} ${ref.name}`);
}

function checkedBundle(pem: string, where: string): Found<string> {
  const wrong = (what: string): { problem: NetworkProblem } => ({
    problem: stalled("InvalidCaBundle", `${where} should hold CA certificates in PEM, ${what}`),
  });
  let certificates: string[];
  try {
    certificates = splitPem(pem);
    for (const certificate of certificates) new X509Certificate(certificate);
  } catch (error) {
    return wrong(`it can't be read: ${(error as Error).message}`);
  }
  return certificates.length === 0 ? wrong("it has none") : { value: pem };
}

/** The credentials of `passwordSecretRef` or `certificateSecretRef`. */
export function credentialsOf(name: string, method: "password" | "cert", holder: ValueHolder | undefined) {
  return method === "password" ? password(name, holder) : certificate(name, holder);
}

/**
 * The audience of a token of the operator's own account. A user who may write a Network says where the token is sent: one for the API server, for another
 * network or for any other service would make him the operator there. So a token is good for this one Network and nothing else.
 */
export function tokenAudience(
  { namespace, name }: { readonly namespace: string; readonly name: string },
  asked: string,
): Found<string> {
  const own = `sallyport://${namespace}/${name}`;
  if (asked === own) return { value: own };
  const message = `spec.external.auth.extJwt.audience has to be ${own}, found ${asked}: a token of the operator's account for another audience would be good elsewhere, too. The network's external JWT signer needs the same audience`;
  return { problem: stalled("AudienceNotAllowed", message) };
}

function password(name: string, holder: ValueHolder | undefined): Found<SecretCredentials> {
  const pair = both(name, holder, ["username", "password"]);
  if ("problem" in pair) return pair;
  const [username, text] = pair.value;
  // Editors and `base64` leave a line feed behind; no password begins or ends with one.
  return { value: { method: "password", username: username.trim(), password: text.replace(/\r?\n$/, "") } };
}

function certificate(name: string, holder: ValueHolder | undefined): Found<SecretCredentials> {
  const pair = both(name, holder, ["tls.crt", "tls.key"]);
  if ("problem" in pair) return pair;
  const [cert, key] = pair.value;
  const wrong = (what: string): { problem: NetworkProblem } => ({
    problem: stalled(
      "InvalidCredentials",
      `the Secret ${name} should hold a certificate and its key, not encrypted, both in PEM: ${what}`,
    ),
  });
  let leaf: X509Certificate;
  try {
    leaf = new X509Certificate(cert);
  } catch {
    return wrong("tls.crt is no certificate");
  }
  let secret: KeyObject;
  try {
    secret = createPrivateKey(key);
  } catch {
    return wrong("tls.key is no private key that can be read");
  }
  if (!leaf.checkPrivateKey(secret)) return wrong("tls.key belongs to another certificate than the one in tls.crt");
  return { value: { method: "cert", cert, key } };
}

function both(
  name: string,
  holder: ValueHolder | undefined,
  keys: readonly [string, string],
): Found<readonly [string, string]> {
  const read = (key: string) =>
    namedValue(holder, { kind: "Secret", name, key, use: "the operator's credentials for the network" });
  const first = read(keys[0]);
  if ("problem" in first) return first;
  const second = read(keys[1]);
  return "problem" in second ? second : { value: [first.value, second.value] };
}

/** The part of a Secret (values in base64) or ConfigMap that is looked at. */
export interface ValueHolder {
  readonly data?: Readonly<Record<string, string>>;
}

interface NamedValue {
  readonly kind: "Secret" | "ConfigMap";
  readonly name: string;
  readonly key: string;
  /** What it is needed for, in messages: `the CA bundle`. */
  readonly use: string;
}

export type Found<T> = { readonly value: T } | { readonly problem: NetworkProblem };

/** The text under one key of a Secret or ConfigMap that was read; `holder` undefined: there is none of that name. */
export function namedValue(holder: ValueHolder | undefined, { kind, name, key, use }: NamedValue): Found<string> {
  if (holder === undefined) {
    return {
      problem: passing(
        kind === "Secret" ? "SecretNotFound" : "ConfigMapNotFound",
        `there is no ${kind} ${name} in this namespace, from which ${use} should come; it is looked at as soon as it appears`,
      ),
    };
  }
  const text = holder.data?.[key];
  const value = text === undefined || kind === "ConfigMap" ? text : Buffer.from(text, "base64").toString("utf8");
  if (value !== undefined && value !== "") return { value };
  const keys = Object.keys(holder.data ?? {}).sort();
  const present = keys.length === 0 ? "it has none" : `it has ${keys.slice(0, 10).join(", ")}`;
  return {
    problem: passing(
      kind === "Secret" ? "SecretKeyMissing" : "ConfigMapKeyMissing",
      `the ${kind} ${name} has ${value === "" ? "nothing under" : "not"} the key ${key}, from which ${use} should come; ${present}`,
    ),
  };
}
