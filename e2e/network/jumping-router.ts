/**
 * A router whose system clock jumps by a day, as an administrator sets it: ahead with the first SIGHUP, back to the day before with the next,
 * and so on; with SIGUSR2 it is right again. What goes by the steady clock (timers, `performance.now()`) goes on, as it does in the kernel.
 */
const System = Date;
const DAY_MS = 86_400_000;
let jump = 0;

class JumpingDate extends System {
  constructor(...parts: [] | [number]) {
    super(...((parts.length === 0 ? [System.now() + jump] : parts) as [number]));
  }

  static override now(): number {
    return System.now() + jump;
  }
}

globalThis.Date = JumpingDate as DateConstructor;
const jumpBy = (ms: number): void => {
  jump = ms;
  console.log(`the clock has jumped to ${new Date().toISOString()}`);
};
process.on("SIGHUP", () => jumpBy(jump > 0 ? -DAY_MS : DAY_MS));
process.on("SIGUSR2", () => jumpBy(0));
await import("../../router/src/main.ts");
