import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { TlsPort } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "../../controller/src/api/testing/test-controller.ts";
import { type Fabric, startFabric } from "../../controller/src/fabric/fabric.ts";
import { exchangeThenEnd, openTcp, startEcho, type TcpServer } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { PeerCli } from "../network/peer-cli.ts";
import { peerRouterFile } from "../network/peer-network.ts";
import { freePorts, Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { peer } from "./peer.ts";

const MIB = 1024 * 1024;

describe.skipIf(peer.isMissing).each([
  { version: "v1.6.0", binary: peer.path },
  { version: "v0.0.0, newer than everything", binary: peer.unversionedPath },
])("routers of the peer ($version) with our data model", ({ binary }) => {
  let folder = "";
  let controller: TestController;
  let fabric: Fabric;
  let port: TlsPort;
  let echo: TcpServer;
  let proxyPort = 0;
  const routers: Program[] = [];
  const ids = new Map<string, string>();

  const make = (collection: string, body: object): Promise<string> => controller.make(collection, body);
  const admin = (method: string, path: string, body?: unknown) => controller.admin(method, path, body);

  /** Every router says that its model is ours, entity by entity. */
  const sameEverywhere = async (): Promise<void> => {
    for (const id of ids.values()) {
      await eventually("the same model", async () => {
        const answer = await fabric.validateDataModel(id);
        expect(answer?.differences).toEqual([]);
        expect(answer?.actualCounts).toEqual(answer?.expectedCounts);
        return true;
      });
    }
  };

  const startRouter = async (name: string, tunnel: string, cost = 0): Promise<void> => {
    const id = await make("edge-routers", { name, isTunnelerEnabled: true, roleAttributes: [name], cost });
    ids.set(name, id);
    const { json } = await admin("GET", `/edge-routers/${id}`);
    const jwt = join(folder, `${name}.jwt`);
    writeFileSync(jwt, json.data.enrollmentJwt);
    const [edgePort = 0, linkPort = 0] = await freePorts(2);
    const file = join(folder, `${name}.yml`);
    const own = peerRouterFile({ folder, name, controllerPort: port.port, edgePort, linkPort });
    writeFileSync(file, own.replace("\nedge:\n", `\n  - binding: tunnel\n    options:\n${tunnel}\nedge:\n`));
    await new PeerCli(binary, folder).run("router", "enroll", file, "--jwt", jwt);
    const router = new Program({
      name,
      command: binary,
      args: ["router", "run", file],
      env: { ZITI_HOME: folder },
      logFile: join(folder, `${name}.log`),
    });
    routers.push(router);
    await router.ready("being online", async () => fabric.routerState(id) !== undefined);
  };

  const echoes = async (): Promise<boolean> => {
    const socket = await openTcp(proxyPort);
    await exchangeThenEnd(socket, 1, 100);
    return true;
  };

  beforeAll(async () => {
    folder = makeScratch("data-model");
    echo = await startEcho();
    controller = await startTestController();
    port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity: controller.pki.serverIdentity });
    Object.assign(controller.ctx.settings, { ctrlAddresses: [`tls:localhost:${port.port}`] });
    fabric = startFabric({
      port,
      controllerId: controller.pki.controllerId,
      trustAnchors: () => controller.pki.trustAnchors,
      model: controller.fabricModel,
      log: console as never,
    });
    [proxyPort = 0] = await freePorts(1);
    await startRouter("p1", `      mode: proxy\n      services:\n        - echo:${proxyPort}`);
    await startRouter("p2", "      mode: host");
    await eventually("a link", () => fabric.links().length > 0);
  });

  afterAll(async () => {
    for (const router of routers) await router.stop();
    await fabric?.close();
    await controller?.close();
    await port?.close();
    await echo?.close();
    if (process.env.SALLYPORT_KEEP !== "1") removeScratch(folder);
  });

  it("hold it as we do", async () => {
    await sameEverywhere();
  });

  it("act on it: one proxies, one hosts, and bytes flow", async () => {
    const address = { protocol: "tcp", address: "127.0.0.1", port: echo.port };
    const types = await admin("GET", '/config-types?filter=name="host.v1"');
    const configTypeId = types.json.data[0].id;
    const config = await make("configs", { name: "echo-host", configTypeId, data: address });
    await make("services", { name: "echo", encryptionRequired: true, configs: [config], roleAttributes: ["s"] });
    await make("service-edge-router-policies", { name: "all", semantic: "AnyOf", serviceRoles: ["#all"], edgeRouterRoles: ["#all"] });
    await make("service-policies", { name: "bind", type: "Bind", semantic: "AnyOf", identityRoles: [`@${ids.get("p2")}`], serviceRoles: ["#s"] });
    await make("service-policies", { name: "dial", type: "Dial", semantic: "AnyOf", identityRoles: [`@${ids.get("p1")}`], serviceRoles: ["#s"] });
    await eventually("an echo", echoes, 60_000);
    await sameEverywhere();
    const socket = await openTcp(proxyPort);
    await exchangeThenEnd(socket, 2, 8 * MIB);
  });
});
