/**
 * Releases of the network's chart on a real API server, with the operator's program beside it: there are no nodes, so what needs pods is left to the
 * scenarios.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestController, type TestController } from "../../controller/src/api/testing/test-controller.ts";
import type { Manifest } from "../../packages/resources/src/kinds/testing/samples.ts";
import { Scene } from "../cluster/operator-faults/scene.ts";
import { hasCluster } from "../cluster/tools.ts";
import { ENTITY_PATHS } from "../operator/entity-paths.ts";
import { oneOfEach } from "../operator/one-of-each.ts";
import { helm } from "./helm.ts";
import { CHART, EXAMPLES, exampleFile, ownResources, rendered, specsOf, valuesOf } from "./network-chart.ts";

const ROOT = join(import.meta.dirname, "..", "..");

const execute = promisify(execFile);

type Stored = Manifest & { readonly metadata: { readonly resourceVersion: string; readonly generation: number } };

describe.skipIf(!hasCluster)("a release of a network", { timeout: 240_000 }, () => {
  let scene: Scene;
  let controller: TestController;

  beforeAll(async () => {
    [scene, controller] = await Promise.all([Scene.open(), startTestController()]);
  });
  afterAll(async () => {
    await scene?.close();
    await controller?.close();
  });

  /** A namespace that takes restricted pods only, as the chart is meant for. */
  async function place(namespace: string): Promise<void> {
    await scene.cluster.kubectl(["create", "namespace", namespace]);
    await scene.cluster.kubectl(["label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted"]);
  }
  const run = async (namespace: string, args: readonly string[], values: object = {}) =>
    await helm([...args, "--namespace", namespace, ...(args[0] === "uninstall" ? [] : ["--values", "-"])], {
      kubeconfig: scene.cluster.kubeconfig,
      stdin: JSON.stringify(values),
    });
  async function applyRights(manifests: readonly Manifest[]): Promise<void> {
    const items = manifests.filter(({ kind }) => ["ServiceAccount", "Role", "RoleBinding"].includes(kind));
    await scene.cluster.apply(JSON.stringify({ apiVersion: "v1", kind: "List", items }));
  }
  async function stored(namespace: string): Promise<Stored[]> {
    const { items } = JSON.parse(
      await scene.cluster.kubectl(["get", "overlay", "--namespace", namespace, "--output", "json"]),
    ) as { items: Stored[] };
    return items;
  }
  const versions = async (namespace: string) =>
    Object.fromEntries(
      (await stored(namespace)).map(({ kind, metadata }) => [`${kind}/${metadata.name}`, metadata.resourceVersion]),
    );

  test.each(EXAMPLES)("the API server takes all of %s, the pod of helm test included", async (name) => {
    const namespace = name.replace(".yaml", "");
    await place(namespace);
    const manifests = await rendered(exampleFile(name), namespace);
    // A pod is refused as long as its service account is not there.
    await applyRights(manifests);
    const { stdout, stderr, code } = await scene.cluster.attempt(
      ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"],
      JSON.stringify({ apiVersion: "v1", kind: "List", items: manifests }),
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout.trim().split("\n")).toHaveLength(manifests.length);
    expect(manifests.map(({ kind }) => kind)).toContain("Pod");
  });

  test("what is stored is what the values say; the same values once more change nothing, others what they say", async () => {
    const namespace = "values";
    await place(namespace);
    const odd = {
      octal: "0440",
      yes: "yes",
      number: "1e3",
      lines: "a\n  b\n---\n",
      template: "{{ .Values }}",
      large: 86_400_000_000,
    };
    const service = { maxIdleTimeMillis: 86_400_000, encryptionRequired: false, host: { ...odd, port: 8080 } };
    const router = { config: { overrides: { web: null, ctrl: { defaultRequestTimeout: "20s" } } } };
    const values = { identities: { odd: { appData: odd } }, services: { odd: service }, routers: { eu: router } };
    await run(namespace, ["install", "main", CHART], values);
    const specs = specsOf(await stored(namespace));
    expect(specs["Identity/odd"]).toMatchObject({ appData: odd });
    expect(specs["ServiceConfig/odd-host"]).toMatchObject({ data: { ...odd, port: 8080 } });
    expect(specs["OverlayService/odd"]).toMatchObject({ maxIdleTimeMillis: 86_400_000, encryptionRequired: false });
    expect(specs["EdgeRouter/eu"]).toMatchObject(router);

    // The first write after that of the installation stores the status, which a default has filled in until then.
    await run(namespace, ["upgrade", "main", CHART], values);
    const before = await versions(namespace);
    await run(namespace, ["upgrade", "main", CHART], values);
    expect(await versions(namespace)).toEqual(before);

    await run(namespace, ["upgrade", "main", CHART], {
      ...values,
      services: { odd: { ...service, roleAttributes: ["a"] } },
    });
    const after = await versions(namespace);
    expect(Object.keys(after).filter((key) => after[key] !== before[key])).toEqual(["OverlayService/odd"]);
    const refused = run(namespace, ["upgrade", "main", CHART], {
      ...values,
      services: { odd: { ...service, encryptionRequired: true } },
    });
    await expect(refused).rejects.toThrow(/encryptionRequired is immutable/);
    await run(namespace, ["uninstall", "main", "--wait", "--timeout", "60s"]);
    expect(await stored(namespace)).toEqual([]);
  });

  describe("with the operator", () => {
    beforeAll(async () => {
      await scene.run();
    });

    /** Values with one of each kind in the controller's network. */
    function values(prefix: string): Readonly<Record<string, unknown>> {
      const external = {
        endpoints: [`https://localhost:${controller.port}`],
        caBundle: { inline: controller.pki.caBundlePem },
        auth: { passwordSecretRef: { name: "admin" } },
      };
      const network = { apiVersion: "", kind: "Network", metadata: { name: "main" }, spec: { external } };
      return valuesOf([network, ...oneOfEach(prefix, { replicas: 0 })]);
    }
    async function secret(namespace: string): Promise<void> {
      const literals = ["--from-literal=username=admin", "--from-literal=password=admin"];
      await scene.cluster.kubectl(["create", "secret", "generic", "admin", "--namespace", namespace, ...literals]);
    }
    async function entities(prefix: string): Promise<string[]> {
      const filter = encodeURIComponent(`name contains "${prefix}-" limit 500`);
      const lists = await Promise.all(
        Object.values(ENTITY_PATHS).map(
          async (path) => (await controller.admin("GET", `/${path}?filter=${filter}`)).json.data as { name: string }[],
        ),
      );
      return lists.flat().map(({ name }) => name);
    }
    /** Runs the pod of `helm test` as a program, with the service account and rights that the chart gives it. */
    async function waitAsPod(namespace: string, manifests: readonly Manifest[]) {
      await applyRights(manifests);
      const pod = manifests.find(({ kind }) => kind === "Pod") as Manifest;
      const { serviceAccountName, containers } = pod.spec as {
        serviceAccountName: string;
        containers: [{ args: string[] }];
      };
      const kubeconfig = await scene.cluster.kubeconfigOf(serviceAccountName, namespace);
      const args = [join(ROOT, "operator/src/main.ts"), ...containers[0].args];
      const env = { ...process.env, KUBECONFIG: kubeconfig, KUBERNETES_SERVICE_HOST: "" };
      const ran = await execute(process.execPath, args, { env }).then(
        ({ stdout }) => ({ code: 0, stdout }),
        (error: { code: number; stdout: string }) => error,
      );
      return { status: ran.code, said: ran.stdout.trim().split("\n") };
    }

    test("becomes ready as its notes and its test wait for it, and uninstall leaves nothing, neither here nor in the network", async () => {
      const namespace = "whole";
      await place(namespace);
      await secret(namespace);
      const notes = await run(namespace, ["install", "main", CHART], values("whole"));
      const [, said = ""] = /^ {2}kubectl (.* wait .*)$/m.exec(notes) ?? [];
      const waited = scene.cluster.kubectl(said.split(" "));
      const manifests = await rendered(values("whole"), namespace);
      const { status, said: lines } = await waitAsPod(namespace, manifests);
      expect({ status, last: lines.at(-1) }).toEqual({ status: 0, last: "all 10 resources are ready" });
      expect((await waited).trim().split("\n")).toHaveLength(ownResources(manifests).length);
      expect(await entities("whole")).not.toEqual([]);

      const before = await versions(namespace);
      await run(namespace, ["upgrade", "main", CHART], values("whole"));
      expect(await versions(namespace)).toEqual(before);

      await run(namespace, ["uninstall", "main", "--wait", "--timeout", "60s"]);
      expect(await stored(namespace)).toEqual([]);
      expect(await entities("whole")).toEqual([]);
    });

    test("helm test says which resource is not ready", async () => {
      const namespace = "unready";
      await place(namespace);
      const wanted = { ...values("unready"), test: { timeout: "10s" } };
      await run(namespace, ["install", "main", CHART], wanted);
      const { status, said } = await waitAsPod(namespace, await rendered(wanted, namespace));
      expect(status).toBe(1);
      expect(said.join("\n")).toMatch(
        /Network unready\/main is InProgress: there is no Secret admin in this namespace/,
      );
      await run(namespace, ["uninstall", "main", "--wait", "--timeout", "60s"]);
      expect(await stored(namespace)).toEqual([]);
    });

    test("keepOnUninstall: the resources stay, and another release can't take their names", async () => {
      const namespace = "kept";
      await place(namespace);
      await secret(namespace);
      const wanted = { ...values("kept"), keepOnUninstall: true };
      await run(namespace, ["install", "main", CHART], wanted);
      const before = (await stored(namespace)).length;
      await run(namespace, ["uninstall", "main", "--wait", "--timeout", "60s"]);
      expect((await stored(namespace)).length).toBe(before);
      await expect(run(namespace, ["install", "other", CHART], wanted)).rejects.toThrow(/invalid ownership metadata/);
      // The same release takes them up again.
      await run(namespace, ["install", "main", CHART], wanted);
      expect((await stored(namespace)).length).toBe(before);
    });
  });
});
