import {
  ControlType,
  CreateCircuitHeader,
  ctrlPb,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  Headers,
  type Message,
  metricsPb,
  silentLogger,
} from "@sallyport/wire";
import { afterEach } from "vitest";
import type { FabricOptions } from "../options.ts";
import type { TerminatorRecord } from "../ports.ts";
import type { ScriptedRouter, ScriptedRouterOptions } from "./scripted-router.ts";
import { TestFabric } from "./test-fabric.ts";

export const bytes = (text: string) => Buffer.from(text, "utf8");

export function dialHeaders(
  sessionToken = "dial",
  peerData = new Map([[1008, bytes("bob")]]),
  instanceId = "",
): Headers {
  return new Headers()
    .setString(CreateCircuitHeader.SessionToken, sessionToken)
    .setString(CreateCircuitHeader.ApiSessionToken, "api")
    .setStringList(CreateCircuitHeader.Fingerprints, ["00".repeat(20)])
    .setString(CreateCircuitHeader.TerminatorInstanceId, instanceId)
    .setU32Map(CreateCircuitHeader.PeerData, peerData);
}

export function dial(router: ScriptedRouter, headers: Headers = dialHeaders()): Promise<Message> {
  return router.request({ contentType: EdgeCtrlType.CreateCircuitV2Request, headers });
}

/** As a tunneler without sessions. */
export function dialTunnel(router: ScriptedRouter, serviceName = "svc-name"): Promise<Message> {
  const body = encodeControl(edgeCtrlPb.CreateTunnelCircuitV2RequestSchema, { serviceName });
  return router.request({ contentType: EdgeCtrlType.CreateTunnelCircuitV2Request, body });
}

export async function link(from: ScriptedRouter, to: ScriptedRouter, id: string, ms: number): Promise<void> {
  const links = [{ id, destRouterId: to.id, linkProtocol: "tls", dialAddress: "tls:x:1", iteration: 1 }];
  from.send(ControlType.RouterLinks, encodeControl(ctrlPb.RouterLinksSchema, { links }));
  await from.roundTrip();
  for (const router of [from, to]) {
    const histograms = { [`link.${id}.latency`]: { mean: ms * 1e6 } };
    router.send(
      ControlType.Metrics,
      encodeControl(metricsPb.MetricsMessageSchema, { sourceId: router.id, histograms }),
    );
    await router.roundTrip();
  }
}

/** A fabric with its events as they are logged: a service `svc` hosted at router b, a dial session `dial` of identity `client`; routers a and b with a link `ab`. */
export async function startMesh(
  options: Partial<FabricOptions> = {},
  terminator: Partial<TerminatorRecord> = {},
  router: Partial<ScriptedRouterOptions> = {},
) {
  const events: { kind: string; fields: object }[] = [];
  const net = await TestFabric.start(options, {
    ...silentLogger,
    debug: (fields, kind) => void events.push({ kind, fields }),
  });
  net.model.addService("svc");
  net.model.addTerminator("t1", "svc", "b", { peerData: new Map([[1011, bytes("app")]]), ...terminator });
  net.model.sessions.set("dial", { id: "s1", type: "Dial", serviceId: "svc", identityId: "client" });
  const a = await net.connect("a", router);
  const b = await net.connect("b", router);
  await link(a, b, "ab", 1);
  return { net, a, b, events };
}

/** {@link startMesh} for the tests of a file; `onStart` gets the fabric, which is stopped after the test. */
export function meshPerTest(onStart: (net: TestFabric) => void): typeof startMesh {
  const running: TestFabric[] = [];
  afterEach(async () => {
    for (const net of running.splice(0)) await net.stop();
  });
  return async (...args) => {
    const started = await startMesh(...args);
    running.push(started.net);
    onStart(started.net);
    return started;
  };
}

export async function established(a: ScriptedRouter, b: ScriptedRouter) {
  const answer = dial(a);
  const atA = await a.nextRoute();
  const atB = await b.nextRoute();
  a.acceptRoute(atA.message);
  b.acceptRoute(atB.message);
  const circuitId = (await answer).headers.getString(CreateCircuitHeader.ResponseCircuitId) ?? "";
  return { circuitId, atA, atB };
}

export const fault = (subject: ctrlPb.FaultSubject, id: string, iteration = 0) =>
  encodeControl(ctrlPb.FaultSchema, { subject, id, iteration });
