import { expect, test } from "vitest";
import { HandshakeDebts } from "./handshake-debts.ts";

test("an address is shut while it owes too much, and time pays", () => {
  let now = 0;
  const debts = new HandshakeDebts(() => now);
  debts.charge("192.0.2.1", 90);
  expect(debts.shutFor("192.0.2.1")).toBe(0);
  debts.charge("192.0.2.1", 310);
  expect(debts.shutFor("192.0.2.1")).toBe(6_000);
  expect(debts.shutFor("192.0.2.2")).toBe(0);
  now += 2_000;
  expect(debts.shutFor("::ffff:192.0.2.1")).toBe(4_000);
  now += 4_000;
  expect(debts.shutFor("192.0.2.1")).toBe(0);
  debts.charge("192.0.2.1", 1);
  expect(debts.shutFor("192.0.2.1")).toBe(20);
  expect(debts.shutFor("192.0.2.1", 9)).toBe(200);
});

test("who has waited as long as he was told is served, whatever fractions he owed", () => {
  let now = 0;
  const debts = new HandshakeDebts(() => now);
  for (let ms = 100.1; ms < 400; ms += 0.37) {
    debts.charge("192.0.2.1", ms);
    now += debts.shutFor("192.0.2.1");
    expect(debts.shutFor("192.0.2.1")).toBe(0);
    now += 10_000;
  }
});

test("an IPv6 network of 64 bits is one address", () => {
  const debts = new HandshakeDebts(() => 0);
  for (let host = 1; host <= 4; host++) debts.charge(`2001:db8:1:2::${host}`, 50);
  expect(debts.shutFor("2001:db8:1:2:a:b:c:d")).toBe(2_000);
  expect(debts.shutFor("2001:db8:1:3::1")).toBe(0);
});

test("it keeps a bounded number of addresses, those charged last", () => {
  const debts = new HandshakeDebts(() => 0);
  debts.charge("192.0.2.1", 200);
  debts.charge("192.0.2.2", 200);
  debts.charge("192.0.2.1", 1);
  for (let i = 0; i < 4_095; i++) debts.charge(`10.0.${i >> 8}.${i & 255}`, 200);
  expect(debts.shutFor("192.0.2.2")).toBe(0);
  expect(debts.shutFor("192.0.2.1")).toBeGreaterThan(0);
});
