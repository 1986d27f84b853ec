/** Logins by OIDC and requests with access tokens, beside logins and requests with session tokens, on one controller in alternating rounds. */
import { createHash, randomBytes } from "node:crypto";
import { request } from "node:http";
import { text } from "node:stream/consumers";
import { pause } from "@sallyport/async";
import { createCsr, createKeyPair } from "@sallyport/wire";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { checkPassword, hashPassword } from "../../controller/src/auth/password.ts";
import { type Emit, rounded } from "./compare.ts";
import { type HttpAnswer, type HttpRequest, LoadClient, median, quantile } from "./http-client.ts";
import { type OwnSide, startOwn } from "./sides.ts";

const CLIENT = "/edge/client/v1";
const MANAGEMENT = "/edge/management/v1";
const PASSWORD = "quite-a-long-password";
const REDIRECT = "http://localhost:20314/auth/callback";
const AT_A_TIME = 8;
const ROUNDS = 5;
/** Logins and sessions are spread over so many identities: each has a limit of sessions. */
const IDENTITIES = 20;
/** Requests per second of clients that are logged in: 10,000 of them, one each 15 seconds. */
const STEADY_RATE = 667;

type Ask = (request: HttpRequest) => Promise<HttpAnswer>;

interface Holder {
  readonly username: string;
  readonly cert: string;
  readonly key: string;
}

interface Tokens {
  readonly access_token: string;
  readonly refresh_token: string;
}

/** All figures, on a controller of their own; a run takes 1/`part` of the work. */
export async function measureOidc(folder: string, part: number, emit: Emit): Promise<void> {
  const metricsPort = await freePort();
  const ours = await startOwn(folder, (file) =>
    file
      .replace(/^( {2}rateLimits:\n(?: {4}#.*\n)*?) {4}# enabled: true$/m, "$1    enabled: false")
      .replace(/^ {2}# bind: 127\.0\.0\.1:9464$/m, `  bind: 127.0.0.1:${metricsPort}`),
  );
  try {
    const holders: Holder[] = [];
    for (let index = 0; index < IDENTITIES; index++) holders.push(await newHolder(ours, index));
    const rounds = { ours, holders, perRound: Math.ceil(400 / part), emit };
    await measureLogins(rounds);
    await measureRequests({ ...rounds, perRound: Math.ceil(4_000 / part) });
    await measureRefresh({ ...rounds, perRound: Math.ceil(1_000 / part) });
    await measureRevocations({ ...rounds, perRound: Math.ceil(200 / part) });
    await measureSteady({ ...rounds, perRound: Math.ceil(10_000 / part) }, metricsPort, 600 / part);
  } finally {
    await ours.stop();
  }
}

interface Work {
  readonly ours: OwnSide;
  readonly holders: readonly Holder[];
  /** How often a round does its work. */
  readonly perRound: number;
  readonly emit: Emit;
}

/** An identity with a certificate and a password. */
async function newHolder({ client }: OwnSide, index: number): Promise<Holder> {
  const username = `holder-${index}`;
  const body = { name: username, type: "Device", isAdmin: false, enrollment: { ott: true } };
  const { id } = await client.data<{ id: string }>({ method: "POST", path: `${MANAGEMENT}/identities`, body });
  const updb = { method: "updb", identityId: id, username, password: PASSWORD };
  await client.ask({ method: "POST", path: `${MANAGEMENT}/authenticators`, body: updb });
  const path = `${MANAGEMENT}/identities/${id}/enrollments`;
  const [enrollment] = await client.data<{ token: string }[]>({ method: "GET", path });
  const { keyPem: key } = await createKeyPair();
  const clientCsr = await createCsr({ commonName: username, keyPem: key });
  const enroll = { method: "POST", path: `${CLIENT}/enroll?token=${enrollment?.token}`, body: { clientCsr } } as const;
  return { username, key, cert: (await client.data<{ cert: string }>(enroll)).cert };
}

/** CPU milliseconds per call of two kinds of work in alternating rounds; what each round does is `perRound` calls, 8 at a time. */
async function alternate(
  { ours, perRound }: Work,
  first: (index: number) => Promise<unknown>,
  second: (index: number) => Promise<unknown>,
): Promise<[first: number, second: number]> {
  const kinds = [first, second] as const;
  const used: [number[], number[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    for (const kind of round % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
      const before = ours.cpuSeconds();
      await together(perRound, kinds[kind]);
      used[kind].push(((ours.cpuSeconds() - before) / perRound) * 1_000);
    }
  }
  return [median(used[0]), median(used[1])];
}

async function together(count: number, work: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) await work(index);
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, lane));
}

/** A login without OIDC, as clients make it. */
async function oldLogin(ask: Ask, holder: Holder, method: "cert" | "password"): Promise<string> {
  await ask({ method: "GET", path: `${CLIENT}/version`, token: "" });
  const credentials = method === "password" ? { username: holder.username, password: PASSWORD } : {};
  const body = { configTypes: ["all"], ...credentials };
  const login = { method: "POST", path: `${CLIENT}/authenticate?method=${method}`, body, token: "" } as const;
  return (JSON.parse((await ask(login)).text) as { data: { token: string } }).data.token;
}

/** A login by OIDC in the order of the C SDK: authorize, the factor, the callback, the tokens. */
async function oidcLogin(ask: Ask, holder: Holder, method: "cert" | "password"): Promise<Tokens> {
  await ask({ method: "GET", path: `${CLIENT}/version`, token: "" });
  const verifier = randomBytes(32).toString("base64url");
  const query = new URLSearchParams({
    ...{ client_id: "openziti", response_type: "code", scope: "openid offline_access", state: "s", method },
    ...{ code_challenge: createHash("sha256").update(verifier).digest("base64url"), code_challenge_method: "S256" },
    redirect_uri: REDIRECT,
  });
  const begun = await ask({ method: "POST", path: `/oidc/authorize?${query}`, token: "" });
  const id = parameterOf(begun, "authRequestID");
  const credentials = method === "password" ? { username: holder.username, password: PASSWORD } : {};
  const body = { id, configTypes: ["all"], ...credentials };
  const proved = await ask({ method: "POST", path: `/oidc/login/${method}`, body, token: "" });
  const path = `/oidc/authorize/callback?id=${parameterOf(proved, "id")}`;
  const code = parameterOf(await ask({ method: "GET", path, token: "" }), "code");
  const form = {
    grant_type: "authorization_code",
    client_id: "openziti",
    code,
    code_verifier: verifier,
    redirect_uri: REDIRECT,
  };
  return JSON.parse((await ask({ method: "POST", path: "/oidc/oauth/token", form, token: "" })).text) as Tokens;
}

/** A parameter of the address to which an answer redirects. */
function parameterOf({ headers }: HttpAnswer, name: string): string {
  const location = /\r\nlocation: *(\S+)/i.exec(headers)?.[1] ?? "";
  return new URL(location, "https://localhost").searchParams.get(name) ?? "";
}

async function measureLogins(work: Work): Promise<void> {
  const { ours, holders, emit } = work;
  const holderOf = (index: number): Holder => holders[index % holders.length] as Holder;
  for (const method of ["cert", "password"] as const) {
    const certificate = ({ cert, key }: Holder) => (method === "cert" ? { cert, key } : {});
    const once = async (
      holder: Holder,
      login: typeof oldLogin | typeof oidcLogin,
      perRequest = false,
    ): Promise<void> => {
      let client = new LoadClient(ours.port, certificate(holder));
      const ask: Ask = async (each) => {
        if (perRequest) client.close();
        if (perRequest) client = new LoadClient(ours.port, certificate(holder));
        return await client.ask(each);
      };
      await login(ask, holder, method);
      client.close();
    };
    const kept = holders.map((holder) => new LoadClient(ours.port, certificate(holder)));
    const onKept = async (index: number, login: typeof oldLogin | typeof oidcLogin): Promise<void> => {
      const at = index % holders.length;
      await login((each) => (kept[at] as LoadClient).ask(each), holders[at] as Holder, method);
    };
    const ways = [
      [
        "on a new connection",
        1.5,
        (index: number) => once(holderOf(index), oldLogin),
        (index: number) => once(holderOf(index), oidcLogin),
      ],
      [
        "on an open connection",
        undefined,
        (index: number) => onKept(index, oldLogin),
        (index: number) => onKept(index, oidcLogin),
      ],
      [
        "a connection per request",
        undefined,
        (index: number) => once(holderOf(index), oldLogin, true),
        (index: number) => once(holderOf(index), oidcLogin, true),
      ],
    ] as const;
    for (const [name, target, old, oidc] of ways) {
      // Measured around the logins, on the same machine at the same time: both ways pay it.
      const hashes = [await hashCpuMs(method, work.perRound)];
      const [before, now] = await alternate(work, old, oidc);
      hashes.push(await hashCpuMs(method, work.perRound));
      const hashMs = ((hashes[0] ?? 0) + (hashes[1] ?? 0)) / 2;
      const figure = `login by OIDC, ${method}, ${name}${method === "password" ? ", all but argon2id" : ""}`;
      emitRatio(emit, figure, now - hashMs, before - hashMs, target);
    }
    for (const client of kept) client.close();
  }
}

/** CPU milliseconds of one argon2id on this machine; 0 for a login without a password. */
async function hashCpuMs(method: "cert" | "password", count: number): Promise<number> {
  if (method === "cert") return 0;
  const hash = await hashPassword(PASSWORD);
  const before = process.cpuUsage();
  await together(count, () => checkPassword(hash, PASSWORD));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / count;
}

/** @param target the most that `value` may be of `beside` */
function emitRatio(emit: Emit, figure: string, value: number, beside: number, target: number | undefined): void {
  const ratio = value / beside;
  emit({
    ...{ figure, unit: "ms of CPU", value: rounded(value), beside: rounded(beside), ratio: rounded(ratio) },
    ...(target === undefined ? {} : { target, isMet: ratio <= target }),
  });
}

/** A user with a password, whose tokens are bound to no certificate, logged in both ways. */
async function bothWays({ ours, holders }: Work, index = 0): Promise<{ session: string; tokens: Tokens }> {
  const holder = holders[index % holders.length] as Holder;
  const ask: Ask = (each) => ours.client.ask(each);
  return { session: await oldLogin(ask, holder, "password"), tokens: await oidcLogin(ask, holder, "password") };
}

async function measureRequests(work: Work): Promise<void> {
  const { ours, emit } = work;
  const { session, tokens } = await bothWays(work);
  const path = `${CLIENT}/current-identity`;
  const [withSession, withToken] = await alternate(
    work,
    () => ours.client.ask({ method: "GET", path, token: session }),
    () => ours.client.ask({ method: "GET", path, bearer: tokens.access_token }),
  );
  // 3 % is what two rounds of the same work differ by.
  emitRatio(emit, "request with an access token beside a session token", withToken, withSession, 1.03);
}

async function measureRefresh(work: Work): Promise<void> {
  const { ours, emit } = work;
  const held = await Promise.all(Array.from({ length: AT_A_TIME }, (_, index) => bothWays(work, index)));
  const free = [...held];
  const refresh = async (): Promise<void> => {
    const own = free.pop();
    if (own === undefined) throw new Error("more refreshes at once than sessions");
    const form = { grant_type: "refresh_token", client_id: "openziti", refresh_token: own.tokens.refresh_token };
    const answer = await ours.client.ask({ method: "POST", path: "/oidc/oauth/token", form, token: "" });
    free.push({ ...own, tokens: JSON.parse(answer.text) as Tokens });
  };
  const path = `${CLIENT}/current-api-session`;
  const [read, refreshed] = await alternate(
    work,
    (index) => ours.client.ask({ method: "GET", path, token: held[index % held.length]?.session ?? "" }),
    refresh,
  );
  const most = 1.2 * read + 1;
  emit({
    ...{ figure: "refresh", unit: "ms of CPU", value: rounded(refreshed), beside: rounded(read) },
    ...{ target: rounded(most), isMet: refreshed <= most },
  });
}

/** From the answer to a revocation to the first request that is refused, below a steady load. */
async function measureRevocations(work: Work): Promise<void> {
  const { ours, emit } = work;
  const busy = new AbortController();
  const { tokens: others } = await bothWays(work);
  const load = steady(500, busy.signal, () =>
    ours.client.ask({ method: "GET", path: `${CLIENT}/current-identity`, bearer: others.access_token }),
  );
  // Its failure is thrown where it is awaited, below.
  load.catch(() => {});
  const times: number[] = [];
  for (let index = 0; index < work.perRound; index++) {
    const { tokens } = await bothWays(work, index);
    const form = { client_id: "openziti", token: tokens.access_token };
    await ours.client.ask({ method: "POST", path: "/oidc/revoke", form, token: "" });
    const began = performance.now();
    const ask = { method: "GET", path: `${CLIENT}/current-identity`, bearer: tokens.access_token } as const;
    while (
      await ours.client.ask(ask).then(
        () => true,
        () => false,
      )
    )
      await pause(1);
    times.push(performance.now() - began);
  }
  busy.abort();
  await load;
  const p99Ms = quantile(
    times.toSorted((a, b) => a - b),
    0.99,
  );
  emit({
    figure: "revoked until refused by the API",
    unit: "ms",
    p99: rounded(p99Ms),
    target: 1_000,
    isMet: p99Ms < 1_000,
  });
}

/** No more calls of a steady load are under way: each has a connection, and the controller limits those of one address. */
const MAX_RUNNING = 64;

/** `perSecond` calls until the signal, whatever earlier ones take; fewer when the machine cannot keep up. @returns how many were made */
async function steady(perSecond: number, signal: AbortSignal, call: () => Promise<unknown>): Promise<number> {
  const running = new Set<Promise<unknown>>();
  const failed: unknown[] = [];
  const began = performance.now();
  let sent = 0;
  while (!signal.aborted && failed.length === 0) {
    const due = ((performance.now() - began) / 1_000) * perSecond;
    for (; sent < due && running.size < MAX_RUNNING; sent++) {
      const one: Promise<unknown> = call()
        .catch((error: unknown) => failed.push(error))
        .finally(() => running.delete(one));
      running.add(one);
    }
    await pause(5);
  }
  await Promise.all(running);
  if (failed.length > 0) throw failed[0];
  return sent;
}

/** Many clients that are logged in and ask now and then: the memory they take, and the reads of their rows. */
async function measureSteady(work: Work, metricsPort: number, seconds: number): Promise<void> {
  const { ours, holders, perRound: sessions, emit } = work;
  const before = ours.memory().controller;
  const tokens: { readonly client: LoadClient; readonly token: string }[] = [];
  const clients = holders.map(({ cert, key }) => new LoadClient(ours.port, { cert, key }));
  await together(sessions, async (index) => {
    const at = index % holders.length;
    const client = clients[at] as LoadClient;
    const { access_token } = await oidcLogin((each) => client.ask(each), holders[at] as Holder, "cert");
    tokens.push({ client, token: access_token });
  });
  let next = 0;
  const askNext = async () => {
    const { client, token } = tokens[next++ % tokens.length] as (typeof tokens)[number];
    await client.ask({ method: "GET", path: `${CLIENT}/current-identity`, bearer: token });
  };
  // The first request after a login reads its row.
  await together(sessions, askNext);
  const readBefore = await rowsRead(metricsPort);
  const requests = await steady(STEADY_RATE, AbortSignal.timeout(seconds * 1_000), askNext);
  const perRequest = ((await rowsRead(metricsPort)) - readBefore) / requests;
  const grown = ours.memory().controller - before;
  for (const client of clients) client.close();
  emit({
    figure: "row reads per request",
    sessions,
    requests,
    value: perRequest,
    target: 0.001,
    isMet: perRequest <= 0.001,
  });
  emit({
    figure: "memory of logged-in clients",
    unit: "MiB",
    sessions,
    value: rounded(grown),
    target: 40,
    isMet: grown <= 40,
  });
}

async function rowsRead(port: number): Promise<number> {
  const sent = request({ host: "127.0.0.1", port, path: "/metrics", agent: false });
  const body = await new Promise<string>((resolve, reject) => {
    sent.on("response", (response) => resolve(text(response)));
    sent.on("error", reject);
    sent.end();
  });
  return Number(/^sallyport_session_rows_read_total(?:\{[^}]*\})? (\S+)$/m.exec(body)?.[1] ?? Number.NaN);
}
