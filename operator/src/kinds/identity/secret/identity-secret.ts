import { isDeepStrictEqual } from "node:util";
import { ANNOTATIONS, GROUP, type IdentityResource, LABELS, MANAGED_BY } from "@sallyport/resources";
import type { IdentityFile } from "@sallyport/sdk";
import { commonName, fingerprint, parseCertificates } from "@sallyport/wire";
import { ownerReference } from "../../../children/owner-marks.ts";
import type { KubeClient } from "../../../kube/client/client.ts";
import { secondTime } from "../../../kube/formats.ts";
import { KINDS, type KubeObject, refOf, type SecretObject } from "../../../kube/kinds.ts";
import type { HeldCertificate, HeldSecret } from "../plan/credential.ts";

/**
 * One Secret of one Identity. Every write is of the state that was read, so that a Secret which another client made or changed meanwhile is never
 * overwritten: then the write throws a `KubeError` of a conflict, and the next look decides.
 */
export class IdentitySecret {
  readonly #client: Pick<KubeClient, "create" | "replace" | "delete">;
  readonly #resource: IdentityResource;
  readonly #name: string;
  readonly #signal: AbortSignal;
  #found: SecretObject | undefined;

  /** @param found the Secret of that name as it was read just now */
  constructor(
    client: Pick<KubeClient, "create" | "replace" | "delete">,
    resource: IdentityResource,
    name: string,
    found: SecretObject | undefined,
    signal: AbortSignal,
  ) {
    this.#client = client;
    this.#resource = resource;
    this.#name = name;
    this.#found = found;
    this.#signal = signal;
  }

  get name(): string {
    return this.#name;
  }

  get held(): HeldSecret {
    return heldSecret(this.#found, this.#resource);
  }

  /** What is in it; nothing when it is not ours. */
  get content(): SecretContent {
    return this.#found !== undefined && isOwnSecret(this.#found, this.#resource) ? contentOf(this.#found) : {};
  }

  /** Replaces what the operator keeps in it. No write when it is so already. */
  async write(content: SecretContent): Promise<void> {
    if (this.held.state === "foreign") throw new TypeError(`the Secret ${this.#name} is not ours to write`);
    const wanted = secretWith(content, this.#found, this.#resource, this.#name);
    if (isSameSecret(wanted, this.#found)) return;
    const o = { signal: this.#signal };
    this.#found =
      this.#found === undefined
        ? await this.#client.create<SecretObject>(wanted, o)
        : await this.#client.replace<SecretObject>(wanted, o);
  }

  /** Deletes it, if it is ours and unchanged since it was read. */
  async delete(): Promise<void> {
    if (this.held.state !== "ours" || this.#found === undefined) return;
    const { uid, resourceVersion } = this.#found.metadata;
    const precondition = { uid, resourceVersion, signal: this.#signal };
    await this.#client.delete(refOf(KINDS.Secret, this.#found), precondition);
    this.#found = undefined;
  }
}

/** Keys of the Secret of an identity (docs/operator/identities.md, "The Secret"). */
const SECRET_KEYS = {
  token: "enrollment.jwt",
  identity: "identity.json",
  certificate: "tls.crt",
  key: "tls.key",
  authorities: "ca.crt",
  /** An identity file whose certificate is about to replace the other one. */
  next: "next-identity.json",
  /** An identity file that was replaced by one that counts beside it, until that is confirmed. */
  former: "former-identity.json",
  /** A key for which a certificate is being asked, with all that will belong to it. */
  enrolling: "enrolling.json",
} as const;

const OWN_KEYS: ReadonlySet<string> = new Set(Object.values(SECRET_KEYS));

/** Besides {@link ANNOTATIONS}: whose the Secret is, also when it has no owner reference, and since when it holds two identities. */
const OWNER = `${GROUP}/owner`;
const NEXT_SINCE = `${GROUP}/next-identity-since`;

/** A key before it has its certificate. */
export interface Enrolling {
  readonly identityId: string;
  /** Base of the client API. */
  readonly ztAPI: string;
  /** PEM. */
  readonly key: string;
  readonly ca: string;
}

/** All that the operator keeps in the Secret of an identity. */
export interface SecretContent {
  readonly token?: string | undefined;
  readonly identity?: IdentityFile | undefined;
  readonly next?: { readonly file: IdentityFile; readonly since: Date } | undefined;
  readonly former?: { readonly file: IdentityFile; readonly since: Date } | undefined;
  readonly enrolling?: Enrolling | undefined;
  readonly reEnroll?: string | undefined;
}

/** Whose Secrets an Identity's are: by owner reference, or by the annotation once a Secret outlives its resource. */
function isOwnSecret({ metadata }: KubeObject, resource: IdentityResource): boolean {
  const isOwned = metadata.ownerReferences?.some(({ uid }) => uid === resource.metadata.uid) === true;
  return isOwned || metadata.annotations?.[OWNER] === ownerText(resource);
}

/** Reads a Secret of the operator. What can't be read is as good as absent. */
export function contentOf({ data = {}, metadata }: SecretObject): SecretContent {
  const text = (key: string): string | undefined => {
    const value = data[key];
    return value === undefined ? undefined : Buffer.from(value, "base64").toString("utf8");
  };
  const annotations = metadata.annotations ?? {};
  const next = identityFile(text(SECRET_KEYS.next));
  const former = identityFile(text(SECRET_KEYS.former));
  const noted = new Date(annotations[NEXT_SINCE] ?? 0);
  const since = Number.isNaN(noted.getTime()) ? new Date(0) : noted;
  return {
    token: text(SECRET_KEYS.token),
    identity: identityFile(text(SECRET_KEYS.identity)),
    next: next && { file: next, since },
    former: former && { file: former, since },
    enrolling: enrollingOf(text(SECRET_KEYS.enrolling)),
    reEnroll: annotations[ANNOTATIONS.reEnroll],
  };
}

/** The content as plans look at it: without any secret. */
export function heldSecret(object: SecretObject | undefined, resource: IdentityResource): HeldSecret {
  if (object === undefined) return { state: "absent" };
  if (!isOwnSecret(object, resource)) return { state: "foreign" };
  const { token, identity, next, former, enrolling, reEnroll } = contentOf(object);
  const dated = (one: SecretContent["next"]) => {
    const certificate = one && certificateOf(one.file);
    return certificate && one && { ...certificate, since: one.since };
  };
  return {
    state: "ours",
    token,
    identity: identity && certificateOf(identity),
    next: dated(next),
    former: dated(former),
    enrolling: enrolling?.identityId,
    reEnroll,
  };
}

/** The certificate of an identity file that holds its texts itself; undefined for any other. */
function certificateOf({ id }: IdentityFile): HeldCertificate | undefined {
  try {
    const [leaf] = parseCertificates(pemText(id.cert));
    if (leaf === undefined) return undefined;
    return {
      fingerprint: fingerprint(leaf),
      identityId: commonName(leaf) ?? "",
      notBefore: leaf.validFromDate,
      notAfter: leaf.validToDate,
    };
  } catch {
    // Another client has written into the Secret: then the certificate is lost.
    return undefined;
  }
}

/** PEM of a value of an identity file. */
export const pemText = (value: unknown): string => String(value ?? "").replace(/^pem:/, "");

/** The whole Secret, made from what is there: labels, annotations and keys of others stay. */
export function secretWith(
  content: SecretContent,
  found: SecretObject | undefined,
  resource: IdentityResource,
  name: string,
): SecretObject {
  const { namespace } = resource.metadata;
  const metadata = found?.metadata ?? { name, namespace };
  const others = Object.entries(found?.data ?? {}).filter(([key]) => !OWN_KEYS.has(key));
  const certificate = content.identity && certificateOf(content.identity);
  const owners = (metadata.ownerReferences ?? []).filter(({ uid }) => uid !== resource.metadata.uid);
  const own = isOrphaned(resource) ? [] : [ownerReference(resource)];
  return {
    apiVersion: "v1",
    kind: "Secret",
    type: found?.type ?? "Opaque",
    metadata: {
      ...metadata,
      labels: {
        ...metadata.labels,
        [MANAGED_BY.key]: MANAGED_BY.value,
        [LABELS.ownerKind]: resource.kind,
      },
      annotations: withValues(metadata.annotations, {
        [OWNER]: ownerText(resource),
        [ANNOTATIONS.certificateNotAfter]: certificate && secondTime(certificate.notAfter),
        [ANNOTATIONS.reEnroll]: content.reEnroll,
        [NEXT_SINCE]: (content.next ?? content.former)?.since.toISOString(),
      }),
      ownerReferences: [...owners, ...own],
    },
    data: { ...Object.fromEntries(others), ...dataOf(content) },
  };
}

function dataOf({ token, identity, next, former, enrolling }: SecretContent): Record<string, string> {
  const texts: Record<string, string | undefined> = {
    [SECRET_KEYS.token]: token,
    [SECRET_KEYS.identity]: identity && json(identity),
    [SECRET_KEYS.certificate]: identity && pemText(identity.id.cert),
    [SECRET_KEYS.key]: identity && pemText(identity.id.key),
    [SECRET_KEYS.authorities]: identity && pemText(identity.id.ca),
    [SECRET_KEYS.next]: next && json(next.file),
    [SECRET_KEYS.former]: former && json(former.file),
    [SECRET_KEYS.enrolling]: enrolling && json(enrolling),
  };
  const encoded = Object.entries(texts).flatMap(([key, text]) =>
    text === undefined ? [] : [[key, Buffer.from(text).toString("base64")] as const],
  );
  return Object.fromEntries(encoded);
}

/** Whether a Secret already is as {@link secretWith} made it. */
export function isSameSecret(wanted: SecretObject, found: SecretObject | undefined): boolean {
  const own = ({ metadata: { labels = {}, annotations = {}, ownerReferences = [] }, data = {} }: SecretObject) => {
    return [data, labels, annotations, ownerReferences.map(({ uid, controller }) => [uid, controller])];
  };
  return found !== undefined && isDeepStrictEqual(own(wanted), own(found));
}

/** A Secret that stays when its resource goes must not be collected with it. */
const isOrphaned = ({ spec }: IdentityResource): boolean =>
  spec.deletionPolicy === "Orphan" || spec.managementPolicy === "Observe";

const ownerText = ({ kind, metadata }: IdentityResource): string => `${kind}/${metadata.name}`;

function withValues(
  present: Readonly<Record<string, string>> | undefined,
  values: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const entries = Object.entries({ ...present, ...values });
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => entry[1] !== undefined));
}

const json = (value: object): string => JSON.stringify(value);

function identityFile(text: string | undefined): IdentityFile | undefined {
  const file = parsed(text) as Partial<IdentityFile> | undefined;
  return typeof file?.ztAPI === "string" && typeof file.id === "object" ? (file as IdentityFile) : undefined;
}

function enrollingOf(text: string | undefined): Enrolling | undefined {
  const value = parsed(text) as Partial<Enrolling> | undefined;
  const { identityId, ztAPI, key, ca } = value ?? {};
  const isWhole = [identityId, ztAPI, key, ca].every((each) => typeof each === "string");
  return isWhole ? (value as Enrolling) : undefined;
}

function parsed(text: string | undefined): object | undefined {
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    // Another client has written into the Secret: then it is as good as absent.
    return undefined;
  }
}
