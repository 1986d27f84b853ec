/** Every kind in every state, as tools that know nothing of them judge it and as `kubectl describe` tells it, in a network that works. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { healthOf } from "../../../operator/src/kube/conditions.ts";
import { hasCluster, Stage } from "../stage.ts";
import { declare, KINDS } from "./every-kind.ts";

const PATIENCE = { timeout: 300_000, interval: 1_000 };

describe.skipIf(!hasCluster)("every kind in every state", () => {
  let stage: Stage;
  const health = async (kind: string, name: string) => healthOf(await stage.get(`${kind}.sallyport.dev`, name)).health;
  const becomes = (kind: string, name: string, condition: string) =>
    stage.wait(`condition=${condition}`, `${kind}.sallyport.dev/${name}`);

  beforeAll(async () => {
    stage = await Stage.open("health");
    await declare(stage, "Network", "main", { external: null, managed: {} });
  });
  afterAll(async () => await stage?.close());

  test("what is in order is Current", async () => {
    for (const kind of KINDS) if (kind !== "Network") await declare(stage, kind, "main");
    expect((await stage.health()).map((each) => each.health)).toContain("InProgress");
    await stage.ready();
    const judged = await stage.health();
    expect(judged.map(({ kind }) => kind).sort()).toEqual([...KINDS].sort());
    for (const { kind, name, health, message } of judged) expect(health, `${kind} ${name}: ${message}`).toBe("Current");
  });

  test("what waits is InProgress, what a person has to fix is Failed", async () => {
    for (const kind of KINDS) {
      await declare(stage, kind, "waits", kind === "Network" ? {} : { networkRef: { name: "nowhere" } });
      // The same name twice in one network; of routers and networks something else is wrong for good.
      const overrides = { config: { overrides: { nonsense: 1 } } };
      const network = { external: null, managed: overrides };
      const wrong = kind === "Network" ? network : kind === "EdgeRouter" ? overrides : { name: "main" };
      await declare(stage, kind, "wrong", wrong);
    }
    for (const kind of KINDS) {
      await becomes(kind, "wrong", "Stalled");
      expect(await health(kind, "wrong"), kind).toBe("Failed");
      await becomes(kind, "waits", "Reconciling");
      expect(await health(kind, "waits"), kind).toBe("InProgress");
    }
    const warnings = () => stage.kubectl("get", "events", "--field-selector=type=Warning");
    for (const reason of ["NameConflict", "InvalidConfig", "NetworkNotFound", "ConfigMapNotFound"])
      await expect.poll(warnings, PATIENCE).toContain(reason);
  });

  test("describe says what is wrong, where, and what to do", async () => {
    await declare(stage, "ServicePolicy", "misspelt", { serviceRefs: [{ name: "mian" }] });
    await declare(stage, "ServiceConfig", "bad-data", { data: { protocol: "tcp", address: "a", port: "eighty" } });
    const dataFrom = { secretRef: { name: "absent", key: "data" } };
    await declare(stage, "ServiceConfig", "no-secret", { data: null, dataFrom });
    const ca = await stage.kubectl("get", "configmap", "main-ca", "--output=jsonpath={.data.ca\\.crt}");
    const external = (host: string, secret: string) => ({
      external: {
        endpoints: [`https://${host}:1280/edge/management/v1`],
        caBundle: { inline: ca, configMapRef: null },
        auth: { passwordSecretRef: { name: secret }, certificateSecretRef: null },
      },
    });
    const stringData = { username: "admin", password: "not-the-one-8317" };
    await stage.apply({ apiVersion: "v1", kind: "Secret", metadata: { name: "guess" }, stringData });
    await declare(stage, "Network", "unreachable", external("nobody.invalid", "guess"));
    await declare(stage, "Network", "without-secret", external(`main-controller.${stage.namespace}.svc`, "forgotten"));
    await declare(stage, "Network", "wrong-password", external(`main-controller.${stage.namespace}.svc`, "guess"));
    await declare(stage, "OverlayService", "behind", { networkRef: { name: "unreachable" } });
    // biome-ignore format: a table
    const told: readonly (readonly [kind: string, name: string, reason: string, text: string])[] = [
      ["ServicePolicy", "misspelt", "ReferenceNotFound", "OverlayService mian does not exist"],
      ["ServiceConfig", "bad-data", "InvalidSpec", "the network refuses port: port is invalid: must be integer"],
      ["ServiceConfig", "no-secret", "SecretNotFound", "there is no Secret absent: create it with the key data"],
      ["OverlayService", "wrong", "NameConflict", `belongs to OverlayService ${stage.namespace}/main`],
      ["EdgeRouter", "wrong", "InvalidConfig", "spec.config.overrides.nonsense: expected one of v, identity"],
      ["Network", "wrong", "InvalidConfig", "spec.managed.config.overrides.nonsense: expected one of v, api"],
      ["Network", "unreachable", "ControllerUnavailable", "the operator's pod does not know this name"],
      ["Network", "without-secret", "SecretNotFound", "there is no Secret forgotten in this namespace"],
      ["Network", "wrong-password", "NetworkUnauthorized", "refused the operator's login by password"],
      ["OverlayService", "behind", "ControllerUnavailable", "the Network unreachable can't be used"],
      ["Identity", "waits", "NetworkNotFound", `there is no Network nowhere in the namespace ${stage.namespace}`],
    ];
    for (const [kind, name, reason, text] of told) {
      const ready = async () => (await stage.condition(`${kind}.sallyport.dev`, name, "Ready"))?.reason;
      await stage.explain(expect.poll(ready, PATIENCE).toBe(reason));
      expect((await stage.condition(`${kind}.sallyport.dev`, name, "Ready"))?.status).toBe("False");
      // In the conditions, and in the events, below which people look first. These come a moment later.
      const described = () => stage.kubectl("describe", `${kind}.sallyport.dev`, name);
      const events = async () => (await described()).split("\nEvents:").at(-1);
      expect(await described(), `${kind} ${name}`).toContain(text);
      await expect.poll(events, { ...PATIENCE, message: `events of ${kind} ${name}` }).toContain(text);
    }
    expect(await stage.operatorLog()).not.toContain("not-the-one-8317");
    // What is wrong beside it does no harm to what is in order.
    expect(await health("Network", "main")).toBe("Current");
    expect(await health("EdgeRouter", "main")).toBe("Current");
  });

  test("what is made good is taken up without a restart; what never was in a network goes at once", async () => {
    await declare(stage, "ServicePolicy", "misspelt", { serviceRefs: [{ name: "main" }] });
    const data = JSON.stringify({ protocol: "tcp", address: "127.0.0.1", port: 8080 });
    await stage.kubectl("create", "secret", "generic", "absent", `--from-literal=data=${data}`);
    await stage.explained(
      "wait",
      "--for=condition=Ready",
      "servicepolicy/misspelt",
      "serviceconfig/no-secret",
      "--timeout=300s",
    );
    await stage.explained("delete", "overlayservice/behind", "network/unreachable", "--timeout=300s");
  });

  test("what is being deleted is Terminating, and what holds it up belongs to another owner", async () => {
    const patch = (kind: string, finalizers: string[]) => {
      const changes = JSON.stringify({ metadata: { finalizers } });
      return stage.kubectl("patch", `${kind}.sallyport.dev`, "wrong", "--type=merge", `--patch=${changes}`);
    };
    const others = KINDS.filter((kind) => kind !== "Network");
    for (const kind of others) {
      await patch(kind, ["sallyport.dev/finalizer", "example.com/hold"]);
      await stage.kubectl("delete", `${kind}.sallyport.dev`, "wrong", "--wait=false");
    }
    // A Network is held by what refers to it.
    await stage.kubectl("delete", "network.sallyport.dev", "main", "--wait=false");
    await becomes("Network", "main", "DeletionBlocked");
    expect(await health("Network", "main")).toBe("Terminating");
    for (const kind of others) {
      const finalizers = "--output=jsonpath={.metadata.finalizers}";
      const left = () => stage.kubectl("get", `${kind}.sallyport.dev`, "wrong", finalizers);
      await stage.explain(expect.poll(left, PATIENCE).toBe('["example.com/hold"]'));
      expect(await health(kind, "wrong"), kind).toBe("Terminating");
      await patch(kind, []);
    }
  });
});
