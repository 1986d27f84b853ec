/** A router that links proves by the key of its leaf who it is; nothing that it sends along proves anything. */
import {
  dialChannel,
  Headers,
  type Identity,
  identityFromPem,
  LINK_ALPN,
  LinkHello,
  SplitLinkChannel,
  silentLogger,
  TlsPort,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Link } from "./link.ts";
import { acceptLinks } from "./link-accept.ts";

let network: TestAuthority;
let beta: Identity;
let alpha: Identity;
let port: TlsPort;
let stop: () => void;
/** What was asked of the controller, which knows alpha's certificate. */
const asked: [string, string][] = [];
const links: Link[] = [];

beforeAll(async () => {
  network = await TestAuthority.create();
  beta = await network.identity("beta");
  alpha = await network.identity("alpha");
  port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity: beta });
  stop = acceptLinks({
    port,
    routerId: "beta",
    identity: () => beta,
    protocol: "tls",
    localBinding: "",
    advertise: `tls:localhost:${port.port}`,
    helloTimeoutMs: 3_000,
    verify: async (routerId, fingerprint) => {
      asked.push([routerId, fingerprint]);
      if (routerId !== "alpha" || fingerprint !== alpha.leafFingerprint) throw new Error("not its own");
    },
    onLink: (link) => links.push(link),
    log: silentLogger,
  });
});
afterEach(() => {
  for (const link of links.splice(0)) link.close();
  asked.length = 0;
});
afterAll(async () => {
  stop();
  await port.close();
});

/** Dials as router alpha. */
function dial(identity: Identity, more: (headers: Headers) => Headers = (headers) => headers) {
  const headers = new Headers()
    .setString(LinkHello.ConnectionId, "connection")
    .setString(LinkHello.RouterId, "alpha")
    .setU32(LinkHello.Iteration, 1);
  return dialChannel({
    address: `tls:127.0.0.1:${port.port}`,
    identity,
    alpn: LINK_ALPN,
    hello: { idToken: "link-1", headers: more(headers) },
    timeoutMs: 5_000,
  });
}

/** A leaf with its key, and other certificates presented behind it. */
function presenting(leaf: { certPem: string; keyPem: string }, ...behind: string[]): Identity {
  const { certPem, keyPem } = leaf;
  const own = { keyPem, serverCertPem: certPem, serverKeyPem: keyPem };
  return identityFromPem({ ...own, certPem: certPem + behind.join(""), caPem: network.certPem });
}

describe("GHSA-mrpr-756c-xm47: a link", () => {
  it("is not made by an unknown host that presents a router's certificate and the authority behind its own", async () => {
    const stranger = await (await TestAuthority.create("Stranger")).issue({ commonName: "alpha" });
    await expect(dial(presenting(stranger, alpha.certPem, network.certPem))).rejects.toThrow();
    expect([asked, links]).toEqual([[], []]);
  });

  it("is made by the router itself", async () => {
    await (await dial(alpha)).close();
    expect(asked).toEqual([["alpha", alpha.leafFingerprint]]);
  });
});

describe("GHSA-hhm9-wf63-g7qj: the controller is asked about the leaf whose key was proved, and about no other certificate:", () => {
  it("another member of the network is not taken for the router whose certificate it presents behind its own", async () => {
    const gamma = await network.identity("gamma");
    await expect(dial(presenting(gamma, alpha.certPem))).rejects.toThrow();
    expect(asked).toEqual([["alpha", gamma.leafFingerprint]]);
    expect(links).toEqual([]);
  });
});

describe("GHSA-cc5m-7mhm-xh9f: whatever a hello asks for, the router is verified first:", () => {
  it.each<[string, (headers: Headers) => Headers]>([
    ["the payload half of a link", (h) => h.setByte(LinkHello.ChannelType, SplitLinkChannel.Payload)],
    ["the other half", (h) => h.setByte(LinkHello.ChannelType, SplitLinkChannel.Ack)],
    ["an unknown half", (h) => h.setByte(LinkHello.ChannelType, 9)],
    [
      "the first connection of a group",
      (h) =>
        h
          .setString(LinkHello.UnderlayType, "link.default")
          .setBool(LinkHello.IsGrouped, true)
          .setBool(LinkHello.IsFirstGroupConnection, true),
    ],
    [
      "a further connection of a group",
      (h) => h.setString(LinkHello.UnderlayType, "link.ack").setBool(LinkHello.IsGrouped, true),
    ],
  ])("%s", async (_what, more) => {
    const gamma = await network.identity("gamma");
    await expect(dial(gamma, more)).rejects.toThrow();
    // No controller is asked about a connection that joins a group which does not exist.
    for (const each of asked) expect(each).toEqual(["alpha", gamma.leafFingerprint]);
    expect(links).toEqual([]);
  });
});
