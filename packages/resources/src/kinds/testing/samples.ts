import { API_VERSION } from "../../group.ts";
import { isObject } from "../../json-object.ts";

/** A manifest as a user writes it. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly spec: Readonly<Record<string, unknown>>;
}

type Spec = Readonly<Record<string, unknown>>;

const networkRef = { name: "main" };
const policy = { networkRef, semantic: "AnyOf" };

/** The least that each kind takes. */
const SPECS: Readonly<Record<string, Spec>> = {
  Network: {
    external: {
      endpoints: ["https://ctrl.example:1280/edge/management/v1"],
      caBundle: { configMapRef: { name: "overlay-ca", key: "ca.crt" } },
      auth: { certificateSecretRef: { name: "operator-identity" } },
    },
  },
  EdgeRouter: { networkRef },
  Identity: { networkRef },
  OverlayService: { networkRef },
  ServiceConfig: { networkRef, type: "host.v1", data: { protocol: "tcp", address: "localhost", port: 80 } },
  ServicePolicy: { ...policy, type: "Dial" },
  EdgeRouterPolicy: policy,
  ServiceEdgeRouterPolicy: policy,
  AuthPolicy: { networkRef },
  PostureCheck: { networkRef, mfa: {} },
};

/** The smallest manifest of a kind, with `changes` laid over its spec: objects merge, `null` takes a field away. */
export function sample(kind: string, changes: Spec = {}, name = "sample"): Manifest {
  const spec = merge(SPECS[kind] ?? {}, changes) as Spec;
  return { apiVersion: API_VERSION, kind, metadata: { name, namespace: "default" }, spec };
}

function merge(base: unknown, changes: unknown): unknown {
  if (!isObject(base) || !isObject(changes)) return changes;
  const kept = Object.entries(base).filter(([name]) => changes[name] !== null);
  const changed = Object.entries(changes).filter(([, value]) => value !== null);
  return Object.fromEntries([...kept, ...changed.map(([name, value]) => [name, merge(base[name], value)] as const)]);
}
