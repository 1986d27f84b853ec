import type { Duplex } from "node:stream";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange, exchangeThenEnd, openTcp, receiveNext, startEcho, type TcpServer } from "../../network/bytes.ts";
import { eventually } from "../../network/eventually.ts";
import type { Program } from "../../network/program.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { peer } from "../peer.ts";
import { carries, type Participant, pairs, startParticipants } from "./participants.ts";
import { allLinked, type Controller2, type EnrolledRouter, enrollRouter, startController2 } from "./programs.ts";

const { version, isMissing } = peer.generation2;
const MIB = 1024 * 1024;
/** Of access tokens on this controller, and what clocks and requests may take. */
const TOKEN_LIFE_MS = 60_000 + 5_000;
const ROUTERS = ["mine", "theirs"] as const;
const KINDS = ["our SDK", "our tunneler", "OpenZiti's tunneler"] as const;

describe.skipIf(isMissing).each([
  { login: "by OIDC", isOidc: true },
  { login: "by the old login", isOidc: false },
])(
  `our programs on the controller and with a router of OpenZiti ${version} (OPENZITI2), $login`,
  { timeout: 120_000 },
  ({ isOidc }) => {
    let folder = "";
    let controller: Controller2;
    let echo: TcpServer;
    let mine: EnrolledRouter;
    let running: Program;
    let theirs: Program;
    let participants: readonly Participant[] = [];
    /** Ports of what each router dials for its own tunneler. */
    const proxied = new Map<string, number>();
    /** One of each participant's, to the next one, since the start. */
    const open: Duplex[] = [];
    let openedAt = 0;

    const named = (name: string): Participant => {
      const found = participants.find((each) => each.name === name);
      if (found === undefined) throw new Error(`no participant ${name}`);
      return found;
    };

    beforeAll(async () => {
      folder = makeScratch("ours-on-theirs");
      echo = await startEcho();
      controller = await startController2(folder, isOidc);
      const { cli, port: controllerPort } = controller;
      const [there = 0, back = 0] = await freePorts(2);
      proxied.set("mine", there).set("theirs", back);
      const common = { cli, controllerPort, folder };
      mine = await enrollRouter({ ...common, name: "mine", kind: "ours", proxies: [`in-theirs:${there}`] });
      running = await mine.start();
      const other = { name: "theirs", kind: "OpenZiti 2.x", proxies: [`in-mine:${back}`] } as const;
      theirs = await (await enrollRouter({ ...common, ...other })).start();
      await allLinked(cli, ROUTERS);
      // What the routers host and dial themselves. A router of 2.0.3 that may not carry a service yet does not ask again to host it.
      const carried = ["--service-roles", "#in-mine,#in-theirs", "--semantic", "AnyOf", "--edge-router-roles", "#all"];
      await cli.edge("create", "service-edge-router-policy", "routers", ...carried);
      for (const name of ROUTERS) {
        const target = JSON.stringify({ protocol: "tcp", address: "127.0.0.1", port: echo.port });
        await cli.edge("create", "config", `in-${name}`, "host.v1", target);
        await cli.edge("create", "service", `in-${name}`, "-c", `in-${name}`, "-a", `in-${name},open`);
        const bind = ["--identity-roles", `@${name}`, "--service-roles", `#in-${name}`];
        await cli.edge("create", "service-policy", `bind-in-${name}`, "Bind", ...bind);
      }
      const dial = ["--identity-roles", "@mine,@theirs", "--service-roles", "#in-mine,#in-theirs"];
      await cli.edge("create", "service-policy", "routers", "Dial", ...dial, "--semantic", "AnyOf");
      participants = await startParticipants({
        ...{ cli, folder, echoPort: echo.port },
        at: { mine: KINDS, theirs: KINDS },
        others: ["in-mine", "in-theirs"],
      });
      openedAt = performance.now();
      for (const [index, from] of participants.entries()) {
        const to = participants[(index + 1) % participants.length]?.name ?? "";
        await carries(from, to);
        open.push(await from.dial(to));
      }
    }, 400_000);

    afterAll(async () => {
      for (const stream of open) stream.on("error", () => {}).destroy();
      await Promise.all(participants.map((participant) => participant.stop()));
      await running?.stop();
      await theirs?.stop();
      await controller?.stop();
      await echo?.close();
      removeScratch(folder);
    }, 120_000);

    it("carries streams between all programs at all routers", async () => {
      for (const [from, to] of pairs(participants)) {
        await carries(from, to);
        await exchangeThenEnd(await from.dial(to), 3, 300_000);
      }
    });

    it("carries much, and many at once", async () => {
      for (const from of participants) {
        const to = participants.find(({ router, kind }) => router !== from.router && kind === from.kind)?.name ?? "";
        await exchangeThenEnd(await from.dial(to), 4, 8 * MIB);
        await Promise.all(
          Array.from({ length: 10 }, async (_, i) => await exchangeThenEnd(await from.dial(to), i, 200_000)),
        );
      }
    });

    it("carries what comes after a half close between our programs", async () => {
      const ours = participants.filter(({ kind }) => kind !== "OpenZiti's tunneler");
      for (const [from, to] of pairs(ours)) await exchange(await from.dial(to), 5, 300_000);
    });

    it("our router hosts and dials for its own tunneler", async () => {
      for (const from of participants) {
        for (const router of ROUTERS) await carries(from, `in-${router}`);
      }
      for (const port of proxied.values()) {
        await eventually("an echo", async () => {
          await exchangeThenEnd(await openTcp(port), 1, 1_000);
          return true;
        });
        await exchangeThenEnd(await openTcp(port), 6, 8 * MIB);
      }
    });

    it("keeps streams beyond the access tokens with which they began", async () => {
      if (isOidc) {
        await eventually("the end of the first tokens", () => performance.now() > openedAt + TOKEN_LIFE_MS, 90_000);
      }
      for (const stream of open) {
        const answer = receiveNext(stream, 4);
        stream.write("ping");
        expect((await answer).length).toBe(4);
      }
    });

    it("a policy that is taken away ends what it allowed; given again, dials go on", async () => {
      const { cli } = controller;
      await controller.login();
      const host = named("ours-mine");
      const target = JSON.stringify({ protocol: "tcp", address: "127.0.0.1", port: echo.port });
      await cli.edge("create", "config", "guarded", "host.v1", target);
      await cli.edge("create", "service", "guarded", "-c", "guarded", "-a", "guarded");
      const bind = ["--identity-roles", `@${host.name}`, "--service-roles", "#guarded"];
      await cli.edge("create", "service-policy", "bind-guarded", "Bind", ...bind);
      const allow = () =>
        cli.edge(
          ...["create", "service-policy", "guarded", "Dial", "--semantic", "AnyOf"],
          ...["--identity-roles", "#sdk-mine,#sdk-theirs", "--service-roles", "#guarded"],
        );
      await allow();
      for (const from of [named("sdk-mine"), named("sdk-theirs")]) {
        await carries(from, "guarded");
        const stream = await from.dial("guarded");
        const ended = new Promise((resolve) => stream.on("error", resolve).once("close", resolve).once("end", resolve));
        await cli.edge("delete", "service-policy", "guarded");
        await ended;
        stream.destroy();
        await expect(from.dial("guarded")).rejects.toThrow();
        await allow();
        await carries(from, "guarded");
      }
    });

    it("goes on after our router was restarted", { timeout: 240_000 }, async () => {
      await controller.login();
      await running.stop();
      running = await mine.start();
      for (const [from, to] of pairs(participants)) {
        if (from.router === "mine" || to.endsWith("-mine")) await carries(from, to, 120_000);
      }
    });
  },
);
