import { describe, expect, it } from "vitest";
import { controllerIdOf } from "./inspect.ts";
import type { Observed, RouterStatus } from "./network-status.ts";
import { certificateState, problemsOf } from "./problems.ts";
import { controllersOf, linksOf, routersOf } from "./shaping.ts";
import { statusText } from "./status-text.ts";

const NOW = Date.parse("2026-03-01T12:00:00Z");
const DAY = 86_400_000;

const router = (name: string, more: Partial<RouterStatus> = {}): RouterStatus => ({
  ...{ id: `id-${name}`, name, isOnline: true, isEnrolled: true, disabled: false, links: 1 },
  ...more,
});

const HEALTHY: Observed = {
  network: "one",
  controllers: [{ name: "ctrl", isOnline: true, isHealthy: true, failing: [] }],
  routers: [router("r1"), router("r2")],
  links: [
    { id: "l1", from: "r1", to: "r2", protocol: "tls", state: "Connected", down: false, latencyMs: 1.5, cost: 1 },
  ],
  counts: { identities: 3 },
  certificates: [{ kind: "router", id: "id-r1", name: "r1", notAfter: "2027-01-01T00:00:00Z", state: "ok" }],
  unhostedServices: [],
  disabledIdentities: [],
  failedDials: [],
  unread: [],
};

const problems = (more: Partial<Observed>) => problemsOf({ ...HEALTHY, ...more }, NOW);

describe("the problems of a network", () => {
  it("are none while everything works", () => {
    expect(problems({})).toEqual([]);
    expect(problems({ routers: [router("r1"), router("off", { isOnline: false, disabled: true })] })).toEqual([]);
    expect(problems({ routers: [router("alone", { links: 0 })] })).toEqual([]);
  });

  it("are failures where something is offline, ended or not hosted, each with its command", () => {
    const failed = (more: Partial<Observed>) => {
      const [first, ...others] = problems(more);
      expect(others).toEqual([]);
      expect(first?.status).toBe("failed");
      return `${first?.subject} ${first?.message} | ${first?.command}`;
    };
    const sick = { name: "ctrl", isOnline: true, isHealthy: false, failing: ["database.read: no answer"] };
    expect(failed({ controllers: [sick] })).toMatch(/^controller ctrl is not healthy: database.read: no answer/);
    expect(failed({ controllers: [{ name: "c2", isOnline: false }] })).toMatch(/^controller c2 is offline/);
    const seen = new Date(NOW - 90_000).toISOString();
    expect(failed({ routers: [router("r 1", { isOnline: false, lastSeenAt: seen })] })).toMatch(
      /^router r 1 is offline, last seen 1m30s ago; .* \| sallyport describe router 'r 1'$/,
    );
    const link = { id: "l1", from: "r1", to: "r2", protocol: "tls", state: "Failed", latencyMs: 0, cost: 1 };
    expect(failed({ links: [{ ...link, down: false }] })).toContain("link r1 – r2 is failed");
    const offline = router("r2", { isOnline: false });
    expect(failed({ links: [{ ...link, down: false }], routers: [router("r1"), offline] })).toMatch(/^router r2/);
    const ended = { kind: "ca", id: "c", name: "old", notAfter: "2026-02-01T00:00:00Z", state: "ended" } as const;
    expect(failed({ certificates: [ended] })).toBe("ca old the certificate ended 28d ago | sallyport describe ca old");
    const host = { id: "h", name: "backend" };
    expect(failed({ unhostedServices: [{ id: "s", name: "-web", host }] })).toBe(
      "service -web is not hosted; backend may host it | sallyport why backend s --type bind",
    );
  });

  it("are warnings where somebody is kept out on purpose, or may be soon", () => {
    const at = new Date(NOW - 5_000).toISOString();
    const [identity, service] = [
      { id: "i", name: "it's" },
      { id: "s", name: "web" },
    ];
    const dial = { identity, service, type: "Dial", code: "X", message: "refused", count: 2, at };
    const expired = { isOnline: false, isEnrolled: false, enrollmentExpiresAt: "2026-02-01T00:00:00Z" };
    const found = problems({
      routers: [router("r1", { links: 0 }), router("r2"), router("new", { isOnline: false, isEnrolled: false })],
      certificates: [{ kind: "controller", id: "f", name: "c", notAfter: "2026-03-03T12:00:00Z", state: "ends soon" }],
      unhostedServices: [service],
      disabledIdentities: [{ ...identity, until: "2026-03-01T13:00:00Z" }],
      failedDials: [dial],
    });
    expect(found.map(({ status }) => status)).toEqual(Array(6).fill("warning"));
    const text = found.map(({ subject, message, command = "" }) => `${subject} ${message} | ${command}`).join("\n");
    expect(text).toContain("router r1 has no link");
    expect(text).toContain("router new is not enrolled yet");
    expect(text).toContain("controller c the certificate ends in 2d");
    expect(text).toContain("service web is not hosted, and no identity may host it");
    expect(text).toContain("disabled until 2026-03-01T13:00:00Z");
    expect(text).toContain("could not dial web 5s ago, 2 times: refused | sallyport why 'it'\\''s' web");
    expect(problems({ routers: [router("late", expired)] })[0]?.command).toBe(
      "sallyport api POST /edge-routers/id-late/re-enroll",
    );
  });

  it("say how many the lists leave out", () => {
    const found = problems({
      counts: { unhostedServices: 30, disabledIdentities: 1 },
      unhostedServices: [{ id: "s", name: "s" }],
    });
    expect(found.map(({ subject, message }) => `${subject}: ${message}`)).toEqual([
      "service s: is not hosted, and no identity may host it",
      "services: 29 more are not hosted",
      "identities: 1 more are disabled",
    ]);
  });

  it("have failures first", () => {
    const found = problems({
      disabledIdentities: [{ id: "i", name: "i" }],
      controllers: [{ name: "c", isOnline: false }],
    });
    expect(found.map(({ status }) => status)).toEqual(["failed", "warning"]);
  });
});

describe("a certificate", () => {
  it.each([
    [365, 100, false, "ok"],
    [365, 29, false, "ends soon"],
    [365, 29, true, "ok"],
    [365, 4, true, "ends soon"],
    [365, 0, true, "ended"],
    [1, 0.3, true, "ok"],
    [1, 0.1, true, "ends soon"],
  ])("for %s days is with %s days left (renewed: %s) %s", (lifetime, left, isRenewed, state) => {
    const validToDate = new Date(NOW + left * DAY);
    const validFromDate = new Date(validToDate.getTime() - lifetime * DAY);
    expect(certificateState({ validFromDate, validToDate }, isRenewed, NOW)).toBe(state);
  });

  it("names the controller, unless it is somebody else's", () => {
    const named = (subjectAltName: string) => controllerIdOf({ subjectAltName } as never);
    expect(named("DNS:localhost, URI:spiffe://net/controller/ctrl.1, IP:1.2.3.4")).toBe("ctrl.1");
    expect(named("DNS:localhost, URI:spiffe://net/router/r1")).toBeUndefined();
    expect(controllerIdOf(undefined)).toBeUndefined();
  });
});

describe("answers of the APIs", () => {
  it("become routers with their links and times, transit routers among them", () => {
    const end = (id: string) => ({ id, name: id, _links: {} });
    const link = {
      id: "l",
      sourceRouter: end("a"),
      destRouter: end("b"),
      state: "Connected",
      sourceLatency: 2e6,
      destLatency: 4e6,
    };
    const found = routersOf({
      routers: [
        { id: "a", name: "a", connected: true, fingerprint: "f", versionInfo: { version: "1.0" } },
        { id: "b", name: "b", connected: false, fingerprint: null },
        { id: "c.1", name: "c", connected: false, fingerprint: "f" },
      ],
      edgeRouters: [{ id: "b", name: "b", isVerified: true, isOnline: false, version: "" }],
      links: [link, { ...link, down: true }],
      inspected: {
        "connected-routers": [{ Id: "a", ConnectTime: "2026-01-01T00:00:00Z" }],
        "routers-last-seen": { b: "2026-01-02T00:00:00Z", "c.1": "2026-01-03T00:00:00Z" },
      },
    });
    expect(found).toEqual([
      { ...router("a"), id: "a", version: "1.0", connectedAt: "2026-01-01T00:00:00Z" },
      { ...router("b"), id: "b", isOnline: false, lastSeenAt: "2026-01-02T00:00:00Z" },
      { ...router("c"), id: "c.1", isOnline: false, links: 0, lastSeenAt: "2026-01-03T00:00:00Z" },
    ]);
    expect(linksOf([link])).toMatchObject([{ from: "a", to: "b", latencyMs: 3 }]);
    expect(linksOf([{ ...link, sourceLatency: 65e9, destLatency: 0 }])[0]).not.toHaveProperty("latencyMs");
    const failed = { ...link, id: "f", sourceRouter: end("b"), destRouter: end("a"), state: "Failed" };
    expect(linksOf([failed, link])).toMatchObject([{ id: "l" }]);
    expect(linksOf([failed])).toMatchObject([{ id: "f", state: "Failed" }]);
  });

  it("may have the wrong form: what cannot be read is left out", () => {
    const parts = { routers: [{ id: "a", name: "a" }], edgeRouters: [], links: [] };
    expect(routersOf({ ...parts, inspected: { "connected-routers": "x", "routers-last-seen": 3 } })).toHaveLength(1);
    expect(
      controllersOf({
        controllers: [],
        version: undefined,
        health: undefined,
        inspected: {},
        id: undefined,
        url: "https://h:1",
      }),
    ).toEqual([{ name: "h:1", url: "https://h:1", isOnline: true }]);
  });
});

describe("the screen", () => {
  const shown = async (more: Partial<Observed>, isWide = false, width?: number) => {
    const observed = { ...HEALTHY, ...more };
    const status = { ...observed, problems: problemsOf(observed, NOW) };
    return await statusText(status, { isWide, width, emphasis: (text) => text, now: NOW });
  };

  it("begins with the verdict, and names what is not known", async () => {
    const text = await shown({ unread: [{ part: "links", reason: "no \u001b[31mright" }] });
    expect(text).toMatch(/^one: nothing fails\n3 identities\n/);
    expect(text).toMatch(/^r1 +r2 +ok +1.50 ms +1 +tls$/m);
    expect(text).toMatch(/^not known: links: no \\x1b\[31mright$/m);
    expect(text).not.toContain("PROBLEMS");
  });

  it("has those that fail first, and no more rows than fit, unless asked", async () => {
    const routers = [...Array(30).keys()].map((index) => router(`r${index}`, { isOnline: index !== 25 }));
    const text = await shown({ routers });
    expect(text).toMatch(/^one: 1 thing fails\n/);
    expect(text).toMatch(/^ROUTER .*\nr25 +OFFLINE/m);
    expect(text).toContain("… and 18 more: -o wide shows them");
    expect(await shown({ routers }, true)).toMatch(/^r29 +online/m);
  });

  it("has some problems of each kind, so that many of one hide no other", async () => {
    const unhostedServices = [...Array(20).keys()].map((index) => ({ id: `s${index}`, name: `s${index}` }));
    const more = { unhostedServices, disabledIdentities: [{ id: "i", name: "i" }] };
    const text = await shown(more);
    expect(text.match(/warning {2}service/g)).toHaveLength(3);
    expect(text).toContain("identity i: cannot log in");
    expect(text).toContain("… and 17 more: -o wide shows them");
    expect((await shown(more, true)).match(/warning {2}service/g)).toHaveLength(20);
  });

  it("fits the terminal", async () => {
    const text = await shown(
      { routers: [router("a-router-with-a-very-long-name-".repeat(4), { version: "v1" })] },
      false,
      60,
    );
    for (const line of text.split("\n")) expect(line.length).toBeLessThanOrEqual(60);
  });
});
