import { copyFileSync } from "node:fs";
import type { Socket } from "node:net";
import { join } from "node:path";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange, exchangeThenEnd, openTcp, receiveNext, startEcho, type TcpServer } from "../../network/bytes.ts";
import { type Network, startNetwork } from "../../network/network.ts";
import { PeerCli } from "../../network/openziti/peer-cli.ts";
import { accepts, Program } from "../../network/program.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { peer } from "../peer.ts";
import { type Participant, startParticipants } from "./participants.ts";
import { startPeer } from "./programs.ts";

const { path: binary, version, isMissing } = peer.generation2;
const MIB = 1024 * 1024;
const isBefore21 = /^v2\.0\./.test(version);

/** A byte goes there and comes back; the stream stays open. */
async function exchangeSome(stream: Socket): Promise<void> {
  const answer = receiveNext(stream, 1);
  stream.write("x");
  await answer;
}

/** Whether a new connection gets an echo. */
async function answers(port: number): Promise<boolean> {
  const stream = await openTcp(port);
  try {
    await exchangeSome(stream);
    return true;
  } catch {
    return false;
  } finally {
    stream.destroy();
  }
}

describe.skipIf(isMissing || isBefore21)(
  `the tunneler of OpenZiti ${version} (OPENZITI2) dials by service through our routers`,
  { timeout: 120_000 },
  () => {
    let folder = "";
    let network: Network;
    let cli: PeerCli;
    let echo: TcpServer;
    let host: Participant;
    let client: Program;
    let watched: Program;
    const ports = new Map<string, number>();

    const portOf = (service: string): number => ports.get(service) ?? 0;
    const carriesTo = (service: string): Promise<void> =>
      client.ready(`an echo of ${service}`, async () => {
        await exchangeThenEnd(await openTcp(portOf(service)), 1, 100);
        return true;
      });
    beforeAll(async () => {
      folder = makeScratch("connect-v2");
      echo = await startEcho();
      network = await startNetwork(join(folder, "network"), { login: "oidc" });
      cli = new PeerCli(binary, folder);
      await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
      // A host of ours at r2, whose service the tunneler at r1 dials.
      const at = { r2: ["our tunneler"] } as const;
      [host] = (await startParticipants({ cli, folder, at, echoPort: echo.port })) as [Participant];
      const file = join(folder, "client.json");
      await cli.edge("create", "identity", "client", "-o", join(folder, "client.jwt"), "-a", "participants");
      await cli.edge("enroll", join(folder, "client.jwt"), "-a", "EC", "-o", file);
      const only = ["--identity-roles", "@client", "--edge-router-roles", "#r1"];
      await cli.edge("create", "edge-router-policy", "client", ...only);
      const services = [host.name, "later"];
      for (const [index, port] of (await freePorts(services.length)).entries()) ports.set(services[index] ?? "", port);
      const proxied = services.map((service) => `${service}:${portOf(service)}`);
      client = startPeer("2.x", folder, "client", "tunnel", "proxy", "-i", file, ...proxied, "--svcPollRate", "1");
      await carriesTo(host.name);
    }, 300_000);

    afterAll(async () => {
      await client?.stop();
      await watched?.stop();
      await host?.stop();
      await network?.stop();
      await echo?.close();
      removeScratch(folder);
    }, 60_000);

    it("dials by service", async () => {
      const args = ["fabric", "stream", "traces"];
      const traces = new Program({ name: "traces", command: binary, args, env: cli.env });
      try {
        const { data } = await network.management.listEdgeRouters({ query: { filter: 'name = "r1"' } });
        // The stream does not say that it has begun.
        await traces.ready("a traced message", async () => {
          await cli.run(...args, "toggle", "pipe", "on", data[0]?.id ?? "");
          return await traces.line(/<- /, 2_000).then(() => true);
        });
        await carriesTo(host.name);
        await traces.line(/<- .*\bedge +ConnectV2\b/);
        expect(traces.tail.filter((line) => /<- .*\bedge +Connect\b/.test(line))).toEqual([]);
        await cli.run(...args, "toggle", "pipe", "off", data[0]?.id ?? "");
      } finally {
        await traces.stop();
      }
    });

    it("carries much, many at once, and what comes after a half close", async () => {
      const open = () => openTcp(portOf(host.name));
      await exchangeThenEnd(await open(), 1, 32 * MIB);
      await Promise.all(Array.from({ length: 20 }, async (_, i) => exchangeThenEnd(await open(), i, MIB)));
      await exchange(await open(), 2, 8 * MIB);
    });

    it("dials a service that is new, and is refused when it is taken away", async () => {
      const target = JSON.stringify({ protocol: "tcp", address: "127.0.0.1", port: echo.port });
      await cli.edge("create", "config", "later", "host.v1", target);
      await cli.edge("create", "service", "later", "-c", "later", "-a", "open,later");
      const bind = ["--identity-roles", `@${host.name}`, "--service-roles", "#later"];
      await cli.edge("create", "service-policy", "bind-later", "Bind", ...bind);
      await carriesTo("later");
      await cli.edge("delete", "service", "later");
      await client.ready("the end of its port", async () => !(await accepts(portOf("later"))));
    });

    it("ends a stream whose posture check does not pass any more, and dials again when it passes", async () => {
      const path = join(folder, "watched");
      copyFileSync("/bin/sleep", path);
      const start = (): Program => new Program({ name: "watched", command: path, args: ["86400"] });
      await cli.edge("create", "posture-check", "process", "watched", "Linux", path);
      await cli.edge("update", "service-policy", "dial", "--posture-check-roles", "@watched");
      await client.ready("a refusal", () => answers(portOf(host.name)).then((isAnswered) => !isAnswered));
      await client.line(/posture check failed/);
      watched = start();
      await carriesTo(host.name);
      const stream = await openTcp(portOf(host.name));
      await exchangeSome(stream);
      const ended = new Promise<void>((resolve) => stream.once("close", () => resolve()).once("end", resolve));
      watched.signal("SIGKILL");
      await ended;
      stream.destroy();
      watched = start();
      await carriesTo(host.name);
      await cli.edge("update", "service-policy", "dial", "--posture-check-roles", "");
    });

    it("goes on through a restart of the router, and of the controller", { timeout: 240_000 }, async () => {
      await network.restartRouter("r1");
      await carriesTo(host.name);
      await network.restartController();
      await carriesTo(host.name);
    });
  },
);
