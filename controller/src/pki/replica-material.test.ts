import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { connect, type PeerCertificate } from "node:tls";
import { commonName, controllerTrust, fingerprint, spiffeId, splitPem } from "@sallyport/wire";
import { beforeAll, describe, expect, it } from "vitest";
import { createPkiMaterial, hostsOf, type PkiMaterial, retire, rotate } from "./material.ts";
import { Pki } from "./pki.ts";
import { chained, checkReplicaMaterial, type ReplicaMaterial, renewReplica } from "./replica-material.ts";
import { DEFAULT_LIFETIMES } from "./testing.ts";

const SHARED = ["ctrl.example", "localhost", "127.0.0.1"];
const HOSTS = ["c2.example", ...SHARED];
const DAY = 86_400_000;
const now = new Date();
const request = { id: "c2", hosts: HOSTS, lifetimes: DEFAULT_LIFETIMES, now };

let network: PkiMaterial;
let own: ReplicaMaterial;
beforeAll(async () => {
  network = await createPkiMaterial({ controllerId: "controller", hosts: SHARED, lifetimes: DEFAULT_LIFETIMES, now });
  own = (await renewReplica(network, undefined, request))!;
});

const leaf = (pem: string) => new X509Certificate(pem);

describe("the certificates of a replica", () => {
  it("name the replica, and its server certificate its own and the shared hosts", () => {
    for (const { certPem } of [own.client, own.server]) {
      expect(commonName(leaf(certPem))).toBe("c2");
      expect(spiffeId(leaf(certPem))).toBe(`${network.trustDomain}/controller/c2`);
      expect(splitPem(certPem)).toHaveLength(1);
    }
    expect(hostsOf(own.server)).toEqual(HOSTS);
    expect(checkReplicaMaterial("c2", own)).toBe(own);
  });

  it.each<[string, number, string[], boolean]>([
    ["just made", 0, HOSTS, false],
    ["of which hosts are wanted no more", 0, SHARED, false],
    ["that lack a host", 0, [...HOSTS, "new.example"], true],
    ["that are due", 359, HOSTS, true],
  ])("%s are issued again: %s days later, for %j: %s, with the same keys", async (_what, days, hosts, isIssued) => {
    const at = new Date(now.getTime() + days * DAY);
    const next = await renewReplica(network, own, { ...request, hosts, now: at });
    expect(next !== undefined).toBe(isIssued);
    if (next === undefined) return;
    expect(next.server.keyPem).toBe(own.server.keyPem);
    expect(next.client.keyPem).toBe(own.client.keyPem);
    expect(fingerprint(next.server.certPem)).not.toBe(fingerprint(own.server.certPem));
    expect(hostsOf(next.server)).toEqual(hosts);
  });

  it("follow a rotation of the network's authority, and its end", async () => {
    const rotated = await rotate(network, { hosts: SHARED, lifetimes: DEFAULT_LIFETIMES, now, newKeys: false });
    const next = (await renewReplica(rotated, own, request))!;
    expect(next.server.keyPem).toBe(own.server.keyPem);
    const issuer = (material: PkiMaterial) => leaf(splitPem(chained(next.server, material, now).certPem)[1]!);
    // The bridge, as the former root signed it; then the authority's own certificate.
    expect(issuer(rotated).issuer).toBe(leaf(network.root.certPem).subject);
    const retired = retire(rotated, false, now);
    expect(await renewReplica(retired, next, request)).toBeUndefined();
    expect(issuer(retired).issuer).toBe(leaf(rotated.root.certPem).subject);
    expect(await renewReplica(rotated, next, request)).toBeUndefined();
  });

  it("are refused with the key of another", async () => {
    const mixed = { ...own, server: { ...own.server, keyPem: own.client.keyPem } };
    expect(() => checkReplicaMaterial("c2", mixed)).toThrow(
      /stored server certificate of replica c2 cannot be used: the key/,
    );
  });
});

describe("a process with an id of its own", () => {
  const pkiOf = (apiHost: string) => {
    const pki = new Pki(network, { lifetimes: DEFAULT_LIFETIMES, replica: { id: "c2", apiHost } });
    pki.adopt(network, new Map([["c2", own]]));
    return pki;
  };

  /** Subject and fingerprint of what a server with this identity shows. */
  async function shown(identity: Pki["apiIdentity"], servername: string) {
    const { certPem, keyPem } = identity.defaultServerCertificate;
    const server = createServer({
      cert: certPem,
      key: keyPem,
      SNICallback: (name, done) => done(null, identity.serverContext(name)),
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    try {
      const { ca } = controllerTrust(identity.caPem);
      const name = servername === "" ? {} : { servername };
      const socket = connect({ port, host: "127.0.0.1", ca, ...name, allowPartialTrustChain: true });
      await once(socket, "secureConnect");
      const peer: PeerCertificate = socket.getPeerCertificate();
      socket.destroy();
      return peer.subject.CN;
    } finally {
      server.close();
    }
  }

  it("is known by it, shows its own certificate to routers, and the network's at the shared address of the APIs", async () => {
    const pki = pkiOf("c2.example");
    expect(pki.controllerId).toBe("c2");
    expect(pki.serverIdentity.id).toBe("c2");
    expect(await shown(pki.serverIdentity, "ctrl.example")).toBe("c2");
    expect(await shown(pki.serverIdentity, "c2.example")).toBe("c2");
    expect(await shown(pki.apiIdentity, "ctrl.example")).toBe("controller");
    expect(await shown(pki.apiIdentity, "localhost")).toBe("controller");
    expect(await shown(pki.apiIdentity, "c2.example")).toBe("c2");
    expect(await shown(pki.apiIdentity, "")).toBe("controller");
    expect(fingerprint(pki.networkCertificate)).toBe(fingerprint(network.server.certPem));
  });

  it("shows its own certificate to clients that dial its address, and the network's if that covers the address", async () => {
    expect(await shown(pkiOf("127.0.0.1").apiIdentity, "")).toBe("controller");
    const hosts = ["127.0.0.2", ...SHARED];
    const elsewhere = (await renewReplica(network, undefined, { ...request, hosts }))!;
    const pki = new Pki(network, { lifetimes: DEFAULT_LIFETIMES, replica: { id: "c2", apiHost: "127.0.0.2" } });
    pki.adopt(network, new Map([["c2", elsewhere]]));
    expect(await shown(pki.apiIdentity, "")).toBe("c2");
    expect(await shown(pki.apiIdentity, "ctrl.example")).toBe("controller");
  });

  it("signs tokens with the network's key, and reserves the hosts of every replica", async () => {
    const pki = pkiOf("c2.example");
    expect(pki.jwtSigner).toBe(new Pki(network, { lifetimes: DEFAULT_LIFETIMES }).jwtSigner);
    const first = new Pki(network, { lifetimes: DEFAULT_LIFETIMES });
    const router = leaf(
      (await renewReplica(network, undefined, { ...request, hosts: ["c2.example"] }))!.server.certPem,
    );
    expect(first.reservedHostIn(router)).toBeUndefined();
    first.adopt(network, new Map([["c2", own]]));
    expect(first.controllerId).toBe("controller");
    expect(first.reservedHostIn(router)).toBe("c2.example");
    expect(first.serverIdentity).toBe(first.apiIdentity);
    expect(fingerprint(first.certificateOf("c2")!)).toBe(fingerprint(own.server.certPem));
    expect(fingerprint(first.certificateOf("controller")!)).toBe(fingerprint(network.server.certPem));
    expect(first.certificateOf("c3")).toBeUndefined();
  });
});
