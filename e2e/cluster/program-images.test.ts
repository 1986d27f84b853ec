/** The images of our programs in pods that may do as little as pods can: a whole network, and a byte through it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type ApiClient, createClient } from "@sallyport/api";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { programArchives } from "../images/program-archives.ts";
import { eventually } from "../network/eventually.ts";
import { Cluster } from "./cluster.ts";
import { POD_IMAGE } from "./images.ts";
import { hasCluster } from "./tools.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
const PASSWORD = "correct-horse-battery";
const RESTRICTED = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
};
const PATIENCE_MS = 120_000;

interface Container {
  readonly args: readonly string[];
  readonly mounts?: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly security?: object;
  readonly ready?: object;
  readonly image?: string;
}

const container = (name: string, program: string, c: Container) => ({
  name,
  image: c.image ?? `sallyport/${program}:${version}`,
  imagePullPolicy: "IfNotPresent",
  args: c.args,
  env: Object.entries(c.env ?? {}).map(([key, value]) => ({ name: key, value })),
  securityContext: c.security ?? RESTRICTED,
  ...(c.ready && { readinessProbe: { ...c.ready, periodSeconds: 1 } }),
  volumeMounts: [
    { name: "tmp", mountPath: "/tmp" },
    ...Object.entries(c.mounts ?? {}).map(([volume, mountPath]) => ({ name: volume, mountPath })),
  ],
});

const pod = (
  name: string,
  containers: readonly object[],
  more: { init?: readonly object[]; volumes?: readonly object[]; spec?: object; security?: object },
): object => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, labels: { app: name } },
  spec: {
    automountServiceAccountToken: false,
    securityContext: more.security ?? {
      runAsNonRoot: true,
      runAsUser: 65532,
      runAsGroup: 65532,
      fsGroup: 65532,
      fsGroupChangePolicy: "Always",
      seccompProfile: { type: "RuntimeDefault" },
    },
    initContainers: more.init ?? [],
    containers,
    volumes: [{ name: "tmp", emptyDir: {} }, ...(more.volumes ?? [])],
    ...more.spec,
  },
});

const claim = (name: string): object => ({
  apiVersion: "v1",
  kind: "PersistentVolumeClaim",
  metadata: { name },
  spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
});

const service = (name: string, port: number): object => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name },
  spec: { selector: { app: name }, ports: [{ port }], publishNotReadyAddresses: true },
});

describe.skipIf(!hasCluster)("the images of the programs in pods", () => {
  let cluster: Cluster;
  let management: ApiClient<"management">;
  let namespace = "overlay";
  const kubectl = (...args: string[]) => cluster.kubectl(["--namespace", namespace, ...args]);
  const apply = (...objects: object[]) =>
    cluster.kubectl(
      ["--namespace", namespace, "apply", "--server-side", "-f", "-"],
      objects.map((o) => JSON.stringify(o)).join("\n---\n"),
    );
  const isReady = async (name: string) => {
    try {
      await kubectl("wait", "--for=condition=Ready", `pod/${name}`, "--timeout=120s");
    } catch (error) {
      const logs = await cluster.attempt(["--namespace", namespace, "logs", name, "--all-containers", "--tail=20"]);
      throw new Error(`${name} does not get ready: ${logs.stdout}${await kubectl("describe", "pod", name)}`, {
        cause: error,
      });
    }
  };
  const secret = (name: string, key: string, text: string) => ({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name },
    stringData: { [key]: text },
  });

  beforeAll(async () => {
    const images = await programArchives(join(ROOT, "dist", "images"));
    cluster = await Cluster.start({ nodes: 1, images });
    for (const [name, level] of [
      ["overlay", "restricted"],
      ["privileged", "privileged"],
    ]) {
      await cluster.apply(
        JSON.stringify({
          apiVersion: "v1",
          kind: "Namespace",
          metadata: { name, labels: { "pod-security.kubernetes.io/enforce": level } },
        }),
      );
    }
  });
  afterAll(async () => {
    management?.close();
    await cluster?.close();
  });

  test("the controller makes its network in an init container, and serves it from its volume", async () => {
    const data = { data: "/var/lib/sallyport" };
    await apply(
      claim("controller"),
      service("controller", 1280),
      pod(
        "controller",
        [
          container("controller", "controller", {
            args: ["run", "/var/lib/sallyport/controller.yml"],
            mounts: data,
            ready: { tcpSocket: { port: 1280 } },
          }),
        ],
        {
          init: [
            container("init", "controller", {
              args: ["init", "--dir", "/var/lib/sallyport", "--host", "controller.overlay.svc"],
              env: { SALLYPORT_ADMIN_PASSWORD: PASSWORD },
              mounts: data,
            }),
          ],
          volumes: [{ name: "data", persistentVolumeClaim: { claimName: "controller" } }],
        },
      ),
    );
    await isReady("controller");
    const address = await kubectl("get", "service", "controller", "--output=jsonpath={.spec.clusterIP}");
    management = createClient("management", {
      baseUrl: `https://${address}:1280`,
      tls: { rejectUnauthorized: false },
    });
    const session = await eventually("a login", () =>
      management.authenticate({ query: { method: "password" }, body: { username: "admin", password: PASSWORD } }),
    );
    management.setToken(session.data.token);
    expect((await management.listIdentities({ query: {} })).data).toHaveLength(1);
  });

  test("a router enrolls in an init container, comes online and gets ready", async () => {
    const { data } = await management.createEdgeRouter({ body: { name: "edge" } });
    const { data: detail } = await management.detailEdgeRouter({ params: { id: data.id } });
    const folders = { data: "/var/lib/sallyport", config: "/etc/sallyport" };
    const config = `v: 3
identity: {cert: /var/lib/sallyport/client.crt, server_cert: /var/lib/sallyport/server.crt, key: /var/lib/sallyport/key.pem, ca: /var/lib/sallyport/ca.pem}
ctrl: {endpoint: "tls:controller.overlay.svc:1280", endpointsFile: /var/lib/sallyport/endpoints}
csr: {sans: {dns: [edge.overlay.svc], ip: [127.0.0.1]}}
edge: {}
dialers: [{binding: edge}, {binding: transport}]
listeners: [{binding: edge, address: "tls:0.0.0.0:3022", options: {advertise: "edge.overlay.svc:3022"}}]
`;
    await apply(
      claim("edge"),
      service("edge", 3022),
      { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "edge" }, data: { "router.yml": config } },
      secret("edge-enrollment", "enrollment.jwt", detail.enrollmentJwt ?? ""),
      pod(
        "edge",
        [
          container("router", "router", {
            args: ["run", "/etc/sallyport/router.yml"],
            mounts: folders,
            ready: { tcpSocket: { port: 3022 } },
          }),
        ],
        {
          init: [
            container("enroll", "router", {
              args: [
                ...["enroll", "/etc/sallyport/router.yml", "--if-needed", "--expect-id", data.id],
                ...["--jwt", "/etc/sallyport-enrollment/enrollment.jwt"],
              ],
              mounts: { ...folders, token: "/etc/sallyport-enrollment" },
            }),
          ],
          volumes: [
            { name: "data", persistentVolumeClaim: { claimName: "edge" } },
            { name: "config", configMap: { name: "edge" } },
            { name: "token", secret: { secretName: "edge-enrollment", optional: true } },
          ],
        },
      ),
    );
    await isReady("edge");
    await eventually(
      "the router is online",
      async () => (await management.detailEdgeRouter({ params: { id: data.id } })).data.isOnline,
      PATIENCE_MS,
    );
    // By its name, and without a shell.
    expect(await kubectl("exec", "edge", "--container=router", "--", "sallyport-router", "status")).toContain("edge");
  });

  test("a tunneler intercepts in a pod that may, another hosts in one that may nothing: bytes go through", async () => {
    const types = (await management.listConfigTypes({ query: { limit: 100 } })).data;
    const config = async (type: string, data: Record<string, unknown>) => {
      const configTypeId = types.find((each) => each.name === type)?.id ?? "";
      return (await management.createConfig({ body: { name: `web-${type}`, configTypeId, data } })).data.id;
    };
    const configs = [
      await config("intercept.v1", {
        protocols: ["tcp"],
        addresses: ["web.internal"],
        portRanges: [{ low: 80, high: 80 }],
      }),
      await config("host.v1", { protocol: "tcp", address: "web.overlay.svc.cluster.local", port: 8080 }),
    ];
    await management.createService({ body: { name: "web", configs, encryptionRequired: true } });
    for (const type of ["Dial", "Bind"] as const) {
      await management.createServicePolicy({
        body: { name: type, type, semantic: "AnyOf", identityRoles: ["#all"], serviceRoles: ["#all"] },
      });
    }
    await management.createEdgeRouterPolicy({
      body: { name: "all", semantic: "AnyOf", edgeRouterRoles: ["#all"], identityRoles: ["#all"] },
    });
    await management.createServiceEdgeRouterPolicy({
      body: { name: "all", semantic: "AnyOf", edgeRouterRoles: ["#all"], serviceRoles: ["#all"] },
    });
    const token = async (name: string) => {
      const body = { name, type: "Default", isAdmin: false, enrollment: { ott: true } } as const;
      const { data } = await management.createIdentity({ body });
      const detail = await management.detailIdentity({ params: { id: data.id } });
      return secret(`${name}-enrollment`, "enrollment.jwt", detail.data.enrollment.ott?.jwt ?? "");
    };
    const enroll = (security?: object) =>
      container("enroll", "tunnel", {
        args: ["enroll", "--jwt", "/etc/sallyport-enrollment/enrollment.jwt", "-o", "/var/lib/sallyport/identity.json"],
        mounts: { data: "/var/lib/sallyport", token: "/etc/sallyport-enrollment" },
        ...(security && { security }),
      });
    const volumes = (name: string) => [
      { name: "data", emptyDir: {} },
      { name: "token", secret: { secretName: `${name}-enrollment` } },
    ];
    const identity = ["-i", "/var/lib/sallyport/identity.json"];
    const data = { data: "/var/lib/sallyport" };
    await apply(
      await token("host"),
      service("web", 8080),
      pod("web", [container("web", "", { image: POD_IMAGE, args: ["serve", ":8080", "/"] })], {}),
      pod("host", [container("tunnel", "tunnel", { args: ["host", ...identity], mounts: data })], {
        init: [enroll()],
        volumes: volumes("host"),
      }),
    );
    await isReady("web");
    await isReady("host");
    await eventually(
      "the service is hosted",
      async () => (await management.listTerminators({ query: {} })).data.length > 0,
      PATIENCE_MS,
    );
    namespace = "privileged";
    const interception = {
      ...RESTRICTED,
      runAsUser: 0,
      capabilities: { drop: ["ALL"], add: ["NET_ADMIN", "NET_BIND_SERVICE"] },
    };
    await apply(
      await token("client"),
      pod(
        "client",
        [
          container("tunnel", "tunnel", { args: ["run", ...identity], mounts: data, security: interception }),
          container("client", "", {
            image: POD_IMAGE,
            args: ["fetch", "60", "http://web.internal/name"],
            security: RESTRICTED,
          }),
        ],
        {
          init: [enroll(interception)],
          volumes: volumes("client"),
          security: { seccompProfile: { type: "RuntimeDefault" } },
          spec: {
            restartPolicy: "Never",
            dnsPolicy: "None",
            dnsConfig: {
              nameservers: ["127.0.0.1", cluster.addresses.nameServer],
              searches: ["svc.cluster.local", "cluster.local"],
              options: [{ name: "ndots", value: "2" }],
            },
          },
        },
      ),
    );
    const hasEnded = "{.status.containerStatuses[?(@.name=='client')].state.terminated.reason}";
    await eventually(
      "the client has ended",
      async () => (await kubectl("get", "pod", "client", `--output=jsonpath=${hasEnded}`)) !== "",
      PATIENCE_MS,
    );
    const logs = await kubectl("logs", "client", "--all-containers", "--tail=40");
    expect((await kubectl("logs", "client", "--container=client")).trim(), logs).toBe("web");
  });
});
