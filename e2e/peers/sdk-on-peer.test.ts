import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, get } from "node:http";
import { join } from "node:path";
import { Context, enroll, type ServiceListener } from "@sallyport/sdk";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange, exchangeThenEnd, openTcp, receive, startEcho, type TcpServer } from "../network/bytes.ts";
import { type PeerNetwork, startPeerNetwork } from "../network/openziti/peer-network.ts";
import { accepts, Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { peer } from "./peer.ts";

const MIB = 1024 * 1024;

describe.skipIf(peer.isMissing)("our SDK on OpenZiti's controller and routers", () => {
  let folder = "";
  let network: PeerNetwork;
  let echo: TcpServer;
  let host: Context;
  let client: Context;
  const programs: Program[] = [];

  /** OpenZiti enrolls the client, we enroll the host: identity files are the same. */
  beforeAll(async () => {
    folder = makeScratch("sdk-on-peer");
    echo = await startEcho();
    network = await startPeerNetwork(peer.path, join(folder, "network"));
    const { cli } = network;
    const token = (name: string) => join(folder, `${name}.jwt`);
    await cli.edge("create", "identity", "host", "-o", token("host"), "-a", "hosts");
    await cli.edge("create", "identity", "client", "-o", token("client"), "-a", "clients");
    for (const [side, router] of [
      ["hosts", "r2"],
      ["clients", "r1"],
    ] as const) {
      const policy = ["create", "edge-router-policy", side, "--identity-roles", `#${side}`];
      await cli.edge(...policy, "--edge-router-roles", `#${router}`);
    }
    await cli.edge(
      "create",
      "service-edge-router-policy",
      "all",
      "--service-roles",
      "#all",
      "--edge-router-roles",
      "#all",
    );
    await cli.edge("create", "service-policy", "bind", "Bind", "--identity-roles", "#hosts", "--service-roles", "#all");
    await cli.edge(
      "create",
      "service-policy",
      "dial",
      "Dial",
      "--identity-roles",
      "#clients",
      "--service-roles",
      "#all",
    );
    const target = JSON.stringify({ protocol: "tcp", address: "127.0.0.1", port: echo.port });
    await cli.edge("create", "config", "echo-target", "host.v1", target);
    for (const [mode, flag] of [
      ["sealed", "ON"],
      ["plain", "OFF"],
    ] as const) {
      await cli.edge("create", "service", `ours-${mode}`, "-e", flag);
      await cli.edge("create", "service", `theirs-${mode}`, "-e", flag, "-c", "echo-target");
    }
    writeFileSync(join(folder, "host.json"), JSON.stringify(await enroll(readFileSync(token("host"), "utf8"))));
    await cli.edge("enroll", token("client"), "-o", join(folder, "client.json"));
    host = await Context.load(join(folder, "host.json"));
    client = await Context.load(join(folder, "client.json"));
  });

  afterAll(async () => {
    await client?.close();
    await host?.close();
    for (const program of programs) await program.stop();
    await network?.stop();
    await echo?.close();
    removeScratch(folder);
  });

  const tunnel = (name: string, ...args: string[]): Program => {
    const program = new Program({ name, command: peer.path, args: ["tunnel", ...args], env: { ZITI_HOME: folder } });
    programs.push(program);
    return program;
  };

  it("refuses a token that was used", async () => {
    await expect(enroll(readFileSync(join(folder, "host.jwt"), "utf8"))).rejects.toMatchObject({
      code: "ENROLLMENT_REFUSED",
    });
  });

  it("lists its services with their permissions", async () => {
    const services = await client.services();
    expect(services.map((service) => service.name).sort()).toEqual([
      "ours-plain",
      "ours-sealed",
      "theirs-plain",
      "theirs-sealed",
    ]);
    expect(services.every((service) => service.permissions.join() === "Dial")).toBe(true);
  });

  describe.each(["sealed", "plain"])("%s", (mode) => {
    const service = `ours-${mode}`;
    let listener: ServiceListener;

    beforeAll(async () => {
      listener = await host.listen(service, { allowHalfOpen: true });
      listener.on("connection", (socket) => void socket.on("error", () => {}).pipe(socket));
    });

    afterAll(async () => {
      await listener.close();
    });

    it("dials what it hosts: 32 MiB both ways at once, half closed", async () => {
      const socket = await client.dial(service, { allowHalfOpen: true });
      expect(socket.isEncrypted).toBe(mode === "sealed");
      expect(socket.circuitId).not.toBe("");
      await exchange(socket, 3, 32 * MIB);
    });

    it("carries 40 connections at once", async () => {
      await Promise.all(
        Array.from({ length: 40 }, async (_, index) =>
          exchange(await client.dial(service, { allowHalfOpen: true, timeoutMs: 60_000 }), index, 256 * 1024),
        ),
      );
    });

    it("is dialled by OpenZiti's tunneler", async () => {
      const port = await freePort();
      const proxy = tunnel(`proxy-${mode}`, "proxy", "-i", join(folder, "client.json"), `${service}:${port}`);
      await proxy.ready("its port", () => accepts(port));
      await proxy.ready("a first echo", async () => {
        await exchange(await openTcp(port), 1, 100);
        return true;
      });
      await exchange(await openTcp(port), 5, 16 * MIB);
      await proxy.stop();
    });

    it("dials what OpenZiti's tunneler hosts", async () => {
      const hosting = tunnel(`host-${mode}`, "host", "-i", join(folder, "host.json"));
      await hosting.ready("a first echo through it", async () => {
        await exchange(await client.dial(`theirs-${mode}`, { allowHalfOpen: true }), 1, 100);
        return true;
      });
      // Not half closed early: with megabytes still to come its routers lose the rest now and then, for its own client, too (docs/compatibility.md).
      await exchangeThenEnd(await client.dial(`theirs-${mode}`, { allowHalfOpen: true }), 9, 16 * MIB);
      await hosting.stop();
    });
  });

  it("serves HTTP through node:http's agent and server", async () => {
    const http = createServer((request, response) => response.end(`you asked for ${request.url}`));
    const listener = await host.listen("ours-sealed", { allowHalfOpen: true });
    listener.on("connection", (socket) => http.emit("connection", socket));
    const agent = client.httpAgent();
    for (const path of ["/a", "/b"]) {
      const request = get(`http://ours-sealed${path}`, { agent });
      const [response] = await once(request, "response");
      let text = "";
      for await (const chunk of response) text += chunk;
      expect(text).toBe(`you asked for ${path}`);
    }
    agent.destroy();
    await listener.close();
  });

  it("reports why a dial fails", async () => {
    await expect(client.dial("no-such-service")).rejects.toMatchObject({ code: "SERVICE_NOT_AVAILABLE" });
    await expect(host.dial("ours-sealed")).rejects.toThrow(/may not dial ours-sealed/);
    await expect(client.dial("ours-sealed")).rejects.toMatchObject({
      code: "DIAL_REFUSED",
      message: expect.stringContaining("no terminators"),
    });
    await expect(
      client.dial("ours-sealed", { signal: AbortSignal.abort(new Error("changed my mind")) }),
    ).rejects.toThrow("changed my mind");
  });

  it("sees the end of a connection that the other side destroys", async () => {
    const listener = await host.listen("ours-sealed");
    listener.on("connection", (socket) => {
      socket.on("error", () => {});
      socket.write("bye");
      socket.once("data", () => socket.destroy());
    });
    const socket = await client.dial("ours-sealed");
    const received = receive(socket);
    socket.write("x");
    expect((await received).length).toBe(3);
    await listener.close();
  });

  it("hosts and dials again after a router was restarted", async () => {
    const listener = await host.listen("ours-sealed", { allowHalfOpen: true });
    listener.on("connection", (socket) => void socket.on("error", () => {}).pipe(socket));
    await exchange(await client.dial("ours-sealed", { allowHalfOpen: true }), 1, 1_000);
    const again = once(listener, "listening");
    await network.routers[1].stop();
    const router = new Program({
      name: "r2-again",
      command: peer.path,
      args: ["router", "run", join(network.folder, "r2.yml")],
      env: { ZITI_HOME: network.folder },
      cwd: network.folder,
    });
    programs.push(router);
    await again;
    await router.ready("a dial over it", async () => {
      await exchange(await client.dial("ours-sealed", { allowHalfOpen: true }), 2, 1_000);
      return true;
    });
    await listener.close();
  });
});
