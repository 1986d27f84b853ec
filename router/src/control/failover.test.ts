import {
  ControlHeader,
  ControllerCapability,
  ControlType,
  CreateCircuitHeader,
  capabilityMask,
  ctrlPb,
  decodeControl,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  FaultSubject,
  formatAddress,
  Headers,
  Precedence,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ScriptedControl, startScriptedControl } from "../testing/scripted-control.ts";
import { ScriptedController } from "../testing/scripted-controller.ts";

let end: ScriptedControl;
/** It answers faster: it is asked. */
let first: ScriptedController;
let second: ScriptedController;

beforeEach(async () => {
  const authority = await TestAuthority.create();
  const [controller, router, other] = await Promise.all(
    ["ctrl1", "r1", "ctrl2"].map((name) => authority.identity(name)),
  );
  end = await startScriptedControl({ controller: controller!, router: router! });
  first = end.controller;
  second = await ScriptedController.start(other!, "ctrl2");
});

afterEach(async () => {
  await end.close();
  await second.close();
});

async function connect(): Promise<void> {
  end.controllers.setEndpoints([first.address, second.address]);
  await expect.poll(() => end.controllers.all()).toHaveLength(2);
  const now = performance.now();
  end.controllers.byId("ctrl1")?.heard(1, now);
  end.controllers.byId("ctrl2")?.heard(20, now);
}

const dies = (): void => end.controllers.suspend(formatAddress(first.address));
const faultOf = async () => {
  const { body, headers } = await second.next(ControlType.Fault);
  return { ...decodeControl(ctrlPb.FaultSchema, body), owner: headers.getString(ControlHeader.CircuitOwner) };
};

describe("when the controller that is asked goes before it answers", () => {
  it("another one builds the circuit", async () => {
    first.on(EdgeCtrlType.CreateCircuitV2Request, dies);
    second.on(EdgeCtrlType.CreateCircuitV2Request, (message, channel) => {
      const headers = new Headers()
        .setString(CreateCircuitHeader.ResponseCircuitId, "c1")
        .setString(CreateCircuitHeader.ResponseAddress, "a1");
      channel.reply(message, { contentType: EdgeCtrlType.CreateCircuitV2Response, headers });
    });
    await connect();
    const made = await end.control.createCircuit({
      ...{ sessionToken: "st", apiSessionToken: "at", fingerprints: [], peerData: new Map(), timeoutMs: 10_000 },
    });
    expect(made).toMatchObject({ circuitId: "c1", controllerId: "ctrl2" });
    expect(first.received.some(({ contentType }) => contentType === EdgeCtrlType.CreateCircuitV2Request)).toBe(true);
  });

  it("another one creates the terminator, under the same id, and changes it", async () => {
    first.on(EdgeCtrlType.CreateTerminatorV2Request, dies);
    second.on(EdgeCtrlType.CreateTerminatorV2Request, (message, channel) => {
      const { address: terminatorId } = decodeControl(edgeCtrlPb.CreateTerminatorV2RequestSchema, message.body);
      const body = encodeControl(edgeCtrlPb.CreateTerminatorV2ResponseSchema, { terminatorId, result: 0 });
      channel.reply(message, { contentType: EdgeCtrlType.CreateTerminatorV2Response, body });
    });
    await connect();
    const credentials = { sessionToken: "st", apiSessionToken: "at", fingerprints: [] };
    const kept = { address: "t1", cost: 7, precedence: Precedence.Default, peerData: new Map() };
    expect(await end.control.createTerminator({ ...kept, ...credentials })).toMatchObject({ terminatorId: "t1" });
    end.controllers.resume(formatAddress(first.address));
    await expect.poll(() => end.controllers.all()).toHaveLength(2);
    end.controllers.byId("ctrl1")?.heard(1, performance.now());
    first.on(EdgeCtrlType.UpdateTerminatorRequest, dies);
    second.on(EdgeCtrlType.UpdateTerminatorRequest, (message, channel) =>
      channel.reply(message, { contentType: EdgeCtrlType.UpdateTerminatorResponse }),
    );
    await end.control.updateTerminator({ terminatorId: "t1", ...credentials, cost: 9 });
  });
});

describe("of circuits whose controller is away", () => {
  const beSuccessor = (): void => {
    second.capabilities = capabilityMask([1, 2, 3, ControllerCapability.CircuitSuccession]);
  };

  it("one that answers for others is told, and whose they are; an unforwardable circuit is not called known", async () => {
    beSuccessor();
    await connect();
    end.control.sendFault({ subject: FaultSubject.EgressFault, ids: ["c1"], controllerId: "gone" });
    expect(await faultOf()).toMatchObject({ subject: FaultSubject.EgressFault, id: "c1", owner: "gone" });
    end.control.sendFault({ subject: FaultSubject.ForwardFault, ids: ["c1", "c2"], controllerId: "gone" });
    const unknown = { subject: FaultSubject.UnknownOwnerForwardFault, id: "c1 c2", owner: "gone" };
    expect(await faultOf()).toMatchObject(unknown);
    end.control.confirmCircuits("gone", new Map([["c1", 61_000]]));
    const asked = await second.next(ControlType.CircuitConfirmation);
    expect(asked.headers.getString(ControlHeader.CircuitOwner)).toBe("gone");
    expect(decodeControl(ctrlPb.CircuitConfirmationSchema, asked.body).circuitIds).toEqual(["c1"]);
  });

  it("the owner alone is told when it is there", async () => {
    beSuccessor();
    await connect();
    end.control.sendFault({ subject: FaultSubject.IngressFault, ids: ["c1"], controllerId: "ctrl1" });
    const { headers } = await first.next(ControlType.Fault);
    expect(headers.has(ControlHeader.CircuitOwner)).toBe(false);
    end.control.sendFault({ subject: FaultSubject.IngressFault, ids: ["c2"], controllerId: "ctrl2" });
    expect(await faultOf()).toMatchObject({ id: "c2", owner: undefined });
  });

  it("those of OpenZiti are told nothing: they would end what they do not know", async () => {
    await connect();
    end.control.sendFault({ subject: FaultSubject.EgressFault, ids: ["c1"], controllerId: "gone" });
    end.control.confirmCircuits("gone", new Map([["c1", 61_000]]));
    end.control.sendFault({ subject: FaultSubject.LinkFault, ids: ["l1"] });
    expect(await faultOf()).toMatchObject({ id: "l1" });
    await first.next(ControlType.Fault);
    const types = [...first.received, ...second.received].map(({ contentType }) => contentType);
    expect(types.filter((type) => type === ControlType.Fault)).toHaveLength(2);
    expect(types).not.toContain(ControlType.CircuitConfirmation);
  });
});
