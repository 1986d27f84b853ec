import { listAll } from "@sallyport/api/client";
import { silentLogger } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, describe, expect, test } from "vitest";
import { type ConnectionOptions, NetworkConnection } from "./connection.ts";
import { failureOf } from "./errors.ts";
import { answer, FakeController, refusal, session } from "./testing/fake-controller.ts";

const ending: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ending.splice(0).toReversed()) await end();
});

type Say = Parameters<typeof FakeController.start>[0];

async function controller(say: Say, authority?: TestAuthority, uri?: readonly string[]): Promise<FakeController> {
  const started = await FakeController.start(say, authority, uri);
  ending.push(() => started.close());
  return started;
}

function connect(to: FakeController, o: Partial<ConnectionOptions> = {}): NetworkConnection {
  const connection = new NetworkConnection({
    name: "default/main",
    endpoints: [to.url],
    ca: to.ca,
    credentials: { method: "password", username: "operator", password: "secret" },
    requestTimeoutMs: 10_000,
    maxRequestsPerSecond: 1_000,
    log: silentLogger,
    ...o,
  });
  ending.push(() => connection.close());
  return connection;
}

/** A controller whose every login makes another session, of which only the newest is good. */
function sessions(then: Say): Say {
  let count = 0;
  return (asked) => {
    if (asked.path.startsWith("/authenticate")) return session(`t${++count}`);
    return asked.token === `t${count}` ? then(asked) : refusal(401, "UNAUTHORIZED");
  };
}

const failure = async (call: Promise<unknown>) =>
  failureOf(
    await call.then(
      () => undefined,
      (error: unknown) => error,
    ),
  );

const LIST = answer([{ id: "s1", name: "a" }], { pagination: { limit: 10, offset: 0, totalCount: 1 } });

describe("a session", () => {
  test("is opened at a controller only, as far as its certificate says what it is", async () => {
    const other = await controller(
      sessions(() => LIST),
      undefined,
      ["spiffe://net/identity/i/apiSession/s"],
    );
    const call = connect(other).client.listServices();
    await expect(call).rejects.toThrow("expected the certificate of a controller");
    expect(other.log).toEqual([]);
  });

  test("is opened once, by the first of many calls", async () => {
    const server = await controller(sessions(() => LIST));
    const { client } = connect(server);
    await Promise.all(Array.from({ length: 5 }, () => client.listServices()));
    expect(server.log.filter((line) => line.includes("authenticate"))).toEqual(["POST /authenticate?method=password"]);
    expect(server.asked[0]?.body).toEqual({ username: "operator", password: "secret" });
    expect(server.log.length).toBe(6);
  });

  test("is renewed once when it ended, by one login for all", async () => {
    let isGood = true;
    const good = sessions(() => LIST);
    const server = await controller((asked) => {
      if (asked.path.startsWith("/authenticate")) isGood = true;
      return isGood ? good(asked) : refusal(401, "UNAUTHORIZED");
    });
    const { client } = connect(server);
    await client.listServices();
    isGood = false;
    await Promise.all([client.listServices(), client.listConfigs(), client.listServicePolicies()]);
    expect(server.log.filter((line) => line.includes("authenticate")).length).toBe(2);
  });

  test("that is fresh and refused for one operation means a missing right", async () => {
    const server = await controller(
      sessions(({ path }) => (path === "/current-api-session" ? answer({}) : refusal(401, "UNAUTHORIZED"))),
    );
    const refused = failure(connect(server).client.listServices());
    expect(await refused).toMatchObject({ reason: "Forbidden", isStalled: true, retry: "resync" });
    expect(server.log.length).toBe(5);
  });

  test("that ends as soon as it has begun is begun again, so often and no more, and means no missing right", async () => {
    let ends = 2;
    const server = await controller(
      sessions(({ path }) => {
        if (path === "/current-api-session" || ends === 0)
          return path === "/services?limit=1" ? LIST : refusal(401, "UNAUTHORIZED");
        ends -= 1;
        return refusal(401, "UNAUTHORIZED");
      }),
    );
    const { client } = connect(server);
    const list = () => client.listServices({ query: { limit: 1 } });
    expect((await list()).data).toHaveLength(1);
    ends = Number.POSITIVE_INFINITY;
    const before = server.log.length;
    expect(await failure(list())).toMatchObject({
      reason: "NetworkUnauthorized",
      isStalled: false,
      retry: "connection",
    });
    expect(server.log.slice(before).filter((line) => line.startsWith("POST /authenticate"))).toHaveLength(3);
  });

  test("is not needed for what is public", async () => {
    const server = await controller(() => answer({ version: "v1" }));
    server.version = undefined;
    expect((await connect(server).client.listVersion()).data.version).toBe("v1");
    expect(server.asked).toMatchObject([{ path: "/version", token: undefined }]);
  });

  test("is opened by a token that is asked for each time", async () => {
    const server = await controller(sessions(() => LIST));
    let count = 0;
    const token = async () => `jwt-${++count}`;
    await connect(server, { credentials: { method: "ext-jwt", token } }).client.listServices();
    expect(server.asked[0]).toMatchObject({ path: "/authenticate?method=ext-jwt", authorization: "Bearer jwt-1" });
  });

  test("ends with the connection", async () => {
    const server = await controller(sessions(() => LIST));
    const connection = connect(server);
    await connection.client.listServices();
    await connection.close();
    await expect
      .poll(() => server.asked.at(-1))
      .toMatchObject({ method: "DELETE", path: "/current-api-session", token: "t1" });
    expect(await failure(connection.client.listServices())).toMatchObject({ reason: "NetworkNotReady" });
  });
});

describe("a login that is refused", () => {
  test("is tried once more after a while, and then not before a user asks", async () => {
    const server = await controller(() => refusal(401, "INVALID_AUTH"));
    const connection = connect(server, { times: { refusedLoginMs: 40 } });
    const list = () => failure(connection.client.listServices());
    const first = await list();
    expect(first).toMatchObject({ reason: "NetworkUnauthorized", isStalled: false, retry: "connection" });
    expect(first?.afterMs).toBeGreaterThan(0);
    await Promise.all([list(), list()]);
    while ((await list())?.afterMs !== undefined);
    expect(server.log.length).toBe(2);
    expect((await list())?.message).toContain("not tried again before the credentials change");
    connection.retryLogin();
    await list();
    expect(server.log.length).toBe(3);
  });

  test("by a certificate or a token, which no attempt locks, is tried again and again, ever more rarely", async () => {
    let isGood = false;
    const good = sessions(() => LIST);
    const server = await controller((asked) => (isGood ? good(asked) : refusal(401, "INVALID_AUTH")));
    const credentials = { method: "ext-jwt", token: async () => "jwt" } as const;
    const connection = connect(server, { credentials, times: { refusedLoginMs: 20 } });
    const list = () => failure(connection.client.listServices());
    const waits: number[] = [];
    while (server.log.length < 4) {
      const refused = await list();
      expect(refused).toMatchObject({ reason: "NetworkUnauthorized", retry: "connection" });
      expect(refused?.afterMs).toBeGreaterThan(0);
      if (server.log.length > waits.length) waits.push(refused?.afterMs ?? 0);
    }
    expect(waits.at(-1)).toBeGreaterThan(2 * (waits[0] ?? 0));
    isGood = true;
    await expect.poll(list).toBeUndefined();
  });

  test("is over when the identity is good again: those that waited are told", async () => {
    let isGood = false;
    const good = sessions(() => LIST);
    const server = await controller((asked) => (isGood ? good(asked) : refusal(401, "INVALID_AUTH")));
    let recovered = 0;
    const connection = connect(server, { onRecovered: () => recovered++ });
    await failure(connection.client.listServices());
    isGood = true;
    connection.retryLogin();
    await connection.client.listServices();
    await connection.client.listServices();
    await expect.poll(() => recovered).toBe(1);
  });

  test("counts as refused when a second factor is asked for", async () => {
    const server = await controller(() => session("t1", [{ provider: "ziti", typeId: "MFA" }]));
    expect(await failure(connect(server).client.listServices())).toMatchObject({
      reason: "NetworkUnauthorized",
      message: expect.stringContaining("second factor"),
    });
  });

  test("is none when the server is no controller: the credentials were not looked at", async () => {
    const server = await controller(() => refusal(404, "NOT_FOUND"));
    const { client } = connect(server);
    for (const _attempt of [1, 2, 3]) {
      expect(await failure(client.listServices())).toMatchObject({
        reason: "ControllerUnavailable",
        isStalled: false,
        message: expect.stringContaining("as no controller does (404 NOT_FOUND"),
      });
    }
    expect(server.log.length).toBe(3);
  });

  test("is none when the controller can't say: nothing is counted", async () => {
    const server = await controller(() => refusal(503, "TIMEOUT"));
    const { client } = connect(server);
    for (const _attempt of [1, 2, 3]) {
      expect(await failure(client.listServices())).toMatchObject({ reason: "ControllerUnavailable", retry: "backoff" });
    }
    expect(server.log.length).toBe(3);
  });
});

describe("a controller that asks for fewer requests", () => {
  test("is left alone by all calls, which go on afterwards", async () => {
    let refusals = 1;
    const server = await controller(sessions(() => (refusals-- > 0 ? refusal(429, "SERVER_TOO_MANY_REQUESTS") : LIST)));
    const { client } = connect(server, { times: { limitedMs: 20 } });
    const [first] = await Promise.all([client.listServices(), client.listConfigs()]);
    expect(first.data.length).toBe(1);
    expect(server.log.length).toBe(4);
  });

  test("for longer than a call waits: calls fail at once, with the time", async () => {
    const server = await controller(
      sessions(() => refusal(429, "SERVER_TOO_MANY_REQUESTS", { "retry-after": "31536000" })),
    );
    const { client } = connect(server);
    const first = await failure(client.listServices());
    expect(first).toMatchObject({ reason: "RateLimited", isStalled: false, retry: "connection" });
    expect(first?.afterMs).toBeGreaterThan(500_000);
    // Not for the year that it asks for.
    expect(first?.afterMs).toBeLessThan(800_000);
    expect(await failure(client.listConfigs())).toMatchObject({ reason: "RateLimited" });
    expect(server.log.length).toBe(2);
  });
});

describe("several endpoints", () => {
  test("the next one is asked when one can't be reached, and stays the first", async () => {
    const authority = await TestAuthority.create();
    const [gone, server] = [
      await controller(() => LIST, authority),
      await controller(
        sessions(() => LIST),
        authority,
      ),
    ];
    await gone.close();
    ending.splice(0, 1);
    let failures = 0;
    const { client } = connect(server, {
      endpoints: [gone.url, server.url],
      onRequest: (_operation, status) => {
        if (status === 0) failures++;
      },
    });
    await client.listServices();
    await client.listServices();
    expect(failures).toBe(1);
  });

  test("what may have been done is not sent to another one", async () => {
    const authority = await TestAuthority.create();
    const cut = await controller(
      sessions(() => undefined),
      authority,
    );
    const other = await controller(
      sessions(() => LIST),
      authority,
    );
    const { client } = connect(cut, { endpoints: [cut.url, other.url] });
    const created = client.createService({ body: { name: "a", encryptionRequired: true } });
    expect(await failure(created)).toMatchObject({ reason: "ControllerUnavailable", retry: "backoff" });
    expect(other.asked).toEqual([]);
    // The next call goes there, and what was lost is found by its tag.
    await client.listServices();
    expect(other.asked.length).toBeGreaterThan(0);
  });

  test("a controller of another authority is not talked to", async () => {
    const server = await controller(sessions(() => LIST));
    const { client } = connect(server, { ca: (await TestAuthority.create()).certPem });
    expect(await failure(client.listServices())).toMatchObject({ reason: "ControllerUnavailable" });
    expect(server.asked).toEqual([]);
  });
});

describe("a process that may not act any more", () => {
  test("asks before every login and every change, each time it is sent", async () => {
    let asked = 0;
    let refusals = 1;
    const server = await controller(
      sessions((request) => (request.method === "GET" || refusals-- <= 0 ? LIST : refusal(429, "RATE_LIMITED"))),
    );
    const { client } = connect(server, { mayAct: () => void asked++, times: { limitedMs: 1 } });
    await client.listServices();
    expect(asked).toBe(1);
    await client.deleteService({ params: { id: "s1" } });
    expect(asked).toBe(3);
  });

  test("reads on, changes nothing, and does not log in", async () => {
    const lost = new Error("the lease is over");
    let isOver = false;
    const mayAct = (): void => {
      if (isOver) throw lost;
    };
    const server = await controller(sessions(() => LIST));
    const { client } = connect(server, { mayAct });
    await client.listServices();
    isOver = true;
    expect((await client.listServices()).data).toHaveLength(1);
    await expect(client.deleteService({ params: { id: "s1" } })).rejects.toBe(lost);
    await expect(connect(server, { mayAct }).client.listServices()).rejects.toBe(lost);
    expect(server.log).toEqual([
      "POST /authenticate?method=password",
      expect.stringMatching(/^GET \/services/),
      expect.stringMatching(/^GET \/services/),
    ]);
  });
});

test("a call ends with its signal, and the login goes on for others", async () => {
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  const good = sessions(() => LIST);
  const server = await controller(async (asked) => {
    if (asked.path.startsWith("/authenticate")) await held;
    return good(asked);
  });
  const { client } = connect(server);
  const ended = new AbortController();
  const first = client.listServices({}, { signal: ended.signal });
  const second = client.listServices();
  const why = new Error("enough");
  ended.abort(why);
  await expect(first).rejects.toBe(why);
  release();
  expect((await second).data.length).toBe(1);
  expect(server.log.filter((line) => line.includes("authenticate")).length).toBe(1);
});

test("all pages of a list are read, also when it changes meanwhile", async () => {
  const all = Array.from({ length: 1203 }, (_each, index) => ({ id: `e${index}` }));
  const asked: number[] = [];
  const read = await listAll(async ({ limit, offset }) => {
    asked.push(offset);
    if (offset > 0) all.shift();
    return { data: all.slice(offset, offset + limit), meta: { pagination: { totalCount: all.length } } };
  });
  expect(asked).toEqual([0, 500, 1000]);
  expect(new Set(read.map(({ id }) => id)).size).toBe(read.length);
  const endless = await listAll(async () => ({ data: [{ id: "a" }], meta: { pagination: { totalCount: 9 } } }));
  expect(endless).toEqual([{ id: "a" }]);
});
