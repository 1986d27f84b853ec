import { apiError } from "@sallyport/api";
import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import { silentLogger } from "@sallyport/wire";
import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { expect, it } from "vitest";
import { startTestController } from "../api/testing/test-controller.ts";
import { Dispatcher } from "../events/dispatcher.ts";
import { readSubscription } from "../events/subscription.ts";
import { collector } from "../events/testing/collector.ts";
import { Authentication } from "./authentication.ts";
import { AuthenticationEvents } from "./authentication-events.ts";
import { refused } from "./primary/proof.ts";

it("tells of logins that succeed and that fail, and never of what was typed", async () => {
  const c = await startTestController();
  const dispatcher = new Dispatcher({ sourceId: "ctrl1", log: silentLogger });
  const output = collector();
  dispatcher.subscribe(output, [readSubscription("edge.authentications", {})]);
  try {
    const authentication = new Authentication({ ...c.ctx, events: dispatcher }, c.model, CONTROLLER_DEFAULTS.auth);
    const login = (password: string) =>
      authentication.login({
        method: "password",
        username: "admin",
        password,
        peerCertificates: [],
        bearerTokens: [],
        remoteIp: "192.0.2.7",
      });
    const { session } = await login("admin");
    await expect(login("wrong-password-1")).rejects.toThrow();
    expect(output.events).toMatchObject([
      {
        namespace: "edge.authentications",
        event_type: "success",
        type: "password",
        success: true,
        identity_id: session.identity_id,
        auth_policy_id: "default",
        remote_address: "192.0.2.7",
        reason: "",
      },
      { event_type: "fail", success: false, identity_id: "", reason: expect.stringContaining("password") },
    ]);
    expect(JSON.stringify(output.events)).not.toContain("wrong-password-1");
    new AuthenticationEvents(dispatcher, silentLogger).failed(
      { method: "cert", remoteIp: "192.0.2.8" },
      apiError("INVALID_AUTH"),
    );
    expect(output.events.at(-1)).toMatchObject({ type: "cert", reason: expect.stringMatching(/./) });
    authentication.noteFailure({ method: "refresh-token", remoteIp: "192.0.2.9" }, apiError("INVALID_AUTH"));
    expect(output.events.at(-1)).toMatchObject({ type: "refresh-token", event_type: "fail", success: false });
  } finally {
    await c.close();
  }
});

it("tells of so many failures in a minute, of each address and of all, and of as much of a claim as fits into a line", () => {
  let now = 0;
  const told: { remote_address: string; reason: string }[] = [];
  const log = new RecordingLogger();
  const events = new AuthenticationEvents(
    { emit: (event) => void told.push(event as never), wants: () => true },
    log,
    () => now,
  );
  const fail = (remoteIp: string) =>
    events.failed({ method: "ext-jwt", remoteIp }, refused(`issuer ${"x".repeat(9_999)}`));
  for (let i = 0; i < 500; i++) fail(`2001:db8::${i.toString(16)}`);
  fail("192.0.2.1");
  expect(told.map(({ remote_address }) => remote_address).slice(99)).toEqual(["2001:db8::63", "192.0.2.1"]);
  expect(told[0]?.reason).toMatch(/^issuer x+…$/);
  expect(told[0]?.reason).toHaveLength(400);
  expect(log.entries.filter(({ level }) => level !== "debug")).toHaveLength(1);
  for (let i = 0; i < 2_000; i++) fail(`198.51.${i >> 8}.${i & 255}`);
  expect(told).toHaveLength(1_000);
  now += 60_000;
  fail("192.0.2.1");
  expect(told).toHaveLength(1_001);
});
