/**
 * A managed Network with several controllers on a PostgreSQL: a fake API server on one side, our real controllers on the other, each at an address of its own,
 * with what plays their Service in front.
 */
import { createClient } from "@sallyport/api";
import { pause } from "@sallyport/async";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { urlOf } from "../../controller/src/store/testing/oldest-server.ts";
import { testDatabase } from "../../controller/src/store/testing/test-store.ts";
import { networkReconciler } from "../../operator/src/kinds/network/reconcile.ts";
import { type Condition, conditionOf } from "../../operator/src/kube/conditions.ts";
import { KINDS, type KubeObject, type ResourceKind } from "../../operator/src/kube/kinds.ts";
import type { KindReconciler } from "../../operator/src/loop/kind-reconciler.ts";
import { startOperator, type TestOperator } from "../../operator/src/testing/start-operator.ts";
import { eventually } from "../network/eventually.ts";
import { loginOfRun } from "../network/login/logins.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { ControllerPods } from "./controller-pods.ts";
import { resolveServices } from "./service-names.ts";

interface Holder extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

const WORKLOAD = { namespace: "default", name: "main-controller" };
/** Starts of several programs on a busy machine. */
const PATIENCE_MS = 800_000;

let scratch: string;
let database: Awaited<ReturnType<typeof testDatabase>>;
let t: TestOperator;
let pods: ControllerPods;
let port: number;

const find = <T extends KubeObject = Holder>(kind: ResourceKind, name: string) =>
  t.server.read<T>({ kind, namespace: "default", name });
const secretText = (name: string, key: string): string =>
  Buffer.from(find(KINDS.Secret, name)?.data?.[key] ?? "", "base64").toString();
const reconcilers = [
  networkReconciler({ controllerImage: "sallyport/controller:test" }),
] as unknown as KindReconciler[];

const managed = (replicas: number, more: object = {}) => ({
  external: null,
  managed: {
    ...{ replicas, port },
    database: { urlSecretRef: { name: "db", key: "uri" } },
    exposure: { type: "ClusterIP", hostname: "localhost", replicaHostname: "127.0.0.1{ordinal}" },
    oidc: { enabled: loginOfRun() === "oidc" },
    ...more,
  },
});

/** Until the Network shows this many controllers ready, none of them in the way of a change. */
const settledWith = async (replicas: number) => {
  await t.until("Network", "main", ({ metadata, status }) => {
    const condition = conditionOf(status.conditions, "ReplicasReady");
    return (
      status.observedGeneration === metadata.generation &&
      conditionOf(status.conditions, "Ready")?.status === "True" &&
      conditionOf(status.conditions, "Reconciling") === undefined &&
      (replicas === 1
        ? condition === undefined
        : condition?.message === `${replicas} of ${replicas} controllers are ready`)
    );
  });
};

type Management = ReturnType<typeof createClient<"management">>;

/** A client that asks and writes all the time, and repeats what failed once. */
class Traffic {
  readonly #client: Management;
  readonly #running: Promise<void>;
  #isOver = false;
  /** Ids of what was written. */
  readonly written: string[] = [];
  readonly failed: string[] = [];

  private constructor(client: Management) {
    this.#client = client;
    this.#running = this.#run();
  }

  static async start(): Promise<Traffic> {
    const ca = find(KINDS.ConfigMap, "main-ca")?.data?.["ca.crt"] ?? "";
    const client = createClient("management", { baseUrl: `https://localhost:${port}`, ca });
    const body = { username: secretText("main-admin", "username"), password: secretText("main-admin", "password") };
    client.setToken((await client.authenticate({ query: { method: "password" }, body })).data.token);
    return new Traffic(client);
  }

  /** Ends it; every write that was answered is there. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#running;
    for (const id of this.written) {
      const found = await eventually("what was written is there", () => this.#client.detailService({ params: { id } }));
      expect(found.data.id).toBe(id);
    }
    this.#client.close();
  }

  async #run(): Promise<void> {
    for (let n = 0; !this.#isOver; n++) {
      try {
        const name = `written-${process.pid}-${this.written.length}-${n}`;
        const body = { name, encryptionRequired: true };
        const { data } = await this.#twice(() => this.#client.createService({ body }));
        this.written.push(data.id);
      } catch (error) {
        this.failed.push(String(error));
      }
      await pause(50);
    }
  }

  async #twice<T>(call: () => Promise<T>): Promise<T> {
    return await call().catch(async () => {
      await pause(1_000);
      return await call();
    });
  }
}

beforeAll(async () => {
  resolveServices();
  scratch = makeScratch("operator-several");
  [port = 0] = await freePorts(1);
  database = await testDatabase();
  t = await startOperator({ reconcilers, patienceMs: PATIENCE_MS });
  const uri = Buffer.from(urlOf(database.connection)).toString("base64");
  t.server.put(KINDS.Secret, {
    ...{ apiVersion: "v1", kind: "Secret", metadata: { name: "db", namespace: "default" } },
    data: { uri },
  });
  pods = new ControllerPods(t.server, scratch, (ordinal) => `127.0.0.1${ordinal}`);
  await pods.serve(port);
}, 120_000);

afterAll(async () => {
  vi.restoreAllMocks();
  await t?.close();
  await pods?.close();
  await database?.drop();
  if (scratch !== undefined) removeScratch(scratch);
}, 120_000);

describe("a Network with several controllers", { timeout: 900_000 }, () => {
  const controllers = () =>
    t.read("Network", "main")?.status.controllers as { name: string; ctrlAddress: string; online: boolean }[];
  let traffic: Traffic;

  test("with one has the id that a controller without others has, and the shared address", async () => {
    await t.apply("Network", "main", managed(1));
    await settledWith(1);
    expect(controllers()).toEqual([{ name: "controller", ctrlAddress: `tls:localhost:${port}`, online: true }]);
    expect(find(KINDS.PodDisruptionBudget, "main-controller")).toBeUndefined();
    expect(find(KINDS.Service, "main-controller-0")).toBeUndefined();
    expect(await t.writesOfAnotherLook()).toEqual([]);
  });

  test("grows under traffic, each with an address of its own", async () => {
    traffic = await Traffic.start();
    pods.leastReady = 1;
    await t.apply("Network", "main", managed(3));
    await settledWith(3);
    await t.until("Network", "main", () => controllers().filter(({ online }) => online).length === 3);
    expect(controllers()).toEqual(
      ["controller", "controller-1", "controller-2"].map((name, i) => ({
        ...{ name, online: true },
        ctrlAddress: `tls:127.0.0.1${i}:${port}`,
      })),
    );
    // The first one went on serving until the others could.
    expect(pods.leastReady).toBeGreaterThan(0);
    expect(t.read("Network", "main")?.status).toMatchObject({ replicas: 3, readyReplicas: 3 });
    expect(find(KINDS.PodDisruptionBudget, "main-controller")).toBeDefined();
    for (const i of [0, 1, 2]) expect(find(KINDS.Service, `main-controller-${i}`)).toBeDefined();
    expect(traffic.failed).toEqual([]);
    expect(await t.writesOfAnotherLook()).toEqual([]);
  });

  test("can be used while one of them is away, and says which", async () => {
    const states: (string | undefined)[] = [];
    const stop = t.server.store.history.onChange(({ object }) => {
      const { conditions } = (object as { status?: { conditions?: readonly Condition[] } }).status ?? {};
      if (object.kind === "Network") states.push(conditionOf(conditions, "Ready")?.status);
    });
    const refused = pods.refused;
    await pods.killUnnoticed(WORKLOAD, 1, async () => {
      // A look makes a connection, and the Service leads every third one to the controller that is no more.
      for (let look = 0; look < 6; look++) {
        const at = `unnoticed-${look}`;
        await t.annotate("Network", "main", { "sallyport.dev/reconcile-requested-at": at });
        await t.until("Network", "main", ({ status }) => status.lastHandledReconcileAt === at);
      }
    });
    expect(pods.refused).toBeGreaterThan(refused);
    const { status } = await t.until(
      "Network",
      "main",
      ({ status }) => conditionOf(status.conditions, "ReplicasReady")?.status === "False",
    );
    expect(conditionOf(status.conditions, "ReplicasReady")?.message).toContain("main-controller-1");
    expect(conditionOf(status.conditions, "Ready")?.status).toBe("True");
    await pods.start(WORKLOAD, 1);
    await settledWith(3);
    stop();
    expect(new Set(states)).toEqual(new Set(["True"]));
    expect(traffic.failed).toEqual([]);
  });

  test("is restarted one after the other, under traffic", async () => {
    const before = pods.starts;
    pods.leastReady = 3;
    await t.annotate("Network", "main", { "sallyport.dev/restart-requested-at": "today" });
    await t.until("Network", "main", ({ status }) => status.lastHandledRestart === "today");
    await settledWith(3);
    expect(pods.starts).toBe(before + 3);
    expect(pods.leastReady).toBe(2);
    expect(traffic.failed).toEqual([]);
  });

  test("shrinks to one, which was not started again and has everything that was written", async () => {
    const before = pods.starts;
    await t.apply("Network", "main", managed(1));
    await settledWith(1);
    for (const i of [1, 2]) {
      await t.until("Network", "main", () => find(KINDS.Service, `main-controller-${i}`) === undefined);
      expect(pods.programOf(i)).toBeUndefined();
    }
    await t.until("Network", "main", () => find(KINDS.PodDisruptionBudget, "main-controller") === undefined);
    await t.until("Network", "main", () => controllers().filter(({ online }) => online).length === 1);
    expect(controllers()[0]).toEqual({ name: "controller", ctrlAddress: `tls:127.0.0.10:${port}`, online: true });
    expect(pods.starts).toBe(before);
    await traffic.end();
    expect(traffic.failed).toEqual([]);
    expect(traffic.written.length).toBeGreaterThan(50);
    expect(await t.writesOfAnotherLook()).toEqual([]);
  });

  test("goes back to the shared address when its own Service is deleted", async () => {
    t.server.remove({ kind: KINDS.Service, namespace: "default", name: "main-controller-0" });
    await t.until("Network", "main", () => controllers()[0]?.ctrlAddress === `tls:localhost:${port}`);
    await settledWith(1);
    expect(find(KINDS.Service, "main-controller-0")).toBeUndefined();
  });
});
