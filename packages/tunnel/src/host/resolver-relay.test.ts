import { describe, expect, it } from "vitest";
import type { OverlayConnection } from "../overlay.ts";
import { AllowedAddresses } from "./allowed-addresses.ts";
import { ResolverRelay } from "./resolver-relay.ts";

describe("a circuit of questions", () => {
  it("takes no more questions while the dialer takes no answers", async () => {
    let written = 0;
    let resumed = 0;
    const connection: OverlayConnection = {
      circuitId: "c1",
      maxMessage: 65_507,
      start: () => {},
      write: () => {
        written++;
        return false;
      },
      endWriting: () => {},
      resume: () => void resumed++,
      close: () => {},
    };
    const relay = new ResolverRelay(connection, new AllowedAddresses(["a.b"]), () => {});
    const question = Buffer.from(JSON.stringify({ id: 1, question: [{ name: "not.allowed", type: 16 }] }));
    relay.start();
    let taken = 0;
    for (let i = 0; i < 1_000; i++) {
      if (relay.data(question, 0, question.length)) taken++;
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect([taken, written, resumed]).toEqual([1, 1, 0]);
    relay.writable();
    expect(resumed).toBe(1);
    expect(relay.data(question, 0, question.length)).toBe(true);
  });
});
