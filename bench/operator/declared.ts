/** What is applied: a whole network as its owner would declare it, in one namespace. */
import { freePorts } from "@sallyport/wire/testing/free-ports";
import type { KubeObject } from "../../operator/src/kube/kinds.ts";
import { sample } from "../../packages/resources/src/kinds/testing/samples.ts";

export const NAMESPACE = "overlay";
const SITES = 20;
const TIERS = 10;

export interface Amount {
  readonly identities: number;
  /** Of the identities, those that the operator enrolls; the others are invited by a token. */
  readonly enrolled: number;
  readonly services: number;
  readonly policies: number;
  readonly routers: number;
}

/** The controller that the Network names. */
export interface NamedController {
  readonly port: number;
  /** PEM bundle. */
  readonly ca: string;
  readonly username: string;
  readonly password: string;
}

type Spec = Readonly<Record<string, unknown>>;

/** Declared in a namespace, with `changes` over the least that its kind takes. */
export function declared(kind: string, name: string, changes: Spec): KubeObject {
  const manifest = sample(kind, changes, name);
  return { ...manifest, metadata: { ...manifest.metadata, namespace: NAMESPACE } };
}

/** The Network with the Secret that it logs in by. */
export function declaredNetwork({ port, ca, username, password }: NamedController): KubeObject[] {
  const secret = {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "admin", namespace: NAMESPACE },
    stringData: { username, password },
  };
  const external = {
    endpoints: [`https://localhost:${port}`],
    caBundle: { inline: ca, configMapRef: null },
    auth: { passwordSecretRef: { name: "admin" }, certificateSecretRef: null },
  };
  return [secret, declared("Network", "main", { external })];
}

/** Everything else. Routers are of one EdgeRouter each, since on one machine no two can have the same port. */
export async function declaredResources(o: Amount): Promise<KubeObject[]> {
  const ports = await freePorts(o.routers);
  const every = o.enrolled === 0 ? Number.POSITIVE_INFINITY : o.identities / o.enrolled;
  return [
    ...numbered(o.routers, (index) =>
      declared("EdgeRouter", name("router", index), {
        edge: { port: ports[index] },
        exposure: { hostname: "localhost" },
        roleAttributes: [`site-${index % SITES}`],
        drainSeconds: 1,
      }),
    ),
    ...numbered(o.services, (index) =>
      declared("OverlayService", name("service", index), { roleAttributes: [`tier-${index % TIERS}`] }),
    ),
    ...numbered(o.policies, (index) => declared("ServicePolicy", name("policy", index), policySpec(index))),
    ...numbered(o.identities, (index) =>
      declared("Identity", name("identity", index), {
        roleAttributes: [`site-${index % SITES}`],
        ...(Math.floor((index + 1) / every) > Math.floor(index / every)
          ? { enrollment: { output: "IdentitySecret" } }
          : {}),
      }),
    ),
  ];
}

const policySpec = (index: number): Spec => ({
  type: index % 4 === 0 ? "Bind" : "Dial",
  identityRoles: [`#site-${index % SITES}`],
  serviceRoles: [`#tier-${index % TIERS}`],
});

const name = (of: string, index: number): string => `${of}-${String(index).padStart(4, "0")}`;

const numbered = (count: number, make: (index: number) => KubeObject): KubeObject[] =>
  Array.from({ length: count }, (_, index) => make(index));
