import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../network/eventually.ts";
import { sessionsOf } from "../../network/login/logins.ts";
import { peer } from "../peer.ts";
import { each, losesItsRights, losesItsSession } from "./endings.ts";
import { carries, OidcNetwork, type Pair, Stream } from "./network.ts";

/** With the shortest life that access tokens can have. SDKs renew them after half a minute or later. */
const ACCESS_TOKEN = "1m";
/** So often that the tokens of the login, and what routers allow for wrong clocks, are over. */
const REFRESHES = 3;
const REFRESHED_MS = 240_000;

/** Tunneler and router are those of a generation. */
const SUITES = [
  {
    generation: "1.6",
    isMissing: peer.isMissing || peer.postureClient === "",
    kinds: ["ziti tunnel", "an application"],
  },
  { generation: "2.x", isMissing: peer.isMissing || peer.generation2.isMissing, kinds: ["ziti tunnel"] },
] as const;

for (const { generation, isMissing, kinds } of SUITES) {
  describe.skipIf(isMissing)(`circuits of OpenZiti's programs of ${generation} that log in by OIDC`, () => {
    let oidc: OidcNetwork;
    const pairs: Pair[] = [];
    const streams: Stream[] = [];

    beforeAll(async () => {
      // The SDK of `ziti tunnel` v1.6.0 takes id tokens with RSA signatures only.
      const keyType = generation === "1.6" ? "rsa" : undefined;
      oidc = await OidcNetwork.start("oidc-lasting", { accessToken: ACCESS_TOKEN, keyType, generation });
      for (const whose of ["OpenZiti's router", "our routers"] as const) {
        for (const kind of kinds) pairs.push(await oidc.startPair(kind, whose));
      }
      for (const { port } of pairs) streams.push(await Stream.open(port));
    });

    afterAll(async () => {
      for (const stream of streams) stream.close();
      await oidc?.stop();
    });

    /** All that are open carry on, and each pair makes new ones. */
    async function goOn(): Promise<void> {
      await Promise.all(streams.map((stream) => stream.more(3)));
      const refused: string[] = [];
      for (const pair of pairs) {
        if (!(await carries(pair).catch(() => false))) refused.push(`${pair.kind} over ${pair.whose}`);
      }
      expect(refused).toEqual([]);
    }

    const refreshed = async (times: number): Promise<void> => {
      const identities = pairs.flatMap(({ host, identityId }) => [host, identityId]);
      const before = new Map(identities.map((id) => [id, oidc.refreshes(id)]));
      const isDone = (id: string) => oidc.refreshes(id) >= (before.get(id) ?? 0) + times;
      await eventually(`${times} refreshes of every session`, () => identities.every(isDone), REFRESHED_MS);
    };

    it("outlast the tokens of their login, and a new signing key", { timeout: 2 * REFRESHED_MS }, async () => {
      const ids = async () => {
        const held = await Promise.all(pairs.map(({ identityId }) => sessionsOf(oidc.network.management, identityId)));
        return held.flat().map(({ id }) => id);
      };
      const sessions = await ids();
      const { network } = oidc;
      const rotated = await network.runToEnd("controller", "pki", "rotate", network.controllerFile, "--tokens");
      expect(rotated.code, rotated.output).toBe(0);
      await goOn();
      await refreshed(REFRESHES);
      await goOn();
      // None of them had to log in again.
      expect(await ids()).toEqual(sessions);
    });

    it("outlast a restart of the controller, and their next tokens", { timeout: 2 * REFRESHED_MS }, async () => {
      await oidc.network.restartController();
      for (const pair of pairs) await pair.client.ready("a new circuit", () => carries(pair));
      await refreshed(1);
      await goOn();
    });

    it("end with their router, and are made again when it is back", async () => {
      await Promise.all([
        oidc.restartTheirs(),
        oidc.network.restartRouter("r1").then(() => oidc.network.restartRouter("r2")),
      ]);
      await Promise.all(streams.splice(0).map((stream) => stream.ended));
      for (const pair of pairs) await pair.client.ready("a new circuit", () => carries(pair));
    });

    it("end with the session, and then with the rights of the client", async () => {
      // The SDK of `ziti tunnel` v1.6.0 does not log in again when its refresh is refused: it asks for another one, for a day.
      const others = pairs.filter(({ kind }) => kind === "an application" || generation === "2.x");
      await each(others, (pair) => losesItsSession(oidc, pair));
      await each(pairs, (pair) => losesItsRights(oidc, pair));
    });
  });
}
