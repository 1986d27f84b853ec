import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import { silentLogger, TlsPort } from "@sallyport/wire";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "../../../controller/src/api/testing/test-controller.ts";
import { fabricOptions } from "../../../controller/src/config/settings.ts";
import { Fabric } from "../../../controller/src/fabric/fabric.ts";
import type { Replica } from "../../../controller/src/model/replica/replica-set.ts";
import { ChangingReplicas, testReplica } from "../../../controller/src/model/testing/changing-replicas.ts";
import { Pki } from "../../../controller/src/pki/pki.ts";
import { renewReplica } from "../../../controller/src/pki/replica-material.ts";
import { DEFAULT_LIFETIMES } from "../../../controller/src/pki/testing.ts";
import { eventually } from "../../network/eventually.ts";
import { PeerCli } from "../../network/openziti/peer-cli.ts";
import { peerRouterFile } from "../../network/openziti/peer-network.ts";
import { Program } from "../../network/program.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { TcpWay } from "../../network/tcp-way.ts";
import { peer } from "../peer.ts";

/** The control channel of one of several controllers, with the id and the certificates of its own. */
interface Member {
  readonly fabric: Fabric;
  readonly replicas: ChangingReplicas;
  readonly own: Replica;
  close(): Promise<void>;
}

describe
  .skipIf(peer.isMissing)
  .each([
    { version: "v1.6.0", binary: peer.path },
    { version: "v0.0.0, newer than everything", binary: peer.unversionedPath },
    ...(peer.generation2.isMissing ? [] : [{ version: peer.generation2.version, binary: peer.generation2.path }]),
  ])("a router of OpenZiti ($version) with several of our controllers", ({ binary }) => {
  let folder = "";
  let controller: TestController;
  let router: Program;
  let routerId = "";
  let file = "";
  let c1: Member;
  let c2: Member;
  let index = 0n;

  const start = async (id: string, port = 0): Promise<Member> => {
    const { material } = controller.pki;
    const request = { id, hosts: ["localhost"], lifetimes: DEFAULT_LIFETIMES, now: new Date() };
    const keys = await renewReplica(material, undefined, request);
    if (keys === undefined) throw new Error("a new replica has certificates issued");
    const pki = new Pki(material, { lifetimes: DEFAULT_LIFETIMES, replica: { id, apiHost: "localhost" } });
    pki.adopt(material, new Map([[id, keys]]));
    const tls = await TlsPort.listen({ host: "127.0.0.1", port, identity: pki.serverIdentity });
    const own = testReplica(id, tls.port);
    const replicas = new ChangingReplicas([own]);
    replicas.lead(id === "c1");
    const fabric = new Fabric({
      ports: [tls],
      controllerId: pki.controllerId,
      controllers: replicas,
      trustAnchors: () => pki.trustAnchors,
      model: controller.fabricModel,
      options: fabricOptions(CONTROLLER_DEFAULTS),
      log: { ...silentLogger, warn: console.warn, error: console.error },
    });
    return {
      ...{ fabric, replicas, own },
      close: async () => {
        await fabric.close();
        await tls.close();
      },
    };
  };

  /** All members know of these from now on. */
  const set = (...members: Pick<Member, "own">[]): void => {
    const all = members.map(({ own }) => own);
    index += 1n;
    for (const { replicas } of [c1, c2]) replicas.set(all, index);
  };
  const isOn = ({ fabric }: Member) => fabric.routerState(routerId) !== undefined;
  const endpoints = () => readFileSync(join(folder, "endpoints.yml"), "utf8");

  beforeAll(async () => {
    folder = makeScratch("several-controllers");
    controller = await startTestController();
    [c1, c2] = [await start("c1"), await start("c2")];
    controller.replicas.set([c1.own], 0n);
    routerId = await controller.make("edge-routers", { name: "p1" });
    const { json } = await controller.admin("GET", `/edge-routers/${routerId}`);
    writeFileSync(join(folder, "p1.jwt"), json.data.enrollmentJwt);
    const [edgePort = 0, linkPort = 0] = await freePorts(2);
    file = join(folder, "p1.yml");
    writeFileSync(file, peerRouterFile({ folder, name: "p1", controllerPort: 1, edgePort, linkPort }));
    await new PeerCli(binary, folder).run("router", "enroll", file, "--jwt", join(folder, "p1.jwt"));
    router = new Program({
      ...{ name: "p1", command: binary, args: ["router", "run", file] },
      ...{ env: { ZITI_HOME: folder }, logFile: join(folder, "p1.log") },
    });
    await router.ready("being online", async () => isOn(c1));
  });

  afterAll(async () => {
    await router?.stop();
    await c1?.close();
    await c2?.close();
    await controller?.close();
    if (process.env.SALLYPORT_KEEP !== "1") removeScratch(folder);
  });

  it("enrolls with the control address of each controller that there is", () => {
    expect(endpoints()).toContain(c1.own.ctrlAddress);
    expect(isOn(c2)).toBe(false);
  });

  it("dials one that joins, and knows each by its own id", async () => {
    set(c1, c2);
    await eventually("the router at both", () => isOn(c1) && isOn(c2));
    await eventually("both in its file", () => endpoints().includes(c2.own.ctrlAddress));
    const { values, errors } = await c2.fabric.inspect({ appRegex: routerId, requestedValues: ["router-controllers"] });
    expect(errors).toEqual([]);
    const found = values.map(({ value }) => value).join("\n");
    expect(found).toContain('"c1"');
    expect(found).toContain('"c2"');
  });

  it("leaves one that is in the set no more", async () => {
    set(c2);
    await eventually("the router at the second alone", () => !isOn(c1) && isOn(c2));
    await eventually("one in its file", () => !endpoints().includes(c1.own.ctrlAddress));
  });

  it("finds one again that has moved, at its new address", async () => {
    set(c1, c2);
    await eventually("the router at both", () => isOn(c1) && isOn(c2));
    await c1.close();
    await eventually("the router at the second alone", () => !isOn(c1));
    const moved = await start("c1");
    set(c2);
    c1 = moved;
    set(c1, c2);
    await eventually("the router at the moved one", () => isOn(c1), 60_000);
    expect(isOn(c2)).toBe(true);
  });

  it("goes to another address of one that it is connected to, as when a shared address is replaced by its own", async () => {
    const way = await TcpWay.start(Number(c1.own.ctrlAddress.split(":").at(-1)));
    try {
      const before = c1.fabric.routerState(routerId)?.connectedSince;
      set({ own: testReplica("c1", way.port) }, c2);
      await eventually(
        "a new connection to the first",
        () => ![undefined, before].includes(c1.fabric.routerState(routerId)?.connectedSince),
        60_000,
      );
      expect(endpoints()).toContain(`:${way.port}`);
      expect(endpoints()).not.toContain(c1.own.ctrlAddress);
      expect(isOn(c2)).toBe(true);
    } finally {
      await way.close();
    }
  });
});
