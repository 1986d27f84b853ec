import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { afterEach, expect, test } from "vitest";
import { ROUTER_LINES } from "./routers/router-connection.ts";
import { dial, dialHeaders } from "./testing/circuit-mesh.ts";
import { TestFabric } from "./testing/test-fabric.ts";

let net: TestFabric;
afterEach(() => net.stop());

test("dials that are refused, over and over, leave a few lines in the log", async () => {
  const log = new RecordingLogger();
  net = await TestFabric.start({}, log);
  const router = await net.connect("r1");
  for (let i = 0; i < 2 * ROUTER_LINES.perReason; i++) await dial(router, dialHeaders("unknown"));
  const lines = log.entries.filter(({ level, msg }) => level !== "debug" && msg === "a router's request was refused");
  expect(lines).toHaveLength(ROUTER_LINES.perReason);
});
