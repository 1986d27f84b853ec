import type { EdgeConnection } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { describeDials } from "./bytes/dials.ts";
import { describeEnds } from "./bytes/ends.ts";
import { BytesScene, IDLE_MS, MIB } from "./bytes/scene.ts";
import { describeStreams } from "./bytes/streams.ts";

// One network for all of them: meanwhile, a circuit without traffic gets old.
const scene = new BytesScene();
let idle: EdgeConnection;
let idleSince: number;

beforeAll(async () => {
  await scene.start();
  idle = await scene.dial(await scene.load(scene.service("secret").clientFile), "secret", "echo");
  idleSince = performance.now();
}, 120_000);
afterAll(async () => await scene.stop());

describeStreams(scene);
describeDials(scene);
describeEnds(scene, () => idle);

describe("a circuit without traffic", () => {
  it("is still there after many rounds of the search for idle circuits", async () => {
    const left = 12 * IDLE_MS - (performance.now() - idleSince);
    if (left > 0) await new Promise((resolve) => setTimeout(resolve, left));
    await exchange(idle, 6, 4 * MIB);
  });
});
