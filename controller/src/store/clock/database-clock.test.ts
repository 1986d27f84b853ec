import { silentLogger } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStore, type Store } from "../database.ts";
import { timeOrderedId } from "../ids.ts";
import { type TestStore, testStore } from "../testing/test-store.ts";
import { DatabaseClock } from "./database-clock.ts";

describe("the clock of the database", () => {
  /** A server whose answers come when the test says so, and two own clocks. */
  function server() {
    const time = { server: 1_000_000, own: 5_000 };
    const steps: { askMs: number; answerMs: number }[] = [];
    const pass = (ms: number) => {
      time.server += ms;
      time.own += ms;
    };
    const db = {
      executeQuery: async () => {
        const { askMs, answerMs } = steps.shift() ?? { askMs: 0, answerMs: 0 };
        pass(askMs);
        const { server: at } = time;
        pass(answerMs);
        return { rows: [{ at }] };
      },
    };
    const clock = new DatabaseClock(db as unknown as Store["db"], () => time.own);
    const learn = (askMs: number, answerMs: number) => {
      steps.push({ askMs, answerMs });
      return clock.learn();
    };
    return { clock, time, pass, learn };
  }

  it("is followed by as much as each answer proves, and slow answers change nothing", async () => {
    const { clock, time, pass, learn } = server();
    await learn(1, 1);
    expect(clock.now() - time.server).toBe(0);
    await learn(0, 4_000);
    await learn(9_000, 0);
    expect(clock.now() - time.server).toBe(0);
    // The server's clock is set forward: an answer within 20 ms shows it to 20 ms.
    time.server += 60_000;
    await learn(0, 20);
    expect(time.server - clock.now()).toBeLessThanOrEqual(20);
    expect(time.server - clock.now()).toBeGreaterThanOrEqual(0);
    pass(1);
  });

  it("goes back when the server's does", async () => {
    const { clock, time, learn } = server();
    await learn(0, 0);
    time.server -= 3_600_000;
    await learn(0, 0);
    expect(clock.now()).toBe(time.server);
  });

  it("is learnt from the answer to another question, too", async () => {
    const { clock, time, pass } = server();
    await clock.heard(async () => {
      pass(10);
      return time.server;
    });
    expect(Math.abs(clock.now() - time.server)).toBeLessThanOrEqual(5);
    const before = clock.now();
    await expect(clock.heard(() => Promise.reject(new Error("no answer")))).rejects.toThrow("no answer");
    expect(clock.now()).toBe(before);
  });

  describe("of two processes", () => {
    let first: TestStore;
    let second: Store;
    beforeAll(async () => {
      first = await testStore();
      second = await openStore({ connection: first.store.connection, hold: false, poolSize: 2, log: silentLogger });
    });
    afterAll(async () => {
      await second.close();
      await first.drop();
    });

    it("gives ids that grow from one to the other, however wrong their own clocks are", async () => {
      const clocks = [
        new DatabaseClock(first.store.db, () => performance.now() + 86_400_000),
        new DatabaseClock(second.db, () => performance.now() - 86_400_000),
      ];
      // An estimate is wrong by no more than an answer takes.
      let wrongMs = 0;
      for (const clock of clocks) {
        const began = performance.now();
        await clock.learn();
        wrongMs += performance.now() - began;
      }
      const [ahead, behind] = clocks.map((clock) => clock.now()) as [number, number];
      expect(Math.abs(ahead - behind)).toBeLessThanOrEqual(wrongMs + 1);
      expect(Math.abs(first.store.clock.now() - Date.now())).toBeLessThan(60_000);
      const ids: string[] = [];
      for (let i = 0; i < 6; i++) {
        // Longer than both are wrong.
        const until = performance.now() + wrongMs + 2;
        while (performance.now() < until) await new Promise((resolve) => setImmediate(resolve));
        ids.push(timeOrderedId((clocks[i % 2] as DatabaseClock).now()));
      }
      expect(ids.toSorted()).toEqual(ids);
    });
  });
});
