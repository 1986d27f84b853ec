import { ApiError } from "@sallyport/api";
import { expect, it } from "vitest";
import { withinRequest } from "../store/request-signal.ts";
import { WorkLimit } from "./work-limit.ts";

/** Work of callers that goes on until the test ends it, and what began and was refused so far. */
function worked(limits: { atATime: number; inLine: number }) {
  const limit = new WorkLimit({ ...limits, retryAfterSeconds: 1 });
  const started: string[] = [];
  const refused: string[] = [];
  const ends: (() => void)[] = [];
  const ask = (name: string, more: { isAdministrator?: boolean; signal?: AbortSignal } = {}) => {
    const { isAdministrator = false, signal = new AbortController().signal } = more;
    const caller = { key: name.slice(0, 1), isAdministrator };
    const work = () => {
      started.push(name);
      return new Promise<void>((resolve) => ends.push(resolve));
    };
    return withinRequest(
      { signal, caller },
      () => limit.run(work),
      async () => undefined,
    ).catch(() => refused.push(name));
  };
  /** Ends the oldest work that is running. */
  const endOne = async () => {
    ends.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { started, refused, ask, endOne };
}

it("serves callers in turn, however much one has asked for", async () => {
  const { started, ask, endOne } = worked({ atATime: 1, inLine: 10 });
  for (const name of ["a0", "a1", "a2", "b0", "c0"]) void ask(name);
  for (let i = 0; i < 4; i++) await endOne();
  expect(started).toEqual(["a0", "a1", "b0", "c0", "a2"]);
});

it("takes a full line's places from who has most in it", async () => {
  const { started, refused, ask, endOne } = worked({ atATime: 1, inLine: 3 });
  for (const name of ["a0", "a1", "a2", "a3", "b0", "c0", "a4", "d0"]) void ask(name);
  await endOne();
  expect(refused.sort()).toEqual(["a2", "a3", "a4", "d0"]);
  for (let i = 0; i < 2; i++) await endOne();
  expect(started).toEqual(["a0", "a1", "b0", "c0"]);
});

it("keeps administrators waiting for no other caller", async () => {
  const { started, refused, ask } = worked({ atATime: 1, inLine: 1 });
  for (const name of ["a0", "b0", "c0"]) void ask(name);
  void ask("admin", { isAdministrator: true });
  await new Promise((resolve) => setImmediate(resolve));
  expect([started, refused]).toEqual([["a0", "admin"], ["c0"]]);
});

it("does nothing for a request whose caller has left the line", async () => {
  const { started, refused, ask, endOne } = worked({ atATime: 1, inLine: 2 });
  const left = new AbortController();
  void ask("a0");
  void ask("b0", { signal: left.signal });
  void ask("c0");
  left.abort();
  await endOne();
  await ask("d0", { signal: left.signal });
  expect([started, refused]).toEqual([
    ["a0", "c0"],
    ["b0", "d0"],
  ]);
});

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
