import { expect, test } from "vitest";
import { PeerHealth } from "./peer-health.ts";

const healthy = (id: string) => ({ id, state: "healthy" }) as const;
const unhealthy = (id: string) => ({ id, state: "unhealthy" }) as const;

test("a router is unhealthy when the last connected controller that has it says so", () => {
  const health = new PeerHealth();
  expect([health.hear("a", healthy("r1")), health.hear("b", healthy("r1"))]).toEqual([true, true]);
  expect(health.hear("a", unhealthy("r1"))).toBe(false);
  expect(health.hear("a", unhealthy("r1"))).toBe(false);
  expect(health.hear("b", unhealthy("r1"))).toBe(true);
  expect(health.hear("b", unhealthy("r2"))).toBe(true);
});

test("what a controller said no longer counts when it is not connected", () => {
  const health = new PeerHealth();
  health.hear("a", healthy("r1"));
  health.hear("b", healthy("r1"));
  health.forget("b");
  expect(health.hear("a", unhealthy("r1"))).toBe(true);
});

test("a removed router is removed, whoever has it", () => {
  const health = new PeerHealth();
  health.hear("a", healthy("r1"));
  health.hear("b", healthy("r1"));
  expect(health.hear("a", { id: "r1", state: "removed" })).toBe(true);
  expect(health.hear("b", unhealthy("r1"))).toBe(true);
});
