import { type Identity, LinkUnderlay, silentLogger } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { dialer, healthy, type LinkRouter, startLinkRouter } from "../testing/link-router.ts";
import { dialLink } from "./link-dial.ts";

let authority: TestAuthority;
const identities = new Map<string, Identity>();
const running: LinkRouter[] = [];

beforeAll(async () => {
  authority = await TestAuthority.create();
  for (const id of ["alpha", "beta", "gamma"]) {
    identities.set(id, await authority.identity(id, { ip: ["127.0.0.1", "::1"] }));
  }
});

afterEach(async () => {
  for (const router of running.splice(0)) await router.close();
});

const until = (condition: () => boolean) =>
  vi.waitFor(() => expect(condition()).toBe(true), { timeout: 10_000, interval: 10 });
const only = (router: LinkRouter) => router.links.links()[0]!;

describe.each(["127.0.0.1", "::1"])("over %s", (host) => {
  async function startRouter(id: string, o: Partial<Parameters<typeof startLinkRouter>[1]> = {}): Promise<LinkRouter> {
    const router = await startLinkRouter(id, { host, identity: identities.get(id)!, ...o });
    running.push(router);
    return router;
  }

  describe("a link between two routers", () => {
    it("is one for both, verified by the leaf's fingerprint, with its connections filled up and measured", async () => {
      const alpha = await startRouter("alpha", { dialers: [dialer] });
      const beta = await startRouter("beta");
      alpha.links.peersChanged([healthy(beta)]);
      await until(() => alpha.links.links().length === 1 && beta.links.links().length === 1);
      expect(only(alpha).id).toBe(only(beta).id);
      expect([only(alpha).isDialed, only(beta).isDialed, only(beta).peerId]).toEqual([true, false, "alpha"]);
      expect(beta.verified).toEqual([["alpha", identities.get("alpha")!.leafFingerprint]]);
      await until(() => only(beta).count(LinkUnderlay.Default) === 3 && only(beta).count(LinkUnderlay.Ack) === 1);
      await until(() => alpha.reported.some(([what]) => what === "measured"));
      expect(only(alpha).latency.mean).toBeGreaterThan(0);
      await until(() => alpha.reported.some(([what]) => what === "connections"));
      expect(alpha.reported[0]?.[0]).toBe("established");
      const [connection] = only(alpha).connections();
      const mirrored = only(beta)
        .connections()
        .find((other) => other.remoteAddr === connection?.localAddr);
      expect(mirrored).toEqual({ ...connection, localAddr: connection?.remoteAddr, remoteAddr: connection?.localAddr });
      // Only the dialling side reports.
      expect(beta.reported.map(([what]) => what)).not.toContain("established");
    });

    it("comes back with the same id and the next iteration after it broke", async () => {
      const alpha = await startRouter("alpha", { dialers: [dialer] });
      const beta = await startRouter("beta");
      alpha.links.peersChanged([healthy(beta)]);
      await until(() => alpha.links.links().length === 1);
      const first = only(alpha);
      first.close();
      await until(() => alpha.links.links()[0]?.iteration === 2 && beta.links.links()[0]?.iteration === 2);
      expect(only(alpha).id).toBe(first.id);
      expect(alpha.reported.filter(([what]) => what === "failed").map(([, link]) => link.iteration)).toEqual([1]);
      expect(alpha.forwarded.get(first.id)?.iteration).toBe(2);
    });

    it("is settled to one when both dial, the same on both sides", async () => {
      const alpha = await startRouter("alpha", { dialers: [dialer] });
      const beta = await startRouter("beta", { dialers: [dialer] });
      alpha.links.peersChanged([healthy(beta)]);
      beta.links.peersChanged([healthy(alpha)]);
      await until(() => alpha.links.links().length === 1 && beta.links.links().length === 1);
      await until(() => only(alpha).id === only(beta).id);
      expect(only(alpha).key).toBe("default->tls:beta->default");
      const states = [...alpha.links.states(), ...beta.links.states()];
      await until(() => states.every((state) => state.status === "established"));
    });

    it.each([
      ["an older router", "v1.6.0", true, "split"],
      ["an older router with split: false", "v1.6.0", false, "single"],
      ["a development build", "v0.0.0", true, "grouped"],
    ])("takes the form that %s understands", async (_who, version, split, form) => {
      const alpha = await startRouter("alpha", { dialers: [{ ...dialer, split }] });
      const beta = await startRouter("beta");
      alpha.links.peersChanged([healthy(beta, { version })]);
      await until(() => alpha.links.links().length === 1 && beta.links.links().length === 1);
      expect([only(alpha).form, only(beta).form]).toEqual([form, form]);
      // Both halves end together.
      only(beta).close();
      await until(() => beta.links.links()[0]?.iteration === 2);
    });

    it("outlives lost connections, which are dialled again without the startup delay", async () => {
      const alpha = await startRouter("alpha", { dialers: [{ ...dialer, startupDelay: 300 }] });
      const beta = await startRouter("beta");
      alpha.links.peersChanged([healthy(beta)]);
      await until(() => alpha.links.links()[0]?.count(LinkUnderlay.Default) === 3);
      const link = only(alpha);
      for (let round = 0; round < 3; round++) {
        link.channel.underlays[0]?.close();
        await until(() => link.count(LinkUnderlay.Default) === 3 && only(beta).count(LinkUnderlay.Default) === 3);
      }
      expect([link.isClosed, only(alpha).iteration]).toEqual([false, 1]);
    });

    it("ends on a fault of its iteration, not on one of an earlier link", async () => {
      const alpha = await startRouter("alpha", { dialers: [dialer] });
      const beta = await startRouter("beta");
      alpha.links.peersChanged([healthy(beta)]);
      await until(() => beta.links.links().length === 1);
      const link = only(beta);
      expect(link.iteration).toBe(1);
      Object.assign(link, { iteration: 5 });
      beta.links.fault(link.id, 4);
      expect(link.isClosed).toBe(false);
      beta.links.fault(link.id, 5);
      expect(link.isClosed).toBe(true);
    });
  });

  describe("no link comes about", () => {
    it("when no controller vouches for the dialer; it is tried again with a pause", async () => {
      const alpha = await startRouter("alpha", { dialers: [dialer] });
      const beta = await startRouter("beta", { verify: () => Promise.reject(new Error("no controller is connected")) });
      alpha.links.peersChanged([healthy(beta)]);
      await until(() => beta.verified.length >= 2);
      expect([alpha.links.links(), beta.links.links()]).toEqual([[], []]);
      expect(alpha.links.states()[0]?.retryDelay).toBeGreaterThanOrEqual(50);
    });

    it("with a certificate of another authority, however it names itself", async () => {
      const stranger = await (await TestAuthority.create("Stranger")).identity("alpha");
      const trusting = { ...stranger, ...{ anchors: identities.get("alpha")!.anchors } } as Identity;
      const beta = await startRouter("beta");
      const alpha = await startRouter("alpha", { dialers: [dialer], identity: trusting });
      alpha.links.peersChanged([healthy(beta)]);
      await until(() => alpha.links.states()[0]?.status === "dialFailed");
      expect(beta.verified).toEqual([]);
      expect(beta.links.links()).toEqual([]);
    });

    it("when another router answers than the one meant", async () => {
      const alpha = await startRouter("alpha", { dialers: [dialer] });
      const beta = await startRouter("beta");
      alpha.links.peersChanged([{ ...healthy(beta), id: "gamma" }]);
      await until(() => alpha.links.states()[0]?.status === "dialFailed");
      expect(alpha.forwarded.size).toBe(0);
    });

    it("0.23.0: when a router answers with the id of the one meant, but another router's certificate", async () => {
      const alpha = await startRouter("alpha", { dialers: [dialer] });
      const beta = await startRouter("beta", { routerId: "gamma" });
      alpha.links.peersChanged([{ ...healthy(beta), id: "gamma" }]);
      await until(() => alpha.links.states()[0]?.status === "dialFailed");
      expect(alpha.forwarded.size).toBe(0);
    });

    it("0.23.0: under the id of a link to another router: that one stays in use", async () => {
      const alpha = await startRouter("alpha", { dialers: [dialer] });
      const beta = await startRouter("beta");
      alpha.links.peersChanged([healthy(beta)]);
      await until(() => beta.links.links().length === 1);
      const { id } = only(beta);
      const taking = await dialLink(
        {
          linkId: id,
          iteration: 9,
          form: "single",
          peerId: "beta",
          peerVersion: "v1.6.20",
          address: beta.address,
          dialerBinding: "",
          timeoutMs: 3000,
        },
        {
          routerId: "gamma",
          identity: identities.get("gamma")!,
          log: silentLogger,
          signal: AbortSignal.timeout(10_000),
        },
      );
      await taking.channel.closed;
      expect(beta.forwarded.get(id)?.peerId).toBe("alpha");
      expect(beta.links.links().map((link) => link.peerId)).toEqual(["alpha"]);
      expect(only(alpha).isClosed).toBe(false);
    });

    it("without a group in common, to itself, or to no router", async () => {
      const alpha = await startRouter("alpha", { dialers: [dialer] });
      const beta = await startRouter("beta");
      alpha.links.peersChanged([healthy(beta, { groups: ["other"] }), healthy(alpha)]);
      expect(alpha.links.states()).toEqual([]);
    });
  });

  describe("what controllers say of a peer", () => {
    it("unhealthy leaves its links; removed closes and forgets them", async () => {
      const alpha = await startRouter("alpha", { dialers: [dialer] });
      const beta = await startRouter("beta");
      alpha.links.peersChanged([healthy(beta)]);
      await until(() => alpha.links.links().length === 1);
      const link = only(alpha);
      const gone = { version: "", listeners: [] };
      alpha.links.peersChanged([{ id: "beta", state: "unhealthy", ...gone }]);
      expect(link.isClosed).toBe(false);
      alpha.links.peersChanged([{ id: "beta", state: "removed", ...gone }]);
      expect([link.isClosed, alpha.links.states(), alpha.links.peers()]).toEqual([true, [], []]);
      await until(() => beta.links.links().length === 0);
    });

    it("another address moves the link there", async () => {
      const alpha = await startRouter("alpha", { dialers: [dialer] });
      const beta = await startRouter("beta");
      const elsewhere = await startRouter("elsewhere", { routerId: "beta", identity: identities.get("beta")! });
      alpha.links.peersChanged([healthy(beta)]);
      await until(() => beta.links.links().length === 1);
      alpha.links.peersChanged([{ ...healthy(elsewhere), id: "beta" }]);
      await until(() => elsewhere.links.links().length === 1 && alpha.links.links().length === 1);
      expect(only(alpha).dialAddress).toBe(elsewhere.address);
    });

    it("another address counts even while the old one is being dialled", async () => {
      const alpha = await startRouter("alpha", { dialers: [dialer] });
      const beta = await startRouter("beta");
      const elsewhere = await startRouter("elsewhere", { routerId: "beta", identity: identities.get("beta")! });
      alpha.links.peersChanged([healthy(beta)]);
      alpha.links.peersChanged([{ ...healthy(elsewhere), id: "beta" }]);
      await until(() => alpha.links.links()[0]?.dialAddress === elsewhere.address);
      await until(() => beta.links.links().length === 0);
    });
  });
});
