import { createHook } from "node:async_hooks";
import { expect, test } from "vitest";
import type { NativeSockets } from "./native-sockets.ts";
import { FlowSocket } from "./packet-filter-capture.ts";

test("a destination that cannot be sent from leaves no socket behind, however often it is asked for", () => {
  let sockets = 0;
  const hook = createHook({
    init: (_id, type) => {
      if (type === "UDPWRAP") sockets++;
    },
  }).enable();
  const native: Pick<NativeSockets, "bindUdp"> = {
    bindUdp() {
      throw new Error("EMFILE");
    },
  };
  const ends = { sourceIp: "192.0.2.1", sourcePort: 1, destinationIp: "192.0.2.2", destinationPort: 2 } as const;
  const events = { message() {}, ended() {} };
  try {
    for (let i = 0; i < 10; i++) {
      expect(() => new FlowSocket({ protocol: "udp", ...ends }, events, native as NativeSockets)).toThrow("EMFILE");
    }
  } finally {
    hook.disable();
  }
  expect(sockets).toBe(0);
});
