/** Answers of the APIs as parts of a status. Pure. */
import { X509Certificate } from "node:crypto";
import { type Entity, titleOf, valueAt } from "../entities/entity.ts";
import type { Inspected } from "./inspect.ts";
import type {
  CertificateStatus,
  ControllerStatus,
  DisabledIdentity,
  LinkStatus,
  Named,
  RouterStatus,
} from "./network-status.ts";
import { certificateState } from "./problems.ts";
import { type Health, namedOf } from "./readings.ts";

export interface ControllerParts {
  readonly controllers: readonly Entity[];
  readonly version: string | undefined;
  readonly health: Health | undefined;
  readonly inspected: Inspected;
  /** Of the controller that answers. */
  readonly id: string | undefined;
  readonly url: string;
}

/** The controller that answers first. A controller alone is in no list. */
export function controllersOf({
  controllers,
  version,
  health,
  inspected,
  id,
  url,
}: ControllerParts): ControllerStatus[] {
  const listed = controllers.find((each) => each.id === id);
  const startedAt = textOf(valueAt(inspected.process, "startedAt"));
  const own: ControllerStatus = {
    name: listed === undefined ? (id ?? new URL(url).host) : titleOf(listed),
    url,
    isOnline: true,
    ...(version !== undefined && { version }),
    ...health,
    ...(startedAt !== undefined && { startedAt }),
  };
  const others = controllers.filter((each) => each !== listed);
  return [own, ...others.map((each) => ({ name: titleOf(each), isOnline: each.isOnline === true }))];
}

export interface RouterParts {
  /** All routers, of the Fabric API. */
  readonly routers: readonly Entity[];
  readonly edgeRouters: readonly Entity[];
  readonly links: readonly Entity[];
  readonly inspected: Inspected;
}

export function routersOf({ routers, edgeRouters, links, inspected }: RouterParts): RouterStatus[] {
  const edges = new Map(edgeRouters.map((each) => [each.id, each]));
  const all = [...routers, ...edgeRouters.filter(({ id }) => !routers.some((each) => each.id === id))];
  const connected = (inspected["connected-routers"] ?? []) as readonly Entity[];
  const connectedAt = new Map((Array.isArray(connected) ? connected : []).map((each) => [each.Id, each.ConnectTime]));
  // An id may have a dot in it.
  const lastSeen = new Map(Object.entries(inspected["routers-last-seen"] ?? {}));
  const linksBy = Map.groupBy(
    links.filter(({ state, down }) => state === "Connected" && down !== true).flatMap(endsOf),
    (id) => id,
  );
  return all.map((router) => {
    const named = namedOf(router);
    const edge = edges.get(router.id) ?? router;
    const details = {
      version: textOf(valueAt(router, "versionInfo.version")) ?? textOf(edge.version),
      connectedAt: textOf(connectedAt.get(router.id)),
      lastSeenAt: textOf(lastSeen.get(named.id)),
      enrollmentExpiresAt: textOf(edge.enrollmentExpiresAt),
    };
    return {
      ...named,
      isOnline: router.isOnline === true || router.connected === true || edge.isOnline === true,
      // Routers that are no edge routers are enrolled when they have a certificate.
      isEnrolled: edge.isVerified === undefined ? Boolean(router.fingerprint) : edge.isVerified === true,
      disabled: router.disabled === true,
      links: linksBy.get(named.id)?.length ?? 0,
      ...present(details),
    };
  });
}

function endsOf(link: Entity): string[] {
  return [valueAt(link, "sourceRouter.id"), valueAt(link, "destRouter.id")].map(String);
}

/** What a controller counts before a link has measured. */
const UNMEASURED_NS = 65_000_000_000;

/** Links without those that failed and have a successor: the controller lists them for a while. */
export function linksOf(links: readonly Entity[]): LinkStatus[] {
  const pairOf = (link: Entity) => endsOf(link).toSorted().join(" ");
  const isUp = ({ state }: Entity) => state === "Connected";
  const connected = new Set(links.filter(isUp).map(pairOf));
  return links.filter((link) => isUp(link) || !connected.has(pairOf(link))).map(linkOf);
}

function linkOf(link: Entity): LinkStatus {
  const measured = [link.sourceLatency, link.destLatency].map(Number).filter((ns) => ns > 0 && ns < UNMEASURED_NS);
  const mean = measured.reduce((sum, each) => sum + each, 0) / measured.length;
  return {
    id: String(link.id),
    from: routerName(link.sourceRouter),
    to: routerName(link.destRouter),
    protocol: String(link.protocol ?? ""),
    state: String(link.state ?? ""),
    down: link.down === true,
    ...(measured.length > 0 && { latencyMs: mean / 1e6 }),
    cost: Number(link.cost ?? 0),
  };
}

function routerName(reference: unknown): string {
  return typeof reference === "object" && reference !== null ? titleOf(reference as Entity) : "";
}

export function disabledOf(identity: Entity): DisabledIdentity {
  const until = textOf(identity.disabledUntil);
  return { ...namedOf(identity), ...(until !== undefined && { until }) };
}

export interface CertificateParts {
  readonly leaf: X509Certificate | undefined;
  readonly authorities: readonly X509Certificate[];
  readonly cas: readonly Entity[];
  readonly edgeRouters: readonly Entity[];
}

/** @param now milliseconds */
export function certificatesOf(parts: CertificateParts, now: number): CertificateStatus[] {
  const { leaf, authorities, cas, edgeRouters } = parts;
  const of = (kind: CertificateStatus["kind"], { id, name }: Named, certificate: X509Certificate) => ({
    ...{ kind, id, name, notAfter: certificate.validToDate.toISOString() },
    // Of authorities the controller renews those that others have signed.
    state: certificateState(certificate, kind !== "ca" && !(kind === "authority" && isOwnIssuer(certificate)), now),
  });
  const ofEntities = (kind: CertificateStatus["kind"], entities: readonly Entity[]) =>
    entities.flatMap((entity) => {
      const certificate = readable(entity.certPem);
      return certificate === undefined ? [] : [of(kind, namedOf(entity), certificate)];
    });
  return [
    ...(leaf === undefined ? [] : [of("controller", nameOf(leaf), leaf)]),
    ...authorities.map((each) => of("authority", nameOf(each), each)),
    ...ofEntities("ca", cas),
    ...ofEntities("router", edgeRouters),
  ];
}

function isOwnIssuer({ subject, issuer }: X509Certificate): boolean {
  return subject === issuer;
}

function readable(pem: unknown): X509Certificate | undefined {
  if (typeof pem !== "string" || pem === "") return undefined;
  try {
    return new X509Certificate(pem);
  } catch {
    return undefined;
  }
}

function nameOf({ subject, fingerprint256 }: X509Certificate): Named {
  // Undefined for an empty name, in spite of its type.
  const name = /^CN=(.+)$/m.exec((subject as string | undefined) ?? "")?.[1];
  return { id: fingerprint256, name: name ?? fingerprint256 };
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** Without what is absent. */
export function present<T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
