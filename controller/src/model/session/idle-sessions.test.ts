/** Sessions in use at one of two controllers on one database: the other one sees activity only once it is written. */
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { startTestController, type TestController } from "../../api/testing/test-controller.ts";

let one: TestController;
let other: TestController;
const liveReplicas = () => 2;
beforeAll(async () => {
  one = await startTestController({ liveReplicas });
  other = await startTestController({ beside: one, liveReplicas });
});
afterAll(async () => {
  await other.close();
  await one.close();
});
afterEach(() => {
  one.clock.offsetMs = 0;
});

const minutes = (n: number) => {
  one.clock.offsetMs = n * 60_000;
};
const use = async (at: TestController, token: string) =>
  (await at.call("GET", "/edge/client/v1/current-api-session", { token })).status;
const ids = async () =>
  (await one.ctx.store.db.selectFrom("api_session").select("token").execute()).map((row) => row.token);

it("a session that is in use at one is not ended by the other, and counts there, before the activity is written and after", async () => {
  const token = await one.login("admin", "admin");
  minutes(29);
  expect(await use(one, token)).toBe(200);
  // Within the period in which the first one has not written it yet.
  minutes(32.5);
  await other.model.apiSessions.sweep();
  expect(await ids()).toContain(token);
  await one.model.apiSessions.flush();
  minutes(61);
  await other.model.apiSessions.sweep();
  expect([await use(other, token), await use(one, token)]).toEqual([200, 200]);
});

it("a token is good at the other one although its controller has written no activity for as long as the timeout", async () => {
  const token = await one.login("admin", "admin");
  minutes(29);
  expect(await use(one, token)).toBe(200);
  minutes(32.5);
  expect(await use(other, token)).toBe(200);
});

it("an idle session ends three minutes after the timeout, at each of them", async () => {
  const token = await one.login("admin", "admin");
  minutes(33.1);
  expect([await use(other, token), await use(one, token)]).toEqual([401, 401]);
  await other.model.apiSessions.sweep();
  expect(await ids()).not.toContain(token);
});
