import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { silentLogger } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ApiSession } from "./api-session.ts";
import { SecondFactors } from "./login/second-factors.ts";

/** Routers that a page holds unless a query says how many. */
const PAGE = 10;

interface Router {
  readonly name: string;
  readonly isOnline: boolean;
  readonly supportedProtocols: Readonly<Record<string, string>>;
}

let routers: readonly Router[];
let server: Server;
let authority: TestAuthority;
let session: ApiSession;

const away = (name: string): Router => ({ name, isOnline: false, supportedProtocols: {} });
const online = (name: string): Router => ({ name, isOnline: true, supportedProtocols: { tls: `tls://${name}:1` } });

/** Controllers list routers that are offline, too. */
function ownRouters(query: URLSearchParams): object {
  const limit = Number(query.get("limit") ?? PAGE);
  const offset = Number(query.get("offset") ?? 0);
  const data = routers.slice(offset, offset + limit).map((router) => ({ id: router.name, ...router }));
  return { data, meta: { pagination: { limit, offset, totalCount: routers.length } } };
}

function login(): object {
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  return {
    data: { token: "t", identityId: "i", identity: { id: "i", name: "i" }, authQueries: [], expiresAt },
    meta: {},
  };
}

beforeEach(async () => {
  authority = await TestAuthority.create();
  const identity = await authority.identity("localhost");
  server = createServer({ cert: identity.certPem, key: identity.keyPem }, (request, response) => {
    const url = new URL(request.url ?? "", "https://localhost");
    const answer = url.pathname.endsWith("/current-identity/edge-routers") ? ownRouters(url.searchParams) : login();
    response.setHeader("content-type", "application/json").end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  session = new ApiSession({
    controllerUrls: [`https://localhost:${(server.address() as AddressInfo).port}`],
    credentials: { kind: "certificate", identity },
    configTypes: [],
    factors: new SecondFactors({}),
    log: silentLogger,
    onToken: () => {},
    onReplaced: () => {},
  });
});

afterEach(async () => {
  await session.close();
  server.close();
});

it("knows the routers that are online, however many that are not stand in front of them", async () => {
  routers = [...Array.from({ length: 1_200 }, (_, i) => away(`away-${i}`)), online("eu"), online("us")];
  expect((await session.routers()).map(({ name }) => name)).toEqual(["eu", "us"]);
  expect(await session.hosts()).toEqual(["localhost", "eu", "us"]);
});

it("tells nothing to another component that answers in the controller's place", async () => {
  const { certPem, keyPem } = await authority.identity("localhost", { uri: ["spiffe://net/identity/i/apiSession/s"] });
  server.setSecureContext({ cert: certPem, key: keyPem });
  await expect(session.routers()).rejects.toMatchObject({
    message: expect.stringContaining("expected the certificate of a controller"),
  });
});
