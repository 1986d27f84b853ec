import { X509Certificate } from "node:crypto";
import {
  ControlHello,
  ControlType,
  ctrlPb,
  decodeControl,
  Headers,
  identityFromPem,
  silentLogger,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, describe, expect, test } from "vitest";
import type { ScriptedRouter } from "../testing/scripted-router.ts";
import { eventually, TestFabric } from "../testing/test-fabric.ts";

let net: TestFabric;
afterEach(() => net.stop());

async function peerStates(router: ScriptedRouter): Promise<ctrlPb.PeerStateChange[]> {
  const message = await router.next(ControlType.PeerStateChanges);
  return decodeControl(ctrlPb.PeerStateChangesSchema, message.body).changes;
}

describe("admission over the wire", () => {
  test("an enrolled router is admitted; the result carries version, id and capabilities", async () => {
    net = await TestFabric.start();
    const router = await net.connect("r1");
    const { result } = router.channel;
    expect(router.channel.remoteId).toBe("ctrl1");
    expect(result.get(ControlHello.Capabilities)?.toString("hex")).toBe("7e");
    expect(result.getString(ControlHello.Version)).toMatch(/^v1\.6\.20\|[^|]+\|[^|]+\|[^|]+\|[^|]+$/);
    expect(result.get(ControlHello.Listeners)).toBeUndefined();
    expect(result.getString(0)).not.toBe("");
    await router.roundTrip();
    expect(net.fabric.routers()).toMatchObject([{ id: "r1", isOnline: true, versionInfo: { version: "v1.6.20" } }]);
    expect(net.fabric.onlineRouterIds()).toEqual(["r1"]);
  });

  test("a ping is answered with ok", async () => {
    net = await TestFabric.start();
    const router = await net.connect("r1");
    const answer = await router.request({ contentType: 1 });
    expect(answer).toMatchObject({ contentType: 2 });
    expect(answer.body.toString()).toBe("ok");
    expect(answer.headers.getBool(2)).toBe(true);
  });

  test.each([
    ["an unknown router", "unknown-router", async () => net.connect("r1", { id: "ghost" })],
    [
      "a certificate of another CA with the right name",
      "untrusted-certificate",
      async () => net.connect("r1", { identity: await strangerOf("r1") }),
    ],
    [
      "a certificate of our CA that is not the stored one",
      "fingerprint-mismatch",
      async () => net.connect("r1", { identity: await net.authority.identity("r1") }),
    ],
    [
      "a router that has to be enrolled",
      "not-enrolled",
      async () => {
        const { fingerprint: _, ...router } = net.model.routers.get("r1")!;
        net.model.routers.set("r1", router);
        return net.connect("r1");
      },
    ],
    [
      "a disabled router",
      "disabled",
      async () => {
        net.model.routers.set("r1", { ...net.model.routers.get("r1")!, isDisabled: true });
        return net.connect("r1");
      },
    ],
  ])("%s is refused without an answer and logged once", async (_name, code, connect) => {
    const logged: object[] = [];
    net = await TestFabric.start({}, { ...silentLogger, info: (fields) => logged.push(fields) });
    await net.enroll("r1");
    await expect(connect()).rejects.toThrow();
    await eventually(() => expect(logged).toMatchObject([{ code, peer: expect.stringMatching(/^127\.0\.0\.1:\d+$/) }]));
    expect(net.fabric.routers()).toEqual([]);
  });

  async function strangerOf(id: string) {
    const other = await TestAuthority.create("Other Root");
    const foreigner = await other.identity(id);
    const known = await net.enroll(id);
    return identityFromPem({ certPem: foreigner.certPem, keyPem: foreigner.keyPem, caPem: known.caPem });
  }

  test.each([
    ["no version", ""],
    ["an unreadable version", "v1.6.20"],
  ])("a hello with %s is closed after the result", async (_name, version) => {
    net = await TestFabric.start();
    const router = await net.connect("r1", { version });
    await router.channel.closed;
    expect(net.fabric.routers()).toEqual([]);
  });

  test("a hello with undecodable listeners is admitted", async () => {
    net = await TestFabric.start();
    const router = await net.connect("r1", { rawListeners: Buffer.from([0xff, 0xff]) });
    await router.roundTrip();
    expect(net.fabric.onlineRouterIds()).toEqual(["r1"]);
  });

  test("a router is admitted by the trust anchors of the moment", async () => {
    net = await TestFabric.start();
    const renewed = await TestAuthority.create("Renewed CA");
    const issued = await renewed.issue({ commonName: "r1" });
    const identity = identityFromPem({ ...issued, caPem: net.authority.certPem });
    net.model.addRouter("r1", identity.leafFingerprint);
    await expect(net.connect("r1", { identity })).rejects.toThrow();
    net.anchors.splice(0, net.anchors.length, new X509Certificate(renewed.certPem));
    await (await net.connect("r1", { identity })).roundTrip();
    expect(net.fabric.onlineRouterIds()).toEqual(["r1"]);
  });

  test("a router takes over its own channel at once, but not without end", async () => {
    net = await TestFabric.start({ maxTakeovers: 2 });
    const first = await net.connect("r1");
    const second = await net.connect("r1");
    await first.channel.closed;
    const third = await net.connect("r1");
    await second.channel.closed;
    await expect(net.connect("r1")).rejects.toThrow();
    await third.roundTrip();
    expect(net.fabric.onlineRouterIds()).toEqual(["r1"]);
  });

  test("a foreign host with the id of a connected router evicts no router", async () => {
    net = await TestFabric.start();
    const router = await net.connect("r1");
    await expect(net.connect("r1", { identity: await net.authority.identity("r1") })).rejects.toThrow();
    await router.roundTrip();
  });
});

describe("routers and their entities", () => {
  test("peers hear of one another, of losses and of removals", async () => {
    net = await TestFabric.start();
    const a = await net.connect("a", { listeners: [{ address: "tls:a.example:3022", protocol: "tls" }] });
    const b = await net.connect("b");
    const healthy = { state: ctrlPb.PeerState.Healthy, version: "v1.6.20" };
    expect(await peerStates(a)).toMatchObject([{ id: "b", ...healthy, listeners: [] }]);
    expect(await peerStates(b)).toMatchObject([
      { id: "a", ...healthy, listeners: [{ address: "tls:a.example:3022", protocol: "tls", groups: ["default"] }] },
    ]);
    b.close();
    expect(await peerStates(a)).toMatchObject([{ id: "b", state: ctrlPb.PeerState.Unhealthy, version: "" }]);
    net.model.routers.delete("b");
    net.model.emit({ kind: "router-removed", routerId: "b" });
    expect(await peerStates(a)).toMatchObject([{ id: "b", state: ctrlPb.PeerState.Removed }]);
  });

  test.each([
    ["disabled", (m: TestFabric["model"]) => m.routers.set("r1", { ...m.routers.get("r1")!, isDisabled: true })],
    [
      "to be enrolled again",
      (m: TestFabric["model"]) => {
        const { fingerprint: _, ...router } = m.routers.get("r1")!;
        m.routers.set("r1", router);
      },
    ],
    ["gone", (m: TestFabric["model"]) => m.routers.delete("r1")],
  ])("the channel of a router that is %s is closed", async (_name, change) => {
    net = await TestFabric.start();
    const router = await net.connect("r1");
    await router.roundTrip();
    change(net.model);
    net.model.emit({ kind: "router-changed", routerId: "r1" });
    await router.channel.closed;
    await eventually(() => expect(net.fabric.routers()).toEqual([]));
  });

  test("a renewed certificate leaves the channel open", async () => {
    net = await TestFabric.start();
    const router = await net.connect("r1");
    net.model.routers.set("r1", { ...net.model.routers.get("r1")!, fingerprint: "ff".repeat(20) });
    net.model.emit({ kind: "router-changed", routerId: "r1" });
    await router.roundTrip();
    expect(router.channel.isClosed).toBe(false);
  });

  test("unknown types and undecodable bodies cost a router nothing", async () => {
    net = await TestFabric.start();
    const router = await net.connect("r1");
    const garbage = Buffer.from([0xff, 0xff, 0xff, 0xff, 0x0f]);
    router.send(424242, garbage);
    router.send(-33);
    for (const type of [1000, 1004, 1007, 1011, 1012, 1018, 1034, 1035, 1036, 1038, 1042, 1052, 1053, 1010, 1013]) {
      router.send(type, garbage);
    }
    for (let type = 20201; type <= 20221; type++) router.send(type, garbage, new Headers().set(10, garbage));
    for (const type of [20001, 20302, 20303, 20400, 20402, 20406, 20408, 20412, 20415, 20505])
      router.send(type, garbage);
    router.send(ControlType.RouteResult, Buffer.from("nothing"));
    await router.roundTrip();
    expect(net.fabric.onlineRouterIds()).toEqual(["r1"]);
  });

  test("closing the fabric closes every channel", async () => {
    net = await TestFabric.start();
    const routers = [await net.connect("a"), await net.connect("b")];
    await net.fabric.close();
    await Promise.all(routers.map((r) => r.channel.closed));
    expect(net.fabric.routers()).toEqual([]);
  });
});
