/** What goes wrong around the operator, and that it recovers from it without a restart; and that Secrets stay secret. */
import { describe, expect, test } from "vitest";
import { healthOf } from "../../../operator/src/kube/conditions.ts";
import { KINDS } from "../../../operator/src/kube/kinds.ts";
import type { TestOperator } from "../../../operator/src/testing/start-operator.ts";
import { OperatorScene } from "../../operator/operator-scene.ts";

const PATIENT = { timeout: 20_000 };

const scene = OperatorScene.ofThisFile();

/** Everything that people see of the operator. */
const shown = (operator: TestOperator): string =>
  operator.logged() +
  JSON.stringify(operator.server.writes.filter(({ path }) => !path.includes("/secrets")).map(({ body }) => body));

describe("the API server", () => {
  test.each([
    [
      "the finalizer",
      { method: "PATCH", path: /overlayservices\/refused\?fieldManager=sallyport/ },
      /PATCH .*overlayservices\/refused/,
    ],
    [
      "the status",
      { method: "PATCH", path: "/overlayservices/refused/status" },
      /PATCH .*overlayservices\/refused\/status/,
    ],
  ])("that refuses the right to write %s is told about, and asked again", async (_what, rule, right) => {
    const operator = await scene.start();
    const fault = { kind: "status", code: 403, reason: "Forbidden", message: "is forbidden" } as const;
    const allow = operator.server.inject({ ...rule, times: 10_000, fault });
    await operator.apply("OverlayService", "refused");
    await expect.poll(() => operator.events("OverlayService", "refused"), PATIENT).toContain("MissingPermission");
    const event = operator.server.requests
      .map(({ body }) => body as { reason?: string; note?: string })
      .find((body) => body?.reason === "MissingPermission");
    expect(event?.note).toMatch(right);
    allow();
    await operator.ready("OverlayService", "refused");
    await operator.delete("OverlayService", "refused");
    await operator.gone("OverlayService", "refused");
  });

  test("where another client writes the status gets it back", async () => {
    const operator = await scene.start();
    await operator.apply("OverlayService", "clobbered");
    const { id } = (await operator.ready("OverlayService", "clobbered")).status;
    await operator.settled();
    const ref = {
      kind: operator.server.store.served("sallyport.dev", "v1alpha1", "overlayservices")!.kind,
      namespace: "default",
      name: "clobbered",
    };
    operator.server.change(ref, { status: { id: "nonsense", terminators: 77 } }, "status");
    await operator.until("OverlayService", "clobbered", ({ status }) => status.id === id && status.terminators === 0);
  });
});

describe("a config in a Secret", () => {
  const spec = { data: null, dataFrom: { secretRef: { name: "config", key: "host.json" } } };
  const put = (operator: TestOperator, values: Record<string, string>) => {
    const data = Object.fromEntries(
      Object.entries(values).map(([key, value]) => [key, Buffer.from(value).toString("base64")]),
    );
    operator.server.put(KINDS.Secret, {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "config", namespace: "default" },
      data,
    });
  };
  const host = (address: string, port: unknown = 80) => JSON.stringify({ protocol: "tcp", address, port });

  test("is waited for, followed, and never shown, whatever is wrong with it", async () => {
    const operator = await scene.start();
    await operator.apply("ServiceConfig", "secret", spec);
    const missing = await operator.ready("ServiceConfig", "secret", "False", "SecretNotFound");
    expect(healthOf(missing).health).toBe("InProgress");
    put(operator, { other: "swordfish-1" });
    await operator.ready("ServiceConfig", "secret", "False", "SecretKeyNotFound");
    put(operator, { "host.json": "{swordfish-2: [" });
    expect(healthOf(await operator.ready("ServiceConfig", "secret", "False", "SecretInvalid")).health).toBe("Failed");
    put(operator, { "host.json": "swordfish-3" });
    await operator.ready("ServiceConfig", "secret", "False", "SecretInvalid");
    put(operator, { "host.json": host("swordfish-4", "swordfish-5") });
    const refused = await operator.ready("ServiceConfig", "secret", "False", "InvalidSpec");
    expect(refused.status.conditions).toContainEqual(
      expect.objectContaining({ type: "Stalled", message: expect.stringContaining("port") }),
    );
    put(operator, { "host.json": host("swordfish-6") });
    const { id, configTypeId } = (await operator.ready("ServiceConfig", "secret")).status;
    expect(await scene.entity("ServiceConfig", id)).toMatchObject({ configTypeId, data: { address: "swordfish-6" } });
    put(operator, { "host.json": "protocol: tcp\naddress: swordfish-7\nport: 81\n" });
    await expect
      .poll(async () => (await scene.entity("ServiceConfig", id))?.data, PATIENT)
      .toMatchObject({ address: "swordfish-7" });
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    expect(shown(operator)).not.toContain("swordfish");
    await operator.delete("ServiceConfig", "secret");
    await operator.gone("ServiceConfig", "secret");
    // The operator does not read the Secret any more.
    await expect
      .poll(() => operator.server.watches.length, PATIENT)
      .toBe(operator.operator.loops.stores.reflectors.length);
  });

  test("of a type that the network does not know is said at once", async () => {
    const operator = await scene.start();
    await operator.apply("ServiceConfig", "odd", { type: "no-such.v9" });
    const odd = await operator.ready("ServiceConfig", "odd", "False", "ConfigTypeNotFound");
    expect(healthOf(odd)).toMatchObject({ health: "Failed", message: expect.stringContaining("no-such.v9") });
    await operator.delete("ServiceConfig", "odd");
    await operator.gone("ServiceConfig", "odd");
  });
});

test("what the controller refuses shows the field, is stalled, and is good again with the next spec", async () => {
  const operator = await scene.start();
  await operator.apply("ServiceConfig", "wrong", { data: { protocol: "tcp", address: "localhost", port: "many" } });
  const wrong = await operator.ready("ServiceConfig", "wrong", "False", "InvalidSpec");
  expect(healthOf(wrong)).toMatchObject({ health: "Failed", message: expect.stringContaining("port") });
  await operator.apply("ServiceConfig", "wrong");
  await operator.ready("ServiceConfig", "wrong");
});

test("a pod template that the API server refuses is followed nowhere, in the network neither", async () => {
  const operator = await scene.start();
  const { server } = operator;
  const routers = async (): Promise<{ roleAttributes: string[] }[]> =>
    (await scene.controller.admin("GET", `/edge-routers?filter=${encodeURIComponent('name = "refused-0"')}`)).json.data;
  const message = "spec.template.spec.affinity: Invalid value";
  const fault = { kind: "status", code: 422, reason: "Invalid", message } as const;
  const refuse = () => server.inject({ method: "PATCH", path: "/statefulsets/refused-0", times: 1_000, fault });
  let allow = refuse();
  await operator.apply("EdgeRouter", "refused", { roleAttributes: ["a"] });
  const refused = await operator.ready("EdgeRouter", "refused", "False", "ObjectRefused");
  expect(healthOf(refused)).toMatchObject({ health: "Failed", message: expect.stringContaining(message) });
  // Also when it is asked again.
  const asked = server.requests.length;
  await expect
    .poll(() => server.requests.slice(asked).some(({ path }) => path.includes("refused-0")), PATIENT)
    .toBe(true);
  await operator.settled();
  expect(await routers()).toEqual([]);
  expect(server.writes.filter(({ path }) => /refused-0/.test(path) && !path.includes("dryRun=All"))).toEqual([]);
  allow();
  await operator.ready("EdgeRouter", "refused", "False", "WaitingForEnrollment");
  expect(await routers()).toMatchObject([{ roleAttributes: ["a"] }]);
  allow = refuse();
  await operator.apply("EdgeRouter", "refused", { roleAttributes: ["b"], drainSeconds: 5 });
  await operator.ready("EdgeRouter", "refused", "False", "ObjectRefused");
  expect(await routers()).toMatchObject([{ roleAttributes: ["a"] }]);
  allow();
  await operator.ready("EdgeRouter", "refused", "False", "WaitingForEnrollment");
  await expect.poll(routers, PATIENT).toMatchObject([{ roleAttributes: ["b"] }]);
});
