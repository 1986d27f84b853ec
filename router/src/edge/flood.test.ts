import { EdgeType } from "@sallyport/wire";
import { afterEach, beforeEach, expect, test } from "vitest";
import { TestNetwork, type TestRouter } from "../testing/test-network.ts";
import { TestSdk } from "../testing/test-sdk.ts";

let network: TestNetwork;
let router: TestRouter;
const sdks: TestSdk[] = [];

beforeEach(async () => {
  network = await TestNetwork.create();
  router = await network.addRouter("r1", { edge: { maxListeners: 3 } });
});

afterEach(async () => {
  for (const one of sdks.splice(0)) one.close();
  await network.close();
});

async function client(name: string): Promise<TestSdk> {
  const made = await TestSdk.connect(router.port.port, await network.client(name));
  sdks.push(made);
  return made;
}

test("an SDK has so many listeners and no more, until it gives one up; others are not concerned", async () => {
  for (let i = 1; i <= 5; i++) network.sessions.set(`bind-${i}`, { service: `s-${i}`, type: "Bind" });
  const [greedy, modest] = [await client("greedy"), await client("modest")];
  const first = await greedy.bind("bind-1");
  await greedy.bind("bind-2");
  await greedy.bind("bind-3");
  const { answer } = await greedy.requestBind("bind-4");
  expect([answer.contentType, answer.body.toString()]).toEqual([
    EdgeType.StateClosed,
    "this client has 3 listeners here, which is the most one may have",
  ]);
  await modest.bind("bind-5");
  const closed = greedy.whenStateClosed(first);
  greedy.unbind(first);
  await closed;
  await greedy.bind("bind-4");
});
