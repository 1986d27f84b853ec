/** Who may open a control channel, and whom the controller vouches for, when certificates of others are about. */
import {
  ControlType,
  ctrlPb,
  dialChannel,
  encodeControl,
  Headers,
  type Identity,
  identityFromPem,
  LinkHello,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, describe, expect, test } from "vitest";
import { TestFabric } from "./testing/test-fabric.ts";

let net: TestFabric;
afterEach(() => net.stop());

/** A leaf with its key, and other certificates presented behind it. */
function presenting(leaf: { certPem: string; keyPem: string }, ...behind: string[]): Identity {
  const { certPem, keyPem } = leaf;
  const own = { keyPem, serverCertPem: certPem, serverKeyPem: keyPem };
  return identityFromPem({ ...own, certPem: certPem + behind.join(""), caPem: net.authority.certPem });
}

describe("GHSA-mrpr-756c-xm47: a control channel is for the holder of the leaf:", () => {
  test("a foreign host gets none with a router's certificate and the authority behind its own", async () => {
    net = await TestFabric.start();
    const router = await net.enroll("r1");
    const foreigner = await (await TestAuthority.create("Another authority")).issue({ commonName: "r1" });
    const identity = presenting(foreigner, router.certPem, net.authority.certPem);
    await expect(net.connect("r1", { identity })).rejects.toThrow();
    expect(net.fabric.onlineRouterIds()).toEqual([]);
  });

  test("a router is not another one whose certificate it presents behind its own", async () => {
    net = await TestFabric.start();
    const [own, other] = [await net.enroll("r1"), await net.enroll("r2")];
    await expect(net.connect("r2", { identity: presenting(own, other.certPem) })).rejects.toThrow();
    expect(net.fabric.onlineRouterIds()).toEqual([]);
  });
});

describe("GHSA-cc5m-7mhm-xh9f: no header of a hello goes before the verification of the router:", () => {
  test.each<[string, (headers: Headers) => Headers]>([
    ["a channel type", (h) => h.setByte(LinkHello.ChannelType, 1)],
    ["an underlay type", (h) => h.setString(LinkHello.UnderlayType, "ctrl.low")],
    [
      "a group that exists",
      (h) => h.setString(LinkHello.UnderlayType, "ctrl.low").setBool(LinkHello.IsGrouped, true).setString(0, "group"),
    ],
    ["the connection of another router", (h) => h.setString(0, connectionId)],
  ])("%s", async (_what, more) => {
    net = await TestFabric.start();
    const router = await net.connect("r1");
    connectionId = router.channel.connectionId;
    const foreigner = await (await TestAuthority.create("Another authority")).identity("r1");
    const foreign = presenting(foreigner);
    for (const identity of [foreign, await net.authority.identity("r1")]) {
      const hello = { idToken: "r1", headers: more(new Headers()) };
      const address = `tls:127.0.0.1:${net.port}`;
      await expect(dialChannel({ address, identity, alpn: "ziti-ctrl", hello, timeoutMs: 5_000 })).rejects.toThrow();
    }
    await router.roundTrip();
    expect(net.fabric.onlineRouterIds()).toEqual(["r1"]);
  });
});
let connectionId = "";

describe("GHSA-hhm9-wf63-g7qj: the controller vouches for a router by the first fingerprint that it is asked about", () => {
  test.each([
    ["the router's own", (own: string, other: string) => [own, other], true],
    ["the router's own behind another one", (own: string, other: string) => [other, own], false],
    ["none", () => [], false],
  ])("%s", async (_name, order, ok) => {
    net = await TestFabric.start();
    const asking = await net.connect("a");
    const [router, other] = [await net.enroll("b"), await net.enroll("c")];
    const fingerprints = order(router.leafFingerprint, other.leafFingerprint);
    const body = encodeControl(ctrlPb.VerifyRouterSchema, { routerId: "b", fingerprints });
    const answer = await asking.request({ contentType: ControlType.VerifyRouter, body });
    expect(answer.headers.getBool(2)).toBe(ok);
  });
});
