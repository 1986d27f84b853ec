import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { eventually } from "../network/eventually.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { curl, InterceptingHost } from "./interception.ts";
import { type Host, hasNamespaces, Site } from "./network-namespace.ts";

describe.skipIf(!hasNamespaces)("names under a wildcard", () => {
  let site: Site;
  let router: Host;
  let folder: string;

  beforeEach(async () => {
    folder = makeScratch("names");
    site = new Site();
    router = await site.host("router");
    router.resolveWith("127.0.0.1");
  });
  afterEach(async () => {
    await site.close();
    removeScratch(folder);
  });

  /** A name's address as curl finds it; `refused` while it has none. */
  const addressOf = async (name: string): Promise<string> => {
    const seen = await curl(router, `http://${name}.apps.example/`);
    if (typeof seen === "number") return "refused";
    expect(seen).toMatchObject({ service: "apps", destinationHostname: `${name}.apps.example` });
    return seen.destinationIp;
  };

  const nextAddressOf = async (name: string): Promise<string> => {
    let address = "refused";
    await eventually(`${name} has an address`, async () => {
      address = await addressOf(name);
      return address !== "refused";
    });
    return address;
  };

  test("make room for others when they are unused, and never while a client is connected", async () => {
    const interceptor = await InterceptingHost.start(router, folder, {
      dnsSvcIpRange: "100.64.0.1/30",
      nameRestMs: 1_500,
    });
    await interceptor.intercept({ name: "apps", addresses: ["*.apps.example"] });
    const connected = router.start({
      name: "client",
      command: process.execPath,
      args: [
        "-e",
        `const socket = require("node:net").connect(80, "a.apps.example", () => socket.write("hello"));
         socket.on("data", (bytes) => console.log(String(bytes)));`,
      ],
    });
    await connected.line(/"destinationIp":"100.64.0.2"/);
    expect(await addressOf("b")).toBe("100.64.0.3");
    for (const name of ["c", "d"]) expect(await nextAddressOf(name)).toBe("100.64.0.3");
    await connected.stop();
    expect(new Set([await nextAddressOf("e"), await nextAddressOf("f")])).toEqual(
      new Set(["100.64.0.2", "100.64.0.3"]),
    );
    const rules = (await router.run("nft", "list", "ruleset")).stdout;
    expect([rules.includes("100.64.0.2"), rules.includes("100.64.0.3")]).toEqual([true, true]);
  });
});
