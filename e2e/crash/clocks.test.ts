import { X509Certificate } from "node:crypto";
import { join } from "node:path";
import { type ApiClient, ApiError, createClient } from "@sallyport/api";
import { OidcLogin, type OidcTokens } from "@sallyport/api/client";
import { createCsr, createKeyPair } from "@sallyport/wire";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { urlOf } from "../../controller/src/store/testing/oldest-server.ts";
import { testDatabase } from "../../controller/src/store/testing/test-store.ts";
import { exchange, exchangeSome } from "../network/bytes.ts";
import { Contexts } from "../network/contexts.ts";
import { eventually } from "../network/eventually.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import { administrator, declareService, type Network } from "../network/network.ts";
import type { Program } from "../network/program.ts";
import { placeOfReplica, type ReplicaPlace, startReplicaAt, startShared } from "../network/replicas.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { toolOf } from "../release/tool-of.ts";

const library = toolOf("faketime");
const TOLERANCE_MS = 10 * 60_000;
/** Idle for so long, a session has ended. */
const IDLE_MINUTES = 40;

/** The environment of a program whose system clock is wrong. Its steady clock is right. */
const wrongBy = (offset: string) => ({
  LD_PRELOAD: library ?? "",
  FAKETIME: offset,
  FAKETIME_DONT_FAKE_MONOTONIC: "1",
  FAKETIME_DISABLE_SHM: "1",
});

describe.skipIf(library === undefined)(
  "controllers whose clocks are a day ahead and a day behind",
  { timeout: 480_000 },
  () => {
    const folder = makeScratch("clocks");
    const contexts = new Contexts();
    let database: Awaited<ReturnType<typeof testDatabase>>;
    let sql: pg.Client;
    let network: Network;
    /** All controllers, by id; those with a wrong clock first. */
    const places = new Map<string, ReplicaPlace>();
    const programs = new Map<string, Program>();
    const clients: { close(): void }[] = [];

    beforeAll(async () => {
      database = await testDatabase();
      sql = new pg.Client(database.connection);
      await sql.connect();
      network = await startShared(join(folder, "network"), urlOf(database.connection), {
        login: "oidc",
        controllerSettings: (text) => text.replace(/^ {2}# interval: 1m$/m, "  interval: 1s"),
      });
      places.set("c2", await placeOfReplica("c2", wrongBy("+1d")));
      places.set("c3", await placeOfReplica("c3", wrongBy("-1d")));
      for (const id of ["c2", "c3"]) await start(id);
      places.set("c1", { id: "c1", apiPort: network.port, ctrlPort: 0 });
    });
    afterAll(async () => {
      await contexts.close();
      for (const client of clients) client.close();
      for (const program of programs.values()) await program.stop();
      await network?.stop();
      await sql?.end();
      await database?.drop();
      removeScratch(folder);
    });

    async function start(id: string): Promise<void> {
      const place = places.get(id);
      if (id === "c1") await network.startController();
      else if (place !== undefined) programs.set(id, (await startReplicaAt(network, place)).program);
    }

    async function kill(id: string): Promise<void> {
      if (id === "c1") await network.stopProgram("controller", "SIGKILL");
      else {
        await programs.get(id)?.end("SIGKILL");
      }
    }

    const portOf = (id: string) => places.get(id)?.apiPort ?? 0;
    const ids = () => [...places.keys()];
    const reach = (id: string) => ({ baseUrl: `https://localhost:${portOf(id)}`, tls: { rejectUnauthorized: false } });

    async function admin(id: string): Promise<ApiClient<"management">> {
      const client = await administrator(portOf(id), network.adminPassword);
      clients.push(client);
      return client;
    }

    const oidcLogin = (id: string): Promise<OidcTokens> =>
      OidcLogin.once({ ...reach(id), path: "/oidc" }, async (login) => {
        const answer = await login.start({ method: "password", username: "admin", password: network.adminPassword });
        if (answer.kind !== "done") throw new Error("the login asks for more");
        return answer.tokens;
      });

    /** Does the controller take this for a session? */
    async function isValid(id: string, proof: { token: string } | OidcTokens): Promise<boolean> {
      const client = createClient("client", reach(id));
      if ("token" in proof) client.setToken(proof.token);
      else client.setCredential({ kind: "bearer", token: proof.accessToken });
      try {
        await client.getCurrentAPISession();
        return true;
      } catch (error) {
        if (error instanceof ApiError && error.status === 401) return false;
        throw error;
      } finally {
        client.close();
      }
    }

    const validity = async (proof: { token: string } | OidcTokens): Promise<Record<string, boolean>> =>
      Object.fromEntries(await Promise.all(ids().map(async (id) => [id, await isValid(id, proof)] as const)));
    const everywhere = (value: boolean) => Object.fromEntries(ids().map((id) => [id, value]));

    async function plainLogin(id: string): Promise<{ token: string; id: string }> {
      const client = createClient("client", reach(id));
      const body = { username: "admin", password: network.adminPassword };
      const { data } = await client.authenticate({ query: { method: "password" }, body });
      client.close();
      return { token: data.token, id: data.id };
    }

    /** Makes an identity at one controller and enrolls it at another; answers the certificate. */
    async function enrolled(madeAt: string, enrolledAt: string): Promise<X509Certificate> {
      const management = await admin(madeAt);
      const { data } = await management.createIdentity({
        body: {
          name: `${madeAt}-${enrolledAt}-${Math.random()}`,
          type: "Device",
          isAdmin: false,
          enrollment: { ott: true },
        },
      });
      const { enrollment } = (await management.detailIdentity({ params: { id: data.id } })).data;
      const client = createClient("client", reach(enrolledAt));
      const clientCsr = await createCsr({ commonName: data.id, keyPem: (await createKeyPair()).keyPem });
      const answer = await client.enroll({ body: { token: enrollment.ott?.token ?? "", clientCsr } });
      client.close();
      return new X509Certificate(answer.data.cert ?? "");
    }

    /** Resolves when the leader has looked for all that has expired since the call. */
    async function swept(): Promise<void> {
      for (let round = 0; round < 2; round++) {
        const idle = await plainLogin("c1");
        await sql.query(
          `UPDATE api_session SET last_activity_at = now() - interval '${IDLE_MINUTES} minutes' WHERE id = $1`,
          [idle.id],
        );
        await sql.query(`INSERT INTO revocation (id, type, expires_at, tags)
        VALUES ('sentinel', 'JTI', now() - interval '1 second', '{}') ON CONFLICT (id) DO NOTHING`);
        await eventually(
          "what has ended is removed",
          async () => {
            const { rows } = await sql.query<{ n: number }>(
              `SELECT (SELECT count(*) FROM api_session WHERE id = $1) + (SELECT count(*) FROM revocation WHERE id = 'sentinel') AS n`,
              [idle.id],
            );
            return Number(rows[0]?.n) === 0;
          },
          60_000,
        );
      }
    }

    /** @param without controllers that were just killed: their leases have to run out */
    async function leader(...without: string[]): Promise<string> {
      return eventually("a leader", async () => {
        const { rows } = await sql.query<{ id: string }>(
          "SELECT replica_id AS id FROM replica_lease WHERE leads AND until > clock_timestamp()",
        );
        const [only] = rows;
        return rows.length === 1 && only && !without.includes(only.id) ? only.id : undefined;
      });
    }

    it("say so once, and go by the time of the database", async () => {
      for (const [id, where] of [
        ["c2", "ahead of"],
        ["c3", "behind"],
      ] as const) {
        const lines = programs.get(id)?.tail.filter((line) => /the clock of this machine/.test(line)) ?? [];
        expect(lines).toEqual([expect.stringContaining(where)]);
      }
    });

    const rounds = { first: "c1", second: "", third: "" };
    it.each(["the right clock leads", "one wrong clock leads", "the other wrong clock leads"])(
      "answer as one while %s",
      async (who) => {
        if (who.startsWith("one")) {
          await kill("c1");
          rounds.second = await leader("c1");
          await start("c1");
        } else if (who.startsWith("the other")) {
          await kill("c1");
          await kill(rounds.second);
          rounds.third = await leader("c1", rounds.second);
          for (const id of ["c1", rounds.second]) await start(id);
          expect([rounds.second, rounds.third].toSorted()).toEqual(["c2", "c3"]);
        }
        const leads = await leader();
        expect(leads).toBe(Object.values(rounds).findLast((id) => id !== ""));

        const sessions = await Promise.all(
          ids().map(async (id) => ({ id, plain: await plainLogin(id), oidc: await oidcLogin(id) })),
        );
        const gone = await Promise.all(
          ids().map(async (id) => ({ id, plain: await plainLogin(id), oidc: await oidcLogin(id) })),
        );
        for (const { id, plain, oidc } of gone) {
          const client = createClient("client", reach(id));
          client.setToken(plain.token);
          await client.deleteCurrentAPISession();
          client.close();
          await OidcLogin.once({ ...reach(id), path: "/oidc" }, (login) => login.end(oidc));
        }
        const waiting = await (await admin(leads)).createIdentity({
          body: { name: `waits-${leads}`, type: "Device", isAdmin: false, enrollment: { ott: true } },
        });
        await swept();
        for (const { plain, oidc } of sessions) {
          expect(await validity(plain)).toEqual(everywhere(true));
          expect(await validity(oidc)).toEqual(everywhere(true));
        }
        for (const { plain, oidc } of gone) {
          expect(await validity(plain)).toEqual(everywhere(false));
          expect(await validity(oidc)).toEqual(everywhere(false));
        }
        // Tokens are refreshed at a controller with another clock than the one that signed them.
        const [first, second, third] = sessions;
        for (const [from, to] of [
          [first, third],
          [second, first],
          [third, second],
        ]) {
          const tokens = await OidcLogin.once({ ...reach(to?.id ?? ""), path: "/oidc" }, (login) =>
            login.refresh(from?.oidc as OidcTokens),
          );
          expect(await validity(tokens)).toEqual(everywhere(true));
          expect(Math.abs(tokens.expiresAt - Date.now() - 30 * 60_000)).toBeLessThan(TOLERANCE_MS);
        }
        const { data } = await (await admin("c1")).detailIdentity({ params: { id: waiting.data.id } });
        expect(data.enrollment.ott?.token).toBeDefined();
        for (const [madeAt, enrolledAt] of [
          ["c2", "c1"],
          ["c1", "c2"],
          ["c3", "c2"],
          ["c2", "c3"],
          ["c3", "c1"],
        ] as const) {
          const { validFromDate, validToDate } = await enrolled(madeAt, enrolledAt);
          expect(Math.abs(Date.now() - validFromDate.getTime())).toBeLessThan(TOLERANCE_MS);
          expect(validToDate.getTime()).toBeGreaterThan(Date.now() + 86_400_000);
        }
      },
    );

    it("have all routers, carry circuits, and show them to each other", async () => {
      for (const id of ids()) {
        const management = await admin(id);
        await eventually(
          `both routers are online at ${id}`,
          async () => {
            const { data } = await management.listEdgeRouters();
            return data.filter(({ isOnline }) => isOnline).length === 2;
          },
          60_000,
        );
      }
      const echo = await declareService({ ...network, management: await admin("c1") }, { name: "echo" });
      await hostEcho(await contexts.load(echo.hostFile), "echo");
      const client = await contexts.load(echo.clientFile);
      const dial = () => client.dial("echo", { allowHalfOpen: true, timeoutMs: 10_000 });
      const open = await eventually("echo can be dialled", dial, 60_000);
      await exchangeSome(open, 1, 100_000);
      for (const id of ids()) {
        const fabric = createClient("fabric", reach(id));
        clients.push(fabric);
        fabric.setToken((await plainLogin(id)).token);
        expect((await fabric.listCircuits()).data).toHaveLength(1);
      }
      // Whoever is left makes circuits, too.
      for (const id of ["c1", "c2"]) await kill(id);
      await exchangeSome(open, 2, 100_000);
      await eventually(
        "a circuit by the controller whose clock is behind",
        async () => {
          await exchange(await dial(), 3, 10_000);
          return true;
        },
        60_000,
      );
      await start("c2");
      await kill("c3");
      await eventually(
        "a circuit by the controller whose clock is ahead",
        async () => {
          await exchange(await dial(), 4, 10_000);
          return true;
        },
        60_000,
      );
      await exchangeSome(open, 5, 100_000);
      await start("c1");
    });
  },
);
