import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchangeThenEnd, openTcp } from "../network/bytes.ts";
import { dropped } from "./counted.ts";
import { type MixedNetwork, startMixedNetwork } from "./mixed-network.ts";
import { peer } from "./peer.ts";

const MIB = 1024 * 1024;

describe.skipIf(peer.isMissing).each([
  { whose: "ours", dialer: "mine" },
  { whose: "ours", dialer: "theirs" },
  { whose: "OpenZiti's", dialer: "mine" },
  { whose: "OpenZiti's", dialer: "theirs" },
] as const)("our router and OpenZiti's on $whose controller, $dialer dials the link", ({ whose, dialer }) => {
  let network: MixedNetwork;
  beforeAll(async () => {
    network = await startMixedNetwork(whose, dialer);
  });
  afterAll(() => network?.close());

  it("carry circuits that begin at either of them, many at a time", async () => {
    for (const service of network.services) {
      await exchangeThenEnd(await openTcp(service.port), 2, 32 * MIB);
      await Promise.all(
        Array.from({ length: 8 }, async (_, i) => await exchangeThenEnd(await openTcp(service.port), i, 2 * MIB)),
      );
    }
    expect(await dropped(network.controller.cli, ["mine"])).toEqual({});
  });

  it("link again after the link broke", async () => {
    const { cli } = network.controller;
    const link = /^\W*([0-9A-Za-z]{20,22})\W/m.exec(await cli.run("fabric", "list", "links"))?.[1] ?? "";
    await cli.run("fabric", "delete", "link", link);
    for (const service of network.services) {
      await service.client.ready("an echo again", async () => {
        await exchangeThenEnd(await openTcp(service.port), 1, 100);
        return true;
      });
    }
  });
});
