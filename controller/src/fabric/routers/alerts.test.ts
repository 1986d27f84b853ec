import { create } from "@bufbuild/protobuf";
import { ControlType, ctrlPb, encodeControl } from "@sallyport/wire";
import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { expect, test } from "vitest";
import type { RouterAlert } from "../fabric-events.ts";
import { TestFabric } from "../testing/test-fabric.ts";
import { AlertLimit, MAX_ALERTS_BYTES, routerAlerts } from "./alerts.ts";

type Alert = Parameters<typeof create<typeof ctrlPb.AlertSchema>>[1];
const alertsOf = (...alerts: Alert[]) => {
  const body = create(ctrlPb.AlertsSchema, { alerts: alerts.map((alert) => create(ctrlPb.AlertSchema, alert)) });
  return routerAlerts("r1", body);
};

test("an alert is of the router that sends it, and so is what it calls its own", () => {
  const alert = {
    ...{ sourceType: "router", sourceId: "another", timestamp: 1_700_000_000_000n, severity: "error" },
    ...{ message: "cannot listen", details: ["no address"], relatedEntities: { self: "ert", service: "s1" } },
  };
  expect(alertsOf(alert)).toEqual([
    {
      ...{ sourceType: "router", sourceId: "r1", severity: "error", message: "cannot listen", details: ["no address"] },
      at: new Date(1_700_000_000_000),
      relatedEntities: { router: "r1", identity: "r1", service: "s1" },
    },
  ]);
  expect(alertsOf({ relatedEntities: { self: "self" } })).toMatchObject([{ relatedEntities: { router: "r1" } }]);
  expect(alertsOf({ relatedEntities: { service: "s1" } })).toMatchObject([{ relatedEntities: { service: "s1" } }]);
});

test("what a router can have kept of an alert is bounded", () => {
  const long = "x".repeat(5_000);
  const relatedEntities = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`${long}${i}`, long]));
  const [alert, ...others] = alertsOf(
    ...Array(150).fill({ message: long, severity: long, details: Array(200).fill(long), relatedEntities }),
  );
  expect(others).toHaveLength(99);
  expect(alert?.message).toHaveLength(4_096);
  expect(alert?.severity).toHaveLength(4_096);
  expect(alert?.details).toHaveLength(100);
  expect(alert?.details[0]).toHaveLength(4_096);
  expect(
    Object.entries(alert?.relatedEntities ?? {})
      .flat()
      .every((text) => text.length <= 4_096),
  ).toBe(true);
  expect(alertsOf({ timestamp: 2n ** 62n })[0]?.at.getTime()).toBeLessThanOrEqual(Date.now());
});

test("ten messages of a router count in a second", () => {
  const limit = new AlertLimit();
  const taken = (now: number) => Array.from({ length: 20 }, () => limit.allows(now)).filter(Boolean).length;
  expect([taken(5_000), taken(5_999), taken(6_000)]).toEqual([10, 0, 10]);
});

/** A router, and what it causes. */
async function watched() {
  const log = new RecordingLogger();
  const net = await TestFabric.start({}, log);
  const told: RouterAlert[] = [];
  net.fabric.onEvent((event) => {
    if (event.kind === "router-alert") told.push(event.alert);
  });
  return { net, router: await net.connect("r1"), told, log };
}

test("alerts become events, and what is too often is dropped with a log line", async () => {
  const { net, router, told, log } = await watched();
  const body = encodeControl(ctrlPb.AlertsSchema, {
    alerts: [{ sourceType: "self", severity: "error", message: "m" }],
  });
  for (let i = 0; i < 12; i++) router.send(ControlType.Alerts, body);
  await router.roundTrip();
  expect(told.length).toBeLessThan(12);
  expect(told[0]).toMatchObject({ sourceType: "router", sourceId: "r1", message: "m" });
  expect(log.entries.some(({ msg }) => msg === "the router sends alerts too often; some are dropped")).toBe(true);
  await net.stop();
});

test("a message of alerts that could fill what operators store is dropped with a log line", async () => {
  const { net, router, told, log } = await watched();
  const alert = { severity: "error", message: "m", details: Array(100).fill("x".repeat(MAX_ALERTS_BYTES / 100)) };
  router.send(ControlType.Alerts, encodeControl(ctrlPb.AlertsSchema, { alerts: [alert] }));
  router.send(ControlType.Alerts, encodeControl(ctrlPb.AlertsSchema, { alerts: [{ ...alert, details: [] }] }));
  await router.roundTrip();
  expect(told.map(({ details }) => details)).toEqual([[]]);
  expect(log.entries.some(({ msg }) => msg === "the router's alerts are too large and are dropped")).toBe(true);
  await net.stop();
});
