import { readFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { Contexts } from "../network/contexts.ts";
import { eventually } from "../network/eventually.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import { type DeclaredService, declareService, type Network, startNetwork } from "../network/network.ts";
import { shownBy } from "../network/public-certificate.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const folder = makeScratch("replica");
let network: Network;
let ctrlPort: number;
let echo: DeclaredService;
const contexts = new Contexts();

beforeAll(async () => {
  ctrlPort = await freePort();
  network = await startNetwork(join(folder, "network"), {
    controllerSettings: (text) => `${text}
replica:
  id: c1
  api:
    advertise: c1.localhost:1280
  ctrl:
    bind: 127.0.0.1:${ctrlPort}
    advertise: localhost:${ctrlPort}
`,
  });
  echo = await declareService(network, { name: "echo" });
  await hostEcho(await contexts.load(echo.hostFile), "echo");
}, 180_000);

afterAll(async () => {
  await contexts.close();
  await network?.stop();
  removeScratch(folder);
}, 180_000);

describe("a controller with an id and addresses of its own", { timeout: 120_000 }, () => {
  it("shows its own certificate to routers and under its own name, and the network's at the shared address", async () => {
    expect(await shownBy(ctrlPort, "localhost", "ziti-ctrl")).toBe("c1");
    expect(await shownBy(network.port, "localhost", "http/1.1")).toBe("controller");
    expect(await shownBy(network.port, undefined, "http/1.1")).toBe("controller");
    expect(await shownBy(network.port, "c1.localhost", "http/1.1")).toBe("c1");
  });

  it("has routers enrolled with its own control address", () => {
    const endpoints = readFileSync(join(network.folder, "endpoints.yml"), "utf8");
    expect(endpoints).toContain(`tls:localhost:${ctrlPort}`);
    expect(endpoints).not.toContain(String(network.port));
  });

  it("carries connections, which survive its restart under the same id", async () => {
    const client = await contexts.load(echo.clientFile);
    const connection = await eventually(
      "echo can be dialled",
      () => client.dial("echo", { allowHalfOpen: true, timeoutMs: 10_000 }),
      60_000,
    );
    await network.restartController("SIGKILL");
    await exchange(connection, 1, 100_000);
    await eventually("a dial of the restarted controller", async () => {
      await exchange(await client.dial("echo", { allowHalfOpen: true, timeoutMs: 10_000 }), 2, 10_000);
      return true;
    });
    expect(await shownBy(ctrlPort, "localhost", "ziti-ctrl")).toBe("c1");
  });
});
