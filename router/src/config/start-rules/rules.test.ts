import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseRouterConfig } from "@sallyport/router-config";
import { silentLogger } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { endpointsFileOf } from "../../assembly/membership.ts";
import { startRouter } from "../../router.ts";
import { checkRouter } from "../check.ts";

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-rules-"));
  const authority = await TestAuthority.create();
  const { certPem, keyPem } = await authority.issue({ commonName: "r1", dns: ["localhost"] });
  await writeFile(join(dir, "r1.cert"), certPem);
  await writeFile(join(dir, "r1.key"), keyPem, { mode: 0o600 });
  await writeFile(join(dir, "ca.pem"), authority.certPem);
});

afterEach(() => rm(dir, { recursive: true }));

const identity = "identity: { cert: r1.cert, server_cert: r1.cert, key: r1.key, ca: ca.pem }";
const ctrl = 'ctrl: { endpoint: "tls:localhost:1" }';

/** What `check` and `run` say of a file: undefined for what they take. */
async function both(text: string): Promise<[checked: string | undefined, started: string | undefined]> {
  const file = join(dir, "router.yml");
  const refusal = (error: unknown): string => (error instanceof Error ? error.message : String(error));
  await writeFile(file, `v: 3\n${text}`);
  const checked = await checkRouter(file, dir, (config) => endpointsFileOf(config, file, dir)).then(
    ({ problems }) => (problems.length === 0 ? undefined : problems.join("\n")),
    refusal,
  );
  try {
    const { config, placeOf } = parseRouterConfig(`v: 3\n${text}`, { file });
    const router = await startRouter({
      config,
      placeOf,
      configFile: file,
      baseDir: dir,
      log: silentLogger,
      version: "0.0.0",
    });
    router.online.catch(() => {});
    await router.close();
    return [checked, undefined];
  } catch (error) {
    return [checked, refusal(error)];
  }
}

const web = (port: number, more = "", host = "127.0.0.1") =>
  `{ name: h, apis: [{ binding: health-checks }], bindPoints: [{ interface: "${host}:${port}", address: "localhost:${port}" }]${more} }`;

describe("what check finds wrong is what the router does not start with", () => {
  it.each<[string, () => Promise<string> | string, RegExp]>([
    [
      "no controller",
      () => `${identity}\nctrl: {}\n`,
      /router\.yml:3:1: ctrl: no controller is known: set ctrl\.endpoint/,
    ],
    [
      "a controller without a host",
      () => `${identity}\nctrl: { endpoint: "tls::1280" }\n`,
      /:3:9: ctrl\.endpoint: .*host and a port/,
    ],
    [
      "a controller without a port",
      () => `${identity}\nctrl: { endpoints: ["tls:c:0"] }\n`,
      /:3:21: ctrl\.endpoints\[0\]: .*host and a port/,
    ],
    [
      "two web servers at one port",
      async () => {
        const port = await freePort();
        return `${identity}\n${ctrl}\nweb:\n  - ${web(port)}\n  - ${web(port)}\n`;
      },
      /:6:\d+: web\[1\]\.bindPoints\[0\]\.interface: .*web\[0\]\.bindPoints\[0\]/,
    ],
    [
      "a web server at the port of a listener",
      async () => {
        const port = await freePort();
        return `${identity}\n${ctrl}\nlisteners: [{ binding: transport, address: "tcp:127.0.0.1:${port}" }]\nweb: [${web(port, "", "0.0.0.0")}]\n`;
      },
      /:5:\d+: web\[0\]\.bindPoints\[0\]\.interface: .*listeners\[0\]\.address/,
    ],
    [
      "TLS too old to be spoken",
      () => `${identity}\n${ctrl}\nweb: [${web(1, ", options: { minTLSVersion: TLS1.0, maxTLSVersion: TLS1.1 }")}]\n`,
      /web\[0\]\.options\.maxTLSVersion: expected one of TLS1\.2, TLS1\.3/,
    ],
    [
      "an identity of a web server that is not there",
      () => `${identity}\n${ctrl}\nweb: [${web(1, ", identity: { cert: no.cert, key: no.key, ca: ca.pem }")}]\n`,
      /:4:\d+: web\[0\]\.identity: .*no\.cert/,
    ],
    [
      "an identity of web sockets that is not there",
      () =>
        `${identity}\n${ctrl}\nedge: {}\nlisteners: [{ binding: edge, address: "wss:127.0.0.1:1", options: { advertise: "localhost:1" } }]\ntransport: { wss: { identity: { cert: no.cert, key: no.key, ca: ca.pem } } }\n`,
      /:6:\d+: transport\.wss\.identity: .*no\.cert/,
    ],
    [
      "a listener of DTLS",
      () => `${identity}\n${ctrl}\nlisteners: [{ binding: transport, address: "dtls:127.0.0.1:1" }]\n`,
      /listeners\[0\]\.address: expected an address .*tls or tcp or udp/,
    ],
    [
      "an address of the other family",
      () => `${identity}\n${ctrl}\nlisteners: [{ binding: transport_udp, address: "udp4:[::1]:1" }]\n`,
      /listeners\[0\]\.address: expected an address/,
    ],
    [
      "a trace that cannot be written",
      () => `${identity}\n${ctrl}\ntrace: { path: no/trace }\n`,
      /:4:10: trace\.path: .*ENOENT/,
    ],
    [
      "an interface to reach targets from that is not there",
      () => `${identity}\n${ctrl}\ndialers: [{ binding: transport, bind: eth77 }]\n`,
      /:4:\d+: dialers\[0\]\.bind: .*"eth77"/,
    ],
    [
      "an interface to intercept at that is not there",
      () => `${identity}\n${ctrl}\nlisteners: [{ binding: tunnel, options: { mode: tproxy, lanIf: eth77 } }]\n`,
      /:4:\d+: listeners\[0\]\.options\.lanIf: .*"eth77"/,
    ],
    [
      "a diverter that is not there",
      () => `${identity}\n${ctrl}\nlisteners: [{ binding: tunnel, options: { mode: "tproxy:/no/diverter" } }]\n`,
      /:4:\d+: listeners\[0\]\.options\.mode: .*\/no\/diverter/,
    ],
    [
      "no server certificate",
      () =>
        `identity: { cert: r1.cert, key: r1.key, ca: ca.pem }\n${ctrl}\nlink: { listeners: [{ binding: transport, bind: "tls:127.0.0.1:1", advertise: "localhost:1" }] }\n`,
      /:2:1: identity\.server_cert: it is missing/,
    ],
  ])("%s", async (_what, text, message) => {
    const [checked, started] = await both(await text());
    expect(checked).toMatch(message);
    expect(started).toMatch(message);
  });

  it("what check takes starts: controllers of the endpoints file, a trace, servers that share a port", async () => {
    const port = await freePort();
    await writeFile(join(dir, "endpoints.yml"), "endpoints: [tls:localhost:1]\n");
    const text = `${identity}\nctrl: {}\nedge: {}\ntrace: { path: trace }
listeners: [{ binding: edge, address: "tls:127.0.0.1:${port}", options: { advertise: "localhost:${port}" } }]
web: [${web(port, "", "127.0.0.1")}]\n`;
    expect(await both(text)).toEqual([undefined, undefined]);
  });
});

describe("an address that another program has", () => {
  it.each<[string, RegExp, (port: number) => string]>([
    ["link listener", /:4:43: link\.listeners\[0\]\.bind: /, (port) => linkListener(`127.0.0.1:${port}`)],
    [
      "edge listener",
      /listeners\[0\]\.address: /,
      (port) =>
        `edge: {}\nlisteners: [{ binding: edge, address: "tls:127.0.0.1:${port}", options: { advertise: "localhost:${port}" } }]`,
    ],
    [
      "edge listener with workers",
      /listeners\[0\]\.address: /,
      (port) =>
        `edge: {}\nlisteners: [{ binding: edge, address: "tls:127.0.0.1:${port}", options: { advertise: "localhost:${port}", workers: 1 } }]`,
    ],
    [
      "edge listener for web sockets",
      /listeners\[0\]\.address: /,
      (port) =>
        `edge: {}\nlisteners: [{ binding: edge, address: "wss:127.0.0.1:${port}", options: { advertise: "localhost:${port}" } }]`,
    ],
    [
      "plain TCP listener",
      /listeners\[0\]\.address: /,
      (port) => `listeners: [{ binding: proxy, address: "tcp:127.0.0.1:${port}", service: s }]`,
    ],
    [
      "plain UDP listener",
      /listeners\[0\]\.address: /,
      (port) => `listeners: [{ binding: transport, address: "udp:127.0.0.1:${port}" }]`,
    ],
    [
      "API proxy",
      /edge\.apiProxy\.listener: /,
      (port) => `edge: { apiProxy: { listener: "127.0.0.1:${port}", upstream: "localhost:1" } }`,
    ],
    ["web server", /web\[0\]\.bindPoints\[0\]\.interface: /, (port) => `web: [${web(port)}]`],
  ])("is named with the key of the %s", async (_what, key, text) => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const datagrams = createSocket("udp4").bind(port, "127.0.0.1");
    await once(datagrams, "listening");
    try {
      const [, started] = await both(`${identity}\n${ctrl}\n${text(port)}\n`);
      expect(started).toMatch(/router\.yml:\d+:\d+: /);
      expect(started).toMatch(key);
      expect(started).toContain(`cannot listen on 127.0.0.1:${port}: another program listens there`);
    } finally {
      datagrams.close();
      server.close();
    }
  });

  it("is not of this machine, or needs a right", async () => {
    const [, elsewhere] = await both(`${identity}\n${ctrl}\n${linkListener("192.0.2.77:3022")}\n`);
    expect(elsewhere).toContain("cannot listen on 192.0.2.77:3022: this machine has no such address");
  });
});

function linkListener(at: string): string {
  return `link: { listeners: [{ binding: transport, bind: "tls:${at}", advertise: "tls:localhost:3022" }] }`;
}
