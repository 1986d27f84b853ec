import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Context, type ServiceListener } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Cli } from "../../network/cli.ts";
import { hostEcho } from "../../network/hosted-echo.ts";
import { credentialsOf } from "../../network/login/identity-file.ts";
import { declareService, type Network, startNetwork } from "../../network/network.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";

const folder = makeScratch("cli-state");
let cli: Cli;
let network: Network;
let clientFile: string;
let host: Context;
let hosted: ServiceListener;

beforeAll(async () => {
  cli = await Cli.packed(folder);
  network = await startNetwork(join(folder, "network"));
  const declared = await declareService(network, { name: "web" });
  clientFile = declared.clientFile;
  host = await Context.load(declared.hostFile);
  hosted = await hostEcho(host, "web");
  await cli.login(network, "one");
}, 120_000);

afterAll(async () => {
  await hosted?.close();
  await host?.close();
  await network?.stop();
  removeScratch(folder);
});

describe("sallyport status", () => {
  it("shows a network that works, and everything of it as a document", async () => {
    // Links measure themselves after a while.
    const links = async () => JSON.parse(await cli.done("status", "-o", "json")).links;
    await expect.poll(links).toEqual([expect.objectContaining({ latencyMs: expect.toSatisfy((ms) => ms > 0) })]);
    const text = await cli.done("status");
    expect(text).toMatch(/^one: nothing fails\n\d+ identities, 1 service, 0 circuits/);
    expect(text).toMatch(/^\S+ +online +ok +\S+ +Sallyport \S+ +https:\/\/localhost/m);
    expect(text).toMatch(/^r1 +online +\S+ +1 /m);
    const status = JSON.parse(await cli.done("status", "-o", "json"));
    expect(status).toMatchObject({ network: "one", problems: [], unread: [] });
    const kinds = status.certificates.map((each: { kind: string; state: string }) => `${each.kind} ${each.state}`);
    expect(new Set(kinds)).toEqual(new Set(["controller ok", "authority ok", "router ok"]));
  });

  it("goes on until it is interrupted, and prints what changes", async () => {
    const args = [cli.main, "status", "-w", "-o", "jsonpath=$.counts.services"];
    const watching = spawn(process.execPath, args, { env: cli.env });
    let output = "";
    watching.stdout.on("data", (chunk) => {
      output += String(chunk);
    });
    const ended = once(watching, "close");
    await expect.poll(() => output).toBe("1\n");
    await cli.done("create", "service", "lonely");
    // More than the list has, and before the one that an identity may host.
    for (let index = 0; index < 21; index++) {
      await network.management.createService({ body: { name: `lonely-${index}`, encryptionRequired: true } });
    }
    await expect.poll(() => output).toMatch(/^1\n(\d+\n)*23\n$/);
    watching.kill("SIGINT");
    expect(await ended).toEqual([130, null]);
  }, 60_000);

  it("names what fails with the command that explains it, and ends with 1", async () => {
    await hosted.close();
    await network.management.createIdentity({ body: { name: "locked", type: "Default", isAdmin: false } });
    const { id } = JSON.parse(await cli.done("get", "identity", "locked", "-o", "json"));
    await cli.done("api", "POST", `/identities/${id}/disable`, "--data", '{"durationMinutes":0}');
    const client = await Context.load(clientFile);
    await expect(client.dial("web")).rejects.toThrow();
    await client.close();
    await network.stopProgram("r2");
    const failing = async () => {
      const { code, output } = await cli.run("status");
      return { code, output, isOffline: output.includes("router r2: is offline") };
    };
    await expect.poll(failing).toMatchObject({ code: 1, isOffline: true });
    const { output } = await failing();
    expect(output).toMatch(/^one: 2 things fail, \d+ warnings\n/);
    expect(output).toMatch(/^r2 +OFFLINE +\d+s +0/m);
    expect(output).toContain("service web: is not hosted; web-host may host it");
    expect(output).toContain("sallyport why web-host web --type bind");
    expect(output).toContain("service lonely-0: is not hosted, and no identity may host it");
    expect(output).toContain("identity locked: cannot log in: it is disabled");
    expect(output).toMatch(/identity web-client: could not dial web \d+s ago/);
    expect(output).toContain("sallyport why web-client web\n");
    await network.startRouter("r2");
    hosted = await hostEcho(host, "web");
    expect(output).toContain(": -o wide shows them");
    expect((await cli.run("status", "-o", "wide")).output).toMatch(/services: \d more are not hosted/);
    const lonely = (await cli.done("get", "services", "--filter", 'name contains "lonely"', "-o", "name")).split("\n");
    await cli.done("delete", "service", ...lonely.flatMap((name) => name.split("/")[1] ?? []), "--yes");
    await expect.poll(async () => (await cli.run("status")).code).toBe(0);
  }, 60_000);
});

describe("sallyport bugreport", () => {
  it("packs the state of the network with configuration and log, and nothing secret", async () => {
    const target = join(folder, "report.tar.gz");
    const log = join(folder, "some.log");
    const saved = JSON.parse(readFileSync(join(folder, "settings/networks/one.json"), "utf8"));
    const { key } = credentialsOf(clientFile);
    writeFileSync(log, `a request with ${saved.session.token} failed\nlogin with password=${network.adminPassword}\n`);
    const given = ["--config", network.controllerFile, "--config", clientFile, "--log", log];
    const output = await cli.done("bugreport", "-o", target, ...given);
    expect(output).toMatch(/^inspections.json +\d+/m);
    expect(output).toMatch(/^config\/1-controller.yml +\d+/m);
    expect(statSync(target).mode & 0o777).toBe(0o600);
    const text = execFileSync("tar", ["-xzOf", target], { encoding: "utf8", maxBuffer: 1e8 });
    expect(text).toMatch(/^one: .*fail/m);
    expect(text).toContain('"connected-routers"');
    expect(text).toContain("a request with [redacted] failed");
    const keyLines = key.split("\n").filter((line) => line.length > 20 && !line.includes("-----"));
    const secretKeys = readdirSync(join(folder, "network"), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && entry.name.endsWith("secret.key"))
      .map((entry) => readFileSync(join(entry.parentPath, entry.name), "utf8").trim());
    expect(keyLines.length).toBeGreaterThan(0);
    expect(secretKeys.length).toBeGreaterThan(0);
    for (const secret of [saved.session.token, network.adminPassword, ...keyLines, ...secretKeys]) {
      expect(text).not.toContain(secret);
    }
  });
});

describe("sallyport ping", () => {
  const ping = (...args: string[]) => cli.run("ping", ...args, "--interval", "10", "--identity", clientFile);

  it("measures every hop of a circuit: both routers and the host, and names them", async () => {
    const { code, output, errors } = await ping("web", "-c", "3");
    expect({ code, errors }).toEqual({ code: 0, errors: "" });
    expect(output).toMatch(/^web: seq=3 time=[\d.]+ ms {2}\(first router r1 [\d.]+ ms, router r2 [\d.]+ ms, /m);
    expect(output).toMatch(/^web over r1 and r2: 3 sent, 3 answered, 0% lost; dialled in [\d.]+ ms$/m);
    expect(output).toMatch(/^4 +host \(sdk\/sallyport\) +[\d.]+ ms .* 0 of 3$/m);
    expect(output).toMatch(/^r[12] – r[12] +/m);
  });

  it("takes the name of the identity that hosts, and answers programs", async () => {
    const { code, output } = await ping("web-host", "-c", "2", "-o", "json");
    const result = JSON.parse(output);
    expect(code).toBe(0);
    expect(result).toMatchObject({ service: "web", sent: 2, answered: 2, notes: [] });
    const hops = result.hops.map((hop: { type: string; answered: number }) => `${hop.type} ${hop.answered}`);
    expect(hops).toEqual(["xgress/edge 2", "forwarder 2", "xgress/edge 2", "sdk/sallyport 2"]);
    for (const { minMs, avgMs, maxMs } of result.hops) {
      expect(minMs).toBeGreaterThan(0);
      expect([minMs, avgMs, maxMs].toSorted((a, b) => a - b)).toEqual([minMs, avgMs, maxMs]);
    }
    expect(result.path.routers.map(({ name }: { name: string }) => name)).toEqual(["r1", "r2"]);
  });

  it("works without an administrator's session, and says what it does not know", async () => {
    const stranger = new Cli(cli.main, join(folder, "stranger"));
    const { code, output } = await stranger.run("ping", "web", "-c", "1", "--identity", clientFile);
    expect(code).toBe(0);
    expect(output).toMatch(/^1 +first router +[\d.]+ ms/m);
    expect(output).toContain("names of routers and links are not known: no network is chosen");
  });

  it("shows what was measured when the circuit ends, or the user interrupts it", async () => {
    const started = () => {
      const child = spawn(
        process.execPath,
        [cli.main, "ping", "web", "--identity", clientFile, "--interval", "20", "-c", "9999"],
        { env: cli.env },
      );
      const run = { child, output: "", ended: once(child, "close") };
      child.stdout.on("data", (chunk) => {
        run.output += String(chunk);
      });
      return run;
    };
    const first = started();
    await expect.poll(() => first.output).toContain("seq=2 time=");
    const circuits = (await cli.done("get", "circuits", "-o", "name")).trim().split("\n");
    expect(circuits).toHaveLength(1);
    await cli.done("delete", "circuit", circuits[0]?.replace("circuit/", "") ?? "", "--yes");
    expect(await first.ended).toEqual([0, null]);
    expect(first.output).toMatch(/ sent, .*\nHOP .*\nthe circuit ended: /s);
    const second = started();
    await expect.poll(() => second.output).toContain("seq=2 time=");
    second.child.kill("SIGINT");
    expect(await second.ended).toEqual([0, null]);
    expect(second.output).toMatch(/ sent, .*0% lost/);
  });

  it("says what is wrong", async () => {
    expect(await ping("wbe")).toMatchObject({
      code: 3,
      output: "",
      errors: expect.stringContaining("did you mean 'web'?"),
    });
    expect(await ping("web-client")).toMatchObject({ code: 3, errors: expect.stringContaining("hosts no service") });
    expect(await cli.run("ping", "web")).toMatchObject({ code: 4, errors: expect.stringContaining("--identity FILE") });
    expect(await ping("web", "-c", "0")).toMatchObject({ code: 2 });
    expect(await ping("web", "--instance", "nobody")).toMatchObject({
      code: 1,
      errors: expect.stringContaining("sallyport why web"),
    });
  });
});
