import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { admit } from "../testing/admit.ts";
import { DEFINITIONS } from "./definitions.ts";
import { REFUSALS } from "./testing/refusals.ts";
import { type Manifest, sample } from "./testing/samples.ts";

const documents = (text: string) => parseAllDocuments(text, { merge: true }).map((each) => each.toJS() as Manifest);
const kindOf = ({ kind }: Manifest) => DEFINITIONS.find((each) => each.kind === kind);

const EXAMPLES = documents(`
apiVersion: sallyport.dev/v1alpha1
kind: Network
metadata: {name: main, namespace: edge}
spec:
  external:
    endpoints: ["https://ctrl.overlay.svc:1280/edge/management/v1"]
    caBundle: {configMapRef: {name: overlay-ca, key: ca.crt}}
    auth: {certificateSecretRef: {name: operator-identity}}
---
apiVersion: sallyport.dev/v1alpha1
kind: EdgeRouter
metadata: {name: eu, namespace: edge}
spec:
  networkRef: {name: main}
  replicas: 2
  roleAttributes: [public, eu]
  tunneler: {enabled: true, mode: host}
  exposure: {type: LoadBalancer, hostname: "{name}-{ordinal}.edge.example.com", port: 443}
  forwarder: {xgressDialWorkerCount: 256}
  template: {spec: {resources: {requests: {cpu: 200m, memory: 256Mi}}}}
---
apiVersion: sallyport.dev/v1alpha1
kind: ServicePolicy
metadata: {name: web-dial, namespace: edge}
spec:
  networkRef: {name: main}
  type: Dial
  semantic: AnyOf
  identityRoles: ["#staff"]
  identityRefs: [{name: build-bot}]
  serviceRefs: [{name: web}]
  deletionPolicy: Delete
---
apiVersion: sallyport.dev/v1alpha1
kind: EdgeRouter
metadata: {name: all, namespace: edge}
spec:
  networkRef: {name: main}
  importId: a.1
  appData: {rack: 7, spare: true}
  tunneler: {enabled: true, mode: proxy, proxyServices: ["web:8080", "dns:5353:udp"]}
  link: {groups: [default, backbone]}
  exposure: {type: NodePort, hostname: 192.0.2.7, nodePort: 30022, externalTrafficPolicy: Local}
  forwarder: {faultTxInterval: 0, unresponsiveLinkTimeout: 1m30s, circuitMemory: 25165824}
  metrics: {reportInterval: 15s}
  healthChecks: {linkCheck: {minLinks: 1, initialDelay: 0s}}
  csr: {country: DE, sans: {dns: [edge.example.com], ip: [192.0.2.7]}}
  config: {overrides: {trace: null, tls: {handshakeTimeout: 3s}}}
  storage: {size: 1Gi, storageClassName: fast, accessModes: [ReadWriteOncePod], retention: Retain}
  template:
    spec:
      tolerations: [{key: edge, operator: Exists}]
      topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
      resources: {limits: {cpu: 2}}
      env: [{name: A, value: b}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
      containers: [{name: sidecar, image: example.com/sidecar}]
  serviceMonitor: {enabled: true, interval: 30s, labels: {release: prometheus}}
`);

const quickstart = join(import.meta.dirname, "../../../../examples/quickstart");
const kustomization = parse(readFileSync(join(quickstart, "kustomization.yaml"), "utf8")) as { resources: string[] };
const QUICKSTART = kustomization.resources.flatMap((file) => documents(readFileSync(join(quickstart, file), "utf8")));

test.each([...EXAMPLES, ...QUICKSTART.filter(kindOf), ...DEFINITIONS.map(({ kind }) => sample(kind))])(
  "$kind $metadata.name is accepted, has the same defaults in program and cluster, and reads back as it was stored",
  (manifest) => {
    const kind = kindOf(manifest);
    if (kind === undefined) throw new Error(`no kind ${manifest.kind}`);
    const { object, problems } = admit(kind, manifest);
    expect(problems).toEqual([]);
    const spec = kind.spec.parse(manifest.spec);
    expect(spec).toEqual(object.spec);
    expect(kind.spec.parse(spec)).toEqual(spec);
    expect(object.status).toEqual({ observedGeneration: -1 });
    expect(kind.status.parse(object.status)).toEqual(object.status);
  },
);

test.each(REFUSALS.filter(({ rule }) => !["rule", "x-kubernetes-list-type"].includes(rule)))(
  "what the schema of $kind refuses at $at the program refuses, too ($rule)",
  ({ object }) => {
    expect(kindOf(object)?.spec.safeParse(object.spec).success).toBe(false);
  },
);

test("the quickstart lists all of its files and has everything that a network needs", () => {
  const files = readdirSync(quickstart).filter((name) => name.endsWith(".yaml") && name !== "kustomization.yaml");
  expect([...kustomization.resources].sort()).toEqual(files.sort());
  const kinds = QUICKSTART.map(({ kind }) => kind);
  for (const kind of ["Network", "EdgeRouter", "Identity", "OverlayService", "ServiceConfig", "ServicePolicy"])
    expect(kinds).toContain(kind);
  const routers = QUICKSTART.filter(({ kind }) => kind === "EdgeRouter").map(({ spec }) => Number(spec.replicas));
  expect(routers.reduce((sum, count) => sum + count)).toBe(2);
});

test("every reference and every attribute in the quickstart leads to something in it", () => {
  const names = (kind: string) => QUICKSTART.filter((each) => each.kind === kind).map(({ metadata }) => metadata.name);
  const attributes = (kind: string) =>
    QUICKSTART.filter((each) => each.kind === kind).flatMap(({ spec }) => (spec.roleAttributes as string[]) ?? []);
  const targets = {
    identity: "Identity",
    service: "OverlayService",
    edgeRouter: "EdgeRouter",
    config: "ServiceConfig",
  };
  let checked = 0;
  for (const { spec } of QUICKSTART.filter(kindOf)) {
    if (spec.networkRef !== undefined) expect(names("Network")).toContain((spec.networkRef as { name: string }).name);
    for (const [field, kind] of Object.entries(targets)) {
      for (const { name } of (spec[`${field}Refs`] as { name: string }[] | undefined) ?? []) {
        expect(names(kind)).toContain(name);
        checked++;
      }
      for (const role of (spec[`${field}Roles`] as string[] | undefined) ?? []) {
        if (role !== "#all") expect(attributes(kind)).toContain(role.slice(1));
        checked++;
      }
    }
  }
  expect(checked).toBeGreaterThan(8);
});

test("the pods of the quickstart mount Secrets that its identities write", () => {
  const secrets = QUICKSTART.filter(({ kind }) => kind === "Identity").map(
    ({ metadata }) => `${metadata.name}-identity`,
  );
  const mounted = [...JSON.stringify(QUICKSTART).matchAll(/"secretName":"([^"]+)"/g)].map(([, name]) => name);
  expect(mounted.length).toBe(2);
  for (const name of mounted) expect(secrets).toContain(name);
});
