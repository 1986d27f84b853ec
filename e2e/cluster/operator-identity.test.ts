/** Identities of the operator's program on a real API server with its garbage collector, against a real controller; the SDK reads the Secrets. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AuthenticationError, enroll } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { startTestController, type TestController } from "../../controller/src/api/testing/test-controller.ts";
import type { Condition } from "../../operator/src/kube/status/condition.ts";
import { sample } from "../../operator/src/resources/testing/samples.ts";
import type { SecretObject } from "../../operator/src/secrets/secret-content.ts";
import { Program } from "../network/program.ts";
import { fileOf, logIn, textOf } from "../operator/identity-secrets.ts";
import { Cluster } from "./cluster.ts";
import { kindsServed, OURS } from "./kinds-served.ts";
import { hasCluster } from "./tools.ts";

const ROOT = join(import.meta.dirname, "../..");
const PATIENT = { timeout: 60_000, interval: 100 };
const NAMESPACE = "edge";
const IDENTITY = { enrollment: { output: "IdentitySecret" } };

describe.skipIf(!hasCluster)("identities in a cluster", () => {
  let cluster: Cluster;
  let controller: TestController;
  let folder: string;
  let program: Program | undefined;

  beforeAll(async () => {
    [cluster, controller, folder] = await Promise.all([
      Cluster.start({ nodes: 0 }),
      startTestController(),
      mkdtemp(join(tmpdir(), "sallyport-identities-")),
    ]);
    await cluster.kubectl(["apply", "--server-side", "-k", join(ROOT, "operator/deploy/cluster")]);
    await kindsServed(cluster, OURS);
    await cluster.kubectl(["create", "namespace", NAMESPACE]);
    const external = {
      endpoints: [`https://localhost:${controller.port}`],
      caBundle: { inline: controller.pki.caBundlePem, configMapRef: null },
      auth: { passwordSecretRef: { name: "admin" }, certificateSecretRef: null },
    };
    const admin = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "admin", namespace: NAMESPACE },
      stringData: { username: "admin", password: "admin" },
    };
    await cluster.apply(
      [admin, declared("Network", "main", { external })].map((each) => stringify(each)).join("---\n"),
    );
    await start();
  });
  afterAll(async () => {
    await program?.stop();
    await cluster?.close();
    await controller?.close();
    if (folder) await rm(folder, { recursive: true });
  });

  /** Starts the program with the rights of its manifests; answers how its figures are read. */
  async function start(): Promise<() => Promise<string>> {
    const account = ["create", "token", "sallyport-operator", "--namespace", "sallyport-system"];
    const token = (await cluster.kubectl(account)).trim();
    const config = parse(await readFile(cluster.kubeconfig, "utf8")) as { users: { user: object }[] };
    for (const each of config.users) each.user = { token };
    const kubeconfig = join(folder, "kubeconfig");
    await writeFile(kubeconfig, stringify(config), { mode: 0o600 });
    const place = { POD_NAMESPACE: "sallyport-system", POD_NAME: "operator" };
    const env = { KUBERNETES_SERVICE_HOST: "", SALLYPORT_HEALTH_PORT: "0", ...place };
    const args = [join(ROOT, "operator/src/main.ts"), "run", "--kubeconfig", kubeconfig];
    program = new Program({ name: "operator", command: process.execPath, args, env });
    const { healthPort } = JSON.parse(await program.line(/the operator is running/)) as { healthPort: number };
    return async () => await (await fetch(`http://127.0.0.1:${healthPort}/metrics`)).text();
  }

  const declared = (kind: string, name: string, spec: Readonly<Record<string, unknown>>) => {
    const manifest = sample(kind, spec, name);
    return { ...manifest, metadata: { ...manifest.metadata, namespace: NAMESPACE } };
  };
  const apply = (name: string, spec: Readonly<Record<string, unknown>>) =>
    cluster.apply(stringify(declared("Identity", name, spec)));
  const kubectl = (...args: string[]) => cluster.kubectl([...args, "--namespace", NAMESPACE]);
  const ready = (name: string) => kubectl("wait", "--for=condition=Ready", `identity/${name}`, "--timeout=60s");
  async function secretOf(name: string): Promise<SecretObject | undefined> {
    const { code, stdout } = await cluster.attempt([
      "get",
      "secret",
      name,
      "--namespace",
      NAMESPACE,
      "--output",
      "json",
    ]);
    return code === 0 ? JSON.parse(stdout) : undefined;
  }
  async function reasonOf(name: string, type: string): Promise<string | undefined> {
    const { status } = JSON.parse(await kubectl("get", "identity", name, "--output", "json")) as {
      status: { conditions?: Condition[] };
    };
    return status.conditions?.find((condition) => condition.type === type)?.reason;
  }

  test("log in, say how they are, and are put right", async () => {
    await apply("bot", IDENTITY);
    await apply("phone", {});
    await Promise.all([ready("bot"), ready("phone")]);
    const bot = await secretOf("bot-identity");
    expect(await logIn(fileOf(bot))).toBe("bot");
    expect(await logIn(await enroll(textOf(await secretOf("phone-enrollment"), "enrollment.jwt") ?? ""))).toBe("phone");
    await kubectl("annotate", "identity", "phone", "sallyport.dev/reconcile-requested-at=1");
    await expect.poll(() => secretOf("phone-enrollment"), PATIENT).toBeUndefined();

    const table = await kubectl("get", "oid");
    expect(table).toMatch(/NAME +READY +REASON +TYPE +ENROLLED +EXPIRES +AGE/);
    expect(table).toMatch(/bot +True +Enrolled +Default +true +20\d\d-\S+/);
    const told = await kubectl("describe", "identity", "bot");
    for (const part of ["CertificateValid", "the Secret bot-identity holds the identity"]) expect(told).toContain(part);
    expect(told).not.toMatch(/PRIVATE KEY|eyJ/);

    await expect.poll(() => reasonOf("phone", "Enrolled"), PATIENT).toBe("Enrolled");
    const versions = () =>
      kubectl("get", "identities,secrets", "--output", "jsonpath={.items[*].metadata.resourceVersion}");
    const before = await versions();
    await program?.stop();
    const metrics = await start();
    for (const name of ["bot", "phone"]) {
      const looked = new RegExp(`^sallyport_operator_resource_ready{.*"Identity".*"${name}".*} 1$`, "m");
      await expect.poll(metrics, PATIENT).toMatch(looked);
    }
    expect(await versions()).toBe(before);

    await kubectl("delete", "secret", "bot-identity");
    await expect.poll(() => reasonOf("bot", "Ready"), PATIENT).toBe("CredentialsMissing");
    expect(await kubectl("describe", "identity", "bot")).toContain("sallyport.dev/re-enroll");
    await kubectl("annotate", "identity", "bot", "sallyport.dev/re-enroll=1");
    await expect.poll(() => reasonOf("bot", "Ready"), PATIENT).toBe("Enrolled");
    expect(await logIn(fileOf(await secretOf("bot-identity")))).toBe("bot");
    await expect(logIn(fileOf(bot))).rejects.toThrow(AuthenticationError);
  });

  test("never write a Secret of somebody else", async () => {
    await kubectl("create", "secret", "generic", "taken-identity", "--from-literal=a=b");
    await apply("taken", IDENTITY);
    await expect.poll(() => reasonOf("taken", "Stalled").catch(() => undefined), PATIENT).toBe("SecretConflict");
    expect(textOf(await secretOf("taken-identity"), "a")).toBe("b");
    await kubectl("delete", "secret", "taken-identity");
    await ready("taken");
    expect(await logIn(fileOf(await secretOf("taken-identity")))).toBe("taken");
  });

  test("go with their Secrets, or leave them whole, whichever way they are deleted", async () => {
    await apply("going", IDENTITY);
    await apply("staying", { ...IDENTITY, deletionPolicy: "Orphan" });
    await Promise.all([ready("going"), ready("staying")]);
    const kept = fileOf(await secretOf("staying-identity"));
    await kubectl("delete", "identity", "going");
    await expect.poll(() => secretOf("going-identity"), PATIENT).toBeUndefined();
    await kubectl("delete", "identity", "staying", "--cascade=foreground");
    expect(await logIn(kept)).toBe("staying");
    // The collector had its turn with the other one, which it was told of first.
    expect(fileOf(await secretOf("staying-identity"))).toEqual(kept);
    await apply("staying", { ...IDENTITY, managementPolicy: "Adopt" });
    await ready("staying");
    expect(fileOf(await secretOf("staying-identity"))).toEqual(kept);
  });
});
