import { once } from "node:events";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parseRouterConfig } from "@sallyport/router-config";
import {
  ControlType,
  ctrlPb,
  encodeControl,
  formatAddress,
  type Identity,
  type Logger,
  silentLogger,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { endpointsOf } from "../../assembly/membership.ts";
import { ScriptedController, testControllers } from "../../testing/scripted-controller.ts";
import { ConfiguredAddresses } from "./configured-addresses.ts";
import { ControllerAddresses } from "./controller-addresses.ts";
import type { Controllers } from "./controllers.ts";
import { readEndpointsFile } from "./endpoints-file.ts";

let dir: string;
let identities: Identity[];
let controllers: Controllers;
let scripted: ScriptedController[];
const errors: string[] = [];
const log: Logger = { ...silentLogger, error: (_fields, text) => errors.push(text) };

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-controllers-"));
  const authority = await TestAuthority.create();
  identities = await Promise.all(["ctrl1", "ctrl2", "r1"].map((name) => authority.identity(name)));
  scripted = [];
  controllers = testControllers(identities[2]!);
});

afterEach(async () => {
  controllers.stop();
  for (const each of scripted) await each.close();
  await rm(dir, { recursive: true });
  errors.length = 0;
});

async function controller(id: string): Promise<ScriptedController> {
  const made = await ScriptedController.start(identities[id === "ctrl2" ? 1 : 0]!, id);
  scripted.push(made);
  return made;
}

const connectedTo = () =>
  controllers
    .all()
    .map(({ id }) => id)
    .toSorted();
const text = (one: ScriptedController) => formatAddress(one.address);

/** What a controller says of its cluster. */
async function announce(from: ScriptedController, addresses: string[], index: bigint, isLeader = false): Promise<void> {
  const body = encodeControl(ctrlPb.UpdateCtrlAddressesSchema, { addresses, index, isLeader });
  (await from.channel()).send({ contentType: ControlType.UpdateCtrlAddresses, body });
}

describe("a controller", () => {
  it("is not what another component with its name and address claims to be", async () => {
    const dials: string[] = [];
    const heard: Logger = { ...silentLogger, warn: (fields) => dials.push(JSON.stringify(fields)) };
    const authority = await TestAuthority.create();
    const other = await authority.identity("ctrl1", { uri: ["spiffe://net/identity/i/apiSession/s"] });
    const made = await ScriptedController.start(other, "ctrl1");
    scripted.push(made);
    controllers = testControllers(await authority.identity("r1"), {}, heard);
    controllers.setEndpoints([made.address]);
    await expect.poll(() => dials.join()).toContain("expected the certificate of a controller");
    expect(connectedTo()).toEqual([]);
  });
});

describe("the addresses of a cluster", () => {
  const file = () => join(dir, "state", "endpoints.yml");

  it("are dialled as they are announced, and remembered for the next start", async () => {
    const [one, two] = [await controller("ctrl1"), await controller("ctrl2")];
    const addresses = new ControllerAddresses({ controllers, endpointsFile: file(), endpoints: [one.address], log });
    controllers.setEndpoints([one.address]);
    await announce(one, [text(one), text(two)], 5n, true);
    await expect.poll(connectedTo).toEqual(["ctrl1", "ctrl2"]);
    expect(addresses.leader).toBe("ctrl1");
    await addresses.settled();
    expect(await readEndpointsFile(file(), silentLogger)).toEqual([one.address, two.address]);
    expect((await stat(file())).mode & 0o777).toBe(0o600);
    expect((await stat(dirname(file()))).mode & 0o777).toBe(0o700);
    // The set may be known from another controller before its leader speaks.
    await announce(two, [text(one), text(two)], 5n, true);
    await expect.poll(() => addresses.leader).toBe("ctrl2");
    // What is older than that is not believed; what is newer may leave the first one out.
    await announce(two, [text(one)], 5n);
    await announce(one, [text(one)], 4n, true);
    await announce(two, ["no address", ""], 6n);
    await announce(two, [text(two)], 7n);
    await expect.poll(connectedTo).toEqual(["ctrl2"]);
    await addresses.settled();
    expect(await readFile(file(), "utf8")).toBe(`endpoints:\n  - ${text(two)}\n`);
    expect(addresses.leader).toBe("ctrl2");
    expect(one.hellos).toHaveLength(1);
  });

  it("are those that are named by controller, when they are", async () => {
    const [one, two] = [await controller("ctrl1"), await controller("ctrl2")];
    new ControllerAddresses({ controllers, endpointsFile: file(), endpoints: [one.address], log });
    controllers.setEndpoints([one.address]);
    const detail = (each: ScriptedController, id: string) => ({
      id,
      endpoints: [{ address: text(each), groups: ["x"] }],
    });
    const named = [detail(one, "ctrl1"), detail(two, "ctrl2")];
    const body = encodeControl(ctrlPb.UpdateCtrlAddressesSchema, {
      addresses: [text(one)],
      index: 5n,
      controllers: named,
    });
    (await one.channel()).send({ contentType: ControlType.UpdateCtrlAddresses, body });
    await expect.poll(connectedTo).toEqual(["ctrl1", "ctrl2"]);
  });

  it("name the controller that answers there, so that a second address of one is not dialed in vain", async () => {
    const [one, two, other] = [await controller("ctrl1"), await controller("ctrl2"), await controller("ctrl1")];
    new ControllerAddresses({ controllers, endpointsFile: file(), endpoints: [one.address], log });
    controllers.setEndpoints([one.address]);
    await expect.poll(connectedTo).toEqual(["ctrl1"]);
    const body = encodeControl(ctrlPb.UpdateCtrlAddressesSchema, {
      index: 1n,
      controllers: [
        { id: "ctrl1", endpoints: [{ address: text(one) }, { address: text(other) }] },
        { id: "ctrl2", endpoints: [{ address: text(two) }] },
      ],
    });
    (await one.channel()).send({ contentType: ControlType.UpdateCtrlAddresses, body });
    await expect.poll(connectedTo).toEqual(["ctrl1", "ctrl2"]);
    expect(other.hellos).toEqual([]);
  });

  it("start again after the controllers' database was replaced", async () => {
    const [one, two] = [await controller("ctrl1"), await controller("ctrl2")];
    const first = { controllers, endpointsFile: file(), endpoints: [one.address], log };
    const addresses = new ControllerAddresses(first);
    controllers.setEndpoints([one.address]);
    await announce(one, [text(one), "tls:127.0.0.1:1"], 900n);
    await expect.poll(() => controllers.endpoints).toHaveLength(2);
    await announce(one, [text(one)], 2n);
    addresses.forgetIndex();
    await announce(one, [text(one), text(two)], 3n);
    await expect.poll(connectedTo).toEqual(["ctrl1", "ctrl2"]);
  });

  it("are joined by those of the configuration when none of them answers, until one does or others are announced", async () => {
    const [gone, there] = [await controller("ctrl1"), await controller("ctrl2")];
    await gone.close();
    const announced = [gone.address];
    const wayBack = new ConfiguredAddresses({
      ...{ controllers, configured: [gone.address, there.address], log, patienceMs: 100 },
      announced: () => announced,
    });
    controllers.setEndpoints(announced);
    await expect.poll(connectedTo).toEqual(["ctrl2"]);
    scripted.push(await ScriptedController.start(identities[0]!, "ctrl1", gone.address.port));
    await expect.poll(connectedTo, { timeout: 10_000 }).toEqual(["ctrl1"]);
    expect(controllers.endpoints).toEqual([text(gone)]);
    wayBack.close();
  });

  it("may be one new address, too", async () => {
    const [one, two] = [await controller("ctrl1"), await controller("ctrl2")];
    new ControllerAddresses({ controllers, endpointsFile: file(), endpoints: [one.address], log });
    controllers.setEndpoints([one.address]);
    const body = encodeControl(ctrlPb.SettingsSchema, { data: { 1: Buffer.from(text(two)) } });
    (await one.channel()).send({ contentType: ControlType.Settings, body });
    await expect.poll(connectedTo).toEqual(["ctrl2"]);
  });

  it("are used even when they cannot be saved, which is told", async () => {
    const [one, two] = [await controller("ctrl1"), await controller("ctrl2")];
    await writeFile(join(dir, "state"), "in the way");
    const addresses = new ControllerAddresses({ controllers, endpointsFile: file(), endpoints: [one.address], log });
    controllers.setEndpoints([one.address]);
    await announce(one, [text(one), text(two)], 1n);
    await expect.poll(connectedTo).toEqual(["ctrl1", "ctrl2"]);
    await addresses.settled();
    expect(errors).toEqual(["the controllers' new addresses could not be saved"]);
  });

  it("that were remembered win over the configuration, unless there are none", async () => {
    const { config } = parseRouterConfig(
      'v: 3\nidentity: { cert: a, key: b, ca: c }\nctrl: { endpoint: "tls:old.example:1" }\n',
      { env: {} },
    );
    const from = { config, configFile: join(dir, "router.yml"), baseDir: dir, log };
    expect((await endpointsOf(from)).endpoints.map(formatAddress)).toEqual(["tls:old.example:1"]);
    await writeFile(join(dir, "endpoints.yml"), "endpoints: []\n");
    expect((await endpointsOf(from)).endpoints.map(formatAddress)).toEqual(["tls:old.example:1"]);
    await writeFile(join(dir, "endpoints.yml"), "endpoints: ['tls:a.example:1', 'tls:b.example:2']\n");
    expect((await endpointsOf(from)).endpoints.map(formatAddress)).toEqual(["tls:a.example:1", "tls:b.example:2"]);
    const unknown = { ...config, ctrl: { ...config.ctrl, endpoints: [] } };
    await writeFile(join(dir, "endpoints.yml"), "endpoints: []\n");
    await expect(endpointsOf({ ...from, config: unknown })).rejects.toThrow(
      /no controller is known: set ctrl\.endpoint/,
    );
  });
});

describe("several controllers", () => {
  it("that are the same by two addresses are one: the second rests until the first is lost", async () => {
    const [one, twin] = [await controller("ctrl1"), await controller("ctrl1")];
    controllers.setEndpoints([one.address]);
    await one.connections(1);
    await expect.poll(connectedTo).toEqual(["ctrl1"]);
    controllers.setEndpoints([one.address, twin.address]);
    await twin.connections(1);
    await expect.poll(() => twin.hellos[0]?.isClosed).toBe(true);
    expect(controllers.all()[0]?.address).toBe(text(one));
    expect(controllers.endpoints).toEqual([text(one), text(twin)]);
    // It moves: nothing answers at its first address any more, and nobody announces that.
    await one.close();
    one.hellos[0]?.close();
    await expect.poll(() => controllers.all()[0]?.address).toBe(text(twin));
    expect(one.hellos).toHaveLength(1);
  });

  it("with an address that is known to be another one's: it is not dialed as long as that one is connected", async () => {
    const [one, twin] = [await controller("ctrl1"), await controller("ctrl1")];
    controllers.setEndpoints([one.address]);
    await expect.poll(connectedTo).toEqual(["ctrl1"]);
    controllers.setEndpoints([one.address, twin.address], new Map([[text(twin), "ctrl1"]]));
    await one.close();
    one.hellos[0]?.close();
    await twin.connections(1);
    await expect.poll(() => controllers.all()[0]?.address).toBe(text(twin));
    // An operator's word holds for all addresses of a controller.
    controllers.suspend(text(twin));
    await expect.poll(connectedTo).toEqual([]);
    const back = await ScriptedController.start(identities[0]!, "ctrl1", one.address.port);
    scripted.push(back);
    expect(controllers.endpoints).toEqual([]);
    controllers.resume(text(one));
    await expect.poll(() => controllers.all()[0]?.address).toBe(text(one));
    expect([twin.hellos.length, back.hellos.length]).toEqual([1, 1]);
  });

  it("of which one is dead: the other serves, and the dead one is taken when it lives", async () => {
    const dead = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
    await once(dead, "listening");
    const { port } = dead.address() as AddressInfo;
    const alive = await controller("ctrl2");
    let attempts = 0;
    dead.on("connection", () => attempts++);
    controllers.setEndpoints([{ protocol: "tls", host: "127.0.0.1", port }, alive.address]);
    await expect.poll(connectedTo).toEqual(["ctrl2"]);
    // It does not give up on the dead one, and asks nothing of it.
    await expect.poll(() => attempts, { timeout: 30_000 }).toBeGreaterThan(1);
    expect((await controllers.connected("a question", 1_000)).id).toBe("ctrl2");
    void controllers.request("a question", { contentType: 9_999 }).catch(() => {});
    await alive.next(9_999);
    const revived = await controller("ctrl1");
    dead.removeAllListeners("connection").on("connection", (near: Socket) => {
      const far = connect(revived.address.port, "127.0.0.1");
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        from.on("error", () => to.destroy()).pipe(to);
        from.once("close", () => to.destroy());
      }
    });
    await expect.poll(connectedTo, { timeout: 30_000 }).toEqual(["ctrl1", "ctrl2"]);
    controllers.stop();
    dead.close();
  }, 90_000);

  it("are asked in the order of their answers: the fastest, then the unproven, those that do not answer last", async () => {
    const [one, two] = [await controller("ctrl1"), await controller("ctrl2")];
    controllers.setEndpoints([one.address, two.address]);
    await expect.poll(connectedTo).toEqual(["ctrl1", "ctrl2"]);
    const [first, second] = [controllers.byId("ctrl1")!, controllers.byId("ctrl2")!];
    const now = performance.now();
    second.heard(20, now);
    expect(controllers.best()).toBe(second);
    first.heard(10, now);
    expect(controllers.best()).toBe(first);
    first.heard(5_001, now);
    expect(controllers.isResponsive(first)).toBe(false);
    expect(controllers.best()).toBe(second);
    // An answer long ago is none.
    first.heard(1, now - 15_001);
    expect(controllers.best()).toBe(second);
    void controllers.request("a question", { contentType: 9_999 }).catch(() => {});
    await two.next(9_999);
    controllers.suspend(text(two));
    await expect.poll(() => controllers.best()).toBe(first);
  });
});
