import { ApiError } from "@sallyport/api";
import { expect, it } from "vitest";
import { WorkLimit } from "./work-limit.ts";

it("runs so many at a time, keeps others in line in their order, and refuses the rest at once", async () => {
  const limit = new WorkLimit({ atATime: 2, inLine: 2, retryAfterSeconds: 3 });
  const started: number[] = [];
  const ends: (() => void)[] = [];
  const work = (n: number) =>
    limit.run(async () => {
      started.push(n);
      await new Promise<void>((resolve) => ends.push(resolve));
      return n;
    });
  const results = [work(0), work(1), work(2), work(3)];
  expect(started).toEqual([0, 1]);
  const refused = await work(4).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(ApiError);
  expect(refused).toMatchObject({ status: 429, code: "SERVER_TOO_MANY_REQUESTS", headers: { "retry-after": "3" } });
  ends[1]?.();
  expect(await results[1]).toBe(1);
  expect(started).toEqual([0, 1, 2]);
  ends[0]?.();
  await results[0];
  expect(started).toEqual([0, 1, 2, 3]);
  for (const end of ends) end();
  expect(await Promise.all(results)).toEqual([0, 1, 2, 3]);
});

it("work that fails gives its place back", async () => {
  const limit = new WorkLimit({ atATime: 1, inLine: 0, retryAfterSeconds: 1 });
  await expect(limit.run(async () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(await limit.run(async () => "yes")).toBe("yes");
});
