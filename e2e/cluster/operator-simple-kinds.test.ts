/** The operator's program with exactly the rights of its manifests, on a real API server, against a real controller. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { startTestController, type TestController } from "../../controller/src/api/testing/test-controller.ts";
import { sample } from "../../operator/src/resources/testing/samples.ts";
import { Program } from "../network/program.ts";
import { SIMPLE_PATHS } from "../operator/entity-paths.ts";
import { Cluster } from "./cluster.ts";
import { kindsServed, OURS } from "./kinds-served.ts";
import { hasCluster } from "./tools.ts";

const ROOT = join(import.meta.dirname, "../..");
const KINDS = Object.keys(SIMPLE_PATHS);
const PATIENT = { timeout: 60_000, interval: 100 };

describe.skipIf(!hasCluster)("the operator with the rights of its manifests", () => {
  let cluster: Cluster;
  let controller: TestController;
  let folder: string;
  const programs: Program[] = [];

  beforeAll(async () => {
    [cluster, controller, folder] = await Promise.all([
      Cluster.start({ nodes: 0 }),
      startTestController(),
      mkdtemp(join(tmpdir(), "sallyport-operator-")),
    ]);
    await cluster.kubectl(["apply", "--server-side", "-k", join(ROOT, "operator/deploy/cluster")]);
    await kindsServed(cluster, OURS);
  });
  afterEach(async () => {
    for (const program of programs.splice(0)) await program.stop();
  });
  afterAll(async () => {
    await cluster?.close();
    await controller?.close();
    if (folder) await rm(folder, { recursive: true });
  });

  /** The program as the service account of a namespace. */
  async function run(namespace: string, env: Readonly<Record<string, string>> = {}) {
    const token = (await cluster.kubectl(["create", "token", "sallyport-operator", "--namespace", namespace])).trim();
    const config = parse(await readFile(cluster.kubeconfig, "utf8")) as { users: { user: object }[] };
    for (const each of config.users) each.user = { token };
    const kubeconfig = join(folder, `${namespace}.kubeconfig`);
    await writeFile(kubeconfig, stringify(config), { mode: 0o600 });
    const program = new Program({
      name: `operator-${namespace}`,
      command: process.execPath,
      args: [join(ROOT, "operator/src/main.ts"), "run", "--kubeconfig", kubeconfig],
      env: {
        KUBERNETES_SERVICE_HOST: "",
        POD_NAMESPACE: namespace,
        POD_NAME: "operator",
        SALLYPORT_HEALTH_PORT: "0",
        ...env,
      },
    });
    programs.push(program);
    const { healthPort } = JSON.parse(await program.line(/the operator is running/)) as { healthPort: number };
    const get = async (page: string) => await (await fetch(`http://127.0.0.1:${healthPort}${page}`)).text();
    await expect.poll(() => get("/readyz"), PATIENT).toContain("readyz check passed");
    return { program, get };
  }

  /** A Network for the controller, and one resource of each simple kind. */
  async function declare(namespace: string): Promise<string> {
    const external = {
      endpoints: [`https://localhost:${controller.port}`],
      caBundle: { inline: controller.pki.caBundlePem, configMapRef: null },
      auth: { passwordSecretRef: { name: "admin" }, certificateSecretRef: null },
    };
    const secret = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "admin" },
      stringData: { username: "admin", password: "admin" },
    };
    const resources = KINDS.map((kind) =>
      sample(kind, { name: `${namespace}-${kind.toLowerCase()}` }, kind.toLowerCase()),
    );
    const objects = [secret, sample("Network", { external }, "main"), ...resources];
    const manifest = objects
      .map((object) => stringify({ ...object, metadata: { ...object.metadata, namespace } }))
      .join("---\n");
    await cluster.apply(manifest);
    return manifest;
  }

  const everything = ["get", "overlay", "--output", "json"];
  async function versions(namespace: string): Promise<Record<string, string>> {
    const list = JSON.parse(await cluster.kubectl([...everything, "--namespace", namespace])) as {
      items: { kind: string; metadata: { name: string; resourceVersion: string } }[];
    };
    return Object.fromEntries(
      list.items.map(({ kind, metadata }) => [`${kind}/${metadata.name}`, metadata.resourceVersion]),
    );
  }
  const allReady = (namespace: string) =>
    cluster.kubectl(["wait", "--for=condition=Ready", "overlay", "--all", "--namespace", namespace, "--timeout=60s"]);

  test("keeps all namespaces; a second look, also of another process, writes nothing; a namespace goes as a whole", async () => {
    await cluster.kubectl(["create", "namespace", "web"]);
    const { program, get } = await run("sallyport-system");
    const manifest = await declare("web");
    await allReady("web");
    expect((await cluster.attempt(["diff", "--server-side", "--force-conflicts", "-f", "-"], manifest)).code).toBe(0);
    const before = await versions("web");
    expect(Object.keys(before)).toHaveLength(KINDS.length + 1);
    expect(await cluster.kubectl(["get", "events", "--namespace", "web"])).toContain("Created");
    await program.stop();
    const second = await run("sallyport-system");
    const looked = /controller_runtime_reconcile_total\{controller="posturecheck",result="requeue_after"\} [1-9]/;
    await expect.poll(() => second.get("/metrics"), PATIENT).toMatch(looked);
    await expect
      .poll(() => second.get("/metrics"), PATIENT)
      .toMatch(/sallyport_operator_resource_ready\{kind="ServicePolicy".*\} 1/);
    expect(await versions("web")).toEqual(before);
    expect(await get("/metrics").catch(() => "gone")).toBe("gone");
    await cluster.kubectl(["delete", "namespace", "web", "--timeout=60s"]);
    for (const kind of KINDS) {
      const filter = encodeURIComponent(`name = "web-${kind.toLowerCase()}"`);
      expect((await controller.admin("GET", `/${SIMPLE_PATHS[kind]}?filter=${filter}`)).json.data).toEqual([]);
    }
  });

  test("names the right that is missing, and goes on when it is given", async () => {
    const { program } = await run("sallyport-system");
    await cluster.kubectl(["create", "namespace", "poor"]);
    const role = JSON.parse(await cluster.kubectl(["get", "clusterrole", "sallyport-operator", "--output", "json"]));
    const secrets = role.rules.findIndex(({ resources }: { resources: string[] }) => resources.includes("secrets"));
    const verbs = JSON.stringify([{ op: "replace", path: `/rules/${secrets}/verbs`, value: ["list", "watch"] }]);
    await cluster.kubectl(["patch", "clusterrole", "sallyport-operator", "--type=json", "--patch", verbs]);
    await declare("poor");
    const message = [
      "get",
      "network",
      "main",
      "--namespace",
      "poor",
      "--output",
      'jsonpath={.status.conditions[?(@.type=="Ready")].message}',
    ];
    await expect.poll(() => cluster.kubectl(message), PATIENT).toMatch(/cannot get resource \\?"secrets\\?"/);
    const reason = [...message.slice(0, -1), 'jsonpath={.status.conditions[?(@.type=="Stalled")].reason}'];
    expect(await cluster.kubectl(reason)).toBe("MissingPermission");
    const service = ["get", "overlayservice", "overlayservice", ...message.slice(3)];
    await expect.poll(() => cluster.kubectl(service), PATIENT).toContain("the Network main is not ready");
    const back = JSON.stringify([{ op: "replace", path: `/rules/${secrets}/verbs`, value: role.rules[secrets].verbs }]);
    await cluster.kubectl(["patch", "clusterrole", "sallyport-operator", "--type=json", "--patch", back]);
    await allReady("poor");
    expect(program.isRunning).toBe(true);
    await cluster.kubectl(["delete", "namespace", "poor", "--timeout=60s"]);
  });

  test("keeps one namespace without any right outside of it", async () => {
    await cluster.kubectl(["create", "namespace", "overlay"]);
    await cluster.kubectl(["apply", "--server-side", "-k", join(ROOT, "operator/deploy/namespaced")]);
    const who = ["--as", "system:serviceaccount:overlay:sallyport-operator"];
    expect((await cluster.attempt(["auth", "can-i", "list", "secrets", "--all-namespaces", ...who])).stdout).toBe(
      "no\n",
    );
    const { get } = await run("overlay", { SALLYPORT_NAMESPACES: "overlay", SALLYPORT_CLUSTER_ID: "one-of-many" });
    await declare("overlay");
    await allReady("overlay");
    expect(await get("/readyz")).toContain("[+]crds ok");
    await cluster.kubectl(["delete", "overlay", "--all", "--namespace", "overlay", "--timeout=60s"]);
    const filter = encodeURIComponent('tags.sallyport-cluster = "one-of-many"');
    expect((await controller.admin("GET", `/services?filter=${filter}`)).json.data).toEqual([]);
  });

  test("logs in by a token of its own service account, where the network knows whose that is", async () => {
    await run("sallyport-system", { POD_SERVICE_ACCOUNT: "sallyport-operator" });
    const external = {
      endpoints: [`https://localhost:${controller.port}`],
      caBundle: { inline: controller.pki.caBundlePem, configMapRef: null },
      auth: { extJwt: { audience: "sallyport://default/by-token" }, certificateSecretRef: null },
    };
    await cluster.apply(stringify(sample("Network", { external }, "by-token")));
    const ready = [
      "get",
      "network",
      "by-token",
      "--output",
      'jsonpath={.status.conditions[?(@.type=="Ready")].reason}',
    ];
    // This controller knows no such issuer: the token was made, sent, and refused.
    await expect.poll(() => cluster.kubectl(ready), PATIENT).toBe("NetworkUnauthorized");
    await cluster.kubectl(["delete", "network", "by-token", "--timeout=60s"]);
  });

  test("lets whoever may view a namespace view our kinds, who may edit or is a tenant declare what they are, and administrators say how", async () => {
    await cluster.kubectl([
      "create",
      "rolebinding",
      "viewer",
      "--clusterrole=view",
      "--user=viewer",
      "--namespace=default",
    ]);
    await cluster.kubectl([
      "create",
      "rolebinding",
      "editor",
      "--clusterrole=edit",
      "--user=editor",
      "--namespace=default",
    ]);
    await cluster.kubectl([
      "create",
      "rolebinding",
      "tenant",
      "--clusterrole=sallyport-tenant",
      "--user=tenant",
      "--namespace=default",
    ]);
    await cluster.kubectl([
      "create",
      "rolebinding",
      "administrator",
      "--clusterrole=admin",
      "--user=administrator",
      "--namespace=default",
    ]);
    const can = async (user: string, verb: string, plural = "servicepolicies") => {
      const ran = await cluster.attempt([
        "auth",
        "can-i",
        verb,
        `${plural}.sallyport.dev`,
        "--as",
        user,
        "--namespace=default",
      ]);
      return ran.stdout.trim();
    };
    await expect.poll(() => can("viewer", "list"), PATIENT).toBe("yes");
    expect(await can("viewer", "create")).toBe("no");
    await expect.poll(() => can("editor", "create"), PATIENT).toBe("yes");
    for (const plural of ["networks", "edgerouters"]) expect(await can("editor", "create", plural)).toBe("no");
    await expect.poll(() => can("administrator", "create", "networks"), PATIENT).toBe("yes");
    await expect.poll(() => can("tenant", "create"), PATIENT).toBe("yes");
    expect(await can("tenant", "list", "networks")).toBe("yes");
    for (const plural of ["networks", "edgerouters"]) expect(await can("tenant", "patch", plural)).toBe("no");
  });
});
