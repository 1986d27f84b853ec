import { expect, test } from "vitest";
import { unlessHanging } from "./hanging.ts";
import { pause } from "./waits.ts";

const never = new Promise<never>(() => {});
const hangs = () => new Error("it hangs");

test("work at a server that answers nothing is withdrawn when another one could do it", async () => {
  let withdrawn: unknown;
  const work = (signal: AbortSignal) => {
    signal.addEventListener("abort", () => {
      withdrawn = signal.reason;
    });
    return never;
  };
  const asked = unlessHanging({ work, patienceMs: 5, answers: async () => false, hasAlternative: () => true, hangs });
  await expect(asked).rejects.toThrow("it hangs");
  expect(withdrawn).toMatchObject({ message: "it hangs" });
});

test("a server that answers something is asked again later each time, and keeps the work", async () => {
  const times: number[] = [];
  const answers = async () => {
    times.push(performance.now());
    return true;
  };
  const done = Promise.withResolvers<string>();
  const asked = unlessHanging({ work: () => done.promise, patienceMs: 40, answers, hasAlternative: () => true, hangs });
  while (times.length < 3) await pause(5);
  done.resolve("done");
  expect(await asked).toBe("done");
  const [, second = 0, third = 0] = times;
  expect(third - second).toBeGreaterThan(100);
});

test("work stays where it is while no other server could do it; one that comes is seen", async () => {
  let isThere = false;
  let probes = 0;
  const answers = async () => {
    probes++;
    return false;
  };
  const asked = unlessHanging({ work: () => never, patienceMs: 5, answers, hasAlternative: () => isThere, hangs });
  await pause(50);
  expect(probes).toBe(0);
  isThere = true;
  await expect(asked).rejects.toThrow("it hangs");
  expect(probes).toBe(1);
});

test("what the work rejects with is the outcome, and nothing is asked after it", async () => {
  let probes = 0;
  const answers = async () => {
    probes++;
    return false;
  };
  const work = async () => {
    throw new Error("refused");
  };
  await expect(unlessHanging({ work, patienceMs: 5, answers, hasAlternative: () => true, hangs })).rejects.toThrow(
    "refused",
  );
  await pause(30);
  expect(probes).toBe(0);
});
