/**
 * "Why not?" says yes exactly when a dial works: a real controller with its store, its APIs and its fabric, and routers that connect, link and take every route.
 * The dial is that of an SDK: log in, ask for a session, and ask each router that the answer lists for a circuit.
 */
import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import {
  ControlType,
  CreateCircuitHeader,
  ctrlPb,
  EdgeCtrlType,
  encodeControl,
  identityFromPem,
  PeerData,
  silentLogger,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import fc from "fast-check";
import { sql } from "kysely";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { fabricOptions } from "../../config/settings.ts";
import { rememberedDials } from "../../fabric/circuits/remembered-dials.ts";
import { Fabric } from "../../fabric/fabric.ts";
import { dialHeaders } from "../../fabric/testing/circuit-mesh.ts";
import { ScriptedRouter } from "../../fabric/testing/scripted-router.ts";
import { startTestController, type TestController } from "../testing/test-controller.ts";

const PASSWORD = "correct horse";
const ROUTERS = ["r1", "r2"] as const;
type RouterName = (typeof ROUTERS)[number];

let c: TestController;
let fabric: Fabric;
let authority: TestAuthority;
const idOf = new Map<RouterName, string>();
const connected = new Map<RouterName, ScriptedRouter>();

beforeAll(async () => {
  authority = await TestAuthority.create();
  c = await startTestController({
    fabric: ({ port, pki, fabricModel, model }) => {
      fabric = new Fabric({
        ...{ ports: [port], controllerId: pki.controllerId, model: fabricModel, log: silentLogger },
        trustAnchors: () => [...pki.trustAnchors, ...identityFromPem(authorityPem()).anchors],
        options: { ...fabricOptions(CONTROLLER_DEFAULTS), reconnectGraceMs: 0, returnWaitMs: 0 },
      });
      fabric.onEvent(rememberedDials(model.failedDials));
      return fabric;
    },
  });
  for (const name of ROUTERS) idOf.set(name, await c.make("edge-routers", { name, roleAttributes: [name] }));
}, 60_000);

afterAll(async () => {
  for (const router of connected.values()) router.close();
  await fabric?.close();
  await c?.close();
});

const authorityPem = () => ({ certPem: authority.certPem, keyPem: authority.keyPem, caPem: authority.certPem });
const routerId = (name: RouterName) => idOf.get(name) ?? "";

/** A policy as it is drawn: whom it selects on its two sides. */
interface Drawn {
  readonly semantic: "AllOf" | "AnyOf";
  readonly from: readonly string[];
  readonly to: readonly string[];
}

interface State {
  readonly isDisabled: boolean;
  readonly identity: readonly string[];
  readonly service: readonly string[];
  readonly encryptionRequired: boolean;
  readonly policies: readonly (Drawn & { readonly type: "Dial" | "Bind"; readonly hasCheck: boolean })[];
  readonly reported: "nothing" | "Linux" | "Windows";
  readonly identityRouters: readonly Drawn[];
  readonly serviceRouters: readonly Drawn[];
  readonly routers: Readonly<Record<RouterName, "online" | "offline" | "disabled" | "deaf">>;
  readonly isLinked: boolean;
  readonly terminators: readonly {
    readonly router: RouterName;
    readonly hasKey: boolean;
    readonly instanceId: string;
  }[];
}

const attributes = fc.subarray(["a", "b"]);
/** Mostly what lets a dial through: of states that are drawn evenly nearly all are refused. */
const roles = (named: readonly string[]) =>
  fc.oneof(
    { weight: 5, arbitrary: fc.constant(["#all"]) },
    { weight: 2, arbitrary: fc.subarray([...named], { minLength: 1 }) },
  );
const drawn = (from: readonly string[], to: readonly string[]): fc.Arbitrary<Drawn> =>
  fc.record({ semantic: fc.constantFrom("AllOf", "AnyOf"), from: roles(from), to: roles(to) });
const mostly = <T>(usual: T, ...others: readonly T[]): fc.Arbitrary<T> =>
  fc.oneof(
    { weight: 4, arbitrary: fc.constant(usual) },
    ...others.map((other) => ({ weight: 1, arbitrary: fc.constant(other) })),
  );

const OF_IDENTITY = ["#a", "#b", "@identity"];
const OF_SERVICE = ["#a", "#b", "@service"];
const OF_ROUTERS = ["#r1", "#r2"];
/** One or two, and now and then none. */
const some = <T>(one: fc.Arbitrary<T>): fc.Arbitrary<T[]> =>
  fc.oneof(
    { weight: 12, arbitrary: fc.array(one, { minLength: 1, maxLength: 2 }) },
    { weight: 1, arbitrary: fc.constant<T[]>([]) },
  );
const routerState = mostly<State["routers"]["r1"]>("online", "offline", "disabled", "deaf");

const states: fc.Arbitrary<State> = fc.record({
  isDisabled: fc.nat(19).map((chance) => chance === 7),
  identity: attributes,
  service: attributes,
  encryptionRequired: fc.boolean(),
  policies: some(
    drawn(OF_IDENTITY, OF_SERVICE).chain((policy) =>
      fc
        .record({ type: mostly<"Dial" | "Bind">("Dial", "Bind"), hasCheck: mostly(false, true) })
        .map((more) => ({ ...policy, ...more })),
    ),
  ),
  reported: mostly<State["reported"]>("Linux", "nothing", "Windows"),
  identityRouters: some(drawn(OF_IDENTITY, OF_ROUTERS)),
  serviceRouters: some(drawn(OF_SERVICE, OF_ROUTERS)),
  routers: fc.record({ r1: routerState, r2: routerState }),
  isLinked: mostly(true, false),
  terminators: some(
    fc.record({
      router: fc.constantFrom(...ROUTERS),
      hasKey: mostly(true, false),
      instanceId: mostly("", "", "printer"),
    }),
  ),
});

const ALL: Drawn = { semantic: "AnyOf", from: ["#all"], to: ["#all"] };
const WORKING: State = {
  ...{ isDisabled: false, identity: ["a"], service: ["b"], encryptionRequired: true, reported: "Linux" },
  policies: (["Dial", "Bind"] as const).map((type) => ({ ...ALL, type, hasCheck: false })),
  ...{ identityRouters: [ALL], serviceRouters: [ALL], routers: { r1: "online", r2: "online" }, isLinked: true },
  terminators: [{ router: "r2", hasKey: true, instanceId: "" }],
};
/** Whatever is drawn, these are among the states: one that works, and one for each of the most frequent obstacles. */
const ALWAYS: readonly State[] = [
  WORKING,
  { ...WORKING, isDisabled: true },
  { ...WORKING, policies: [] },
  { ...WORKING, identityRouters: [] },
  { ...WORKING, serviceRouters: [] },
  { ...WORKING, terminators: [] },
  { ...WORKING, routers: { r1: "offline", r2: "offline" } },
];

let count = 0;
/** Removes what a state added, so that policies for all concern no later one. */
const made: string[] = [];

async function make(collection: string, body: object): Promise<string> {
  const id = await c.make(collection, body);
  made.push(`/${collection}/${id}`);
  return id;
}

async function cleanUp(): Promise<void> {
  for (const path of made.splice(0).reverse()) await c.admin("DELETE", path);
}

/** Brings the routers and their link into the state. */
async function arrange({ routers, isLinked }: State): Promise<void> {
  for (const name of ROUTERS) {
    connected.get(name)?.close();
    connected.delete(name);
    await vi.waitFor(() => expect(fabric.onlineRouterIds()).not.toContain(routerId(name)), { timeout: 10_000 });
    await c.admin("PATCH", `/edge-routers/${routerId(name)}`, { disabled: routers[name] === "disabled" });
  }
  for (const name of ROUTERS) {
    if (routers[name] === "offline" || routers[name] === "disabled") continue;
    connected.set(name, await connect(name, routers[name] === "deaf"));
  }
  const [from, to] = ROUTERS.map((name) => connected.get(name));
  if (!isLinked || from === undefined || to === undefined) return;
  const links = [
    { id: `link-${count}`, destRouterId: to.id, linkProtocol: "tls", dialAddress: "tls:x:1", iteration: 1 },
  ];
  from.send(ControlType.RouterLinks, encodeControl(ctrlPb.RouterLinksSchema, { links }));
  await from.roundTrip();
  await vi.waitFor(() => expect(fabric.link(`link-${count}`)).toBeDefined(), { timeout: 10_000 });
}

async function connect(name: RouterName, isDeaf: boolean): Promise<ScriptedRouter> {
  const id = routerId(name);
  const { certPem, keyPem } = await authority.issue({ commonName: id });
  const identity = identityFromPem({ certPem, keyPem, caPem: c.pki.caBundlePem });
  await sql`UPDATE router SET fingerprint = ${identity.leafFingerprint}, is_verified = true WHERE id = ${id}`.execute(
    c.ctx.store.db,
  );
  const router = await ScriptedRouter.connect({ port: c.port, id, identity });
  router.channel.handle(ControlType.Route, (message) => router.acceptRoute(message));
  if (!isDeaf) {
    await router.hello();
    const hasListener = () => Object.keys(fabric.routerState(id)?.supportedProtocols ?? {}).length > 0;
    await vi.waitFor(() => expect(hasListener()).toBe(true), { timeout: 10_000 });
  }
  return router;
}

interface Subjects {
  readonly identityId: string;
  readonly serviceId: string;
  readonly username: string;
}

/** The entities of a state. The login comes before anything that could refuse it, and the report of the device with it. */
async function populate(state: State): Promise<Subjects & { readonly token: string }> {
  const tag = `p${++count}`;
  const username = `user-${tag}`;
  const identityId = await make("identities", {
    name: tag,
    type: "User",
    isAdmin: false,
    roleAttributes: state.identity,
  });
  await c.make("authenticators", { method: "updb", identityId, username, password: PASSWORD });
  const serviceId = await make("services", {
    name: tag,
    encryptionRequired: state.encryptionRequired,
    roleAttributes: state.service,
  });
  const named = (list: readonly string[]) =>
    list.map((role) => role.replace("@identity", `@${identityId}`).replace("@service", `@${serviceId}`));
  await make("posture-checks", {
    name: tag,
    typeId: "OS",
    operatingSystems: [{ type: "Linux" }],
    roleAttributes: [tag],
  });
  for (const [at, { type, semantic, from, to, hasCheck }] of state.policies.entries()) {
    const postureCheckRoles = hasCheck ? [`#${tag}`] : [];
    await make("service-policies", {
      name: `${tag}-${at}`,
      type,
      semantic,
      identityRoles: named(from),
      serviceRoles: named(to),
      postureCheckRoles,
    });
  }
  for (const [at, { semantic, from, to }] of state.identityRouters.entries()) {
    await make("edge-router-policies", {
      name: `${tag}-${at}`,
      semantic,
      identityRoles: named(from),
      edgeRouterRoles: to,
    });
  }
  for (const [at, { semantic, from, to }] of state.serviceRouters.entries()) {
    await make("service-edge-router-policies", {
      name: `${tag}-${at}`,
      semantic,
      serviceRoles: named(from),
      edgeRouterRoles: to,
    });
  }
  const hostId = await make("identities", { name: `host-${tag}`, type: "User", isAdmin: false });
  await make("service-policies", {
    name: `host-${tag}`,
    type: "Bind",
    semantic: "AnyOf",
    identityRoles: [`@${hostId}`],
    serviceRoles: [`@${serviceId}`],
  });
  for (const { router, hasKey, instanceId } of state.terminators) {
    const outcome = await c.fabricModel.createTerminator({
      ...{
        serviceId,
        routerId: routerId(router),
        binding: "edge",
        address: "a",
        cost: 0,
        precedence: "default",
        hostId,
        instanceId,
      },
      peerData: new Map(hasKey ? [[PeerData.PublicKey, Buffer.from("host")]] : []),
    });
    expect(outcome.outcome).toBe("created");
  }
  const token = await c.login(username, PASSWORD);
  if (state.reported !== "nothing") {
    const body = { typeId: "OS", id: "x", type: state.reported, version: "6.1.0" };
    expect((await c.call("POST", "/edge/client/v1/posture-response", { token, body })).status).toBe(201);
  }
  if (state.isDisabled) await c.admin("POST", `/identities/${identityId}/disable`, { durationMinutes: 0 });
  return { identityId, serviceId, username, token };
}

/** What an SDK does. */
async function dials({ serviceId, token }: Subjects & { readonly token: string }): Promise<boolean> {
  const answer = await c.call("POST", "/edge/client/v1/sessions", { token, body: { serviceId, type: "Dial" } });
  if (answer.status !== 201) return false;
  const { token: sessionToken, edgeRouters } = answer.json.data;
  for (const { name, isOnline, supportedProtocols } of edgeRouters) {
    if (!isOnline || Object.keys(supportedProtocols).length === 0) continue;
    const headers = dialHeaders(sessionToken, new Map([[PeerData.PublicKey, Buffer.from("client")]]));
    headers.setString(CreateCircuitHeader.ApiSessionToken, token);
    const router = connected.get(name as RouterName);
    const circuit = await router?.request({ contentType: EdgeCtrlType.CreateCircuitV2Request, headers });
    if (circuit?.contentType === EdgeCtrlType.CreateCircuitV2Response) return true;
  }
  return false;
}

it("says yes exactly when a dial works", async () => {
  const seen = { yes: 0, no: new Map<string, number>() };
  await fc.assert(
    fc
      .asyncProperty(states, async (state) => {
        await arrange(state);
        const subjects = await populate(state);
        const { identityId, serviceId, token } = subjects;
        const { data } = (await c.admin("GET", `/identities/${identityId}/why/${serviceId}`)).json;
        const own = await c.call("GET", `/edge/client/v1/services/${serviceId}/why`, { token });
        const works = await dials(subjects);
        expect({ allowed: data.allowed, first: data.firstProblem?.message }).toEqual({
          ...{ allowed: works, first: data.firstProblem?.message },
        });
        if (own.status === 200) expect(own.json.data.allowed).toBe(works);
        else expect(works).toBe(false);
        if (works) seen.yes++;
        else seen.no.set(data.firstProblem.code, (seen.no.get(data.firstProblem.code) ?? 0) + 1);
      })
      .afterEach(cleanUp),
    {
      ...{ numRuns: 30, interruptAfterTimeLimit: 150_000, markInterruptAsFailure: false },
      examples: ALWAYS.map((state) => [state]),
    },
  );
  // The states are of every kind, or the test shows nothing.
  expect(seen.yes).toBeGreaterThan(0);
  expect(seen.no.size).toBeGreaterThan(4);
}, 240_000);
