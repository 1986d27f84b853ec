/** The operator's program on what a real API server alone has: definitions that go, quotas, ways of deletion, tokens, rights of users and of one namespace. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestController, type TestController } from "../../../controller/src/api/testing/test-controller.ts";
import { conditionOf } from "../../../operator/src/kube/conditions.ts";
import { eventually } from "../../network/eventually.ts";
import { SIMPLE_PATHS } from "../../operator/entity-paths.ts";
import { kindsServed } from "../kinds-served.ts";
import { hasCluster } from "../tools.ts";
import { type Found, PATIENCE_MS, type Running, readyOf, Scene } from "./scene.ts";

const NAMESPACE = "real";
const ROOT = join(import.meta.dirname, "..", "..", "..");
const SERVICES = "overlayservices.sallyport.dev";

describe.skipIf(!hasCluster)("the operator on a real API server", { timeout: 240_000 }, () => {
  let scene: Scene;
  let controller: TestController;
  let operator: Running;

  beforeAll(async () => {
    [scene, controller] = await Promise.all([Scene.open(), startTestController()]);
    await place(NAMESPACE);
    operator = await scene.run("operator", { env: { POD_SERVICE_ACCOUNT: "sallyport-operator" } });
    await scene.ready(NAMESPACE, "Network", "main");
  });
  afterAll(async () => {
    await scene?.close();
    await controller?.close();
  });

  const place = (namespace: string) =>
    scene.place(namespace, { port: controller.port, ca: controller.pki.caBundlePem, password: "admin" });
  const services = async (): Promise<string[]> => {
    const { json } = await controller.admin("GET", "/services");
    return (json.data as { readonly name: string }[]).map(({ name }) => name);
  };

  test("cleans up when a definition is deleted, goes on with the other kinds, and takes the kind up again when it is back", async () => {
    await scene.declare(NAMESPACE, "OverlayService", "web");
    await scene.ready(NAMESPACE, "OverlayService", "web");
    await scene.cluster.kubectl(["delete", "crd", SERVICES, "--timeout=60s"]);
    expect(await services()).toEqual([]);

    await eventually(
      "the operator says that it does not hear of the kind",
      async () => (await operator.page("/readyz")).includes("overlayservices"),
      PATIENCE_MS,
    );
    await scene.declare(NAMESPACE, "Identity", "meanwhile");
    await scene.ready(NAMESPACE, "Identity", "meanwhile");

    await scene.cluster.kubectl(["apply", "--server-side", "-k", join(ROOT, "crds")]);
    await kindsServed(scene.cluster, [SERVICES]);
    await scene.declare(NAMESPACE, "OverlayService", "again");
    await scene.ready(NAMESPACE, "OverlayService", "again");
    expect(await services()).toEqual(["again"]);
    await operator.ready(PATIENCE_MS);
    expect(operator.program.isRunning).toBe(true);
  });

  test("says that a quota leaves no room for a Secret, and goes on when there is room", async () => {
    await scene.cluster.kubectl(["create", "quota", "full", "--hard=secrets=0", "--namespace", NAMESPACE]);
    await scene.cluster.kubectl([
      ...["wait", "quota/full", "--for=jsonpath={.status.hard.secrets}=0", "--namespace", NAMESPACE, "--timeout=60s"],
    ]);
    await scene.declare(NAMESPACE, "Identity", "crowded");
    const refused = await scene.ready(NAMESPACE, "Identity", "crowded", "False", "ObjectRefused");
    expect(readyOf(refused)?.message).toContain("quota");
    await scene.cluster.kubectl(["delete", "quota", "full", "--namespace", NAMESPACE]);
    await scene.lookAgain(NAMESPACE, "Identity", "crowded");
    await scene.ready(NAMESPACE, "Identity", "crowded");
  });

  test.each(["foreground", "orphan"])("lets go of a router that kubectl deletes with --cascade=%s", async (cascade) => {
    const name = `${NAMESPACE}-${cascade}`;
    const exposure = { type: "LoadBalancer", hostname: "localhost" };
    const children = async () => {
      const kinds = "statefulset,service,configmap,secret,pod,serviceaccount";
      const selector = `--selector=app.kubernetes.io/instance=${name}`;
      const names = ["get", kinds, "--namespace", NAMESPACE, selector, "--output=name"];
      return (await scene.cluster.kubectl(names)).split("\n").filter((each) => each !== "");
    };
    const parts = [`statefulset.apps/${name}-0`, `pod/${name}-0-0`, `configmap/${name}-0-config`];
    await scene.declare(NAMESPACE, "EdgeRouter", name, { exposure });
    const isMade = async () => {
      const found = await children();
      return parts.every((part) => found.includes(part));
    };
    await eventually("its parts are made", isMade, PATIENCE_MS);
    const deletion = ["delete", "edgerouter", name, "--namespace", NAMESPACE, `--cascade=${cascade}`];
    await scene.cluster.kubectl([...deletion, "--timeout=90s"]);
    const filter = encodeURIComponent(`name contains "${name}"`);
    expect((await controller.admin("GET", `/edge-routers?filter=${filter}`)).json.data).toEqual([]);
    if (cascade === "orphan") expect(await children()).toEqual(expect.arrayContaining(parts));
    else await eventually("the children are gone", async () => (await children()).length === 0, PATIENCE_MS);
  });

  test("says of a deletion that is blocked which command lets go, and kubectl takes it as it stands", async () => {
    await scene.declare(NAMESPACE, "AuthPolicy", "used");
    const { id } = (await scene.ready(NAMESPACE, "AuthPolicy", "used")).status;
    await controller.make("identities", { name: "user", type: "User", isAdmin: false, authPolicyId: id });
    await scene.delete(NAMESPACE, "AuthPolicy", "used");
    const blocked = ({ status }: Found) => conditionOf(status.conditions, "DeletionBlocked");
    const found = await scene.until(NAMESPACE, "AuthPolicy", "used", (each) => blocked(each) !== undefined);
    const advice = /kubectl (annotate \S+ \S+ -n \S+ \S+=true)/.exec(blocked(found)?.message ?? "")?.[1];
    expect(advice).toBeDefined();
    await scene.cluster.kubectl((advice ?? "").split(" "));
    await scene.gone(NAMESPACE, "AuthPolicy", "used");
    expect((await controller.admin("GET", `/auth-policies/${id}`)).status).toBe(200);
  });

  test("logs in by a token of its own service account", async () => {
    const auth = { extJwt: { audience: `sallyport://${NAMESPACE}/by-token` }, certificateSecretRef: null };
    const caBundle = { inline: controller.pki.caBundlePem, configMapRef: null };
    const external = { endpoints: [`https://localhost:${controller.port}`], caBundle, auth };
    await scene.declare(NAMESPACE, "Network", "by-token", { external });
    // This controller knows no such issuer: the token was made, sent, and refused.
    await scene.ready(NAMESPACE, "Network", "by-token", "False", "NetworkUnauthorized");
  });

  test("brings roles: who views a namespace sees our kinds, who edits it or is a tenant declares what they are, an administrator says how", async () => {
    for (const [user, role] of [
      ["viewer", "view"],
      ["editor", "edit"],
      ["tenant", "sallyport-tenant"],
      ["administrator", "admin"],
    ]) {
      const binding = [`--clusterrole=${role}`, `--user=${user}`, "--namespace", NAMESPACE];
      await scene.cluster.kubectl(["create", "rolebinding", `${user}`, ...binding]);
    }
    for (const [user, verb, plural, answer] of [
      ["viewer", "list", "servicepolicies", "yes"],
      ["viewer", "create", "servicepolicies", "no"],
      ["editor", "create", "servicepolicies", "yes"],
      ["editor", "create", "networks", "no"],
      ["editor", "create", "edgerouters", "no"],
      ["administrator", "create", "networks", "yes"],
      ["tenant", "create", "servicepolicies", "yes"],
      ["tenant", "list", "networks", "yes"],
      ["tenant", "patch", "networks", "no"],
      ["tenant", "patch", "edgerouters", "no"],
    ] as const) {
      const question = ["auth", "can-i", verb, `${plural}.sallyport.dev`, "--as", user, "--namespace", NAMESPACE];
      const can = async () => (await scene.cluster.attempt(question)).stdout.trim();
      await expect.poll(can, { timeout: PATIENCE_MS, message: question.join(" ") }).toBe(answer);
    }
  });

  test("keeps one namespace by the manifests for that, without any right outside of it", async () => {
    await scene.stopAll();
    await place("overlay");
    await scene.cluster.kubectl(["apply", "--server-side", "-k", join(ROOT, "operator/deploy/namespaced")]);
    const outside = ["auth", "can-i", "list", "secrets", "--all-namespaces"];
    const as = ["--as", "system:serviceaccount:overlay:sallyport-operator"];
    expect((await scene.cluster.attempt([...outside, ...as])).stdout).toBe("no\n");
    const env = { SALLYPORT_NAMESPACES: "overlay", SALLYPORT_CLUSTER_ID: "one-of-many" };
    operator = await scene.run("namespaced", { env, namespace: "overlay" });
    const kinds = Object.keys(SIMPLE_PATHS);
    for (const kind of kinds) await scene.declare("overlay", kind, `overlay-${kind.toLowerCase()}`);
    for (const kind of kinds) await scene.ready("overlay", kind, `overlay-${kind.toLowerCase()}`);
    expect(await operator.page("/readyz")).toContain("[+]crds ok");
    await scene.cluster.kubectl(["delete", "overlay", "--all", "--namespace", "overlay", "--timeout=60s"]);
    const filter = encodeURIComponent('tags.sallyport-cluster = "one-of-many"');
    expect((await controller.admin("GET", `/services?filter=${filter}`)).json.data).toEqual([]);
  });
});
