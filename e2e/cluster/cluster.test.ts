import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../network/eventually.ts";
import { Program } from "../network/program.ts";
import { MACHINE_NAME } from "./box/core-objects.ts";
import { run } from "./box/processes.ts";
import { Cluster, KubectlError } from "./cluster.ts";
import { POD_IMAGE } from "./images.ts";
import { hasCluster } from "./tools.ts";

/** A pod of the test image, whose processes may do nothing but what they are there for. */
const pod = (name: string, args: readonly string[], more: { spec?: object; container?: object } = {}): string =>
  JSON.stringify({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, labels: { app: name } },
    spec: {
      restartPolicy: "Never",
      terminationGracePeriodSeconds: 1,
      securityContext: { runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: "RuntimeDefault" } },
      containers: [
        {
          name: "main",
          image: POD_IMAGE,
          imagePullPolicy: "IfNotPresent",
          args,
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ["ALL"] },
          },
          ...more.container,
        },
      ],
      ...more.spec,
    },
  });

/** Resolves with what a pod has printed, once it has ended well. */
async function output(cluster: Cluster, name: string): Promise<string> {
  await cluster.kubectl(["wait", "--for=jsonpath={.status.phase}=Succeeded", `pod/${name}`, "--timeout=120s"]);
  return await cluster.kubectl(["logs", name]);
}

const isReady = async (cluster: Cluster, what: string): Promise<string> =>
  await cluster.kubectl(["wait", "--for=condition=Ready", what, "--timeout=120s"]);

describe.skipIf(!hasCluster)("a cluster", () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await Cluster.start({ nodes: 2 });
  });
  afterAll(async () => await cluster?.close());

  test("is ready when it has started: nodes, name server, accounts", async () => {
    const nodes = await cluster.kubectl(["get", "nodes", "--no-headers"]);
    expect(nodes).toMatch(/^node1\s+Ready .*\nnode2\s+Ready .*v1\.34\.\d+\n$/);
    expect(await cluster.kubectl(["get", "--raw", "/readyz"])).toBe("ok");
    expect(await cluster.kubectl(["auth", "whoami", "--output", "jsonpath={.status.userInfo.username}"])).toBe("admin");
    expect([...cluster.stages.keys()].at(-1)).toBe("ready");
  });

  test("runs pods on every node, serves their logs, and runs programs inside", async () => {
    for (const node of ["node1", "node2"]) {
      await cluster.apply(pod(`on-${node}`, ["pause"], { spec: { nodeName: node } }));
    }
    await Promise.all([isReady(cluster, "pod/on-node1"), isReady(cluster, "pod/on-node2")]);
    await cluster.apply(pod("fails", ["nonsense"]));
    await cluster.kubectl(["wait", "--for=jsonpath={.status.phase}=Failed", "pod/fails", "--timeout=60s"]);
    expect(await cluster.kubectl(["logs", "fails"])).toContain("usage: pod");
    const inside = await cluster.attempt(["exec", "on-node1", "--", "/pod", "write", "/file", "text"]);
    expect(inside).toMatchObject({ code: 1, stderr: expect.stringContaining("read-only file system") });
  });

  test("pods find each other by the name of a Service, across nodes; the test reaches Service and pod by address", async () => {
    const ready = { readinessProbe: { httpGet: { path: "/name", port: 8080 }, periodSeconds: 1 } };
    await cluster.apply(pod("web", ["serve", ":8080", "/"], { spec: { nodeName: "node1" }, container: ready }));
    await cluster.apply(`
apiVersion: v1
kind: Service
metadata: { name: web }
spec: { selector: { app: web }, ports: [{ port: 80, targetPort: 8080 }] }
`);
    await isReady(cluster, "pod/web");
    const url = "http://web.default.svc.cluster.local/name";
    await cluster.apply(pod("client", ["fetch", "60", url], { spec: { nodeName: "node2" } }));
    expect(await output(cluster, "client")).toBe("web");

    const service = await cluster.get<{ spec: { clusterIP: string } }>("service", "web");
    const { status } = await cluster.get<{ status: { podIP: string } }>("pod", "web");
    for (const address of [service.spec.clusterIP, `${status.podIP}:8080`]) {
      expect(await eventually("the answer", async () => await (await fetch(`http://${address}/name`)).text())).toBe(
        "web",
      );
    }
  });

  test("a Service of the type LoadBalancer gets an address that the test reaches, and gives it back", async () => {
    await cluster.apply(pod("balanced", ["serve", ":8080", "/"]));
    const service = (type: string): string => `
apiVersion: v1
kind: Service
metadata: { name: balanced }
spec: { type: ${type}, selector: { app: balanced }, ports: [{ port: 80, targetPort: 8080 }] }
`;
    await cluster.apply(service("LoadBalancer"));
    await isReady(cluster, "pod/balanced");
    const address = "jsonpath={.status.loadBalancer.ingress[*].ip}";
    const given = async () => await cluster.kubectl(["get", "service", "balanced", "--output", address]);
    const ip = await eventually("an address", async () => (await given()) || undefined);
    const answer = async () => await (await fetch(`http://${ip}/name`, { signal: AbortSignal.timeout(2000) })).text();
    expect(await eventually("the answer", answer)).toBe("balanced");
    await cluster.apply(service("ClusterIP"));
    await eventually("the address is taken back", async () => (await given()) === "");
  });

  test("NetworkPolicies are kept to: who may come in, and who may go out", async () => {
    await cluster.kubectl(["label", "namespace", "default", "site=here"]);
    const ports = { container: { ports: [{ name: "http", containerPort: 8080 }] } };
    const probed = { readinessProbe: { httpGet: { path: "/name", port: "http" }, periodSeconds: 1 } };
    const guarded = { container: { ...ports.container, ...probed }, spec: { nodeName: "node1" } };
    await cluster.apply(pod("guarded", ["serve", ":8080", "/"], guarded));
    await isReady(cluster, "pod/guarded");
    const { status } = await cluster.get<{ status: { podIP: string } }>("pod", "guarded");
    const url = `http://${status.podIP}:8080/name`;
    // Each on a connection of its own: one that is open stays open.
    const headers = { connection: "close" };
    const fromTest = async () => await (await fetch(url, { headers, signal: AbortSignal.timeout(1000) })).text();
    expect(await eventually("the answer", fromTest)).toBe("guarded");
    await cluster.apply(`
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: guarded }
spec:
  podSelector: { matchLabels: { app: guarded } }
  policyTypes: [Ingress]
  ingress:
    - from: [{ namespaceSelector: { matchLabels: { site: here } }, podSelector: { matchLabels: { app: friend } } }]
      ports: [{ port: http }]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: captive }
spec:
  podSelector: { matchLabels: { app: captive } }
  policyTypes: [Egress]
  egress: [{ to: [{ ipBlock: { cidr: 203.0.113.0/24 } }] }]
`);
    await eventually(
      "the test is kept out",
      async () =>
        await fromTest().then(
          () => false,
          () => true,
        ),
    );
    // On the same node and on another: past a bridge and past a router.
    for (const node of ["node1", "node2"]) {
      const where = { spec: { nodeName: node } };
      await cluster.kubectl(["delete", "pod", "friend", "outsider", "captive", "--ignore-not-found"]);
      await cluster.apply(pod("friend", ["fetch", "60", url], where));
      await cluster.apply(pod("outsider", ["fetch", "3", url], where));
      // Its address is known a moment after it began, and until then no policy keeps it in.
      await cluster.apply(pod("captive", ["fetch", "10", `${cluster.server}/readyz`], where));
      expect(await output(cluster, "friend")).toBe("guarded");
      for (const name of ["outsider", "captive"]) {
        await cluster.kubectl(["wait", "--for=jsonpath={.status.phase}=Failed", `pod/${name}`, "--timeout=60s"]);
        expect(await cluster.kubectl(["logs", name])).toMatch(/context deadline exceeded|Client.Timeout/);
      }
    }
    // Probes come from the node, and still come in.
    expect(await isReady(cluster, "pod/guarded")).toContain("condition met");
    await cluster.kubectl(["delete", "networkpolicy", "--all"]);
    expect(await eventually("the test is let in again", fromTest)).toBe("guarded");
  });

  test("pods reach programs of the test by the name of the machine", async () => {
    const { createServer } = await import("node:http");
    const server = createServer((_, response) => response.end("from the test")).listen(0, cluster.machineAddress);
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as { port: number };
    await cluster.apply(pod("caller", ["fetch", "60", `http://${MACHINE_NAME}:${port}/`]));
    expect(await output(cluster, "caller")).toBe("from the test");
    server.close();
  });

  test("a volume is made for a claim, belongs to the pod's group, outlives the pod, grows, and goes with the claim", async () => {
    await cluster.apply(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: { name: data }
spec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 10Mi } } }
`);
    const volume = {
      spec: {
        volumes: [{ name: "data", persistentVolumeClaim: { claimName: "data" } }],
        securityContext: { runAsNonRoot: true, runAsUser: 1234, fsGroup: 1234 },
      },
      container: { volumeMounts: [{ name: "data", mountPath: "/data" }] },
    };
    await cluster.apply(pod("writer", ["write", "/data/index.html", "kept"], volume));
    await output(cluster, "writer");
    await cluster.kubectl(["delete", "pod", "writer"]);
    await cluster.apply(pod("reader", ["serve", ":8080", "/data"], volume));
    await isReady(cluster, "pod/reader");
    const { status } = await cluster.get<{ status: { podIP: string } }>("pod", "reader");
    const stored = async () => await (await fetch(`http://${status.podIP}:8080/`)).text();
    expect(await eventually("the answer", stored)).toBe("kept");

    const larger = { spec: { resources: { requests: { storage: "20Mi" } } } };
    await cluster.kubectl(["patch", "pvc", "data", "--patch", JSON.stringify(larger)]);
    const size = "--for=jsonpath={.status.capacity.storage}=20Mi";
    await cluster.kubectl(["wait", size, "pvc/data", "--timeout=60s"]);

    const { spec } = await cluster.get<{ spec: { volumeName: string } }>("pvc", "data");
    const path = await cluster.kubectl(["get", "pv", spec.volumeName, "--output", "jsonpath={.spec.local.path}"]);
    expect(existsSync(path)).toBe(true);
    await cluster.kubectl(["delete", "pod/reader", "pvc/data", "--timeout=60s"]);
    await eventually("the volume is gone", async () => (await cluster.kubectl(["get", "pv"])) === "", 60_000);
    expect(existsSync(path)).toBe(false);
  });

  test("what is owned goes with its owner, and a namespace with all that is in it", async () => {
    await cluster.kubectl(["create", "namespace", "short-lived"]);
    await cluster.kubectl(["create", "configmap", "owner"]);
    const { metadata } = await cluster.get<{ metadata: { uid: string } }>("configmap", "owner");
    await cluster.apply(
      JSON.stringify({
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: {
          name: "owned",
          ownerReferences: [{ apiVersion: "v1", kind: "ConfigMap", name: "owner", uid: metadata.uid }],
        },
      }),
    );
    await cluster.kubectl(["delete", "configmap", "owner"]);
    await eventually(
      "the owned one is gone",
      async () => (await cluster.attempt(["get", "configmap", "owned"])).code === 1,
    );
    await cluster.kubectl(["delete", "namespace", "short-lived", "--timeout=60s"]);
  });

  test("another one beside it has nodes, pods and addresses of its own; when it is closed, this one stays", async () => {
    const other = await Cluster.start({ nodes: 1 });
    const served = { container: { readinessProbe: { httpGet: { path: "/name", port: 8080 }, periodSeconds: 1 } } };
    const urls: string[] = [];
    for (const [each, folder] of [
      [cluster, "/etc"],
      [other, "/"],
    ] as const) {
      await each.apply(pod("neighbour", ["serve", ":8080", folder], served));
      await isReady(each, "pod/neighbour");
      const { status } = await each.get<{ status: { podIP: string } }>("pod", "neighbour");
      urls.push(`http://${status.podIP}:8080/`);
    }
    const listings = await Promise.all(urls.map(async (url) => await (await fetch(url)).text()));
    expect(listings[0]).toContain("resolv.conf");
    expect(listings[1]).toContain("pod");
    await other.kubectl(["create", "configmap", "mine"]);
    expect((await cluster.attempt(["get", "configmap", "mine"])).code).toBe(1);
    await other.close();
    expect(await leftOf(other.kubeconfig)).toEqual([]);
    expect(await (await fetch(`${urls[0]}name`)).text()).toBe("neighbour");
  });

  test("kubectl's words are in the error", async () => {
    const failure = cluster.kubectl(["get", "pod", "nobody"]);
    await expect(failure).rejects.toThrow(KubectlError);
    await expect(failure).rejects.toThrow('pods "nobody" not found');
  });
});

describe.skipIf(!hasCluster)("an API server without nodes", () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await Cluster.start({ nodes: 0 });
  });
  afterAll(async () => await cluster?.close());

  test("forgets its history on demand: an old watch is answered with 410 once it has been restarted", async () => {
    const { metadata } = await cluster.get<{ metadata: { resourceVersion: string } }>("namespace", "default");
    await cluster.kubectl(["create", "configmap", "newer"]);
    expect(await cluster.compact()).toBeGreaterThan(Number(metadata.resourceVersion));
    await cluster.stopComponent("kube-apiserver");
    expect(await cluster.attempt(["get", "--raw", "/readyz"])).toMatchObject({ code: 1 });
    await cluster.startComponent("kube-apiserver");
    await eventually(
      "it is back",
      async () => (await cluster.attempt(["get", "--raw", "/readyz"])).stdout === "ok",
      60_000,
    );
    const path = `/api/v1/configmaps?watch=1&timeoutSeconds=5&resourceVersion=${metadata.resourceVersion}`;
    const old = await cluster.attempt(["get", "--raw", path]);
    expect(old.stdout + old.stderr).toMatch(/too old resource version|410|Expired/);
  });

  test("a program beside it may have the rights of a service account, and no others", async () => {
    const kubeconfig = await cluster.kubeconfigOf("reader");
    const as = (...args: string[]) => cluster.attempt(["--kubeconfig", kubeconfig, ...args]);
    expect(await as("get", "pods")).toMatchObject({ code: 1, stderr: expect.stringContaining("forbidden") });
    await cluster.kubectl(["create", "role", "reader", "--verb=list", "--resource=pods"]);
    await cluster.kubectl(["create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:reader"]);
    await eventually("the right is given", async () => (await as("get", "pods")).code === 0);
    expect(await as("get", "secrets")).toMatchObject({ code: 1, stderr: expect.stringContaining('"secrets"') });
  });

  test("a component that there isn't cannot be stopped", async () => {
    await expect(cluster.stopComponent("kubelet1")).rejects.toThrow(
      /kubelet1 does not run; these do: .*kube-apiserver/,
    );
  });
});

describe.skipIf(!hasCluster)("after a crash", () => {
  let program: Program;
  afterEach(async () => await program?.stop(0));

  const startProgram = async (): Promise<string> => {
    const file = `${import.meta.dirname}/crashing-program.ts`;
    program = new Program({ name: "crashing program", command: process.execPath, args: [file] });
    return (await program.line(/^running /)).slice("running ".length);
  };

  test("of the test, nothing is left", async () => {
    const kubeconfig = await startProgram();
    expect(await leftOf(kubeconfig)).not.toEqual([]);
    program.signal("SIGKILL");
    await eventually("everything is gone", async () => (await leftOf(kubeconfig)).length === 0, 60_000);
  });

  test("of the keeper, no process and no cable is left, and the next cluster removes the files", async () => {
    const kubeconfig = await startProgram();
    const [keeper] = childrenOf(program.pid);
    process.kill(keeper!, "SIGKILL");
    const left = async () => (await leftOf(kubeconfig)).filter((what) => !what.startsWith("/"));
    await eventually("processes and cable are gone", async () => (await left()).length === 0, 60_000);
    expect(existsSync(kubeconfig)).toBe(true);
    const next = await Cluster.start({ nodes: 0 });
    await next.close();
    expect(await leftOf(kubeconfig)).toEqual([]);
  });
});

/** What there still is of a cluster: its folder, control groups, processes and cable. */
async function leftOf(kubeconfig: string): Promise<string[]> {
  const folder = dirname(dirname(kubeconfig));
  const name = folder.split("/").at(-1) ?? "";
  const groups = readdirSync("/sys/fs/cgroup").map((each) => `/sys/fs/cgroup/${each}/${name}`);
  const processes = readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && commandLine(pid).includes(folder));
  const device = `spcluster${/\d+$/.exec(name)?.[0]}`;
  const links = (await run("ip", "-oneline", "link")).split("\n").filter((line) => line.includes(` ${device}@`));
  return [...[folder, ...groups].filter((path) => existsSync(path)), ...processes, ...links];
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number);
