import { ControlType, ctrlPb, EdgeCtrlHeader, EdgeCtrlType, edgeCtrlPb, encodeControl, Headers } from "@sallyport/wire";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { dial, startMesh } from "../testing/circuit-mesh.ts";
import type { ScriptedRouter } from "../testing/scripted-router.ts";
import { eventually, type TestFabric } from "../testing/test-fabric.ts";

const { Default, Failed, Required } = ctrlPb.TerminatorPrecedence;

let net: TestFabric;
let a: ScriptedRouter;
let b: ScriptedRouter;
let events: { kind: string; fields: object }[];
beforeEach(async () => {
  ({ net, a, b, events } = await startMesh());
  net.model.sessions.set("bind", { id: "s2", type: "Bind", serviceId: "svc", identityId: "host" });
});
afterEach(() => net.stop());

const checked = (terminatorId: string, checkPassed: boolean) =>
  encodeControl(edgeCtrlPb.HealthEventRequestSchema, { sessionToken: "bind", terminatorId, checkPassed });

/** The terminator that the next circuit would be dialed to. */
async function chosen(): Promise<string | undefined> {
  const answer = dial(a);
  const atA = await a.nextRoute();
  const { route, message } = await b.nextRoute(atA.route.circuitId);
  a.acceptRoute(atA.message);
  b.acceptRoute(message);
  await answer;
  for (const { id } of net.fabric.circuits()) net.fabric.removeCircuit(id);
  return route.egress?.destination;
}

describe("a health check", () => {
  test("is told of when it is about a terminator of the router, of the binding that it is for, and changes nothing by itself", async () => {
    net.model.addTerminator("t2", "svc", "b", { binding: "tunnel", cost: 50 });
    net.model.addTerminator("elsewhere", "svc", "a", { cost: 50 });
    for (const id of ["elsewhere", "t2", "absent"]) b.send(EdgeCtrlType.HealthEvent, checked(id, false));
    b.send(EdgeCtrlType.HealthEvent, checked("t1", false));
    for (const id of ["t1", "t2"]) {
      const headers = new Headers()
        .setString(EdgeCtrlHeader.TerminatorId, id)
        .setBool(EdgeCtrlHeader.CheckPassed, true);
      b.send(EdgeCtrlType.TunnelHealthEvent, undefined, headers);
    }
    const told = () => events.filter(({ kind }) => kind === "health-check").map(({ fields }) => fields);
    await eventually(() => expect(told()).toHaveLength(2));
    expect(told()).toEqual([
      { routerId: "b", serviceId: "svc", terminatorId: "t1", hasPassed: false },
      { routerId: "b", serviceId: "svc", terminatorId: "t2", hasPassed: true },
    ]);
    expect(net.model.terminators.get("t1")?.precedence).toBe("default");
  });

  test("has the host change precedence and cost, which the very next circuit follows: unhealthy, healthy, dearer", async () => {
    net.model.addTerminator("t2", "svc", "b", { cost: 50, address: "t2" });
    const change = async (fields: object) => {
      const body = encodeControl(edgeCtrlPb.UpdateTerminatorRequestSchema, {
        ...{ sessionToken: "bind", terminatorId: "t1" },
        ...fields,
      });
      await b.request({ contentType: EdgeCtrlType.UpdateTerminatorRequest, body });
    };
    expect(await chosen()).toBe("t1");
    await change({ precedence: Failed, updatePrecedence: true });
    expect(await chosen()).toBe("t2");
    await change({ precedence: Default, updatePrecedence: true });
    expect(await chosen()).toBe("t1");
    await change({ cost: 500, updateCost: true });
    expect(await chosen()).toBe("t2");
    await change({ precedence: Required, updatePrecedence: true });
    expect(await chosen()).toBe("t1");
  });

  test("of a plain terminator or one of a tunneler works by their own messages", async () => {
    net.model.addTerminator("t2", "svc", "b", { cost: 50, address: "t2", binding: "tunnel" });
    const update = encodeControl(ctrlPb.UpdateTerminatorRequestSchema, {
      ...{ terminatorId: "t1", precedence: Failed, updatePrecedence: true },
    });
    await b.request({ contentType: ControlType.UpdateTerminatorRequest, body: update });
    expect(await chosen()).toBe("t2");
    const tunnel = encodeControl(edgeCtrlPb.UpdateTunnelTerminatorRequestSchema, {
      ...{ terminatorId: "t2", cost: 1, updateCost: true, precedence: Failed, updatePrecedence: true },
    });
    const answer = await b.request({ contentType: EdgeCtrlType.UpdateTunnelTerminatorRequest, body: tunnel });
    expect(answer.contentType).toBe(EdgeCtrlType.UpdateTunnelTerminatorResponse);
    // Both have failed: the cheaper one is still tried.
    expect(net.model.terminators.get("t2")).toMatchObject({ precedence: "failed", cost: 1 });
    expect(await chosen()).toBe("t1");
  });
});
