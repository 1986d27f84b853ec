import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange, exchangeThenEnd, openTcp, startEcho, type TcpServer } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { routerFile } from "../network/network.ts";
import { type BareController, startBareController } from "../network/openziti/bare-controller.ts";
import { peerRouterFile } from "../network/openziti/peer-network.ts";
import type { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { askUdp, openUdp, startUdpEcho } from "../network/tunneler.ts";
import { dropped } from "./counted.ts";
import { linked, startEnrolledRouter } from "./mixed-network.ts";
import { peer } from "./peer.ts";

const MIB = 1024 * 1024;
const ROUTERS = ["mine", "theirs"] as const;

describe.skipIf(peer.isMissing).each([{ whose: "OpenZiti's" }, { whose: "ours" }] as const)(
  "tunnelers inside our router and OpenZiti's, on $whose controller",
  { timeout: 180_000 },
  ({ whose }) => {
    const folder = makeScratch("router-tunnel");
    const programs: Program[] = [];
    const ports = new Map<string, number>();
    let controller: BareController;
    let echo: TcpServer;
    let udp: Awaited<ReturnType<typeof startUdpEcho>>;

    beforeAll(async () => {
      [echo, udp] = await Promise.all([startEcho(), startUdpEcho()]);
      controller = await startBareController(whose, peer.path, folder);
      const { cli, port } = controller;
      const [ourPort = 0, edgePort = 0, linkPort = 0] = await freePorts(3);
      const proxied = ["at-mine", "at-theirs", "udp-at-mine", "udp-at-theirs"];
      for (const [name, text] of [
        ["mine", routerFile({ folder, name: "mine", controllerPort: port, port: ourPort })],
        ["theirs", peerRouterFile({ folder, name: "theirs", controllerPort: port, edgePort, linkPort })],
      ] as const) {
        const found = await freePorts(proxied.length);
        for (const [index, service] of proxied.entries()) ports.set(`${name} ${service}`, found[index] ?? 0);
        const services = proxied.map(
          (service) =>
            `        - ${service}:${ports.get(`${name} ${service}`)}${service.startsWith("udp") ? ":udp" : ""}\n`,
        );
        const tunnel = `  - binding: tunnel\n    options:\n      mode: proxy\n      services:\n${services.join("")}`;
        const configuration = text.replace("\nlisteners:\n", `\nlisteners:\n${tunnel}`);
        programs.push(await startEnrolledRouter(controller, folder, name, configuration));
      }
      await linked(controller);
      const all = ["--service-roles", "#all"];
      await cli.edge("create", "service-edge-router-policy", "all", ...all, "--edge-router-roles", "#all");
      const dialers = ROUTERS.map((name) => `@${name}`).join(",");
      await cli.edge("create", "service-policy", "dial", "Dial", "--identity-roles", dialers, ...all);
      for (const name of ROUTERS) {
        for (const [service, protocol, target] of [
          [`at-${name}`, "tcp", echo.port],
          [`udp-at-${name}`, "udp", udp.port],
        ] as const) {
          const config = JSON.stringify({ protocol, address: "127.0.0.1", port: target });
          await cli.edge("create", "config", `${service}-host`, "host.v1", config);
          await cli.edge("create", "service", service, "--configs", `${service}-host`, "-a", service);
        }
        const services = `#at-${name},#udp-at-${name}`;
        const roles = ["--identity-roles", `@${name}`, "--service-roles", services, "--semantic", "AnyOf"];
        await cli.edge("create", "service-policy", `bind-${name}`, "Bind", ...roles);
      }
    }, 300_000);

    afterAll(async () => {
      for (const program of programs) await program.stop();
      await controller?.stop();
      await echo?.close();
      udp?.close();
      removeScratch(folder);
    }, 60_000);

    it.each([
      ["mine", "theirs"],
      ["theirs", "mine"],
      ["mine", "mine"],
    ])("carry streams from %s to %s, encrypted, with half close", async (from, to) => {
      const port = ports.get(`${from} at-${to}`) ?? 0;
      await eventually(
        "an echo",
        async () => {
          await exchangeThenEnd(await openTcp(port), 1, 1000);
          return true;
        },
        90_000,
      );
      await exchangeThenEnd(await openTcp(port), 2, 8 * MIB);
      // The client has no more to send long before everything is back. OpenZiti's routers drop what is not acknowledged when their target closes.
      const lengths = to === "theirs" ? [0, 10] : [0, 10, 8 * MIB];
      for (const length of lengths) await exchange(await openTcp(port), 4, length);
    });

    it.each([
      ["mine", "theirs"],
      ["theirs", "mine"],
    ])("carry datagrams from %s to %s", async (from, to) => {
      const socket = await openUdp(ports.get(`${from} udp-at-${to}`) ?? 0);
      const small = await askUdp(socket, Buffer.from("ping"), 60_000);
      expect(small.toString()).toBe("ping");
      const large = Buffer.alloc(9_000, 5);
      expect((await askUdp(socket, large, 60_000)).equals(large)).toBe(true);
      socket.close();
    });

    it("our router drops no payload on the way", async () => {
      expect(await dropped(controller.cli, ["mine"])).toEqual({});
    });
  },
);
