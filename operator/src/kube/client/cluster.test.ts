import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ClusterConfigError, findCluster } from "./cluster.ts";

let folder: string;
const env = { KUBERNETES_SERVICE_HOST: "fd00::1", KUBERNETES_SERVICE_PORT: "443" };

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sallyport-kube-"));
  await writeFile(join(folder, "token"), "t\n");
  await writeFile(join(folder, "ca.crt"), "ca");
  await writeFile(join(folder, "namespace"), "overlay\n");
  const named = (name: string, server: string): object => ({ name, cluster: { server } });
  await writeFile(
    join(folder, "config"),
    JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      "current-context": "one",
      clusters: [named("one", "https://one.example:6443"), named("two", "https://two.example/prefix")],
      users: [{ name: "me", user: { token: "secret" } }],
      contexts: [
        { name: "one", context: { cluster: "one", user: "me" } },
        { name: "two", context: { cluster: "two", user: "me", namespace: "there" } },
      ],
    }),
  );
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

test("the URL that is given comes before everything", async () => {
  const { server } = await findCluster({ server: "http://127.0.0.1:8001", env, serviceAccountFolder: folder });
  expect(server.href).toBe("http://127.0.0.1:8001/");
});

test("in a pod its service account is used", async () => {
  const cluster = await findCluster({ env, serviceAccountFolder: folder });
  expect(cluster.server.href).toBe("https://[fd00::1]/");
  expect(cluster.namespace).toBe("overlay");
  expect(await cluster.credentials(false)).toEqual({ ca: "ca", authorization: "Bearer t" });
  await expect(findCluster({ env, serviceAccountFolder: join(folder, "no") })).rejects.toThrow(ClusterConfigError);
});

test("a kubeconfig that is given comes before the pod, with its contexts", async () => {
  const path = join(folder, "config");
  const one = await findCluster({ kubeconfig: path, env, serviceAccountFolder: folder });
  expect(one.server.href).toBe("https://one.example:6443/");
  const two = await findCluster({ kubeconfig: path, context: "two", env });
  expect(two.server.href).toBe("https://two.example/prefix");
  expect(two.namespace).toBe("there");
  expect(await two.credentials(false)).toMatchObject({ authorization: "Bearer secret", trustsAnyServer: false });
});
