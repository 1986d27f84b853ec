/** The life of a router of OpenZiti 2.x on this controller, over a real control channel and the real model. */
import { X509Certificate } from "node:crypto";
import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import {
  BaseHeader,
  ControlHello,
  ControlType,
  ControlUnderlay,
  CreateCircuitHeader,
  createCsr,
  createKeyPair,
  ctrlPb,
  decodeControl,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  Headers,
  type Identity,
  identityFromPem,
  type Message,
  silentLogger,
  TlsPort,
} from "@sallyport/wire";
import { compactVerify, decodeJwt, decodeProtectedHeader } from "jose";
import { sql } from "kysely";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startTestController, type TestController } from "../../api/testing/test-controller.ts";
import { fabricOptions } from "../../config/settings.ts";
import { Fabric } from "../../fabric/fabric.ts";
import { ScriptedRouter } from "../../fabric/testing/scripted-router.ts";
import { eventually } from "../../fabric/testing/test-fabric.ts";

let c: TestController;
let port: TlsPort;
let fabric: Fabric;
let routerId = "";
let identity: Identity;

beforeAll(async () => {
  c = await startTestController();
  port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity: c.pki.serverIdentity });
  fabric = new Fabric({
    ...{ ports: [port], controllerId: "controller", model: c.fabricModel, log: silentLogger },
    trustAnchors: () => c.pki.trustAnchors,
    options: fabricOptions(CONTROLLER_DEFAULTS),
  });
  routerId = await c.make("edge-routers", { name: "two" });
  identity = await enrolled(routerId);
});
afterAll(async () => {
  await fabric.close();
  await port.close();
  await c.close();
});

async function enrolled(id: string): Promise<Identity> {
  const { enrollmentToken } = (await c.admin("GET", `/edge-routers/${id}`)).json.data;
  const { keyPem } = await createKeyPair();
  const csr = await createCsr({ commonName: id, keyPem });
  const path = `/edge/client/v1/enroll?method=erott&token=${enrollmentToken}`;
  const { cert, ca } = (await c.call("POST", path, { body: { certCsr: csr, serverCertCsr: csr } })).json.data;
  return identityFromPem({ certPem: cert, keyPem, caPem: ca });
}

const connect = (extra: object = {}) =>
  ScriptedRouter.connect({ port: port.port, identity, id: routerId, generation: 2, ...extra });

/** A session of alice, who may dial and host everything. */
async function openSession(token: string, serviceId: string, type: "Dial" | "Bind") {
  const { data } = (await c.call("POST", "/edge/client/v1/sessions", { token, body: { serviceId, type } })).json;
  return { id: data.id as string, token: data.token as string };
}

function dial(router: ScriptedRouter, sessionToken: string, apiSessionToken: string): Promise<Message> {
  const headers = new Headers()
    .setString(CreateCircuitHeader.SessionToken, sessionToken)
    .setString(CreateCircuitHeader.ApiSessionToken, apiSessionToken);
  return router.request({ contentType: EdgeCtrlType.CreateCircuitV2Request, headers });
}

/** A login by OIDC, as its row and its token stand. */
async function loggedIn(identityId: string): Promise<{ readonly id: string; readonly token: string }> {
  const id = "login-by-oidc";
  const until = new Date(Date.now() + 86_400_000);
  await sql`INSERT INTO api_session (id, token, identity_id, authenticator_id, ip_address, config_types, cert_fingerprints, kind, expires_at, access_until)
    VALUES (${id}, ${`oidc:${id}`}, ${identityId}, '', '', '{}', '{}', 'oidc', ${until}, ${until})`.execute(
    c.ctx.store.db,
  );
  const { token } = c.ctx.tokens.issuer.access({
    identity: { id: identityId, name: "alice", isAdmin: false, externalId: null },
    session: {
      ...{
        id,
        authenticatorId: "a",
        clientId: "openziti",
        scopes: ["openid"],
        amr: ["password"],
        authTime: new Date(),
      },
      ...{ configTypes: [], certFingerprints: [], loginFingerprint: null, allowExpired: false, isExtendable: false },
      ...{ isExtendRequested: false, isKeyRollRequested: false, improperClientCertChain: false },
      shown: { sdkInfo: null, envInfo: null, remoteAddress: "" },
    },
    issuer: "https://localhost/oidc",
    at: new Date(),
  });
  return { id, token };
}

it("connects, hosts, dials, is told of what ends, comes back, and is disabled", async () => {
  const serviceId = await c.make("services", { name: "svc", encryptionRequired: false });
  const all = { semantic: "AnyOf", edgeRouterRoles: ["#all"] };
  await c.make("edge-router-policies", { name: "all", ...all, identityRoles: ["#all"] });
  await c.make("service-edge-router-policies", { name: "all", ...all, serviceRoles: ["#all"] });
  const roles = { semantic: "AnyOf", identityRoles: ["#all"], serviceRoles: ["#all"] };
  for (const type of ["Dial", "Bind"]) await c.make("service-policies", { name: type, type, ...roles });
  const identityId = await c.make("identities", { name: "alice", type: "Default", isAdmin: false });
  await c.make("authenticators", { identityId, method: "updb", username: "alice", password: "correct horse" });

  // A router of 2.x goes away unless the mask promises signed service tokens and grouped channels.
  const router = await connect({ listeners: [{ address: "tls:two.example:6000", protocol: "tls" }] });
  for (const key of [ControlHello.Capabilities, ControlHello.CapabilitiesV2]) {
    expect(router.channel.result.get(key)?.toString("hex")).toBe("7e");
  }
  await router.hello();
  await router.join();
  const subscription = { subscriptionDurationSeconds: 300, subscriptionId: "first" };
  const subscribe = encodeControl(edgeCtrlPb.SubscribeToDataModelRequestSchema, subscription);
  router.send(EdgeCtrlType.SubscribeToDataModel, subscribe);
  const state = await router.next(EdgeCtrlType.DataState);
  expect(state.headers.getString(EdgeCtrlHeader.SubscriptionId)).toBe("first");
  const self = decodeControl(
    edgeCtrlPb.DataState_ChangeSetSchema,
    (await router.next(EdgeCtrlType.DataStateChangeSet)).body,
  );
  expect(self.changes.map(({ model }) => model)).toMatchObject([
    { case: "router", value: { id: routerId, name: "two" } },
  ]);

  // What the router verifies a service token with is in the model that it got before.
  const api = await c.login("alice", "correct horse");
  const [bind, own] = [await openSession(api, serviceId, "Bind"), await openSession(api, serviceId, "Dial")];
  const keys = decodeControl(edgeCtrlPb.DataStateSchema, state.body).events.flatMap(({ model }) =>
    model.case === "publicKey" ? [model.value] : [],
  );
  for (const { id, token } of [bind, own]) {
    const { kid } = decodeProtectedHeader(token);
    const key = keys.find((each) => each.kid === kid && each.usages.includes(0));
    await compactVerify(token, new X509Certificate(Buffer.from(key?.data ?? [])).publicKey);
    expect(decodeJwt(token)).toMatchObject({ jti: id, sub: serviceId, z_iid: identityId, z_t: "s", z_leg: true });
  }

  const bindBody = encodeControl(edgeCtrlPb.CreateTerminatorV2RequestSchema, {
    ...{ address: "t1", sessionToken: bind.token, apiSessionToken: api },
  });
  const created = await router.request({ contentType: EdgeCtrlType.CreateTerminatorV2Request, body: bindBody });
  expect(decodeControl(edgeCtrlPb.CreateTerminatorV2ResponseSchema, created.body)).toMatchObject({
    ...{ terminatorId: "t1", result: edgeCtrlPb.CreateTerminatorResult.Success, errorCode: 0 },
  });
  const ways = new Map<number, string>();
  router.channel.onFrame = ({ contentType }, { type }) => {
    ways.set(contentType, type);
    return false;
  };
  const answer = dial(router, own.token, api);
  router.acceptRoute((await router.nextRoute()).message);
  const circuit = await answer;
  expect(circuit.contentType).toBe(EdgeCtrlType.CreateCircuitV2Response);
  expect(ways.get(ControlType.Route)).toBe(ControlUnderlay.High);
  expect(ways.get(EdgeCtrlType.CreateCircuitV2Response)).toBe(ControlUnderlay.High);

  // It asks by the ids of sessions, and compares only ids.
  const sessionTokens = [own.id, bind.id, "no session"];
  router.send(
    EdgeCtrlType.ValidateSessionsRequest,
    encodeControl(edgeCtrlPb.ValidateSessionsRequestSchema, { sessionTokens }),
  );
  const gone = async () => {
    const { ids, tokens } = decodeControl(
      edgeCtrlPb.SessionRemovedSchema,
      (await router.next(EdgeCtrlType.SessionRemoved)).body,
    );
    expect(tokens).toHaveLength(ids.length);
    return ids;
  };
  expect(await gone()).toEqual(["no session"]);
  await c.admin("DELETE", `/sessions/${own.id}`);
  expect(await gone()).toEqual([own.id]);
  expect(await router.nextUnroute()).toMatchObject({ now: true });
  const refused = await dial(router, own.token, api);
  expect(refused.headers.getU32(EdgeCtrlHeader.ErrorCode)).toBe(3);

  // From no connection it comes back as the same process, with the secret of its group.
  const secret = router.channel.result.get(BaseHeader.GroupSecret) ?? Buffer.alloc(0);
  router.close();
  const again = await connect({ secret, previousConnection: `${router.channel.connectionId}-1` });
  await again.hello();
  await again.join();
  const links = encodeControl(ctrlPb.RouterLinksSchema, { fullRefresh: true });
  again.send(ControlType.RouterLinks, links);
  const next = await openSession(api, serviceId, "Dial");
  const second = dial(again, next.token, api);
  again.acceptRoute((await again.nextRoute()).message);
  expect((await second).contentType).toBe(EdgeCtrlType.CreateCircuitV2Response);

  // A dial by access token and service, which ends with its API session.
  const login = await loggedIn(identityId);
  const third = again.request({
    contentType: EdgeCtrlType.CreateCircuitV3Request,
    headers: new Headers()
      .setString(CreateCircuitHeader.IdentityId, identityId)
      .setString(CreateCircuitHeader.ServiceId, serviceId)
      .setString(CreateCircuitHeader.ApiSessionToken, login.token),
  });
  const { message, route } = await again.nextRoute();
  again.acceptRoute(message);
  expect((await third).contentType).toBe(EdgeCtrlType.CreateCircuitV3Response);
  await c.admin("DELETE", `/api-sessions/${login.id}`);
  expect(await again.nextUnroute()).toMatchObject({ circuitId: route.circuitId, now: true });

  await c.admin("PATCH", `/edge-routers/${routerId}`, { disabled: true });
  await again.channel.closed;
  await eventually(() => expect(fabric.onlineRouterIds()).toEqual([]));
});
