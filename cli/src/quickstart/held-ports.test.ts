import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, expect, it } from "vitest";
import { checkLeadsHere, freePortFrom, whyNotFree } from "./addresses.ts";
import { HeldPorts } from "./held-ports.ts";

const FIRST = 21_480;
const all: HeldPorts[] = [];
afterEach(async () => {
  for (const ports of all.splice(0)) await ports.releaseAll();
});

function heldPorts(): HeldPorts {
  const ports = new HeldPorts();
  all.push(ports);
  return ports;
}

it("two that choose at the same moment choose different ports", async () => {
  const chosen = await Promise.all([1, 2, 3, 4].map(() => heldPorts().holdFrom(FIRST)));
  expect(new Set(chosen).size).toBe(4);
});

it("a held port is in use for everyone else, until it is released", async () => {
  const ports = heldPorts();
  const port = await ports.holdFrom(FIRST);
  expect(ports.has(port)).toBe(true);
  expect(await whyNotFree(port)).toBe("another program listens there");
  expect(await heldPorts().hold(port)).toBe("another program listens there");
  expect(await freePortFrom(port)).toBeGreaterThan(port);
  expect(await ports.holdFrom(port, [port + 1])).toBeGreaterThan(port + 1);
  await ports.release(port);
  expect(ports.has(port)).toBe(false);
  expect(await whyNotFree(port)).toBeUndefined();
});

it("a held port shows that a name leads to this machine, and tells nobody else anything", async () => {
  const ports = heldPorts();
  const port = await ports.holdFrom(FIRST);
  await checkLeadsHere("localhost", port, ports);
  await expect(checkLeadsHere("no-such-host.invalid", port, ports)).rejects.toThrow("cannot be resolved");
  expect(await text(connect(port, "127.0.0.1"))).toBe("");
});
