import { once } from "node:events";
import { join } from "node:path";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange, exchangeThenEnd, openTcp, startEcho, type TcpServer } from "../../network/bytes.ts";
import { type Network, startNetwork } from "../../network/network.ts";
import { PeerCli } from "../../network/openziti/peer-cli.ts";
import { startTunnelledService, type TunnelledService } from "../../network/openziti/tunnel.ts";
import { Program } from "../../network/program.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { peer } from "../peer.ts";
import { carries as carriesFrom, pairs, startParticipants } from "./participants.ts";
import { enrollRouter, startPeer } from "./programs.ts";

const MIB = 1024 * 1024;
/** A circuit over what is about to be lost may stay silent. */
const ATTEMPT_MS = 10_000;
const { path: binary, version, isMissing } = peer.generation2;

describe.skipIf(isMissing)(
  `a router and tunnelers of OpenZiti ${version} (OPENZITI2) on our controller`,
  { timeout: 60_000 },
  () => {
    let folder = "";
    let network: Network;
    let cli: PeerCli;
    let echo: TcpServer;
    let router: Program;
    let client: Program;
    const services = new Map<string, TunnelledService>();
    const ports = new Map<string, number>();

    const ask = async (service: string, length: number): Promise<void> =>
      exchangeThenEnd(await openTcp(ports.get(service) ?? 0), 1, length);
    /** A first circuit, or one after a loss. */
    const carries = (service: string): Promise<void> =>
      router.ready(`a circuit for ${service}`, async () => {
        const socket = await openTcp(ports.get(service) ?? 0);
        socket.setTimeout(ATTEMPT_MS, () => socket.destroy());
        await exchangeThenEnd(socket, 1, 1000);
        return true;
      });
    const detail = async () => {
      const { data } = await network.management.listEdgeRouters({ query: { filter: 'name = "two"' } });
      return data[0];
    };
    const linked = async (): Promise<string> => JSON.stringify(await cli.fabricListed("links"));

    beforeAll(async () => {
      folder = makeScratch("generation-2");
      echo = await startEcho();
      network = await startNetwork(join(folder, "network"), { login: "legacy" });
      cli = new PeerCli(binary, folder);
      await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
      const [outward = 0, inward = 0] = await freePorts(2);
      const enrolled = await enrollRouter({
        ...{ cli, controllerPort: network.port, folder, name: "two", kind: "OpenZiti 2.x" },
        proxies: [`back:${outward}`, `inside:${echo.port}`],
      });
      router = await enrolled.start();
      for (const [name, clientRouter, hostRouter] of [
        ["there", "r1", "two"],
        ["back", "two", "r2"],
      ] as const) {
        const service = await startTunnelledService({
          ...{ cli, binary, folder, name, targetPort: echo.port, clientRouter, hostRouter },
        });
        services.set(name, service);
        ports.set(name, service.port);
      }
      // The router itself hosts "inside", which a tunneler dials through ours, and dials "back".
      const target = JSON.stringify({ protocol: "tcp", address: "127.0.0.1", port: echo.port });
      await cli.edge("create", "config", "inside-host", "host.v1", target);
      await cli.edge("create", "service", "inside", "-c", "inside-host", "-a", "inside");
      const roles = ["--edge-router-roles", "#all", "--service-roles", "#inside"];
      await cli.edge("create", "service-edge-router-policy", "inside", ...roles);
      for (const [name, kind, identity, service] of [
        ["inside-bind", "Bind", "@two", "#inside"],
        ["inside-dial", "Dial", "#there-client", "#inside"],
        ["back-dial", "Dial", "@two", "#back"],
      ] as const) {
        const policy = ["--identity-roles", identity, "--service-roles", service];
        await cli.edge("create", "service-policy", name, kind, ...policy);
      }
      ports.set("inside", inward).set("back of the router", outward);
      const file = join(folder, "there-client.json");
      client = startPeer("2.x", folder, "inside-client", "tunnel", "proxy", "-i", file, `inside:${inward}`);
      for (const service of ports.keys()) await carries(service);
    }, 300_000);

    afterAll(async () => {
      await Promise.all([client?.stop(), ...[...services.values()].map((service) => service.stop())]);
      await router?.stop();
      await network?.stop();
      await echo?.close();
      removeScratch(folder);
    });

    it("enrolls, connects and links with ours", async () => {
      expect((await detail())?.versionInfo?.version).toBe(version);
      const links = await linked();
      for (const name of ["two", "r1", "r2"]) expect(links).toContain(`"name":"${name}"`);
    });

    it.each([
      ["there", "hosted through it and dialled through ours"],
      ["back", "dialled through it and hosted through ours"],
      ["inside", "hosted by itself"],
      ["back of the router", "dialled by itself"],
    ])("carries streams of a service: %s, %s", async (service) => {
      await ask(service, 16 * MIB);
      await Promise.all(Array.from({ length: 10 }, () => ask(service, MIB)));
    });

    it("reports what it cannot do: an alert in the stream of events", async () => {
      const args = ["fabric", "stream", "events", "--alerts"];
      const events = new Program({ name: "events", command: binary, args, env: cli.env });
      try {
        // The stream does not say that it has begun, and the router asks for the port once for each change of the service.
        const raise = async (): Promise<boolean> => {
          const policy = ["--identity-roles", "@two", "--service-roles", "#inside"];
          await cli.edge("create", "service-policy", "taken-port", "Dial", ...policy);
          await events
            .line(/"namespace":"alert"/, 5_000)
            .finally(() => cli.edge("delete", "service-policy", "taken-port"));
          return true;
        };
        await events.ready("an alert", raise);
        expect(await events.line(/"namespace":"alert"/)).toContain("unable to proxy service");
      } finally {
        await events.stop();
      }
    });

    it.each(["there", "back"])("carries what comes after a half close: %s", async (service) => {
      await exchange(await openTcp(ports.get(service) ?? 0), 2, 16 * MIB);
    });

    it.each(["there", "back"])("a host whose Bind session is deleted hosts again: %s", async (service) => {
      const bound = async () => {
        const { data } = await network.management.listSessions({ query: { filter: 'type = "Bind"' } });
        return data.filter((session) => session.service.name === service).map(({ id }) => id);
      };
      const before = await bound();
      expect(before).toHaveLength(1);
      await network.management.deleteSession({ params: { id: before[0] ?? "" } });
      await router.ready("a new session of the host", async () => {
        const after = await bound();
        return after.length > 0 && !after.includes(before[0] ?? "");
      });
      await carries(service);
    });

    it("goes on without our controller, which was killed, and takes new circuits when it is back", {
      timeout: 240_000,
    }, async () => {
      const open = await Promise.all([...ports.values()].map(openTcp));
      for (const socket of open) {
        socket.write("x");
        await once(socket, "data");
      }
      await network.stopProgram("controller", "SIGKILL");
      await Promise.all(open.map((socket) => exchangeThenEnd(socket, 3, MIB)));
      expect(router.isRunning).toBe(true);
      await network.startController();
      for (const service of ports.keys()) await carries(service);
    });

    it("leaves when it is disabled, and serves again when it is enabled", { timeout: 240_000 }, async () => {
      const id = (await detail())?.id ?? "";
      await network.management.patchEdgeRouter({ params: { id }, body: { disabled: true } });
      await router.ready("being offline", async () => (await detail())?.isOnline === false);
      await network.management.patchEdgeRouter({ params: { id }, body: { disabled: false } });
      await router.ready("being online", async () => (await detail())?.isOnline === true);
      for (const service of ports.keys()) await carries(service);
    });

    it("carries streams of clients that log in by OIDC, and is told when a login ends", {
      timeout: 240_000,
    }, async () => {
      await network.changeLogin("oidc");
      const kinds = ["our SDK", "OpenZiti's tunneler"] as const;
      const participants = await startParticipants({ cli, folder, at: { two: kinds, r1: kinds }, echoPort: echo.port });
      try {
        for (const [from, to] of pairs(participants)) {
          await carriesFrom(from, to);
          await exchangeThenEnd(await from.dial(to), 5, MIB);
        }
        const [from] = participants;
        const to = participants.at(-1)?.name ?? "";
        const stream = (await from?.dial(to)) ?? expect.fail("there are participants");
        const ended = new Promise((resolve) => stream.on("error", resolve).once("close", resolve).once("end", resolve));
        const [identity] = await cli.listed("identities", `name = "${from?.name}"`);
        await cli.edge("delete", "api-session", "where", `identity = "${identity?.id}"`);
        await ended;
        stream.destroy();
      } finally {
        for (const participant of participants) await participant.stop();
      }
    });
  },
);
