import { afterAll, beforeAll, expect, it } from "vitest";
import { type TestStore, testStore } from "../../store/testing/test-store.ts";
import { CodeAttempts } from "./code-attempts.ts";

const FREE = 5;

let test: TestStore;
beforeAll(async () => {
  test = await testStore();
});
afterAll(() => test.drop());

it("a free attempt does not wait for one at the same time whose failure was stored first", async () => {
  const attempts = new CodeAttempts();
  const { db } = test.store;
  const began = new Date();
  const later = new Date(began.getTime() + 20);
  for (let failures = 1; failures <= FREE; failures++) {
    await attempts.failed(db, "identity", later);
    expect(await attempts.require(db, "identity", began)).toBe(failures);
  }
  await attempts.failed(db, "identity", later);
  await expect(attempts.require(db, "identity", later)).rejects.toMatchObject({ code: "SERVER_TOO_MANY_REQUESTS" });
});
