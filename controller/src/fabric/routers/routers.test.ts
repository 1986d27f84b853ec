import { ControlType, ctrlPb, decodeControl, EdgeCtrlType, edgeCtrlPb, encodeControl } from "@sallyport/wire";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ScriptedRouter } from "../testing/scripted-router.ts";
import { eventually, TestFabric } from "../testing/test-fabric.ts";

let net: TestFabric;
let router: ScriptedRouter;
beforeEach(async () => {
  net = await TestFabric.start();
  router = await net.connect("r1");
});
afterEach(() => net.stop());

describe("renewal of certificates", () => {
  const request = encodeControl(edgeCtrlPb.EnrollmentExtendRouterRequestSchema, {
    clientCertCsr: "c",
    serverCertCsr: "s",
    requireVerification: true,
  });
  const verify = async (clientCertPem: string) => {
    const body = encodeControl(edgeCtrlPb.EnrollmentExtendRouterVerifyRequestSchema, { clientCertPem });
    const answer = await router.request({ contentType: EdgeCtrlType.EnrollmentExtendRouterVerifyRequest, body });
    expect(answer.contentType).toBe(EdgeCtrlType.Error);
    return decodeControl(edgeCtrlPb.ErrorSchema, answer.body);
  };

  test("the certificates come as a message of their own; a failure is an answer", async () => {
    const failure = async () => {
      const answer = await router.request({ contentType: EdgeCtrlType.EnrollmentExtendRouterRequest, body: request });
      expect(answer.contentType).toBe(EdgeCtrlType.Error);
      return decodeControl(edgeCtrlPb.ErrorSchema, answer.body);
    };
    expect(await failure()).toMatchObject({ code: "RENEWAL_FAILED", message: "internal error" });
    net.model.extension = { refused: "the name ctrl.example belongs to the controller" };
    expect(await failure()).toMatchObject({
      code: "RENEWAL_REFUSED",
      message: "the name ctrl.example belongs to the controller",
    });
    net.model.extension = { clientCertPem: "client", serverCertPem: "server" };
    router.send(EdgeCtrlType.EnrollmentExtendRouterRequest, request);
    const message = await router.next(EdgeCtrlType.EnrollmentCertsResponse);
    expect(message.replyFor).toBeUndefined();
    const certs = decodeControl(edgeCtrlPb.EnrollmentCertsResponseSchema, message.body);
    expect(certs).toMatchObject({ clientCertPem: "client", serverCertPem: "server", caCertsPem: "" });
  });

  test("verification", async () => {
    expect(await verify("pem")).toMatchObject({ code: "", message: "" });
    expect(await verify("")).toMatchObject({ code: "MISSING_CLIENT_PEM" });
    net.model.verification = { code: "INVALID_CLIENT_PEM", message: "another certificate is pending" };
    expect(await verify("pem")).toMatchObject({
      code: "INVALID_CLIENT_PEM",
      message: "another certificate is pending",
    });
  });
});

describe("life cycle", () => {
  test("quiesce and dequiesce", async () => {
    net.model.addTerminator("t1", "svc", "r1", { precedence: "required" });
    const quiesced = await router.request({ contentType: ControlType.QuiesceRouter });
    expect(quiesced.body.toString()).toBe("router quiesced");
    expect(net.model.terminators.get("t1")?.precedence).toBe("failed");
    const back = await router.request({ contentType: ControlType.DequiesceRouter });
    expect(back.body.toString()).toBe("router dequiesced");
    expect(net.model.terminators.get("t1")?.precedence).toBe("required");
  });

  test("decommission deletes the router and closes its channel without an answer", async () => {
    router.send(ControlType.DecommissionRouter);
    await router.channel.closed;
    expect(net.model.routers.has("r1")).toBe(false);
  });

  test("decommission that fails is answered", async () => {
    net.model.routers.delete("r1");
    const answer = await router.request({ contentType: ControlType.DecommissionRouter });
    expect(answer.headers.getBool(2)).toBe(false);
  });

  test("interfaces are stored", async () => {
    const body = encodeControl(ctrlPb.RouterInterfacesUpdateSchema, {
      interfaces: [
        { name: "eth0", hardwareAddress: "02:00", mtu: 1500n, index: 2n, flags: 19n, addresses: ["10.0.0.1/8"] },
      ],
    });
    const answer = await router.request({ contentType: ControlType.RouterInterfacesUpdate, body });
    expect(answer.body.toString()).toBe("success");
    expect(net.model.interfaces.get("r1")).toEqual([
      { name: "eth0", hardwareAddress: "02:00", mtu: 1500, index: 2, flags: 19, addresses: ["10.0.0.1/8"] },
    ]);
  });

  test("link listeners that change are told to the other routers, and stay as they were when they are too many", async () => {
    const other = await net.connect("r2");
    await other.next(ControlType.PeerStateChanges);
    const listen = async (listeners: { address: string; protocol: string; groups: string[] }[]) => {
      router.send(ControlType.UpdateLinkListeners, encodeControl(ctrlPb.ListenersSchema, { listeners }));
      await router.roundTrip();
      return net.fabric.routerState("r1")?.linkListeners;
    };
    const moved = { address: "tls:r1.example:7000", protocol: "tls", groups: ["west"] };
    expect(await listen([moved])).toEqual([{ address: moved.address, protocol: "tls" }]);
    const { changes } = decodeControl(
      ctrlPb.PeerStateChangesSchema,
      (await other.next(ControlType.PeerStateChanges)).body,
    );
    expect(changes).toMatchObject([{ id: "r1", state: ctrlPb.PeerState.Healthy, listeners: [moved] }]);
    expect(await listen(Array(1_000).fill(moved))).toEqual([{ address: moved.address, protocol: "tls" }]);
    // None at all is an answer, too: nobody can dial it.
    expect(await listen([])).toEqual([]);
    expect(router.pending(ControlType.PeerStateChanges)).toHaveLength(1);
  });

  test("connected identities", async () => {
    expect(net.fabric.identityConnection("i1")).toBe("unknown");
    const report = (fullState: boolean, events: object[]) =>
      router.send(EdgeCtrlType.ConnectEvents, encodeControl(edgeCtrlPb.ConnectEventsSchema, { fullState, events }));
    report(true, [{ identityId: "i1", isConnected: true, connectTimes: [{ connectTime: 1_700_000_000_000n }] }]);
    await router.roundTrip();
    expect(net.fabric.identityConnection("i1")).toBe("online");
    report(false, [{ identityId: "i1", isConnected: false }]);
    await router.roundTrip();
    expect(net.fabric.identityConnection("i1")).toBe("offline");
  });

  test("the identity of a router's tunneler is connected while the router is", async () => {
    const told: object[] = [];
    net.fabric.onEvent((event) => {
      if (event.kind === "identities-changed") told.push({ online: event.online, offline: event.offline });
    });
    const enable = (isTunneler: boolean) => {
      net.model.routers.set("r1", { ...net.model.routers.get("r1")!, isTunneler });
      net.model.emit({ kind: "router-changed", routerId: "r1" });
    };
    const becomes = (state: string) => eventually(() => expect(net.fabric.identityConnection("r1")).toBe(state));
    enable(true);
    await becomes("online");
    enable(false);
    await becomes("unknown");
    enable(true);
    await becomes("online");
    router.close();
    await becomes("unknown");
    await net.connect("r1");
    await becomes("online");
    const [online, offline] = [
      { online: ["r1"], offline: [] },
      { online: [], offline: ["r1"] },
    ];
    expect(told).toEqual([online, offline, online, offline, online]);
  });
});

describe("inspection", () => {
  test("a router learns what the controller can do", async () => {
    const body = encodeControl(ctrlPb.InspectRequestSchema, { requestedValues: ["Capability", "other"] });
    const answer = await router.request({ contentType: ControlType.InspectRequest, body });
    expect(answer.contentType).toBe(ControlType.InspectResponse);
    expect(decodeControl(ctrlPb.InspectResponseSchema, answer.body)).toMatchObject({
      success: true,
      values: [
        { name: "capability", value: "ziti.fabric" },
        { name: "capability", value: "ziti.edge" },
      ],
    });
  });

  test("the controller asks a router", async () => {
    const result = net.fabric.inspect({ appRegex: "^r1$", requestedValues: ["links"] });
    const request = await router.next(ControlType.InspectRequest);
    expect(decodeControl(ctrlPb.InspectRequestSchema, request.body).requestedValues).toEqual(["links"]);
    const body = encodeControl(ctrlPb.InspectResponseSchema, {
      success: true,
      values: [{ name: "links", value: "{}" }],
    });
    router.channel.reply(request, { contentType: ControlType.InspectResponse, body });
    expect(await result).toEqual({ success: true, errors: [], values: [{ appId: "r1", name: "links", value: "{}" }] });
  });

  test("asks no router whose id the expression is not found in, and says what it cannot do", async () => {
    const ask = (appRegex: string, ...requestedValues: string[]) => net.fabric.inspect({ appRegex, requestedValues });
    expect(await ask("absent", "links")).toEqual({ success: true, errors: [], values: [] });
    expect(await ask("(", "links")).toMatchObject({
      success: false,
      errors: [expect.stringMatching(/missing|regexp/i)],
    });
    expect(await ask("x".repeat(1001), "links")).toMatchObject({ success: false });
    expect(await ask("x", ...Array(101).fill("links"))).toMatchObject({ success: false });
    // Backtracking would never end here.
    expect(await ask(`${"(a+)+".repeat(20)}$x`, "links")).toMatchObject({ values: [] });
  });

  test("a router that is silent is an error, not a wait without end", async () => {
    const result = await net.fabric.inspect({ appRegex: "r1", requestedValues: ["config"], timeoutMs: 50 });
    expect(result).toMatchObject({ success: false, values: [], errors: [expect.stringMatching(/^r1: /)] });
  });

  test("the controller answers for itself, and what it does not know is left out", async () => {
    const names = [
      ...["stackdump", "Config", "connected-routers", "links", "terminator-costs", "router-messaging"],
      ...["identity-connection-statuses", "process", "routers-last-seen", "unknown"],
    ];
    const { success, values } = await net.fabric.inspect({ appRegex: "^ctrl1$", requestedValues: names });
    expect(success).toBe(true);
    expect(values.map(({ name }) => name)).toEqual(names.slice(0, -1));
    expect(JSON.parse(values[2]?.value ?? "")).toMatchObject([{ Id: "r1" }]);
    const { startedAt } = JSON.parse(values[7]?.value ?? "");
    expect(Math.abs(Date.now() - process.uptime() * 1_000 - Date.parse(startedAt))).toBeLessThan(5_000);
  });

  test("the controller tells when a router that is offline was connected last", async () => {
    const lastSeen = async () => {
      const [value] = (await net.fabric.inspect({ appRegex: "^ctrl1$", requestedValues: ["routers-last-seen"] }))
        .values;
      return JSON.parse(value?.value ?? "");
    };
    expect(await lastSeen()).toEqual({});
    router.close();
    await expect.poll(lastSeen).toEqual({ r1: expect.stringMatching(/^\d{4}-/) });
  });
});

describe("a router that is a tunneler", () => {
  beforeEach(() => {
    net.model.addService("svc", { name: "web" });
    net.model.tunnelSession = {
      id: "as1",
      token: "at1",
      identityId: "r1",
      identityName: "router one",
      refreshIntervalSeconds: 1790,
      defaultHostingPrecedence: "required",
      defaultHostingCost: 5,
      appDataJson: "{}",
      servicePrecedences: new Map([["svc", "failed"]]),
      serviceCosts: new Map([["svc", 7]]),
    };
  });

  const session = () =>
    router.request({
      contentType: EdgeCtrlType.CreateApiSessionRequest,
      body: encodeControl(edgeCtrlPb.CreateApiSessionRequestSchema, {
        envInfo: { arch: "amd64", os: "linux" },
        sdkInfo: { type: "ziti-router" },
      }),
    });

  test("gets an API session with its hosting defaults", async () => {
    const answer = await session();
    expect(answer.contentType).toBe(EdgeCtrlType.CreateApiSessionResponse);
    expect(decodeControl(edgeCtrlPb.CreateApiSessionResponseSchema, answer.body)).toMatchObject({
      sessionId: "as1",
      token: "at1",
      identityId: "r1",
      refreshIntervalSeconds: 1790,
      defaultHostingPrecedence: 1,
      defaultHostingCost: 5,
      servicePrecedences: { svc: 2 },
      serviceCosts: { svc: 7 },
    });
    expect(net.model.tunnelClients).toMatchObject([{ configTypes: ["all"], envInfo: { arch: "amd64", os: "linux" } }]);
  });

  test("gets code 7 when it may not", async () => {
    net.model.tunnelSession = undefined;
    const answer = await session();
    expect(answer).toMatchObject({ contentType: EdgeCtrlType.Error, body: Buffer.from("tunneling not enabled") });
    expect(answer.headers.getU32(1014)).toBe(7);
  });

  test("gets its services when something has changed, and nothing otherwise", async () => {
    net.model.tunnelList = {
      lastUpdate: "mark",
      services: [
        {
          id: "svc",
          name: "web",
          permissions: ["Dial", "Bind"],
          encryptionRequired: true,
          configJson: "{}",
          tagsJson: "{}",
        },
      ],
    };
    router.send(EdgeCtrlType.ListServicesRequest, Buffer.from("mark"));
    router.send(EdgeCtrlType.ListServicesRequest);
    const list = decodeControl(edgeCtrlPb.ServicesListSchema, (await router.next(EdgeCtrlType.ServicesList)).body);
    expect(Buffer.from(list.lastUpdate).toString()).toBe("mark");
    expect(list.services).toMatchObject([
      { id: "svc", name: "web", permissions: ["Dial", "Bind"], encryption: true, config: Buffer.from("{}") },
    ]);
    expect(router.pending(EdgeCtrlType.ServicesList)).toEqual([]);
  });

  test("a list mark that cannot be ours closes the channel", async () => {
    router.send(EdgeCtrlType.ListServicesRequest, Buffer.alloc(51));
    await router.channel.closed;
  });

  test("dials by service name and hosts", async () => {
    const hostBody = encodeControl(edgeCtrlPb.CreateTunnelTerminatorRequestSchema, {
      serviceName: "web",
      sessionId: "as1",
      address: "tt1",
      startTime: 42n,
    });
    const hosted = await router.request({ contentType: EdgeCtrlType.CreateTunnelTerminatorRequest, body: hostBody });
    const created = decodeControl(edgeCtrlPb.CreateTunnelTerminatorResponseSchema, hosted.body);
    expect(created).toMatchObject({ terminatorId: "tt1", startTime: 42n, session: { sessionId: "session" } });
    expect(created.apiSession).toBeUndefined();
    expect(net.model.terminators.get("tt1")).toMatchObject({ binding: "tunnel", hostId: "r1", serviceId: "svc" });

    const dialBody = encodeControl(edgeCtrlPb.CreateCircuitForServiceRequestSchema, {
      sessionId: "expired",
      serviceName: "web",
    });
    const answer = router.request({ contentType: EdgeCtrlType.CreateCircuitForServiceRequest, body: dialBody });
    const { message, route } = await router.nextRoute();
    expect(route.egress).toMatchObject({ binding: "tunnel", destination: "tt1" });
    router.acceptRoute(message);
    const dialed = decodeControl(edgeCtrlPb.CreateCircuitForServiceResponseSchema, (await answer).body);
    expect(dialed).toMatchObject({
      circuitId: route.circuitId,
      address: route.forwards[0]!.srcAddress,
      session: { sessionId: "session", token: "session-token" },
      apiSession: { sessionId: "as1" },
    });

    const update = encodeControl(edgeCtrlPb.UpdateTunnelTerminatorRequestSchema, {
      terminatorId: "tt1",
      cost: 3,
      updateCost: true,
    });
    const updated = await router.request({ contentType: EdgeCtrlType.UpdateTunnelTerminatorRequest, body: update });
    expect(updated.contentType).toBe(EdgeCtrlType.UpdateTunnelTerminatorResponse);
    expect(net.model.terminators.get("tt1")?.cost).toBe(3);
    const removal = { contentType: EdgeCtrlType.RemoveTunnelTerminatorRequest, body: Buffer.from("tt1") };
    expect((await router.request(removal)).contentType).toBe(EdgeCtrlType.RemoveTunnelTerminatorResponse);
    const again = await router.request(removal);
    expect(again.headers.getU32(1014)).toBe(8);
  });

  test("an unknown service is refused", async () => {
    const body = encodeControl(edgeCtrlPb.CreateCircuitForServiceRequestSchema, {
      sessionId: "as1",
      serviceName: "none",
    });
    const answer = await router.request({ contentType: EdgeCtrlType.CreateCircuitForServiceRequest, body });
    expect(answer.headers.getU32(1014)).toBe(6);
  });

  test("health events are taken without an answer", async () => {
    router.send(EdgeCtrlType.TunnelHealthEvent);
    router.send(EdgeCtrlType.HealthEvent);
    await router.roundTrip();
    await eventually(() => expect(net.fabric.onlineRouterIds()).toEqual(["r1"]));
  });
});
