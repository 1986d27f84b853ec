import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { curl, hostState, InterceptingHost } from "./interception.ts";
import { type Host, hasNamespaces, Site } from "./network-namespace.ts";

describe.skipIf(!hasNamespaces)("a process without privileges that listens on the names of slots", () => {
  let site: Site;
  let router: Host;
  let folder: string;

  beforeEach(async () => {
    folder = makeScratch("slots");
    site = new Site();
    router = await site.host("router");
    router.resolveWith("127.0.0.1");
  });
  afterEach(async () => {
    await site.close();
    removeScratch(folder);
  });

  const start = async (): Promise<InterceptingHost> => await InterceptingHost.start(router, folder);
  const squat = async (first: number, last: number): Promise<Program> => {
    const program = `
      const { createServer } = require("node:net");
      const all = [];
      for (let n = ${first}; n <= ${last}; n++) {
        all.push(new Promise((done) => createServer().listen({ path: "\\0sallyport-interception-" + n }, done)));
      }
      Promise.all(all).then(() => console.log("ready"));`;
    const squatter = router.start({
      name: "squatter",
      command: "setpriv",
      args: ["--bounding-set", "-all", "--inh-caps", "-all", "--ambient-caps", "-all", process.execPath, "-e", program],
    });
    await squatter.line(/^ready$/);
    return squatter;
  };

  test("costs nothing as long as a slot is left", async () => {
    await squat(200, 246);
    const interceptor = await start();
    await interceptor.intercept({ name: "web", addresses: ["10.5.0.1"] });
    expect(await curl(router, "http://10.5.0.1/")).toMatchObject({ service: "web" });
    expect((await router.run("nft", "list", "tables")).stdout).toContain("inet sallyport_247");
  });

  test("is named when it has taken all of them", async () => {
    await squat(200, 247);
    await expect(start()).rejects.toThrow(
      /all 48 slots for tunnelers of this network namespace are taken, by process \d+ \(\S+, user 0, which is no tunneler\); stop some of them/,
    );
  });

  test("does not keep what a killed tunneler has left from being removed", async () => {
    const before = await hostState(router);
    const killed = await start();
    await killed.intercept({ name: "web", addresses: ["10.5.0.1"] });
    killed.program.signal("SIGKILL");
    await killed.program.exited;
    expect(await hostState(router)).toContain("sallyport_200");
    await squat(200, 200);
    const next = await start();
    expect(await hostState(router)).not.toContain("10.5.0.1");
    await next.intercept({ name: "other", addresses: ["10.5.0.1"] });
    expect(await curl(router, "http://10.5.0.1/")).toMatchObject({ service: "other" });
    expect(await next.program.stop()).toBe(0);
    expect(await hostState(router)).toBe(before);
  });

  test("does not make a living tunneler look like one", async () => {
    const first = await start();
    await first.intercept({ name: "first", addresses: ["10.5.0.1"] });
    await squat(201, 201);
    await expect(InterceptingHost.start(router, folder, { resolver: "udp://127.0.0.2:53" })).rejects.toThrow(
      /another tunneler of this host uses 100\.64\.0\.0\/10/,
    );
    expect(await curl(router, "http://10.5.0.1/")).toMatchObject({ service: "first" });
  });
});
