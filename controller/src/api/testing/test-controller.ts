/** A controller without routers, for tests: real PostgreSQL, real PKI, all APIs over real TLS; answers are held against the contract. */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { type Agent, request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import { type Identity, silentLogger, TlsPort } from "@sallyport/wire";
import type { Authentication, AuthSettings } from "../../auth/authentication.ts";
import { hashPassword } from "../../auth/password.ts";
import { startTokens } from "../../auth/tokens/tokens.ts";
import { newRequestId } from "../../http/answer.ts";
import { type HttpApi, startHttp } from "../../http/server.ts";
import type { ModelContext, OidcSettings } from "../../model/context.ts";
import { createFabricModel } from "../../model/fabric/fabric-model.ts";
import { createModel, type Model } from "../../model/model.ts";
import { seed, seedAdmin } from "../../model/seeds.ts";
import { databaseFailure } from "../../model/store-errors.ts";
import { ChangingReplicas, testReplica } from "../../model/testing/changing-replicas.ts";
import { TEST_TIMES } from "../../model/testing/test-context.ts";
import { startUpkeep } from "../../model/upkeep.ts";
import { createPages } from "../../oidc/pages/login-pages.ts";
import { createProvider } from "../../oidc/provider.ts";
import { createPkiMaterial } from "../../pki/material.ts";
import { Pki } from "../../pki/pki.ts";
import { DEFAULT_LIFETIMES } from "../../pki/testing.ts";
import { NetworkMemory } from "../../replicas/network-memory.ts";
import type { ReplicaCalls } from "../../replicas/replica-calls.ts";
import { type OwnFabric, WholeNetwork } from "../../replicas/whole-network.ts";
import { openStore } from "../../store/database.ts";
import { networkInstanceId } from "../../store/instance-id.ts";
import { withinRequest } from "../../store/request-signal.ts";
import { Secrets } from "../../store/secrets.ts";
import { type TestStore, type TestStoreOptions, testStore } from "../../store/testing/test-store.ts";
import { createApi } from "../api.ts";
import type { FabricView, RouterView } from "../dependencies.ts";
import { TestNetwork } from "./test-network.ts";

export interface Answer {
  readonly status: number;
  readonly headers: Record<string, string | string[] | undefined>;
  /** Raw header names and values in turn. */
  readonly rawHeaders: readonly string[];
  readonly text: string;
  readonly bytes: Buffer;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  readonly json: any;
}

export interface CallOptions {
  readonly body?: unknown;
  readonly token?: string;
  readonly headers?: Record<string, string | string[]>;
  readonly cert?: string;
  readonly key?: string;
  /** Whose connection is used; otherwise a new one. */
  readonly agent?: Agent;
  /** Hangs up. */
  readonly signal?: AbortSignal;
}

export interface TestController {
  readonly ctx: ModelContext;
  readonly replicas: ChangingReplicas;
  readonly model: Model;
  readonly authentication: Authentication;
  readonly fabricModel: ReturnType<typeof createFabricModel>;
  readonly pki: Pki;
  readonly port: number;
  /** The clock of the model: tests set it. */
  readonly clock: { offsetMs: number };
  /** Routers that are online, by id. */
  readonly online: Map<string, RouterView>;
  /** Links and circuits, as the test puts them there. */
  readonly network: TestNetwork;
  /** Tokens of the sessions that were announced, in order. */
  readonly announced: string[];
  /** Serves with another certificate from now on. */
  serve(identity: Identity): void;
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  /** Management API as the administrator. */
  admin(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Answer>;
  /** A POST that has to succeed; answers the id. */
  make(collection: string, body: unknown): Promise<string>;
  login(username: string, password: string): Promise<string>;
  close(): Promise<void>;
}

export async function startTestController(
  options: TestStoreOptions & {
    readonly auth?: AuthSettings;
    /** Settings of logins by OIDC in place of the defaults. */
    readonly oidc?: Partial<OidcSettings>;
    readonly allowedOrigins?: readonly string[];
    /** Makes the fabric on the controller's port, in place of one without routers. The test closes it before the controller. */
    readonly fabric?: (parts: {
      readonly port: TlsPort;
      readonly pki: Pki;
      readonly fabricModel: TestController["fabricModel"];
      readonly model: Model;
    }) => FabricView & OwnFabric;
    /** A controller on whose database, with whose keys and clock, this one works, too. It has to be closed later. */
    readonly beside?: TestController;
    /** How many controllers it takes for alive; default one, whatever `beside` says. */
    readonly liveReplicas?: () => number;
    /** How it asks other controllers about their circuits; default: it has no others. */
    readonly calls?: ReplicaCalls;
  } = {},
): Promise<TestController> {
  const { beside } = options;
  const { store, drop } = beside === undefined ? await testStore(options) : await storeBeside(beside);
  const log = options.log ?? silentLogger;
  const pki = beside?.pki ?? (await newPki());
  const port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity: pki.serverIdentity, log: silentLogger });
  const snapshotFolder = await mkdtemp(join(tmpdir(), "sallyport-snapshots-"));
  const clock = beside?.clock ?? { offsetMs: 0 };
  const now = () => new Date(Date.now() + clock.offsetMs);
  const secrets = beside?.ctx.secrets ?? new Secrets(randomBytes(32));
  const apiAddress = `localhost:${port.port}`;
  const oidc = { ...TEST_TIMES.oidc, ...options.oidc };
  const tokens = await startTokens({ store, pki, secrets, lives: oidc, apiAddress, now, log });
  const replicas = new ChangingReplicas([testReplica(pki.controllerId, port.port)]);
  const ctx: ModelContext = {
    ...{ store, pki, secrets, tokens, replicas, now, log },
    liveReplicas: options.liveReplicas ?? (() => 1),
    settings: { ...TEST_TIMES, apiAddress, snapshotFolder, oidc },
  };
  if (beside === undefined) {
    await seed(store);
    await seedAdmin(store, { name: "Default Admin", username: "admin", passwordHash: await hashPassword("admin") });
  }
  const model = createModel(ctx);
  const fabricModel = createFabricModel(ctx, model);
  const upkeep = startUpkeep(ctx, model);
  const online = new Map<string, RouterView>();
  const announced: string[] = [];
  const network = new TestNetwork();
  const fabric: FabricView & OwnFabric = options.fabric?.({ port, pki, fabricModel, model }) ?? {
    routerState: (id) => online.get(id),
    someRouterBack: async () => {},
    onlineRouterIds: () => [...online.keys()],
    dynamicCost: () => 0,
    ...network.view(),
    chooseTerminator: (request, terminators) => network.choose([...online.keys()], request, terminators),
    identityConnection: () => "unknown",
    announceApiSession: async (session) => {
      announced.push(session.token);
    },
  };
  const info = {
    version: { version: "v1.6.20", revision: "r", buildDate: "d", os: "o", arch: "a" },
    runtimeVersion: "node",
    apiAddress: ctx.settings.apiAddress,
  };
  const auth = options.auth ?? CONTROLLER_DEFAULTS.auth;
  const { allowedOrigins = [] } = options;
  const wholeNetwork = new WholeNetwork(fabric, options.calls);
  const memory = new NetworkMemory(model, options.calls);
  const api = createApi({ ctx, model, fabric, network: wholeNetwork, memory, info, auth });
  const http: HttpApi = await startHttp({
    port,
    instanceId: await networkInstanceId(store.db, newRequestId()),
    handlers: api.handlers,
    authenticate: api.authenticate,
    log,
    validateResponses: true,
    translate: databaseFailure,
    within: (request, work) => withinRequest(request, work, () => store.replica.known()),
    allowedOrigins,
    endpoints: oidc.enabled
      ? createProvider({
          authentication: api.authentication,
          ...{ model, tokens, settings: oidc, rates: auth.rateLimits, allowedOrigins, now, log },
          liveReplicas: ctx.liveReplicas,
          servedHosts: () => ["localhost", "127.0.0.1", "::1"],
          pages: createPages(apiAddress),
        })
      : [],
  });

  const call: TestController["call"] = (method, path, options = {}) =>
    new Promise((resolve, reject) => {
      const isText = typeof options.body === "string";
      const body =
        options.body === undefined ? undefined : isText ? String(options.body) : JSON.stringify(options.body);
      const headers: Record<string, string | string[]> = {
        ...(body === undefined || isText ? {} : { "content-type": "application/json" }),
        // Node frames the body of a DELETE only by this.
        ...(body === undefined ? {} : { "content-length": String(Buffer.byteLength(body)) }),
        ...(options.token === undefined ? {} : { "zt-session": options.token }),
        ...options.headers,
      };
      const sent = httpsRequest(
        {
          host: "127.0.0.1",
          port: port.port,
          servername: "localhost",
          ca: pki.caBundlePem,
          method,
          path,
          headers,
          agent: options.agent ?? false,
          ...(options.signal && { signal: options.signal }),
          ...(options.cert === undefined ? {} : { cert: options.cert, key: options.key }),
        },
        (response) => {
          const chunks: Buffer[] = [];
          response.on("data", (chunk: Buffer) => chunks.push(chunk));
          response.on("error", reject);
          response.on("end", () => {
            const bytes = Buffer.concat(chunks);
            const text = bytes.toString();
            const isJson = response.headers["content-type"] === "application/json";
            resolve({
              status: response.statusCode ?? 0,
              headers: response.headers,
              rawHeaders: response.rawHeaders,
              text,
              bytes,
              json: isJson ? JSON.parse(text) : undefined,
            });
          });
        },
      );
      sent.on("error", reject);
      sent.end(body);
    });
  const login = async (username: string, password: string): Promise<string> => {
    const answer = await call("POST", "/edge/management/v1/authenticate?method=password", {
      body: { username, password },
    });
    if (answer.status !== 200) throw new Error(`login answered ${answer.status}: ${answer.text}`);
    return answer.json.data.token;
  };
  let adminToken = await login("admin", "admin");
  const admin: TestController["admin"] = async (method, path, body, signal) => {
    const headers: Record<string, string> = typeof body === "string" ? { "content-type": "text/plain" } : {};
    const send = () =>
      call(method, `/edge/management/v1${path}`, { token: adminToken, body, headers, ...(signal && { signal }) });
    const answer = await send();
    if (answer.status !== 401) return answer;
    // A test has let the sessions expire.
    adminToken = await login("admin", "admin");
    return send();
  };

  return {
    ctx,
    model,
    authentication: api.authentication,
    fabricModel,
    replicas,
    pki,
    port: port.port,
    clock,
    serve: (identity) => port.setIdentity(identity),
    online,
    network,
    announced,
    call,
    admin,
    login,
    async make(collection, body) {
      const answer = await admin("POST", `/${collection}`, body);
      if (answer.status !== 201) throw new Error(`POST ${collection} answered ${answer.status}: ${answer.text}`);
      return answer.json.data.id;
    },
    async close() {
      fabricModel.close();
      await http.close();
      await upkeep.stop();
      tokens.close();
      await port.close();
      await drop();
      await rm(snapshotFolder, { recursive: true, force: true });
    },
  };
}

async function newPki(): Promise<Pki> {
  const hosts = ["localhost", "127.0.0.1"];
  const material = await createPkiMaterial({ lifetimes: DEFAULT_LIFETIMES, controllerId: "controller", hosts });
  return new Pki(material, { lifetimes: DEFAULT_LIFETIMES });
}

async function storeBeside({ ctx: { store: other, log } }: TestController): Promise<Pick<TestStore, "store" | "drop">> {
  const store = await openStore({ connection: other.connection, hold: false, poolSize: 10, log });
  return { store, drop: () => store.close() };
}
