/** The quickstart's network with a PostgreSQL that the operator does not run: not there at first, then away for a while. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasCluster, Stage } from "../stage.ts";
import { clientOf } from "./client.ts";
import { declareUrl, startPostgres } from "./postgres.ts";

const PATIENCE = { timeout: 600_000, interval: 1_000 };

describe.skipIf(!hasCluster)("a network in a PostgreSQL by URL", () => {
  let stage: Stage;

  beforeAll(async () => {
    // Until it finds its database the controller's container ends and is started again.
    stage = await Stage.open("postgres", { restarts: true });
    await declareUrl(stage);
  });
  afterAll(async () => await stage?.close());

  const ready = async () => await stage.condition("network", "main", "Ready");
  const warnings = () =>
    stage.kubectl(
      "get",
      "events",
      "--field-selector=type=Warning,involvedObject.kind=Network",
      "--output=jsonpath={.items[*].message}",
    );
  const { hello, firstAnswer } = clientOf(() => stage);
  const restarts = async () =>
    await stage.kubectl(
      "get",
      "pod",
      "main-controller-0",
      "--output=jsonpath={.metadata.uid} {.status.containerStatuses[0].restartCount}",
    );
  /** Condition and event name the cause. */
  async function told(cause: RegExp): Promise<void> {
    const message = async () => {
      const { status, message = "" } = (await ready()) ?? {};
      return status === "False" ? message : "it is ready";
    };
    await stage.explain(expect.poll(message, PATIENCE).toMatch(cause));
    await stage.explain(expect.poll(warnings, PATIENCE).toMatch(cause));
  }

  test("says that the database is not there", async () => {
    const value = { urlSecretRef: { name: "database", key: "url" } };
    const patch = [{ op: "replace", path: "/spec/managed/database", value }];
    await stage.applyFolder("examples/quickstart", [{ target: { kind: "Network", name: "main" }, patch }]);
    await told(/cannot use the database postgres at postgres\./);
    expect(await stage.kubectl("get", "overlay", "--output=yaml")).not.toContain("kept-in-a-secret");
  });

  test("works as soon as the database is there, and needs no volume", async () => {
    await startPostgres(stage);
    expect(await firstAnswer()).toBe("hello from the overlay\n");
    await stage.ready();
    const claims = await stage.kubectl("get", "pvc", "--output=jsonpath={.items[*].metadata.name}");
    expect(claims.split(" ").sort()).toEqual(["data-edge-0-0", "data-edge-1-0", "postgres"]);
    for (const { kind, name, health, message } of await stage.health())
      expect(health, `${kind} ${name}: ${message}`).toBe("Current");
  });

  test("says when the database is away, restarts nothing, and goes on by itself when it is back", async () => {
    const before = await restarts();
    await stage.kubectl("scale", "deployment/postgres", "--replicas=0");
    await stage.explained(
      "wait",
      "--for=delete",
      "pod",
      "--selector=app.kubernetes.io/name=postgres",
      "--timeout=300s",
    );
    await stage.kubectl("annotate", "overlay", "--all", "sallyport.dev/reconcile-requested-at=away");
    await told(/database/);
    await stage.kubectl("scale", "deployment/postgres", "--replicas=1");
    await stage.ready(600);
    expect(await hello()).toBe("hello from the overlay\n");
    expect(await restarts()).toBe(before);
  });
});
