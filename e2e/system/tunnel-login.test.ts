import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Context } from "@sallyport/sdk";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { exchange, openTcp, startEcho, type TcpServer } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { credentialsOf } from "../network/login/identity-file.ts";
import { IdentityProvider } from "../network/login/identity-provider.ts";
import { endSessionsOf, sessionsOf } from "../network/login/logins.ts";
import { type Network, startNetwork } from "../network/network.ts";
import type { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { allow, declareConfigured, declareIdentity, startTunneler } from "../network/tunneler.ts";

const LOGGED_IN = /"logged in"/;
const RESUMED = /the session of an earlier run goes on/;

describe("tunnelers without an identity of their own", { timeout: 90_000 }, () => {
  const folder = makeScratch("tunnel-login");
  const caFile = join(folder, "ca.pem");
  let network: Network;
  let provider: IdentityProvider;
  let echo: TcpServer;
  let hosting: Program;
  let userId: string;
  let count = 0;
  const started: Program[] = [];

  beforeAll(async () => {
    provider = await IdentityProvider.start();
    network = await startNetwork(join(folder, "network"), { login: "oidc" });
    echo = await startEcho();
    const { management } = network;
    const { data: signer } = await management.createExternalJwtSigner({
      body: {
        ...{ name: "company", enabled: true, issuer: provider.issuer, audience: provider.clientId },
        ...{ certPem: provider.certPem, kid: provider.keyId, useExternalId: true, claimsProperty: "sub" },
        ...{
          externalAuthUrl: provider.issuer,
          clientId: provider.clientId,
          scopes: ["profile"],
          targetToken: "ACCESS",
        },
        enrollToCertEnabled: true,
      },
    });
    expect(signer.id).not.toBe("");
    const { data: user } = await management.createIdentity({
      body: { name: "user", type: "Default", isAdmin: false, roleAttributes: ["user"], externalId: "user" },
    });
    userId = user.id;
    await management.createEdgeRouterPolicy({
      body: { name: "user", semantic: "AnyOf", identityRoles: ["#user"], edgeRouterRoles: ["#r1"] },
    });
    const host = await declareIdentity(network, "host", "r2");
    await allow(network, "Bind", "host", "tunnel");
    await allow(network, "Dial", "user", "tunnel");
    await management.createServiceEdgeRouterPolicy({
      body: { name: "all", semantic: "AnyOf", serviceRoles: ["#all"], edgeRouterRoles: ["#all"] },
    });
    const target = { protocol: "tcp", address: "127.0.0.1", port: echo.port };
    await declareConfigured(network, { name: "echo", roles: ["tunnel"], configs: { "host.v1": target } });
    hosting = startTunneler(folder, "host", "host", "-i", host.file);
    await hosting.line(LOGGED_IN);
    writeFileSync(caFile, credentialsOf(host.file).ca);
  }, 180_000);

  afterEach(async () => {
    for (const program of started.splice(0)) await program.stop();
  });

  afterAll(async () => {
    await hosting?.stop();
    await network?.stop();
    await echo?.close();
    await provider?.close();
    removeScratch(folder);
  }, 180_000);

  /** Writes an identity file, and resolves with its name. */
  async function joinNetwork(...args: string[]): Promise<string> {
    const file = join(folder, `me-${++count}.json`);
    const common = ["--controller", `https://localhost:${network.port}`, "--ca", caFile, "-o", file];
    const program = startTunneler(folder, `join-${count}`, "join", ...common, ...args);
    expect(await program.exited).toBe(0);
    return file;
  }

  /** Starts the tunneler with a port that leads to the echo. */
  async function start(file: string): Promise<{ program: Program; port: number }> {
    const port = await freePort();
    const program = startTunneler(folder, `proxy-${started.length}-${count}`, "proxy", "-i", file, `echo:${port}`);
    started.push(program);
    return { program, port };
  }

  async function expectEcho(port: number): Promise<void> {
    await eventually("the service answers", async () => {
      const socket = await openTcp(port);
      try {
        await exchange(socket, 1, 10_000);
        return true;
      } finally {
        socket.destroy();
      }
    });
  }

  /** Ids of the API sessions of the user. */
  const sessions = async () => (await sessionsOf(network.management, userId)).map(({ id }) => id);

  it("log in with what their token file holds now", async () => {
    const tokenFile = join(folder, "token");
    writeFileSync(tokenFile, `${provider.token("user")}\n`);
    const file = await joinNetwork("--token-file", tokenFile);
    const { program, port } = await start(file);
    await program.line(LOGGED_IN);
    await expectEcho(port);
    expect(() => statSync(`${file}.session`)).toThrow("ENOENT");
    // The former token would not be taken any more; whoever owns the file has put another one there.
    writeFileSync(tokenFile, provider.token("user"));
    const [former] = await sessions();
    await endSessionsOf(network.management, userId);
    await eventually("there is another session", async () => {
      const [now] = await sessions();
      return now !== undefined && now !== former;
    });
    await expectEcho(port);
    await program.stop();
    // A machine finds a token at its next start.
    await eventually("the session has ended", async () => (await sessions()).length === 0);
  });

  it("are refused with a token that the network does not take", async () => {
    const tokenFile = join(folder, "strange");
    writeFileSync(tokenFile, provider.token("stranger"));
    const { program } = await start(await joinNetwork("--token-file", tokenFile));
    expect(await program.exited).toBe(1);
    const said = program.tail.join("\n");
    expect(said).toMatch(/does not accept this token.*\[CREDENTIALS_REFUSED\]/);
    expect(said).not.toContain(readFileSync(tokenFile, "utf8"));
  });

  it("show a code for another device, and need nobody after a restart", async () => {
    const file = await joinNetwork("--signer", "company", "--device");
    const first = await start(file);
    const [, code = ""] = /enter the code (\S+)/.exec(await first.program.line(/^To log in for .* the code/)) ?? [];
    const before = provider.logins;
    provider.approve(code);
    await first.program.line(LOGGED_IN);
    await expectEcho(first.port);
    expect(provider.logins).toBe(before + 1);
    const own = await sessions();
    expect(own).toHaveLength(1);
    await first.program.stop();
    expect(statSync(`${file}.session`).mode & 0o777).toBe(0o600);

    const second = await start(file);
    await second.program.line(RESUMED);
    await expectEcho(second.port);
    expect([await sessions(), provider.logins]).toEqual([own, before + 1]);
    await second.program.stop();

    // What was ended is not gone on with.
    await endSessionsOf(network.management, userId);
    const third = await start(file);
    await third.program.line(/^To log in for .* the code/);
  });

  it("show an address for a browser, which comes back to them", async () => {
    const file = await joinNetwork();
    const { program, port } = await start(file);
    const line = await program.line(/^To log in for .* in a browser on this machine/);
    const address = line.slice(line.indexOf("http"));
    // A page that guesses the port does not end the login.
    const guessed = await fetch("http://127.0.0.1:20314/auth/callback?code=x&state=guessed");
    expect(guessed.status).toBe(404);
    const redirect = await fetch(address, { redirect: "manual" });
    const back = new URL(redirect.headers.get("location") ?? "");
    back.hostname = "127.0.0.1";
    const page = await fetch(back);
    expect([page.status, await page.text()]).toEqual([
      200,
      "You are logged in. You can close this page, and go back to the tunneler.\n",
    ]);
    await program.line(LOGGED_IN);
    await expectEcho(port);
    await program.stop();
    await endSessionsOf(network.management, userId);
  });

  it("become identities with a certificate", async () => {
    const tokenFile = join(folder, "newcomer");
    writeFileSync(tokenFile, provider.token("newcomer"));
    const file = await joinNetwork("--signer", "company", "--token-file", tokenFile, "--enroll-to-cert");
    const client = await Context.load(file);
    expect((await client.identity()).name).toBe("newcomer");
    await client.close();
    const again = [
      "--controller",
      `https://localhost:${network.port}`,
      "--ca",
      caFile,
      "-o",
      join(folder, "again.json"),
    ];
    const program = startTunneler(
      folder,
      "join-again",
      ...["join", ...again, "--token-file", tokenFile, "--enroll-to-cert"],
    );
    expect(await program.exited).toBe(1);
    expect(program.tail.join("\n")).toContain("The identity exists: use its identity file");
    expect(() => statSync(join(folder, "again.json"))).toThrow("ENOENT");
  });

  it("are told which signers there are when they name another one", async () => {
    const { program } = await start(await joinNetwork("--signer", "other"));
    expect(await program.exited).toBe(1);
    expect(program.tail.join("\n")).toContain("the network has no signer other; it has company");
  });
});
