import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createClient } from "@sallyport/api/client";
import { Context, type EdgeConnection, type IdentityFile } from "@sallyport/sdk";
import { createCsr, createKeyPair } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange, exchangeThenEnd } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import { credentialsOf } from "../network/login/identity-file.ts";
import { type DeclaredService, declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const MIB = 1024 * 1024;

/** What renews the file: the program that keeps the identity, such as the operator in a Secret. The SDK only reads it. */
describe("identity files that are renewed while a context uses them", { timeout: 120_000 }, () => {
  const folder = makeScratch("sdk-renewal");
  const logged: string[] = [];
  const note = (_fields: object, message: string) => void logged.push(message);
  const log = { debug() {}, info: note, warn: note, error: note };
  let network: Network;
  let declared: DeclaredService;
  let host: Context;
  let client: Context;
  let open: EdgeConnection;

  beforeAll(async () => {
    network = await startNetwork(join(folder, "network"));
    declared = await declareService(network, { name: "echo" });
    host = await Context.load(declared.hostFile, { refreshIntervalMs: 500 });
    client = await Context.load(declared.clientFile, { refreshIntervalMs: 500, log });
    await hostEcho(host, "echo");
    open = await client.dial("echo", { allowHalfOpen: true });
    await write(open, "before");
  }, 180_000);

  afterAll(async () => {
    await client?.close();
    await host?.close();
    await network?.stop();
    removeScratch(folder);
  }, 180_000);

  it("are taken without an interruption, and let in when the former certificate no longer does", async () => {
    const before = readFileSync(declared.clientFile, "utf8");
    const hostRenewal = await renewal(declared.hostFile);
    await replaced(declared.hostFile, hostRenewal.file);
    const { file, confirm } = await renewal(declared.clientFile);
    await replaced(declared.clientFile, file);
    await eventually("the renewed identity was read", () => logged.some((line) => line.includes("it was renewed")));
    // Both count as long as the new one is not confirmed.
    await write(open, "between");
    await exchange(await client.dial("echo", { allowHalfOpen: true }), 1, MIB);
    await confirm();
    await hostRenewal.confirm();
    await expect(Context.load(JSON.parse(before) as IdentityFile)).rejects.toMatchObject({
      code: "CREDENTIALS_REFUSED",
    });
    await exchange(await client.dial("echo", { allowHalfOpen: true }), 2, MIB);
    await exchangeThenEnd(open, 3, MIB);

    // The sessions of the former certificates end: only the new ones let in again.
    await endSessions();
    await eventually("both ends are back", async () => {
      await exchange(await client.dial("echo", { allowHalfOpen: true, timeoutMs: 2_000 }), 4, MIB);
      return true;
    });
  });

  it("that cannot be read leave the former identity in use, and are reported once", async () => {
    const good = readFileSync(declared.clientFile, "utf8");
    logged.length = 0;
    await replaced(declared.clientFile, good.slice(0, 100));
    const told = () => logged.filter((line) => line.includes("cannot be read again"));
    await eventually("it is told", () => told().length > 0);
    await endSessions();
    await eventually("the former identity still lets in", async () => {
      await exchange(await client.dial("echo", { allowHalfOpen: true, timeoutMs: 2_000 }), 5, MIB);
      return true;
    });
    expect(told()).toHaveLength(1);
    await replaced(declared.clientFile, good);
  });

  async function endSessions(): Promise<void> {
    const { data: sessions } = await network.management.listAPISessions({ query: { limit: 500 } });
    const { data: own } = await network.management.getCurrentAPISession();
    for (const { id } of sessions.filter((session) => session.id !== own.id))
      await network.management.deleteAPISessions({ params: { id } });
  }

  /** A certificate for a new key that counts beside the one of a file, and the file with it. */
  async function renewal(path: string): Promise<{ file: string; confirm: () => Promise<void> }> {
    const identity = JSON.parse(readFileSync(path, "utf8")) as IdentityFile;
    const caller = createClient("client", {
      baseUrl: `https://localhost:${network.port}`,
      ...credentialsOf(path),
      tls: { allowPartialTrustChain: true },
    });
    const { data: session } = await caller.authenticate({ query: { method: "cert" }, body: {} });
    caller.setToken(session.token);
    const { data } = await caller.listCurrentIdentityAuthenticators();
    const params = { id: data[0]?.id ?? "" };
    const { keyPem } = await createKeyPair();
    const clientCertCsr = await createCsr({ commonName: "renewed", keyPem });
    const extended = await caller.extendCurrentIdentityAuthenticator({
      params,
      body: { clientCertCsr, overlap: true },
    });
    const clientCert = extended.data.clientCert ?? "";
    const id = { ...identity.id, cert: `pem:${clientCert}`, key: `pem:${keyPem}` };
    return {
      file: JSON.stringify({ ...identity, id }),
      confirm: async () => {
        await caller.extendVerifyCurrentIdentityAuthenticator({ params, body: { clientCert } });
        caller.close();
      },
    };
  }
});

/** At once, as the kubelet does it. */
async function replaced(path: string, text: string): Promise<void> {
  writeFileSync(`${path}.new`, text, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

async function write(connection: EdgeConnection, text: string): Promise<void> {
  const answer = new Promise<string>((resolve, reject) => {
    connection.once("data", (chunk: Buffer) => resolve(chunk.toString()));
    connection.once("error", reject);
  });
  connection.write(text);
  expect(await answer).toBe(text);
}
