/**
 * The process inside of a cluster's namespaces: `node box/main.ts PLAN.json`. It starts everything, says when all is ready, and
 * does what it is asked for, until its input ends. Its end is that of the namespaces, and so of all that runs in them.
 */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { errorText } from "@sallyport/async";
import { type Downward, listen, say } from "../keeper/protocol.ts";
import { BoxLayout, type BoxPlan } from "./box-plan.ts";
import { type Certificate, writeCertificates } from "./certificates.ts";
import { apiServer, containerd, controllerManager, etcd, kubelet, kubeProxy, scheduler } from "./components.ts";
import { coreObjects } from "./core-objects.ts";
import { KubeApi } from "./kube-api.ts";
import { keepBalanced } from "./load-balancers.ts";
import { hideMachine, passOn, takeCable } from "./namespaces.ts";
import { keepPolicies } from "./network-policies.ts";
import { containerdConfig, kubeletConfig, kubeProxyConfig, podNetwork } from "./node-files.ts";
import { Processes, run } from "./processes.ts";
import { answerRequests, type Request } from "./requests.ts";
import { keepVolumes } from "./volumes.ts";

/** On a machine with much else to do. */
const PATIENCE_MS = 180_000;

const began = performance.now();
const stage = (name: string): void => say(process.stdout, { stage: name, ms: Math.round(performance.now() - began) });

const box = new BoxLayout(JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")) as BoxPlan);
const processes = new Processes(box);
const stopping = new AbortController();

let plugIn = (): void => {};
const cable = new Promise<void>((resolve) => {
  plugIn = resolve;
});
void listen<Downward>(process.stdin, () => plugIn()).then(() => process.exit(0));

try {
  await Promise.race([start(), processes.failure]);
  await answerRequests(box.plan.folder, carryOut);
  const { folder, slot } = box.plan;
  say(process.stdout, { ready: { kubeconfig: box.certificate("admin.kubeconfig"), folder, slot } });
  processes.failure.catch((error: Error) => console.error(error.message));
} catch (error) {
  say(process.stdout, { failed: errorText(error) });
}

async function start(): Promise<void> {
  const { folder, tools } = box.plan;
  await hideMachine([folder, ...Object.values(tools), process.execPath, import.meta.dirname]);
  const [admin] = await Promise.all([certificates(), cable.then(configureNetwork)]);
  stage("certificates and network");
  mkdirSync(box.file("etcd"), { mode: 0o700 });
  processes.start(etcd(box));
  processes.start(apiServer(box));
  // The runtimes of the nodes start while the API server does.
  const runtimes = box.numbers.map((node) => startRuntime(node));
  for (const runtime of runtimes) runtime.catch(() => {});

  const api = new KubeApi({
    server: `https://${box.addresses.controlPlane}:6443`,
    ca: readFileSync(box.certificate("ca.crt"), "utf8"),
    ...admin,
  });
  await api.until("the API server is ready", PATIENCE_MS, async () => (await api.text("/readyz")) === "ok");
  stage("API server");
  processes.start(controllerManager(box));
  if (box.plan.nodes > 0) await startNodes(api, runtimes);
  await api.until("there is a service account for pods", PATIENCE_MS, async () => {
    await api.get("/api/v1/namespaces/default/serviceaccounts/default");
    return true;
  });
  stage("service account");
}

async function startNodes(api: KubeApi, runtimes: readonly Promise<void>[]): Promise<void> {
  processes.start(scheduler(box));
  writeFileSync(box.file("kube-proxy.yaml"), kubeProxyConfig(box));
  processes.start(kubeProxy(box));
  const kubelets = box.numbers.map(async (node, i) => {
    await runtimes[i];
    processes.start(kubelet(box, node));
  });
  for (const [path, object] of coreObjects(box)) await api.create(path, object);
  await Promise.all(kubelets);
  stage("images");
  void keepVolumes(api, box.file("volumes"), stopping.signal);
  void keepBalanced(api, box.addresses.balanced, stopping.signal);
  void keepPolicies(api, stopping.signal);
  for (const node of box.numbers) {
    await api.until(`node${node} is ready`, PATIENCE_MS, async () =>
      isTrue(await api.get<Conditioned>(`/api/v1/nodes/node${node}`), "Ready"),
    );
  }
  stage("nodes");
  await api.until("the name server is ready", PATIENCE_MS, async () =>
    isTrue(await api.get<Conditioned>("/apis/apps/v1/namespaces/kube-system/deployments/coredns"), "Available"),
  );
  stage("name server");
}

interface Conditioned {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

function isTrue({ status }: Conditioned, type: string): boolean {
  return status?.conditions?.some((each) => each.type === type && each.status === "True") === true;
}

async function certificates(): Promise<Certificate> {
  return await writeCertificates(box.file("certificates"), box.addresses, box.plan.nodes);
}

async function configureNetwork(): Promise<void> {
  const { addresses } = box;
  const own = [addresses.controlPlane, ...box.numbers.map((node) => addresses.node(node))];
  if (box.plan.isContained !== true) await takeCable(addresses);
  for (const address of own) await run("ip", "addr", "add", `${address}/32`, "dev", "eth0");
  passOn();
  // What the probes of pods that are gone have left to say would keep the namespace alive for minutes.
  writeFileSync("/proc/sys/net/ipv4/tcp_orphan_retries", "1");
  // From a pod by a Service to a pod on the same bridge: without it the answer goes past the translation.
  writeFileSync("/proc/sys/net/bridge/bridge-nf-call-iptables", "1");
}

/** A container runtime with all images. */
async function startRuntime(node: number): Promise<void> {
  mkdirSync(box.node(node, "cni"), { recursive: true });
  mkdirSync(box.node(node, "kubelet"));
  writeFileSync(box.node(node, "containerd.toml"), containerdConfig(box, node));
  writeFileSync(box.node(node, "cni", "10-pods.conflist"), podNetwork(box, node));
  writeFileSync(box.node(node, "kubelet.yaml"), kubeletConfig(box, node));
  writeFileSync(box.file("resolv.conf"), `nameserver ${box.addresses.nameServer}\n`);
  processes.start(containerd(box, node));
  const ctr = [box.containerd("usr/bin/ctr"), "--address", box.runtimeSocket(node), "--namespace", "k8s.io"] as const;
  const until = performance.now() + PATIENCE_MS;
  while (!(await run(...ctr, "version").then(Boolean, () => false))) {
    if (performance.now() > until) throw new Error(`containerd of node${node} does not answer`);
    await delay(50);
  }
  for (const image of box.plan.images) await run(...ctr, "images", "import", image);
}

async function carryOut(what: Request): Promise<unknown> {
  if ("stop" in what) return await processes.stop(what.stop);
  if ("start" in what) return processes.startAgain(what.start);
  // Of etcd's gateway for JSON; a read tells the revision, whatever its key is.
  const { header } = await etcdCall<{ header: { revision: string } }>("range", {
    key: Buffer.from("x").toString("base64"),
  });
  await etcdCall("compaction", { revision: header.revision, physical: true });
  return Number(header.revision);
}

async function etcdCall<T>(method: string, body: object): Promise<T> {
  const url = `http://127.0.0.1:2379/v3/kv/${method}`;
  const response = await fetch(url, { method: "POST", body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`etcd answered ${method} with ${response.status}: ${await response.text()}`);
  return (await response.json()) as T;
}
