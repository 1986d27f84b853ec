import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { endpointsFileOf } from "../assembly/membership.ts";
import { type ConfigFindings, checkRouter } from "./check.ts";

let dir: string;
let authority: TestAuthority;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-check-"));
  authority = await TestAuthority.create();
});

afterEach(() => rm(dir, { recursive: true }));

async function certify(name: string, what: Parameters<TestAuthority["issue"]>[0]): Promise<void> {
  const { certPem, keyPem } = await authority.issue(what);
  await writeFile(join(dir, `${name}.cert`), certPem);
  await writeFile(join(dir, `${name}.key`), keyPem);
  await writeFile(join(dir, "ca.pem"), authority.certPem);
}

async function check(text: string): Promise<ConfigFindings> {
  const file = join(dir, "router.yml");
  await writeFile(file, `v: 3\nctrl: { endpoint: "tls:localhost:1" }\n${text}`);
  return await checkRouter(file, dir, (config) => endpointsFileOf(config, file, dir));
}

const identity = "identity: { cert: r1.cert, server_cert: r1.cert, key: r1.key, ca: ca.pem }\n";

describe("checking a router's file and what it names", () => {
  it("tells every obstacle at once, and what is odd besides", async () => {
    await certify("r1", { commonName: "r1", dns: ["r1.example"], notAfter: new Date(Date.now() - 1_000) });
    const { notes, problems } = await check(`identity: { cert: r1.cert, key: r1.key, ca: ca.pem }
link:
  dialers: [{ binding: transport, bind: eth77 }]
  listeners: [{ binding: transport, bind: "tls:0.0.0.0:1", advertise: "r1.example:1" }]
listeners:
  - { binding: edge, address: "tls:0.0.0.0:2", options: { advertise: "other.example:2" } }
  - { binding: edge, address: "tls:[::]:3", options: { advertise: "[2001:db8::1]:3" } }
plugins: [x.so]
linc: {}
`);
    expect(problems).toEqual([
      expect.stringMatching(/router\.yml:8:5: listeners\[0\]: there is an edge listener, but no edge section/),
      expect.stringMatching(/router\.yml:9:5: listeners\[1\]: there is an edge listener, but no edge section/),
      expect.stringMatching(/router\.yml:3:1: identity\.server_cert: it is missing/),
      expect.stringMatching(/router\.yml:5:35: link\.dialers\[0\]\.bind: .*"eth77"/),
      expect.stringMatching(/router\.yml:8:59: listeners\[0\]\.options\.advertise: .*other\.example/),
      expect.stringMatching(/router\.yml:9:56: listeners\[1\]\.options\.advertise: .*2001:db8::1/),
      expect.stringMatching(/router\.yml:3:13: identity\.cert: the certificate ended on .*; enroll the router again/),
    ]);
    expect(notes).toEqual([
      expect.stringMatching(/linc: expected a known key, perhaps link/),
      expect.stringMatching(/router\.yml:10:1: plugins: without effect: plug-ins of Go/),
      expect.stringMatching(/^without a csr section/),
      expect.stringMatching(/^router r1, certificate valid until/),
    ]);
  });

  it("wants an address for itself where a listener has threads", async () => {
    await certify("r1", { commonName: "r1", dns: ["r1.example"] });
    const { problems } = await check(`${identity}csr: {}
edge: {}
link:
  listeners: [{ binding: transport, bind: "tls:0.0.0.0:1", advertise: "r1.example:1" }]
listeners:
  - { binding: edge, address: "tls:0.0.0.0:1", options: { advertise: "r1.example:1", workers: 2 } }
  - { binding: edge, address: "tls:0.0.0.0:2", options: { advertise: "r1.example:2", workers: 2 } }
  - { binding: edge, address: "tls:0.0.0.0:3", options: { advertise: "r1.example:3" } }
web:
  - name: health
    bindPoints: [{ interface: "0.0.0.0:2", address: "r1.example:2" }, { interface: "0.0.0.0:3", address: "r1.example:3" }]
    apis: [{ binding: health-checks }]
`);
    expect(problems.map((problem) => problem.replace(/^.*?:\d+:\d+: /, ""))).toEqual([
      "listeners[0].address: 0.0.0.0:1 is taken by link.listeners[0].bind; a listener with workers needs a port of its own",
      "web[0].bindPoints[0].interface: 0.0.0.0:2 is taken by listeners[1].address; a listener with workers needs a port of its own",
    ]);
  });

  it.each([
    ["[2001:db8::1]", true],
    ["[2001:DB8:0:0:0::1]", true],
    ["[2001:db8::2]", false],
    ["192.0.2.1", true],
    ["alt.example", true],
    ["sub.alt.example", false],
  ])("compares what is advertised with the names of all certificates: %s", async (host, isCovered) => {
    await certify("r1", { commonName: "r1", ip: ["2001:db8::1", "192.0.2.1"] });
    await certify("alt", { commonName: "alt", dns: ["alt.example"] });
    const alternative = "alt_server_certs: [{ server_cert: alt.cert, server_key: alt.key }] }\n";
    const { problems } = await check(`${identity.replace(" }\n", `, ${alternative}`)}csr: {}
link: { listeners: [{ binding: transport, bind: "tls:[::]:1", advertise: "${host}:1" }] }
`);
    expect(problems.length === 0, problems.join()).toBe(isCovered);
  });

  it("of a router that is not enrolled is possible, and says how to go on", async () => {
    const { notes, problems } = await check(
      `${identity}csr: {}\nlink: { dialers: [{ binding: transport, bind: eth77 }] }\n`,
    );
    expect(notes).toEqual([expect.stringMatching(/^not enrolled yet: .*r1\.cert.*enroll .*--jwt/)]);
    expect(problems).toEqual([expect.stringMatching(/eth77/)]);
  });

  it("names the part of the identity that cannot be used", async () => {
    await certify("r1", { commonName: "r1" });
    await certify("r2", { commonName: "r2" });
    const { problems } = await check(identity.replace("r1.key", "r2.key"));
    expect(problems).toEqual([expect.stringMatching(/router\.yml:3:1: identity: .*key/)]);
  });
});
