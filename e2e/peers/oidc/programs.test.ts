import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchangeThenEnd, openTcp } from "../../network/bytes.ts";
import { sessionsOf } from "../../network/login/logins.ts";
import { peer } from "../peer.ts";
import { each, losesItsSession } from "./endings.ts";
import { carries, OidcNetwork, type Pair, Stream } from "./network.ts";

const MIB = 1024 * 1024;

describe.skipIf(peer.isMissing || peer.postureClient === "")(
  "applications on OpenZiti's newest SDK log in by OIDC",
  () => {
    let oidc: OidcNetwork;
    const pairs: Pair[] = [];

    beforeAll(async () => {
      oidc = await OidcNetwork.start("oidc-programs");
      for (const whose of ["OpenZiti's router", "our routers"] as const) {
        pairs.push(await oidc.startPair("an application", whose));
      }
    });

    afterAll(async () => {
      await oidc?.stop();
    });

    it("they host and dial, over OpenZiti's router and over ours", async () => {
      await each(pairs, async ({ host, identityId, port }) => {
        for (const id of [host, identityId])
          expect(await sessionsOf(oidc.network.management, id)).toMatchObject([{ token: "" }]);
        await exchangeThenEnd(await openTcp(port), 1, 4 * MIB);
        const small = async (_: unknown, seed: number) => exchangeThenEnd(await openTcp(port), seed, 100_000);
        await Promise.all(Array.from({ length: 5 }, small));
      });
    });

    it("they keep their circuits when the controller is killed, and dial again when it is back", async () => {
      const streams = await Promise.all(pairs.map(({ port }) => Stream.open(port)));
      await Promise.all(streams.map((stream) => stream.more(1)));
      await oidc.network.restartController("SIGKILL");
      for (const stream of streams) await stream.more(2);
      await each(pairs, async (pair) => {
        await pair.client.ready("a new circuit", () => carries(pair));
        expect(await sessionsOf(oidc.network.management, pair.identityId)).toHaveLength(1);
      });
      for (const stream of streams) stream.close();
    });

    it("they lose their circuits with their session at once, and go on in a new one", async () => {
      await each(pairs, (pair) => losesItsSession(oidc, pair));
    });
  },
);
