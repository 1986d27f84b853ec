import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createClient } from "@sallyport/api";
import { Context, enroll } from "@sallyport/sdk";
import { createCsr, createKeyPair, splitPem, x509 } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import { credentialsOf } from "../network/login/identity-file.ts";
import { type DeclaredService, declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const folder = makeScratch("pki");
let network: Network;
let echo: DeclaredService;
let host: Context;
const contexts: Context[] = [];

const load = async (file: string): Promise<Context> => {
  const context = await Context.load(file, { refreshIntervalMs: 500 });
  contexts.push(context);
  return context;
};
const pki = (...args: string[]) => network.runToEnd("controller", "pki", ...args);
const dials = (context: Context) =>
  eventually(
    "echo can be dialled",
    async () => {
      await exchange(await context.dial("echo", { allowHalfOpen: true, timeoutMs: 10_000 }), 1, 100_000);
      return true;
    },
    60_000,
  );
const clientOf = (parts: { cert: string; key: string; ca: string }) =>
  createClient("client", { baseUrl: `https://localhost:${network.port}`, ...parts });
const login = async (parts: { cert: string; key: string; ca: string }) => {
  const client = clientOf(parts);
  const session = await client.authenticate({ query: { method: "cert" }, body: {} });
  client.setToken(session.data.token);
  return { client, isExtendRequested: session.headers["ziti-authenticator-extend-requested"] === "true" };
};
const anchorsServed = async (): Promise<number> => {
  const anonymous = createClient("client", {
    baseUrl: `https://localhost:${network.port}`,
    tls: { rejectUnauthorized: false },
  });
  const { data } = await anonymous.listWellKnownCas();
  anonymous.close();
  return new x509.X509Certificates(Buffer.from(data.toString("latin1"), "base64")).length;
};

beforeAll(async () => {
  network = await startNetwork(join(folder, "network"));
  echo = await declareService(network, { name: "echo" });
  host = await load(echo.hostFile);
  await hostEcho(host, "echo");
  await dials(await load(echo.clientFile));
}, 120_000);

afterAll(async () => {
  for (const context of contexts) await context.close();
  await network?.stop();
  removeScratch(folder);
});

describe("pki rotate on a controller that runs", () => {
  let before: Awaited<ReturnType<typeof login>>;
  let renewed: { cert: string; key: string; ca: string };

  it("cuts no client off: identities, routers and handed-out tokens of before go on", async () => {
    before = await login(credentialsOf(echo.clientFile));
    expect(before.isExtendRequested).toBe(false);
    const { data } = await network.management.createIdentity({
      body: { name: "between", type: "Device", isAdmin: false, enrollment: { ott: true } },
    });
    const detail = await network.management.detailIdentity({ params: { id: data.id } });
    const handedOut = detail.data.enrollment.ott?.jwt ?? "";
    const rotated = await pki("rotate", network.controllerFile);
    expect([rotated.code, rotated.output]).toEqual([0, expect.stringContaining("2 identities, 2 routers")]);
    await eventually("both authorities are in the bundle", async () => (await anchorsServed()) === 4);

    // The server's key is the same, so the token still proves the server.
    const enrolled = await enroll(handedOut);
    writeFileSync(join(folder, "between.json"), JSON.stringify(enrolled), { mode: 0o600 });
    expect(splitPem(credentialsOf(join(folder, "between.json")).ca)).toHaveLength(4);
    await login(credentialsOf(join(folder, "between.json")));

    expect((await login(credentialsOf(echo.clientFile))).isExtendRequested).toBe(true);
    await dials(await load(echo.clientFile));
    for (const name of ["r1", "r2"] as const) await network.restartRouter(name);
    await dials(await load(echo.clientFile));
    await network.restartController();
    await dials(await load(echo.clientFile));
  }, 180_000);

  it("lets an identity have a certificate of the new authority", async () => {
    const parts = credentialsOf(echo.clientFile);
    const { client } = await login(parts);
    const { data } = await client.listCurrentIdentityAuthenticators();
    const params = { id: data[0]?.id ?? "" };
    const { keyPem: key } = await createKeyPair();
    const clientCertCsr = await createCsr({ commonName: "renewed", keyPem: key });
    const extended = await client.extendCurrentIdentityAuthenticator({ params, body: { clientCertCsr } });
    renewed = { cert: extended.data.clientCert ?? "", key, ca: extended.data.ca ?? "" };
    // Until it is confirmed the old one counts.
    await expect(login(renewed)).rejects.toThrow(/authentication/);
    await client.extendVerifyCurrentIdentityAuthenticator({ params, body: { clientCert: renewed.cert } });
    expect((await login(renewed)).isExtendRequested).toBe(false);
    await expect(login(parts)).rejects.toThrow(/authentication/);
    client.close();
  });

  it("keeps the former authority until its certificates are renewed, or until an administrator forces its end", async () => {
    const refused = await pki("rotate", network.controllerFile, "--retire");
    expect([refused.code, refused.output]).toEqual([1, expect.stringMatching(/would be locked out/)]);
    expect((await pki("rotate", network.controllerFile)).output).toMatch(/finish that rotation first/);
    expect(await anchorsServed()).toBe(4);
    const retired = await pki("rotate", network.controllerFile, "--retire", "--force");
    expect([retired.code, retired.output]).toEqual([0, expect.stringMatching(/trusted no more/)]);
    await eventually("the former one is gone", async () => (await anchorsServed()) === 2);
    await login(renewed);
    await login(credentialsOf(join(folder, "between.json")));
    await expect(login(credentialsOf(echo.hostFile))).rejects.toThrow();
    expect((await pki("status", network.controllerFile)).output.match(/signing CA/g)).toHaveLength(1);
  });
});
