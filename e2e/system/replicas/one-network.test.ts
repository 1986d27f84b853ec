import { join } from "node:path";
import { type ApiClient, createClient } from "@sallyport/api";
import { ManagementType } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ManagementClient } from "../../../controller/src/management/testing/management-client.ts";
import { urlOf } from "../../../controller/src/store/testing/oldest-server.ts";
import { testDatabase } from "../../../controller/src/store/testing/test-store.ts";
import { exchangeSome } from "../../network/bytes.ts";
import { Contexts } from "../../network/contexts.ts";
import { eventually } from "../../network/eventually.ts";
import { hostEcho } from "../../network/hosted-echo.ts";
import { authorities, type DeclaredService, declareService, type Network } from "../../network/network.ts";
import { type Replica, startReplica, startShared } from "../../network/replicas.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";

/** One controller, as an administrator's tools reach it. */
interface Side {
  readonly id: string;
  readonly fabric: ApiClient<"fabric">;
  /** Events that its stream has had, as `namespace event_type circuit of controller`, or with the type of an entity. */
  readonly told: string[];
  close(): void;
}

const folder = makeScratch("one-network");
let database: Awaited<ReturnType<typeof testDatabase>>;
let network: Network;
let second: Replica;
let sides: Side[];
let echo: DeclaredService;
let token: string;
let ca: string;
const contexts = new Contexts();

beforeAll(async () => {
  database = await testDatabase();
  network = await startShared(join(folder, "network"), urlOf(database.connection));
  echo = await declareService(network, { name: "echo" });
  await hostEcho(await contexts.load(echo.hostFile), "echo");
  second = await startReplica(network, "c2");
  const { data } = await network.management.authenticate({
    query: { method: "password" },
    body: { username: "admin", password: network.adminPassword },
  });
  token = data.token;
  ca = await authorities(network.port);
  sides = [await side("c1", network.port), await side("c2", second.apiPort)];
}, 240_000);

afterAll(async () => {
  await contexts.close();
  for (const each of sides ?? []) each.close();
  await second?.program.stop();
  await network?.stop();
  await database?.drop();
  removeScratch(folder);
}, 180_000);

async function side(id: string, port: number): Promise<Side> {
  const fabric = createClient("fabric", { baseUrl: `https://localhost:${port}`, ca, token });
  const stream = await ManagementClient.connect({ port, ca, token });
  const told: string[] = [];
  stream.socket.on("message", (data: Buffer) => {
    const text = data.toString();
    if (!text.includes('{"namespace"')) return;
    const event = JSON.parse(text.slice(text.indexOf('{"namespace"')));
    told.push(
      `${event.namespace} ${event.event_type ?? event.eventType} ${event.circuit_id ?? event.entityType} of ${event.event_src_id}`,
    );
  });
  const subscriptions = ["circuit", "entityChange"].map((type) => ({ type }));
  const body = Buffer.from(JSON.stringify({ format: "json", subscriptions }));
  expect(await stream.result({ contentType: ManagementType.StreamEventsRequest, body })).toMatchObject({ ok: true });
  return {
    ...{ id, fabric, told },
    close: () => {
      fabric.close();
      stream.socket.terminate();
    },
  };
}

describe("two controllers, asked for what only one of them knows", { timeout: 180_000 }, () => {
  it("show and end each other's circuits, and tell of each once", async () => {
    const [one, two] = sides as [Side, Side];
    const client = await contexts.load(echo.clientFile);
    const connection = await eventually(
      "echo can be dialled",
      () => client.dial("echo", { allowHalfOpen: true, timeoutMs: 10_000 }),
      60_000,
    );
    await exchangeSome(connection, 1, 10_000);
    const only = async ({ fabric }: Side) => {
      const { data } = await fabric.listCircuits();
      return data.length === 1 && data[0];
    };
    const circuit = await eventually("one shows the circuit", () => only(one));
    const circuitId = circuit.id;
    for (const side of sides) {
      const { fabric } = side;
      // A controller whose lease ran out on a busy machine is left out for a moment.
      await eventually("each shows the circuit", async () => (await only(side)) && true);
      expect((await fabric.detailCircuit({ params: { id: circuitId } })).data).toEqual(circuit);
    }
    const created = () =>
      [one, two].map(({ told }) => told.filter((text) => text.startsWith(`circuit created ${circuitId}`)));
    await eventually("both streams tell of the circuit", async () => created().every(({ length }) => length > 0));
    const [[first = ""] = []] = created();
    expect(created()).toEqual([[first], [first]]);
    const owner = first.endsWith("c1") ? one : two;
    const other = owner === one ? two : one;
    await other.fabric.deleteCircuit({ params: { id: circuitId }, body: { immediate: true } });
    for (const { fabric } of sides) expect((await fabric.listCircuits()).data).toEqual([]);
    await eventually("both streams tell of its end", async () =>
      [one, two].every(({ told }) => told.includes(`circuit deleted ${circuitId} of ${owner.id}`)),
    );
  });

  it("tell of a change of the network once, though both of them see it", async () => {
    const before = sides.map(({ told }) => told.length);
    await network.management.createService({ body: { name: "told", encryptionRequired: true } });
    const since = () =>
      sides.map(({ told }, n) =>
        told.slice(before[n]).filter((text) => text.startsWith("entityChange created services")),
      );
    await eventually("both streams tell of the service", async () => since().every(({ length }) => length > 0));
    const [[first = ""] = []] = since();
    expect(since()).toEqual([[first], [first]]);
  });

  it("answer an inspection both, each under its own id, and routers once", async () => {
    for (const { fabric } of sides) {
      const ids = await eventually("both controllers answer", async () => {
        const { data } = await fabric.inspect({ body: { appRegex: ".*", requestedValues: ["config"] } });
        const all = data.values?.map(({ appId }) => appId) ?? [];
        return all.includes("c1") && all.includes("c2") && all;
      });
      expect(ids.filter((id) => id === "c1" || id === "c2").sort()).toEqual(["c1", "c2"]);
      expect(new Set(ids).size).toBe(ids.length);
      expect(ids).toHaveLength(4);
    }
  });
});
