import { once } from "node:events";
import { Context } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ConnectProxy } from "../network/connect-proxy.ts";
import { eventually } from "../network/eventually.ts";
import { declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const folder = makeScratch("proxy");
let proxy: ConnectProxy;
let network: Network;
let host: Context;
let client: Context;

/** Sends some bytes through the overlay and back. */
async function echo(): Promise<string> {
  const connection = await client.dial("echo", { timeoutMs: 20_000 });
  connection.end("there and back");
  let text = "";
  connection.on("data", (chunk) => (text += String(chunk)));
  await once(connection, "end");
  return text;
}

beforeAll(async () => {
  proxy = await ConnectProxy.start();
  const { username, password } = ConnectProxy;
  network = await startNetwork(folder, {
    // Other routers know a router by a name that only the proxy can resolve.
    routerSettings: (name, text) =>
      `${text
        .replace(/^( {6}advertise: )localhost:/m, `$1${name}.invalid:`)
        .replace('dns: ["localhost"]', `dns: ["localhost", "${name}.invalid"]`)}proxy:
  type: http
  address: 127.0.0.1:${proxy.port}
  username: ${username}
  password: ${JSON.stringify(password)}
`,
  });
  const { hostFile, clientFile } = await declareService(network, { name: "echo" });
  host = await Context.load(hostFile, { refreshIntervalMs: 500 });
  client = await Context.load(clientFile, { refreshIntervalMs: 500 });
  const server = await host.listen("echo");
  server.on("connection", (connection) => void connection.on("error", () => {}).pipe(connection));
  await eventually("the service can be dialled", async () => (await echo()) === "there and back", 60_000);
}, 180_000);

afterAll(async () => {
  await client?.close();
  await host?.close();
  await network?.stop();
  await proxy?.close();
  removeScratch(folder);
});

describe("routers behind an HTTP proxy", { timeout: 120_000 }, () => {
  it("reach the controller and each other through it, by the configured names", () => {
    expect(proxy.asked).toContain(`localhost:${network.port}`);
    expect(proxy.asked.some((authority) => /^r[12]\.invalid:\d+$/.test(authority))).toBe(true);
    // Nothing else was asked for: clients and services are not on the other side of the proxy.
    expect(proxy.asked.filter((each) => !/^(localhost:\d+|r[12]\.invalid:\d+)$/.test(each))).toEqual([]);
  });

  it("say why when it refuses them, and are back when it does not", async () => {
    const [r1] = network.routers;
    const refused = r1.nextLine(/407.*proxy\.username/);
    proxy.isClosed = true;
    proxy.cut();
    await refused;
    expect(proxy.tunnels).toBe(0);
    await expect(client.dial("echo", { timeoutMs: 500 })).rejects.toThrow();
    proxy.isClosed = false;
    await eventually("circuits again", () => echo().then((text) => text === "there and back"), 60_000);
  });
});
